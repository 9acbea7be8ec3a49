// Tests of programs with several chains of instructions, and of state in planned memory that two
// methods share or keep apart.
#include "rig.h"

#include <pthread.h>

static const int32_t three[] = {3};
static const char *const operators[] = {"aten::add", "out", "aten::mul", "out"};

#define TENSOR(...) {.code = PTE_TENSOR, .items = three, .n = 1, .dtype = ET_F32, __VA_ARGS__}

// ---- Several chains: y = x + x, then y = y * y when the flag is set, then y = y + x

enum { X, Y, ONE, FLAG };
static const made_value chained_values[] = {
    TENSOR(.memory = 1, .at = 0),
    TENSOR(.memory = 1, .at = 64),
    {.code = PTE_INT, .number = 1},
    {.code = PTE_BOOL, .number = 1},
};
static const made_instruction doubling[] = {MADE_CALL(0, X, X, ONE, Y, Y)};
// The jump's target 2 is the length of its own chain, where the next chain begins.
static const made_instruction squaring[] = {{.kind = PTE_JUMP_FALSE_CALL, .a = FLAG, .b = 2},
                                            MADE_CALL(1, Y, Y, Y, Y)};
static const made_instruction adding[] = {MADE_CALL(0, Y, X, ONE, Y, Y)};

static rig chained(bool flag, int32_t jump_to) {
  made_value values[4];
  memcpy(values, chained_values, sizeof values);
  values[FLAG].number = flag;
  made_instruction second[2];
  memcpy(second, squaring, sizeof second);
  second[0].b = jump_to;
  const made_chain chains[] = {
      {doubling, 1, 0}, {NULL, 0, 0}, {second, 2, 0}, {adding, 1, 0}, {NULL, 0, 0}};
  const made_plan plan = {.name = "forward",
                          .values = values,
                          .n_values = 4,
                          .inputs = {X},
                          .n_inputs = 1,
                          .outputs = {Y},
                          .n_outputs = 1,
                          .chains = chains,
                          .n_chains = 5,
                          .operators = operators,
                          .n_operators = 2,
                          .memories = {128},
                          .n_memories = 1};
  return rig_make(&plan);
}

static et_status note(void *ctx, const et_event *event) {
  char *text = ctx;
  if (event->kind == ET_EVENT_BEGIN) {
    const size_t n = strlen(text);
    snprintf(text + n, 128 - n, "%zu:%s ", event->instruction, event->operator_name);
  }
  return ET_OK;
}

static void chains_run_one_after_another_and_count_through(void) {
  for (int flag = 0; flag < 2; flag++) {
    rig r = chained(flag != 0, 2);
    float x[] = {1, 2, 3};
    char text[128] = "";
    const et_hooks hooks = {text, note};
    EXPECT(rig_start(&r, "forward"));
    EXPECT(rig_set(&r, 0, x, ET_F32, 1, three) == ET_OK);
    EXPECT(et_method_execute_traced(r.method, &hooks, &r.err) == ET_OK);
    EXPECT(strcmp(text, flag ? "0:aten::add.out 1:jump 2:aten::mul.out 3:aten::add.out "
                             : "0:aten::add.out 1:jump 3:aten::add.out ") == 0);
    const float *y = et_method_output(r.method, 0)->as.tensor->data;
    for (int i = 0; i < 3; i++) EXPECT(y[i] == (flag ? 4 * x[i] * x[i] : 2 * x[i]) + x[i]);
    et_method_info info;
    EXPECT(et_program_method_info(&r.program, "forward", &info, &r.err) == ET_OK);
    EXPECT(info.n_instructions == 4);
    for (int i = 0; i < (flag ? 4 : 3); i++) EXPECT(et_method_step(r.method, &r.err) == ET_OK);
    EXPECT(et_method_step(r.method, &r.err) == ET_END_OF_METHOD);
    rig_end(&r);
  }
}

static void a_jump_out_of_its_chain_is_refused(void) {
  rig r = chained(false, 3);
  EXPECT(!rig_start(&r, "forward"));
  EXPECT_ERROR(&r.err, ET_INVALID_PROGRAM,
               "instruction 1: jump: expected a target of at most 2, got 3");
  rig_end(&r);
}

// ---- State: `write` adds its input to the state, `read` gives twice the state

enum { STATE = 2, K = 3 };
static const made_value write_values[] = {
    TENSOR(.memory = 1, .at = 0),
    TENSOR(.memory = 1, .at = 64),
    TENSOR(.memory = 2, .at = 16, .buffer = 1, .text = "state"),
    {.code = PTE_INT, .number = 1},
};
static const made_value read_values[] = {
    {.code = PTE_NULL},
    TENSOR(.memory = 1, .at = 0),
    TENSOR(.memory = 2, .at = 16, .buffer = 1, .text = "state"),
    {.code = PTE_INT, .number = 1},
};
static const made_instruction writing[] = {MADE_CALL(0, STATE, X, K, STATE, STATE),
                                           MADE_CALL(0, STATE, STATE, K, Y, Y)};
static const made_instruction reading[] = {MADE_CALL(0, STATE, STATE, K, Y, Y)};

static rig stateful(void) {
  static const float saved[] = {0, 10, 20, 30};
  static const made_plan plans[] = {{.name = "write",
                                     .values = write_values,
                                     .n_values = 4,
                                     .inputs = {X},
                                     .n_inputs = 1,
                                     .outputs = {Y},
                                     .n_outputs = 1,
                                     .code = writing,
                                     .n_code = 2,
                                     .operators = operators,
                                     .n_operators = 1,
                                     .memories = {128, 32},
                                     .n_memories = 2},
                                    {.name = "read",
                                     .values = read_values,
                                     .n_values = 4,
                                     .outputs = {Y},
                                     .n_outputs = 1,
                                     .code = reading,
                                     .n_code = 1,
                                     .operators = operators,
                                     .n_operators = 1,
                                     .memories = {16, 32},
                                     .n_memories = 2}};
  const made_segment segment = {.data = saved, .size = sizeof saved};
  const made_program program = {.plans = plans,
                                .n_plans = 2,
                                .segments = &segment,
                                .n_segments = 1,
                                .initials = {4},
                                .n_initials = 1};
  size_t size;
  uint8_t *bytes = make_program(&program, &size);
  return rig_take(bytes, size);
}

// Loads a method into its own memory, except for the state, whose memory the caller passes.
static et_method *load_over(rig *r, const char *name, void *state) {
  et_method_needs needs;
  et_span planned[2] = {{0}, {state, 32}};
  if (et_method_measure(&r->program, name, &r->config, &needs, &r->err) != ET_OK ||
      et_program_planned_bytes(&r->program, name, 0, &planned[0].size, &r->err) != ET_OK)
    return NULL;
  planned[0].data = rig_claim(r, planned[0].size);
  const et_method_memory memory = {
      .method = {rig_claim(r, needs.method_bytes), needs.method_bytes},
      .scratch = {rig_claim(r, needs.scratch_bytes), needs.scratch_bytes},
      .planned = planned,
      .n_planned = 2};
  et_method *method = NULL;
  return et_method_load(&r->program, name, &r->config, &memory, &method, &r->err) == ET_OK ? method
                                                                                           : NULL;
}

static et_status give(et_method *method, float *x, et_error *err) {
  rig_tensor t;
  rig_fill_tensor(&t, x, ET_F32, 1, three);
  return et_method_set_input(method, 0, &t.value, err);
}

static const float *run(et_method *method, et_error *err) {
  if (et_method_execute(method, err) != ET_OK) return NULL;
  return et_method_output(method, 0)->as.tensor->data;
}

static void state_that_one_method_writes_another_reads(void) {
  rig r = stateful();
  float x[] = {1, 2, 3};
  EXPECT(rig_open(&r) == ET_OK);
  uint8_t *state = rig_claim(&r, 32);
  et_method *writer_ = load_over(&r, "write", state), *reader = load_over(&r, "read", state);
  EXPECT(writer_ != NULL && reader != NULL);
  const float *y = run(reader, &r.err);
  for (int i = 0; i < 3; i++) EXPECT(y[i] == 20.f * (float)(i + 1));  // the saved state
  EXPECT(give(writer_, x, &r.err) == ET_OK);
  EXPECT(run(writer_, &r.err) != NULL && run(writer_, &r.err) != NULL);
  y = run(reader, &r.err);
  for (int i = 0; i < 3; i++) EXPECT(y[i] == 2 * (10.f * (float)(i + 1) + 2 * x[i]));
  EXPECT(et_method_attribute(writer_, "state")->data == et_method_attribute(reader, "state")->data);
  et_method_close(reader);
  reader = load_over(&r, "read", state);  // loading restores the saved state, for both
  y = run(reader, &r.err);
  EXPECT(y[0] == 20);
  y = run(writer_, &r.err);
  EXPECT(y[0] == 22);
  et_method_close(reader);
  et_method_close(writer_);
  rig_end(&r);
}

static void a_method_loaded_twice_has_two_states(void) {
  rig r = stateful();
  float x[] = {1, 1, 1};
  EXPECT(rig_open(&r) == ET_OK);
  et_method *a = load_over(&r, "write", rig_claim(&r, 32));
  et_method *b = load_over(&r, "write", rig_claim(&r, 32));
  EXPECT(give(a, x, &r.err) == ET_OK && give(b, x, &r.err) == ET_OK);
  for (int round = 1; round <= 3; round++) EXPECT(run(a, &r.err)[0] == 2 * (10 + (float)round));
  EXPECT(run(b, &r.err)[0] == 22);
  et_method_close(a);  // the other method keeps its state
  EXPECT(run(b, &r.err)[0] == 24);
  et_method_close(b);
  rig_end(&r);
}

typedef struct worker {
  et_method *method;
  float step, last;
  bool is_good;
} worker;

static void *work(void *arg) {
  worker *w = arg;
  float x[] = {w->step, 0, 0};
  et_error err;
  w->is_good = give(w->method, x, &err) == ET_OK;
  for (int i = 1; w->is_good && i <= 500; i++) {
    const float *y = run(w->method, &err);
    w->is_good = y != NULL && y[0] == 2 * (10 + (float)i * w->step);
  }
  return NULL;
}

static void two_methods_run_at_once_in_memory_of_their_own(void) {
  rig r = stateful();
  EXPECT(rig_open(&r) == ET_OK);
  worker workers[2] = {{.step = 1}, {.step = 2}};
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) {
    workers[i].method = load_over(&r, "write", rig_claim(&r, 32));
    EXPECT(workers[i].method != NULL);
  }
  for (int i = 0; i < 2; i++) EXPECT(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  EXPECT(workers[0].is_good && workers[1].is_good);
  for (int i = 0; i < 2; i++) et_method_close(workers[i].method);
  rig_end(&r);
}

static void saved_state_must_lie_in_its_segment(void) {
  const size_t sizes[] = {15, 16};  // the state is bytes 4 to 16
  for (size_t k = 0; k < 2; k++) {
    rig r = stateful();
    rig_poke_u64(eti_fb_field(rig_member(rig_root(&r), PTE_PROGRAM_SEGMENTS, 0), PTE_SEGMENT_SIZE),
                 sizes[k]);
    EXPECT(rig_open(&r) == ET_OK);
    EXPECT(rig_load(&r, "write") == (k == 0 ? ET_INVALID_ARGUMENT : ET_OK));
    if (k == 0) EXPECT_ERROR(&r.err, ET_INVALID_ARGUMENT, "value 2: data entry 1 (12 bytes at 4)");
    rig_end(&r);
  }
  rig r = stateful();
  rig_remove(rig_root(&r), PTE_PROGRAM_MUTABLE_SEGMENTS);
  EXPECT(rig_open(&r) == ET_OK && rig_load(&r, "write") == ET_INVALID_PROGRAM);
  EXPECT_ERROR(&r.err, ET_INVALID_PROGRAM,
               "has initial data, but the program has no segment of it");
  rig_end(&r);
}

// 64-bit numbers of the file, changed by 2^32: a 32-bit machine must not truncate them.
static void figures_beyond_32_bits_are_not_cut(void) {
  for (int k = 0; k < 7; k++) {
    rig r = stateful();
    const uint8_t *segment = rig_member(rig_root(&r), PTE_PROGRAM_SEGMENTS, 0);
    const uint8_t *saved = rig_member(rig_root(&r), PTE_PROGRAM_MUTABLE_SEGMENTS, 0);
    const uint8_t *place = eti_fb_table(rig_value(&r, PTE_TENSOR, 1), PTE_TENSOR_ALLOCATION);
    const uint8_t *const figures[] = {
        r.bytes + 16,  // program bytes
        r.bytes + 24,  // segment base
        r.bytes + 32,  // segment bytes
        eti_fb_field(segment, PTE_SEGMENT_OFFSET),
        eti_fb_field(segment, PTE_SEGMENT_SIZE),
        eti_fb_vector(saved, PTE_SUBSEGMENT_OFFSETS).data + 8,
        eti_fb_field(place, PTE_ALLOCATION_HIGH) - 4,
    };
    rig_poke_u32(figures[k] + 4, 1);
    EXPECT((rig_open(&r) == ET_OK) == (k > 4));
    if (k > 4) EXPECT(rig_load(&r, "write") == (k == 5 ? ET_INVALID_ARGUMENT : ET_OUT_OF_MEMORY));
    rig_end(&r);
  }
  rig r = stateful();
  size_t bytes = 0;
  rig_poke_u32(eti_fb_vector(rig_plan(&r), PTE_PLAN_BUFFER_SIZES).data + 12, 1);
  EXPECT(rig_open(&r) == ET_OK);
  const et_status status = et_program_planned_bytes(&r.program, "write", 0, &bytes, &r.err);
  EXPECT(status == (PTRDIFF_MAX > INT32_MAX ? ET_OK : ET_INVALID_PROGRAM));
  EXPECT(status != ET_OK || bytes / 65536 == 65536);
  rig_end(&r);
}

static const et_test tests[] = {
    ET_CASE(chains_run_one_after_another_and_count_through),
    ET_CASE(a_jump_out_of_its_chain_is_refused),
    ET_CASE(state_that_one_method_writes_another_reads),
    ET_CASE(a_method_loaded_twice_has_two_states),
    ET_CASE(two_methods_run_at_once_in_memory_of_their_own),
    ET_CASE(saved_state_must_lie_in_its_segment),
    ET_CASE(figures_beyond_32_bits_are_not_cut),
};

ET_TEST_MAIN(tests)
