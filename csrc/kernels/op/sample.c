// sample.c — images read at computed positions: grid_sampler_2d (positions given by a grid) and
// _upsample_bilinear2d_aa (triangle filters as wide as the shrinking). Any layout. Positions are
// rounded as torch rounds them, to f32 unless the images are f64, since nearest sampling depends on
// it; weighted sums are f64 and rounded once. Relies on the cast table. A position that is no
// number lies outside.
#include "kernels/kernel.h"
#include "kernels/ops.h"

#include <math.h>

enum { BILINEAR, NEAREST, BICUBIC };
enum { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION };

static double load(const et_tensor *t, ptrdiff_t at) {
  double value;
  switch (t->dtype) {
    case ET_F32:
      return (double)((const float *)t->data)[at];
    case ET_F64:
      return ((const double *)t->data)[at];
    default:
      eti_casts[t->dtype][ET_F64](
          &value, 0, (const char *)t->data + at * (ptrdiff_t)et_dtype_bytes((et_dtype)t->dtype), 0,
          1);
      return value;
  }
}

static void store(const et_tensor *t, ptrdiff_t at, double value) {
  const ptrdiff_t item = (ptrdiff_t)et_dtype_bytes((et_dtype)t->dtype);
  eti_casts[ET_F64][t->dtype]((char *)t->data + at * item, 0, &value, 0, 1);
}

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

// ---- grid_sampler_2d

typedef struct sampler {
  const et_tensor *x, *grid, *out;
  int64_t mode, padding;
  bool align_corners, wide;
} sampler;

// A result of one f32 operation on f32 numbers, computed in f64, is the f32 result after this
// rounding.
static double rounded(const sampler *s, double x) {
  return s->wide ? x : (double)(float)x;
}

static double unnormalized(const sampler *s, double at, int64_t size) {
  if (s->align_corners)
    return rounded(s, rounded(s, at + 1.0) * rounded(s, (double)(size - 1) / 2.0));
  return rounded(s, rounded(s, rounded(s, at + 1.0) * rounded(s, (double)size / 2.0)) - 0.5);
}

static double reflected(const sampler *s, double at, int64_t size) {
  const double low = s->align_corners ? 0.0 : -0.5,
               span = s->align_corners ? (double)(size - 1) : (double)size;
  if (span == 0.0) return 0.0;
  const double from = fabs(rounded(s, at - low)), extra = fmod(from, span),
               flips = floor(rounded(s, from / span));
  return fmod(flips, 2.0) == 0.0 ? rounded(s, extra + low)
                                 : rounded(s, rounded(s, span - extra) + low);
}

// The position that padding makes of one; -100, outside of every image, when it is no number or too
// large.
static double padded(const sampler *s, double at, int64_t size) {
  if (s->padding == PAD_REFLECTION) at = reflected(s, at, size);
  if (s->padding != PAD_ZEROS) at = at<0.0 ? 0.0 : at>(double)(size - 1) ? (double)(size - 1) : at;
  return at > -2147483648.0 && at < 2147483647.0 ? at : -100.0;
}

// An element of the image, 0 outside.
static double pixel(const sampler *s, ptrdiff_t plane, double y, double x) {
  if (!(y >= 0.0 && y < (double)s->x->sizes[2] && x >= 0.0 && x < (double)s->x->sizes[3]))
    return 0.0;
  return load(s->x, plane + (ptrdiff_t)y * s->x->strides[2] + (ptrdiff_t)x * s->x->strides[3]);
}

// The cubic convolution with A = -3/4 at distances t + 1, t, 1 - t, 2 - t.
static void cubic_weights(double t, double w[4]) {
  const double a = -0.75;
  const double distance[4] = {t + 1.0, t, 1.0 - t, 2.0 - t};
  for (size_t i = 0; i < 4; i++) {
    const double d = distance[i];
    w[i] = d <= 1.0 ? ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
                    : ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a;
  }
}

static double sample(const sampler *s, ptrdiff_t plane, double y, double x) {
  const int64_t height = s->x->sizes[2], width = s->x->sizes[3];
  y = unnormalized(s, y, height);
  x = unnormalized(s, x, width);
  if (s->mode == BICUBIC) {
    double wy[4], wx[4], sum = 0.0;
    const double top = floor(y), left = floor(x);
    cubic_weights(y - top, wy);
    cubic_weights(x - left, wx);
    for (int i = 0; i < 4; i++) {
      double row = 0.0;
      for (int j = 0; j < 4; j++) {
        row += wx[j] *
               pixel(s, plane, padded(s, top - 1.0 + i, height), padded(s, left - 1.0 + j, width));
      }
      sum += wy[i] * row;
    }
    return sum;
  }
  y = padded(s, y, height);
  x = padded(s, x, width);
  if (s->mode == NEAREST) return pixel(s, plane, rint(y), rint(x));
  const double top = floor(y), left = floor(x), down = y - top, right = x - left;
  return (1.0 - down) * ((1.0 - right) * pixel(s, plane, top, left) +
                         right * pixel(s, plane, top, left + 1.0)) +
         down * ((1.0 - right) * pixel(s, plane, top + 1.0, left) +
                 right * pixel(s, plane, top + 1.0, left + 1.0));
}

// Items are rows of positions: images × rows of the grid. All channels share a position.
static void sample_rows(void *opaque, size_t begin, size_t end) {
  const sampler *const s = opaque;
  const size_t height = (size_t)s->out->sizes[2];
  for (size_t i = begin; i < end; i++) {
    const ptrdiff_t n = (ptrdiff_t)(i / height), y = (ptrdiff_t)(i % height);
    for (ptrdiff_t x = 0; x < s->out->sizes[3]; x++) {
      const ptrdiff_t at =
          n * s->grid->strides[0] + y * s->grid->strides[1] + x * s->grid->strides[2];
      const double to_x = load(s->grid, at), to_y = load(s->grid, at + s->grid->strides[3]);
      for (ptrdiff_t c = 0; c < s->out->sizes[1]; c++) {
        const double value = sample(s, n * s->x->strides[0] + c * s->x->strides[1], to_y, to_x);
        store(s->out,
              n * s->out->strides[0] + c * s->out->strides[1] + y * s->out->strides[2] +
                  x * s->out->strides[3],
              value);
      }
    }
  }
}

et_status op_grid_sampler_2d_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *x, *grid, *out;
  sampler s = {.mode = 0};
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &grid));
  ET_TRY(eti_arg_int(ctx, args, 2, &s.mode));
  ET_TRY(eti_arg_int(ctx, args, 3, &s.padding));
  ET_TRY(eti_arg_bool(ctx, args, 4, &s.align_corners));
  ET_TRY(eti_arg_tensor(ctx, args, 5, &out));
  ET_TRY(check_images(ctx, "grid_sampler_2d", x, out));
  ET_CHECK(grid->rank == 4 && grid->sizes[3] == 2 && grid->sizes[0] == x->sizes[0] &&
               grid->dtype == x->dtype && grid != out,
           ctx->err, ET_INVALID_ARGUMENT,
           "grid_sampler_2d: grid is %s of rank %d, needs %s[%d, height, width, 2]",
           et_dtype_name((et_dtype)grid->dtype), (int)grid->rank, et_dtype_name((et_dtype)x->dtype),
           (int)x->sizes[0]);
  ET_CHECK(s.mode >= BILINEAR && s.mode <= BICUBIC && s.padding >= PAD_ZEROS &&
               s.padding <= PAD_REFLECTION,
           ctx->err, ET_INVALID_ARGUMENT,
           "grid_sampler_2d: interpolation %lld and padding %lld, needs 0, 1 or 2",
           (long long)s.mode, (long long)s.padding);
  const eti_shape shape = {.rank = 4,
                           .sizes = {x->sizes[0], x->sizes[1], grid->sizes[1], grid->sizes[2]}};
  ET_TRY(eti_resize(ctx, out, &shape));
  if (out->numel == 0) return ET_OK;
  s.x = x;
  s.grid = grid;
  s.out = out;
  s.wide = x->dtype == ET_F64;
  const size_t rows = (size_t)(shape.sizes[0]) * (size_t)shape.sizes[2];
  et_parallel_for(ctx->pool, sample_rows, &s, rows, 1 + 4096 / (out->numel / rows));
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
          part += triangle(&wx, k) * load(f->x, row + (ptrdiff_t)(wx.from + k) * f->x->strides[3]);
        }
        sum += triangle(&wy, j) * part;
      }
      const double total = wy.total * wx.total;
      store(f->out, out + x * f->out->strides[3], total == 0.0 ? 0.0 : sum / total);
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
