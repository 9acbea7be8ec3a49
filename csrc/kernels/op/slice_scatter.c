// slice_scatter.c — copies of a tensor with one window overwritten: select_scatter, slice_scatter.
// Relies on copy_op.h for windows.
#include "kernels/kernel.h"
#include "kernels/lib/copy_op.h"

// Checks src against the window on out, copies self, then writes src to the window, converted.
static et_status replace_window(const et_kernel_ctx *ctx, const et_tensor *self,
                                const eti_window *view, const et_tensor *src, const et_tensor *out,
                                const eti_window *window) {
  char found[ETI_SHAPE_TEXT], needed[ETI_SHAPE_TEXT];
  (void)found, (void)needed;
  eti_copy_plan plan;
  const eti_window from = eti_window_of(src);
  bool same = from.shape.rank == window->shape.rank;
  for (size_t d = 0; d < window->shape.rank && same; d++)
    same = from.shape.sizes[d] == window->shape.sizes[d];
  ET_CHECK(same, ctx->err, ET_INVALID_ARGUMENT,
           "src: expected shape %s, as the part that it replaces, got %s",
           eti_shape_text(&window->shape, needed), eti_shape_text(&from.shape, found));
  ET_TRY(eti_plan_begin_cast(&plan, (et_dtype)out->dtype, (et_dtype)src->dtype, ctx->err));
  eti_plan_windows(&plan, window, &from);
  eti_copy_first(ctx, out, view, self->data);
  eti_plan_run(&plan, ctx->pool, out->data, src->data);
  return ET_OK;
}

static et_status window_args(const et_kernel_ctx *ctx, et_value *const *args, size_t i_out,
                             et_tensor **self, et_tensor **src, et_tensor **out, eti_window *view,
                             size_t *dim) {
  int64_t d = 0;
  ET_TRY(eti_arg_tensor(ctx, args, 0, self));
  ET_TRY(eti_arg_tensor(ctx, args, 1, src));
  ET_TRY(eti_arg_int(ctx, args, 2, &d));
  ET_TRY(eti_arg_tensor(ctx, args, i_out, out));
  ET_TRY(eti_check_same_dtype(ctx, *self, *out, "self and out"));
  ET_CHECK((*self)->rank > 0, ctx->err, ET_INVALID_ARGUMENT,
           "expected a tensor of rank 1 or more, got rank 0");
  ET_TRY(eti_wrap_dim(ctx, d, (*self)->rank, dim));
  *view = eti_window_of(*self);
  return eti_resize(ctx, *out, &view->shape);
}

et_status op_select_scatter_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self = NULL, *src = NULL, *out = NULL;
  eti_window view;
  size_t dim = 0;
  int64_t index = 0;
  ET_TRY(window_args(ctx, args, 4, &self, &src, &out, &view, &dim));
  ET_TRY(eti_arg_int(ctx, args, 3, &index));
  ET_TRY(eti_wrap_index(ctx, index, dim, view.shape.sizes[dim], &index));
  eti_window window = eti_window_of(out);
  window.offset = (ptrdiff_t)index * window.strides[dim];
  eti_window_remove(&window, dim);
  return replace_window(ctx, self, &view, src, out, &window);
}

et_status op_slice_scatter_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self = NULL, *src = NULL, *out = NULL;
  eti_window view;
  eti_slice slice;
  size_t dim = 0;
  ET_TRY(window_args(ctx, args, 6, &self, &src, &out, &view, &dim));
  ET_TRY(eti_slice_of(ctx, args, 3, view.shape.sizes[dim], &slice));
  eti_window window = eti_window_of(out);
  eti_window_slice(&window, dim, &slice);
  return replace_window(ctx, self, &view, src, out, &window);
}
