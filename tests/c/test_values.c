// Tests of values other than tensors: lists and texts that are passed to an operator, inputs of
// every kind, freed memory, random numbers that are seeded again.
#include "rig.h"

#include <math.h>

static const int32_t three[] = {3};
#define TENSOR(...) {.code = PTE_TENSOR, .items = three, .n = 1, .dtype = ET_F32, __VA_ARGS__}

// ---- An operator that checks one argument of every kind

enum { OUT, BOOLS, DOUBLES, INTS, TENSORS, MAYBES, TEXT, TWO, SEVEN, ABSENT, REAL, N_VALUES };

static et_status run_look(et_kernel_ctx *ctx, et_value *const *args) {
  const et_value *bools = args[0], *doubles = args[1], *ints = args[2], *maybes = args[4];
  const bool is_right =
      bools->tag == ET_BOOL_LIST && bools->n == 3 && bools->as.bools[0] == 1 &&
      bools->as.bools[1] == 0 && bools->as.bools[2] == 1 && doubles->tag == ET_DOUBLE_LIST &&
      doubles->n == 2 && et_value_double_at(doubles, 0) == -4 &&
      et_value_double_at(doubles, 1) == 9 && ints->tag == ET_INT_LIST && ints->n == 2 &&
      ints->as.list[0]->as.i == 7 && ints->as.list[1]->as.i == 2 &&
      args[3]->tag == ET_TENSOR_LIST && args[3]->n == 1 &&
      (ctx->random == NULL || args[3]->as.list[0] == args[7]) &&
      maybes->tag == ET_OPTIONAL_TENSOR_LIST && maybes->n == 3 && maybes->as.list[0] == NULL &&
      maybes->as.list[1]->tag == ET_NONE && maybes->as.list[2]->tag == ET_TENSOR &&
      args[5]->tag == ET_STRING && args[5]->n == 4 && strcmp(args[5]->as.string, "text") == 0 &&
      args[6]->tag == ET_DOUBLE && args[6]->as.d == 0.25;
  if (ctx->random != NULL) ((float *)args[7]->as.tensor->data)[0] = (float)++ctx->random->calls;
  return is_right ? ET_OK : ET_INTERNAL;
}

static et_status prepare_look(et_prepare_ctx *ctx, et_value *const *args) {
  const et_kernel_ctx run = {.err = ctx->err};
  et_kernel_ctx copy = run;
  (void)et_prepare_alloc(ctx, args[4]->n, 1);
  return run_look(&copy, args);
}

static const et_op looking[] = {
    {.name = "test::look.out", .run = run_look, .prepare = prepare_look, .n_args = 9}};
static const et_op_table looks = {looking, 1, &et_ops_portable};

static const int32_t bools[] = {1, 0, 1}, doubles[] = {-4, 9}, ints[] = {SEVEN, TWO},
                     tensors[] = {OUT}, maybes[] = {-1, ABSENT, OUT};
static const made_value every_kind[N_VALUES] = {
    [OUT] = TENSOR(.memory = 1),
    [BOOLS] = {.code = PTE_BOOL_LIST, .items = bools, .n = 3},
    [DOUBLES] = {.code = PTE_DOUBLE_LIST, .items = doubles, .n = 2},
    [INTS] = {.code = PTE_INT_LIST, .items = ints, .n = 2},
    [TENSORS] = {.code = PTE_TENSOR_LIST, .items = tensors, .n = 1},
    [MAYBES] = {.code = PTE_OPTIONAL_TENSOR_LIST, .items = maybes, .n = 3},
    [TEXT] = {.code = PTE_STRING, .text = "text"},
    [TWO] = {.code = PTE_INT, .number = 2},
    [SEVEN] = {.code = PTE_INT, .number = 7},
    [ABSENT] = {.code = PTE_NULL},
    [REAL] = {.code = PTE_DOUBLE, .real = 0.25},
};

static rig looking_rig(void) {
  static const int32_t args[] = {BOOLS, DOUBLES, INTS, TENSORS, MAYBES, TEXT, REAL, OUT, OUT};
  static const made_instruction code[] = {{.kind = PTE_KERNEL_CALL, .many = args, .n_args = 9}};
  static const char *const operators[] = {"test::look", "out"};
  static const made_plan plan =
      MADE_PLAN(every_kind, code, operators, MADE_OUTPUT(OUT), MADE_MEMORY(64));
  rig r = rig_make(&plan);
  r.config.ops = &looks;
  return r;
}

static void every_kind_of_value_reaches_an_operator(void) {
  for (int k = 0; k < 2; k++) {
    rig r = looking_rig();
    r.config.no_prepare = k == 1;
    EXPECT(rig_start(&r, "forward"));
    EXPECT(et_method_execute(r.method, &r.err) == ET_OK);
    rig_end(&r);
  }
}

static void random_numbers_start_anew_with_the_seed(void) {
  rig r = looking_rig();
  EXPECT(rig_start(&r, "forward"));
  const float *drawn = et_method_output(r.method, 0)->as.tensor->data;
  for (int turn = 0; turn < 2; turn++) {
    EXPECT(et_method_execute(r.method, &r.err) == ET_OK && drawn[0] == 1);
    EXPECT(et_method_execute(r.method, &r.err) == ET_OK && drawn[0] == 2);
    et_method_seed(r.method, 5);
  }
  rig_end(&r);
}

static void lists_are_refused_item_by_item(void) {
  const struct {
    unsigned kind;
    size_t item;  // byte of the list's contents
    uint8_t byte;
    const char *part;
  } cases[] = {
      {PTE_BOOL_LIST, 1, 2, "list entry 1: expected a value that such a list can hold, got 2"},
      {PTE_INT_LIST, 7, 0x80, "list entry 0: expected a value that such a list can hold, got -"},
      {PTE_TENSOR_LIST, 0, TEXT, "list entry 0: expected a value that such a list can hold, got 6"},
      {PTE_OPTIONAL_TENSOR_LIST, 4, TEXT,
       "list entry 1: expected a value that such a list can hold, got 6"},
      {PTE_OPTIONAL_TENSOR_LIST, 0, 0xfe,
       "list entry 0: expected a value that such a list can hold, got -2"}};
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    rig r = looking_rig();
    EXPECT(rig_open(&r) == ET_OK);
    const eti_vector list = eti_fb_vector(rig_value(&r, cases[k].kind, 0), PTE_LIST_ITEMS);
    rig_poke_u8(list.data + cases[k].item, cases[k].byte);
    EXPECT(rig_load(&r, "forward") == ET_INVALID_PROGRAM);
    EXPECT_ERROR(&r.err, ET_INVALID_PROGRAM, cases[k].part);
    rig_end(&r);
  }
}

// ---- Inputs

static et_status give(rig *r, const made_value *v, const et_value *given) {
  const made_chain chain = {NULL, 0, 0};
  const made_plan plan = {.name = "forward",
                          .values = v,
                          .n_values = 1,
                          .n_inputs = 1,
                          .chains = &chain,
                          .n_chains = 1};
  *r = rig_make(&plan);
  if (!rig_start(r, "forward")) return ET_INTERNAL;
  return et_method_set_input(r->method, 0, given, &r->err);
}

static void inputs_that_are_no_tensors_must_be_what_was_traced(void) {
  const et_value none = {.tag = ET_NONE}, number = {.tag = ET_INT, .as.i = 5},
                 yes = {.tag = ET_BOOL, .as.b = true}, half = {.tag = ET_DOUBLE, .as.d = 0.5},
                 near = {.tag = ET_DOUBLE, .as.d = 0.50001},
                 text = {.tag = ET_STRING, .n = 2, .as.string = "ab"},
                 longer = {.tag = ET_STRING, .n = 3, .as.string = "abc"},
                 odd = {.tag = ET_DOUBLE, .as.d = (double)NAN},
                 infinite = {.tag = ET_DOUBLE, .as.d = (double)INFINITY};
  const made_value none_v = {.code = PTE_NULL}, number_v = {.code = PTE_INT, .number = 5},
                   yes_v = {.code = PTE_BOOL, .number = 1}, no_v = {.code = PTE_BOOL},
                   half_v = {.code = PTE_DOUBLE, .real = 0.5},
                   text_v = {.code = PTE_STRING, .text = "ab"},
                   odd_v = {.code = PTE_DOUBLE, .real = (double)NAN},
                   infinite_v = {.code = PTE_DOUBLE, .real = (double)INFINITY},
                   list_v = {.code = PTE_BOOL_LIST, .items = bools, .n = 3};
  const struct {
    const made_value *traced;
    const et_value *given;
    const char *part;  // NULL: accepted
  } cases[] = {
      {&none_v, &none, NULL},
      {&none_v, &number,
       "input 0: expected None that the program was exported with, got the Int 5"},
      {&number_v, &number, NULL},
      {&number_v, &half,
       "expected the Int 5 that the program was exported with, got the Double 0.5"},
      {&yes_v, &yes, NULL},
      {&no_v, &yes, "expected the Bool false"},
      {&yes_v, &none, "expected the Bool true that the program was exported with, got None"},
      {&half_v, &half, NULL},
      {&half_v, &near, NULL},
      {&half_v, &odd,
       "expected the Double 0.5 that the program was exported with, got the Double nan"},
      {&text_v, &text, NULL},
      {&text_v, &longer,
       "expected the text 'ab' that the program was exported with, got the text 'abc'"},
      {&odd_v, &odd, NULL},
      {&odd_v, &half, "expected the Double nan"},
      {&infinite_v, &infinite, NULL},
      {&infinite_v, &half, "expected the Double inf"},
      {&list_v, &none, "expected a list, which cannot be set, got None"},
  };
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    rig r;
    const et_status status = give(&r, cases[k].traced, cases[k].given);
    EXPECT(status == (cases[k].part == NULL ? ET_OK : ET_INVALID_ARGUMENT));
    if (status != ET_OK) EXPECT_ERROR(&r.err, ET_INVALID_ARGUMENT, cases[k].part);
    rig_end(&r);
  }
}

// ---- Freed memory

static void what_was_set_free_has_no_memory_until_a_view_is_made_again(void) {
  enum { X, VIEW, Y, SIZE, SIZES, ONE };
  static const int32_t sizes[] = {SIZE};
  static const made_value values[] = {TENSOR(.memory = 1),
                                      TENSOR(),
                                      TENSOR(.memory = 1, .at = 64),
                                      {.code = PTE_INT, .number = 3},
                                      {.code = PTE_INT_LIST, .items = sizes, .n = 1},
                                      {.code = PTE_INT, .number = 1}};
  static const made_instruction code[] = {
      MADE_CALL(0, X, SIZES, VIEW),
      {.kind = PTE_FREE_CALL, .a = X},  // has memory of its own: nothing happens
      MADE_CALL(1, X, VIEW, ONE, Y, Y),
      {.kind = PTE_FREE_CALL, .a = VIEW},
      MADE_CALL(1, X, VIEW, ONE, Y, Y)};
  static const char *const operators[] = {"executorch_prim::et_view", "default", "aten::add",
                                          "out"};
  for (size_t n_code = 4; n_code <= 5; n_code++) {
    made_plan plan =
        MADE_PLAN(values, code, operators, MADE_INPUT(X), MADE_OUTPUT(Y), MADE_MEMORY(128));
    plan.n_code = n_code;
    rig r = rig_make(&plan);
    float x[] = {1, 2, 3};
    EXPECT(rig_start(&r, "forward"));
    EXPECT(rig_set(&r, 0, x, ET_F32, 1, three) == ET_OK);
    for (int turn = 0; turn < 2; turn++) {
      EXPECT(et_method_execute(r.method, &r.err) == (n_code == 4 ? ET_OK : ET_INVALID_STATE));
      if (n_code == 5) EXPECT_ERROR(&r.err, ET_INVALID_STATE, "instruction 4");
      EXPECT(((const float *)et_method_output(r.method, 0)->as.tensor->data)[2] == 6);
    }
    rig_end(&r);
  }
}

static const et_test tests[] = {
    ET_CASE(every_kind_of_value_reaches_an_operator),
    ET_CASE(random_numbers_start_anew_with_the_seed),
    ET_CASE(lists_are_refused_item_by_item),
    ET_CASE(inputs_that_are_no_tensors_must_be_what_was_traced),
    ET_CASE(what_was_set_free_has_no_memory_until_a_view_is_made_again),
};

ET_TEST_MAIN(tests)
