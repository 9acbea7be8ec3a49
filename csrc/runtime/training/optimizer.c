// optimizer.c — SGD, Adam and AdamW over f32 tensors, as torch.optim documents them, and an
// optimizer of all parameters of a training method. Knows no file format.
#include "runtime/bytes.h"
#include "runtime/check.h"
#include "runtime/tensor.h"
#include "runtime/training/et_train.h"

#include <math.h>

// ---- Options

et_optimizer_options et_sgd_options(double lr) {
  return (et_optimizer_options){.kind = ET_SGD, .lr = lr};
}

et_optimizer_options et_adam_options(void) {
  return (et_optimizer_options){
      .kind = ET_ADAM, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
}

et_optimizer_options et_adamw_options(void) {
  et_optimizer_options options = et_adam_options();
  options.kind = ET_ADAMW;
  options.weight_decay = 1e-2;
  return options;
}

static bool is_adam(const et_optimizer_options *options) {
  return options->kind == ET_ADAM || options->kind == ET_ADAMW;
}

size_t et_optimizer_slots(const et_optimizer_options *options) {
  if (is_adam(options)) return options->amsgrad ? 3 : 2;
  return options->momentum != 0.0 ? 1 : 0;
}

const char *et_optimizer_slot_name(const et_optimizer_options *options, size_t slot) {
  static const char *const adam[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  if (slot >= et_optimizer_slots(options)) return NULL;
  return is_adam(options) ? adam[slot] : "momentum_buffer";
}

// Comparisons below are written so that NaN fails.
et_status et_optimizer_check(const et_optimizer_options *options, et_error *err) {
  const et_optimizer_options *o = options;
  ET_CHECK(o->kind == ET_SGD || is_adam(o), err, ET_INVALID_ARGUMENT,
           "optimizer: expected kind 0 (SGD), 1 (Adam) or 2 (AdamW), got %d", (int)o->kind);
  ET_CHECK(o->lr >= 0.0, err, ET_INVALID_ARGUMENT, "lr: expected 0 or more, got %g", o->lr);
  ET_CHECK(o->weight_decay >= 0.0, err, ET_INVALID_ARGUMENT,
           "weight_decay: expected 0 or more, got %g", o->weight_decay);
  if (o->kind == ET_SGD) {
    ET_CHECK(o->momentum >= 0.0, err, ET_INVALID_ARGUMENT, "momentum: expected 0 or more, got %g",
             o->momentum);
    ET_CHECK(o->dampening == o->dampening, err, ET_INVALID_ARGUMENT,
             "dampening: expected a number, got NaN");
    ET_CHECK(!o->nesterov || (o->momentum > 0.0 && o->dampening == 0.0), err, ET_INVALID_ARGUMENT,
             "nesterov: expected momentum above 0 and dampening 0, got %g and %g", o->momentum,
             o->dampening);
    return ET_OK;
  }
  ET_CHECK(o->beta1 >= 0.0 && o->beta1 < 1.0, err, ET_INVALID_ARGUMENT,
           "beta1: expected 0 or more and less than 1, got %g", o->beta1);
  ET_CHECK(o->beta2 >= 0.0 && o->beta2 < 1.0, err, ET_INVALID_ARGUMENT,
           "beta2: expected 0 or more and less than 1, got %g", o->beta2);
  ET_CHECK(o->eps >= 0.0, err, ET_INVALID_ARGUMENT, "eps: expected 0 or more, got %g", o->eps);
  return ET_OK;
}

// ---- Update formulas

// The numbers of one update, which are the same for all elements.
typedef struct factors {
  float sign;        // of the gradient: -1 when maximizing
  float decay;       // of the parameter, added to the gradient
  float shrink;      // of the parameter, multiplied (AdamW)
  float rate;        // lr, for Adam divided by the first bias correction
  float momentum;    // of SGD's buffer
  float keep;        // of the gradient in SGD's buffer: 1 - dampening
  float new1, new2;  // of the gradient in Adam's averages: 1 - beta
  float beta2;
  float root;  // square root of the second bias correction
  float eps;
  bool is_first;
} factors;

static double power_of(double base, uint64_t exponent) {
  double power = 1.0;
  for (; exponent != 0; exponent >>= 1, base *= base) {
    if ((exponent & 1) != 0) power *= base;
  }
  return power;
}

static factors factors_of(const et_optimizer_options *o, uint64_t step) {
  factors f = {
      .sign = o->maximize ? -1.0f : 1.0f,
      .decay = o->kind == ET_ADAMW ? 0.0f : (float)o->weight_decay,
      .shrink = o->kind == ET_ADAMW ? (float)(1.0 - o->lr * o->weight_decay) : 1.0f,
      .rate = (float)o->lr,
      .momentum = (float)o->momentum,
      .keep = (float)(1.0 - o->dampening),
      .new1 = (float)(1.0 - o->beta1),
      .new2 = (float)(1.0 - o->beta2),
      .beta2 = (float)o->beta2,
      .eps = (float)o->eps,
      .is_first = step == 1,
  };
  if (is_adam(o)) {
    f.rate = (float)(o->lr / (1.0 - power_of(o->beta1, step)));
    f.root = (float)sqrt(1.0 - power_of(o->beta2, step));
  }
  return f;
}

static void sgd(const factors *f, float *restrict p, const float *restrict g, size_t n) {
  const float sign = f->sign, decay = f->decay, rate = f->rate;
  for (size_t i = 0; i < n; i++) p[i] -= rate * (sign * g[i] + decay * p[i]);
}

// The buffer starts as the first gradient, without dampening.
static void sgd_momentum(const factors *f, bool nesterov, float *restrict p,
                         const float *restrict g, float *restrict buffer, size_t n) {
  const float sign = f->sign, decay = f->decay, rate = f->rate;
  const float momentum = f->momentum, keep = f->keep;
  const bool is_first = f->is_first;
  for (size_t i = 0; i < n; i++) {
    const float d = sign * g[i] + decay * p[i];
    const float b = is_first ? d : momentum * buffer[i] + keep * d;
    buffer[i] = b;
    p[i] -= rate * (nesterov ? d + momentum * b : b);
  }
}

// The averages of step 1 start from zero, and `largest` is NULL without amsgrad.
static void adam(const factors *f, float *restrict p, const float *restrict g,
                 float *restrict average, float *restrict squares, float *restrict largest,
                 size_t n) {
  const float sign = f->sign, decay = f->decay, shrink = f->shrink, rate = f->rate;
  const float new1 = f->new1, new2 = f->new2, beta2 = f->beta2, root = f->root, eps = f->eps;
  const bool is_first = f->is_first;
  for (size_t i = 0; i < n; i++) {
    const float d = sign * g[i] + decay * p[i];
    const float before = is_first ? 0.0f : average[i];
    const float m = before + new1 * (d - before);
    const float v = (is_first ? 0.0f : squares[i] * beta2) + new2 * d * d;
    float used = v;
    if (largest != NULL) {
      used = !is_first && largest[i] > v ? largest[i] : v;
      largest[i] = used;
    }
    average[i] = m;
    squares[i] = v;
    p[i] = shrink * p[i] - rate * (m / (sqrtf(used) / root + eps));
  }
}

static void update_run(const et_optimizer_options *o, const factors *f, float *p, const float *g,
                       float *const slots[ET_OPTIMIZER_SLOTS], size_t at, size_t n) {
  if (is_adam(o)) {
    adam(f, p + at, g, slots[0] + at, slots[1] + at, o->amsgrad ? slots[2] + at : NULL, n);
  } else if (o->momentum != 0.0) {
    sgd_momentum(f, o->nesterov, p + at, g, slots[0] + at, n);
  } else {
    sgd(f, p + at, g, n);
  }
}

// ---- One tensor

// Copies elements [at, at + n) of the parameter's memory order from a gradient of another order.
static void gather(const et_tensor *parameter, const et_tensor *gradient, size_t at, size_t n,
                   float *out) {
  const float *data = gradient->data;
  for (size_t i = 0; i < n; i++) {
    size_t rest = at + i;
    ptrdiff_t offset = 0;
    for (size_t d = parameter->rank; d-- > 0;) {
      const uint8_t dim = parameter->dim_order[d];
      const size_t size = (size_t)parameter->sizes[dim];
      offset += (ptrdiff_t)(rest % size) * gradient->strides[dim];
      rest /= size;
    }
    out[i] = data[offset];
  }
}

static et_status check_tensors(const et_tensor *parameter, const et_tensor *gradient,
                               et_error *err) {
  ET_CHECK(parameter->dtype == ET_F32, err, ET_NOT_SUPPORTED,
           "parameter: expected dtype f32, got %s", et_dtype_name((et_dtype)parameter->dtype));
  ET_CHECK(gradient->dtype == ET_F32, err, ET_NOT_SUPPORTED, "gradient: expected dtype f32, got %s",
           et_dtype_name((et_dtype)gradient->dtype));
  ET_CHECK(gradient->rank == parameter->rank, err, ET_INVALID_ARGUMENT,
           "gradient: expected the parameter's %u dimensions, got %u", (unsigned)parameter->rank,
           (unsigned)gradient->rank);
  for (size_t d = 0; d < parameter->rank; d++) {
    ET_CHECK(gradient->sizes[d] == parameter->sizes[d], err, ET_INVALID_ARGUMENT,
             "gradient, dimension %zu: expected the parameter's size %ld, got %ld", d,
             (long)parameter->sizes[d], (long)gradient->sizes[d]);
  }
  ET_CHECK(parameter->numel == 0 || (parameter->data != NULL && gradient->data != NULL), err,
           ET_INVALID_ARGUMENT, "expected memory of the parameter and its gradient, got none");
  return ET_OK;
}

static void update(const et_optimizer_options *options, const factors *f, et_tensor *parameter,
                   const et_tensor *gradient, float *const slots[ET_OPTIMIZER_SLOTS]) {
  float block[256];
  const size_t most = sizeof block / sizeof block[0];
  if (eti_same_order(parameter->sizes, parameter->dim_order, gradient->dim_order,
                     parameter->rank)) {
    update_run(options, f, parameter->data, gradient->data, slots, 0, parameter->numel);
    return;
  }
  for (size_t at = 0; at < parameter->numel; at += most) {
    const size_t n = parameter->numel - at < most ? parameter->numel - at : most;
    gather(parameter, gradient, at, n, block);
    update_run(options, f, parameter->data, block, slots, at, n);
  }
}

et_status et_optimizer_update(const et_optimizer_options *options, uint64_t step,
                              et_tensor *parameter, const et_tensor *gradient,
                              float *const slots[ET_OPTIMIZER_SLOTS], et_error *err) {
  ET_TRY(et_optimizer_check(options, err));
  ET_CHECK(step >= 1, err, ET_INVALID_ARGUMENT, "step: expected 1 or more, got 0");
  ET_TRY(check_tensors(parameter, gradient, err));
  const factors f = factors_of(options, step);
  if (parameter->numel > 0) update(options, &f, parameter, gradient, slots);
  return ET_OK;
}

// ---- All parameters of a method

et_status et_optimizer_measure(const et_optimizer_options *options, const et_training *training,
                               size_t *bytes, et_error *err) {
  ET_TRY(et_optimizer_check(options, err));
  size_t total = 0, one;
  for (size_t i = 0; i < training->n; i++) {
    const et_tensor *parameter = et_training_parameter(training, i);
    const bool fits =
        eti_mul(parameter->numel, et_optimizer_slots(options) * sizeof(float), &one) &&
        eti_add(total, one, &total);
    ET_CHECK(fits, err, ET_OUT_OF_MEMORY, "optimizer: the state is too large for this machine");
  }
  *bytes = total;
  return ET_OK;
}

static et_status check_all(const et_training *training, et_error *err) {
  for (size_t i = 0; i < training->n; i++) {
    const et_status status =
        check_tensors(et_training_parameter(training, i), et_training_gradient(training, i), err);
    if (status != ET_OK) {
      ET_CONTEXT(err, "parameter '%s': ", et_training_name(training, i));
      return status;
    }
  }
  return ET_OK;
}

et_status et_optimizer_init(et_optimizer *optimizer, const et_optimizer_options *options,
                            const et_training *training, et_span state, et_error *err) {
  size_t bytes;
  ET_TRY(et_optimizer_measure(options, training, &bytes, err));
  ET_TRY(check_all(training, err));
  ET_CHECK(state.size >= bytes, err, ET_OUT_OF_MEMORY,
           "optimizer: expected %zu bytes of state, got %zu", bytes, state.size);
  ET_CHECK(bytes == 0 || eti_is_aligned(state.data, sizeof(float)), err, ET_INVALID_ARGUMENT,
           "optimizer: expected state that is aligned to 4 bytes, got address 0x%llx",
           (unsigned long long)(uintptr_t)state.data);
  if (bytes > 0) memset(state.data, 0, bytes);
  *optimizer =
      (et_optimizer){.options = *options, .training = training, .state = state.data, .step = 0};
  return ET_OK;
}

et_status et_optimizer_step(et_optimizer *optimizer, et_error *err) {
  const et_training *training = optimizer->training;
  ET_TRY(et_optimizer_check(&optimizer->options, err));
  ET_TRY(check_all(training, err));
  const size_t n_slots = et_optimizer_slots(&optimizer->options);
  float *state = optimizer->state;
  optimizer->step++;
  const factors f = factors_of(&optimizer->options, optimizer->step);
  for (size_t i = 0; i < training->n; i++) {
    et_tensor *parameter = et_training_parameter(training, i);
    float *slots[ET_OPTIMIZER_SLOTS] = {NULL};
    for (size_t k = 0; k < n_slots; k++, state += parameter->numel) slots[k] = state;
    if (parameter->numel > 0)
      update(&optimizer->options, &f, parameter, et_training_gradient(training, i), slots);
  }
  return ET_OK;
}
