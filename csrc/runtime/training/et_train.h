// et_train.h — training on the device, beside et.h:
//   1 parameters and gradients of a training method   2 optimizers
//
// A training program is the joint graph of torch.export.experimental._export_forward_backward: its
// method returns the user's outputs, then a gradient for each trained parameter, then these
// parameters. The parameters lie in planned memory that the next run reads, so a step is: set the
// inputs, et_method_execute, et_optimizer_step. Nothing here allocates or keeps global state, and
// nothing of the core calls it. Compiles as C11 and C++17.
#ifndef ET_TRAIN_H
#define ET_TRAIN_H

#include "runtime/et.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- 1 · Parameters and gradients

// The trained parameters of a loaded method. Fields private.
typedef struct et_training {
  const et_method *method;
  const uint8_t *names;  // the plan that lists the parameters' names
  size_t n, i_gradient, i_parameter;
} et_training;

// Finds the trained parameters of a method; nothing is run. The method is borrowed until the last
// use of `training`. ET_INVALID_ARGUMENT when the program was not exported for training,
// ET_INVALID_PROGRAM when its lists of gradients, parameters and names differ in length or kind.
ET_API et_status et_training_init(et_training *training, const et_method *method, et_error *err);

ET_API size_t et_training_count(const et_training *training);
// Fully qualified name of parameter i, in the file; NULL past the end.
ET_API const char *et_training_name(const et_training *training, size_t i);
// Index of a name; et_training_count() when there is none.
ET_API size_t et_training_find(const et_training *training, const char *name);

// Parameter i, which may be read and written between runs; NULL past the end. Before the first run
// it has the values of the file.
ET_API et_tensor *et_training_parameter(const et_training *training, size_t i);
// Gradient i, valid from the end of a run to the beginning of the next; NULL past the end.
ET_API const et_tensor *et_training_gradient(const et_training *training, size_t i);

// ---- 2 · Optimizers

typedef enum et_optimizer_kind {
  ET_SGD,    // torch.optim.SGD
  ET_ADAM,   // torch.optim.Adam: weight decay is added to the gradient
  ET_ADAMW,  // torch.optim.AdamW: weight decay shrinks the parameter
} et_optimizer_kind;

// Options with the names and meanings of torch.optim; start from one of the three functions below,
// whose values are torch's defaults.
typedef struct et_optimizer_options {
  et_optimizer_kind kind;
  double lr;
  double weight_decay;
  bool maximize;
  // SGD
  double momentum, dampening;
  bool nesterov;
  // Adam and AdamW
  double beta1, beta2, eps;
  bool amsgrad;
} et_optimizer_options;

ET_API et_optimizer_options et_sgd_options(double lr);
ET_API et_optimizer_options et_adam_options(void);   // lr 1e-3, betas 0.9 and 0.999, eps 1e-8
ET_API et_optimizer_options et_adamw_options(void);  // as Adam, weight_decay 1e-2

// State tensors that an update needs for each parameter, of the parameter's number of f32
// elements: SGD has 0, or 1 with momentum; Adam and AdamW have 2, or 3 with amsgrad.
#define ET_OPTIMIZER_SLOTS 3
ET_API size_t et_optimizer_slots(const et_optimizer_options *options);
// Name of a slot, as torch names it: "momentum_buffer", "exp_avg", "exp_avg_sq", "max_exp_avg_sq".
ET_API const char *et_optimizer_slot_name(const et_optimizer_options *options, size_t slot);

// ET_INVALID_ARGUMENT for values that torch refuses.
ET_API et_status et_optimizer_check(const et_optimizer_options *options, et_error *err);

// Updates one parameter in place: step number `step` ≥ 1, counted for this parameter, whose slots
// are overwritten. Parameter and gradient are f32 and have the same sizes; their dim orders may
// differ. Slots have the parameter's dim order and need no initial values at step 1. The update
// formulas are those of torch.optim's documentation, computed in f32. ET_NOT_SUPPORTED for another
// dtype, ET_INVALID_ARGUMENT for other sizes or options; then nothing is written.
ET_API et_status et_optimizer_update(const et_optimizer_options *options, uint64_t step,
                                     et_tensor *parameter, const et_tensor *gradient,
                                     float *const slots[ET_OPTIMIZER_SLOTS], et_error *err);

// An optimizer of all trained parameters of a method. `options.lr` and `options.weight_decay` may
// be changed between steps; the other fields are private.
typedef struct et_optimizer {
  et_optimizer_options options;
  const et_training *training;
  float *state;  // per parameter its slots
  uint64_t step;
} et_optimizer;

// Bytes of state that et_optimizer_init needs.
ET_API et_status et_optimizer_measure(const et_optimizer_options *options,
                                      const et_training *training, size_t *bytes, et_error *err);
// Starts at step 0. Borrows `training` and `state`, which is aligned to 4 bytes.
// ET_OUT_OF_MEMORY when it is too small, else as et_optimizer_update.
ET_API et_status et_optimizer_init(et_optimizer *optimizer, const et_optimizer_options *options,
                                   const et_training *training, et_span state, et_error *err);
// Updates every parameter with the gradients of the last run; after a failure none is changed.
ET_API et_status et_optimizer_step(et_optimizer *optimizer, et_error *err);

#ifdef __cplusplus
}
#endif

#endif  // ET_TRAIN_H
