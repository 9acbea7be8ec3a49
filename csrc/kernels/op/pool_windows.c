// pool_windows.c — the largest element of windows that do not follow a stride: adaptive_max_pool
// and fractional_max_pool in two and three dimensions, any layout and real type. Each output looks
// at its own window; the last NaN wins, else the first of equal elements, as in ATen. Relies on
// element.h. (Pooling with strides is in pool.c.)
#include "kernels/element.h"
#include "kernels/kernel.h"
#include "kernels/micro/pool.h"
#include "kernels/ops.h"

#include <math.h>

// Fewer-dimensional pools have leading dimensions of size 1.
typedef struct window_pool {
  const char *op;
  const et_tensor *x, *out, *indices, *samples;  // samples NULL: adaptive
  size_t spatial, lead;                          // spatial dimensions; those before them (1 or 2)
  const eti_pool_micro *micro;
  int64_t in[3], size[3], kernel[3];
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

typedef struct span {
  int64_t from, to;
} span;

static span window_of(const window_pool *p, size_t d, size_t plane, int64_t o) {
  if (p->samples == NULL || d + p->spatial < 3)
    return (span){o * p->in[d] / p->size[d], ((o + 1) * p->in[d] + p->size[d] - 1) / p->size[d]};
  // Samples of two dimensions name the width first, those of three the depth.
  const size_t which = p->spatial == 2 ? 2 - d : d;
  const et_tensor *t = p->samples;
  const size_t channels = (size_t)t->sizes[1];
  const ptrdiff_t at = (ptrdiff_t)(plane / channels) * t->strides[0] +
                       (ptrdiff_t)(plane % channels) * t->strides[1] +
                       (ptrdiff_t)which * t->strides[2];
  const int64_t last = p->in[d] - p->kernel[d];
  const int64_t start = fractional_start(p, d, o, eti_load_f64(t, at));
  const int64_t from = start < 0 ? 0 : start > last ? last : start;
  return (span){from, from + p->kernel[d]};
}

// ---- windows of a row of outputs: first down their columns, then along them

enum { ROW = 256 };  // columns, or channels, at a time

typedef struct row_buffers {
  _Alignas(64) char value[ROW * 8];  // the largest so far, in the micro-kernel's type
  _Alignas(64) char cast[ROW * 8];
  int32_t at[ROW];  // and its place in the plane
} row_buffers;

static void start_values(const window_pool *p, int32_t first, size_t n, row_buffers *b) {
  for (size_t i = 0; i < n; i++) b->at[i] = (int32_t)((uint32_t)first + (uint32_t)i);
  eti_pool_start_max(p->micro, b->value, n);
}

// n elements of the input, `step` apart, as neighbours of the micro-kernel's type.
static const void *run_of(const window_pool *p, ptrdiff_t at, ptrdiff_t step, size_t n,
                          row_buffers *b) {
  const ptrdiff_t es = (ptrdiff_t)et_dtype_bytes((et_dtype)p->x->dtype);
  const char *const src = (const char *)p->x->data + at * es;
  if (p->x->dtype == p->micro->dtype && (step == 1 || n == 1)) return src;
  eti_casts[p->x->dtype][p->micro->dtype](b->cast, p->micro->esize, src, step * es, n);
  return b->cast;
}

static int32_t place_of(const window_pool *p, int64_t z, int64_t y, int64_t x) {
  return (int32_t)((z * p->in[1] + y) * p->in[2] + x);
}

// The largest of each of the n columns from x0 on, over the rows of the window.
static void pool_columns(const window_pool *p, ptrdiff_t plane, const span w[3], int64_t x0,
                         size_t n, row_buffers *b) {
  start_values(p, place_of(p, w[0].from, w[1].from, x0), n, b);
  for (int64_t z = w[0].from; z < w[0].to; z++) {
    for (int64_t y = w[1].from; y < w[1].to; y++) {
      const ptrdiff_t row =
          plane + (ptrdiff_t)z * step_of(p, p->x, 0) + (ptrdiff_t)y * step_of(p, p->x, 1);
      const ptrdiff_t step = step_of(p, p->x, 2);
      const void *const x = run_of(p, row + (ptrdiff_t)x0 * step, step, n, b);
      p->micro->max(b->value, b->at, x, 1, place_of(p, z, y, x0), n);
    }
  }
}

// One element and its place; `at` < 0: none yet.
typedef union number {
  double d;
  int64_t i;
} number;

typedef struct largest {
  number value;
  int32_t at;
} largest;

// Takes columns [from, to) of the buffers. A column tells only its own best, so of equal ones the
// smaller place wins here, and of NaNs the larger.
static void fold_columns(const window_pool *p, size_t from, size_t to, const row_buffers *b,
                         largest *best) {
  for (size_t i = from; i < to; i++) {
    const int32_t at = b->at[i];
    bool takes;
    if (p->micro->dtype == ET_I64) {
      const int64_t x = ((const int64_t *)(const void *)b->value)[i];
      takes = best->at < 0 || x > best->value.i || (x == best->value.i && at < best->at);
      if (takes) best->value.i = x;
    } else {
      const double x = p->micro->dtype == ET_F64
                           ? ((const double *)(const void *)b->value)[i]
                           : (double)((const float *)(const void *)b->value)[i];
      const double held = best->value.d;
      const bool is_nan = x != x, held_nan = held != held;
      takes = best->at < 0 || x > held || (x == held && at < best->at) ||
              (is_nan && (!held_nan || at > best->at));
      if (takes) best->value.d = x;
    }
    if (takes) best->at = at;
  }
}

static void store_one(const window_pool *p, size_t plane, const int64_t o[3], const largest *best) {
  ptrdiff_t at = plane_of(p, p->out, plane), index_at = plane_of(p, p->indices, plane);
  for (size_t d = 0; d < 3; d++) {
    at += (ptrdiff_t)o[d] * step_of(p, p->out, d);
    index_at += (ptrdiff_t)o[d] * step_of(p, p->indices, d);
  }
  const bool is_int = p->micro->dtype == ET_I64;
  eti_casts[is_int ? ET_I64 : ET_F64][p->out->dtype](
      eti_element(p->out, at), 0, is_int ? (const void *)&best->value.i : &best->value.d, 0, 1);
  ((int64_t *)p->indices->data)[index_at] = best->at;
}

// One row of outputs. Neighbouring windows share their columns as far as the buffers reach, and
// unless too many lie between them.
static void pool_row(const window_pool *p, size_t plane, int64_t o[3], row_buffers *b) {
  enum { GAP = 16 };
  const ptrdiff_t base = plane_of(p, p->x, plane);
  span w[3];
  for (size_t d = 0; d < 2; d++) w[d] = window_of(p, d, plane, o[d]);
  for (o[2] = 0; o[2] < p->size[2];) {
    const span first = window_of(p, 2, plane, o[2]);
    int64_t last = o[2] + 1, end = first.to;
    for (; last < p->size[2]; last++) {
      const span next = window_of(p, 2, plane, last);
      if (next.from < first.from || next.from > end + GAP || next.to - first.from > ROW) break;
      if (next.to > end) end = next.to;
    }
    largest best = {.at = -1};
    for (int64_t x0 = first.from; x0 < end; x0 += ROW) {  // more than once for one wide window
      const size_t n = end - x0 < ROW ? (size_t)(end - x0) : ROW;
      pool_columns(p, base, w, x0, n, b);
      if (last == o[2] + 1) fold_columns(p, 0, n, b, &best);
    }
    if (last == o[2] + 1) {
      store_one(p, plane, o, &best);
      o[2] = last;
      continue;
    }
    for (; o[2] < last; o[2]++) {
      const span wx = window_of(p, 2, plane, o[2]);
      best.at = -1;
      fold_columns(p, (size_t)(wx.from - first.from), (size_t)(wx.to - first.from), b, &best);
      store_one(p, plane, o, &best);
    }
  }
}

// Items are rows of outputs.
static void pool_rows(void *opaque, size_t begin, size_t end) {
  const window_pool *const p = opaque;
  const size_t rows = (size_t)(p->size[0] * p->size[1]);
  row_buffers b;
  for (size_t u = begin; u < end; u++) {
    int64_t o[3] = {(int64_t)(u % rows) / p->size[1], (int64_t)(u % rows) % p->size[1], 0};
    pool_row(p, u / rows, o, &b);
  }
}

// ---- channels last: the channels of a pixel are the row

static ptrdiff_t pixel_of(const window_pool *p, const et_tensor *t, size_t image,
                          const int64_t o[3], size_t c0) {
  ptrdiff_t at = (ptrdiff_t)image * t->strides[0] + (ptrdiff_t)c0;
  for (size_t d = 0; d < 3; d++) at += (ptrdiff_t)o[d] * step_of(p, t, d);
  return at;
}

static void pool_pixel(const window_pool *p, size_t image, const int64_t o[3], const span w[3],
                       row_buffers *b) {
  const size_t channels = (size_t)p->x->sizes[1];
  const ptrdiff_t es = (ptrdiff_t)et_dtype_bytes((et_dtype)p->out->dtype);
  for (size_t c0 = 0; c0 < channels; c0 += ROW) {
    const size_t n = channels - c0 < ROW ? channels - c0 : ROW;
    int64_t i[3];
    start_values(p, place_of(p, w[0].from, w[1].from, w[2].from), n, b);
    for (i[0] = w[0].from; i[0] < w[0].to; i[0]++) {
      for (i[1] = w[1].from; i[1] < w[1].to; i[1]++) {
        for (i[2] = w[2].from; i[2] < w[2].to; i[2]++) {  // gives channel c the place plus c
          const void *const x = run_of(p, pixel_of(p, p->x, image, i, c0), 1, n, b);
          p->micro->max(b->value, b->at, x, 1, place_of(p, i[0], i[1], i[2]), n);
        }
      }
    }
    eti_casts[p->micro->dtype][p->out->dtype](
        (char *)p->out->data + pixel_of(p, p->out, image, o, c0) * es, es, b->value,
        p->micro->esize, n);
    int64_t *const to = (int64_t *)p->indices->data + pixel_of(p, p->indices, image, o, c0);
    for (size_t c = 0; c < n; c++) to[c] = (int32_t)((uint32_t)b->at[c] - (uint32_t)c);
  }
}

// Items are rows of output pixels: images × depth × height.
static void pool_pixels(void *opaque, size_t begin, size_t end) {
  const window_pool *const p = opaque;
  const size_t rows = (size_t)(p->size[0] * p->size[1]);
  row_buffers b;
  for (size_t u = begin; u < end; u++) {
    int64_t o[3] = {(int64_t)(u % rows) / p->size[1], (int64_t)(u % rows) % p->size[1], 0};
    span w[3] = {window_of(p, 0, 0, o[0]), window_of(p, 1, 0, o[1])};
    for (; o[2] < p->size[2]; o[2]++) {
      w[2] = window_of(p, 2, 0, o[2]);
      pool_pixel(p, u / rows, o, w, &b);
    }
  }
}

// Whether the channels of a pixel are neighbours, in every tensor, and share their windows.
static bool channels_last(const window_pool *p) {
  return p->samples == NULL && p->lead == 2 && p->x->sizes[1] > 1 && p->x->strides[1] == 1 &&
         p->out->strides[1] == 1 && p->indices->strides[1] == 1;
}

// ---- arguments

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
  p->micro = eti_pool_micro_best(x->dtype == ET_F64                    ? ETI_POOL_F64
                                 : eti_is_integral((et_dtype)x->dtype) ? ETI_POOL_I64
                                                                       : ETI_POOL_F32);
  double area = 1.0;
  for (size_t d = 0; d < 3; d++) {
    p->in[d] = d + p->spatial < 3 ? 1 : x->sizes[p->lead + d + p->spatial - 3];
    p->size[d] = p->kernel[d] = 1;
    ET_CHECK(p->in[d] > 0, ctx->err, ET_INVALID_ARGUMENT,
             "%s: input has an empty spatial dimension", p->op);
    area *= (double)p->in[d];
  }
  ET_CHECK(area <= (double)INT32_MAX, ctx->err, ET_NOT_SUPPORTED,
           "%s: a plane has more than 2^31 elements", p->op);
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
  if (channels_last(p)) {
    const size_t items = (size_t)p->x->sizes[0] * (size_t)(p->size[0] * p->size[1]);
    et_parallel_for(ctx->pool, pool_pixels, p, items, 1 + items / (1 + p->x->numel / 16384));
    return ET_OK;
  }
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
