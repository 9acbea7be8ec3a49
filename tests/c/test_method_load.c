// Tests of measuring and loading: memory in every size, external data, delegates, sources by
// callback, missing parts.
#define _POSIX_C_SOURCE 200809L
#include "rig.h"

// ---- Memory in every size

typedef struct exact_memory {
  et_span method, scratch, planned[4];
} exact_memory;

static et_status load_into(rig *r, const char *name, const exact_memory *m) {
  const et_method_memory memory = {.method = m->method,
                                   .scratch = m->scratch,
                                   .planned = m->planned,
                                   .n_planned = r->needs.n_planned};
  return et_method_load(&r->program, name, &r->config, &memory, &r->method, &r->err);
}

// Allocates exactly `bytes` bytes of garbage, so that a sanitizer sees an overrun.
static et_span exactly(size_t bytes) {
  et_span span = {NULL, bytes};
  if (bytes > 0 && posix_memalign(&span.data, ET_MEMORY_ALIGN, bytes) != 0) abort();
  if (bytes > 0) memset(span.data, 0xa5, bytes);
  return span;
}

// Loads with 0, 1, 2 … bytes of one kind of memory until the method loads.
static void sweep(rig *r, const char *name, exact_memory *m, et_span *piece) {
  const et_span enough = *piece;
  for (size_t n = 0; n <= enough.size; n++) {
    *piece = exactly(n);
    const et_status status = load_into(r, name, m);
    EXPECT(status == (n < enough.size ? ET_OUT_OF_MEMORY : ET_OK));
    EXPECT((status == ET_OK) == (r->method != NULL));
    et_method_close(r->method);
    r->method = NULL;
    free(piece->data);
  }
  *piece = enough;
}

static void sweep_method(rig *r, const char *name) {
  EXPECT(et_method_measure(&r->program, name, &r->config, &r->needs, &r->err) == ET_OK);
  exact_memory m = {exactly(r->needs.method_bytes), exactly(r->needs.scratch_bytes), {{0}}};
  EXPECT(r->needs.n_planned <= 4);
  for (size_t i = 0; i < r->needs.n_planned; i++) {
    size_t bytes;
    EXPECT(et_program_planned_bytes(&r->program, name, i, &bytes, &r->err) == ET_OK);
    m.planned[i] = exactly(bytes);
  }
  sweep(r, name, &m, &m.method);
  if (r->needs.scratch_bytes > 0) sweep(r, name, &m, &m.scratch);
  for (size_t i = 0; i < r->needs.n_planned; i++) sweep(r, name, &m, &m.planned[i]);
  free(m.method.data);
  free(m.scratch.data);
  for (size_t i = 0; i < r->needs.n_planned; i++) free(m.planned[i].data);
}

// An addition that needs both kinds of memory.
static et_status prepare_greedy(et_prepare_ctx *ctx, et_value *const *args) {
  (void)args;
  ctx->scratch_bytes = 100;
  ctx->state = et_prepare_alloc(ctx, 40, 64);
  return et_prepare_status(ctx);
}

static et_status run_greedy(et_kernel_ctx *ctx, et_value *const *args) {
  (void)args;
  memset(ctx->state, 0, 40);
  memset(ctx->scratch, 0, 100);
  return ctx->scratch_bytes >= 100 ? ET_OK : ET_INTERNAL;
}

static const et_op greedy_ops[] = {
    {.name = "aten::add.out", .run = run_greedy, .prepare = prepare_greedy, .n_args = 5}};
static const et_op_table greedy = {greedy_ops, 1, &et_ops_portable};

static void too_little_memory_is_refused_at_every_size(void) {
  static const char *const golden[] = {
      "add_mul.pte", "cond.pte",    "map.pte",     "dynamic_view.pte", "mutable.pte",
      "lists.pte",   "scalars.pte", "methods.pte", "unplanned.pte",    "external.pte"};
  rig d = rig_read("external.ptd");
  et_data_map map;
  const et_source source = et_source_from_memory(d.bytes, d.size);
  const et_data_map *maps[] = {&map};
  EXPECT(et_data_map_open(&map, &source, &d.err) == ET_OK);
  for (size_t f = 0; f < sizeof golden / sizeof golden[0]; f++) {
    rig r = rig_read(golden[f]);
    r.config.data_maps = maps;
    r.config.n_data_maps = 1;
    if (f == 0) r.config.ops = &greedy;
    EXPECT(rig_open(&r) == ET_OK);
    for (size_t k = 0; k < et_program_method_count(&r.program); k++)
      sweep_method(&r, et_program_method_name(&r.program, k));
    rig_end(&r);
  }
  et_data_map_close(&map);
  rig_end(&d);
}

static void an_operator_gets_the_memory_it_asked_for(void) {
  rig r = rig_read("add_mul.pte");
  r.config.ops = &greedy;
  float x[6] = {0};
  const int32_t shape[] = {2, 3};
  EXPECT(rig_start(&r, "forward") && r.needs.scratch_bytes == 100);
  EXPECT(rig_set(&r, 0, x, ET_F32, 2, shape) == ET_OK);
  EXPECT(et_method_execute(r.method, &r.err) == ET_OK);
  rig_end(&r);
}

static void planned_memory_is_checked(void) {
  rig r = rig_read("add_mul.pte");
  EXPECT(rig_start(&r, "forward"));
  et_method_close(r.method);
  r.method = NULL;
  exact_memory m = {.method = {rig_claim(&r, r.needs.method_bytes), r.needs.method_bytes},
                    .planned = {{rig_claim(&r, 16), 16}}};
  EXPECT(load_into(&r, "forward", &m) == ET_OUT_OF_MEMORY);
  EXPECT_ERROR(&r.err, ET_OUT_OF_MEMORY, "planned buffer 0: expected 96 bytes, got 16");
  const et_method_memory none = {.method = m.method};
  EXPECT(et_method_load(&r.program, "forward", &r.config, &none, &r.method, &r.err) ==
         ET_INVALID_ARGUMENT);
  m.planned[0] = (et_span){(uint8_t *)rig_claim(&r, 4096) + 8, 4000};
  EXPECT(load_into(&r, "forward", &m) == ET_INVALID_ARGUMENT);
  EXPECT_ERROR(&r.err, ET_INVALID_ARGUMENT, "multiple of 16");
  rig_end(&r);
}

static void everything_that_is_missing_is_named_at_once(void) {
  rig r = rig_read("lists.pte");
  const et_op_table nothing = {0};
  r.config.ops = &nothing;
  EXPECT(!rig_start(&r, "forward"));
  EXPECT_ERROR(&r.err, ET_OPERATOR_MISSING, "aten::cat.out");
  EXPECT_ERROR(&r.err, ET_OPERATOR_MISSING, "aten::split");
  rig_end(&r);
}

static void an_unknown_backend_is_named_with_the_known_ones(void) {
  rig r = rig_read("xnnpack.pte");
  r.config.backends = &(const et_backend_table){0};
  EXPECT(!rig_start(&r, "forward"));
  EXPECT_ERROR(&r.err, ET_NOT_FOUND, "XnnpackBackend (available:); export without its partitioner");
  rig_end(&r);
}

// ---- External data

static void external_weights_come_from_the_data_file(void) {
  rig r = rig_read("external.pte"), d = rig_read("external.ptd");
  et_data_map map;
  const et_source source = et_source_from_memory(d.bytes, d.size);
  EXPECT(et_data_map_open(&map, &source, &r.err) == ET_OK);
  EXPECT(et_data_map_count(&map) == 1 && strcmp(et_data_map_key(&map, 0), "weight") == 0);
  EXPECT(et_data_map_key(&map, 1) == NULL);
  const et_data_map *maps[] = {&map, &map};
  EXPECT(!rig_start(&r, "forward"));
  EXPECT_ERROR(&r.err, ET_INVALID_STATE, "'weight' is in an external file");
  r.config.data_maps = maps;
  r.config.n_data_maps = 2;
  EXPECT(rig_load(&r, "forward") == ET_INVALID_ARGUMENT);
  EXPECT_ERROR(&r.err, ET_INVALID_ARGUMENT, "'weight' is in external data files 0 and 1");
  r.config.n_data_maps = 1;
  EXPECT(rig_load(&r, "forward") == ET_OK);
  float x[6] = {1, 1, 1, 1, 1, 1};
  const int32_t shape[] = {2, 3};
  EXPECT(rig_set(&r, 0, x, ET_F32, 2, shape) == ET_OK);
  EXPECT(et_method_execute(r.method, &r.err) == ET_OK);
  EXPECT(((const float *)et_method_output(r.method, 0)->as.tensor->data)[5] == 6);
  rig_end(&r);
  et_data_map_close(&map);
  rig_end(&d);
}

static void a_wrong_data_file_is_refused(void) {
  rig r = rig_read("external.pte"), d = rig_read("external.ptd");
  et_data_map map;
  const et_source source = et_source_from_memory(d.bytes, d.size);
  const et_data_map *maps[] = {&map};
  r.config.data_maps = maps;
  r.config.n_data_maps = 1;
  const uint8_t *entry = rig_member(eti_fb_root(d.bytes), 2, 0);
  rig_poke_u8((const uint8_t *)eti_fb_string(entry, 0), 'W');
  EXPECT(et_data_map_open(&map, &source, &r.err) == ET_OK);
  EXPECT(!rig_start(&r, "forward"));
  EXPECT_ERROR(&r.err, ET_NOT_FOUND, "'weight'");
  et_data_map_close(&map);
  rig_poke_u8((const uint8_t *)eti_fb_string(entry, 0), 'w');
  rig_poke_u32(eti_fb_vector(eti_fb_table(entry, 2), 1).data, 3);
  EXPECT(et_data_map_open(&map, &source, &r.err) == ET_OK);
  EXPECT(rig_load(&r, "forward") == ET_INVALID_EXTERNAL_DATA);
  EXPECT_ERROR(&r.err, ET_INVALID_EXTERNAL_DATA,
               "bytes in the layout of the program's tensor, got");
  et_data_map_close(&map);
  for (size_t n = 0; n < d.size; n++) {
    const et_source cut = et_source_from_memory(d.bytes, n);
    EXPECT(et_data_map_open(&map, &cut, &r.err) ==
           (n < 64 ? ET_INVALID_ARGUMENT : ET_INVALID_EXTERNAL_DATA));
  }
  rig_end(&r);
  rig_end(&d);
}

// ---- A source that counts

typedef struct counting_source {
  const uint8_t *bytes;
  size_t n_open, n_loads, fail_at;
} counting_source;

static et_status counted_load(void *ctx, uint64_t offset, size_t size, et_blob *out,
                              et_error *err) {
  counting_source *s = ctx;
  if (++s->n_loads == s->fail_at) {
    err->status = ET_ACCESS_FAILED;
    return ET_ACCESS_FAILED;
  }
  void *copy = aligned_alloc(16, (size + 15) & ~(size_t)15);
  memcpy(copy, s->bytes + offset, size);
  out->data = copy;
  out->size = size;
  out->token = copy;
  s->n_open++;
  return ET_OK;
}

static void counted_release(void *ctx, et_blob *blob) {
  ((counting_source *)ctx)->n_open--;
  free(blob->token);
}

static void bytes_from_a_callback_are_all_released(void) {
  for (size_t fail_at = 0; fail_at < 8; fail_at++) {
    rig r = rig_read("mutable.pte");
    counting_source counter = {.bytes = r.bytes, .fail_at = fail_at};
    const et_source source = {&counter, r.size, counted_load, counted_release};
    const bool is_open = et_program_open(&r.program, &source, ET_VERIFY_FULL, &r.err) == ET_OK;
    if (is_open && rig_load(&r, "forward") == ET_OK) {
      float x[2] = {1, 1};
      const int32_t shape[] = {2};
      EXPECT(rig_set(&r, 0, x, ET_F32, 1, shape) == ET_OK);
      EXPECT(et_method_execute(r.method, &r.err) == ET_OK);
      EXPECT(((const float *)et_method_output(r.method, 0)->as.tensor->data)[0] == 6);
    } else {
      EXPECT(r.err.status == ET_ACCESS_FAILED);
    }
    rig_end(&r);
    EXPECT(counter.n_open == 0);
  }
}

// ---- Facts without loading

static void facts_are_read_without_loading(void) {
  rig r = rig_read("methods.pte");
  et_method_info info;
  et_tensor_info tensor;
  et_tag tag;
  size_t bytes;
  EXPECT(rig_open(&r) == ET_OK);
  EXPECT(strcmp(et_program_method_name(&r.program, 0), "one") == 0);
  EXPECT(et_program_method_name(&r.program, 4) == NULL);
  EXPECT(et_program_method_info(&r.program, "one", &info, &r.err) == ET_OK);
  EXPECT(info.n_inputs == 1 && info.n_outputs == 1 && info.n_instructions == 2 &&
         info.n_planned == 1);
  EXPECT(strstr(info.input_structure, "tuple") != NULL);
  EXPECT(et_program_slot_info(&r.program, "one", ET_SLOT_INPUT, 0, &tag, &tensor, &r.err) == ET_OK);
  EXPECT(tag == ET_TENSOR && tensor.dtype == ET_F32 && tensor.rank == 2 && tensor.sizes[1] == 3 &&
         tensor.bytes == 24);
  EXPECT(tensor.is_planned && !tensor.has_data && !tensor.is_dynamic && tensor.name == NULL);
  EXPECT(et_program_slot_info(&r.program, "one", ET_SLOT_INPUT, 1, &tag, &tensor, &r.err) ==
         ET_INVALID_ARGUMENT);
  EXPECT(et_program_slot_info(&r.program, "one", ET_SLOT_ATTRIBUTE, 0, &tag, &tensor, &r.err) ==
         ET_INVALID_ARGUMENT);
  EXPECT(et_program_slot_info(&r.program, "answer", ET_SLOT_OUTPUT, 0, &tag, NULL, &r.err) ==
             ET_OK &&
         tag == ET_INT);
  EXPECT(et_program_planned_bytes(&r.program, "one", 0, &bytes, &r.err) == ET_OK && bytes > 0 &&
         bytes % 16 == 0);
  EXPECT(et_program_planned_bytes(&r.program, "one", 1, &bytes, &r.err) == ET_INVALID_ARGUMENT);
  rig_end(&r);
}

static const et_test tests[] = {
    ET_CASE(too_little_memory_is_refused_at_every_size),
    ET_CASE(an_operator_gets_the_memory_it_asked_for),
    ET_CASE(planned_memory_is_checked),
    ET_CASE(everything_that_is_missing_is_named_at_once),
    ET_CASE(an_unknown_backend_is_named_with_the_known_ones),
    ET_CASE(external_weights_come_from_the_data_file),
    ET_CASE(a_wrong_data_file_is_refused),
    ET_CASE(bytes_from_a_callback_are_all_released),
    ET_CASE(facts_are_read_without_loading),
};

ET_TEST_MAIN(tests)
