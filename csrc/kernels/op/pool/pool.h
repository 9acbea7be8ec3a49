// pool.h — the geometry of pooling, read once from the arguments, and the inputs of an output's
// window. Pools with fewer dimensions have leading ones of size 1. Relies on et.h and
// micro/pool/row_pool.h. Internal to op/pool*.c.
#ifndef ET_OP_POOL_H
#define ET_OP_POOL_H

#include "kernels/dtype_sets.h"
#include "kernels/micro/pool/row_pool.h"
#include "kernels/lib/shape.h"
#include "runtime/et.h"

typedef struct eti_pool {
  const char *op;  // for messages
  bool is_max;
  bool is_adaptive;  // windows divide the input evenly; stride and padding are ignored
  const et_tensor *x, *out;
  const et_tensor *indices;  // positions of maxima; or NULL
  const et_tensor *samples;  // fractional pools: starts of windows; else NULL
  const eti_row_pool_micro *micro;
  size_t spatial, lead;  // spatial dimensions; those before them (1 or 2)
  int64_t in[3], size[3], kernel[3], stride[3], padding[3], dilation[3];
  ptrdiff_t x_steps[3], out_steps[3], index_steps[3];
  bool ceil_mode, count_padding;
  int64_t divisor;  // 0: the window's
} eti_pool;

// Reads argument 0 as x: its sizes and the loops for its type. `op` and `spatial` are set; windows
// become single elements.
et_status eti_pool_read_input(const et_kernel_ctx *ctx, et_value *const *args, et_dtype_set types,
                              eti_pool *p);
// Reads count_include_pad and divisor_override of means, from argument i on.
et_status eti_pool_read_divisor(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                                eti_pool *p);
// The shape of the outputs, once `size` is known.
eti_shape eti_pool_out_shape(const eti_pool *p);
// Steps of t in elements along the three dimensions.
void eti_pool_take_steps(const eti_pool *p, const et_tensor *t, ptrdiff_t steps[3]);

// The first element of plane i (of images × channels) of t.
static inline ptrdiff_t eti_pool_plane(const eti_pool *p, const et_tensor *t, size_t i) {
  if (p->lead == 1) return (ptrdiff_t)i * t->strides[0];
  const size_t channels = (size_t)t->sizes[1];
  return (ptrdiff_t)(i / channels) * t->strides[0] + (ptrdiff_t)(i % channels) * t->strides[1];
}

// Divides n sums by one divisor.
void eti_pool_divide(const eti_pool *p, int64_t by, char *sums, size_t n);

// Run a pool if the channels of a pixel are adjacent in every tensor, and if planes are small and
// dense (pool_pixels.c). False: pool.c must.
bool eti_pool_pixels_run(const et_kernel_ctx *ctx, eti_pool *p);
bool eti_pool_planes_run(const et_kernel_ctx *ctx, eti_pool *p);

typedef struct eti_pool_window {
  int64_t from, to;  // input positions, clipped to the input; empty when from ≥ to
  int64_t padded;    // positions counted when padding counts
} eti_pool_window;

// The window of output o along dimension d.
static inline eti_pool_window eti_pool_window_of(const eti_pool *p, size_t d, int64_t o) {
  eti_pool_window w;
  if (p->is_adaptive) {
    w.from = o * p->in[d] / p->size[d];
    w.to = ((o + 1) * p->in[d] + p->size[d] - 1) / p->size[d];
    w.padded = w.to - w.from;
    return w;
  }
  const int64_t start = o * p->stride[d] - p->padding[d], edge = p->in[d] + p->padding[d],
                reach = (p->kernel[d] - 1) * p->dilation[d] + 1;
  const int64_t end = start + reach < edge ? start + reach : edge;
  const int64_t taps_before = start < 0 ? (-start + p->dilation[d] - 1) / p->dilation[d] : 0;
  w.from = start + taps_before * p->dilation[d];
  w.to = end < p->in[d] ? end : p->in[d];
  w.padded = end - start;
  return w;
}

// Number of positions of a window that count for its mean.
static inline int64_t eti_pool_counted(const eti_pool *p, const eti_pool_window *w) {
  return p->count_padding ? w->padded : w->to - w->from;
}

#endif  // ET_OP_POOL_H
