// Tests of parameters and gradients by name, and of programs that have none or describe them wrong.
#include "train_rig.h"

static void parameters_have_names_and_the_values_of_the_file(void) {
  rig r;
  et_training t;
  EXPECT(train_start(&r, &t));
  EXPECT(et_training_count(&t) == N_TRAINED);
  EXPECT(strcmp(et_training_name(&t, WEIGHT), "weight") == 0);
  EXPECT(strcmp(et_training_name(&t, BIAS), "bias") == 0);
  EXPECT(et_training_find(&t, "bias") == BIAS);
  EXPECT(et_training_find(&t, "other") == N_TRAINED);
  const et_tensor *weight = et_training_parameter(&t, WEIGHT);
  EXPECT(weight->dtype == ET_F32 && weight->rank == 2 && weight->numel == 2);
  EXPECT(memcmp(weight->data, first_weight, sizeof first_weight) == 0);
  EXPECT(*(const float *)et_training_parameter(&t, BIAS)->data == first_bias);
  rig_end(&r);
}

static void there_is_nothing_past_the_last_parameter(void) {
  rig r;
  et_training t;
  EXPECT(train_start(&r, &t));
  EXPECT(et_training_name(&t, N_TRAINED) == NULL);
  EXPECT(et_training_parameter(&t, N_TRAINED) == NULL);
  EXPECT(et_training_gradient(&t, SIZE_MAX) == NULL);
  rig_end(&r);
}

static void a_run_gives_loss_and_gradients(void) {
  rig r;
  et_training t;
  EXPECT(train_start(&r, &t) && train_run(&r) == ET_OK);
  const float *weight = et_training_gradient(&t, WEIGHT)->data;
  EXPECT(is_near(train_loss(&r), (double)first_loss));
  EXPECT(is_near(weight[0], (double)first_weight_gradient[0]));
  EXPECT(is_near(weight[1], (double)first_weight_gradient[1]));
  EXPECT(
      is_near(*(const float *)et_training_gradient(&t, BIAS)->data, (double)first_bias_gradient));
  rig_end(&r);
}

static void a_parameter_that_is_written_is_used_by_the_next_run(void) {
  rig r;
  et_training t;
  EXPECT(train_start(&r, &t) && train_run(&r) == ET_OK);
  float *weight = train_weights(&t);
  weight[0] = 1.0f, weight[1] = 0.5f;
  *(float *)et_training_parameter(&t, BIAS)->data = 0.0f;
  EXPECT(train_run(&r) == ET_OK);
  EXPECT(is_near(train_loss(&r), 0.125));  // residuals 0, 0, 0.5, 0.5
  rig_end(&r);
}

static void a_program_without_gradients_is_refused_with_a_remedy(void) {
  rig r = rig_read("add_mul.pte");
  et_training t;
  EXPECT(rig_start(&r, "forward"));
  EXPECT(et_training_init(&t, r.method, &r.err) == ET_INVALID_ARGUMENT);
  EXPECT_ERROR(&r.err, ET_INVALID_ARGUMENT, "method 'forward': expected a training program");
  EXPECT_ERROR(&r.err, ET_INVALID_ARGUMENT, "_export_forward_backward");
  rig_end(&r);
}

// ---- Programs made for these tests: `forward` returns a loss, a gradient and a parameter.

static const int32_t three[] = {3};
#define TENSOR(...) {.code = PTE_TENSOR, .items = three, .n = 1, .dtype = ET_F32, __VA_ARGS__}
static const made_value tensors[] = {TENSOR(.memory = 1), TENSOR(.memory = 1, .at = 64),
                                     TENSOR(.memory = 1, .at = 128)};
static const made_chain empty[1];
static const made_plan forward = {.name = "forward",
                                  .values = tensors,
                                  .n_values = 3,
                                  .chains = empty,
                                  .n_chains = 1,
                                  .outputs = {0, 1, 2},
                                  .n_outputs = 3,
                                  .memories = {192},
                                  .n_memories = 1};

static made_plan getter(const char *name, const made_value *value) {
  const made_plan plan = {
      .name = name, .values = value, .n_values = 1, .chains = empty, .n_chains = 1, MADE_OUTPUT(0)};
  return plan;
}

// Loads the program with these index methods and name, and looks for its parameters.
static et_status init_with(const made_plan *method, made_value gradient, made_value parameter,
                           made_value name, et_error *err) {
  const made_plan plans[] = {*method, getter("__et_training_gradients_index_forward", &gradient),
                             getter("__et_training_parameters_index_forward", &parameter),
                             getter("__et_training_fqn_forward", &name)};
  const made_program program = {.plans = plans, .n_plans = 4};
  rig r = rig_make_program(&program);
  et_training t;
  et_status status = rig_open(&r);
  if (status == ET_OK) status = rig_load(&r, "forward");
  if (status == ET_OK) status = et_training_init(&t, r.method, &r.err);
  *err = r.err;
  rig_end(&r);
  return status;
}

static made_value index_of(int64_t i) {
  const made_value value = {.code = PTE_INT, .number = i};
  return value;
}

static const made_value a_name = {.code = PTE_STRING, .text = "weight"};

static void a_made_program_is_accepted_when_its_lists_agree(void) {
  et_error err = {.status = ET_OK};
  EXPECT(init_with(&forward, index_of(1), index_of(2), a_name, &err) == ET_OK);
}

static void indices_that_do_not_fit_the_outputs_are_refused(void) {
  et_error err = {.status = ET_OK};
  EXPECT(init_with(&forward, index_of(0), index_of(2), a_name, &err) == ET_INVALID_PROGRAM);
  EXPECT_ERROR(&err, ET_INVALID_PROGRAM, "expected 1 gradients and parameters, as many as names");
  EXPECT(init_with(&forward, index_of(2), index_of(1), a_name, &err) == ET_INVALID_PROGRAM);
  EXPECT(init_with(&forward, index_of(1), index_of(4), a_name, &err) == ET_INVALID_PROGRAM);
  EXPECT(init_with(&forward, index_of(1), index_of(INT64_MAX), a_name, &err) == ET_INVALID_PROGRAM);
  EXPECT_ERROR(&err, ET_INVALID_PROGRAM,
               "expected the index of an output, got 9223372036854775807");
  EXPECT(init_with(&forward, index_of(-1), index_of(2), a_name, &err) == ET_INVALID_PROGRAM);
  EXPECT(init_with(&forward, index_of(INT64_MIN), index_of(2), a_name, &err) == ET_INVALID_PROGRAM);
}

static void indices_that_count_values_written_back_are_those_of_the_last_outputs(void) {
  et_error err = {.status = ET_OK};
  EXPECT(init_with(&forward, index_of(3), index_of(4), a_name, &err) == ET_OK);
}

static void lists_of_another_kind_are_refused(void) {
  et_error err = {.status = ET_OK};
  EXPECT(init_with(&forward, a_name, index_of(2), a_name, &err) == ET_INVALID_PROGRAM);
  EXPECT_ERROR(&err, ET_INVALID_PROGRAM, "expected one integer as output, got String");
  EXPECT(init_with(&forward, index_of(1), index_of(2), index_of(3), &err) == ET_INVALID_PROGRAM);
  EXPECT_ERROR(&err, ET_INVALID_PROGRAM, "fqn_forward', output 0: expected a string, got Int");
}

static void parameters_without_memory_of_their_own_are_refused(void) {
  static const made_value values[] = {
      TENSOR(.memory = 1),
      TENSOR(.memory = 1, .at = 64),
      {.code = PTE_TENSOR, .items = three, .n = 1, .dtype = ET_F32}};
  static const made_value numbers[] = {
      TENSOR(.memory = 1), TENSOR(.memory = 1, .at = 64), {.code = PTE_INT}};
  et_error err = {.status = ET_OK};
  made_plan plan = forward;
  plan.values = values;
  EXPECT(init_with(&plan, index_of(1), index_of(2), a_name, &err) == ET_INVALID_PROGRAM);
  EXPECT_ERROR(&err, ET_INVALID_PROGRAM, "which runs can read back, got memory of the caller");
  plan.values = numbers;
  EXPECT(init_with(&plan, index_of(1), index_of(2), a_name, &err) == ET_INVALID_PROGRAM);
  EXPECT_ERROR(&err, ET_INVALID_PROGRAM, "the parameter and its gradient, got Int and Tensor");
}

static void parameters_of_a_dynamic_shape_are_refused(void) {
  const made_value values[] = {TENSOR(.memory = 1), TENSOR(.memory = 1, .at = 64),
                               TENSOR(.memory = 1, .at = 128, .is_dynamic = true)};
  et_error err = {.status = ET_OK};
  made_plan plan = forward;
  plan.values = values;
  EXPECT(init_with(&plan, index_of(1), index_of(2), a_name, &err) == ET_INVALID_PROGRAM);
  EXPECT_ERROR(&err, ET_INVALID_PROGRAM,
               "parameter 'weight': expected a fixed shape, got a dynamic one");
}

static const et_test tests[] = {
    ET_CASE(parameters_have_names_and_the_values_of_the_file),
    ET_CASE(there_is_nothing_past_the_last_parameter),
    ET_CASE(a_run_gives_loss_and_gradients),
    ET_CASE(a_parameter_that_is_written_is_used_by_the_next_run),
    ET_CASE(a_program_without_gradients_is_refused_with_a_remedy),
    ET_CASE(a_made_program_is_accepted_when_its_lists_agree),
    ET_CASE(indices_that_do_not_fit_the_outputs_are_refused),
    ET_CASE(indices_that_count_values_written_back_are_those_of_the_last_outputs),
    ET_CASE(lists_of_another_kind_are_refused),
    ET_CASE(parameters_without_memory_of_their_own_are_refused),
    ET_CASE(parameters_of_a_dynamic_shape_are_refused),
};

ET_TEST_MAIN(tests)
