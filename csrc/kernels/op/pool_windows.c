// pool_windows.c — the largest element of windows that do not follow a stride: adaptive_max_pool
// and fractional_max_pool in two and three dimensions, any layout and real type. Each output looks
// at its own window; the last NaN wins, else the first of equal elements, as in ATen. Relies on
// element.h. (Pooling with strides is in pool.c.)
#include "kernels/element.h"
#include "kernels/kernel.h"
#include "kernels/ops.h"

#include <math.h>

// Fewer-dimensional pools have leading dimensions of size 1.
typedef struct window_pool {
  const char *op;
  const et_tensor *x, *out, *indices, *samples;  // samples NULL: adaptive
  size_t spatial, lead;                          // spatial dimensions; those before them (1 or 2)
  int64_t in[3], size[3], kernel[3];
  bool is_float;
} window_pool;

static ptrdiff_t step_of(const window_pool *p, const et_tensor *t, size_t d) {
  return d + p->spatial < 3 ? 0 : t->strides[p->lead + d + p->spatial - 3];
}

static ptrdiff_t plane_of(const window_pool *p, const et_tensor *t, size_t plane) {
  if (p->lead == 1) return (ptrdiff_t)plane * t->strides[0];
  const size_t channels = (size_t)t->sizes[1];
  return (ptrdiff_t)(plane / channels) * t->strides[0] +
         (ptrdiff_t)(plane % channels) * t->strides[1];
}

// Where output o's window begins when windows of one size are spread with a random shift. Computed
// in f32 unless the images are f64, as torch does: another rounding is another window.
static int64_t fractional_start(const window_pool *p, size_t d, int64_t o, double shift) {
  const int64_t room = p->in[d] - p->kernel[d];
  if (o == p->size[d] - 1) return room;
  if (p->x->dtype == ET_F64) {
    const double step = (double)room / (double)(p->size[d] - 1);
    return (int64_t)(((double)o + shift) * step) - (int64_t)(shift * step);
  }
  const float s = (float)shift, step = (float)room / (float)(p->size[d] - 1);
  return (int64_t)(((float)o + s) * step) - (int64_t)(s * step);
}

static void window_of(const window_pool *p, size_t d, size_t plane, int64_t o, int64_t *from,
                      int64_t *to) {
  if (p->samples == NULL || d + p->spatial < 3) {
    *from = o * p->in[d] / p->size[d];
    *to = ((o + 1) * p->in[d] + p->size[d] - 1) / p->size[d];
    return;
  }
  // Samples of two dimensions name the width first, those of three the depth.
  const size_t which = p->spatial == 2 ? 2 - d : d;
  const et_tensor *t = p->samples;
  const size_t channels = (size_t)t->sizes[1];
  const ptrdiff_t at = (ptrdiff_t)(plane / channels) * t->strides[0] +
                       (ptrdiff_t)(plane % channels) * t->strides[1] +
                       (ptrdiff_t)which * t->strides[2];
  const int64_t last = p->in[d] - p->kernel[d];
  const int64_t start = fractional_start(p, d, o, eti_load_f64(t, at));
  *from = start < 0 ? 0 : start > last ? last : start;
  *to = *from + p->kernel[d];
}

typedef struct largest {
  double d;
  int64_t i, at;
} largest;

static void look_at(const window_pool *p, ptrdiff_t offset, int64_t at, largest *best) {
  const bool first = best->at < 0;
  if (p->is_float) {
    const double x = eti_load_f64(p->x, offset);
    if (!first && !(x > best->d || x != x)) return;
    best->d = x;
  } else {
    int64_t x;
    eti_casts[p->x->dtype][ET_I64](&x, 0, eti_element(p->x, offset), 0, 1);
    if (!first && x <= best->i) return;
    best->i = x;
  }
  best->at = at;
}

static void pool_one(const window_pool *p, size_t plane, const int64_t o[3]) {
  const ptrdiff_t in = plane_of(p, p->x, plane);
  int64_t from[3], to[3];
  largest best = {.d = -(double)INFINITY, .at = -1};
  for (size_t d = 0; d < 3; d++) window_of(p, d, plane, o[d], &from[d], &to[d]);
  for (int64_t z = from[0]; z < to[0]; z++) {
    for (int64_t y = from[1]; y < to[1]; y++) {
      const ptrdiff_t row =
          in + (ptrdiff_t)z * step_of(p, p->x, 0) + (ptrdiff_t)y * step_of(p, p->x, 1);
      for (int64_t x = from[2]; x < to[2]; x++)
        look_at(p, row + (ptrdiff_t)x * step_of(p, p->x, 2), (z * p->in[1] + y) * p->in[2] + x,
                &best);
    }
  }
  ptrdiff_t at = plane_of(p, p->out, plane), index_at = plane_of(p, p->indices, plane);
  for (size_t d = 0; d < 3; d++) {
    at += (ptrdiff_t)o[d] * step_of(p, p->out, d);
    index_at += (ptrdiff_t)o[d] * step_of(p, p->indices, d);
  }
  eti_casts[p->is_float ? ET_F64 : ET_I64][p->out->dtype](
      eti_element(p->out, at), 0, p->is_float ? (const void *)&best.d : &best.i, 0, 1);
  ((int64_t *)p->indices->data)[index_at] = best.at;
}

// Items are rows of outputs.
static void pool_rows(void *opaque, size_t begin, size_t end) {
  const window_pool *const p = opaque;
  const size_t rows = (size_t)(p->size[0] * p->size[1]);
  for (size_t u = begin; u < end; u++) {
    int64_t o[3] = {(int64_t)(u % rows) / p->size[1], (int64_t)(u % rows) % p->size[1], 0};
    for (; o[2] < p->size[2]; o[2]++) pool_one(p, u / rows, o);
  }
}

static et_status read_list(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                           const window_pool *p, const char *what, int64_t out[3]) {
  return eti_arg_spatial(ctx, args, i, p->op, what, p->spatial, 0, false, out);
}

static et_status read_input(const et_kernel_ctx *ctx, et_value *const *args, window_pool *p) {
  et_tensor *x = NULL;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_CHECK(x->rank == p->spatial + 1 || x->rank == p->spatial + 2, ctx->err, ET_INVALID_ARGUMENT,
           "%s: input has rank %d, needs %zu or %zu", p->op, (int)x->rank, p->spatial + 1,
           p->spatial + 2);
  ET_CHECK(eti_dtype_in((et_dtype)x->dtype, ET_TYPES_REAL_HALF), ctx->err, ET_NOT_SUPPORTED,
           "%s: dtype %s is not supported", p->op, et_dtype_name((et_dtype)x->dtype));
  p->x = x;
  p->lead = x->rank - p->spatial;
  p->is_float = eti_is_float((et_dtype)x->dtype);
  for (size_t d = 0; d < 3; d++) {
    p->in[d] = d + p->spatial < 3 ? 1 : x->sizes[p->lead + d + p->spatial - 3];
    p->size[d] = p->kernel[d] = 1;
    ET_CHECK(p->in[d] > 0, ctx->err, ET_INVALID_ARGUMENT,
             "%s: input has an empty spatial dimension", p->op);
  }
  return ET_OK;
}

static et_status run_pool(const et_kernel_ctx *ctx, et_value *const *args, size_t i_out,
                          window_pool *p) {
  et_tensor *outs[2] = {NULL, NULL};
  eti_shape shape = {.rank = p->lead + p->spatial};
  for (size_t d = 0; d < p->lead; d++) shape.sizes[d] = p->x->sizes[d];
  for (size_t d = 0; d < p->spatial; d++)
    shape.sizes[p->lead + d] = (int32_t)p->size[3 - p->spatial + d];
  for (size_t i = 0; i < 2; i++) {
    ET_TRY(eti_arg_tensor(ctx, args, i_out + i, &outs[i]));
    ET_CHECK(outs[i] != p->x && outs[i]->dtype == (i == 0 ? p->x->dtype : ET_I64), ctx->err,
             ET_INVALID_ARGUMENT, "%s: output %zu is %s or is the input, needs %s", p->op, i,
             et_dtype_name((et_dtype)outs[i]->dtype),
             et_dtype_name(i == 0 ? (et_dtype)p->x->dtype : ET_I64));
    ET_TRY(eti_resize(ctx, outs[i], &shape));
  }
  p->out = outs[0];
  p->indices = outs[1];
  if (p->out->numel == 0) return ET_OK;
  const size_t rows = p->out->numel / (size_t)p->size[2];
  et_parallel_for(ctx->pool, pool_rows, p, rows, 1 + rows / (1 + p->x->numel / 16384));
  return ET_OK;
}

// (self, output_size, out, indices)
static et_status adaptive(const et_kernel_ctx *ctx, et_value *const *args, size_t spatial,
                          const char *op) {
  window_pool p = {.op = op, .spatial = spatial};
  ET_TRY(read_input(ctx, args, &p));
  ET_TRY(read_list(ctx, args, 1, &p, "output_size", p.size));
  return run_pool(ctx, args, 2, &p);
}

et_status op_adaptive_max_pool2d_out(et_kernel_ctx *ctx, et_value *const *args) {
  return adaptive(ctx, args, 2, "adaptive_max_pool2d");
}
et_status op_adaptive_max_pool3d_out(et_kernel_ctx *ctx, et_value *const *args) {
  return adaptive(ctx, args, 3, "adaptive_max_pool3d");
}

// (self, kernel_size, output_size, random_samples, output, indices)
static et_status fractional(const et_kernel_ctx *ctx, et_value *const *args, size_t spatial,
                            const char *op) {
  window_pool p = {.op = op, .spatial = spatial};
  et_tensor *samples = NULL;
  ET_TRY(read_input(ctx, args, &p));
  ET_TRY(read_list(ctx, args, 1, &p, "kernel_size", p.kernel));
  ET_TRY(read_list(ctx, args, 2, &p, "output_size", p.size));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &samples));
  for (size_t d = 3 - spatial; d < 3; d++) {
    ET_CHECK(p.kernel[d] >= 1 && p.size[d] >= 1 && p.size[d] + p.kernel[d] - 1 <= p.in[d], ctx->err,
             ET_INVALID_ARGUMENT, "%s: %lld windows of %lld do not fit into %lld elements", op,
             (long long)p.size[d], (long long)p.kernel[d], (long long)p.in[d]);
  }
  const int32_t images = p.lead == 2 ? p.x->sizes[0] : 1, channels = p.x->sizes[p.lead - 1];
  ET_CHECK(samples->rank == 3 && samples->sizes[0] == images && samples->sizes[1] == channels &&
               samples->sizes[2] == (int32_t)spatial && samples->dtype == p.x->dtype,
           ctx->err, ET_INVALID_ARGUMENT, "%s: random_samples needs %s[%d, %d, %zu]", op,
           et_dtype_name((et_dtype)p.x->dtype), (int)images, (int)channels, spatial);
  p.samples = samples;
  return run_pool(ctx, args, 4, &p);
}

et_status op_fractional_max_pool2d_output(et_kernel_ctx *ctx, et_value *const *args) {
  return fractional(ctx, args, 2, "fractional_max_pool2d");
}
et_status op_fractional_max_pool3d_output(et_kernel_ctx *ctx, et_value *const *args) {
  return fractional(ctx, args, 3, "fractional_max_pool3d");
}
