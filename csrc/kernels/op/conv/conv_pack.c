// conv_pack.c — the operands of a convolution's product: weights, and patches of the input, packed
// into the panels of micro/gemm/gemm.h, or read in place. Relies on micro/gemm/gemm.h,
// micro/conv/direct_conv.h and the geometry of conv.h. Knows neither the order of jobs nor the use
// of the product.
#include "kernels/op/conv/conv.h"

#include "kernels/micro/convert/cast.h"
#include "kernels/kernel.h"
#include "kernels/micro/conv/direct_conv.h"
#include "kernels/micro/gemm/gemm.h"
#include "kernels/micro/transpose.h"

#include <string.h>

// ---- weights into panels

enum { PACK_FLOATS = ETI_ON_STACK(4096, 384) };

// Packs the usual layout, [out][in][taps] without gaps: rows are packed unchanged, a few channels
// at a time, and the values of each tap and channel then move to their positions. Only for whole
// channels: k0 = 0, n_k = k.
static bool pack_dense_weights(const eti_gemm *g, char *dst, size_t width, size_t n,
                               const char *w) {
  const eti_conv *const c = g->ctx;
  const size_t es = g->kernel->esize, taps = c->n_taps, room = PACK_FLOATS * sizeof(float);
  ptrdiff_t step = 1;
  for (size_t d = 3; d-- > 0; step *= (ptrdiff_t)c->kernel[d]) {
    if (c->kernel[d] != 1 && c->w_steps[d] != step) return false;
  }
  const bool is_dense = (c->c_in == 1 || c->w_in_step == step) && c->w_out_step >= 0;
  if (!is_dense || taps == 0 || c->dtype != (et_dtype)g->kernel->dtype || width * taps * es > room)
    return false;
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

void eti_conv_pack_weights(const eti_gemm *g, void *dst, size_t width, size_t first, size_t n,
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

// A patch: lanes [j, j + n) of the panel rows of channels [channel, channel + count) at one tap.
typedef struct patch {
  const eti_gemm *g;
  const eti_conv *c;
  const eti_direct_conv_micro *micro;
  const char *x;  // this image and group
  char *dst;      // panel row of `channel`
  size_t width, channel, count;
} patch;

static void zero_lanes(const patch *p, size_t j, size_t n) {
  const size_t es = p->g->kernel->esize;
  for (size_t r = 0; r < p->count && n > 0; r++)
    memset(p->dst + (r * p->width + j) * es, 0, n * es);
}

// Copies n pixels from element `at` on, `step` apart.
static void copy_lanes(const patch *p, size_t j, size_t n, ptrdiff_t at, ptrdiff_t step) {
  const size_t es = p->g->kernel->esize;
  const ptrdiff_t src_es = (ptrdiff_t)p->c->x_esize, c_step = p->c->x.c_step;
  const char *src = p->x + (at + (ptrdiff_t)p->channel * c_step) * src_es;
  char *dst = p->dst + j * es;
  if (n == 0) return;
  if (p->c->x_dtype == ET_F32 && step >= 1 && c_step != 1) {
    p->micro->copy_rows((float *)(void *)dst, p->width, (const float *)(const void *)src, c_step,
                        (size_t)step, p->count, n);
  } else if (p->c->x_dtype == p->g->kernel->dtype && c_step == 1 && p->count > 1) {
    eti_transpose(dst, (ptrdiff_t)(p->width * es), src, step * src_es, n, p->count, es);
  } else {
    const eti_cast_fn cast = eti_casts[p->c->x_dtype][p->g->kernel->dtype];
    for (size_t r = 0; r < p->count; r++) {
      cast(dst + r * p->width * es, (ptrdiff_t)es, src + (ptrdiff_t)r * c_step * src_es,
           step * src_es, n);
    }
  }
}

// The input index of tap `t` of output position `o` in dimension d, or -1 when it is padding.
static int64_t source_of(const eti_conv *c, size_t d, int64_t o, int64_t t) {
  const int64_t i = o * c->stride[d] - c->padding[d] + t * c->dilation[d];
  return i >= 0 && i < c->x.sizes[d] ? i : -1;
}

// Finds the subrange [*from, *to) of outputs [o, o + n), in the innermost dimension, whose tap t is
// inside the input.
static void inside_range(const eti_conv *c, int64_t o, int64_t n, int64_t t, int64_t *from,
                         int64_t *to) {
  const int64_t s = c->stride[2], shift = t * c->dilation[2] - c->padding[2];  // i = o·s + shift
  int64_t lo = shift >= 0 ? 0 : (-shift + s - 1) / s;                          // least o with i ≥ 0
  const int64_t room = c->x.sizes[2] - 1 - shift;
  int64_t hi = room < 0 ? 0 : room / s + 1;  // first o with i ≥ size
  lo = lo < o ? o : lo > o + n ? o + n : lo;
  hi = hi < lo ? lo : hi > o + n ? o + n : hi;
  *from = lo - o;
  *to = hi - o;
}

// Gathers one tap of n output pixels that are side by side in one row.
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
  inside_range(c, o[2], (int64_t)n, tap[2], &from, &to);
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

// Taps whose values are adjacent in memory for a pixel inside the image: one, or a row of the
// kernel.
static size_t joined_taps(const eti_conv *c) {
  const bool joins = c->x.c_step == 1 && c->dilation[2] == 1 &&
                     (c->x.steps[2] == (ptrdiff_t)c->c_in || c->kernel[2] == 1);
  return joins ? (size_t)c->kernel[2] : 1;
}

// Packs a panel of pixels of one row whose taps are all inside sideways: runs of k are packed like
// rows of a matrix. False for other panels.
static bool pack_inner_pixels(const eti_gemm *g, const char *x, char *dst, size_t width,
                              size_t first, size_t n, size_t k0, size_t n_k) {
  const eti_conv *const c = g->ctx;
  const size_t es = g->kernel->esize, run = c->c_in * joined_taps(c);
  const int64_t *const out = c->out.sizes;
  const int64_t rows = (int64_t)first / out[2], at = (int64_t)first % out[2];
  const int64_t left = at * c->stride[2] - c->padding[2];
  const int64_t right =
      (at + (int64_t)n - 1) * c->stride[2] - c->padding[2] + (c->kernel[2] - 1) * c->dilation[2];
  const ptrdiff_t step = (ptrdiff_t)c->stride[2] * c->x.steps[2];
  if (c->x_dtype != (et_dtype)g->kernel->dtype || c->x.c_step != 1 || step < 0 || left < 0 ||
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

void eti_conv_pack_patches(const eti_gemm *g, void *dst, size_t width, size_t first, size_t n,
                           size_t k0, size_t n_k) {
  const eti_conv *const c = g->ctx;
  const size_t image_index = g->job / c->groups, group = g->job % c->groups;
  const ptrdiff_t at =
      (ptrdiff_t)image_index * c->x.n_step + (ptrdiff_t)(group * c->c_in) * c->x.c_step;
  patch p = {.g = g,
             .c = c,
             .micro = eti_direct_conv_micro_best(),
             .x = c->x.data + at * (ptrdiff_t)c->x_esize,
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

// ---- patches read in place

size_t eti_conv_segment(const eti_conv *c, size_t *row_room) {
  const size_t run = c->c_in * joined_taps(c);
  *row_room = 0;
  if (c->c_in >= ETI_CONV_LONG_SEGMENT) return c->c_in;
  *row_room = c->k;
  return run >= ETI_CONV_LONG_SEGMENT && c->k <= ETI_CONV_ROW_ROOM ? run : 0;
}

// A run of n_pixels of one row of the result, the first at o; pixels i … of a panel of n.
typedef struct pixel_run {
  const eti_conv *c;
  const char *x;  // this image and group
  int64_t o[3];
  size_t i, n_pixels, n, joined;  // joined: taps per segment
} pixel_run;

// Copies one segment of pixel j, whose taps are partly outside the image: from is the address of
// the tap at column 0 of the input.
static void copy_segment(const pixel_run *r, const char *from, int64_t px, char *to) {
  const eti_conv *const c = r->c;
  const size_t bytes = c->c_in * c->x_esize;
  for (size_t t = 0; t < r->joined; t++, px++, to += bytes) {
    if (px >= 0 && px < c->x.sizes[2]) {
      memcpy(to, from + (ptrdiff_t)px * c->x.steps[2] * (ptrdiff_t)c->x_esize, bytes);
    } else {
      memset(to, 0, bytes);
    }
  }
}

// Finds a segment of each pixel: its taps begin at column px of the input for the first pixel. row
// is the address of column 0, or NULL if the row is padding. `to` is the room of the first pixel.
static void point_segment(const pixel_run *r, const char *row, int64_t px, const void **at,
                          char *to) {
  const eti_conv *const c = r->c;
  const int64_t s = c->stride[2], reach = (int64_t)r->joined, size = c->x.sizes[2];
  const int64_t last = px + (int64_t)(r->n_pixels - 1) * s;
  const ptrdiff_t step = c->x.steps[2] * (ptrdiff_t)c->x_esize;
  if (row == NULL) {
    for (size_t j = 0; j < r->n_pixels; j++) at[j] = c->ready.zeros;
    return;
  }
  if (px >= 0 && last + reach <= size) {
    const char *from = row + (ptrdiff_t)px * step;
    for (size_t j = 0; j < r->n_pixels; j++, from += (ptrdiff_t)s * step) at[j] = from;
    return;
  }
  for (size_t j = 0; j < r->n_pixels; j++, px += s, to += c->k * c->x_esize) {
    if (px >= 0 && px + reach <= size) {
      at[j] = row + (ptrdiff_t)px * step;
    } else if (r->joined == 1) {
      at[j] = c->ready.zeros;
    } else {
      copy_segment(r, row, px, to);
      at[j] = to;
    }
  }
}

static void point_run(const pixel_run *r, const void **rows, char *room) {
  const eti_conv *const c = r->c;
  const eti_image *const x = &c->x;
  const ptrdiff_t es = (ptrdiff_t)c->x_esize;
  const void **at = rows + r->i;
  char *to = room + r->i * c->k * c->x_esize;
  for (int64_t tz = 0; tz < c->kernel[0]; tz++) {
    const int64_t z = source_of(c, 0, r->o[0], tz);
    for (int64_t ty = 0; ty < c->kernel[1]; ty++) {
      const int64_t y = source_of(c, 1, r->o[1], ty);
      const char *const row =
          z < 0 || y < 0 ? NULL
                         : r->x + ((ptrdiff_t)z * x->steps[0] + (ptrdiff_t)y * x->steps[1]) * es;
      int64_t px = r->o[2] * c->stride[2] - c->padding[2];
      for (int64_t tx = 0; tx < c->kernel[2]; tx += (int64_t)r->joined) {
        point_segment(r, row, px, at, to);
        px += c->dilation[2] * (int64_t)r->joined;
        at += r->n;
        to += r->joined * c->c_in * c->x_esize;
      }
    }
  }
}

void eti_conv_point_pixels(const eti_gemm *g, const void **rows, void *room, size_t first,
                           size_t n) {
  const eti_conv *const c = g->ctx;
  const eti_image *const x = &c->x;
  const int64_t *const out = c->out.sizes;
  const ptrdiff_t at =
      (ptrdiff_t)(g->job / c->groups) * x->n_step + (ptrdiff_t)(g->job % c->groups * c->c_in);
  pixel_run r = {
      .c = c, .x = x->data + at * (ptrdiff_t)c->x_esize, .n = n, .joined = g->a.segment / c->c_in};
  for (r.i = 0; r.i < n; r.i += r.n_pixels) {
    const int64_t pixel = (int64_t)(first + r.i), row = pixel / out[2];
    r.o[0] = row / out[1];
    r.o[1] = row % out[1];
    r.o[2] = pixel % out[2];
    const size_t left = (size_t)(out[2] - r.o[2]);
    r.n_pixels = left < n - r.i ? left : n - r.i;
    point_run(&r, rows, room);
  }
}
