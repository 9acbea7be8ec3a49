// Tests of small, sound files that would need unbounded work: parts shared by very many others, and
// look-ups of many names in many. Each is refused or read at once; an alarm ends a test after some
// seconds.
#define _XOPEN_SOURCE 700
#include "rig.h"

#include <sys/time.h>

#define SECONDS 120  // of the processor, under sanitizers; the tested defect would take hours
#define MANY 100000
#define VERY_MANY 1000000

static const int32_t three[] = {3};
static const char *const operators[] = {"aten::add", "out", "executorch_prim::add", "Scalar"};
#define TENSOR(...) {.code = PTE_TENSOR, .items = three, .n = 1, .dtype = ET_F32, __VA_ARGS__}
enum { X, Y, ONE, REST };
#define FIRST_VALUES \
  TENSOR(.memory = 1), TENSOR(.memory = 1, .at = 64), {.code = PTE_INT, .number = 1}

// 0 seconds: no test is running.
static void set_alarm(long seconds) {
  const struct itimerval timer = {.it_value = {.tv_sec = seconds}};
  if (setitimer(ITIMER_VIRTUAL, &timer, NULL) != 0) abort();
}

static rig made(const made_plan *plan) {
  made_plan full = *plan;
  full.name = "forward";
  full.memories[0] = 128;
  full.n_memories = 1;
  set_alarm(SECONDS);
  return rig_make(&full);
}

static et_status measured(rig *r) {
  if (rig_open(r) != ET_OK) return r->err.status;
  return et_method_measure(&r->program, "forward", &r->config, &r->needs, &r->err);
}

static void finish(rig *r) {
  rig_end(r);
  set_alarm(0);
}

static void plans_have_few_chains(void) {
  static const made_value values[] = {FIRST_VALUES};
  made_chain chains[65] = {{NULL, 0, 0}};
  made_plan plan = {.values = values, .n_values = 3, .chains = chains, .n_chains = 64};
  rig r = made(&plan);
  EXPECT(measured(&r) == ET_OK);
  finish(&r);
  plan.n_chains = 65;
  r = made(&plan);
  EXPECT(measured(&r) == ET_NOT_SUPPORTED);
  EXPECT_ERROR(&r.err, ET_NOT_SUPPORTED, "expected at most 64 chains, got 65");
  finish(&r);
}

static void arguments_shared_by_all_instructions_are_counted(void) {
  static const made_value values[] = {FIRST_VALUES};
  int32_t *args = calloc(VERY_MANY, sizeof *args);
  const made_instruction code = {.kind = PTE_KERNEL_CALL, .many = args, .n_args = VERY_MANY};
  const made_chain chain = {&code, 1, 3 * MANY};
  const made_plan plan = {.values = values,
                          .n_values = 3,
                          .chains = &chain,
                          .n_chains = 1,
                          .operators = operators,
                          .n_operators = 1};
  rig r = made(&plan);
  EXPECT(measured(&r) == ET_NOT_SUPPORTED);
  EXPECT_ERROR(&r.err, ET_NOT_SUPPORTED, "entries of shared lists (ET_MAX_PLAN_WORK)");
  finish(&r);
  free(args);
}

static void a_list_shared_by_all_values_is_counted(void) {
  int32_t *items = calloc(VERY_MANY, sizeof *items);
  for (int is_argument = 0; is_argument < 2; is_argument++) {
    const made_value values[] = {FIRST_VALUES,
                                 {.code = PTE_TENSOR_LIST, .items = items, .n = VERY_MANY}};
    made_instruction code = {.kind = PTE_KERNEL_CALL, .n_args = 8};
    for (int k = 0; k < 8; k++) code.args[k] = REST;
    const made_chain chain = {&code, 1, is_argument ? 10 : 0};
    const made_plan plan = {.values = values,
                            .n_values = 4,
                            .n_value_copies = is_argument ? 0 : 3 * MANY,
                            .chains = &chain,
                            .n_chains = 1,
                            .operators = operators,
                            .n_operators = 1};
    rig r = made(&plan);
    EXPECT(measured(&r) == ET_NOT_SUPPORTED);
    EXPECT_ERROR(&r.err, ET_NOT_SUPPORTED, "entries of shared lists (ET_MAX_PLAN_WORK)");
    finish(&r);
  }
  free(items);
}

static et_status nothing(et_kernel_ctx *ctx, et_value *const *args) {
  (void)ctx, (void)args;
  return ET_OK;
}

static void long_lists_of_tensors_are_checked_in_one_pass(void) {
  enum { N = VERY_MANY / 4 };
  int32_t *items = calloc(N, sizeof *items);
  for (size_t i = 0; i < N; i++) items[i] = i % 2 == 0 ? X : Y;
  const made_value values[] = {FIRST_VALUES,
                               {.code = PTE_TENSOR_LIST, .items = items, .n = N},
                               {.code = PTE_TENSOR_LIST, .items = items, .n = N - 1}};
  const made_instruction code = MADE_CALL(0, REST, ONE, REST + 1);
  const made_chain chain = {&code, 1, 4};
  const made_plan plan = {.values = values,
                          .n_values = 5,
                          .chains = &chain,
                          .n_chains = 1,
                          .operators = operators,
                          .n_operators = 1};
  const et_op op = {.name = "aten::add.out", .run = nothing, .n_args = 3};
  const et_op_table ops = {&op, 1, NULL};
  rig r = made(&plan);
  r.config.ops = &ops;
  EXPECT(measured(&r) == ET_OK);
  finish(&r);
  free(items);
}

static void operators_in_great_numbers_are_looked_up_once_a_call(void) {
  static const made_value values[] = {FIRST_VALUES};
  const made_instruction code = MADE_CALL(7, X, X, ONE, Y, Y);
  const made_chain chain = {&code, 1, MANY};
  const made_plan plan = {.values = values,
                          .n_values = 3,
                          .chains = &chain,
                          .n_chains = 1,
                          .operators = operators,
                          .n_operators = 1,
                          .n_operator_copies = MANY};
  const et_op_table none = {0};
  rig r = made(&plan);
  r.config.ops = &none;
  EXPECT(measured(&r) == ET_OPERATOR_MISSING);
  EXPECT(strstr(r.err.message, "no kernel for: aten::add.out(f32, f32, f32)") != NULL);
  size_t sum = 0;
  EXPECT(et_program_visit_operators(&r.program, "forward", (et_visit_op)NULL, &sum, &r.err) ==
         ET_NOT_SUPPORTED);
  EXPECT_ERROR(&r.err, ET_NOT_SUPPORTED, "too many to count");
  finish(&r);
}

static void inputs_find_their_tensors_at_once(void) {
  const made_value values[] = {FIRST_VALUES, TENSOR(.memory = 0)};
  int32_t *inputs = calloc(VERY_MANY, sizeof *inputs);
  for (size_t i = 0; i < VERY_MANY; i++) inputs[i] = REST;
  const made_chain chain = {NULL, 0, 0};
  const made_plan plan = {.values = values,
                          .n_values = 4,
                          .n_value_copies = 2 * MANY,
                          .many_inputs = inputs,
                          .n_inputs = VERY_MANY,
                          .chains = &chain,
                          .n_chains = 1};
  float x[] = {1, 2, 3};
  rig r = made(&plan);
  EXPECT(rig_start(&r, "forward"));
  EXPECT(rig_set(&r, VERY_MANY - 1, x, ET_F32, 1, three) == ET_OK);
  EXPECT(et_method_input(r.method, 0)->as.tensor->data == x);
  finish(&r);
  free(inputs);
}

// Value 2 is not written, but one with the same hash is: only a look at all instructions tells.
static void what_is_written_is_not_searched_for_without_end(void) {
  static const made_value values[] = {FIRST_VALUES, {.code = PTE_INT}};
  const made_instruction counting = MADE_CALL(1, ONE, ONE, 2 + 8192);
  const made_instruction adding = MADE_CALL(0, X, X, ONE, Y, Y);
  const made_chain chains[] = {{&counting, 1, MANY}, {&adding, 1, MANY}};
  const made_plan plan = {.values = values,
                          .n_values = 4,
                          .n_value_copies = 9000,
                          .inputs = {X},
                          .n_inputs = 1,
                          .outputs = {Y},
                          .n_outputs = 1,
                          .chains = chains,
                          .n_chains = 2,
                          .operators = operators,
                          .n_operators = 2};
  rig r = made(&plan);
  EXPECT(measured(&r) == ET_OK);
  finish(&r);
}

// ---- A view's data pointer refers to other memory, into which no input may be copied

static void a_view_with_memory_of_its_own_is_no_input(void) {
  static const int32_t size_list[] = {4};
  static const made_value values[] = {FIRST_VALUES,
                                      {.code = PTE_INT_LIST, .items = size_list, .n = 1},
                                      {.code = PTE_INT, .number = 3}};
  static const char *const view[] = {"executorch_prim::et_view", "default"};
  const made_instruction code = MADE_CALL(0, X, REST, Y);
  made_plan plan = {.values = values,
                    .n_values = 5,
                    .inputs = {X, Y},
                    .n_inputs = 1,
                    MADE_OUTPUT(Y),
                    .code = &code,
                    .n_code = 1,
                    .operators = view,
                    .n_operators = 1};
  float x[] = {1, 2, 3};
  rig r = made(&plan);
  EXPECT(rig_start(&r, "forward"));
  EXPECT(rig_set(&r, 0, x, ET_F32, 1, three) == ET_OK);
  EXPECT(et_method_execute(r.method, &r.err) == ET_OK);
  EXPECT(((const float *)et_method_output(r.method, 0)->as.tensor->data)[2] == 3);
  finish(&r);
  plan.n_inputs = 2;
  r = made(&plan);
  EXPECT(measured(&r) == ET_INVALID_PROGRAM);
  EXPECT_ERROR(&r.err, ET_INVALID_PROGRAM, "a view is input 1");
  finish(&r);
}

static const et_test tests[] = {
    ET_CASE(plans_have_few_chains),
    ET_CASE(arguments_shared_by_all_instructions_are_counted),
    ET_CASE(a_list_shared_by_all_values_is_counted),
    ET_CASE(long_lists_of_tensors_are_checked_in_one_pass),
    ET_CASE(operators_in_great_numbers_are_looked_up_once_a_call),
    ET_CASE(inputs_find_their_tensors_at_once),
    ET_CASE(what_is_written_is_not_searched_for_without_end),
    ET_CASE(a_view_with_memory_of_its_own_is_no_input),
};

ET_TEST_MAIN(tests)
