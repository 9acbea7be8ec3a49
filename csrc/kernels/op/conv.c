// conv.c — aten::convolution in one, two and three dimensions: grouped, dilated, transposed, any
// layout. Every convolution is a product per image and group, weights [c_out × K] times patches [K
// × pixels], where K runs over taps (z, y, x), then input channels; patches are gathered block by
// block while the product runs. Two ways to lay it out:
//   by pixel    rows are output channels, columns pixels: images stored plane by plane
//   by channel  rows are pixels, columns output channels: channels-last images, and planes of few
//   pixels
// A transposed convolution runs as several plain ones (conv_phases.c).
// Depthwise convolutions in f32 take a direct way instead (conv_depthwise.c). All ways add
// in the same order: bias, then K ascending, in the chunks of gemm.h. Relies on micro/gemm.h and
// micro/conv.h.
#include "kernels/op/conv.h"

#include "kernels/kernel.h"
#include "kernels/micro/conv.h"
#include "kernels/micro/gemm.h"
#include "kernels/micro/transpose.h"
#include "kernels/ops.h"

#include <string.h>

#define CONV_TYPES ET_TYPES_REAL_HALF

// ---- reading the arguments

// A list of 1 or `spatial` integers, into the last `spatial` of three.
static et_status read_list(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                           size_t spatial, const char *what, int64_t least, int64_t fill,
                           int64_t out[3]) {
  int64_t list[ET_MAX_RANK];
  size_t n = 0;
  ET_TRY(eti_arg_ints(ctx, args, i, list, ET_MAX_RANK, &n));
  ET_CHECK(n == 1 || n == spatial, ctx->err, ET_INVALID_ARGUMENT,
           "convolution: %s has %zu entries, needs 1 or %zu", what, n, spatial);
  for (size_t d = 0; d < 3; d++) out[d] = fill;
  for (size_t d = 0; d < spatial; d++) {
    const int64_t value = list[n == 1 ? 0 : d];
    ET_CHECK(value >= least && value <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
             "convolution: %s[%zu] is %lld, needs at least %lld", what, d, (long long)value,
             (long long)least);
    out[3 - spatial + d] = value;
  }
  return ET_OK;
}

static eti_image image_of(const et_tensor *t, size_t spatial) {
  eti_image im = {
      .data = t->data, .sizes = {1, 1, 1}, .n_step = t->strides[0], .c_step = t->strides[1]};
  for (size_t d = 0; d < spatial; d++) {
    im.sizes[3 - spatial + d] = t->sizes[2 + d];
    im.steps[3 - spatial + d] = t->strides[2 + d];
  }
  return im;
}

static et_status check_types(const et_kernel_ctx *ctx, const et_tensor *x, const et_tensor *w,
                             const et_tensor *bias, const et_tensor *out) {
  ET_CHECK(eti_dtype_in((et_dtype)x->dtype, CONV_TYPES), ctx->err, ET_NOT_SUPPORTED,
           "convolution: dtype %s is not supported", et_dtype_name((et_dtype)x->dtype));
  ET_CHECK(
      x->dtype == w->dtype && x->dtype == out->dtype && (bias == NULL || bias->dtype == x->dtype),
      ctx->err, ET_INVALID_ARGUMENT,
      "convolution: input is %s, weight %s, bias %s, out %s; needs one dtype for all",
      et_dtype_name((et_dtype)x->dtype), et_dtype_name((et_dtype)w->dtype),
      bias == NULL ? "absent" : et_dtype_name((et_dtype)bias->dtype),
      et_dtype_name((et_dtype)out->dtype));
  return ET_OK;
}

static et_status read_channels(const et_kernel_ctx *ctx, const et_tensor *x, const et_tensor *w,
                               const et_tensor *bias, int64_t groups, eti_conv *c) {
  ET_CHECK(groups >= 1 && groups <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
           "convolution: groups is %lld, needs at least 1", (long long)groups);
  const int64_t outer = w->sizes[0], inner = w->sizes[1];
  const int64_t all_in = c->transposed ? outer : inner * groups,
                all_out = c->transposed ? inner * groups : outer;
  ET_CHECK(outer % groups == 0 && all_in == x->sizes[1], ctx->err, ET_INVALID_ARGUMENT,
           "convolution: input has %d channels; weight of %lld x %lld channels and groups %lld "
           "need %lld",
           (int)x->sizes[1], (long long)outer, (long long)inner, (long long)groups,
           (long long)all_in);
  ET_CHECK(all_out <= INT32_MAX && (bias == NULL || (bias->rank == 1 && bias->sizes[0] == all_out)),
           ctx->err, ET_INVALID_ARGUMENT,
           "convolution: bias does not have one entry per output channel (%lld)",
           (long long)all_out);
  c->groups = (size_t)groups;
  c->c_in = (size_t)(all_in / groups);
  c->c_out = (size_t)(all_out / groups);
  const size_t o = c->transposed ? 1 : 0;
  c->w_out_step = w->strides[o];
  c->w_in_step = w->strides[1 - o];
  c->w_group_step = w->strides[0] * (ptrdiff_t)(c->transposed ? c->c_in : c->c_out);
  return ET_OK;
}

static et_status output_shape(const et_kernel_ctx *ctx, const eti_conv *c,
                              const int64_t output_padding[3], size_t spatial, eti_shape *shape) {
  shape->rank = spatial + 2;
  shape->sizes[0] = (int32_t)c->n_images;
  shape->sizes[1] = (int32_t)(c->c_out * c->groups);
  for (size_t d = 3 - spatial; d < 3; d++) {
    const int64_t reach = c->dilation[d] * (c->kernel[d] - 1) + 1, in = c->x.sizes[d];
    int64_t size;
    if (c->transposed) {
      size = (in - 1) * c->stride[d] - 2 * c->padding[d] + reach + output_padding[d];
    } else {
      const int64_t room = in + 2 * c->padding[d] - reach;
      size = room < 0 ? -1 : room / c->stride[d] + 1;
    }
    ET_CHECK(size >= 0 && size <= INT32_MAX && c->kernel[d] > 0 && in >= 0, ctx->err,
             ET_INVALID_ARGUMENT,
             "convolution: input size %lld and kernel size %lld (padding %lld, dilation %lld) give "
             "no valid output size",
             (long long)in, (long long)c->kernel[d], (long long)c->padding[d],
             (long long)c->dilation[d]);
    shape->sizes[2 + d - (3 - spatial)] = (int32_t)size;
  }
  return ET_OK;
}

static et_status read_conv(const et_kernel_ctx *ctx, et_value *const *args, eti_conv *c) {
  et_tensor *x, *w, *bias, *out;
  int64_t groups = 0, output_padding[3];
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &w));
  ET_TRY(eti_arg_optional_tensor(ctx, args, 2, &bias));
  ET_TRY(eti_arg_tensor(ctx, args, 9, &out));
  ET_CHECK(w->rank >= 3 && w->rank <= 5 && x->rank == w->rank, ctx->err, ET_INVALID_ARGUMENT,
           "convolution: input has rank %d and weight %d, needs 3, 4 or 5 for both", (int)x->rank,
           (int)w->rank);
  const size_t spatial = w->rank - 2u;
  ET_TRY(check_types(ctx, x, w, bias, out));
  ET_TRY(read_list(ctx, args, 3, spatial, "stride", 1, 1, c->stride));
  ET_TRY(read_list(ctx, args, 4, spatial, "padding", 0, 0, c->padding));
  ET_TRY(read_list(ctx, args, 5, spatial, "dilation", 1, 1, c->dilation));
  ET_TRY(eti_arg_bool(ctx, args, 6, &c->transposed));
  ET_TRY(read_list(ctx, args, 7, spatial, "output_padding", 0, 0, output_padding));
  ET_TRY(eti_arg_int(ctx, args, 8, &groups));
  ET_TRY(read_channels(ctx, x, w, bias, groups, c));
  c->dtype = (et_dtype)x->dtype;
  c->esize = et_dtype_bytes(c->dtype);
  c->x = image_of(x, spatial);
  c->n_images = (size_t)x->sizes[0];
  c->w = w->data;
  c->bias = bias == NULL ? NULL : bias->data;
  const eti_image kernel = image_of(w, spatial);
  memcpy(c->kernel, kernel.sizes, sizeof c->kernel);
  memcpy(c->w_steps, kernel.steps, sizeof c->w_steps);
  eti_shape shape;
  ET_TRY(output_shape(ctx, c, output_padding, spatial, &shape));
  ET_TRY(eti_resize(ctx, out, &shape));
  c->out = image_of(out, spatial);
  c->n_taps = (size_t)(c->kernel[0] * c->kernel[1] * c->kernel[2]);
  c->k = c->n_taps * c->c_in;
  c->pixels = (size_t)(c->out.sizes[0] * c->out.sizes[1] * c->out.sizes[2]);
  return ET_OK;
}

// ---- layouts

// One step leads from each pixel to the next, row after row.
static bool has_pixel_step(const eti_image *im, ptrdiff_t *step) {
  ptrdiff_t expected = 0;
  bool found = false;
  for (size_t d = 3; d-- > 0;) {
    if (im->sizes[d] == 1) continue;
    if (found && im->steps[d] != expected) return false;
    if (!found) *step = im->steps[d];
    found = true;
    expected = im->steps[d] * (ptrdiff_t)im->sizes[d];
  }
  if (!found) *step = 1;
  return true;
}

// The input read as it lies: no gathering.
static bool is_pointwise(const eti_conv *c) {
  for (size_t d = 0; d < 3; d++) {
    if (c->kernel[d] != 1 || c->stride[d] != 1 || c->padding[d] != 0 ||
        c->out.sizes[d] != c->x.sizes[d])
      return false;
  }
  return true;
}

enum {
  FEW_PIXELS = 64,
  LONG_SEGMENT = 8,  // channels from which reading pixels in place beats packing them
};

static eti_conv_way best_way(const eti_conv *c) {
  const bool by_planes = c->out.c_step != 1 || c->out.steps[2] == 1;
  if (!by_planes || (c->pixels <= FEW_PIXELS && c->c_out >= 16)) return ETI_CONV_BY_CHANNEL;
  return ETI_CONV_BY_PIXEL;
}

// ---- weights into panels

enum { PACK_FLOATS = 4 * 1024 };

// The usual layout, [out][in][taps] without gaps: rows are packed as they lie, a few channels at a
// time, and the values of each tap and channel are then moved to their place. Only whole channels:
// k0 = 0, n_k = k.
static bool pack_dense_weights(const eti_gemm *g, char *dst, size_t width, size_t n,
                               const char *w) {
  const eti_conv *const c = g->ctx;
  const size_t es = g->kernel->esize, taps = c->n_taps, room = PACK_FLOATS * sizeof(float);
  ptrdiff_t step = 1;
  for (size_t d = 3; d-- > 0; step *= (ptrdiff_t)c->kernel[d]) {
    if (c->kernel[d] != 1 && c->w_steps[d] != step) return false;
  }
  const bool is_dense = (c->c_in == 1 || c->w_in_step == step) && c->w_out_step >= 0;
  if (!is_dense || c->dtype != (et_dtype)g->kernel->dtype || width * taps * es > room) return false;
  if (taps == 1) {
    g->kernel->pack_rows(dst, width, w, (size_t)c->w_out_step, n, c->c_in);
    return true;
  }
  _Alignas(64) char rows[PACK_FLOATS * sizeof(float)];
  const size_t at_once = room / (width * taps * es);
  for (size_t channel = 0; channel < c->c_in; channel += at_once) {
    const size_t count = c->c_in - channel < at_once ? c->c_in - channel : at_once;
    g->kernel->pack_rows(rows, width, w + channel * taps * es, (size_t)c->w_out_step, n,
                         count * taps);
    for (size_t t = 0; t < taps; t++) {
      for (size_t i = 0; i < count; i++) {
        memcpy(dst + (t * c->c_in + channel + i) * width * es, rows + (i * taps + t) * width * es,
               width * es);
      }
    }
  }
  return true;
}

static void pack_weights(const eti_gemm *g, void *dst, size_t width, size_t first, size_t n,
                         size_t k0, size_t n_k) {
  const eti_conv *const c = g->ctx;
  const size_t es = g->kernel->esize;
  const eti_cast_fn cast = eti_casts[c->dtype][g->kernel->dtype];
  const char *const w =
      c->w + (ptrdiff_t)(g->job % c->groups) * c->w_group_step * (ptrdiff_t)c->esize;
  if (k0 == 0 && n_k == c->k &&
      pack_dense_weights(g, dst, width, n,
                         w + (ptrdiff_t)first * c->w_out_step * (ptrdiff_t)c->esize)) {
    return;
  }
  for (size_t k = 0; k < n_k && n < width; k++)
    memset((char *)dst + (k * width + n) * es, 0, (width - n) * es);
  for (size_t k = k0; k < k0 + n_k;) {
    const size_t tap = k / c->c_in, channel = k % c->c_in;
    const size_t count = c->c_in - channel < k0 + n_k - k ? c->c_in - channel : k0 + n_k - k;
    const ptrdiff_t x = (ptrdiff_t)(tap % (size_t)c->kernel[2]),
                    zy = (ptrdiff_t)(tap / (size_t)c->kernel[2]);
    const ptrdiff_t y = zy % (ptrdiff_t)c->kernel[1], z = zy / (ptrdiff_t)c->kernel[1];
    const ptrdiff_t at = x * c->w_steps[2] + y * c->w_steps[1] + z * c->w_steps[0] +
                         (ptrdiff_t)channel * c->w_in_step;
    for (size_t i = 0; i < n; i++) {
      const ptrdiff_t from = at + (ptrdiff_t)(first + i) * c->w_out_step;
      cast((char *)dst + ((k - k0) * width + i) * es, (ptrdiff_t)(width * es),
           w + from * (ptrdiff_t)c->esize, c->w_in_step * (ptrdiff_t)c->esize, count);
    }
    k += count;
  }
}

// ---- patches into panels

// Lanes [j, j + n) of the panel rows of channels [channel, channel + count) at one tap.
typedef struct patch {
  const eti_gemm *g;
  const eti_conv *c;
  const eti_conv_micro *micro;
  const char *x;  // this image and group
  char *dst;      // panel row of `channel`
  size_t width, channel, count;
} patch;

static void zero_lanes(const patch *p, size_t j, size_t n) {
  const size_t es = p->g->kernel->esize;
  for (size_t r = 0; r < p->count && n > 0; r++)
    memset(p->dst + (r * p->width + j) * es, 0, n * es);
}

// n pixels from element `at` on, `step` apart.
static void copy_lanes(const patch *p, size_t j, size_t n, ptrdiff_t at, ptrdiff_t step) {
  const size_t es = p->g->kernel->esize;
  const ptrdiff_t src_es = (ptrdiff_t)p->c->esize, c_step = p->c->x.c_step;
  const char *src = p->x + (at + (ptrdiff_t)p->channel * c_step) * src_es;
  char *dst = p->dst + j * es;
  if (n == 0) return;
  if (p->c->dtype == ET_F32 && step >= 1 && c_step != 1) {
    p->micro->copy_rows((float *)(void *)dst, p->width, (const float *)(const void *)src, c_step,
                        (size_t)step, p->count, n);
  } else if (p->c->dtype == p->g->kernel->dtype && c_step == 1 && p->count > 1) {
    eti_transpose(dst, (ptrdiff_t)(p->width * es), src, step * src_es, n, p->count, es);
  } else {
    const eti_cast_fn cast = eti_casts[p->c->dtype][p->g->kernel->dtype];
    for (size_t r = 0; r < p->count; r++) {
      cast(dst + r * p->width * es, (ptrdiff_t)es, src + (ptrdiff_t)r * c_step * src_es,
           step * src_es, n);
    }
  }
}

// Where tap `t` of output position `o` falls in dimension d, or -1 when it is padding.
static int64_t source_of(const eti_conv *c, size_t d, int64_t o, int64_t t) {
  const int64_t i = o * c->stride[d] - c->padding[d] + t * c->dilation[d];
  return i >= 0 && i < c->x.sizes[d] ? i : -1;
}

// Of outputs [o, o + n) in the innermost dimension, the subrange [*from, *to) whose tap t lies
// inside the input.
static void inside(const eti_conv *c, int64_t o, int64_t n, int64_t t, int64_t *from, int64_t *to) {
  const int64_t s = c->stride[2], shift = t * c->dilation[2] - c->padding[2];  // i = o·s + shift
  int64_t lo = shift >= 0 ? 0 : (-shift + s - 1) / s;                          // least o with i ≥ 0
  const int64_t room = c->x.sizes[2] - 1 - shift;
  int64_t hi = room < 0 ? 0 : room / s + 1;  // first o with i ≥ size
  lo = lo < o ? o : lo > o + n ? o + n : lo;
  hi = hi < lo ? lo : hi > o + n ? o + n : hi;
  *from = lo - o;
  *to = hi - o;
}

// One tap of n output pixels that lie side by side in one row.
static void gather_row(const patch *p, const int64_t o[3], size_t j, size_t n,
                       const int64_t tap[3]) {
  const eti_conv *const c = p->c;
  const eti_image *const x = &c->x;
  const int64_t z = source_of(c, 0, o[0], tap[0]), y = source_of(c, 1, o[1], tap[1]);
  if (z < 0 || y < 0) {
    zero_lanes(p, j, n);
    return;
  }
  const ptrdiff_t row = (ptrdiff_t)z * x->steps[0] + (ptrdiff_t)y * x->steps[1];
  int64_t from, to;
  inside(c, o[2], (int64_t)n, tap[2], &from, &to);
  const ptrdiff_t step = (ptrdiff_t)c->stride[2] * x->steps[2];
  const int64_t first = (o[2] + from) * c->stride[2] - c->padding[2] + tap[2] * c->dilation[2];
  zero_lanes(p, j, (size_t)from);
  copy_lanes(p, j + (size_t)from, (size_t)(to - from), row + (ptrdiff_t)first * x->steps[2], step);
  zero_lanes(p, j + (size_t)to, n - (size_t)to);
}

static void gather_pixels(patch *p, size_t first, size_t n, const int64_t tap[3]) {
  const int64_t *const out = p->c->out.sizes;
  for (size_t j = 0; j < n;) {
    const int64_t pixel = (int64_t)(first + j), rows = pixel / out[2];
    const int64_t o[3] = {rows / out[1], rows % out[1], pixel % out[2]};
    const size_t left = (size_t)(out[2] - o[2]), count = left < n - j ? left : n - j;
    gather_row(p, o, j, count, tap);
    j += count;
  }
  zero_lanes(p, n, p->width - n);
}

// Values of k that lie side by side in memory for a pixel inside the image: its channels at one
// tap, or at all taps of a row of the kernel.
static size_t run_of_k(const eti_conv *c) {
  const bool joins = c->x.c_step == 1 && c->dilation[2] == 1 &&
                     (c->x.steps[2] == (ptrdiff_t)c->c_in || c->kernel[2] == 1);
  return joins ? c->c_in * (size_t)c->kernel[2] : c->c_in;
}

// A panel of pixels of one row whose taps are all inside sideways: runs of k are packed like rows
// of a matrix. False where that does not hold.
static bool pack_inner_pixels(const eti_gemm *g, const char *x, char *dst, size_t width,
                              size_t first, size_t n, size_t k0, size_t n_k) {
  const eti_conv *const c = g->ctx;
  const size_t es = g->kernel->esize, run = run_of_k(c);
  const int64_t *const out = c->out.sizes;
  const int64_t rows = (int64_t)first / out[2], at = (int64_t)first % out[2];
  const int64_t left = at * c->stride[2] - c->padding[2];
  const int64_t right =
      (at + (int64_t)n - 1) * c->stride[2] - c->padding[2] + (c->kernel[2] - 1) * c->dilation[2];
  const ptrdiff_t step = (ptrdiff_t)c->stride[2] * c->x.steps[2];
  if (c->dtype != (et_dtype)g->kernel->dtype || c->x.c_step != 1 || step < 0 || left < 0 ||
      right >= c->x.sizes[2] || at + (int64_t)n > out[2])
    return false;
  for (size_t k = k0, count; k < k0 + n_k; k += count) {
    const size_t tap = k / c->c_in, within = k % run;
    count = run - within < k0 + n_k - k ? run - within : k0 + n_k - k;
    const int64_t zy = (int64_t)tap / c->kernel[2], tx = (int64_t)tap % c->kernel[2];
    const int64_t z = source_of(c, 0, rows / out[1], zy / c->kernel[1]),
                  y = source_of(c, 1, rows % out[1], zy % c->kernel[1]);
    char *const to = dst + (k - k0) * width * es;
    if (z < 0 || y < 0) {
      memset(to, 0, count * width * es);
      continue;
    }
    const ptrdiff_t from = (ptrdiff_t)z * c->x.steps[0] + (ptrdiff_t)y * c->x.steps[1] +
                           (ptrdiff_t)(left + tx * c->dilation[2]) * c->x.steps[2] +
                           (ptrdiff_t)(k % c->c_in);
    g->kernel->pack_rows(to, width, x + from * (ptrdiff_t)es, (size_t)step, n, count);
  }
  return true;
}

static void pack_patches(const eti_gemm *g, void *dst, size_t width, size_t first, size_t n,
                         size_t k0, size_t n_k) {
  const eti_conv *const c = g->ctx;
  const size_t image_index = g->job / c->groups, group = g->job % c->groups;
  const ptrdiff_t at =
      (ptrdiff_t)image_index * c->x.n_step + (ptrdiff_t)(group * c->c_in) * c->x.c_step;
  patch p = {.g = g,
             .c = c,
             .micro = eti_conv_micro_best(),
             .x = c->x.data + at * (ptrdiff_t)c->esize,
             .width = width};
  if (pack_inner_pixels(g, p.x, dst, width, first, n, k0, n_k)) return;
  for (size_t k = k0; k < k0 + n_k; k += p.count) {
    const size_t index = k / c->c_in;
    p.channel = k % c->c_in;
    p.count = c->c_in - p.channel < k0 + n_k - k ? c->c_in - p.channel : k0 + n_k - k;
    p.dst = (char *)dst + (k - k0) * width * g->kernel->esize;
    const int64_t x = (int64_t)index % c->kernel[2], zy = (int64_t)index / c->kernel[2];
    const int64_t tap[3] = {zy / c->kernel[1], zy % c->kernel[1], x};
    gather_pixels(&p, first, n, tap);
  }
}

// Where the channels of n pixels lie, tap by tap; padding points at zeros.
static void point_pixels(const eti_gemm *g, const void **rows, size_t first, size_t n) {
  const eti_conv *const c = g->ctx;
  const eti_image *const x = &c->x;
  const char *const data = x->data + ((ptrdiff_t)(g->job / c->groups) * x->n_step +
                                      (ptrdiff_t)(g->job % c->groups * c->c_in)) *
                                         (ptrdiff_t)c->esize;
  for (size_t i = 0; i < n; i++) {
    const int64_t pixel = (int64_t)(first + i), row = pixel / c->out.sizes[2];
    const int64_t o[3] = {row / c->out.sizes[1], row % c->out.sizes[1], pixel % c->out.sizes[2]};
    const void **at = rows + i;
    for (int64_t tz = 0; tz < c->kernel[0]; tz++) {
      const int64_t z = source_of(c, 0, o[0], tz);
      for (int64_t ty = 0; ty < c->kernel[1]; ty++) {
        const int64_t y = source_of(c, 1, o[1], ty);
        for (int64_t tx = 0; tx < c->kernel[2]; tx++, at += n) {
          const int64_t px = source_of(c, 2, o[2], tx);
          const ptrdiff_t offset =
              (ptrdiff_t)z * x->steps[0] + (ptrdiff_t)y * x->steps[1] + (ptrdiff_t)px * x->steps[2];
          const bool inside = z >= 0 && y >= 0 && px >= 0;
          *at = inside ? data + offset * (ptrdiff_t)c->esize : c->ready.zeros;
        }
      }
    }
  }
}

// ---- bias and output of blocks that cannot lie in place

static void load_bias(const eti_gemm *g, void *tile, size_t step, size_t i, size_t m, size_t j,
                      size_t n) {
  const eti_conv *const c = g->ctx;
  const size_t es = g->kernel->esize;
  const ptrdiff_t src_es = (ptrdiff_t)c->esize;
  const bool by_channel = g->b.pack == pack_weights;
  const size_t first = g->job % c->groups * c->c_out + (by_channel ? j : i);
  const char *const bias = c->bias + (ptrdiff_t)first * src_es;
  for (size_t r = 0; r < m; r++) {
    eti_casts[c->dtype][g->kernel->dtype]((char *)tile + r * step * es, (ptrdiff_t)es,
                                          by_channel ? bias : bias + (ptrdiff_t)r * src_es,
                                          by_channel ? src_es : 0, n);
  }
}

// For outputs without one step between pixels: runs of pixels of one row, or pixel by pixel where
// pixels are the tile's rows.
static void store_pixels(const eti_gemm *g, void *tile, size_t step, size_t i, size_t m, size_t j,
                         size_t n) {
  const eti_conv *const c = g->ctx;
  const eti_image *const out = &c->out;
  const ptrdiff_t es = (ptrdiff_t)g->kernel->esize, out_es = (ptrdiff_t)c->esize;
  const eti_cast_fn cast = eti_casts[g->kernel->dtype][c->dtype];
  const bool by_channel = g->b.pack == pack_weights;
  const size_t first_pixel = by_channel ? i : j, n_pixels = by_channel ? m : n;
  const ptrdiff_t first_channel = (ptrdiff_t)((by_channel ? j : i) + g->job % c->groups * c->c_out);
  char *const image =
      (char *)(uintptr_t)out->data +
      ((ptrdiff_t)(g->job / c->groups) * out->n_step + first_channel * out->c_step) * out_es;
  for (size_t p = 0, count; p < n_pixels; p += count) {
    const int64_t pixel = (int64_t)(first_pixel + p), row = pixel / out->sizes[2];
    const int64_t left = out->sizes[2] - pixel % out->sizes[2];
    const ptrdiff_t at = (ptrdiff_t)(row / out->sizes[1]) * out->steps[0] +
                         (ptrdiff_t)(row % out->sizes[1]) * out->steps[1] +
                         (ptrdiff_t)(pixel % out->sizes[2]) * out->steps[2];
    count = by_channel ? 1 : n_pixels - p < (size_t)left ? n_pixels - p : (size_t)left;
    if (by_channel) {
      cast(image + at * out_es, out->c_step * out_es, (char *)tile + (ptrdiff_t)(p * step) * es, es,
           n);
      continue;
    }
    for (size_t r = 0; r < m; r++) {
      cast(image + (at + (ptrdiff_t)r * out->c_step) * out_es, out->steps[2] * out_es,
           (char *)tile + (ptrdiff_t)(r * step + p) * es, es, count);
    }
  }
}

// ---- the product of one image and group

static void use_patches(const eti_conv *c, eti_gemm *g, bool as_a) {
  ptrdiff_t step;
  const ptrdiff_t at = (ptrdiff_t)(g->job / c->groups) * c->x.n_step +
                       (ptrdiff_t)(g->job % c->groups * c->c_in) * c->x.c_step;
  if (is_pointwise(c) && has_pixel_step(&c->x, &step)) {
    const eti_gemm_view view = {.data = c->x.data + at * (ptrdiff_t)c->esize,
                                .dtype = (uint8_t)c->dtype,
                                .row_step = step,
                                .k_step = c->x.c_step};
    if (as_a) {
      eti_gemm_use_a_view(g, view);
    } else {
      eti_gemm_use_b_view(g, view);
    }
    return;
  }
  *(as_a ? &g->a : &g->b) =
      (eti_gemm_operand){.height = as_a ? g->kernel->mr : g->kernel->nr, .pack = pack_patches};
  if (as_a && c->x.c_step == 1 && c->ready.panels != NULL && c->ready.zeros != NULL && c->k > 0 &&
      c->n_taps <= ETI_GEMM_MAX_SEGMENTS && c->c_in >= LONG_SEGMENT) {
    g->a = (eti_gemm_operand){
        .height = eti_gemm_rows_height(g->kernel, g->m), .point = point_pixels, .segment = c->c_in};
  }
}

static void use_weights(const eti_conv *c, eti_gemm *g, bool as_a) {
  const size_t height = c->ready.panels != NULL ? c->ready.height
                        : as_a                  ? eti_gemm_a_height(g->kernel, c->c_out)
                                                : g->kernel->nr;
  eti_gemm_operand *const o = as_a ? &g->a : &g->b;
  *o = (eti_gemm_operand){
      .height = height, .panel_step = height * c->k, .k_step = height, .pack = pack_weights};
  if (c->ready.panels != NULL) {
    const size_t each = eti_gemm_packed_elements(c->c_out, height, c->k);
    o->data = (const char *)c->ready.panels + g->job % c->groups * each * g->kernel->esize;
  }
}

static void use_output(const eti_conv *c, eti_gemm *g, bool by_channel) {
  ptrdiff_t step = 0;
  const ptrdiff_t at = (ptrdiff_t)(g->job / c->groups) * c->out.n_step +
                       (ptrdiff_t)(g->job % c->groups * c->c_out) * c->out.c_step;
  if (has_pixel_step(&c->out, &step)) {
    eti_gemm_use_c_view(g, (eti_gemm_view){
                               .data = c->out.data + at * (ptrdiff_t)c->esize,
                               .dtype = (uint8_t)c->dtype,
                               .row_step = by_channel ? step : c->out.c_step,
                               .k_step = by_channel ? c->out.c_step : step,
                           });
  } else {
    g->c = NULL;
    g->store = store_pixels;
  }
  g->init = ETI_GEMM_ZERO;
  if (c->bias != NULL && c->dtype == (et_dtype)g->kernel->dtype) {
    g->init = by_channel ? ETI_GEMM_COLS : ETI_GEMM_ROWS;
    g->bias = c->bias + g->job % c->groups * c->c_out * c->esize;
  } else if (c->bias != NULL) {
    g->c = NULL;
    g->init = ETI_GEMM_KEEP;
    g->load = load_bias;
  }
}

static void describe_job(const void *ctx, size_t i, eti_gemm *g) {
  const eti_conv *const c = ctx;
  const bool by_channel = c->ready.way == ETI_CONV_BY_CHANNEL;
  (void)i;  // g->job
  use_weights(c, g, !by_channel);
  use_patches(c, g, by_channel);
  if (by_channel) eti_gemm_prefer_rows(g);
  use_output(c, g, by_channel);
}

// For pack_weights, which asks for the group alone.
static void describe_weights(const void *ctx, size_t i, eti_gemm *g) {
  (void)ctx, (void)i, (void)g;
}

static eti_acc acc_of(et_dtype dtype) {
  if (eti_dtype_in(dtype, ET_TYPES_INT)) return dtype == ET_I64 ? ETI_ACC_I64 : ETI_ACC_I32;
  return dtype == ET_F64 ? ETI_ACC_F64 : ETI_ACC_F32;
}

static eti_gemm shape_of(const eti_conv *c) {
  const bool by_channel = c->ready.way == ETI_CONV_BY_CHANNEL;
  return (eti_gemm){
      .kernel = eti_gemm_kernel_for(acc_of(c->dtype)),
      .m = by_channel ? c->pixels : c->c_out,
      .n = by_channel ? c->c_out : c->pixels,
      .k = c->k,
      .ctx = c,
  };
}

// ---- run and prepare

// Bytes of the packed weights of all groups; 0 when there are none or that overflows.
static size_t panel_bytes(const eti_conv *c, size_t height) {
  const size_t each = eti_gemm_packed_elements(c->c_out, height, c->k);
  size_t bytes;
  return __builtin_mul_overflow(each * eti_gemm_kernel_for(acc_of(c->dtype))->esize, c->groups,
                                &bytes)
             ? 0
             : bytes;
}

static void run_product(const et_kernel_ctx *ctx, eti_conv *c) {
  if (c->ready.way == ETI_CONV_DEPTHWISE) c->ready = (eti_conv_state){.way = best_way(c)};
  const eti_gemm shape = shape_of(c);
  const size_t n_jobs = c->n_images * c->groups;
  if (c->ready.panels != NULL && !c->ready.is_packed) {
    eti_gemm_pack_all(ctx->pool, &shape, c->groups, describe_weights, c, pack_weights,
                      c->ready.panels, c->c_out, c->ready.height);
    if (c->ready.zeros != NULL) memset(c->ready.zeros, 0, c->c_in * c->esize);
  }
  if (ctx->scratch_bytes >= ETI_GEMM_MIN_WORK) {
    eti_gemm_run(ctx->pool, &shape, n_jobs, describe_job, c, ctx->scratch, ctx->scratch_bytes);
  } else {
    _Alignas(64) char work[ETI_GEMM_MIN_WORK];
    eti_gemm_run(ctx->pool, &shape, n_jobs, describe_job, c, work, sizeof work);
  }
}

et_status op_convolution_out(et_kernel_ctx *ctx, et_value *const *args) {
  eti_conv c = {.n_images = 0};
  ET_TRY(read_conv(ctx, args, &c));
  eti_conv_state *const state = ctx->state;
  const size_t n_phases = eti_conv_n_phases(&c);
  if (state != NULL) {
    c.ready = *state;
  } else if (n_phases > 0) {
    const eti_conv first = eti_conv_phase(&c, 0);
    c.ready.way = best_way(&first);
  }
  for (size_t i = 0; i < n_phases; i++) {
    eti_conv p = eti_conv_phase(&c, i);
    const bool depthwise = p.ready.way == ETI_CONV_DEPTHWISE;
    if (!eti_conv_depthwise_run(ctx, &p)) run_product(ctx, &p);
    if (c.ready.panels != NULL) {
      c.ready.panels = (char *)c.ready.panels + (depthwise ? p.n_taps * p.groups * sizeof(float)
                                                           : panel_bytes(&p, c.ready.height));
    }
  }
  if (state != NULL) state->is_packed = true;
  return ET_OK;
}

et_status prepare_convolution_out(et_prepare_ctx *ctx, et_value *const *args) {
  const et_kernel_ctx k = eti_prepare_args(ctx);
  eti_conv c = {.n_images = 0};
  ET_TRY(read_conv(&k, args, &c));
  if (eti_conv_n_phases(&c) == 0) return ET_OK;
  bool taken = false;
  ET_TRY(eti_conv_depthwise_prepare(ctx, &c, &taken));
  if (taken) return ET_OK;
  eti_conv first = eti_conv_phase(&c, 0);
  eti_conv_state ready = {.way = best_way(&first)};
  first.ready = ready;
  const eti_gemm g = shape_of(&first);
  const bool known = c.w != NULL, by_channel = ready.way == ETI_CONV_BY_CHANNEL;
  const size_t work = eti_gemm_work_bytes(g.kernel, g.m, g.n, g.k, by_channel || !known,
                                          !by_channel || !known, true, ctx->n_threads);
  if (work > ctx->scratch_bytes) ctx->scratch_bytes = work;
  if (!known) return ET_OK;
  ready.height = by_channel ? g.kernel->nr : eti_gemm_a_height(g.kernel, c.c_out);
  const size_t bytes = panel_bytes(&c, ready.height);  // the phases share out the taps
  if (bytes == 0) return ET_OK;
  eti_conv_state *const state = et_prepare_alloc(ctx, sizeof *state, _Alignof(eti_conv_state));
  void *const panels = et_prepare_alloc(ctx, bytes, 64);
  // Half types are converted on the way and cannot be read in place.
  const bool in_place = by_channel && c.esize == g.kernel->esize;
  void *const zeros = in_place ? et_prepare_alloc(ctx, c.c_in * c.esize, 64) : NULL;
  if (state == NULL || panels == NULL) return et_prepare_status(ctx);
  ready.panels = panels;
  ready.zeros = zeros;
  *state = ready;
  ctx->state = state;
  return ET_OK;
}
