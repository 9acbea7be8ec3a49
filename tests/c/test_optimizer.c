// Tests of optimizers from C: first steps by hand, convergence, state in the caller's memory,
// refusals. The tests in tests/extension/training compare every step with torch.
#include "train_rig.h"

#include <stdlib.h>

static et_span claim_state(rig *r, const et_optimizer_options *options, const et_training *t) {
  et_span span = {NULL, 0};
  if (et_optimizer_measure(options, t, &span.size, &r->err) != ET_OK) abort();
  span.data = rig_claim(r, span.size);
  return span;
}

static bool start(rig *r, et_training *t, et_optimizer *optimizer,
                  const et_optimizer_options *options) {
  return train_start(r, t) &&
         et_optimizer_init(optimizer, options, t, claim_state(r, options, t), &r->err) == ET_OK;
}

static bool step(rig *r, et_optimizer *optimizer) {
  return train_run(r) == ET_OK && et_optimizer_step(optimizer, &r->err) == ET_OK;
}

static void sgd_goes_down_the_gradient(void) {
  rig r;
  et_training t;
  et_optimizer optimizer;
  const et_optimizer_options options = et_sgd_options(0.1);
  EXPECT(start(&r, &t, &optimizer, &options) && step(&r, &optimizer));
  EXPECT(is_near(train_weights(&t)[0], 0.5 + 0.1 * 2.5));
  EXPECT(is_near(train_weights(&t)[1], -1.0 + 0.1 * 2.125));
  EXPECT(is_near(*(float *)et_training_parameter(&t, BIAS)->data, 0.25 + 0.1 * 2.25));
  rig_end(&r);
}

static void weight_decay_of_sgd_is_added_to_the_gradient(void) {
  rig r;
  et_training t;
  et_optimizer optimizer;
  et_optimizer_options options = et_sgd_options(0.1);
  options.weight_decay = 0.5;
  EXPECT(start(&r, &t, &optimizer, &options) && step(&r, &optimizer));
  EXPECT(is_near(train_weights(&t)[0], 0.5 - 0.1 * (-2.5 + 0.5 * 0.5)));
  rig_end(&r);
}

// Bias corrections make the first step of Adam lr · sign(gradient), up to eps.
static void the_first_step_of_adam_is_the_rate(void) {
  rig r;
  et_training t;
  et_optimizer optimizer;
  const et_optimizer_options options = et_adam_options();
  EXPECT(start(&r, &t, &optimizer, &options) && step(&r, &optimizer));
  EXPECT(is_near(train_weights(&t)[0], 0.5 + 1e-3));
  EXPECT(is_near(train_weights(&t)[1], -1.0 + 1e-3));
  rig_end(&r);
}

static void weight_decay_of_adamw_shrinks_the_parameter(void) {
  rig r;
  et_training t;
  et_optimizer optimizer;
  et_optimizer_options options = et_adamw_options();
  options.lr = 0.1;
  options.weight_decay = 0.5;
  EXPECT(start(&r, &t, &optimizer, &options) && step(&r, &optimizer));
  EXPECT(is_near(train_weights(&t)[0], 0.5 * (1 - 0.1 * 0.5) + 0.1));
  rig_end(&r);
}

static void every_optimizer_finds_the_line(void) {
  et_optimizer_options all[3] = {et_sgd_options(0.1), et_adam_options(), et_adamw_options()};
  all[0].momentum = 0.9;
  all[1].lr = all[2].lr = 0.05;
  all[2].weight_decay = 0.0;
  for (size_t k = 0; k < 3; k++) {
    rig r;
    et_training t;
    et_optimizer optimizer;
    EXPECT(start(&r, &t, &optimizer, &all[k]));
    for (int i = 0; i < 400; i++) EXPECT(step(&r, &optimizer));
    EXPECT(optimizer.step == 400);
    EXPECT(train_run(&r) == ET_OK && train_loss(&r) < 0.0105f);  // least squares: 1 / 96
    rig_end(&r);
  }
}

static void a_rate_may_change_between_steps(void) {
  rig r;
  et_training t;
  et_optimizer optimizer;
  const et_optimizer_options options = et_sgd_options(0.1);
  EXPECT(start(&r, &t, &optimizer, &options));
  optimizer.options.lr = 0.0;
  EXPECT(step(&r, &optimizer));
  EXPECT(memcmp(train_weights(&t), first_weight, sizeof first_weight) == 0);
  optimizer.options.lr = -1.0;
  EXPECT(train_run(&r) == ET_OK);
  EXPECT(et_optimizer_step(&optimizer, &r.err) == ET_INVALID_ARGUMENT);
  EXPECT(optimizer.step == 1);
  EXPECT(memcmp(train_weights(&t), first_weight, sizeof first_weight) == 0);
  rig_end(&r);
}

static void state_is_the_slots_of_every_parameter(void) {
  rig r;
  et_training t;
  size_t bytes;
  et_optimizer_options options = et_sgd_options(0.1);
  EXPECT(train_start(&r, &t));
  EXPECT(et_optimizer_measure(&options, &t, &bytes, &r.err) == ET_OK && bytes == 0);
  options.momentum = 0.5;
  EXPECT(et_optimizer_measure(&options, &t, &bytes, &r.err) == ET_OK && bytes == 3 * 4);
  EXPECT(strcmp(et_optimizer_slot_name(&options, 0), "momentum_buffer") == 0);
  EXPECT(et_optimizer_slot_name(&options, 1) == NULL);
  options = et_adamw_options();
  options.amsgrad = true;
  EXPECT(et_optimizer_measure(&options, &t, &bytes, &r.err) == ET_OK && bytes == 3 * 3 * 4);
  EXPECT(strcmp(et_optimizer_slot_name(&options, 2), "max_exp_avg_sq") == 0);
  rig_end(&r);
}

static void too_little_or_unaligned_state_is_refused(void) {
  rig r;
  et_training t;
  et_optimizer optimizer;
  float state[7];
  const et_optimizer_options options = et_adam_options();
  EXPECT(train_start(&r, &t));
  for (size_t size = 0; size < 6 * 4; size++) {
    const et_span span = {state, size};
    EXPECT(et_optimizer_init(&optimizer, &options, &t, span, &r.err) == ET_OUT_OF_MEMORY);
  }
  EXPECT_ERROR(&r.err, ET_OUT_OF_MEMORY, "expected 24 bytes of state, got 23");
  const et_span odd = {(char *)state + 1, 24};
  EXPECT(et_optimizer_init(&optimizer, &options, &t, odd, &r.err) == ET_INVALID_ARGUMENT);
  EXPECT_ERROR(&r.err, ET_INVALID_ARGUMENT, "aligned to 4 bytes, got address 0x");
  rig_end(&r);
}

static void options_that_make_no_sense_are_refused(void) {
  et_error err = {.status = ET_OK};
  et_optimizer_options options = et_sgd_options(0.1);
  options.nesterov = true;
  EXPECT(et_optimizer_check(&options, &err) == ET_INVALID_ARGUMENT);
  EXPECT_ERROR(&err, ET_INVALID_ARGUMENT, "nesterov: expected momentum above 0");
  options = et_adam_options();
  options.beta2 = 1.0;
  EXPECT(et_optimizer_check(&options, &err) == ET_INVALID_ARGUMENT);
  EXPECT_ERROR(&err, ET_INVALID_ARGUMENT, "beta2: expected 0 or more and less than 1, got 1");
  options.kind = (et_optimizer_kind)7;
  EXPECT(et_optimizer_check(&options, &err) == ET_INVALID_ARGUMENT);
  EXPECT_ERROR(&err, ET_INVALID_ARGUMENT, "got 7");
}

// ---- One tensor

static void gradients_in_another_dim_order_are_gathered(void) {
  static const int32_t sizes[] = {3, 50, 4};
  enum { N = 3 * 50 * 4 };
  float plain[N], turned[N], first[N] = {0}, second[N] = {0};
  rig_tensor p, q, g, h;
  et_error err = {.status = ET_OK};
  float *const slots[ET_OPTIMIZER_SLOTS] = {NULL};
  const et_optimizer_options options = et_sgd_options(1.0);
  rig_fill_tensor(&p, first, ET_F32, 3, sizes);
  rig_fill_tensor(&q, second, ET_F32, 3, sizes);
  rig_fill_tensor(&g, plain, ET_F32, 3, sizes);
  rig_fill_tensor(&h, turned, ET_F32, 3, sizes);
  const uint8_t order[] = {2, 0, 1};
  const ptrdiff_t strides[] = {50, 1, 150};
  memcpy(h.dim_order, order, sizeof order);
  memcpy(h.strides, strides, sizeof strides);
  for (int a = 0; a < 3; a++)
    for (int b = 0; b < 50; b++)
      for (int c = 0; c < 4; c++) {
        plain[(a * 50 + b) * 4 + c] = turned[a * 50 + b + c * 150] = (float)(a * 1000 + b * 10 + c);
      }
  EXPECT(et_optimizer_update(&options, 1, &p.t, &g.t, slots, &err) == ET_OK);
  EXPECT(et_optimizer_update(&options, 1, &q.t, &h.t, slots, &err) == ET_OK);
  EXPECT(memcmp(first, second, sizeof first) == 0);
}

static void tensors_of_another_dtype_or_shape_are_refused(void) {
  static const int32_t two[] = {2}, three[] = {3};
  float data[3] = {1, 2, 3}, gradient[3] = {1, 1, 1};
  rig_tensor p, g;
  et_error err = {.status = ET_OK};
  float *const slots[ET_OPTIMIZER_SLOTS] = {NULL};
  const et_optimizer_options options = et_sgd_options(1.0);
  rig_fill_tensor(&p, data, ET_F32, 1, three);
  rig_fill_tensor(&g, gradient, ET_F32, 1, two);
  EXPECT(et_optimizer_update(&options, 1, &p.t, &g.t, slots, &err) == ET_INVALID_ARGUMENT);
  EXPECT_ERROR(&err, ET_INVALID_ARGUMENT, "dimension 0: expected the parameter's size 3, got 2");
  rig_fill_tensor(&g, gradient, ET_F16, 1, three);
  EXPECT(et_optimizer_update(&options, 1, &p.t, &g.t, slots, &err) == ET_NOT_SUPPORTED);
  EXPECT_ERROR(&err, ET_NOT_SUPPORTED, "gradient: expected dtype f32, got f16");
  rig_fill_tensor(&g, gradient, ET_F32, 0, three);
  EXPECT(et_optimizer_update(&options, 1, &p.t, &g.t, slots, &err) == ET_INVALID_ARGUMENT);
  rig_fill_tensor(&g, NULL, ET_F32, 1, three);
  EXPECT(et_optimizer_update(&options, 1, &p.t, &g.t, slots, &err) == ET_INVALID_ARGUMENT);
  EXPECT_ERROR(&err, ET_INVALID_ARGUMENT, "expected memory");
  rig_fill_tensor(&g, gradient, ET_F32, 1, three);
  EXPECT(et_optimizer_update(&options, 0, &p.t, &g.t, slots, &err) == ET_INVALID_ARGUMENT);
  EXPECT_ERROR(&err, ET_INVALID_ARGUMENT, "step: expected 1 or more");
  rig_fill_tensor(&p, data, ET_BF16, 1, three);
  EXPECT(et_optimizer_update(&options, 1, &p.t, &g.t, slots, &err) == ET_NOT_SUPPORTED);
  EXPECT(data[0] == 1 && data[1] == 2 && data[2] == 3);
}

static const et_test tests[] = {
    ET_CASE(sgd_goes_down_the_gradient),
    ET_CASE(weight_decay_of_sgd_is_added_to_the_gradient),
    ET_CASE(the_first_step_of_adam_is_the_rate),
    ET_CASE(weight_decay_of_adamw_shrinks_the_parameter),
    ET_CASE(every_optimizer_finds_the_line),
    ET_CASE(a_rate_may_change_between_steps),
    ET_CASE(state_is_the_slots_of_every_parameter),
    ET_CASE(too_little_or_unaligned_state_is_refused),
    ET_CASE(options_that_make_no_sense_are_refused),
    ET_CASE(gradients_in_another_dim_order_are_gathered),
    ET_CASE(tensors_of_another_dtype_or_shape_are_refused),
};

ET_TEST_MAIN(tests)
