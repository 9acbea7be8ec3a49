// grid_sample.c — images read at positions that a grid gives: grid_sampler_2d and grid_sampler_3d,
// any layout. Positions are rounded as torch rounds them, to f32 unless the images are f64, since
// nearest sampling depends on it; weighted sums are f64 and rounded once. A position that is no
// number lies outside. Relies on element.h.
#include "kernels/element.h"
#include "kernels/kernel.h"
#include "kernels/ops.h"

#include <math.h>

enum { BILINEAR, NEAREST, BICUBIC };
enum { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION };

// Dimensions are depth, height, width; images without a depth have one of size 1 and stride 0.
typedef struct sampler {
  const char *op;
  const et_tensor *x, *grid, *out;
  size_t spatial;
  int64_t in[3];
  ptrdiff_t steps[3];
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
static double pixel(const sampler *s, ptrdiff_t plane, double z, double y, double x) {
  const double at[3] = {z, y, x};
  for (size_t d = 0; d < 3; d++) {
    if (!(at[d] >= 0.0 && at[d] < (double)s->in[d])) return 0.0;
    plane += (ptrdiff_t)at[d] * s->steps[d];
  }
  return eti_load_f64(s->x, plane);
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

static double sample_cubic(const sampler *s, ptrdiff_t plane, double y, double x) {
  double wy[4], wx[4], sum = 0.0;
  const double top = floor(y), left = floor(x);
  cubic_weights(y - top, wy);
  cubic_weights(x - left, wx);
  for (int i = 0; i < 4; i++) {
    double row = 0.0;
    for (int j = 0; j < 4; j++) {
      row += wx[j] * pixel(s, plane, 0.0, padded(s, top - 1.0 + i, s->in[1]),
                           padded(s, left - 1.0 + j, s->in[2]));
    }
    sum += wy[i] * row;
  }
  return sum;
}

static double sample_row(const sampler *s, ptrdiff_t plane, double z, double y, double x) {
  const double left = floor(x), right = x - left;
  return (1.0 - right) * pixel(s, plane, z, y, left) + right * pixel(s, plane, z, y, left + 1.0);
}

static double sample_plane(const sampler *s, ptrdiff_t plane, double z, double y, double x) {
  const double top = floor(y), down = y - top;
  return (1.0 - down) * sample_row(s, plane, z, top, x) +
         down * sample_row(s, plane, z, top + 1.0, x);
}

// at: the grid's numbers for depth, height and width; the first is not read in two dimensions.
static double sample(const sampler *s, ptrdiff_t plane, const double at[3]) {
  double p[3] = {0.0};
  for (size_t d = 3 - s->spatial; d < 3; d++) {
    p[d] = unnormalized(s, at[d], s->in[d]);
    if (s->mode != BICUBIC) p[d] = padded(s, p[d], s->in[d]);
  }
  if (s->mode == BICUBIC) return sample_cubic(s, plane, p[1], p[2]);
  if (s->mode == NEAREST) return pixel(s, plane, rint(p[0]), rint(p[1]), rint(p[2]));
  if (s->spatial == 2) return sample_plane(s, plane, 0.0, p[1], p[2]);
  const double front = floor(p[0]), back = p[0] - front;
  return (1.0 - back) * sample_plane(s, plane, front, p[1], p[2]) +
         back * sample_plane(s, plane, front + 1.0, p[1], p[2]);
}

// Items are rows of positions: images × depth × rows of the grid. All channels share a position.
static void sample_rows(void *opaque, size_t begin, size_t end) {
  const sampler *const s = opaque;
  const et_tensor *out = s->out, *grid = s->grid;
  const size_t last = s->spatial + 1, height = (size_t)out->sizes[last - 1],
               depth = s->spatial == 3 ? (size_t)out->sizes[2] : 1;
  for (size_t i = begin; i < end; i++) {
    const ptrdiff_t y = (ptrdiff_t)(i % height), z = (ptrdiff_t)(i / height % depth),
                    n = (ptrdiff_t)(i / height / depth);
    ptrdiff_t from = n * grid->strides[0] + y * grid->strides[last - 2],
              to = n * out->strides[0] + y * out->strides[last - 1];
    if (s->spatial == 3) {
      from += z * grid->strides[1];
      to += z * out->strides[2];
    }
    for (ptrdiff_t x = 0; x < out->sizes[last]; x++) {
      double at[3] = {0.0};
      for (size_t d = 0; d < s->spatial; d++)  // the grid names the width first
        at[2 - d] = eti_load_f64(
            grid, from + x * grid->strides[last - 1] + (ptrdiff_t)d * grid->strides[last]);
      for (ptrdiff_t c = 0; c < out->sizes[1]; c++) {
        const double value = sample(s, n * s->x->strides[0] + c * s->x->strides[1], at);
        eti_store_f64(out, to + c * out->strides[1] + x * out->strides[last], value);
      }
    }
  }
}

static et_status check_grid(const et_kernel_ctx *ctx, const sampler *s) {
  const et_tensor *x = s->x, *grid = s->grid, *out = s->out;
  const size_t rank = s->spatial + 2;
  ET_CHECK(x->rank == rank && eti_dtype_in((et_dtype)x->dtype, ET_TYPES_FLOAT_HALF) &&
               x->dtype == out->dtype && out != x,
           ctx->err, ET_INVALID_ARGUMENT,
           "%s: input is %s of rank %d, out %s; needs one floating-point type, rank %zu, another "
           "tensor",
           s->op, et_dtype_name((et_dtype)x->dtype), (int)x->rank,
           et_dtype_name((et_dtype)out->dtype), rank);
  for (size_t d = 2; d < rank; d++)
    ET_CHECK(x->sizes[d] > 0, ctx->err, ET_INVALID_ARGUMENT,
             "%s: input has an empty spatial dimension", s->op);
  ET_CHECK(grid->rank == rank && grid->sizes[rank - 1] == (int32_t)s->spatial &&
               grid->sizes[0] == x->sizes[0] && grid->dtype == x->dtype && grid != out,
           ctx->err, ET_INVALID_ARGUMENT, "%s: grid is %s of rank %d, needs %s[%d, %s%zu]", s->op,
           et_dtype_name((et_dtype)grid->dtype), (int)grid->rank, et_dtype_name((et_dtype)x->dtype),
           (int)x->sizes[0], s->spatial == 3 ? "depth, height, width, " : "height, width, ",
           s->spatial);
  const int64_t most = s->spatial == 2 ? BICUBIC : NEAREST;
  ET_CHECK(s->mode >= BILINEAR && s->mode <= most && s->padding >= PAD_ZEROS &&
               s->padding <= PAD_REFLECTION,
           ctx->err, ET_INVALID_ARGUMENT,
           "%s: interpolation %lld and padding %lld, needs at most %lld and 2", s->op,
           (long long)s->mode, (long long)s->padding, (long long)most);
  return ET_OK;
}

// (input, grid, interpolation_mode, padding_mode, align_corners, out)
static et_status grid_sample(const et_kernel_ctx *ctx, et_value *const *args, size_t spatial,
                             const char *op) {
  et_tensor *x = NULL, *grid = NULL, *out = NULL;
  sampler s = {.op = op, .spatial = spatial, .in = {1, 1, 1}};
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &grid));
  ET_TRY(eti_arg_int(ctx, args, 2, &s.mode));
  ET_TRY(eti_arg_int(ctx, args, 3, &s.padding));
  ET_TRY(eti_arg_bool(ctx, args, 4, &s.align_corners));
  ET_TRY(eti_arg_tensor(ctx, args, 5, &out));
  s.x = x;
  s.grid = grid;
  s.out = out;
  s.wide = x->dtype == ET_F64;
  ET_TRY(check_grid(ctx, &s));
  eti_shape shape = {.rank = spatial + 2, .sizes = {x->sizes[0], x->sizes[1]}};
  for (size_t d = 0; d < spatial; d++) {
    shape.sizes[2 + d] = grid->sizes[1 + d];
    s.in[3 - spatial + d] = x->sizes[2 + d];
    s.steps[3 - spatial + d] = x->strides[2 + d];
  }
  ET_TRY(eti_resize(ctx, out, &shape));
  if (out->numel == 0) return ET_OK;
  const size_t per_row = (size_t)shape.sizes[1] * (size_t)shape.sizes[spatial + 1];
  et_parallel_for(ctx->pool, sample_rows, &s, out->numel / per_row, 1 + 4096 / per_row);
  return ET_OK;
}

et_status op_grid_sampler_2d_out(et_kernel_ctx *ctx, et_value *const *args) {
  return grid_sample(ctx, args, 2, "grid_sampler_2d");
}
et_status op_grid_sampler_3d_out(et_kernel_ctx *ctx, et_value *const *args) {
  return grid_sample(ctx, args, 3, "grid_sampler_3d");
}
