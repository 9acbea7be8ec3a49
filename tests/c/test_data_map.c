// Tests of external data: one file and several, keys that are missing, duplicate or of another
// layout, state initialized from external data, and files damaged in every bit.
#include "rig.h"

static const int32_t three[] = {3};
#define TENSOR(...) {.code = PTE_TENSOR, .items = three, .n = 1, .dtype = ET_F32, __VA_ARGS__}
enum { X, Y, A, B, STATE, ONE };

// y = x + a + b + state, where a and b are external constants and the state starts from external
// data.
static rig summing(void) {
  static const made_value values[] = {
      TENSOR(.memory = 1),
      TENSOR(.memory = 1, .at = 64),
      TENSOR(.text = "a", .location = PTE_LOCATION_EXTERNAL),
      TENSOR(.text = "b", .location = PTE_LOCATION_EXTERNAL),
      TENSOR(.text = "state", .location = PTE_LOCATION_EXTERNAL, .memory = 1, .at = 128),
      {.code = PTE_INT, .number = 1}};
  static const made_instruction code[] = {MADE_CALL(0, X, A, ONE, Y, Y),
                                          MADE_CALL(0, Y, B, ONE, Y, Y),
                                          MADE_CALL(0, Y, STATE, ONE, Y, Y)};
  static const char *const operators[] = {"aten::add", "out"};
  static const made_plan plan =
      MADE_PLAN(values, code, operators, MADE_INPUT(X), MADE_OUTPUT(Y), MADE_MEMORY(192));
  return rig_make(&plan);
}

static const float a[] = {1, 1, 1}, b[] = {10, 10, 10}, state[] = {100, 100, 100};
static const made_value layout = {.items = three, .n = 1, .dtype = ET_F32};

typedef struct data_file {
  uint8_t *bytes;
  size_t size;
  et_data_map map;
} data_file;

static bool open_data(data_file *f, const made_segment *segments, size_t n, et_error *err) {
  f->bytes = make_data(segments, n, &f->size);
  const et_source source = et_source_from_memory(f->bytes, f->size);
  return et_data_map_open(&f->map, &source, err) == ET_OK;
}

static void close_data(data_file *f) {
  et_data_map_close(&f->map);
  free(f->bytes);
}

static bool is_sum(rig *r) {
  float x[] = {0.5f, 0.5f, 0.5f};
  if (rig_set(r, 0, x, ET_F32, 1, three) != ET_OK || et_method_execute(r->method, &r->err) != ET_OK)
    return false;
  return ((const float *)et_method_output(r->method, 0)->as.tensor->data)[2] == 111.5f;
}

static void the_keys_may_be_spread_over_several_files(void) {
  const made_segment all[] = {{a, sizeof a, "a", &layout},
                              {b, sizeof b, "b", &layout},
                              {state, sizeof state, "state", &layout}};
  for (size_t n_first = 0; n_first <= 3; n_first++) {
    rig r = summing();
    data_file first, second;
    EXPECT(open_data(&first, all, n_first, &r.err));
    EXPECT(open_data(&second, all + n_first, 3 - n_first, &r.err));
    const et_data_map *maps[] = {&first.map, &second.map};
    r.config.data_maps = maps;
    r.config.n_data_maps = 2;
    EXPECT(et_data_map_count(&first.map) == n_first);
    EXPECT(rig_start(&r, "forward") && is_sum(&r));
    rig_end(&r);
    close_data(&first);
    close_data(&second);
  }
}

static void facts_of_attributes_say_that_files_have_their_data(void) {
  rig r = summing();
  EXPECT(rig_open(&r) == ET_OK);
  for (size_t i = 0; i < 3; i++) {
    et_tensor_info info;
    EXPECT(et_program_slot_info(&r.program, "forward", ET_SLOT_ATTRIBUTE, i, NULL, &info, &r.err) ==
           ET_OK);
    EXPECT(info.name != NULL && info.has_data && info.bytes == 12);
  }
  rig_end(&r);
}

static void what_is_missing_double_or_different_is_named(void) {
  static const made_value wide = {.items = three, .n = 1, .dtype = ET_I32};
  static const int32_t four[] = {4}, flat[] = {1, 3};
  static const made_value longer = {.items = four, .n = 1, .dtype = ET_F32};
  static const made_value deeper = {.items = flat, .n = 2, .dtype = ET_F32};
  const made_segment good = {state, sizeof state, "state", &layout};
  const struct {
    made_segment a, b;
    et_status status;
    const char *part;
  } cases[] = {
      {{a, 12, "a", &layout}, {b, 12, "c", &layout}, ET_NOT_FOUND, "'b' is in none of the 2"},
      {{a, 12, "a", &layout}, {b, 12, "B", &layout}, ET_NOT_FOUND, "'b'"},
      {{a, 12, "a", &wide},
       {b, 12, "b", &layout},
       ET_INVALID_EXTERNAL_DATA,
       "'a': expected f32, rank 1, 12 bytes in the layout of the program's "
       "tensor, got i32, rank 1"},
      {{a, 12, "a", &longer},
       {b, 12, "b", &layout},
       ET_INVALID_EXTERNAL_DATA,
       "'a': expected f32, rank 1, 12 bytes in the layout of the program's "
       "tensor, got f32, rank 1"},
      {{a, 12, "a", &layout},
       {b, 12, "b", &deeper},
       ET_INVALID_EXTERNAL_DATA,
       "'b': expected f32, rank 1, 12 bytes in the layout of the program's "
       "tensor, got f32, rank 2"},
      {{a, 12, "a", &layout}, {b, 12, "b", NULL}, ET_INVALID_EXTERNAL_DATA, "'b'"},
      {{a, 11, "a", &layout}, {b, 12, "b", &layout}, ET_INVALID_EXTERNAL_DATA, "rank 1, 11 bytes"},
      {{a, 12, "a", &layout},
       {b, 12, "state", &layout},
       ET_INVALID_ARGUMENT,
       "'state' is in external data files 0 and 1"},
  };
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    rig r = summing();
    data_file first, second;
    const made_segment both[] = {cases[k].a, cases[k].b};
    EXPECT(open_data(&first, both, 2, &r.err) && open_data(&second, &good, 1, &r.err));
    const et_data_map *maps[] = {&first.map, &second.map};
    r.config.data_maps = maps;
    r.config.n_data_maps = 2;
    EXPECT(!rig_start(&r, "forward"));
    EXPECT_ERROR(&r.err, cases[k].status, cases[k].part);
    rig_end(&r);
    close_data(&first);
    close_data(&second);
  }
}

// Sizes (2, 1, 3): dims of size 1 have no place in memory.
static et_status load_ordered(const uint8_t planned[3], const uint8_t stored[3], et_error *err) {
  static const int32_t sizes[] = {2, 1, 3};
  static const float weight[6];
  const made_value values[] = {{.code = PTE_TENSOR,
                                .items = sizes,
                                .n = 3,
                                .dtype = ET_F32,
                                .order = planned,
                                .text = "weight",
                                .location = PTE_LOCATION_EXTERNAL}};
  static const made_chain empty[1];
  const made_plan plan = {.name = "forward",
                          .values = values,
                          .n_values = 1,
                          .chains = empty,
                          .n_chains = 1,
                          MADE_OUTPUT(0)};
  const made_value ordered = {.items = sizes, .n = 3, .dtype = ET_F32, .order = stored};
  const made_segment segment = {weight, sizeof weight, "weight", &ordered};
  rig r = rig_make(&plan);
  data_file file;
  if (!open_data(&file, &segment, 1, &r.err)) abort();
  const et_data_map *maps[] = {&file.map};
  r.config.data_maps = maps;
  r.config.n_data_maps = 1;
  et_status status = rig_open(&r);
  if (status == ET_OK) status = rig_load(&r, "forward");
  *err = r.err;
  rig_end(&r);
  close_data(&file);
  return status;
}

static void dim_orders_of_one_layout_are_the_same(void) {
  static const uint8_t orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}};
  et_error err = {.status = ET_OK};
  for (size_t i = 0; i < 3; i++) {
    for (size_t k = 0; k < 3; k++) EXPECT(load_ordered(orders[i], orders[k], &err) == ET_OK);
  }
}

static void dim_orders_of_other_layouts_are_refused(void) {
  static const uint8_t plain[] = {0, 1, 2};
  static const uint8_t bad[][3] = {{2, 1, 0}, {1, 2, 0}, {0, 2, 2},
                                   {0, 0, 2}, {0, 1, 3}, {0, 200, 2}};
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
    et_error err = {.status = ET_OK};
    EXPECT(load_ordered(plain, bad[k], &err) == ET_INVALID_EXTERNAL_DATA);
    EXPECT_ERROR(&err, ET_INVALID_EXTERNAL_DATA, "in the layout of the program's tensor");
  }
}

static void state_from_external_data_needs_a_file(void) {
  rig r = summing();
  const uint8_t *extra = eti_fb_table(rig_value(&r, PTE_TENSOR, 2), PTE_TENSOR_EXTRA);
  const uint8_t *other = eti_fb_table(rig_value(&r, PTE_TENSOR, 3), PTE_TENSOR_EXTRA);
  for (int k = 0; k < 2; k++) {
    EXPECT(rig_open(&r) == ET_OK);
    EXPECT(rig_load(&r, "forward") == (k == 0 ? ET_INVALID_STATE : ET_INVALID_EXTERNAL_DATA));
    EXPECT_ERROR(&r.err, r.err.status, k == 0 ? "'a' is in an external" : "'state' is in an ext");
    et_program_close(&r.program);
    rig_poke_u8(eti_fb_field(extra, PTE_EXTRA_LOCATION), PTE_LOCATION_SEGMENT);
    rig_poke_u8(eti_fb_field(other, PTE_EXTRA_LOCATION), PTE_LOCATION_SEGMENT);
  }
  rig_end(&r);
}

static bool saw_misaligned, saw_constant;

static et_status look_at_constants(et_prepare_ctx *ctx, et_value *const *args) {
  (void)ctx;
  const et_tensor *t = args[1]->as.tensor;
  saw_constant |= t->data != NULL;
  saw_misaligned |= (uintptr_t)t->data % sizeof(float) != 0;
  return ET_OK;
}

static void preparing_never_sees_a_misaligned_constant(void) {
  const made_segment all[] = {{a, sizeof a, "a", &layout},
                              {b, sizeof b, "b", &layout},
                              {state, sizeof state, "state", &layout}};
  const et_op *add = et_op_find(&et_ops_portable, "aten::add.out");
  et_op op = *add;
  op.prepare = look_at_constants;
  const et_op_table ops = {&op, 1, &et_ops_portable};
  for (uint64_t offset = 0; offset <= 2; offset += 2) {
    rig r = summing();
    data_file f;
    const et_data_map *maps[] = {&f.map};
    EXPECT(open_data(&f, all, 3, &r.err));
    const uint8_t *first = rig_member(eti_fb_root(f.bytes), PTD_ROOT_SEGMENTS, 0);
    rig_poke_u64(eti_fb_field(first, PTE_SEGMENT_OFFSET), offset);
    r.config.ops = &ops;
    r.config.data_maps = maps;
    r.config.n_data_maps = 1;
    saw_misaligned = saw_constant = false;
    EXPECT(rig_open(&r) == ET_OK);
    EXPECT(et_method_measure(&r.program, "forward", &r.config, &r.needs, &r.err) == ET_OK);
    EXPECT(rig_load(&r, "forward") == (offset == 0 ? ET_OK : ET_INVALID_EXTERNAL_DATA));
    EXPECT(saw_constant && !saw_misaligned);
    rig_end(&r);
    close_data(&f);
  }
}

static void every_flipped_bit_is_an_error_or_harmless(void) {
  const made_segment all[] = {{a, sizeof a, "a", &layout},
                              {b, sizeof b, "b", &layout},
                              {state, sizeof state, "state", &layout}};
  data_file f;
  et_error err;
  EXPECT(open_data(&f, all, 3, &err));
  size_t n_refused = 0, n_run = 0;
  for (size_t bit = 0; bit < 8 * f.size; bit++) {
    rig r = summing();
    et_data_map map;
    uint8_t *copy = rig_claim(&r, f.size);
    memcpy(copy, f.bytes, f.size);
    copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
    const et_source source = et_source_from_memory(copy, f.size);
    const et_data_map *maps[] = {&map};
    r.config.data_maps = maps;
    r.config.n_data_maps = 1;
    const bool is_open = et_data_map_open(&map, &source, &r.err) == ET_OK;
    const bool is_loaded = is_open && rig_start(&r, "forward");
    if (is_loaded) {
      (void)is_sum(&r);
      EXPECT(et_method_output(r.method, 0)->as.tensor->numel == 3);
    }
    n_run += is_loaded;
    n_refused += !is_loaded;
    rig_end(&r);
    if (is_open) et_data_map_close(&map);
  }
  EXPECT(n_run > 100 && n_refused > 100);
  close_data(&f);
}

static const et_test tests[] = {
    ET_CASE(the_keys_may_be_spread_over_several_files),
    ET_CASE(what_is_missing_double_or_different_is_named),
    ET_CASE(dim_orders_of_one_layout_are_the_same),
    ET_CASE(dim_orders_of_other_layouts_are_refused),
    ET_CASE(facts_of_attributes_say_that_files_have_their_data),
    ET_CASE(state_from_external_data_needs_a_file),
    ET_CASE(preparing_never_sees_a_misaligned_constant),
    ET_CASE(every_flipped_bit_is_an_error_or_harmless),
};

ET_TEST_MAIN(tests)
