// Tests of operators that run only when prepared (et_op.needs_prepare): loading always prepares
// them, with the arguments that are known at load.
#include "rig.h"

static const int32_t three[] = {3};
#define TENSOR(...) {.code = PTE_TENSOR, .items = three, .n = 1, .dtype = ET_F32, __VA_ARGS__}

typedef struct noted {
  float is_minimal, has_member, number;
} noted;

// test::note(Tensor[] list, int number, *, Tensor(a!) out): out is the number that prepare saw.
static et_status prepare_note(et_prepare_ctx *ctx, et_value *const *args) {
  const et_value *list = args[0], *number = args[1];
  if (number->tag != ET_INT)
    return eti_fail(ctx->err, ET_INVALID_PROGRAM, "expected a number known at load");
  noted *state = et_prepare_alloc(ctx, sizeof *state, 4);
  if (state == NULL) return et_prepare_status(ctx);
  const noted filled = {.is_minimal = ctx->is_minimal,
                        .has_member = list->n == 1 && list->as.list[0] != NULL,
                        .number = (float)number->as.i};
  *state = filled;
  ctx->state = state;
  return ET_OK;
}

static et_status run_note(et_kernel_ctx *ctx, et_value *const *args) {
  if (ctx->state == NULL) return ET_INTERNAL;
  memcpy(args[2]->as.tensor->data, ctx->state, sizeof(noted));
  return ET_OK;
}

static const et_op notes[] = {{.name = "test::note.out",
                               .run = run_note,
                               .prepare = prepare_note,
                               .n_args = 4,
                               .needs_prepare = true}};
static const et_op_table table = {notes, 1, &et_ops_portable};

enum { X, Y, OUT, LIST, NUMBER, ONE, N_VALUES };
static const int32_t members[] = {Y};
static const made_value values[N_VALUES] = {
    [X] = TENSOR(.memory = 1),
    [Y] = TENSOR(.memory = 1, .at = 64),
    [OUT] = TENSOR(.memory = 1, .at = 128),
    [LIST] = {.code = PTE_TENSOR_LIST, .items = members, .n = 1},
    [NUMBER] = {.code = PTE_INT, .number = 7},
    [ONE] = {.code = PTE_INT, .number = 1},
};
static const made_instruction note = MADE_CALL(0, LIST, NUMBER, OUT, OUT);
static const made_instruction move = {.kind = PTE_MOVE_CALL, .a = X, .b = Y};
static const made_instruction count = MADE_CALL(1, NUMBER, ONE, NUMBER);

static rig noting(const made_instruction *first) {
  const made_instruction code[] = {first == NULL ? note : *first, note};
  static const char *const operators[] = {"test::note", "out", "executorch_prim::add", "Scalar"};
  made_plan plan = MADE_PLAN(values, code, operators, MADE_OUTPUT(OUT), MADE_MEMORY(192));
  plan.n_code = first == NULL ? 1 : 2;
  rig r = rig_make(&plan);
  r.config.ops = &table;
  return r;
}

static void expect_noted(rig *r, float is_minimal, float has_member) {
  EXPECT(rig_start(r, "forward"));
  EXPECT(et_method_execute(r->method, &r->err) == ET_OK);
  const float *out = et_method_output(r->method, 0)->as.tensor->data;
  EXPECT(out[0] == is_minimal && out[1] == has_member && out[2] == 7);
  rig_end(r);
}

static void known_arguments_are_all_shown(void) {
  rig r = noting(NULL);
  expect_noted(&r, 0, 1);
}

static void a_method_without_prepare_steps_prepares_such_a_call_all_the_same(void) {
  rig r = noting(NULL);
  r.config.no_prepare = true;
  expect_noted(&r, 0, 1);
}

static void a_tensor_that_an_instruction_replaces_is_left_out(void) {
  rig r = noting(&move);
  expect_noted(&r, 1, 0);
}

static void a_call_that_cannot_be_prepared_is_refused_at_load(void) {
  rig r = noting(&count);
  EXPECT(!rig_start(&r, "forward"));
  EXPECT_ERROR(&r.err, ET_INVALID_PROGRAM, "expected a number known at load");
  rig_end(&r);
}

static void a_move_that_changes_what_a_value_is_fails(void) {
  static const made_instruction moves[] = {{.kind = PTE_MOVE_CALL, .a = X, .b = ONE},
                                           {.kind = PTE_MOVE_CALL, .a = LIST, .b = X}};
  static const char *const words[] = {"got f32 Tensor of rank 1 in place of Int",
                                      "got TensorList in place of f32 Tensor of rank 1"};
  for (size_t i = 0; i < 2; i++) {
    rig r = noting(&moves[i]);
    EXPECT(rig_start(&r, "forward"));
    EXPECT(et_method_execute(r.method, &r.err) == ET_INVALID_PROGRAM);
    EXPECT_ERROR(&r.err, ET_INVALID_PROGRAM, words[i]);
    rig_end(&r);
  }
}

static const et_test tests[] = {
    ET_CASE(known_arguments_are_all_shown),
    ET_CASE(a_method_without_prepare_steps_prepares_such_a_call_all_the_same),
    ET_CASE(a_tensor_that_an_instruction_replaces_is_left_out),
    ET_CASE(a_move_that_changes_what_a_value_is_fails),
    ET_CASE(a_call_that_cannot_be_prepared_is_refused_at_load),
};

ET_TEST_MAIN(tests)
