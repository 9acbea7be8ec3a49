// copy.c — operators that copy a whole tensor: unchanged, to another element type, broadcast, or
// repeated. Relies on copy_op.h and cast.h. The output's own dim order determines the layout; the
// exporter has set it from memory_format and dim_order arguments.
#include "kernels/kernel.h"
#include "kernels/lib/copy_op.h"

#include <string.h>

// ---- Same shape, same element type

et_status op_alias_copy_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 1, eti_plan_clone);
}
et_status prepare_alias_copy_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 1, eti_plan_clone);
}

et_status op_clone_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 2, eti_plan_clone);
}
et_status prepare_clone_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 2, eti_plan_clone);
}

// ---- Same shape, any element type

et_status op_to_copy_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 3, eti_plan_convert);
}
et_status prepare_to_copy_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 3, eti_plan_convert);
}

// ---- copy: src, broadcast and converted, over self

// The window on src with the given shape: broadcast dimensions have stride 0.
static et_status broadcast_view(const et_kernel_ctx *ctx, const et_tensor *src,
                                const eti_shape *shape, eti_window *view) {
  char found[ETI_SHAPE_TEXT], needed[ETI_SHAPE_TEXT];
  const eti_shape own = eti_shape_of(src);
  bool fits = own.rank <= shape->rank;
  *view = (eti_window){.shape = *shape};
  for (size_t d = 0; d < own.rank && fits; d++) {
    const size_t at = d + shape->rank - own.rank;
    fits = own.sizes[d] == 1 || own.sizes[d] == shape->sizes[at];
    view->strides[at] = own.sizes[d] == 1 ? 0 : src->strides[d];
  }
  ET_CHECK(fits, ctx->err, ET_INVALID_ARGUMENT,
           "copy: a source of shape %s does not broadcast to %s", eti_shape_text(&own, found),
           eti_shape_text(shape, needed));
  return ET_OK;
}

static et_status plan_copy(const et_kernel_ctx *ctx, et_tensor *out, const eti_shape *shape,
                           const et_tensor *src, eti_copy_plan *plan) {
  eti_window from;
  ET_TRY(broadcast_view(ctx, src, shape, &from));
  ET_TRY(eti_plan_begin_cast(plan, (et_dtype)out->dtype, (et_dtype)src->dtype, ctx->err));
  ET_TRY(eti_resize(ctx, out, shape));
  const eti_window to = eti_window_of(out);
  eti_plan_windows(plan, &to, &from);
  return ET_OK;
}

et_status op_copy_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self = NULL, *src = NULL, *out = NULL;
  eti_copy_plan plan;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &src));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &out));
  ET_TRY(eti_check_same_dtype(ctx, self, out, "self and out"));
  const eti_shape shape = eti_shape_of(self);
  ET_TRY(plan_copy(ctx, out, &shape, src, &plan));
  eti_plan_run(&plan, ctx->pool, out->data, src->data);
  return ET_OK;
}

enum { SMALL_COPY = 16 * 1024 };  // bytes

et_status op_copy_(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self = NULL, *src = NULL;
  eti_copy_plan plan;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &src));
  // Small copies, as of the state of a loop: planning would take longer than copying.
  const size_t bytes = (size_t)self->numel * et_dtype_bytes((et_dtype)self->dtype);
  if (bytes > 0 && bytes <= SMALL_COPY && self->dtype == src->dtype && eti_same_layout(self, src)) {
    memmove(self->data, src->data, bytes);
    return ET_OK;
  }
  const eti_shape shape = eti_shape_of(self);
  ET_TRY(plan_copy(ctx, self, &shape, src, &plan));
  eti_plan_run(&plan, ctx->pool, self->data, src->data);
  return ET_OK;
}

// ---- repeat: two axes for each dimension, the outer one with stride 0 in self

static et_status plan_repeat(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                             const et_tensor *self, eti_copy_plan *plan) {
  int64_t repeats[ET_MAX_RANK];
  eti_shape shape;
  ET_TRY(eti_check_same_dtype(ctx, self, out, "self and out"));
  ET_TRY(eti_arg_ints(ctx, args, 1, repeats, ET_MAX_RANK, &shape.rank));
  ET_CHECK(
      shape.rank >= self->rank, ctx->err, ET_INVALID_ARGUMENT,
      "repeat: expected a count for each new and old dimension, got %zu for a tensor of rank %d",
      shape.rank, (int)self->rank);
  const size_t added = shape.rank - self->rank;
  const eti_window from = eti_window_of(self);
  for (size_t d = 0; d < shape.rank; d++) {
    const int64_t own = d < added ? 1 : from.shape.sizes[d - added];
    ET_CHECK(repeats[d] >= 0 && repeats[d] <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
             "repeat: count: expected 0 or more, got %lld", (long long)repeats[d]);
    ET_TRY(eti_checked_size(ctx, own * repeats[d], "repeat", &shape.sizes[d]));
  }
  ET_TRY(eti_resize(ctx, out, &shape));
  eti_plan_begin(plan, et_dtype_bytes((et_dtype)out->dtype));
  if (out->numel == 0) eti_plan_axis(plan, 0, 0, 0);  // self may be too large for its strides
  for (size_t d = 0; out->numel > 0 && d < shape.rank; d++) {
    const int32_t own = d < added ? 1 : from.shape.sizes[d - added];
    eti_plan_axis(plan, (size_t)repeats[d], own * out->strides[d], 0);
    eti_plan_axis(plan, (size_t)own, out->strides[d], d < added ? 0 : from.strides[d - added]);
  }
  eti_plan_finish(plan);
  return ET_OK;
}

et_status op_repeat_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 2, plan_repeat);
}
et_status prepare_repeat_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 2, plan_repeat);
}
