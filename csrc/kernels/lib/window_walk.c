// window_walk.c — see window_walk.h.
#include "kernels/lib/window_walk.h"

enum { MAX_KERNEL = 1 << 15 };

static et_status read_pair(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                           const char *op, const char *what, int64_t least, int64_t out[2]) {
  int64_t three[3] = {0};
  ET_TRY(eti_arg_spatial(ctx, args, i, op, what, 2, least, false, three));
  out[0] = three[1];
  out[1] = three[2];
  return ET_OK;
}

et_status eti_windows_read(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                           const char *op, eti_windows *w) {
  int64_t result[2];
  ET_TRY(read_pair(ctx, args, i, op, "kernel", 1, w->kernel));
  ET_TRY(read_pair(ctx, args, i + 1, op, "stride", 1, w->stride));
  ET_TRY(read_pair(ctx, args, i + 2, op, "padding", 0, w->padding));
  ET_TRY(read_pair(ctx, args, i + 3, op, "dilation", 1, w->dilation));
  for (size_t d = 0; d < 2; d++) {
    ET_CHECK(w->kernel[d] <= MAX_KERNEL, ctx->err, ET_NOT_SUPPORTED,
             "kernel size: expected at most %d, got %lld", (int)MAX_KERNEL,
             (long long)w->kernel[d]);
    const int64_t in = d == 0 ? w->height : w->width;
    const int64_t room = in + 2 * w->padding[d] - (w->dilation[d] * (w->kernel[d] - 1) + 1);
    result[d] = room < 0 ? -1 : room / w->stride[d] + 1;
    ET_CHECK(result[d] >= 0 && result[d] <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
             "input size %lld and kernel size %lld (padding %lld, dilation %lld) give no valid "
             "output size",
             (long long)in, (long long)w->kernel[d], (long long)w->padding[d],
             (long long)w->dilation[d]);
  }
  w->rows = result[0];
  w->columns = result[1];
  return ET_OK;
}

static void begin_line(const eti_windows *w, eti_corner *at) {
  const size_t rows = (size_t)w->rows;
  at->image = w->images + at->line / rows * (size_t)(w->height * w->width) * w->pixel_bytes;
  at->y = (int64_t)(at->line % rows) * w->stride[0] - w->padding[0];
  at->x = (int64_t)at->column * w->stride[1] - w->padding[1];
}

eti_corner eti_corner_of(const eti_windows *w, size_t pixel) {
  eti_corner at = {.line = pixel / (size_t)w->columns, .column = pixel % (size_t)w->columns};
  begin_line(w, &at);
  return at;
}

void eti_corner_skip(const eti_windows *w, eti_corner *at, size_t n) {
  at->column += n;
  at->x += (int64_t)n * w->stride[1];
  if (at->column < (size_t)w->columns) return;
  at->column = 0;
  at->line++;
  begin_line(w, at);
}

size_t eti_corner_inner(const eti_windows *w, const eti_corner *at, size_t n) {
  const int64_t height = (w->kernel[0] - 1) * w->dilation[0] + 1;
  const int64_t room = w->width - 1 - (w->kernel[1] - 1) * w->dilation[1] - at->x;
  if (at->y < 0 || at->y + height > w->height || at->x < 0 || room < 0) return 0;
  const size_t fitting = (size_t)(room / w->stride[1]) + 1;
  const size_t left = (size_t)w->columns - at->column;
  const size_t most = left < n ? left : n;
  return fitting < most ? fitting : most;
}
