// reduction.h — the geometry of reductions: the reduced dimensions, the memory of each result's
// elements, and the direction of the walk. It goes along rows (the innermost memory is reduced) or
// across them (it is kept, so that many results advance together). A reducer processes a run of
// elements, as contiguous values of its own load type. Relies on iteration and casts; knows no
// operator. Threads split results. Few long results are split into pieces; only the shape
// determines the pieces, so results do not depend on threads.
#ifndef ET_REDUCTION_H
#define ET_REDUCTION_H

#include "kernels/lib/args.h"
#include "kernels/lib/iter.h"
#include "kernels/micro/rows/row_reduce.h"
#include "kernels/lib/shape.h"
#include "kernels/stack.h"

#define ETI_REDUCE_RESULTS ETI_ON_STACK(256, 64)  // results that advance together
#define ETI_REDUCE_BLOCK 256  // elements cast at a time: part of the numeric definition

typedef struct eti_reducer {
  et_dtype load;                    // ET_F32, ET_F64, ET_I64 or ET_B8: inputs are cast to it
  et_dtype acc;                     // type of the accumulators
  eti_scalar init;                  // their first value
  eti_row_reduce_fn rows, columns;  // of elements of type load, with a center of that type
  eti_row_reduce_fn merge;          // columns of accumulators; for reductions that are split
} eti_reducer;

typedef struct eti_reduction {
  const et_tensor *in;
  eti_iter kept;     // operands: in, out 0, out 1
  eti_iter reduced;  // operand: in; data[0] is set per result
  bool across;
  size_t n;             // elements that make one result
  bool is_split;        // eti_reduce uses pieces, see eti_reduction_split
  const et_pool *pool;  // for the pieces
} eti_reduction;

// The shape of a reduction's result.
eti_shape eti_reduced_shape(const et_tensor *in, uint32_t mask, bool keepdim);

// Describes the reduction of in over the dimensions of mask into n_outs ≤ 2 outputs that already
// have the reduced shape. logical_order walks the reduced elements in logical order instead of
// memory order (for indices).
void eti_reduction_init(eti_reduction *r, const et_tensor *in, et_tensor *const *outs,
                        size_t n_outs, uint32_t mask, bool keepdim, bool logical_order);

// Reduces the elements of w ≤ ETI_REDUCE_RESULTS neighbouring results into acc[0..w). p and stride
// (bytes) are those of the results' first elements in the input; `reduced` is the caller's own copy
// of r->reduced.
void eti_reduce(const eti_reduction *r, eti_iter *reduced, const eti_reducer *reducer,
                const char *p, ptrdiff_t stride, size_t w, const void *centers, void *acc);

// Lets eti_reduce split few long results into pieces for several threads. For callers that use only
// eti_reduce, with reducers that can merge.
void eti_reduction_split(const et_kernel_ctx *ctx, eti_reduction *r);

// Calls fn for blocks of at most ETI_REDUCE_RESULTS neighbouring results, on several threads.
typedef struct eti_result_block {
  const eti_reduction *r;
  eti_iter *reduced;
  const char *in;
  ptrdiff_t in_stride;
  char *out[2];
  ptrdiff_t out_stride[2];
  size_t n;
} eti_result_block;
typedef void (*eti_result_fn)(void *ctx, const eti_result_block *block);
void eti_reduction_run(const et_kernel_ctx *ctx, const eti_reduction *r, eti_result_fn fn,
                       void *fn_ctx);

#endif  // ET_REDUCTION_H
