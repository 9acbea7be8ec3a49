// resample_aa.c — _upsample_bilinear2d_aa: resizing with triangle filters that widen with the
// scale. Any layout. Weighted sums are f64 and rounded once; resize_u8.h resizes u8 images. Relies
// on element.h.
#include "kernels/lib/resize_u8.h"
#include "kernels/lib/element.h"
#include "kernels/kernel.h"
#include "kernels/ops.h"

#include <math.h>

static et_status check_images(const et_kernel_ctx *ctx, const char *op, const et_tensor *x,
                              const et_tensor *out) {
  ET_CHECK(x->rank == 4, ctx->err, ET_INVALID_ARGUMENT, "%s: input: expected rank 4, got %d", op,
           (int)x->rank);
  ET_CHECK(eti_dtype_in((et_dtype)x->dtype, ET_TYPES_FLOAT_HALF | ET_DTYPE_BIT(ET_U8)) &&
               x->dtype == out->dtype && out != x,
           ctx->err, ET_INVALID_ARGUMENT,
           "%s: expected one floating-point type, or u8, and another tensor as out, got input %s, "
           "out %s",
           op, et_dtype_name((et_dtype)x->dtype), et_dtype_name((et_dtype)out->dtype));
  ET_CHECK(x->sizes[2] > 0 && x->sizes[3] > 0, ctx->err, ET_INVALID_ARGUMENT,
           "%s: input: expected spatial dimensions of 1 or more, got 0", op);
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

static double triangle_weight(const window *w, int64_t i) {
  const double d = fabs(((double)(w->from + i) - w->center + 0.5) * w->step);
  return d < 1.0 ? 1.0 - d : 0.0;
}

// The input positions of output o, and the sum of their weights.
static window window_of(const filter *f, size_t d, int64_t o) {
  const double scale = f->scale[d], support = scale >= 1.0 ? scale : 1.0,
               size = (double)f->x->sizes[2 + d];
  window w = {.center = scale * ((double)o + 0.5), .step = 1.0 / support};
  const double from = w.center - support + 0.5, to = w.center + support + 0.5;
  w.from = from > 0.0 ? (int64_t)fmin(from, size) : 0;
  w.n = (int64_t)fmin(to, size) - w.from;
  for (int64_t i = 0; i < w.n; i++) w.total += triangle_weight(&w, i);
  return w;
}

enum { BLOCK = ETI_ON_STACK(256, 24) };  // outputs, and inputs, at a time

// Sums of inputs [first, first + n), weighted over the height.
static void sum_rows(const filter *f, ptrdiff_t in, const window *wy, int64_t first, size_t n,
                     double *sums) {
  const ptrdiff_t step = f->x->strides[3] * (ptrdiff_t)et_dtype_bytes((et_dtype)f->x->dtype);
  double row[BLOCK];
  for (size_t k = 0; k < n; k++) sums[k] = 0.0;
  for (int64_t j = 0; j < wy->n; j++) {
    const double weight = triangle_weight(wy, j);
    const ptrdiff_t at =
        in + (ptrdiff_t)(wy->from + j) * f->x->strides[2] + (ptrdiff_t)first * f->x->strides[3];
    eti_casts[f->x->dtype][ET_F64](row, 8, eti_element(f->x, at), step, n);
    for (size_t k = 0; k < n; k++) sums[k] += weight * row[k];
  }
}

// Computes outputs [x0, x0 + n) of one row: the height first, then the width.
static void filter_block(const filter *f, ptrdiff_t in, const window *wy, const window *wx,
                         size_t n, double *values) {
  const int64_t end = wx[n - 1].from + wx[n - 1].n;
  double sums[BLOCK];
  for (size_t i = 0; i < n; i++) values[i] = 0.0;
  for (int64_t first = wx[0].from; first < end; first += BLOCK) {
    const int64_t last = end - first < BLOCK ? end : first + BLOCK;
    sum_rows(f, in, wy, first, (size_t)(last - first), sums);
    for (size_t i = 0; i < n; i++) {
      const int64_t from = wx[i].from > first ? wx[i].from : first;
      const int64_t to = wx[i].from + wx[i].n < last ? wx[i].from + wx[i].n : last;
      for (int64_t k = from; k < to; k++)
        values[i] += triangle_weight(&wx[i], k - wx[i].from) * sums[k - first];
    }
  }
  for (size_t i = 0; i < n; i++) {
    const double total = wy->total * wx[i].total;
    values[i] = total == 0.0 ? 0.0 : values[i] / total;
  }
}

// Each item is a row of the result: planes × height.
static void filter_rows(void *opaque, size_t begin, size_t end) {
  const filter *const f = opaque;
  const size_t height = (size_t)f->out->sizes[2], channels = (size_t)f->out->sizes[1];
  const ptrdiff_t step = f->out->strides[3] * (ptrdiff_t)et_dtype_bytes((et_dtype)f->out->dtype);
  window wx[BLOCK];
  double values[BLOCK];
  for (int64_t x0 = 0; x0 < f->out->sizes[3]; x0 += BLOCK) {
    const size_t left = (size_t)(f->out->sizes[3] - x0), m = left < BLOCK ? left : BLOCK;
    for (size_t i = 0; i < m; i++) wx[i] = window_of(f, 1, x0 + (int64_t)i);
    for (size_t i = begin; i < end; i++) {
      const ptrdiff_t n = (ptrdiff_t)(i / height / channels), y = (ptrdiff_t)(i % height),
                      c = (ptrdiff_t)(i / height % channels);
      const ptrdiff_t in = n * f->x->strides[0] + c * f->x->strides[1];
      const ptrdiff_t out = n * f->out->strides[0] + c * f->out->strides[1] +
                            y * f->out->strides[2] + (ptrdiff_t)x0 * f->out->strides[3];
      const window wy = window_of(f, 0, y);
      filter_block(f, in, &wy, wx, m, values);
      eti_casts[ET_F64][f->out->dtype](eti_element(f->out, out), step, values, 8, m);
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
             "_upsample_bilinear2d_aa: output_size: expected 2 entries of 1 or more, got %zu, "
             "entry %zu of %lld",
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
  if (x->dtype == ET_U8) {
    const eti_resize_u8 bytes = {
        .x = x, .out = out, .scale = {f.scale[0], f.scale[1]}, .antialias = true};
    eti_resize_u8_run(ctx, &bytes);
    return ET_OK;
  }
  et_parallel_for(ctx->pool, filter_rows, &f, out->numel / (size_t)sizes[1],
                  1 + 2048 / (size_t)sizes[1]);
  return ET_OK;
}
