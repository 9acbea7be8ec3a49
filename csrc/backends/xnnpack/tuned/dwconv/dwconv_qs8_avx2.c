// dwconv_qs8_avx2.c — int8 depthwise convolution on 256-bit vectors: see dwconv.h. Compiled with
// AVX2.
//
// A window of K x K taps is K columns of K. Elements of two taps are interleaved as 16-bit pairs,
// which pmaddwd multiplies by pairs of weights and adds. Pairs are two taps of a column, from the
// top, and the last taps of two neighbouring columns. Four results are computed at once, so that
// neighbours use the same interleaved pairs. A window of another shape with as many taps or fewer
// is treated as such a square, with weights of 0 for the missing taps. Neighbouring results share
// elements if their pointers are those of the window moved by one or two columns.
#include "backends/xnnpack/tuned/dwconv/dwconv.h"

#include <stdbool.h>

#include "backends/xnnpack/tuned/requantize_avx2.h"
#include "runtime/bytes.h"
#include "runtime/check.h"

#define INLINE ETI_VECTOR_INLINE
#define UNROLL ETI_UNROLL

enum {
  CHANNELS = ETI_CHANNELS,
  PIXELS = 4,  // at once
  PAIRS_BYTES = ETI_PAIRS_BYTES,
  CHANNELS_BYTES = ETI_CHANNELS_BYTES,
  MAX_SIDE = 5,
  MAX_COLUMNS = (PIXELS - 1) * 2 + MAX_SIDE
};

// ---- Packed weights: for each 16 channels their biases, the pairs, and their scales. A vector of
// 8 has channels 0 to 3 and 8 to 11, the next one the others, as interleaving leaves them.

INLINE size_t side_of(size_t n_taps) {
  return n_taps == 9 ? 3 : 5;
}

// The pair of rows 2r and 2r + 1 of a column.
INLINE size_t pair_in(size_t side, size_t r, size_t column) {
  return r * side + column;
}

// The pair of the last row of two columns: (0, 1), (2, 3), … and (-1, 0), (1, 2), …
INLINE size_t pair_across(size_t side, int first_column) {
  const size_t begin = side * (side / 2), half = (side + 1) / 2;
  return first_column % 2 == 0 ? begin + (size_t)first_column / 2
                               : begin + half + (size_t)(first_column + 1) / 2;
}

INLINE size_t n_pairs(size_t side) {
  return side * (side / 2) + side + 1;
}

INLINE size_t block_bytes(size_t side) {
  return n_pairs(side) * PAIRS_BYTES + 2 * CHANNELS_BYTES;
}

size_t eti_xnn_qs8_dwconv_weight_bytes(size_t n_taps, size_t n_channels) {
  return (n_channels + CHANNELS - 1) / CHANNELS * block_bytes(side_of(n_taps));
}

static void pack_pair(const int8_t *a, const int8_t *b, int16_t *to) {
  for (size_t c = 0; c < CHANNELS; c++) {
    to[2 * eti_lane_of(c)] = a == NULL ? 0 : a[c];
    to[2 * eti_lane_of(c) + 1] = b == NULL ? 0 : b[c];
  }
}

static void pack_taps(size_t side, const int8_t *taps, uint8_t *to) {
  const size_t last = side - 1;
  for (size_t column = 0; column < side; column++) {
    const int8_t *const at = taps + column * side * CHANNELS;
    for (size_t r = 0; r < side / 2; r++)
      pack_pair(at + 2 * r * CHANNELS, at + (2 * r + 1) * CHANNELS,
                (int16_t *)(void *)(to + pair_in(side, r, column) * PAIRS_BYTES));
  }
  for (int first = -1; first <= (int)last; first++) {
    const int8_t *const a = taps + ((size_t)(first + 1) * side - 1) * CHANNELS;
    pack_pair(first < 0 ? NULL : a, first == (int)last ? NULL : a + side * CHANNELS,
              (int16_t *)(void *)(to + pair_across(side, first) * PAIRS_BYTES));
  }
}

void eti_xnn_qs8_dwconv_pack(size_t n_taps, size_t n_channels, const void *packed,
                             const float *scale, void *out) {
  ET_ASSERT((n_taps == 9 || n_taps == 25) && n_channels > 0 && packed != NULL && out != NULL);
  const size_t side = side_of(n_taps);
  const uint8_t *from = packed;
  uint8_t *to = out;
  for (size_t first = 0; first < n_channels; first += CHANNELS) {
    int32_t biases[CHANNELS];
    float scales[CHANNELS];
    memcpy(biases, from, sizeof biases);
    from += sizeof biases;
    const int8_t *const taps = (const int8_t *)from;
    from += n_taps * CHANNELS;
    for (size_t c = 0; c < CHANNELS; c++) scales[c] = scale == NULL ? 0.0f : *scale;
    if (scale == NULL) {
      memcpy(scales, from, sizeof scales);
      from += sizeof scales;
    }
    pack_taps(side, taps, to + CHANNELS_BYTES);
    for (size_t c = 0; c < CHANNELS; c++) {
      const size_t at = eti_lane_of(c) * sizeof(int32_t);
      memcpy(to + at, &biases[c], sizeof biases[c]);
      memcpy(to + block_bytes(side) - CHANNELS_BYTES + at, &scales[c], sizeof scales[c]);
    }
    to += block_bytes(side);
  }
}

// ---- Sums

INLINE __m256i load_wide(const int8_t *at) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)at));
}

typedef struct pairs {
  __m256i of[2];
} pairs;

INLINE pairs interleave(const int8_t *a, const int8_t *b) {
  const __m256i x = load_wide(a), y = load_wide(b);
  return (pairs){{_mm256_unpacklo_epi16(x, y), _mm256_unpackhi_epi16(x, y)}};
}

INLINE void add_products(eti_sums *sum, pairs v, const uint8_t *weights) {
  eti_add_products(sum, v.of[0], v.of[1], eti_load(weights), eti_load(weights + PAIRS_BYTES / 2));
}

// Adds the products of two columns to the sums of n pixels, `step` columns apart.
INLINE void add_columns(eti_sums *sums, size_t side, size_t n, size_t step, size_t column,
                        const int8_t *const *taps, size_t at, const uint8_t *weights) {
  const bool is_last = column + 1 == (n - 1) * step + side;
  const int8_t *const *const a = taps + column * side;
  UNROLL for (size_t k = 0; k < 2; k++) {
    if (k == 1 && is_last) break;
    UNROLL for (size_t r = 0; r < side / 2; r++) {
      const pairs v = interleave(a[k * side + 2 * r] + at, a[k * side + 2 * r + 1] + at);
      UNROLL for (size_t p = 0; p < n; p++) {
        const size_t own = column + k - p * step;
        if (own < side) add_products(&sums[p], v, weights + pair_in(side, r, own) * PAIRS_BYTES);
      }
    }
  }
  const pairs v = interleave(a[side - 1] + at, a[is_last ? side - 1 : 2 * side - 1] + at);
  UNROLL for (size_t p = 0; p < n; p++) {
    const int own = (int)column - (int)(p * step);
    if (own >= -1 && own < (int)side)
      add_products(&sums[p], v, weights + pair_across(side, own) * PAIRS_BYTES);
  }
}

INLINE void convolve(size_t side, size_t n, size_t step, const int8_t *const *taps,
                     size_t n_channels, const uint8_t *weights, const eti_target *t) {
  for (size_t at = 0; at < n_channels; at += CHANNELS, weights += block_bytes(side)) {
    eti_sums sums[PIXELS];
    UNROLL for (size_t p = 0; p < n; p++) sums[p] = eti_biases(weights);
    UNROLL for (size_t column = 0; column < (n - 1) * step + side; column += 2)
        add_columns(sums, side, n, step, column, taps, at, weights + CHANNELS_BYTES);
    eti_finish(sums, n, weights + block_bytes(side) - CHANNELS_BYTES, t, at, n_channels - at);
  }
}

// ---- Rows

typedef struct row {
  const void *const *taps;
  const void *zero;
  size_t offset_bytes;
} row;

INLINE void resolve(const row *from, size_t first, size_t n, const int8_t **taps) {
  for (size_t i = 0; i < n; i++) {
    const int8_t *const tap = from->taps[first + i];
    taps[i] = (const void *)tap == from->zero ? tap : tap + from->offset_bytes;
  }
}

// Four pixels at a time. The last four may overlap those before them, whose results are written
// again.
INLINE void convolve_row(size_t side, size_t step, size_t n_pixels, const row *from,
                         size_t n_channels, const uint8_t *weights, const eti_target *t) {
  const int8_t *taps[MAX_COLUMNS * MAX_SIDE];
  for (size_t i = 0; i < n_pixels; i += PIXELS) {
    const size_t first = i + PIXELS <= n_pixels ? i : n_pixels - PIXELS;
    eti_target here = *t;
    here.y += first * t->pixel_bytes;
    resolve(from, first * step * side, ((PIXELS - 1) * step + side) * side, taps);
    convolve(side, PIXELS, step, taps, n_channels, weights, &here);
  }
}

INLINE void convolve_pixels(size_t side, size_t n_pixels, size_t stride, const row *from,
                            size_t n_channels, const uint8_t *weights, const eti_target *t) {
  const int8_t *taps[MAX_SIDE * MAX_SIDE];
  for (size_t i = 0; i < n_pixels; i++) {
    eti_target here = *t;
    here.y += i * t->pixel_bytes;
    resolve(from, i * stride, side * side, taps);
    convolve(side, 1, 1, taps, n_channels, weights, &here);
  }
}

INLINE void dwconv(size_t side, size_t n_channels, size_t n_pixels, const row *from,
                   intptr_t stride_bytes, const uint8_t *weights, const eti_target *t) {
  ET_ASSERT(n_channels > 0 && n_pixels > 0 && stride_bytes > 0);
  ET_ASSERT(from->taps != NULL && weights != NULL && t->y != NULL);
  ET_ASSERT(eti_is_aligned(weights, sizeof(__m256i)));
  const size_t stride = (size_t)stride_bytes / sizeof *from->taps;
  if (n_pixels >= PIXELS && stride == side)
    convolve_row(side, 1, n_pixels, from, n_channels, weights, t);
  else if (n_pixels >= PIXELS && stride == 2 * side)
    convolve_row(side, 2, n_pixels, from, n_channels, weights, t);
  else
    convolve_pixels(side, n_pixels, stride, from, n_channels, weights, t);
}

ETI_READS_ON void eti_xnn_qs8_dwconv_9__avx2(size_t n_channels, size_t n_pixels, const void **taps,
                                             const void *weights, void *y, intptr_t stride_bytes,
                                             size_t gap_bytes, size_t offset_bytes,
                                             const void *zero, const void *limits) {
  const row from = {taps, zero, offset_bytes};
  const eti_target t = eti_target_of(y, n_channels + gap_bytes, limits);
  dwconv(3, n_channels, n_pixels, &from, stride_bytes, weights, &t);
}

ETI_READS_ON void eti_xnn_qs8_dwconv_25__avx2(size_t n_channels, size_t n_pixels, const void **taps,
                                              const void *weights, void *y, intptr_t stride_bytes,
                                              size_t gap_bytes, size_t offset_bytes,
                                              const void *zero, const void *limits) {
  const row from = {taps, zero, offset_bytes};
  const eti_target t = eti_target_of(y, n_channels + gap_bytes, limits);
  dwconv(5, n_channels, n_pixels, &from, stride_bytes, weights, &t);
}
