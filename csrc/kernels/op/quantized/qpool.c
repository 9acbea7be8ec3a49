// qpool.c — executorch_py::qmax_pool2d and qmean: windows and whole planes of i8 images. The
// maximum of a window needs no scale; a mean is an exact sum, scaled once. Relies on
// micro/quantized/qeltwise.h.
#include "kernels/kernel.h"
#include "kernels/micro/quantized/qeltwise.h"
#include "kernels/ops.h"

#include <string.h>

enum { GRAIN = 32 * 1024, MAX_PLANE = 1 << 22 };  // sums of a plane stay below 2^31

static et_status read_image(const et_kernel_ctx *ctx, et_value *const *args, size_t i_out,
                            et_tensor **in, et_tensor **out) {
  ET_TRY(eti_arg_tensor(ctx, args, 0, in));
  ET_TRY(eti_arg_tensor(ctx, args, i_out, out));
  ET_CHECK((*in)->rank == 4 && (*in)->dtype == ET_I8 && eti_is_channels_last(*in), ctx->err,
           ET_INVALID_ARGUMENT, "input: expected channels-last images of i8, got %s of rank %d",
           et_dtype_name((et_dtype)(*in)->dtype), (int)(*in)->rank);
  ET_CHECK((*out)->dtype == ET_I8, ctx->err, ET_INVALID_ARGUMENT, "out: expected i8, got %s",
           et_dtype_name((et_dtype)(*out)->dtype));
  return ET_OK;
}

// ---- (input, kernel, stride, padding, dilation, ceil_mode, out)

typedef struct windows {
  const int8_t *x;
  int8_t *out;
  size_t channels;
  int64_t in[2], result[2], kernel[2], stride[2], padding[2], dilation[2];
  const eti_qeltwise_micro *micro;
} windows;

static et_status read_pair(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                           const char *what, int64_t least, int64_t out[2]) {
  int64_t three[3] = {0};
  ET_TRY(eti_arg_spatial(ctx, args, i, "qmax_pool2d", what, 2, least, false, three));
  out[0] = three[1];
  out[1] = three[2];
  return ET_OK;
}

static et_status read_windows(const et_kernel_ctx *ctx, et_value *const *args, windows *w) {
  bool ceil_mode;
  ET_TRY(read_pair(ctx, args, 1, "kernel", 1, w->kernel));
  ET_TRY(read_pair(ctx, args, 2, "stride", 1, w->stride));
  ET_TRY(read_pair(ctx, args, 3, "padding", 0, w->padding));
  ET_TRY(read_pair(ctx, args, 4, "dilation", 1, w->dilation));
  ET_TRY(eti_arg_bool(ctx, args, 5, &ceil_mode));
  for (size_t d = 0; d < 2; d++) {
    ET_CHECK(w->padding[d] <= w->kernel[d] / 2 && w->kernel[d] <= INT16_MAX, ctx->err,
             ET_INVALID_ARGUMENT,
             "padding %lld is more than half of kernel %lld, or that too large",
             (long long)w->padding[d], (long long)w->kernel[d]);
    const int64_t room = w->in[d] + 2 * w->padding[d] - (w->dilation[d] * (w->kernel[d] - 1) + 1);
    int64_t n = room < 0 ? 0 : (room + (ceil_mode ? w->stride[d] - 1 : 0)) / w->stride[d] + 1;
    // A window that would begin in the padding after the image is left out.
    if (ceil_mode && n > 0 && (n - 1) * w->stride[d] >= w->in[d] + w->padding[d]) n--;
    ET_CHECK(n > 0 && n <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
             "input size %lld and kernel size %lld (padding %lld, dilation %lld) give no valid "
             "output size",
             (long long)w->in[d], (long long)w->kernel[d], (long long)w->padding[d],
             (long long)w->dilation[d]);
    w->result[d] = n;
  }
  return ET_OK;
}

static void run_windows(void *ctx, size_t begin, size_t end) {
  const windows *const w = ctx;
  const size_t columns = (size_t)w->result[1], rows = (size_t)w->result[0];
  for (size_t i = begin; i < end; i++) {
    const size_t line = i / columns;
    const int8_t *const image = w->x + line / rows * (size_t)(w->in[0] * w->in[1]) * w->channels;
    const int64_t top = (int64_t)(line % rows) * w->stride[0] - w->padding[0],
                  left = (int64_t)(i % columns) * w->stride[1] - w->padding[1];
    int8_t *const out = w->out + i * w->channels;
    memset(out, INT8_MIN, w->channels);
    for (int64_t ty = 0; ty < w->kernel[0]; ty++) {
      const int64_t y = top + ty * w->dilation[0];
      if (y < 0 || y >= w->in[0]) continue;
      for (int64_t tx = 0; tx < w->kernel[1]; tx++) {
        const int64_t x = left + tx * w->dilation[1];
        if (x < 0 || x >= w->in[1]) continue;
        w->micro->max(out, image + (size_t)(y * w->in[1] + x) * w->channels, w->channels);
      }
    }
  }
}

et_status op_qmax_pool2d_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *in, *out;
  ET_TRY(read_image(ctx, args, 6, &in, &out));
  windows w = {.channels = (size_t)in->sizes[1],
               .in = {in->sizes[2], in->sizes[3]},
               .micro = eti_qeltwise_micro_best()};
  ET_TRY(read_windows(ctx, args, &w));
  const eti_shape shape = {
      .rank = 4, .sizes = {in->sizes[0], in->sizes[1], (int32_t)w.result[0], (int32_t)w.result[1]}};
  ET_TRY(eti_resize(ctx, out, &shape));
  ET_TRY(eti_check_channels_last(ctx, out, ET_INVALID_ARGUMENT, "out"));
  w.x = in->data;
  w.out = out->data;
  if (out->numel == 0) return ET_OK;
  const size_t each = w.channels * (size_t)(w.kernel[0] * w.kernel[1]);
  et_parallel_for(ctx->pool, run_windows, &w, out->numel / w.channels, GRAIN / (each + 1) + 1);
  return ET_OK;
}

// ---- (input, zero_point, multiplier, zero_point, quant_min, quant_max, out)

enum { CHANNELS = 256 };

typedef struct mean {
  const int8_t *x;
  int8_t *out;
  size_t channels, blocks, pixels;
  int32_t input_zero;
  float multiplier, zero, low, high;
  const eti_qeltwise_micro *micro;
} mean;

// Each item is a block of channels of an image.
static void run_means(void *ctx, size_t begin, size_t end) {
  const mean *const k = ctx;
  for (size_t i = begin; i < end; i++) {
    const size_t image = i / k->blocks, first = i % k->blocks * CHANNELS;
    const size_t n = k->channels - first < CHANNELS ? k->channels - first : CHANNELS;
    int32_t sums[CHANNELS] = {0};
    const int8_t *const x = k->x + image * k->pixels * k->channels + first;
    k->micro->sum_rows(sums, x, k->channels, k->pixels, n);
    int8_t *const out = k->out + image * k->channels + first;
    for (size_t c = 0; c < n; c++) {
      const int32_t sum = sums[c] - (int32_t)k->pixels * k->input_zero;
      float v = (float)sum * k->multiplier;
      v = v > k->low ? v : k->low;
      v = v < k->high ? v : k->high;
      out[c] = (int8_t)(((v + 0x1.8p23f) - 0x1.8p23f) + k->zero);
    }
  }
}

et_status op_qmean_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *in, *out;
  int64_t numbers[4];
  double multiplier;
  ET_TRY(read_image(ctx, args, 6, &in, &out));
  ET_TRY(eti_arg_int(ctx, args, 1, &numbers[0]));
  ET_TRY(eti_arg_double(ctx, args, 2, &multiplier));
  for (size_t i = 1; i < 4; i++) ET_TRY(eti_arg_int(ctx, args, i + 2, &numbers[i]));
  for (size_t i = 0; i < 4; i++) {
    ET_CHECK(numbers[i] >= INT8_MIN && numbers[i] <= INT8_MAX, ctx->err, ET_INVALID_ARGUMENT,
             "zero points and limits: expected numbers of i8, got %lld", (long long)numbers[i]);
  }
  const size_t pixels = eti_numel_range(in, 2, 4);
  ET_CHECK(numbers[2] <= numbers[3] && pixels > 0 && pixels <= MAX_PLANE, ctx->err,
           ET_INVALID_ARGUMENT,
           "expected quant_min below quant_max and 1 to %d pixels, got %lld, %lld and %zu pixels",
           (int)MAX_PLANE, (long long)numbers[2], (long long)numbers[3], pixels);
  const eti_shape shape = {.rank = 4, .sizes = {in->sizes[0], in->sizes[1], 1, 1}};
  ET_TRY(eti_resize(ctx, out, &shape));
  ET_TRY(eti_check_contiguous(ctx, out, ET_INVALID_ARGUMENT, "out"));
  mean k = {.x = in->data,
            .out = out->data,
            .channels = (size_t)in->sizes[1],
            .blocks = ((size_t)in->sizes[1] + CHANNELS - 1) / CHANNELS,
            .pixels = pixels,
            .input_zero = (int32_t)numbers[0],
            .multiplier = (float)multiplier,
            .zero = (float)numbers[1],
            .low = (float)(numbers[2] - numbers[1]),
            .high = (float)(numbers[3] - numbers[1]),
            .micro = eti_qeltwise_micro_best()};
  et_parallel_for(ctx->pool, run_means, &k, (size_t)in->sizes[0] * k.blocks,
                  GRAIN / (CHANNELS * (pixels + 1)) + 1);
  return ET_OK;
}
