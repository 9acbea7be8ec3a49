// pool_backward.c — gradients of average pooling: avg_pool2d_backward, avg_pool3d_backward,
// _adaptive_avg_pool2d_backward, _adaptive_avg_pool3d_backward. Each element of the result sums, in
// f64 and in a fixed order, its share of the outputs whose windows hold it; rows of shares are
// added at a time. Relies on element.h. Any layout. In the geometry of pool.h, x is the
// gradient of the outputs and out that of the input.
#include "kernels/lib/element.h"
#include "kernels/kernel.h"
#include "kernels/op/pool/pool.h"
#include "kernels/ops.h"

#include <string.h>

// The outputs whose windows may hold input i.
static void outputs_of(const eti_pool *g, size_t d, int64_t i, int64_t *from, int64_t *to) {
  if (g->is_adaptive) {
    *from = i * g->size[d] / g->in[d];
    *to = ((i + 1) * g->size[d] + g->in[d] - 1) / g->in[d];
  } else {
    const int64_t at = i + g->padding[d];
    *from = at < g->kernel[d] ? 0 : (at - g->kernel[d]) / g->stride[d] + 1;
    *to = at / g->stride[d] + 1;
  }
  if (*to > g->size[d]) *to = g->size[d];
}

enum { ROW = ETI_ON_STACK(256, 40) };  // elements of a row at a time

// Windows along the width of outputs [first, first + n).
typedef struct row_windows {
  int64_t first;
  size_t n;
  int64_t from[ROW], to[ROW], counted[ROW];
} row_windows;

static void find_windows(const eti_pool *g, int64_t first, size_t n, row_windows *w) {
  if (w->first == first && w->n == n) return;
  w->first = first;
  w->n = n;
  for (size_t i = 0; i < n; i++) {
    const eti_pool_window one = eti_pool_window_of(g, 2, first + (int64_t)i);
    w->from[i] = one.from;
    w->to[i] = one.to;
    w->counted[i] = eti_pool_counted(g, &one);
  }
}

// Adds the shares of outputs [x0, x0 + n) of a row of the gradient to inputs [c0, c1). `area` is
// the area of their windows without the width.
static void add_shares(const eti_pool *g, ptrdiff_t row, int64_t area, const row_windows *w,
                       int64_t c0, int64_t c1, double *sums) {
  double share[ROW];
  const ptrdiff_t es = (ptrdiff_t)et_dtype_bytes((et_dtype)g->x->dtype), step = g->x_steps[2];
  eti_casts[g->x->dtype][ET_F64](
      share, sizeof *share, eti_element(g->x, row + (ptrdiff_t)w->first * step), step * es, w->n);
  if (g->divisor != 0) {
    for (size_t j = 0; j < w->n; j++) share[j] /= (double)g->divisor;
  } else {
    for (size_t j = 0; j < w->n; j++) share[j] /= (double)(area * w->counted[j]);
  }
  for (size_t j = 0; j < w->n; j++) {
    const int64_t from = w->from[j] > c0 ? w->from[j] : c0, to = w->to[j] < c1 ? w->to[j] : c1;
    for (int64_t i = from; i < to; i++) sums[i - c0] += share[j];
  }
}

// Sums the shares of inputs [c0, c1) of row (z, y).
static void sum_row(const eti_pool *g, size_t plane, const int64_t i[2], int64_t c0, int64_t c1,
                    row_windows *w, double *sums) {
  int64_t from[3], to[3], ignored;
  for (size_t d = 0; d < 2; d++) outputs_of(g, d, i[d], &from[d], &to[d]);
  outputs_of(g, 2, c0, &from[2], &ignored);
  outputs_of(g, 2, c1 - 1, &ignored, &to[2]);
  memset(sums, 0, (size_t)(c1 - c0) * sizeof *sums);
  for (int64_t z = from[0]; z < to[0]; z++) {
    const eti_pool_window wz = eti_pool_window_of(g, 0, z);
    for (int64_t y = from[1]; y < to[1]; y++) {
      const eti_pool_window wy = eti_pool_window_of(g, 1, y);
      if (i[0] < wz.from || i[0] >= wz.to || i[1] < wy.from || i[1] >= wy.to) continue;
      const ptrdiff_t row = eti_pool_plane(g, g->x, plane) + (ptrdiff_t)z * g->x_steps[0] +
                            (ptrdiff_t)y * g->x_steps[1];
      for (int64_t x = from[2]; x < to[2]; x += ROW) {
        find_windows(g, x, to[2] - x < ROW ? (size_t)(to[2] - x) : ROW, w);
        add_shares(g, row, eti_pool_counted(g, &wz) * eti_pool_counted(g, &wy), w, c0, c1, sums);
      }
    }
  }
}

static void fill_rows(void *opaque, size_t begin, size_t end) {
  const eti_pool *const g = opaque;
  const size_t rows = (size_t)(g->in[0] * g->in[1]);
  const ptrdiff_t es = (ptrdiff_t)et_dtype_bytes((et_dtype)g->out->dtype), step = g->out_steps[2];
  double sums[ROW];
  row_windows w = {.n = 0};
  for (size_t u = begin; u < end; u++) {
    const int64_t i[2] = {(int64_t)(u % rows) / g->in[1], (int64_t)(u % rows) % g->in[1]};
    const ptrdiff_t row = eti_pool_plane(g, g->out, u / rows) + (ptrdiff_t)i[0] * g->out_steps[0] +
                          (ptrdiff_t)i[1] * g->out_steps[1];
    for (int64_t c0 = 0; c0 < g->in[2]; c0 += ROW) {
      const int64_t c1 = g->in[2] - c0 < ROW ? g->in[2] : c0 + ROW;
      sum_row(g, u / rows, i, c0, c1, &w, sums);
      eti_casts[ET_F64][g->out->dtype](eti_element(g->out, row + (ptrdiff_t)c0 * step), step * es,
                                       sums, sizeof *sums, (size_t)(c1 - c0));
    }
  }
}

static et_status read_list(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                           const eti_pool *g, const char *what, int64_t least, int64_t out[3]) {
  const bool is_stride = out == g->stride;  // empty: as the kernel
  return eti_arg_spatial(ctx, args, i, g->op, what, g->spatial, least, is_stride, out);
}

static et_status read_tensors(const et_kernel_ctx *ctx, et_value *const *args, size_t i_out,
                              eti_pool *g) {
  et_tensor *grad = NULL, *x = NULL, *out = NULL;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &grad));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &x));
  ET_TRY(eti_arg_tensor(ctx, args, i_out, &out));
  ET_CHECK((x->rank == g->spatial + 1 || x->rank == g->spatial + 2) && grad->rank == x->rank,
           ctx->err, ET_INVALID_ARGUMENT,
           "%s: expected rank %zu or %zu for both, got input %d and gradient %d", g->op,
           g->spatial + 1, g->spatial + 2, (int)x->rank, (int)grad->rank);
  ET_CHECK(eti_dtype_in((et_dtype)x->dtype, ET_TYPES_FLOAT_HALF) && grad->dtype == x->dtype &&
               out->dtype == x->dtype && out != grad,
           ctx->err, ET_INVALID_ARGUMENT,
           "%s: expected one floating-point type, got input %s, gradient %s, out %s", g->op,
           et_dtype_name((et_dtype)x->dtype), et_dtype_name((et_dtype)grad->dtype),
           et_dtype_name((et_dtype)out->dtype));
  g->lead = x->rank - g->spatial;
  for (size_t d = 0; d < g->lead; d++)
    ET_CHECK(grad->sizes[d] == x->sizes[d], ctx->err, ET_INVALID_ARGUMENT,
             "%s: gradient: dimension %zu: expected size %d, as input, got %d", g->op, d,
             (int)x->sizes[d], (int)grad->sizes[d]);
  for (size_t d = 0; d < 3; d++) {
    const bool there = d + g->spatial >= 3;
    const size_t at = there ? g->lead + d + g->spatial - 3 : 0;
    g->in[d] = there ? x->sizes[at] : 1;
    g->size[d] = there ? grad->sizes[at] : 1;
    g->kernel[d] = g->stride[d] = g->dilation[d] = 1;
    ET_CHECK(g->in[d] > 0 && g->size[d] > 0, ctx->err, ET_INVALID_ARGUMENT,
             "%s: expected spatial dimensions of 1 or more, got 0", g->op);
  }
  ET_TRY(eti_resize_like(ctx, out, x));
  g->x = grad;
  g->out = out;
  eti_pool_take_steps(g, grad, g->x_steps);
  eti_pool_take_steps(g, out, g->out_steps);
  return ET_OK;
}

static et_status run_gradient(const et_kernel_ctx *ctx, eti_pool *g) {
  if (g->out->numel == 0) return ET_OK;
  const size_t width = (size_t)g->in[2];
  et_parallel_for(ctx->pool, fill_rows, g, g->out->numel / width, 1 + 2048 / width);
  return ET_OK;
}

// (grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override,
// grad_input); the gradient's size already includes ceil_mode.
static et_status avg_backward(const et_kernel_ctx *ctx, et_value *const *args, size_t spatial,
                              const char *op) {
  eti_pool g = {.op = op, .spatial = spatial};
  ET_TRY(read_tensors(ctx, args, 8, &g));
  ET_TRY(read_list(ctx, args, 2, &g, "kernel_size", 1, g.kernel));
  for (size_t d = 0; d < 3; d++) g.stride[d] = g.kernel[d];
  ET_TRY(read_list(ctx, args, 3, &g, "stride", 1, g.stride));
  ET_TRY(read_list(ctx, args, 4, &g, "padding", 0, g.padding));
  ET_TRY(eti_pool_read_divisor(ctx, args, 6, &g));
  for (size_t d = 0; d < 3; d++)
    ET_CHECK((g.size[d] - 1) * g.stride[d] < g.in[d] + g.padding[d], ctx->err, ET_INVALID_ARGUMENT,
             "%s: the gradient has more outputs than windows fit", op);
  return run_gradient(ctx, &g);
}

et_status op_avg_pool2d_backward_grad_input(et_kernel_ctx *ctx, et_value *const *args) {
  return avg_backward(ctx, args, 2, "avg_pool2d_backward");
}
et_status op_avg_pool3d_backward_grad_input(et_kernel_ctx *ctx, et_value *const *args) {
  return avg_backward(ctx, args, 3, "avg_pool3d_backward");
}

// (grad_output, self, out)
static et_status adaptive_backward(const et_kernel_ctx *ctx, et_value *const *args, size_t spatial,
                                   const char *op) {
  eti_pool g = {.op = op, .spatial = spatial, .is_adaptive = true};
  ET_TRY(read_tensors(ctx, args, 2, &g));
  return run_gradient(ctx, &g);
}

et_status op_adaptive_avg_pool2d_backward_out(et_kernel_ctx *ctx, et_value *const *args) {
  return adaptive_backward(ctx, args, 2, "_adaptive_avg_pool2d_backward");
}
et_status op_adaptive_avg_pool3d_backward_out(et_kernel_ctx *ctx, et_value *const *args) {
  return adaptive_backward(ctx, args, 3, "_adaptive_avg_pool3d_backward");
}
