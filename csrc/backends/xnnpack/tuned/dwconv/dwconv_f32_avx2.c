// dwconv_f32_avx2.c — f32 depthwise convolution on 256-bit vectors: see dwconv.h. Compiled with
// AVX2 and FMA.
//
// Neighbouring results share elements of the image and all weights. Up to 8 results of 8 channels
// are computed at once, one row of the window after the other. The row's weights stay in registers
// with the sums, and each element is loaded once for all results whose windows contain it. All
// channels of these results are computed before the next results, in the order of memory.
#include "backends/xnnpack/tuned/dwconv/dwconv.h"

#include <immintrin.h>
#include <stdalign.h>
#include <stdbool.h>

#include "backends/xnnpack/tuned/partial_vector_avx2.h"
#include "runtime/bytes.h"
#include "runtime/check.h"

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

enum {
  LANES = 8,
  PIXELS = 8,  // at once, at most
  MAX_SIDE = 5,
  MAX_COLUMNS = (PIXELS - 1) * 2 + MAX_SIDE,
  MAX_WEIGHTS = (MAX_SIDE * MAX_SIDE + 1) * 2 * LANES
};

// The window of a kernel: constants where they are used.
typedef struct window {
  size_t side;
  size_t packed;  // channels whose weights lie together
} window;

typedef struct target {
  float *y;
  size_t pixel_bytes;
  __m256 min, max;
} target;

// ---- Sums

typedef struct sums {
  __m256 of[PIXELS];
} sums;

INLINE __m256 load(const float *at, size_t n_lanes) {
  if (n_lanes == LANES) return _mm256_loadu_ps(at);
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_maskload_ps(at, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n_lanes), lanes));
}

// Adds the products of one element to the sums of n pixels, `step` columns apart. The first product
// of a sum is added to its bias.
INLINE void add_products(window w, sums *s, size_t n, size_t step, size_t row, size_t column,
                         __m256 x, const float *weights) {
  UNROLL for (size_t p = 0; p < n; p++) {
    const size_t own = column - p * step;
    if (own >= w.side) continue;
    const __m256 weight = _mm256_load_ps(weights + (1 + own * w.side + row) * w.packed);
    s->of[p] = _mm256_fmadd_ps(x, weight, own + row == 0 ? _mm256_load_ps(weights) : s->of[p]);
  }
}

INLINE void finish(const sums *s, size_t n, size_t at, size_t n_lanes, const target *t) {
  UNROLL for (size_t p = 0; p < n; p++) {
    const __m256 v = _mm256_min_ps(t->max, _mm256_max_ps(t->min, s->of[p]));
    float *const y = (float *)(void *)((uint8_t *)t->y + p * t->pixel_bytes) + at;
    if (n_lanes == LANES)
      _mm256_storeu_ps(y, v);
    else
      eti_store_some(y, v, n_lanes);
  }
}

// Channels at … at + n_lanes of n pixels, `step` columns apart. Weights: the biases and then,
// column by column, the taps.
INLINE void convolve(window w, size_t n, size_t step, const float *const *taps, size_t at,
                     size_t n_lanes, const float *weights, const target *t) {
  const size_t n_columns = (n - 1) * step + w.side;
  sums s;
  __asm__("" : "+r"(taps));  // otherwise gcc loads all of them first and runs out of registers
  UNROLL for (size_t row = 0; row < w.side; row++) {
    UNROLL for (size_t column = 0; column < n_columns; column++) add_products(
        w, &s, n, step, row, column, load(taps[column * w.side + row] + at, n_lanes), weights);
  }
  finish(&s, n, at, n_lanes, t);
}

// ---- Rows

typedef struct row {
  const void *const *taps;
  size_t stride;  // of pointers, from pixel to pixel
  const void *zero;
  size_t offset_bytes;
  size_t n_channels, n_pixels;
  const float *weights;
  const float *last_weights;  // of the last 8 channels, unless there are fewer
} row;

// Adds the offset to n pointers of the indirection buffer, four at a time.
INLINE void resolve(const row *r, size_t first, size_t n, const float **taps) {
  const void *const *const at = r->taps + first;
  const __m256i zero = _mm256_set1_epi64x((long long)(intptr_t)r->zero);
  const __m256i offset = _mm256_set1_epi64x((long long)r->offset_bytes);
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const __m256i p = _mm256_loadu_si256((const __m256i *)(const void *)(at + i));
    const __m256i moved = _mm256_andnot_si256(_mm256_cmpeq_epi64(p, zero), offset);
    _mm256_storeu_si256((__m256i *)(void *)(taps + i), _mm256_add_epi64(p, moved));
  }
  for (; i < n; i++) {
    const uint8_t *const p = at[i];
    taps[i] = (const float *)(const void *)(at[i] == r->zero ? p : p + r->offset_bytes);
  }
}

INLINE const float *weights_of(window w, const row *r, size_t channel) {
  const size_t within = channel % w.packed;
  return r->weights + (channel - within) * (w.side * w.side + 1) + within;
}

// Weights of 8 channels that lie in two packed blocks.
INLINE void gather_weights(window w, const row *r, size_t first_channel, float *to) {
  for (size_t c = 0; c < LANES; c++) {
    const float *const from = weights_of(w, r, first_channel + c);
    for (size_t i = 0; i <= w.side * w.side; i++) to[i * w.packed + c] = from[i * w.packed];
  }
}

INLINE target at_pixel(const target *t, size_t pixel) {
  target here = *t;
  here.y = (float *)(void *)((uint8_t *)t->y + pixel * t->pixel_bytes);
  return here;
}

// n pixels at a time. The last n may overlap those before them, as the last 8 channels may: their
// results are written again.
INLINE void convolve_row(window w, size_t n, size_t step, const row *r, const target *t) {
  const float *taps[MAX_COLUMNS * MAX_SIDE];
  for (size_t i = 0; i < r->n_pixels; i += n) {
    const size_t first = i + n <= r->n_pixels ? i : r->n_pixels - n;
    const target here = at_pixel(t, first);
    resolve(r, first * r->stride, ((n - 1) * step + w.side) * w.side, taps);
    for (size_t c = 0; c < r->n_channels; c += LANES) {
      const bool is_whole = c + LANES <= r->n_channels;
      convolve(w, n, step, taps, is_whole ? c : r->n_channels - LANES, LANES,
               is_whole ? weights_of(w, r, c) : r->last_weights, &here);
    }
  }
}

// A row with fewer channels than the lanes of a vector.
INLINE void convolve_few_channels(window w, const row *r, const target *t) {
  const float *taps[MAX_SIDE * MAX_SIDE];
  for (size_t i = 0; i < r->n_pixels; i++) {
    const target here = at_pixel(t, i);
    resolve(r, i * r->stride, w.side * w.side, taps);
    convolve(w, 1, 1, taps, 0, r->n_channels, r->weights, &here);
  }
}

// Balances the blocks: the fewest pixels at once that do not need one more block.
INLINE void convolve_blocks(window w, size_t step, const row *r, const target *t) {
  const size_t n_blocks = (r->n_pixels + PIXELS - 1) / PIXELS;
  switch ((r->n_pixels + n_blocks - 1) / n_blocks) {
    case 1:
      convolve_row(w, 1, step, r, t);
      break;
    case 2:
      convolve_row(w, 2, step, r, t);
      break;
    case 3:
      convolve_row(w, 3, step, r, t);
      break;
    case 4:
      convolve_row(w, 4, step, r, t);
      break;
    case 5:
      convolve_row(w, 5, step, r, t);
      break;
    case 6:
      convolve_row(w, 6, step, r, t);
      break;
    case 7:
      convolve_row(w, 7, step, r, t);
      break;
    default:
      convolve_row(w, PIXELS, step, r, t);
  }
}

INLINE void dwconv(window w, size_t step, row *r, const target *t) {
  ET_ASSERT(r->n_channels > 0 && r->n_pixels > 0 && r->stride == step * w.side);
  ET_ASSERT(r->taps != NULL && r->weights != NULL && t->y != NULL);
  ET_ASSERT(eti_is_aligned(r->weights, LANES * sizeof(float)));
  alignas(32) float last_weights[MAX_WEIGHTS];
  if (r->n_channels < LANES) {
    convolve_few_channels(w, r, t);
    return;
  }
  r->last_weights = last_weights;
  if (r->n_channels % LANES != 0) gather_weights(w, r, r->n_channels - LANES, last_weights);
  convolve_blocks(w, step, r, t);
}

INLINE row row_of(size_t n_channels, size_t n_pixels, const void **taps, const void *weights,
                  intptr_t stride_bytes, size_t offset_bytes, const void *zero) {
  return (row){.taps = taps,
               .stride = (size_t)stride_bytes / sizeof *taps,
               .zero = zero,
               .offset_bytes = offset_bytes,
               .n_channels = n_channels,
               .n_pixels = n_pixels,
               .weights = weights};
}

INLINE target target_of(void *y, size_t pixel_bytes, const float *limits) {
  return (target){y, pixel_bytes, _mm256_set1_ps(limits[0]), _mm256_set1_ps(limits[1])};
}

void eti_xnn_f32_dwconv_9__avx2(size_t n_channels, size_t n_pixels, const void **taps,
                                const void *weights, void *y, intptr_t stride_bytes,
                                size_t gap_bytes, size_t offset_bytes, const void *zero,
                                const void *limits) {
  row r = row_of(n_channels, n_pixels, taps, weights, stride_bytes, offset_bytes, zero);
  const target t = target_of(y, n_channels * sizeof(float) + gap_bytes, limits);
  dwconv((window){.side = 3, .packed = 2 * LANES}, 1, &r, &t);
}

INLINE void dwconv_25(window w, row *r, const target *t) {
  if (r->stride == w.side)
    dwconv(w, 1, r, t);
  else
    dwconv(w, 2, r, t);
}

void eti_xnn_f32_dwconv_25__avx2(size_t n_channels, size_t n_pixels, const void **taps,
                                 const void *weights, void *y, intptr_t stride_bytes,
                                 size_t gap_bytes, size_t offset_bytes, const void *zero,
                                 const void *limits) {
  row r = row_of(n_channels, n_pixels, taps, weights, stride_bytes, offset_bytes, zero);
  const target t = target_of(y, n_channels * sizeof(float) + gap_bytes, limits);
  dwconv_25((window){.side = 5, .packed = LANES}, &r, &t);
}

void eti_xnn_f32_dwconv_25p16__avx2(size_t n_channels, size_t n_pixels, const void **taps,
                                    const void *weights, void *y, intptr_t stride_bytes,
                                    size_t gap_bytes, size_t offset_bytes, const void *zero,
                                    const void *limits) {
  row r = row_of(n_channels, n_pixels, taps, weights, stride_bytes, offset_bytes, zero);
  const target t = target_of(y, n_channels * sizeof(float) + gap_bytes, limits);
  dwconv_25((window){.side = 5, .packed = 2 * LANES}, &r, &t);
}
