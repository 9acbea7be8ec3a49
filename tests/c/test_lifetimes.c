// Tests of the lifetime of fetched bytes: a source that returns copies and poisons them on release
// shows that each is released once, when it is no longer needed, and not read afterwards. A test
// backend does the same for delegates and checks the guarantees to a backend.
#include "rig.h"

// ---- A source that records its fetched pieces

typedef struct lender {
  const uint8_t *bytes;
  uint64_t given[64];  // offsets of the pieces that are not released
  size_t n_given, n_loads, n_releases, fail_at;
} lender;

static et_status lend(void *ctx, uint64_t offset, size_t size, et_blob *out, et_error *err) {
  lender *l = ctx;
  if (++l->n_loads == l->fail_at) {
    if (err != NULL) {
      err->status = ET_ACCESS_FAILED;
      strcpy(err->message, "the source failed");
    }
    return ET_ACCESS_FAILED;
  }
  uint8_t *copy = aligned_alloc(64, (size + 63) & ~(size_t)63);
  if (copy == NULL || l->n_given == 64) abort();
  memcpy(copy, l->bytes + offset, size);
  out->data = copy;
  out->size = size;
  out->token = (void *)(uintptr_t)offset;
  l->given[l->n_given++] = offset;
  return ET_OK;
}

static void take_back(void *ctx, et_blob *blob) {
  lender *l = ctx;
  size_t i = 0;
  while (i < l->n_given && l->given[i] != (uint64_t)(uintptr_t)blob->token) i++;
  if (i == l->n_given) abort();  // released twice
  l->given[i] = l->given[--l->n_given];
  l->n_releases++;
  memset((void *)(uintptr_t)blob->data, 0xdd, blob->size);
  free((void *)(uintptr_t)blob->data);
}

static bool is_out(const lender *l, uint64_t offset) {
  size_t i = 0;
  while (i < l->n_given && l->given[i] != offset) i++;
  return i < l->n_given;
}

static et_source source_of(lender *l, size_t size) {
  const et_source source = {l, size, lend, take_back};
  return source;
}

// ---- A backend that adds its payload's first float and the named data's to its input

typedef struct probe {
  float payload, named;
  et_named_data names;
  et_blob blob;
  const uint8_t *kept;
} probe;

static struct {
  bool keep, fail_late;  // fail_late: only once there is memory
  int n_init, n_measured, n_destroyed;
  const uint8_t *payload;
  const et_backend *entry;  // of the table, as passed to init
} probing;

static et_status probe_init(et_delegate_init *init, void **handle) {
  et_prepare_ctx *prepare = init->prepare;
  et_blob blob;
  probing.n_init++;
  probing.n_measured += prepare->measuring;
  probing.entry = init->backend;
  if (init->payload_bytes < 4 || (uintptr_t)init->payload % 16 != 0 || init->n_specs != 0)
    return ET_DELEGATE_INCOMPATIBLE;
  probe *p = et_prepare_alloc(prepare, sizeof *p, _Alignof(probe));
  if (p == NULL) return et_prepare_status(prepare);
  if (probing.fail_late) return ET_DELEGATE_INVALID_HANDLE;
  const et_status status =
      init->named_data->get(init->named_data->ctx, "blob", &blob, prepare->err);
  if (status != ET_OK) return status;
  memset(p, 0, sizeof *p);
  memcpy(&p->payload, init->payload, 4);
  memcpy(&p->named, blob.data, 4);
  p->names = *init->named_data;
  p->blob = blob;
  init->keep_payload = probing.keep;
  if (probing.keep) p->kept = init->payload;
  *handle = p;
  return ET_OK;
}

static et_status probe_execute(void *handle, const et_delegate_call *call) {
  const probe *p = handle;
  const et_tensor *in = call->args[0]->as.tensor, *out = call->args[1]->as.tensor;
  float payload = p->payload, named;
  if (p->kept != NULL) memcpy(&payload, p->kept, 4);
  memcpy(&named, p->blob.data, 4);
  for (size_t i = 0; i < in->numel; i++)
    ((float *)out->data)[i] = ((const float *)in->data)[i] + payload + named;
  if (call->hooks == NULL) return ET_OK;
  const et_event node = {.kind = ET_EVENT_NODE, .operator_name = "sum", .ns = 5};
  return call->hooks->on_event(call->hooks->ctx, &node);
}

static void probe_destroy(void *handle) {
  probe *p = handle;
  probing.n_destroyed++;
  if (p->kept != NULL && p->kept[4] != 7) abort();  // must not be released yet
  p->names.release(p->names.ctx, &p->blob);
}

static const et_backend probe_backend = {
    .id = "Probe", .init = probe_init, .execute = probe_execute, .destroy = probe_destroy};
static const et_backend *const backends[] = {&probe_backend};
static const et_backend_table backend_table = {backends, 1};

// ---- A program with bytes of every kind: y = probe(x + constant + saved state + external + same)

enum { X, Y, C, S, E, F, ONE };
enum { SEG_CONSTANT, SEG_STATE, SEG_PAYLOAD, SEG_NAMED };
static const int32_t three[] = {3};
#define TENSOR(...) {.code = PTE_TENSOR, .items = three, .n = 1, .dtype = ET_F32, __VA_ARGS__}
#define ADD(b) MADE_CALL(0, Y, (b), ONE, Y, Y)

static uint8_t *make_all(size_t *size) {
  static const made_value values[] = {
      TENSOR(.memory = 1),
      TENSOR(.memory = 1, .at = 64),
      TENSOR(.buffer = 1),
      TENSOR(.buffer = 1, .memory = 1, .at = 128),
      TENSOR(.text = "far", .location = PTE_LOCATION_EXTERNAL),
      TENSOR(.text = "far", .location = PTE_LOCATION_EXTERNAL),
      {.code = PTE_INT, .number = 1},
  };
  static const made_instruction code[] = {
      MADE_CALL(0, X, C, ONE, Y, Y),
      ADD(S),
      ADD(E),
      ADD(F),
      {.kind = PTE_DELEGATE_CALL, .args = {Y, Y}, .n_args = 2},
      {.kind = PTE_DELEGATE_CALL, .a = 1, .args = {Y, Y}, .n_args = 2},
  };
  static const char *const operators[] = {"aten::add", "out"};
  static const made_delegate delegates[] = {{.id = "Probe", .segment = SEG_PAYLOAD},
                                            {.id = "Probe", .segment = SEG_PAYLOAD}};
  static const made_plan plan =
      MADE_PLAN(values, code, operators, MADE_INPUT(X), MADE_OUTPUT(Y), .delegates = delegates,
                .n_delegates = 2, MADE_MEMORY(192));
  static const float constant[] = {1, 1, 1}, state[] = {10, 10, 10}, named[] = {10000};
  static struct {
    float first;
    uint8_t mark[4];
  } payload = {1000, {7, 7, 7, 7}};
  const made_segment segments[] = {{.data = constant, .size = sizeof constant},
                                   {.data = state, .size = sizeof state},
                                   {.data = &payload, .size = sizeof payload},
                                   {.data = named, .size = sizeof named, .key = "blob"}};
  const made_program program = {.plans = &plan,
                                .n_plans = 1,
                                .segments = segments,
                                .n_segments = 4,
                                .constant_segment = SEG_CONSTANT,
                                .n_constants = 1,
                                .mutable_segment = SEG_STATE,
                                .n_initials = 1};
  return make_program(&program, size);
}

static uint8_t *make_far(size_t *size) {
  static const float far[] = {100, 100, 100};
  static const made_value layout = {.items = three, .n = 1, .dtype = ET_F32};
  const made_segment segment = {far, sizeof far, "far", &layout};
  return make_data(&segment, 1, size);
}

#define SUM (0.5f + 1 + 10 + 2 * 100 + 2 * (1000 + 10000))

typedef struct both {  // the two files and their sources
  rig r;
  lender program, data;
  et_data_map map;
  const et_data_map *maps[1];
  uint8_t *far;
  size_t far_size;
  uint64_t segments[4];  // offsets
} both;

static void begin(both *b) {
  size_t size;
  memset(b, 0, sizeof *b);
  memset(&probing, 0, sizeof probing);
  uint8_t *bytes = make_all(&size);
  b->r = rig_take(bytes, size);
  b->far = make_far(&b->far_size);
  b->program.bytes = bytes;
  b->data.bytes = b->far;
  b->maps[0] = &b->map;
  b->r.config.data_maps = b->maps;
  b->r.config.n_data_maps = 1;
  b->r.config.backends = &backend_table;
  for (size_t i = 0; i < 4; i++) {
    b->segments[i] =
        eti_u64(bytes + 24) + eti_fb_u64(rig_member(rig_root(&b->r), PTE_PROGRAM_SEGMENTS, i), 0);
  }
}

static et_status open_both(both *b) {
  const et_source program = source_of(&b->program, b->r.size);
  const et_source data = source_of(&b->data, b->far_size);
  const et_status status = et_program_open(&b->r.program, &program, ET_VERIFY_FULL, &b->r.err);
  return status == ET_OK ? et_data_map_open(&b->map, &data, &b->r.err) : status;
}

static void end(both *b) {
  rig_end(&b->r);
  et_data_map_close(&b->map);
  free(b->far);
}

static bool gives_the_sum(both *b) {
  float x[] = {0.5f, 0.5f, 0.5f};
  if (rig_set(&b->r, 0, x, ET_F32, 1, three) != ET_OK ||
      et_method_execute(b->r.method, &b->r.err) != ET_OK)
    return false;
  const float *y = et_method_output(b->r.method, 0)->as.tensor->data;
  return y[0] == SUM && y[2] == SUM;
}

static void pieces_are_out_only_while_they_are_needed(void) {
  for (int keep = 0; keep < 2; keep++) {
    both b;
    begin(&b);
    probing.keep = keep != 0;
    EXPECT(open_both(&b) == ET_OK);
    // Open: the tables and the constants; the header, which was read first, is released.
    EXPECT(b.program.n_given == 2 && is_out(&b.program, 0) &&
           is_out(&b.program, b.segments[SEG_CONSTANT]) && b.data.n_given == 1);
    EXPECT(et_method_measure(&b.r.program, "forward", &b.r.config, &b.r.needs, &b.r.err) == ET_OK);
    EXPECT(b.program.n_given == 2 && b.data.n_given == 1 && probing.n_measured == 2);
    EXPECT(rig_load(&b.r, "forward") == ET_OK);
    // Loaded: the pieces that the backend requested, and one piece for both external tensors. The
    // saved state is copied and released; so is a payload that the backend does not keep.
    EXPECT(!is_out(&b.program, b.segments[SEG_STATE]));
    EXPECT(is_out(&b.program, b.segments[SEG_NAMED]));
    EXPECT(is_out(&b.program, b.segments[SEG_PAYLOAD]) == (keep != 0));
    EXPECT(b.program.n_given == (keep ? 6 : 4) && b.data.n_given == 2);
    const size_t n_loads = b.program.n_loads + b.data.n_loads;
    EXPECT(gives_the_sum(&b) && gives_the_sum(&b));
    EXPECT(b.program.n_loads + b.data.n_loads == n_loads);  // running fetches nothing
    et_method_close(b.r.method);
    b.r.method = NULL;
    EXPECT(probing.n_destroyed == 2 && b.program.n_given == 2 && b.data.n_given == 1);
    end(&b);
    EXPECT(b.program.n_given == 0 && b.program.n_loads == b.program.n_releases);
    EXPECT(b.data.n_given == 0 && b.data.n_loads == b.data.n_releases);
  }
}

static void a_source_that_fails_at_any_moment_gets_everything_back(void) {
  size_t n_failed = 0;
  for (size_t fail_at = 1; fail_at < 60; fail_at++) {
    both b;
    begin(&b);
    probing.keep = fail_at % 2 != 0;
    b.program.fail_at = fail_at;
    b.data.fail_at = fail_at;
    if (open_both(&b) == ET_OK && rig_load(&b.r, "forward") == ET_OK) {
      EXPECT(gives_the_sum(&b));
    } else {
      EXPECT_ERROR(&b.r.err, ET_ACCESS_FAILED, "the source failed");
      n_failed++;
    }
    end(&b);
    EXPECT(b.program.n_given == 0 && b.data.n_given == 0);
    EXPECT(probing.n_init - probing.n_measured >= probing.n_destroyed);
  }
  EXPECT(n_failed > 8);
}

static void a_backend_may_look_closer_once_it_has_memory(void) {
  both b;
  begin(&b);
  EXPECT(open_both(&b) == ET_OK);
  probing.fail_late = true;
  EXPECT(et_method_measure(&b.r.program, "forward", &b.r.config, &b.r.needs, &b.r.err) == ET_OK);
  EXPECT(rig_load(&b.r, "forward") == ET_DELEGATE_INVALID_HANDLE);
  EXPECT(b.r.method == NULL && probing.n_destroyed == 0 && b.program.n_given == 2);
  end(&b);
}

static void every_memory_too_small_gives_back_what_was_fetched(void) {
  both b;
  begin(&b);
  EXPECT(open_both(&b) == ET_OK);
  EXPECT(et_method_measure(&b.r.program, "forward", &b.r.config, &b.r.needs, &b.r.err) == ET_OK);
  const et_span planned = {rig_claim(&b.r, 192), 192};
  for (size_t n = 0; n < b.r.needs.method_bytes; n += 8) {
    uint8_t *room = n == 0 ? NULL : aligned_alloc(64, (n + 63) & ~(size_t)63);
    const et_method_memory memory = {.method = {room, n}, .planned = &planned, .n_planned = 1};
    EXPECT(et_method_load(&b.r.program, "forward", &b.r.config, &memory, &b.r.method, &b.r.err) ==
           ET_OUT_OF_MEMORY);
    EXPECT(b.r.method == NULL && b.program.n_given == 2 && b.data.n_given == 1);
    free(room);
  }
  end(&b);
}

static void a_misaligned_external_constant_is_refused(void) {
  both b;
  begin(&b);
  EXPECT(open_both(&b) == ET_OK);
  const et_source aside = et_source_from_memory(b.far, b.far_size);
  et_data_map_close(&b.map);
  const uint8_t *segment = rig_member(eti_fb_root(b.far), PTD_ROOT_SEGMENTS, 0);
  rig_poke_u64(eti_fb_field(segment, PTE_SEGMENT_OFFSET), 2);
  EXPECT(et_data_map_open(&b.map, &aside, &b.r.err) == ET_OK);
  EXPECT(rig_load(&b.r, "forward") == ET_INVALID_EXTERNAL_DATA);
  EXPECT_ERROR(&b.r.err, ET_INVALID_EXTERNAL_DATA, "not aligned to its element type f32");
  end(&b);
}

static void a_program_must_lie_at_a_multiple_of_sixteen(void) {
  both b;
  begin(&b);
  uint8_t *moved = rig_claim(&b.r, b.r.size + 8);
  memcpy(moved + 8, b.r.bytes, b.r.size);
  const et_source source = et_source_from_memory(moved + 8, b.r.size);
  EXPECT(et_program_open(&b.r.program, &source, ET_VERIFY_FULL, &b.r.err) == ET_INVALID_ARGUMENT);
  EXPECT_ERROR(&b.r.err, ET_INVALID_ARGUMENT, "multiple of 16");
  end(&b);
}

static void a_backend_knows_its_own_entry(void) {
  both b;
  begin(&b);
  EXPECT(open_both(&b) == ET_OK && rig_load(&b.r, "forward") == ET_OK);
  EXPECT(probing.entry == &probe_backend);
  end(&b);
}

// Records B, E and N of the events, the kinds of instructions that begin, and the times of nodes.
typedef struct story {
  char text[64], kinds[64];
  size_t n, n_kinds;
  uint64_t ns;
} story;

static et_status note_event(void *ctx, const et_event *event) {
  story *s = ctx;
  if (s->n + 1 < sizeof s->text) s->text[s->n++] = "BEN"[event->kind];
  if (event->kind == ET_EVENT_BEGIN && s->n_kinds + 1 < sizeof s->kinds)
    s->kinds[s->n_kinds++] = "NODMJF"[event->instruction_kind];
  s->ns += event->kind == ET_EVENT_NODE ? event->ns : 0;
  return ET_OK;
}

static void a_delegate_tells_of_its_nodes_in_traced_runs_only(void) {
  both b;
  begin(&b);
  EXPECT(open_both(&b) == ET_OK && rig_load(&b.r, "forward") == ET_OK);
  float x[] = {0.5f, 0.5f, 0.5f};
  EXPECT(rig_set(&b.r, 0, x, ET_F32, 1, three) == ET_OK);
  story told = {.n = 0};
  const et_hooks hooks = {&told, note_event};
  EXPECT(et_method_execute_traced(b.r.method, &hooks, &b.r.err) == ET_OK);
  EXPECT(strcmp(told.text, "BEBEBEBEBNEBNE") == 0 && told.ns == 10);
  EXPECT(strcmp(told.kinds, "OOOODD") == 0);
  EXPECT(gives_the_sum(&b) && told.n == 14);
  end(&b);
}

static const et_test tests[] = {
    ET_CASE(a_backend_knows_its_own_entry),
    ET_CASE(a_delegate_tells_of_its_nodes_in_traced_runs_only),
    ET_CASE(pieces_are_out_only_while_they_are_needed),
    ET_CASE(a_source_that_fails_at_any_moment_gets_everything_back),
    ET_CASE(a_backend_may_look_closer_once_it_has_memory),
    ET_CASE(every_memory_too_small_gives_back_what_was_fetched),
    ET_CASE(a_misaligned_external_constant_is_refused),
    ET_CASE(a_program_must_lie_at_a_multiple_of_sixteen),
};

ET_TEST_MAIN(tests)
