// tile_crop.c — splits an image into square tiles: preprocess::tile_crop, [channel, y, x] to [tile,
// channel, y, x], tiles row by row. One strided copy, so layouts are free. Relies on copy_op.h.
#include "kernels/kernel.h"
#include "kernels/lib/copy_op.h"

// (input, tile_size, out)
static et_status plan_tile_crop(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                                const et_tensor *self, eti_copy_plan *plan) {
  int64_t side;
  ET_TRY(eti_check_same_dtype(ctx, self, out, "input and out"));
  ET_TRY(eti_arg_int(ctx, args, 1, &side));
  ET_CHECK(self->rank == 3, ctx->err, ET_INVALID_ARGUMENT,
           "tile_crop: expected rank 3, [channel, y, x], got %d", (int)self->rank);
  ET_CHECK(
      side > 0 && side <= INT32_MAX && self->sizes[1] % side == 0 && self->sizes[2] % side == 0,
      ctx->err, ET_INVALID_ARGUMENT, "tile_crop: %d × %d pixels do not divide into tiles of %lld",
      (int)self->sizes[1], (int)self->sizes[2], (long long)side);
  const int32_t n = (int32_t)side, down = self->sizes[1] / n, across = self->sizes[2] / n;
  int32_t tiles;
  ET_TRY(eti_checked_size(ctx, (int64_t)down * across, "tile_crop", &tiles));
  const eti_shape shape = {.rank = 4, .sizes = {tiles, self->sizes[0], n, n}};
  ET_TRY(eti_resize(ctx, out, &shape));
  const eti_window from = eti_window_of(self), to = eti_window_of(out);
  const ptrdiff_t *const s = from.strides, *const d = to.strides;
  eti_plan_begin(plan, et_dtype_bytes((et_dtype)self->dtype));
  eti_plan_axis(plan, (size_t)down, (ptrdiff_t)across * d[0], (ptrdiff_t)n * s[1]);
  eti_plan_axis(plan, (size_t)across, d[0], (ptrdiff_t)n * s[2]);
  eti_plan_axis(plan, (size_t)self->sizes[0], d[1], s[0]);
  eti_plan_axis(plan, (size_t)n, d[2], s[1]);
  eti_plan_axis(plan, (size_t)n, d[3], s[2]);
  eti_plan_finish(plan);
  return ET_OK;
}

et_status op_preprocess_tile_crop_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 2, plan_tile_crop);
}
et_status prepare_preprocess_tile_crop_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 2, plan_tile_crop);
}
