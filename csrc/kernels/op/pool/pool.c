// pool.c — max, average and adaptive average pooling in two and three dimensions, any layout and
// real type. A row of outputs is computed tap by tap: each tap of the window is one strided run of
// the input, added to (or compared with) the row so far. Types other than f32, f64 and i64 are cast
// first: half types to f32, integers to i64. Relies on micro/pool/row_pool.h. Knows the windows and
// their borders.
#include "kernels/kernel.h"
#include "kernels/op/pool/pool.h"
#include "kernels/ops.h"

#include <math.h>
#include <string.h>

enum { ROW = ETI_ON_STACK(256, 32) };  // outputs computed at a time

// ---- arguments

// Reads one or `spatial` integers into the last ones of three; an allowed empty list leaves `out`
// unchanged.
static et_status read_list(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                           const eti_pool *p, const char *what, int64_t least, bool may_be_empty,
                           int64_t out[3]) {
  return eti_arg_spatial(ctx, args, i, p->op, what, p->spatial, least, may_be_empty, out);
}

static et_status read_windows(const et_kernel_ctx *ctx, et_value *const *args, eti_pool *p) {
  ET_TRY(read_list(ctx, args, 1, p, "kernel_size", 1, false, p->kernel));
  memcpy(p->stride, p->kernel, sizeof p->stride);
  ET_TRY(read_list(ctx, args, 2, p, "stride", 1, true, p->stride));
  ET_TRY(read_list(ctx, args, 3, p, "padding", 0, false, p->padding));
  if (p->is_max) ET_TRY(read_list(ctx, args, 4, p, "dilation", 1, false, p->dilation));
  ET_TRY(eti_arg_bool(ctx, args, p->is_max ? 5 : 4, &p->ceil_mode));
  double area = 1.0;
  for (size_t d = 0; d < 3; d++) {
    area *= (double)p->in[d] + 2.0 * (double)p->padding[d];
    const int64_t reach = (p->kernel[d] - 1) * p->dilation[d] + 1,
                  padded = p->in[d] + 2 * p->padding[d];
    ET_CHECK(p->padding[d] <= reach / 2, ctx->err, ET_INVALID_ARGUMENT,
             "%s: padding %lld is more than half of the window %lld", p->op,
             (long long)p->padding[d], (long long)reach);
    const int64_t room = padded - reach + (p->ceil_mode ? p->stride[d] - 1 : 0);
    p->size[d] = room < 0 ? 0 : room / p->stride[d] + 1;
    // A window that would start in the right padding is dropped.
    if (p->ceil_mode && (p->size[d] - 1) * p->stride[d] >= p->in[d] + p->padding[d]) p->size[d]--;
    ET_CHECK(p->size[d] >= 1 && p->size[d] <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
             "%s: input size %lld is too small for window %lld with padding %lld", p->op,
             (long long)p->in[d], (long long)reach, (long long)p->padding[d]);
  }
  ET_CHECK(area < 0x1p62, ctx->err, ET_INVALID_ARGUMENT, "%s: window and padding are too large",
           p->op);
  return ET_OK;
}

static et_status resize_output(const et_kernel_ctx *ctx, et_tensor *out, const eti_pool *p) {
  const eti_shape shape = eti_pool_out_shape(p);
  ET_CHECK(out != p->x, ctx->err, ET_INVALID_ARGUMENT, "%s: out is also the input", p->op);
  return eti_resize(ctx, out, &shape);
}

static et_status read_output(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                             eti_pool *p) {
  et_tensor *out;
  ET_TRY(eti_arg_tensor(ctx, args, i, &out));
  ET_CHECK(out->dtype == p->x->dtype, ctx->err, ET_INVALID_ARGUMENT,
           "%s: expected one dtype, got input %s, out %s", p->op,
           et_dtype_name((et_dtype)p->x->dtype), et_dtype_name((et_dtype)out->dtype));
  ET_TRY(resize_output(ctx, out, p));
  p->out = out;
  eti_pool_take_steps(p, p->x, p->x_steps);
  eti_pool_take_steps(p, out, p->out_steps);
  return ET_OK;
}

// ---- rows of outputs

typedef struct row_buffers {
  _Alignas(64) char room[ROW * 8];
  char *value;  // sums or maxima: in a buffer, or in the output
  _Alignas(64) char cast[ROW * 8];
  _Alignas(64) char columns[ROW * 8];   // of an adaptive window: sums down its rows
  int32_t at[ROW], column_at[ROW * 2];  // positions of maxima
} row_buffers;

// Reads elements of one input row at ix, ix + *step …: in place if the micro-kernel can read them,
// else cast to a row, where they are *step apart.
static const void *tap_row(const eti_pool *p, const char *plane, ptrdiff_t row, int64_t ix,
                           size_t n, row_buffers *b, size_t *step) {
  const ptrdiff_t es = (ptrdiff_t)et_dtype_bytes((et_dtype)p->x->dtype);
  const char *src = plane + (row + (ptrdiff_t)ix * p->x_steps[2]) * es;
  if (p->x->dtype == p->micro->dtype && (p->x_steps[2] == 1 || n == 1)) return src;
  const eti_cast_fn cast = eti_casts[p->x->dtype][p->micro->dtype];
  const size_t reach = (n - 1) * *step + 1;
  if (p->x_steps[2] == 1 &&
      reach <= sizeof b->cast / p->micro->esize) {  // with the elements between
    cast(b->cast, p->micro->esize, src, es, reach);
    return b->cast;
  }
  cast(b->cast, p->micro->esize, src, p->x_steps[2] * (ptrdiff_t)*step * es, n);
  *step = 1;
  return b->cast;
}

// Adds or compares all taps of outputs [x0, x0 + n) of one row; iy, iz: input row.
static void run_taps(const eti_pool *p, const char *plane, int64_t iz, int64_t iy, int64_t x0,
                     size_t n, row_buffers *b) {
  const ptrdiff_t row = (ptrdiff_t)iz * p->x_steps[0] + (ptrdiff_t)iy * p->x_steps[1];
  const int64_t s = p->stride[2];
  // Skips taps that touch no input for any output: windows may be far larger than it.
  const int64_t least = p->padding[2] - (x0 + (int64_t)n - 1) * s,
                most = p->in[2] - 1 + p->padding[2] - x0 * s;
  int64_t k = least <= 0 ? 0 : (least + p->dilation[2] - 1) / p->dilation[2];
  for (; k < p->kernel[2] && k * p->dilation[2] <= most; k++) {
    const int64_t shift = k * p->dilation[2] - p->padding[2];
    int64_t lo = shift >= 0 ? 0 : (-shift + s - 1) / s,
            hi = p->in[2] - 1 - shift < 0 ? 0 : (p->in[2] - 1 - shift) / s + 1;
    if (lo < x0) lo = x0;
    if (hi > x0 + (int64_t)n) hi = x0 + (int64_t)n;
    if (lo >= hi) continue;
    const size_t at = (size_t)(lo - x0), count = (size_t)(hi - lo);
    const int64_t ix = lo * s + shift;
    size_t step = (size_t)s;
    const void *x = tap_row(p, plane, row, ix, count, b, &step);
    if (!p->is_max) {
      p->micro->add(b->value + at * p->micro->esize, x, step, count);
    } else if (step == (size_t)s) {
      p->micro->max(b->value + at * p->micro->esize, b->at + at, x, step,
                    (int32_t)((iz * p->in[1] + iy) * p->in[2] + ix), count);
    } else {  // the row was cast together: positions still go in strides
      for (size_t i = 0; i < count; i++) {
        const int32_t first = (int32_t)((iz * p->in[1] + iy) * p->in[2] + ix + (int64_t)i * s);
        p->micro->max(b->value + (at + i) * p->micro->esize, b->at + at + i,
                      (const char *)x + i * p->micro->esize, 1, first, 1);
      }
    }
  }
}

static void start_values(const eti_pool *p, size_t n, row_buffers *b) {
  if (!p->is_max) {
    memset(b->value, 0, n * p->micro->esize);
    return;
  }
  eti_row_pool_start_max(p->micro, b->value, n);
}

// True if maxima are found first down the columns of a row of windows: neighbouring windows share
// columns, which are adjacent for any stride.
static bool shares_columns(const eti_pool *p) {
  return p->is_max && p->kernel[2] > 1 && p->kernel[2] <= ROW / 2 && p->dilation[2] == 1 &&
         p->stride[2] < p->kernel[2] && p->kernel[0] * p->kernel[1] > 1;
}

// Number of input columns that fit the buffers.
static int64_t columns_at_once(const eti_pool *p) {
  return p->micro->esize == 4 ? 2 * ROW : ROW;
}

// Computes outputs [x0, x0 + n) of a row of windows: the maximum of each column, then of their
// columns.
static void run_columns(const eti_pool *p, const char *plane, const eti_pool_window *wz,
                        const eti_pool_window *wy, int64_t x0, size_t n, row_buffers *b) {
  const int64_t s = p->stride[2], pad = p->padding[2], last = x0 + (int64_t)n - 1;
  const int64_t from = x0 * s < pad ? 0 : x0 * s - pad;
  const int64_t reach = last * s - pad + p->kernel[2], to = reach < p->in[2] ? reach : p->in[2];
  if (from >= to) return;
  const size_t count = (size_t)(to - from);
  char *const value = b->value;
  b->value = b->columns;
  start_values(p, count, b);
  b->value = value;
  const int32_t corner = (int32_t)((wz->from * p->in[1] + wy->from) * p->in[2] + from);
  for (size_t i = 0; i < count; i++) b->column_at[i] = corner + (int32_t)i;
  for (int64_t iz = wz->from; iz < wz->to; iz += p->dilation[0]) {
    for (int64_t iy = wy->from; iy < wy->to; iy += p->dilation[1]) {
      const ptrdiff_t row = (ptrdiff_t)iz * p->x_steps[0] + (ptrdiff_t)iy * p->x_steps[1];
      size_t step = 1;
      const void *const x = tap_row(p, plane, row, from, count, b, &step);
      p->micro->max(b->columns, b->column_at, x, 1,
                    (int32_t)((iz * p->in[1] + iy) * p->in[2] + from), count);
    }
  }
  for (int64_t k = 0; k < p->kernel[2]; k++) {  // outputs whose column k exists
    const int64_t shift = k - pad;
    int64_t lo = shift >= 0 ? 0 : (-shift + s - 1) / s,
            hi = p->in[2] - 1 - shift < 0 ? 0 : (p->in[2] - 1 - shift) / s + 1;
    if (lo < x0) lo = x0;
    if (hi > last + 1) hi = last + 1;
    if (lo >= hi) continue;
    const size_t column = (size_t)(lo * s + shift - from), at = (size_t)(lo - x0);
    p->micro->merge(b->value + at * p->micro->esize, b->at + at,
                    b->columns + column * p->micro->esize, b->column_at + column, (size_t)s,
                    (size_t)(hi - lo));
  }
}

// Adaptive windows have their own size per output: their rows are summed column by column, once for
// all outputs of the row, then their columns.
static void run_adaptive(const eti_pool *p, const char *plane, const eti_pool_window *wz,
                         const eti_pool_window *wy, int64_t x0, size_t n, row_buffers *b) {
  const size_t es = p->micro->esize;
  const int64_t from = eti_pool_window_of(p, 2, x0).from,
                to = eti_pool_window_of(p, 2, x0 + (int64_t)n - 1).to;
  for (int64_t c0 = from; c0 < to; c0 += ROW) {
    const int64_t c1 = to - c0 < ROW ? to : c0 + ROW;
    memset(b->columns, 0, (size_t)(c1 - c0) * es);
    for (int64_t iz = wz->from; iz < wz->to; iz++) {
      for (int64_t iy = wy->from; iy < wy->to; iy++) {
        const ptrdiff_t row = (ptrdiff_t)iz * p->x_steps[0] + (ptrdiff_t)iy * p->x_steps[1];
        size_t step = 1;
        const void *const x = tap_row(p, plane, row, c0, (size_t)(c1 - c0), b, &step);
        p->micro->add(b->columns, x, step, (size_t)(c1 - c0));
      }
    }
    for (size_t i = 0; i < n; i++) {
      const eti_pool_window w = eti_pool_window_of(p, 2, x0 + (int64_t)i);
      const int64_t lo = w.from > c0 ? w.from : c0, hi = w.to < c1 ? w.to : c1;
      if (lo >= hi) continue;
      p->micro->fold(b->value + i * es, b->columns + (size_t)(lo - c0) * es, (size_t)(hi - lo));
    }
  }
}

static void start_row(const eti_pool *p, const eti_pool_window *wz, const eti_pool_window *wy,
                      int64_t x0, size_t n, row_buffers *b) {
  start_values(p, n, b);
  for (size_t i = 0; i < n && p->is_max; i++) {
    const eti_pool_window wx = eti_pool_window_of(p, 2, x0 + (int64_t)i);
    b->at[i] = (int32_t)((wz->from * p->in[1] + wy->from) * p->in[2] + wx.from);
  }
}

static int64_t divisor_of(const eti_pool *p, const eti_pool_window *wz, const eti_pool_window *wy,
                          int64_t x) {
  if (p->divisor != 0) return p->divisor;
  const eti_pool_window wx = eti_pool_window_of(p, 2, x);
  return eti_pool_counted(p, wz) * eti_pool_counted(p, wy) * eti_pool_counted(p, &wx);
}

static void divide_row(const eti_pool *p, const eti_pool_window *wz, const eti_pool_window *wy,
                       int64_t x0, size_t n, row_buffers *b) {
  for (size_t i = 0; i < n; i++) {
    const int64_t by = divisor_of(p, wz, wy, x0 + (int64_t)i);
    if (by != 0)
      eti_pool_divide(p, by, b->value + i * p->micro->esize, 1);  // an empty window: the sum is 0
  }
}

static void store_row(const eti_pool *p, size_t plane, int64_t z, int64_t y, int64_t x, size_t n,
                      row_buffers *b) {
  const ptrdiff_t es = (ptrdiff_t)et_dtype_bytes((et_dtype)p->out->dtype);
  const ptrdiff_t at = eti_pool_plane(p, p->out, plane) + (ptrdiff_t)z * p->out_steps[0] +
                       (ptrdiff_t)y * p->out_steps[1] + (ptrdiff_t)x * p->out_steps[2];
  eti_casts[p->micro->dtype][p->out->dtype]((char *)p->out->data + at * es, p->out_steps[2] * es,
                                            b->value, p->micro->esize, n);
  if (p->indices == NULL) return;
  int64_t *const to = (int64_t *)p->indices->data + eti_pool_plane(p, p->indices, plane) +
                      (ptrdiff_t)z * p->index_steps[0] + (ptrdiff_t)y * p->index_steps[1] +
                      (ptrdiff_t)x * p->index_steps[2];
  for (size_t i = 0; i < n; i++) to[(ptrdiff_t)i * p->index_steps[2]] = b->at[i];
}

static void run_planes(void *ctx, size_t begin, size_t end) {
  const eti_pool *const p = ctx;
  const ptrdiff_t es = (ptrdiff_t)et_dtype_bytes((et_dtype)p->x->dtype);
  const size_t rows = (size_t)(p->size[0] * p->size[1]);
  const bool columns = shares_columns(p);
  const int64_t most = columns && (columns_at_once(p) - p->kernel[2]) / p->stride[2] < ROW
                           ? (columns_at_once(p) - p->kernel[2]) / p->stride[2] + 1
                           : ROW;
  row_buffers b;
  b.value = b.room;
  for (size_t u = begin; u < end; u++) {
    const size_t plane = u / rows;
    const int64_t z = (int64_t)(u % rows) / p->size[1], y = (int64_t)(u % rows) % p->size[1];
    const char *const x = (const char *)p->x->data + eti_pool_plane(p, p->x, plane) * es;
    const eti_pool_window wz = eti_pool_window_of(p, 0, z), wy = eti_pool_window_of(p, 1, y);
    for (int64_t x0 = 0; x0 < p->size[2]; x0 += most) {
      const size_t n = (size_t)(p->size[2] - x0 < most ? p->size[2] - x0 : most);
      start_row(p, &wz, &wy, x0, n, &b);
      const bool by_columns =  // a single window per row has no neighbours
          !p->is_max && (p->is_adaptive || p->size[2] == 1);
      if (by_columns) run_adaptive(p, x, &wz, &wy, x0, n, &b);
      if (columns) run_columns(p, x, &wz, &wy, x0, n, &b);
      for (int64_t iz = wz.from; iz < wz.to && !by_columns && !columns; iz += p->dilation[0]) {
        for (int64_t iy = wy.from; iy < wy.to; iy += p->dilation[1])
          run_taps(p, x, iz, iy, x0, n, &b);
      }
      if (!p->is_max) divide_row(p, &wz, &wy, x0, n, &b);
      store_row(p, plane, z, y, x0, n, &b);
    }
  }
}

static et_status run_pool(const et_kernel_ctx *ctx, eti_pool *p) {
  if (p->out->numel == 0) return ET_OK;
  if (eti_pool_pixels_run(ctx, p) || eti_pool_planes_run(ctx, p)) return ET_OK;
  const double taps = (double)p->kernel[0] * (double)p->kernel[1] * (double)p->kernel[2];
  const size_t work = (size_t)(taps < 1024.0 ? taps : 1024.0) * (size_t)p->size[2] + 1;
  et_parallel_for(ctx->pool, run_planes, p, p->out->numel / (size_t)p->size[2], 1 + 16384 / work);
  return ET_OK;
}

// ---- operators

static et_status max_pool(const et_kernel_ctx *ctx, et_value *const *args, size_t spatial,
                          const char *op) {
  eti_pool p = {.is_max = true, .op = op, .spatial = spatial};
  et_tensor *indices;
  ET_TRY(eti_pool_read_input(ctx, args, ET_TYPES_REAL_HALF, &p));
  ET_TRY(read_windows(ctx, args, &p));
  ET_TRY(eti_arg_tensor(ctx, args, 7, &indices));
  ET_CHECK(indices->dtype == ET_I64, ctx->err, ET_INVALID_ARGUMENT,
           "%s: indices: expected i64, got %s", op, et_dtype_name((et_dtype)indices->dtype));
  ET_TRY(resize_output(ctx, indices, &p));
  ET_TRY(read_output(ctx, args, 6, &p));
  p.indices = indices;
  eti_pool_take_steps(&p, indices, p.index_steps);
  return run_pool(ctx, &p);
}

et_status op_max_pool2d_with_indices_out(et_kernel_ctx *ctx, et_value *const *args) {
  return max_pool(ctx, args, 2, "max_pool2d");
}
et_status op_max_pool3d_with_indices_out(et_kernel_ctx *ctx, et_value *const *args) {
  return max_pool(ctx, args, 3, "max_pool3d");
}

static et_status avg_pool(const et_kernel_ctx *ctx, et_value *const *args, size_t spatial,
                          const char *op) {
  eti_pool p = {.op = op, .spatial = spatial};
  ET_TRY(eti_pool_read_input(ctx, args, ET_TYPES_FLOAT_HALF | ET_DTYPE_BIT(ET_I64), &p));
  ET_TRY(read_windows(ctx, args, &p));
  ET_TRY(eti_pool_read_divisor(ctx, args, 5, &p));
  ET_TRY(read_output(ctx, args, 7, &p));
  return run_pool(ctx, &p);
}

et_status op_avg_pool2d_out(et_kernel_ctx *ctx, et_value *const *args) {
  return avg_pool(ctx, args, 2, "avg_pool2d");
}
et_status op_avg_pool3d_out(et_kernel_ctx *ctx, et_value *const *args) {
  return avg_pool(ctx, args, 3, "avg_pool3d");
}

static et_status adaptive_pool(const et_kernel_ctx *ctx, et_value *const *args, size_t spatial,
                               const char *op) {
  eti_pool p = {.is_adaptive = true, .op = op, .spatial = spatial, .count_padding = true};
  ET_TRY(eti_pool_read_input(ctx, args, ET_TYPES_FLOAT_HALF | ET_DTYPE_BIT(ET_I64), &p));
  ET_TRY(read_list(ctx, args, 1, &p, "output_size", 0, false, p.size));
  ET_TRY(read_output(ctx, args, 2, &p));
  for (size_t d = 0; d < 3; d++)
    p.kernel[d] = p.size[d] > 0 ? 1 + p.in[d] / p.size[d] : 1;  // for the cost estimate
  return run_pool(ctx, &p);
}

et_status op_adaptive_avg_pool2d_out(et_kernel_ctx *ctx, et_value *const *args) {
  return adaptive_pool(ctx, args, 2, "_adaptive_avg_pool2d");
}
et_status op_adaptive_avg_pool3d_out(et_kernel_ctx *ctx, et_value *const *args) {
  return adaptive_pool(ctx, args, 3, "_adaptive_avg_pool3d");
}
