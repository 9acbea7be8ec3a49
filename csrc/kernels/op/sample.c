// sample.c — _upsample_bilinear2d_aa: resizing with triangle filters as wide as the shrinking. Any
// layout. Weighted sums are f64 and rounded once. Relies on element.h.
#include "kernels/element.h"
#include "kernels/kernel.h"
#include "kernels/ops.h"

#include <math.h>

static et_status check_images(const et_kernel_ctx *ctx, const char *op, const et_tensor *x,
                              const et_tensor *out) {
  ET_CHECK(x->rank == 4, ctx->err, ET_INVALID_ARGUMENT, "%s: input has rank %d, needs 4", op,
           (int)x->rank);
  ET_CHECK(
      eti_dtype_in((et_dtype)x->dtype, ET_TYPES_FLOAT_HALF) && x->dtype == out->dtype && out != x,
      ctx->err, ET_INVALID_ARGUMENT,
      "%s: input is %s, out %s; needs one floating-point type and another tensor", op,
      et_dtype_name((et_dtype)x->dtype), et_dtype_name((et_dtype)out->dtype));
  ET_CHECK(x->sizes[2] > 0 && x->sizes[3] > 0, ctx->err, ET_INVALID_ARGUMENT,
           "%s: input has an empty spatial dimension", op);
  return ET_OK;
}

// ---- _upsample_bilinear2d_aa

typedef struct filter {
  const et_tensor *x, *out;
  double scale[2];  // input steps per output step
} filter;

typedef struct window {
  int64_t from, n;
  double center, step, total;
} window;

static double triangle(const window *w, int64_t i) {
  const double d = fabs(((double)(w->from + i) - w->center + 0.5) * w->step);
  return d < 1.0 ? 1.0 - d : 0.0;
}

// The input positions that make output o, and the sum of their weights.
static window window_of(const filter *f, size_t d, int64_t o) {
  const double scale = f->scale[d], support = scale >= 1.0 ? scale : 1.0,
               size = (double)f->x->sizes[2 + d];
  window w = {.center = scale * ((double)o + 0.5), .step = 1.0 / support};
  const double from = w.center - support + 0.5, to = w.center + support + 0.5;
  w.from = from > 0.0 ? (int64_t)fmin(from, size) : 0;
  w.n = (int64_t)fmin(to, size) - w.from;
  for (int64_t i = 0; i < w.n; i++) w.total += triangle(&w, i);
  return w;
}

// Items are rows of the result: planes × height.
static void filter_rows(void *opaque, size_t begin, size_t end) {
  const filter *const f = opaque;
  const size_t height = (size_t)f->out->sizes[2], channels = (size_t)f->out->sizes[1];
  for (size_t i = begin; i < end; i++) {
    const ptrdiff_t n = (ptrdiff_t)(i / height / channels), c = (ptrdiff_t)(i / height % channels),
                    y = (ptrdiff_t)(i % height);
    const ptrdiff_t in = n * f->x->strides[0] + c * f->x->strides[1];
    const ptrdiff_t out = n * f->out->strides[0] + c * f->out->strides[1] + y * f->out->strides[2];
    const window wy = window_of(f, 0, y);
    for (ptrdiff_t x = 0; x < f->out->sizes[3]; x++) {
      const window wx = window_of(f, 1, x);
      double sum = 0.0;
      for (int64_t j = 0; j < wy.n; j++) {
        const ptrdiff_t row = in + (ptrdiff_t)(wy.from + j) * f->x->strides[2];
        double part = 0.0;
        for (int64_t k = 0; k < wx.n; k++) {
          part += triangle(&wx, k) *
                  eti_load_f64(f->x, row + (ptrdiff_t)(wx.from + k) * f->x->strides[3]);
        }
        sum += triangle(&wy, j) * part;
      }
      const double total = wy.total * wx.total;
      eti_store_f64(f->out, out + x * f->out->strides[3], total == 0.0 ? 0.0 : sum / total);
    }
  }
}

et_status op_upsample_bilinear2d_aa_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *x, *out;
  int64_t sizes[2] = {0};
  size_t n = 0;
  bool align_corners = false;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_ints(ctx, args, 1, sizes, 2, &n));
  ET_TRY(eti_arg_bool(ctx, args, 2, &align_corners));
  ET_TRY(eti_arg_tensor(ctx, args, 5, &out));
  ET_TRY(check_images(ctx, "_upsample_bilinear2d_aa", x, out));
  filter f = {.x = x, .out = out};
  for (size_t d = 0; d < 2; d++) {
    double factor = 0.0;
    bool has_factor = false;
    ET_TRY(eti_arg_optional_double(ctx, args, 3 + d, &has_factor, &factor));
    ET_CHECK(n == 2 && sizes[d] >= 1 && sizes[d] <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
             "_upsample_bilinear2d_aa: output_size has %zu entries, entry %zu is %lld; needs 2 of "
             "at least 1",
             n, d, (long long)sizes[d]);
    const double in = (double)x->sizes[2 + d], to = (double)sizes[d];
    if (align_corners) {
      f.scale[d] = to > 1.0 ? (in - 1.0) / (to - 1.0) : 0.0;
    } else {
      f.scale[d] = has_factor && factor > 0.0 ? 1.0 / factor : in / to;
    }
  }
  const eti_shape shape = {
      .rank = 4, .sizes = {x->sizes[0], x->sizes[1], (int32_t)sizes[0], (int32_t)sizes[1]}};
  ET_TRY(eti_resize(ctx, out, &shape));
  if (out->numel == 0) return ET_OK;
  et_parallel_for(ctx->pool, filter_rows, &f, out->numel / (size_t)sizes[1],
                  1 + 2048 / (size_t)sizes[1]);
  return ET_OK;
}
