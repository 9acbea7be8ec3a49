// copy_op.h — the frame of operators that are one strided copy from their first argument to their
// output: run builds a plan and executes it; prepare keeps the plan when no shape can change
// between runs. Also plans for lists of copies (cat, split). Relies on strided_copy.h and shape.h.
// Knows no operator: a plan function maps elements.
#ifndef ET_COPY_OP_H
#define ET_COPY_OP_H

#include "kernels/lib/args.h"
#include "kernels/lib/iter.h"
#include "kernels/lib/strided_copy.h"

static inline bool eti_is_dynamic(const et_tensor *t) {
  return (t->flags & ET_TENSOR_DYNAMIC) != 0;
}

// A context for the arguments of prepare that reports no error: run reports it.
static inline et_kernel_ctx eti_silent_args(const et_prepare_ctx *ctx) {
  et_kernel_ctx k = eti_prepare_args(ctx);
  k.err = NULL;
  return k;
}

// Reads the arguments, resizes out, and makes a finished plan for out ← self. Called in run and in
// prepare.
typedef et_status (*eti_plan_fn)(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                                 const et_tensor *self, eti_copy_plan *plan);

// self is argument 0, out argument i_out.
et_status eti_copy_op_run(et_kernel_ctx *ctx, et_value *const *args, size_t i_out,
                          eti_plan_fn plan);
// Keeps a plan in ctx->state. Leaves it NULL, with ET_OK, when shapes are dynamic or arguments are
// wrong; run then plans, or reports the error.
et_status eti_copy_op_prepare(et_prepare_ctx *ctx, et_value *const *args, size_t i_out,
                              eti_plan_fn plan);

// Finishes most plan functions: out gets the window's shape and, element for element, its values.
et_status eti_copy_op_window(const et_kernel_ctx *ctx, et_tensor *out, const et_tensor *self,
                             const eti_window *view, eti_copy_plan *plan);

// Plan functions of copies of a whole tensor: with its element type, and into the output's.
et_status eti_plan_clone(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                         const et_tensor *self, eti_copy_plan *plan);
et_status eti_plan_convert(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                           const et_tensor *self, eti_copy_plan *plan);

// Plans of several copies in one block of state. The given function plans part k; n parts are kept
// back to back.
typedef et_status (*eti_part_fn)(const et_kernel_ctx *ctx, et_value *const *args, size_t k,
                                 size_t n, eti_copy_plan *plan);
et_status eti_parts_prepare(et_prepare_ctx *ctx, et_value *const *args, size_t n, eti_part_fn part);
static inline const eti_copy_plan *eti_parts_next(const eti_copy_plan *plan) {
  return (const eti_copy_plan *)(const void *)((const char *)plan + eti_plan_bytes(plan));
}

// A size computed from arguments: 0 … INT32_MAX, else ET_INVALID_ARGUMENT naming `what`.
et_status eti_checked_size(const et_kernel_ctx *ctx, int64_t value, const char *what, int32_t *out);

// Wraps a negative index once; ET_INVALID_ARGUMENT with index, dimension and size when it is
// outside.
et_status eti_wrap_index(const et_kernel_ctx *ctx, int64_t index, size_t dim, int64_t size,
                         int64_t *out);

// Reads argument i, a dimension of self, which must exist; negative ones count from the end.
et_status eti_arg_dim(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                      const et_tensor *self, const char *op, size_t *dim);

// Reads argument i, the sizes of a view of numel elements; one size may be -1 and is inferred.
et_status eti_arg_reshape(const et_kernel_ctx *ctx, et_value *const *args, size_t i, size_t numel,
                          eti_shape *shape);

// ATen's rule for start:end:step on a dimension of n elements: clamps, never fails but for step
// < 1.
typedef struct eti_slice {
  int64_t start, length, step;
} eti_slice;
et_status eti_slice_of(const et_kernel_ctx *ctx, et_value *const *args, size_t i_start, int64_t n,
                       eti_slice *slice);

// Restricts one dimension of a window to start, start + step, …
static inline void eti_window_slice(eti_window *view, size_t dim, const eti_slice *slice) {
  if (slice->length > 0) view->offset += (ptrdiff_t)slice->start * view->strides[dim];
  view->shape.sizes[dim] = (int32_t)slice->length;
  if (slice->length > 1) view->strides[dim] *= (ptrdiff_t)slice->step;
}

void eti_window_remove(eti_window *view, size_t dim);  // drops a dimension
// Adds a dimension before dim; rank < ET_MAX_RANK.
void eti_window_insert(eti_window *view, size_t dim, int32_t size, ptrdiff_t stride);

// Copies a window into a tensor of its shape, unless they share memory.
void eti_copy_first(const et_kernel_ctx *ctx, const et_tensor *out, const eti_window *self,
                    const void *data);

// The loop of condition (any byte but 0), a, b that selects elements of a type from a or b, by
// their size; NULL when there is none.
eti_loop eti_where_loop(et_dtype dtype);

#endif  // ET_COPY_OP_H
