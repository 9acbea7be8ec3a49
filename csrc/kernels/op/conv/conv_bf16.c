// conv_bf16.c — executorch_py::convolution_bf16: f32 images, channels-last on both sides, whose
// windows are rounded to bf16 and multiplied with packed bf16 weights, then an epilogue. One group.
// Terms of a window are taps, then channels. Relies on kernels/lib/bgemm_driver.h; micro/bgemm/
// defines the layout of weights and the arithmetic.
#include "kernels/kernel.h"
#include "kernels/lib/bgemm_driver.h"
#include "kernels/lib/window_walk.h"
#include "kernels/ops.h"

#include <string.h>

// (input, weight, bias, channels, kernel, stride, padding, dilation, chain, numbers, tensors, out)
enum { I_WEIGHT = 1, I_CHANNELS = 3, I_KERNEL = 4, I_EPILOGUE = 8, I_OUT = 11 };

typedef struct conv {
  const eti_bgemm_micro *micro;
  eti_windows windows;
  size_t n_images;
} conv;

// ---- windows

typedef struct writer {
  const eti_bgemm_micro *micro;
  char *to;
} writer;

static void copy_terms(writer *w, const void *from, size_t n) {
  w->micro->copy(w->to, from, n);
  w->to += n * w->micro->term_bytes;
}

static void write_zeros(writer *w, size_t n) {
  memset(w->to, 0, n * w->micro->term_bytes);
  w->to += n * w->micro->term_bytes;
}

// Taps [first, end) of a row of a kernel that are inside of the image; no others are read.
static void inner_taps(const eti_windows *w, int64_t x, int64_t *first, int64_t *end) {
  const int64_t step = w->dilation[1], before = x < 0 ? (-x + step - 1) / step : 0;
  const int64_t room = w->width - x, inside = room <= 0 ? 0 : (room + step - 1) / step;
  *end = inside < w->kernel[1] ? inside : w->kernel[1];
  *first = before < *end ? before : *end;
}

static void copy_window(const conv *c, const eti_corner *at, char *to) {
  const eti_windows *const w = &c->windows;
  const size_t channels = w->channels;
  writer out = {c->micro, to};
  int64_t first, end;
  inner_taps(w, at->x, &first, &end);
  for (int64_t ty = 0; ty < w->kernel[0]; ty++) {
    const int64_t y = at->y + ty * w->dilation[0];
    if (y < 0 || y >= w->height || first == end) {
      write_zeros(&out, (size_t)w->kernel[1] * channels);
      continue;
    }
    write_zeros(&out, (size_t)first * channels);
    if (w->dilation[1] == 1) {
      copy_terms(&out, eti_corner_pixel(w, at, y, at->x + first), (size_t)(end - first) * channels);
    } else {
      for (int64_t tx = first; tx < end; tx++) {
        copy_terms(&out, eti_corner_pixel(w, at, y, at->x + tx * w->dilation[1]), channels);
      }
    }
    write_zeros(&out, (size_t)(w->kernel[1] - end) * channels);
  }
}

static void window_rows(const void *ctx, size_t first, size_t n, char *to, size_t step) {
  const conv *const c = ctx;
  const eti_windows *const w = &c->windows;
  if (eti_windows_are_pixels(w)) {
    const char *from = w->images + first * w->pixel_bytes;
    if (step == w->channels * c->micro->term_bytes) {
      c->micro->copy(to, (const float *)(const void *)from, n * w->channels);
      return;
    }
    for (size_t i = 0; i < n; i++, from += w->pixel_bytes, to += step) {
      c->micro->copy(to, (const float *)(const void *)from, w->channels);
    }
    return;
  }
  eti_corner at = eti_corner_of(w, first);
  for (size_t i = 0; i < n; i++, eti_corner_skip(w, &at, 1)) copy_window(c, &at, to + i * step);
}

static void window_piece(const void *ctx, size_t row, size_t k0, size_t n, float *to) {
  const conv *const c = ctx;
  const eti_windows *const w = &c->windows;
  const eti_corner at = eti_corner_of(w, row);
  for (size_t k = k0, count; k < k0 + n; k += count, to += count) {
    const int64_t tap = (int64_t)(k / w->channels);
    const size_t channel = k % w->channels, left = w->channels - channel;
    count = left < k0 + n - k ? left : k0 + n - k;
    const int64_t y = at.y + tap / w->kernel[1] * w->dilation[0],
                  x = at.x + tap % w->kernel[1] * w->dilation[1];
    if (eti_windows_has(w, y, x)) {
      memcpy(to, eti_corner_pixel(w, &at, y, x) + channel * sizeof(float), count * sizeof(float));
    } else {
      memset(to, 0, count * sizeof(float));
    }
  }
}

// ---- entries

static et_status read_images(const et_kernel_ctx *ctx, const et_tensor *x, const et_tensor *out) {
  ET_CHECK(x->rank == 4 && x->dtype == ET_F32 && eti_is_channels_last(x), ctx->err,
           ET_INVALID_ARGUMENT, "input: expected channels-last images of f32, got %s of rank %d",
           et_dtype_name((et_dtype)x->dtype), (int)x->rank);
  ET_CHECK(out->dtype == ET_F32, ctx->err, ET_INVALID_ARGUMENT, "out: expected f32, got %s",
           et_dtype_name((et_dtype)out->dtype));
  return ET_OK;
}

static et_status read_conv(const et_kernel_ctx *ctx, et_value *const *args, conv *c,
                           eti_bgemm_job *p) {
  et_tensor *x, *out;
  int64_t n;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_int(ctx, args, I_CHANNELS, &n));
  ET_TRY(eti_arg_tensor(ctx, args, I_OUT, &out));
  ET_TRY(read_images(ctx, x, out));
  ET_CHECK(n >= 0 && n <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
           "channels: expected 0 or more, got %lld", (long long)n);
  *c = (conv){.n_images = (size_t)x->sizes[0]};
  eti_windows *const w = &c->windows;
  *w = (eti_windows){.images = x->data,
                     .channels = (size_t)x->sizes[1],
                     .pixel_bytes = (size_t)x->sizes[1] * sizeof(float),
                     .height = x->sizes[2],
                     .width = x->sizes[3]};
  ET_TRY(eti_windows_read(ctx, args, I_KERNEL, "convolution_bf16", w));
  *p = (eti_bgemm_job){.m = c->n_images * (size_t)(w->rows * w->columns), .n = (size_t)n};
  const size_t taps = (size_t)(w->kernel[0] * w->kernel[1]);
  ET_CHECK(!__builtin_mul_overflow(taps, w->channels, &p->k), ctx->err, ET_INVALID_ARGUMENT,
           "%zu taps of %zu channels are too many", taps, w->channels);
  ET_TRY(eti_bgemm_job_read(ctx, args, I_WEIGHT, p));
  const eti_shape shape = {
      .rank = 4, .sizes = {x->sizes[0], (int32_t)n, (int32_t)w->rows, (int32_t)w->columns}};
  ET_TRY(eti_resize(ctx, out, &shape));
  ET_TRY(eti_check_channels_last(ctx, out, ET_INVALID_ARGUMENT, "out"));
  c->micro = p->micro;
  p->rows = window_rows;
  p->piece = window_piece;
  p->ctx = c;
  p->out = out->data;
  return ET_OK;
}

et_status op_convolution_bf16_out(et_kernel_ctx *ctx, et_value *const *args) {
  conv c;
  eti_bgemm_job p;
  eti_epilogue_call call;
  ET_TRY(read_conv(ctx, args, &c, &p));
  ET_TRY(eti_epilogue_bind_optional(ctx, args, I_EPILOGUE, ctx->state, args[I_OUT]->as.tensor,
                                    &call, &p.epilogue));
  eti_bgemm_job_run(ctx, &p);
  return ET_OK;
}

et_status prepare_convolution_bf16_out(et_prepare_ctx *ctx, et_value *const *args) {
  const et_kernel_ctx k = eti_prepare_args(ctx);
  conv c;
  eti_bgemm_job p;
  const eti_epilogue *epilogue = NULL;
  ET_TRY(eti_epilogue_prepare_optional(ctx, args, I_EPILOGUE, &epilogue));
  ctx->state = (void *)(uintptr_t)epilogue;
  if (ctx->is_minimal) return ET_OK;
  ET_TRY(read_conv(&k, args, &c, &p));
  const size_t bytes = eti_bgemm_job_scratch(&p, ctx->n_threads);
  if (bytes > ctx->scratch_bytes) ctx->scratch_bytes = bytes;
  return ET_OK;
}
