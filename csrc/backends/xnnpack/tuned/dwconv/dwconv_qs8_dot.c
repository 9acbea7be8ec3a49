// dwconv_qs8_dot.c — int8 depthwise convolution by the products of bytes of kernels/micro/qgemm/:
// see dwconv.h. The arithmetic is the same: exact sums, one product with a scale, one rounding.
#include "backends/xnnpack/tuned/dwconv/dwconv.h"

#include <string.h>

#include "kernels/micro/qgemm/qgemm.h"
#include "runtime/check.h"

enum { NR = ETI_QGEMM_NR, QUAD = ETI_QGEMM_QUAD, MAX_TAPS = 25, PIXELS = 16 };

// ---- Packed weights: as eti_qgemm_micro_best() arranges them

// Data of at most this many channels are laid out on the stack, then arranged.
enum { PART = 64, PART_PANELS = PART / NR, QUADS = (MAX_TAPS + QUAD - 1) / QUAD };

typedef struct part {
  int8_t w[PART_PANELS * QUADS * NR * QUAD];
  uint32_t start[PART];
  float scale[PART], add[PART];
} part;

size_t eti_xnn_qs8_dwconv_dot_weight_bytes(size_t n_taps, size_t n_channels) {
  return eti_qgemm_micro_best()->arranged_bytes(n_channels, n_taps);
}

// Copies a channel. Rows in U8 make sums larger by 128 times the sum of the weights.
static void copy_channel(size_t n_taps, size_t channel, size_t tile, const char *block,
                         const float *scale, part *to) {
  const size_t quads = (n_taps + QUAD - 1) / QUAD, c = channel % PART, at = channel % tile;
  const int8_t *const taps = (const int8_t *)block + tile * sizeof(int32_t) + at;
  int8_t *const w = to->w + c / NR * eti_qpanel_bytes(quads) + c % NR * QUAD;
  memcpy(&to->start[c], block + at * sizeof(int32_t), sizeof(int32_t));
  for (size_t t = 0; t < n_taps; t++) {
    w[t / QUAD * NR * QUAD + t % QUAD] = taps[t * tile];
    to->start[c] -= 128u * (uint32_t)taps[t * tile];
  }
  const char *const scales = block + tile * sizeof(int32_t) + n_taps * tile;
  memcpy(&to->scale[c], scale != NULL ? (const char *)scale : scales + at * sizeof *scale,
         sizeof *scale);
}

void eti_xnn_qs8_dwconv_dot_pack(size_t n_taps, size_t n_channels, size_t tile, const void *packed,
                                 const float *scale, void *out) {
  ET_ASSERT(n_taps <= MAX_TAPS && n_channels > 0 && tile > 0 && packed != NULL && out != NULL);
  const eti_qgemm_micro *const micro = eti_qgemm_micro_best();
  const size_t columns = sizeof(int32_t) + (scale == NULL ? sizeof(float) : 0);
  for (size_t first = 0; first < n_channels; first += PART) {
    const size_t n = n_channels - first < PART ? n_channels - first : PART;
    part p;
    memset(&p, 0, sizeof p);
    for (size_t c = first; c < first + n; c++) {
      const char *const block = (const char *)packed + c / tile * tile * (n_taps + columns);
      copy_channel(n_taps, c, tile, block, scale, &p);
    }
    int32_t start[PART];
    memcpy(start, p.start, sizeof start);
    const eti_qdepthwise d = {
        .n_taps = n_taps, .w = p.w, .start = start, .scale = p.scale, .add = p.add, .channels = n};
    micro->arrange_channels(&d, (char *)out + micro->arranged_bytes(first, n_taps));
  }
}

// ---- The kernels

typedef struct row {
  const void *const *taps;
  size_t stride;  // pointers from pixel to pixel
  const void *zero;
  size_t offset_bytes;
} row;

static void resolve(const row *from, size_t first, size_t n, size_t n_taps, const int8_t **taps) {
  for (size_t i = 0; i < n; i++) {
    const void *const *const at = from->taps + (first + i) * from->stride;
    for (size_t t = 0; t < n_taps; t++) {
      const int8_t *const tap = at[t];
      *taps++ = (const void *)tap == from->zero ? tap : tap + from->offset_bytes;
    }
  }
}

static void dwconv(size_t n_taps, size_t n_channels, size_t n_pixels, const row *from,
                   const void *weights, int8_t *y, size_t pixel_bytes,
                   const eti_xnn_qs8_limits *limits) {
  ET_ASSERT(n_channels > 0 && n_pixels > 0 && from->taps != NULL && weights != NULL && y != NULL);
  const int8_t *taps[PIXELS * MAX_TAPS];
  eti_qdepthwise d = {
      .taps = taps,
      .n_taps = n_taps,
      .arranged = weights,
      .channels = n_channels,
      .out_step = pixel_bytes,
      .high = (float)(limits->max - limits->zero_point),
      .low = limits->min,
      .zero = limits->zero_point,
  };
  const eti_qgemm_micro *const micro = eti_qgemm_micro_best();
  for (size_t i = 0; i < n_pixels; i += d.n) {
    d.n = n_pixels - i < PIXELS ? n_pixels - i : PIXELS;
    d.out = y + i * pixel_bytes;
    resolve(from, i, d.n, n_taps, taps);
    micro->depthwise(&d);
  }
}

void eti_xnn_qs8_dwconv_9__dot(size_t n_channels, size_t n_pixels, const void **taps,
                               const void *weights, void *y, intptr_t stride_bytes,
                               size_t gap_bytes, size_t offset_bytes, const void *zero,
                               const void *limits) {
  const row from = {taps, (size_t)stride_bytes / sizeof *taps, zero, offset_bytes};
  dwconv(9, n_channels, n_pixels, &from, weights, y, n_channels + gap_bytes, limits);
}

void eti_xnn_qs8_dwconv_25__dot(size_t n_channels, size_t n_pixels, const void **taps,
                                const void *weights, void *y, intptr_t stride_bytes,
                                size_t gap_bytes, size_t offset_bytes, const void *zero,
                                const void *limits) {
  const row from = {taps, (size_t)stride_bytes / sizeof *taps, zero, offset_bytes};
  dwconv(25, n_channels, n_pixels, &from, weights, y, n_channels + gap_bytes, limits);
}
