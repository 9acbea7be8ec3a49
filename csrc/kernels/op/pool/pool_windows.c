// pool_windows.c — maxima of windows without a fixed stride: adaptive_max_pool and
// fractional_max_pool in two and three dimensions, any layout and real type. Each output reads its
// own window; the last NaN wins, else the first of equal elements, as in ATen. Relies on element.h.
// (Pooling with strides is in pool.c.)
#include "kernels/lib/element.h"
#include "kernels/kernel.h"
#include "kernels/is_nan.h"
#include "kernels/op/pool/pool.h"
#include "kernels/ops.h"

#include <math.h>

// First index of output o's window, when windows of one size are spread with a random shift.
// Computed in f32 unless the images are f64, as in torch: another rounding gives another window.
static int64_t fractional_start(const eti_pool *p, size_t d, int64_t o, double shift) {
  const int64_t room = p->in[d] - p->kernel[d];
  if (o == p->size[d] - 1) return room;
  if (p->x->dtype == ET_F64) {
    const double step = (double)room / (double)(p->size[d] - 1);
    return (int64_t)(((double)o + shift) * step) - (int64_t)(shift * step);
  }
  const float s = (float)shift, step = (float)room / (float)(p->size[d] - 1);
  return (int64_t)(((float)o + s) * step) - (int64_t)(s * step);
}

static eti_pool_window window_of(const eti_pool *p, size_t d, size_t plane, int64_t o) {
  if (p->is_adaptive || d + p->spatial < 3) return eti_pool_window_of(p, d, o);
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
  return (eti_pool_window){.from = from, .to = from + p->kernel[d]};
}

// ---- windows of a row of outputs: first down their columns, then along them

enum { ROW = ETI_ON_STACK(256, 48) };  // columns, or channels, at a time

typedef struct row_buffers {
  _Alignas(64) char value[ROW * 8];  // the maximum so far, in the micro-kernel's type
  _Alignas(64) char cast[ROW * 8];
  int32_t at[ROW];  // and its position in the plane
} row_buffers;

static void start_values(const eti_pool *p, int32_t first, size_t n, row_buffers *b) {
  for (size_t i = 0; i < n; i++) b->at[i] = (int32_t)((uint32_t)first + (uint32_t)i);
  eti_row_pool_start_max(p->micro, b->value, n);
}

// Reads n elements of the input, `step` apart, as adjacent ones of the micro-kernel's type.
static const void *run_of(const eti_pool *p, ptrdiff_t at, ptrdiff_t step, size_t n,
                          row_buffers *b) {
  const ptrdiff_t es = (ptrdiff_t)et_dtype_bytes((et_dtype)p->x->dtype);
  const char *const src = (const char *)p->x->data + at * es;
  if (p->x->dtype == p->micro->dtype && (step == 1 || n == 1)) return src;
  eti_casts[p->x->dtype][p->micro->dtype](b->cast, p->micro->esize, src, step * es, n);
  return b->cast;
}

static int32_t place_of(const eti_pool *p, int64_t z, int64_t y, int64_t x) {
  return (int32_t)((z * p->in[1] + y) * p->in[2] + x);
}

// Maximum of each of the n columns from x0 on, over the rows of the window.
static void pool_columns(const eti_pool *p, ptrdiff_t plane, const eti_pool_window w[3], int64_t x0,
                         size_t n, row_buffers *b) {
  start_values(p, place_of(p, w[0].from, w[1].from, x0), n, b);
  for (int64_t z = w[0].from; z < w[0].to; z++) {
    for (int64_t y = w[1].from; y < w[1].to; y++) {
      const ptrdiff_t row = plane + (ptrdiff_t)z * p->x_steps[0] + (ptrdiff_t)y * p->x_steps[1];
      const ptrdiff_t step = p->x_steps[2];
      const void *const x = run_of(p, row + (ptrdiff_t)x0 * step, step, n, b);
      p->micro->max(b->value, b->at, x, 1, place_of(p, z, y, x0), n);
    }
  }
}

// One element and its position; `at` < 0: none yet.
typedef union number {
  double d;
  int64_t i;
} number;

typedef struct largest {
  number value;
  int32_t at;
} largest;

// Compares columns [from, to) of the buffers with the best. A column has only its own maximum, so
// of equal ones the smaller position wins here, and of NaNs the larger.
static void fold_columns(const eti_pool *p, size_t from, size_t to, const row_buffers *b,
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

static void store_one(const eti_pool *p, size_t plane, const int64_t o[3], const largest *best) {
  ptrdiff_t at = eti_pool_plane(p, p->out, plane), index_at = eti_pool_plane(p, p->indices, plane);
  for (size_t d = 0; d < 3; d++) {
    at += (ptrdiff_t)o[d] * p->out_steps[d];
    index_at += (ptrdiff_t)o[d] * p->index_steps[d];
  }
  const bool is_int = p->micro->dtype == ET_I64;
  eti_casts[is_int ? ET_I64 : ET_F64][p->out->dtype](
      eti_element(p->out, at), 0, is_int ? (const void *)&best->value.i : &best->value.d, 0, 1);
  ((int64_t *)p->indices->data)[index_at] = best->at;
}

// Computes one row of outputs. Neighbouring windows share columns if the buffers are large enough
// and the windows are close.
static void pool_row(const eti_pool *p, size_t plane, int64_t o[3], row_buffers *b) {
  enum { GAP = 16 };
  const ptrdiff_t base = eti_pool_plane(p, p->x, plane);
  eti_pool_window w[3];
  for (size_t d = 0; d < 2; d++) w[d] = window_of(p, d, plane, o[d]);
  for (o[2] = 0; o[2] < p->size[2];) {
    const eti_pool_window first = window_of(p, 2, plane, o[2]);
    int64_t last = o[2] + 1, end = first.to;
    for (; last < p->size[2]; last++) {
      const eti_pool_window next = window_of(p, 2, plane, last);
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
      const eti_pool_window wx = window_of(p, 2, plane, o[2]);
      best.at = -1;
      fold_columns(p, (size_t)(wx.from - first.from), (size_t)(wx.to - first.from), b, &best);
      store_one(p, plane, o, &best);
    }
  }
}

// ---- small windows of one size, computed one by one

// A row of outputs; steps in elements.
typedef struct window_row {
  const void *x;  // the plane
  void *out;
  int64_t *at;
  const int64_t *in;  // sizes of the plane
  eti_pool_window w[2];
  int64_t width;
  const ptrdiff_t *steps;
  ptrdiff_t out_step, at_step;
} window_row;

#define T float
#define SUFFIX f32
#include "kernels/op/pool/pool_fraction.body.h"
#define T double
#define SUFFIX f64
#include "kernels/op/pool/pool_fraction.body.h"
#define T int64_t
#define SUFFIX i64
#include "kernels/op/pool/pool_fraction.body.h"

typedef void (*small_windows_fn)(const window_row *r, const int32_t *starts, size_t n);
static const small_windows_fn small_windows[ET_DTYPE_COUNT] = {
    [ET_F32] = ETI_BUILT(ET_F32, small_windows_f32),
    [ET_F64] = ETI_BUILT(ET_F64, small_windows_f64),
    [ET_I64] = ETI_BUILT(ET_I64, small_windows_i64),
};

static bool has_small_windows(const eti_pool *p) {
  enum { SMALL = 32 };  // elements; rows of larger windows share their columns
  return !p->is_adaptive && p->size[2] <= ROW && small_windows[p->x->dtype] != NULL &&
         p->kernel[0] <= SMALL && p->kernel[1] <= SMALL && p->kernel[2] <= SMALL &&
         p->kernel[0] * p->kernel[1] * p->kernel[2] <= SMALL;
}

// Each item is a row of outputs; those of a plane begin at the same columns.
static void pool_small(void *opaque, size_t begin, size_t end) {
  const eti_pool *const p = opaque;
  const size_t rows = (size_t)(p->size[0] * p->size[1]);
  int32_t starts[ROW];
  size_t plane = SIZE_MAX;
  for (size_t u = begin; u < end; u++) {
    const int64_t z = (int64_t)(u % rows) / p->size[1], y = (int64_t)(u % rows) % p->size[1];
    if (u / rows != plane) {
      plane = u / rows;
      for (int64_t o = 0; o < p->size[2]; o++) starts[o] = (int32_t)window_of(p, 2, plane, o).from;
    }
    const ptrdiff_t out = eti_pool_plane(p, p->out, plane) + (ptrdiff_t)z * p->out_steps[0] +
                          (ptrdiff_t)y * p->out_steps[1];
    const ptrdiff_t at = eti_pool_plane(p, p->indices, plane) + (ptrdiff_t)z * p->index_steps[0] +
                         (ptrdiff_t)y * p->index_steps[1];
    const window_row row = {.x = eti_element(p->x, eti_pool_plane(p, p->x, plane)),
                            .out = eti_element(p->out, out),
                            .at = (int64_t *)p->indices->data + at,
                            .in = p->in,
                            .w = {window_of(p, 0, plane, z), window_of(p, 1, plane, y)},
                            .width = p->kernel[2],
                            .steps = p->x_steps,
                            .out_step = p->out_steps[2],
                            .at_step = p->index_steps[2]};
    small_windows[p->x->dtype](&row, starts, (size_t)p->size[2]);
  }
}

// Each item is a row of outputs.
static void pool_rows(void *opaque, size_t begin, size_t end) {
  const eti_pool *const p = opaque;
  const size_t rows = (size_t)(p->size[0] * p->size[1]);
  row_buffers b;
  for (size_t u = begin; u < end; u++) {
    int64_t o[3] = {(int64_t)(u % rows) / p->size[1], (int64_t)(u % rows) % p->size[1], 0};
    pool_row(p, u / rows, o, &b);
  }
}

// ---- channels last: each row is the channels of a pixel

static ptrdiff_t pixel_of(const et_tensor *t, const ptrdiff_t steps[3], size_t image,
                          const int64_t o[3], size_t c0) {
  ptrdiff_t at = (ptrdiff_t)image * t->strides[0] + (ptrdiff_t)c0;
  for (size_t d = 0; d < 3; d++) at += (ptrdiff_t)o[d] * steps[d];
  return at;
}

static void pool_pixel(const eti_pool *p, size_t image, const int64_t o[3],
                       const eti_pool_window w[3], row_buffers *b) {
  const size_t channels = (size_t)p->x->sizes[1];
  const ptrdiff_t es = (ptrdiff_t)et_dtype_bytes((et_dtype)p->out->dtype);
  for (size_t c0 = 0; c0 < channels; c0 += ROW) {
    const size_t n = channels - c0 < ROW ? channels - c0 : ROW;
    int64_t i[3];
    start_values(p, place_of(p, w[0].from, w[1].from, w[2].from), n, b);
    for (i[0] = w[0].from; i[0] < w[0].to; i[0]++) {
      for (i[1] = w[1].from; i[1] < w[1].to; i[1]++) {
        for (i[2] = w[2].from; i[2] < w[2].to; i[2]++) {  // channel c has the position plus c
          const void *const x = run_of(p, pixel_of(p->x, p->x_steps, image, i, c0), 1, n, b);
          p->micro->max(b->value, b->at, x, 1, place_of(p, i[0], i[1], i[2]), n);
        }
      }
    }
    eti_casts[p->micro->dtype][p->out->dtype](
        (char *)p->out->data + pixel_of(p->out, p->out_steps, image, o, c0) * es, es, b->value,
        p->micro->esize, n);
    int64_t *const to =
        (int64_t *)p->indices->data + pixel_of(p->indices, p->index_steps, image, o, c0);
    for (size_t c = 0; c < n; c++) to[c] = (int32_t)((uint32_t)b->at[c] - (uint32_t)c);
  }
}

// Each item is a row of output pixels: images × depth × height.
static void pool_pixels(void *opaque, size_t begin, size_t end) {
  const eti_pool *const p = opaque;
  const size_t rows = (size_t)(p->size[0] * p->size[1]);
  row_buffers b;
  for (size_t u = begin; u < end; u++) {
    int64_t o[3] = {(int64_t)(u % rows) / p->size[1], (int64_t)(u % rows) % p->size[1], 0};
    eti_pool_window w[3] = {window_of(p, 0, 0, o[0]), window_of(p, 1, 0, o[1])};
    for (; o[2] < p->size[2]; o[2]++) {
      w[2] = window_of(p, 2, 0, o[2]);
      pool_pixel(p, u / rows, o, w, &b);
    }
  }
}

// True if the channels of a pixel are adjacent in every tensor, and share their windows.
static bool channels_last(const eti_pool *p) {
  return p->is_adaptive && p->lead == 2 && p->x->sizes[1] > 1 && p->x->strides[1] == 1 &&
         p->out->strides[1] == 1 && p->indices->strides[1] == 1;
}

// ---- arguments

static et_status read_list(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                           const eti_pool *p, const char *what, int64_t out[3]) {
  return eti_arg_spatial(ctx, args, i, p->op, what, p->spatial, 0, false, out);
}

static et_status run_pool(const et_kernel_ctx *ctx, et_value *const *args, size_t i_out,
                          eti_pool *p) {
  et_tensor *outs[2] = {NULL, NULL};
  const eti_shape shape = eti_pool_out_shape(p);
  for (size_t i = 0; i < 2; i++) {
    ET_TRY(eti_arg_tensor(ctx, args, i_out + i, &outs[i]));
    ET_CHECK(outs[i] != p->x && outs[i]->dtype == (i == 0 ? p->x->dtype : ET_I64), ctx->err,
             ET_INVALID_ARGUMENT,
             "%s: output %zu: expected %s, and another tensor than the input, got %s", p->op, i,
             et_dtype_name(i == 0 ? (et_dtype)p->x->dtype : ET_I64),
             et_dtype_name((et_dtype)outs[i]->dtype));
    ET_TRY(eti_resize(ctx, outs[i], &shape));
  }
  p->out = outs[0];
  p->indices = outs[1];
  eti_pool_take_steps(p, p->x, p->x_steps);
  eti_pool_take_steps(p, p->out, p->out_steps);
  eti_pool_take_steps(p, p->indices, p->index_steps);
  if (p->out->numel == 0) return ET_OK;
  if (channels_last(p)) {
    const size_t items = (size_t)p->x->sizes[0] * (size_t)(p->size[0] * p->size[1]);
    et_parallel_for(ctx->pool, pool_pixels, p, items, 1 + items / (1 + p->x->numel / 16384));
    return ET_OK;
  }
  const size_t rows = p->out->numel / (size_t)p->size[2];
  et_parallel_for(ctx->pool, has_small_windows(p) ? pool_small : pool_rows, p, rows,
                  1 + rows / (1 + p->x->numel / 16384));
  return ET_OK;
}

// (self, output_size, out, indices)
static et_status run_adaptive(const et_kernel_ctx *ctx, et_value *const *args, size_t spatial,
                              const char *op) {
  eti_pool p = {.op = op, .is_max = true, .is_adaptive = true, .spatial = spatial};
  ET_TRY(eti_pool_read_input(ctx, args, ET_TYPES_REAL_HALF, &p));
  ET_TRY(read_list(ctx, args, 1, &p, "output_size", p.size));
  return run_pool(ctx, args, 2, &p);
}

et_status op_adaptive_max_pool2d_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_adaptive(ctx, args, 2, "adaptive_max_pool2d");
}
et_status op_adaptive_max_pool3d_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_adaptive(ctx, args, 3, "adaptive_max_pool3d");
}

// (self, kernel_size, output_size, random_samples, output, indices)
static et_status run_fractional(const et_kernel_ctx *ctx, et_value *const *args, size_t spatial,
                                const char *op) {
  eti_pool p = {.op = op, .is_max = true, .spatial = spatial};
  et_tensor *samples = NULL;
  ET_TRY(eti_pool_read_input(ctx, args, ET_TYPES_REAL_HALF, &p));
  ET_TRY(read_list(ctx, args, 1, &p, "kernel_size", p.kernel));
  ET_TRY(read_list(ctx, args, 2, &p, "output_size", p.size));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &samples));
  for (size_t d = 3 - spatial; d < 3; d++) {
    ET_CHECK(p.kernel[d] >= 1 && p.size[d] >= 1 && p.size[d] + p.kernel[d] - 1 <= p.in[d], ctx->err,
             ET_INVALID_ARGUMENT, "%s: %lld windows of %lld do not fit into %lld elements", op,
             (long long)p.size[d], (long long)p.kernel[d], (long long)p.in[d]);
  }
  const int32_t images = p.lead == 2 ? p.x->sizes[0] : 1, channels = p.x->sizes[p.lead - 1];
  char found[ETI_TENSOR_TEXT];
  ET_CHECK(samples->rank == 3 && samples->sizes[0] == images && samples->sizes[1] == channels &&
               samples->sizes[2] == (int32_t)spatial && samples->dtype == p.x->dtype,
           ctx->err, ET_INVALID_ARGUMENT, "%s: random_samples: expected %s[%d, %d, %zu], got %s",
           op, et_dtype_name((et_dtype)p.x->dtype), (int)images, (int)channels, spatial,
           eti_tensor_text(samples, found));
  p.samples = samples;
  return run_pool(ctx, args, 4, &p);
}

et_status op_fractional_max_pool2d_output(et_kernel_ctx *ctx, et_value *const *args) {
  return run_fractional(ctx, args, 2, "fractional_max_pool2d");
}
et_status op_fractional_max_pool3d_output(et_kernel_ctx *ctx, et_value *const *args) {
  return run_fractional(ctx, args, 3, "fractional_max_pool3d");
}
