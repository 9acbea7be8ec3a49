// copy_op.c — see copy_op.h. Sizes and strides are copied before the output is resized, so a
// damaged file that passes one tensor twice cannot make a plan leave its memory.
#include "kernels/lib/copy_op.h"

#include "kernels/loops/cast_values.h"
#include "kernels/loops/loop.h"

#include <string.h>

et_status eti_copy_op_run(et_kernel_ctx *ctx, et_value *const *args, size_t i_out,
                          eti_plan_fn plan_fn) {
  et_tensor *self = NULL, *out = NULL;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_tensor(ctx, args, i_out, &out));
  if (ctx->state != NULL) {
    eti_plan_run(ctx->state, ctx->pool, out->data, self->data);
    return ET_OK;
  }
  eti_copy_plan plan;
  ET_TRY(plan_fn(ctx, args, out, self, &plan));
  eti_plan_run(&plan, ctx->pool, out->data, self->data);
  return ET_OK;
}

et_status eti_copy_op_prepare(et_prepare_ctx *ctx, et_value *const *args, size_t i_out,
                              eti_plan_fn plan_fn) {
  const et_kernel_ctx k = eti_silent_args(ctx);
  et_tensor *self = NULL, *out = NULL;
  if (eti_arg_tensor(&k, args, 0, &self) != ET_OK || eti_arg_tensor(&k, args, i_out, &out) != ET_OK)
    return ET_OK;
  if (eti_is_dynamic(self) || eti_is_dynamic(out)) return ET_OK;
  eti_copy_plan plan;
  if (plan_fn(&k, args, out, self, &plan) != ET_OK) return ET_OK;
  const size_t bytes = eti_plan_bytes(&plan);
  void *state = et_prepare_alloc(ctx, bytes, sizeof(void *));
  if (state == NULL) return et_prepare_status(ctx);
  memcpy(state, &plan, bytes);
  ctx->state = state;
  return ET_OK;
}

et_status eti_copy_op_window(const et_kernel_ctx *ctx, et_tensor *out, const et_tensor *self,
                             const eti_window *view, eti_copy_plan *plan) {
  ET_TRY(eti_check_same_dtype(ctx, self, out, "self and out"));
  ET_TRY(eti_resize(ctx, out, &view->shape));
  const eti_window to = eti_window_of(out);
  eti_plan_begin(plan, et_dtype_bytes((et_dtype)out->dtype));
  eti_plan_windows(plan, &to, view);
  return ET_OK;
}

et_status eti_plan_clone(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                         const et_tensor *self, eti_copy_plan *plan) {
  (void)args;
  const eti_window view = eti_window_of(self);
  return eti_copy_op_window(ctx, out, self, &view, plan);
}

et_status eti_plan_convert(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                           const et_tensor *self, eti_copy_plan *plan) {
  (void)args;
  const eti_window from = eti_window_of(self);
  ET_TRY(eti_plan_begin_cast(plan, (et_dtype)out->dtype, (et_dtype)self->dtype, ctx->err));
  ET_TRY(eti_resize(ctx, out, &from.shape));
  const eti_window to = eti_window_of(out);
  eti_plan_windows(plan, &to, &from);
  return ET_OK;
}

et_status eti_parts_prepare(et_prepare_ctx *ctx, et_value *const *args, size_t n,
                            eti_part_fn part) {
  const et_kernel_ctx k = eti_silent_args(ctx);
  eti_copy_plan plan;
  size_t bytes = 0;
  for (size_t i = 0; i < n; i++) {
    if (part(&k, args, i, n, &plan) != ET_OK) return ET_OK;
    bytes += eti_plan_bytes(&plan);
  }
  if (bytes == 0) return ET_OK;
  char *state = et_prepare_alloc(ctx, bytes, sizeof(void *));
  if (state == NULL) return et_prepare_status(ctx);
  ctx->state = state;
  for (size_t i = 0; i < n; i++) {
    if (ET_NEVER(part(&k, args, i, n, &plan) != ET_OK)) return ET_INTERNAL;
    memcpy(state, &plan, eti_plan_bytes(&plan));
    state += eti_plan_bytes(&plan);
  }
  return ET_OK;
}

et_status eti_checked_size(const et_kernel_ctx *ctx, int64_t value, const char *what,
                           int32_t *out) {
  (void)what;
  ET_CHECK(value >= 0 && value <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
           "%s: expected a size of 0 to 2147483647, got %lld", what, (long long)value);
  *out = (int32_t)value;
  return ET_OK;
}

et_status eti_wrap_index(const et_kernel_ctx *ctx, int64_t index, size_t dim, int64_t size,
                         int64_t *out) {
  (void)dim;
  ET_CHECK(index >= -size && index < size, ctx->err, ET_INVALID_ARGUMENT,
           "index %lld is out of bounds for dimension %zu with size %lld", (long long)index, dim,
           (long long)size);
  *out = index < 0 ? index + size : index;
  return ET_OK;
}

et_status eti_arg_dim(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                      const et_tensor *self, const char *op, size_t *dim) {
  int64_t d = 0;
  ET_TRY(eti_arg_int(ctx, args, i, &d));
  ET_CHECK(self->rank > 0, ctx->err, ET_INVALID_ARGUMENT,
           "%s: expected a tensor of rank 1 or more, got rank 0", op);
  return eti_wrap_dim(ctx, d, self->rank, dim);
}

et_status eti_arg_reshape(const et_kernel_ctx *ctx, et_value *const *args, size_t i, size_t numel,
                          eti_shape *shape) {
  int64_t sizes[ET_MAX_RANK];
  size_t infer = ET_MAX_RANK;
  uint64_t product = 1;
  bool overflow = false;
  ET_TRY(eti_arg_ints(ctx, args, i, sizes, ET_MAX_RANK, &shape->rank));
  for (size_t d = 0; d < shape->rank; d++) {
    if (sizes[d] == -1) {
      ET_CHECK(infer == ET_MAX_RANK, ctx->err, ET_INVALID_ARGUMENT,
               "view: expected one size of -1 at most, got two");
      infer = d;
      continue;
    }
    ET_TRY(eti_checked_size(ctx, sizes[d], "view", &shape->sizes[d]));
    if (product != 0 && sizes[d] != 0) overflow |= product > UINT64_MAX / (uint64_t)sizes[d];
    product *= (uint64_t)sizes[d];
  }
  if (infer < ET_MAX_RANK) {
    ET_CHECK(!overflow && product != 0 && numel % product == 0, ctx->err, ET_INVALID_ARGUMENT,
             "view: a size of -1 cannot be inferred from %zu elements", numel);
    ET_TRY(eti_checked_size(ctx, (int64_t)(numel / product), "view", &shape->sizes[infer]));
    product = numel;
  }
  char found[ETI_SHAPE_TEXT];
  ET_CHECK(!(overflow && product != 0) && product == numel, ctx->err, ET_INVALID_ARGUMENT,
           "view: expected sizes of %zu elements, got %s", numel, eti_shape_text(shape, found));
  return ET_OK;
}

et_status eti_slice_of(const et_kernel_ctx *ctx, et_value *const *args, size_t i_start, int64_t n,
                       eti_slice *slice) {
  bool has_start = false, has_end = false;
  int64_t start = 0, end = 0, step = 1;
  ET_TRY(eti_arg_optional_int(ctx, args, i_start, &has_start, &start));
  ET_TRY(eti_arg_optional_int(ctx, args, i_start + 1, &has_end, &end));
  ET_TRY(eti_arg_int(ctx, args, i_start + 2, &step));
  ET_CHECK(step > 0, ctx->err, ET_INVALID_ARGUMENT, "slice: expected a step of 1 or more, got %lld",
           (long long)step);
  if (!has_start) start = 0;
  if (!has_end) end = n;
  if (start < 0) start += n;
  if (end < 0) end += n;
  if (start < 0) start = 0;
  if (start > n) start = n;
  if (end < start) end = start;
  if (end > n) end = n;
  *slice = (eti_slice){
      .start = start, .length = end > start ? (end - start - 1) / step + 1 : 0, .step = step};
  return ET_OK;
}

void eti_window_remove(eti_window *view, size_t dim) {
  view->shape.rank--;
  for (size_t d = dim; d < view->shape.rank; d++) {
    view->shape.sizes[d] = view->shape.sizes[d + 1];
    view->strides[d] = view->strides[d + 1];
  }
}

void eti_window_insert(eti_window *view, size_t dim, int32_t size, ptrdiff_t stride) {
  ET_ASSERT(view->shape.rank < ET_MAX_RANK);
  for (size_t d = view->shape.rank++; d > dim; d--) {
    view->shape.sizes[d] = view->shape.sizes[d - 1];
    view->strides[d] = view->strides[d - 1];
  }
  view->shape.sizes[dim] = size;
  view->strides[dim] = stride;
}

// ---- choices

#define WHERE_NAME where_1
#define WHERE_TYPE uint8_t
#include "kernels/loops/where.inc.h"
#define WHERE_NAME where_2
#define WHERE_TYPE uint16_t
#include "kernels/loops/where.inc.h"
#define WHERE_NAME where_4
#define WHERE_TYPE uint32_t
#include "kernels/loops/where.inc.h"
#define WHERE_NAME where_8
#define WHERE_TYPE uint64_t
#include "kernels/loops/where.inc.h"
#define WHERE_NAME where_16
#define WHERE_TYPE eti_c128
#include "kernels/loops/where.inc.h"

eti_loop eti_where_loop(et_dtype dtype) {
  switch (et_dtype_bytes(dtype)) {
    case 1:
      return where_1;
    case 2:
      return where_2;
    case 4:
      return where_4;
    case 8:
      return where_8;
    case 16:
      return where_16;
    default:
      return NULL;
  }
}

void eti_copy_first(const et_kernel_ctx *ctx, const et_tensor *out, const eti_window *self,
                    const void *data) {
  const eti_window to = eti_window_of(out);
  bool in_place = out->data == data && to.shape.rank == self->shape.rank;
  for (size_t d = 0; d < to.shape.rank && in_place; d++)
    in_place = to.strides[d] == self->strides[d] || to.shape.sizes[d] <= 1;
  if (in_place) return;
  eti_copy_windows(ctx->pool, out->data, &to, data, self, et_dtype_bytes((et_dtype)out->dtype));
}
