// train_rig.h — the fixture for tests of training: the golden training program, loaded, with its
// parameters found. It fits y = x · weight + bias to four points, for which eager's loss and
// gradients before the first step are below.
#ifndef ET_TRAIN_RIG_H
#define ET_TRAIN_RIG_H

#include "runtime/training/et_train.h"

#include "rig.h"

enum { WEIGHT, BIAS, N_TRAINED };  // parameters in the order of the program
enum { LOSS };

static const float first_weight[] = {0.5f, -1.0f}, first_bias = 0.25f;
static const float first_loss = 1.5625f;
static const float first_weight_gradient[] = {-2.5f, -2.125f}, first_bias_gradient = -2.25f;

// Runs the program on the four points.
static inline et_status train_run(rig *r) {
  static const int32_t two[] = {4, 2}, one[] = {4};
  static float x[] = {1, 0, 0, 1, 1, 1, 2, 1}, y[] = {1, 0.5f, 1, 2};
  et_status status = rig_set(r, 0, x, ET_F32, 2, two);
  if (status == ET_OK) status = rig_set(r, 1, y, ET_F32, 1, one);
  return status == ET_OK ? et_method_execute(r->method, &r->err) : status;
}

static inline float train_loss(const rig *r) {
  return *(const float *)et_method_output(r->method, LOSS)->as.tensor->data;
}

static inline bool train_start(rig *r, et_training *training) {
  *r = rig_read("training.pte");
  return rig_start(r, "forward") && et_training_init(training, r->method, &r->err) == ET_OK;
}

static inline float *train_weights(const et_training *training) {
  return et_training_parameter(training, WEIGHT)->data;
}

static inline bool is_near(float found, double expected) {
  const double difference = (double)found - expected,
               bound = 1e-6 + 1e-6 * (expected < 0 ? -expected : expected);
  return difference <= bound && difference >= -bound;
}

#endif  // ET_TRAIN_RIG_H
