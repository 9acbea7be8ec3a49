// pack_q8_avx2.c — packs int8 weights for the kernels of gemm_q8_avx2.c. XNNPACK's own functions
// move two elements at a time. Compiled with AVX2.
#include "backends/xnnpack/tuned/gemm/gemm_kernels.h"

#include <immintrin.h>
#include <string.h>

#include "backends/xnnpack/tuned/xnn_private.h"
#include "runtime/check.h"

enum { COLS = ETI_XNN_GEMM_COLS, K_BLOCK = 16 };

// Transposes units of four elements: to[16 j + i] = unit j of the row at from + i * step; i, j < 4.
static void transpose_k4_4x4(const int8_t *from, size_t step, int8_t *to) {
  __m128i in[4], twos[4];
  for (size_t i = 0; i < 4; i++)
    in[i] = _mm_loadu_si128((const __m128i *)(const void *)(from + i * step));
  for (size_t i = 0; i < 2; i++) {
    twos[2 * i] = _mm_unpacklo_epi32(in[2 * i], in[2 * i + 1]);
    twos[2 * i + 1] = _mm_unpackhi_epi32(in[2 * i], in[2 * i + 1]);
  }
  for (size_t j = 0; j < 2; j++) {
    const __m128i even = _mm_unpacklo_epi64(twos[j], twos[j + 2]);
    const __m128i odd = _mm_unpackhi_epi64(twos[j], twos[j + 2]);
    _mm_storeu_si128((__m128i *)(void *)(to + (2 * j) * 4 * COLS), even);
    _mm_storeu_si128((__m128i *)(void *)(to + (2 * j + 1) * 4 * COLS), odd);
  }
}

// Packs one row from element k on, followed by zeros.
static void pack_row(const int8_t *row, size_t k, size_t n_k, int8_t *to) {
  for (; k < n_k; k += 4)
    for (size_t i = 0; i < 4; i++) to[k * COLS + i] = k + i < n_k ? row[k + i] : 0;
}

// Packs n_cols rows of n_k elements, `step` apart, to k4 blocks.
static void pack_tap(const int8_t *from, size_t step, size_t n_cols, size_t n_k, int8_t *to) {
  size_t i = 0;
  for (; i + 4 <= n_cols; i += 4) {
    size_t k = 0;
    for (; k + K_BLOCK <= n_k; k += K_BLOCK)
      transpose_k4_4x4(from + i * step + k, step, to + k * COLS + 4 * i);
    for (size_t c = i; c < i + 4; c++) pack_row(from + c * step, k, n_k, to + 4 * c);
  }
  for (; i < n_cols; i++) pack_row(from + i * step, 0, n_k, to + 4 * i);
}

static int32_t sum_of(const int8_t *from, size_t n) {
  int32_t sum = 0;
  for (size_t k = 0; k < n; k++) sum += from[k];
  return sum;
}

// The initial sum of a column: its bias minus the contribution of the input's zero point.
static int32_t init_of(const int32_t *bias, const int8_t *column, size_t n, int32_t zero_point) {
  const uint32_t shift = (uint32_t)sum_of(column, n) * (uint32_t)zero_point;
  return (int32_t)((bias != NULL ? (uint32_t)*bias : 0) - shift);
}

void eti_xnn_q8_pack_goki__avx2(size_t n_groups, size_t n_cols, size_t n_taps, size_t n_k,
                                size_t nr, size_t kr, size_t sr, const void *weights,
                                const void *bias, const void *scale, void *packed,
                                size_t extra_bytes, const void *params) {
  ET_ASSERT(nr == COLS && kr == 4 && sr == 1);
  ET_ASSERT(n_groups > 0 && n_cols > 0 && n_taps > 0 && n_k > 0);
  ET_ASSERT(weights != NULL && packed != NULL && params != NULL);
  (void)nr, (void)kr, (void)sr, (void)scale;
  const int32_t zero_point = ((const struct xnn_qs8_packing_params *)params)->input_zero_point;
  const size_t column = n_taps * n_k, padded = (n_k + 3) / 4 * 4;
  const int32_t *biases = bias;
  const int8_t *from = weights;
  int8_t *to = packed;
  for (size_t g = 0; g < n_groups; g++, from += n_cols * column) {
    for (size_t first = 0; first < n_cols; first += COLS) {
      const size_t n = n_cols - first < COLS ? n_cols - first : COLS;
      for (size_t i = 0; i < n; i++) {
        const int32_t *const b = biases == NULL ? NULL : biases + g * n_cols + first + i;
        const int32_t init = init_of(b, from + (first + i) * column, column, zero_point);
        memcpy(to + i * sizeof init, &init, sizeof init);
      }
      to += COLS * sizeof(int32_t);
      for (size_t s = 0; s < n_taps; s++, to += padded * COLS)
        pack_tap(from + first * column + s * n_k, column, n, n_k, to);
      to += extra_bytes;
    }
  }
}

void eti_xnn_q8_pack_goi__avx2(size_t n_groups, size_t n_cols, size_t n_k, size_t nr, size_t kr,
                               size_t sr, const void *weights, const void *bias, const void *scale,
                               void *packed, size_t extra_bytes, const void *params) {
  eti_xnn_q8_pack_goki__avx2(n_groups, n_cols, 1, n_k, nr, kr, sr, weights, bias, scale, packed,
                             extra_bytes, params);
}
