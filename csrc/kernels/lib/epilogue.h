// epilogue.h — element-wise steps on the result of another operator while that result is still in
// the cache: an activation, a residual sum, both, or any other few steps (oneDNN: post-ops). A step
// calls the loop of its operator, so the bits are those of separate operators. f32 only. Relies on
// the loops of micro/eltwise; knows no operator that has an epilogue.
//
// In a file an epilogue is a text, a list of numbers and a list of tensors. The text has steps
// separated by spaces, each the name of a loop; a step of two operands names their sources:
//
//   "add:_s clamp mul:x_ div:_s" with 3, 0, 6, 6      hardswish, which runs as one loop
//   "add:0_ relu" with one tensor                     relu(tensor + result)
//
//   _  the result of the step before      x  the operand of the first step
//   s  the next of the numbers            0 … 3  one of the tensors
//
// prepare parses the text into an eti_epilogue in the call's state; run only looks up the tensors.
// Operators with an epilogue therefore have .needs_prepare.
#ifndef ET_EPILOGUE_H
#define ET_EPILOGUE_H

#include "kernels/lib/iter.h"
#include "kernels/micro/clamp_range.h"

// X(kind, name, n_numbers): the steps and their parameters, operands apart.
// executorch_py/exir/dialects/own_ops.py computes the same steps in torch.
// clang-format off
#define ETI_EPILOGUE_LIST(X) \
  X(unary, abs, 0) X(unary, neg, 0) X(unary, relu, 0) X(unary, sqrt, 0) X(unary, rsqrt, 0) \
  X(unary, exp, 0) X(unary, tanh, 0) X(unary, erf, 0) X(unary, sigmoid, 0) X(unary, gelu, 0) \
  X(unary, gelu_tanh, 0) X(unary, reciprocal, 0) X(unary, clamp, 2) X(unary, leaky_relu, 1) \
  X(binary, add, 0) X(binary, sub, 0) X(binary, mul, 0) X(binary, div, 0) X(binary, maximum, 0) \
  X(binary, minimum, 0)
// clang-format on

// Limits, and the number of arguments; own_ops.py has the same values.
enum { ETI_EPILOGUE_STEPS = 8, ETI_EPILOGUE_TENSORS = 4, ETI_EPILOGUE_ARGS = 3 };

typedef enum eti_epilogue_source {
  ETI_EPILOGUE_RUNNING,
  ETI_EPILOGUE_START,
  ETI_EPILOGUE_NUMBER,
  ETI_EPILOGUE_TENSOR,  // and the ones after it
} eti_epilogue_source;

typedef struct eti_epilogue_step {
  eti_loop loop;
  uint8_t code;         // eti_float_loop
  uint8_t n_in, in[2];  // eti_epilogue_source
  float k[4];           // parameters of the loop; a number that is an operand is k[3]
} eti_epilogue_step;

typedef struct eti_epilogue {
  size_t n_steps, n_tensors;
  bool keeps_start;  // a step after the first reads the first one's operand
  bool is_range;     // the only step keeps its operand within `range`
  eti_clamp_range range;
  eti_epilogue_step steps[ETI_EPILOGUE_STEPS];
} eti_epilogue;

// An epilogue with the tensors of one call.
typedef struct eti_epilogue_call {
  const eti_epilogue *epilogue;
  const et_tensor *tensors[ETI_EPILOGUE_TENSORS];
} eti_epilogue_call;

// True if the text is empty: an operator whose epilogue is optional then has none.
bool eti_epilogue_is_absent(et_value *const *args, size_t i);

// Parses text and numbers, the first of ETI_EPILOGUE_ARGS arguments from position i on, into method
// memory. *out stays NULL while measuring.
et_status eti_epilogue_prepare(et_prepare_ctx *ctx, et_value *const *args, size_t i,
                               const eti_epilogue **out);
// Parses text and numbers for an operator that has n_tensors tensors of its own, and no list.
et_status eti_epilogue_prepare_steps(et_prepare_ctx *ctx, et_value *const *args, size_t i,
                                     size_t n_tensors, const eti_epilogue **out);

// Looks up the tensors of a prepared epilogue, and checks that result and tensors are f32 and have
// one layout. Called before the first step, once the result has its size.
et_status eti_epilogue_bind(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                            const eti_epilogue *epilogue, const et_tensor *result,
                            eti_epilogue_call *call);

// Optional epilogues are prepared and bound likewise: without one, *out and *found are NULL; else
// *found is `call`.
et_status eti_epilogue_prepare_optional(et_prepare_ctx *ctx, et_value *const *args, size_t i,
                                        const eti_epilogue **out);
et_status eti_epilogue_bind_optional(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                                     const eti_epilogue *epilogue, const et_tensor *result,
                                     eti_epilogue_call *call, const eti_epilogue_call **found);

// Runs the steps on n elements in a row, `at` elements into the result's memory; in may be out.
void eti_epilogue_row(const eti_epilogue_call *call, const float *in, float *out, size_t at,
                      size_t n);

// Runs the steps in place on `n_rows` rows whose starts are `step` elements apart.
void eti_epilogue_rows(const eti_epilogue_call *call, float *rows, size_t step, size_t at,
                       size_t n_rows, size_t n);

// Runs the steps on a whole dense result; in has its layout.
void eti_epilogue_all(const et_pool *pool, const eti_epilogue_call *call, const et_tensor *in,
                      const et_tensor *out);

#endif  // ET_EPILOGUE_H
