// reinterpret.c — the same bytes as elements of another real type: view_copy.dtype. (Complex
// numbers as pairs, and back, are in view.c.) Elements of the wider type count as groups of the
// narrower, so that any layout becomes any other by one strided copy. Relies on copy_op.h.
#include "kernels/kernel.h"
#include "kernels/lib/copy_op.h"

// The window of a tensor as groups of `count` narrower elements: one more dimension at the end.
static eti_window split_elements(const et_tensor *t, int32_t count) {
  eti_window view = eti_window_of(t);
  for (size_t d = 0; d < view.shape.rank; d++) view.strides[d] *= count;
  eti_window_insert(&view, view.shape.rank, count, 1);
  return view;
}

// The window with its last dimension of n · count elements split into two, n and count.
static eti_window split_last(const et_tensor *t, int32_t count) {
  eti_window view = eti_window_of(t);
  const size_t last = view.shape.rank - 1u;
  const ptrdiff_t stride = view.strides[last];
  view.shape.sizes[last] /= count;
  view.strides[last] *= count;
  eti_window_insert(&view, view.shape.rank, count, stride);
  return view;
}

static et_status check_rank(const et_kernel_ctx *ctx, const et_tensor *self) {
  ET_CHECK(self->rank > 0 && self->rank < ET_MAX_RANK, ctx->err, ET_INVALID_ARGUMENT,
           "self: expected rank 1 to %d for elements of another size, got %d", ET_MAX_RANK - 1,
           (int)self->rank);
  return ET_OK;
}

static et_status plan_view_dtype(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                                 const et_tensor *self, eti_copy_plan *plan) {
  const size_t from = et_dtype_bytes((et_dtype)self->dtype),
               to = et_dtype_bytes((et_dtype)out->dtype);
  eti_shape shape = eti_shape_of(self);
  (void)args;
  ET_CHECK(from > 0 && to > 0, ctx->err, ET_NOT_SUPPORTED, "%s cannot be viewed as %s",
           et_dtype_name((et_dtype)self->dtype), et_dtype_name((et_dtype)out->dtype));
  eti_plan_begin(plan, from < to ? from : to);
  if (from == to) {
    const eti_window source = eti_window_of(self);
    ET_TRY(eti_resize(ctx, out, &shape));
    const eti_window target = eti_window_of(out);
    eti_plan_windows(plan, &target, &source);
    return ET_OK;
  }
  ET_TRY(check_rank(ctx, self));
  int32_t *last = &shape.sizes[shape.rank - 1];
  const bool narrows = from > to;
  const int32_t count = (int32_t)(narrows ? from / to : to / from);
  ET_CHECK(narrows || *last % count == 0, ctx->err, ET_INVALID_ARGUMENT,
           "self: expected a last dimension of a multiple of %d, got %d", (int)count, (int)*last);
  if (narrows) {
    ET_TRY(eti_checked_size(ctx, (int64_t)*last * count, "the last dimension", last));
  } else {
    *last /= count;
  }
  ET_TRY(eti_resize(ctx, out, &shape));
  const eti_window target = narrows ? split_last(out, count) : split_elements(out, count);
  const eti_window source = narrows ? split_elements(self, count) : split_last(self, count);
  eti_plan_windows(plan, &target, &source);
  return ET_OK;
}

// (self, dtype, out)
et_status op_view_copy_dtype_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 2, plan_view_dtype);
}
et_status prepare_view_copy_dtype_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 2, plan_view_dtype);
}
