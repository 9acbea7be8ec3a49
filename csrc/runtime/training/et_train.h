// et_train.h — training on the device, beside et.h:
//   1 parameters and gradients of a training method   2 optimizers   3 data files
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

// ---- 3 · Data files: writing and reading .ptd, and the state of a training

// A receiver of bytes, in order: a file, flash memory, a socket. A status other than ET_OK ends the
// writing with that status.
typedef struct et_sink {
  void *ctx;
  et_status (*write)(void *ctx, const void *data, size_t size, et_error *err);
} et_sink;

// One tensor of a data file. Its key is `prefix` followed by `name`.
typedef struct et_data_entry {
  const char *prefix, *name;
  et_tensor tensor;
} et_data_entry;

// Entries to write, computed when they are asked for: get(ctx, i) is called several times for each
// i < n and gives the same entry each time.
typedef struct et_data_list {
  const void *ctx;
  size_t n;
  void (*get)(const void *ctx, size_t i, et_data_entry *entry);
} et_data_list;

// Bytes of the data file that et_data_write makes of these entries. ET_NOT_SUPPORTED when its list
// of entries exceeds 2 GiB.
ET_API et_status et_data_measure(const et_data_list *list, uint64_t *bytes, et_error *err);
// Writes a .ptd file, which et_data_map_open and upstream's runtime read.
ET_API et_status et_data_write(const et_data_list *list, const et_sink *sink, et_error *err);

// Fills the tensors of the entries with those that have their keys in an open data file; further
// tensors of the file are ignored. ET_NOT_FOUND for a missing key, ET_INVALID_ARGUMENT for another
// dtype, shape or dim order, ET_INVALID_EXTERNAL_DATA for a damaged entry: then nothing is written.
// A source that fails ends the call with its status, after some of the copies.
ET_API et_status et_data_load(const et_data_list *list, const et_data_map *map, et_error *err);

// Writes the parameters, under their names, and with `optimizer` (NULL allowed) its state. The
// state of a parameter has keys such as "adam/exp_avg/fc.weight" and "adam/step/fc.weight". A
// program whose weights are external runs with the file; it ignores the other entries.
ET_API et_status et_training_save(const et_training *training, const et_optimizer *optimizer,
                                  const et_sink *sink, et_error *err);
// Restores them, as et_data_load; also ET_NOT_SUPPORTED when the steps of the parameters differ, of
// which an optimizer in C has one.
ET_API et_status et_training_load(const et_training *training, et_optimizer *optimizer,
                                  const et_data_map *map, et_error *err);

#ifdef __cplusplus
}
#endif

#endif  // ET_TRAIN_H
