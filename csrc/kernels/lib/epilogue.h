// epilogue.h — a chain of element-wise steps on the result of another operator, done while that
// result is still in the cache: an activation, a residual sum, both, or any other few steps. A step
// calls the very loop of the operator that it stands for, so that the bits are those of the
// operators one by one. f32 only. Relies on the loops of micro/eltwise.h; knows no operator that
// ends in a chain.
//
// In a file a chain is a text, a list of numbers and a list of tensors. The text is steps with
// spaces between, each the name of a loop; a step of two operands says where they come from:
//
//   "add:_s clamp mul:x_ div:_s" with 3, 0, 6, 6      hardswish
//   "add:0_ relu" with one tensor                     relu(tensor + result)
//
//   _  what the step before gave      x  what the chain began with
//   s  the next of the numbers        0 … 3  one of the tensors
#ifndef ET_CHAIN_H
#define ET_CHAIN_H

#include "kernels/lib/iter.h"
#include "kernels/micro/clamp_range.h"

enum { ETI_CHAIN_STEPS = 8, ETI_CHAIN_TENSORS = 4, ETI_CHAIN_ARGS = 3 };

typedef enum eti_chain_source {
  ETI_CHAIN_RUNNING,
  ETI_CHAIN_START,
  ETI_CHAIN_NUMBER,
  ETI_CHAIN_TENSOR,  // and the ones after it
} eti_chain_source;

typedef struct eti_chain_step {
  eti_loop loop;
  uint8_t n_in, in[2];  // eti_chain_source
  float k[4];           // parameters of the loop; a number that is an operand is k[3]
} eti_chain_step;

typedef struct eti_chain {
  size_t n_steps, n_tensors;
  bool keeps_start;  // a later step reads what the chain began with
  eti_chain_step steps[ETI_CHAIN_STEPS];
  const et_tensor *tensors[ETI_CHAIN_TENSORS];
} eti_chain;

// Reads text, numbers and tensors: the ETI_CHAIN_ARGS arguments from position i on.
et_status eti_chain_read(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                         eti_chain *chain);

// Whether result and tensors are f32 and lie alike. Asked before the first step, once the result
// has its size.
et_status eti_chain_check(const et_kernel_ctx *ctx, const eti_chain *chain, const et_tensor *out);

// Whether the chain only keeps its input within a range.
bool eti_chain_is_range(const eti_chain *chain, eti_range *range);

// n elements in a row, `at` elements into the result's memory; in may be out.
void eti_chain_row(const eti_chain *chain, const float *in, float *out, size_t at, size_t n);

// The same for `rows` rows whose starts are `step` elements apart, in place.
void eti_chain_rows(const eti_chain *chain, float *rows, size_t step, size_t at, size_t n_rows,
                    size_t n);

// All of a result, which lies in one stretch of memory; in has its layout.
void eti_chain_all(const et_pool *pool, const eti_chain *chain, const et_tensor *in,
                   const et_tensor *out);

#endif  // ET_CHAIN_H
