// pack_f32_avx2.c — packs a convolution's weights for the kernels of gemm_f32_avx2.c. XNNPACK's own
// function moves one element at a time; that was half of the time of a load. Compiled with AVX2.
#include "backends/xnnpack/tuned/gemm/gemm_kernels.h"

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "runtime/check.h"

enum { LANES = 8 };

// to[nr j + i] = from[i * step + j] for i, j < 8.
static void transpose_8x8(const float *from, size_t step, size_t nr, float *to) {
  __m256 in[LANES], pairs[LANES], quads[LANES];
  for (size_t i = 0; i < LANES; i++) in[i] = _mm256_loadu_ps(from + i * step);
  for (size_t i = 0; i < LANES; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(in[i], in[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(in[i], in[i + 1]);
  }
  for (size_t i = 0; i < LANES; i += 4) {
    quads[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    quads[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
    quads[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    quads[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
  }
  for (size_t j = 0; j < LANES / 2; j++) {
    const __m256 low = quads[j], high = quads[j + 4];
    _mm256_storeu_ps(to + j * nr, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(to + (j + 4) * nr, _mm256_permute2f128_ps(low, high, 0x31));
  }
}

// to[nr j + i] = from[i * step + j] for i < n_cols, j < n_k; columns from n_cols on are not
// written.
static void pack_tap(const float *from, size_t step, size_t n_cols, size_t n_k, size_t nr,
                     float *to) {
  size_t i = 0;
  for (; i + LANES <= n_cols; i += LANES) {
    size_t j = 0;
    for (; j + LANES <= n_k; j += LANES)
      transpose_8x8(from + i * step + j, step, nr, to + j * nr + i);
    for (; j < n_k; j++)
      for (size_t c = i; c < i + LANES; c++) to[j * nr + c] = from[c * step + j];
  }
  for (; i < n_cols; i++)
    for (size_t j = 0; j < n_k; j++) to[j * nr + i] = from[i * step + j];
}

void eti_xnn_f32_pack_goki__avx2(size_t n_groups, size_t n_cols, size_t n_taps, size_t n_k,
                                 size_t nr, size_t kr, size_t sr, const void *weights,
                                 const void *bias, const void *scale, void *packed,
                                 size_t extra_bytes, const void *params) {
  ET_ASSERT(nr % LANES == 0 && kr == 1 && sr == 1 && extra_bytes % sizeof(float) == 0);
  ET_ASSERT(n_groups > 0 && n_cols > 0 && n_taps > 0 && n_k > 0);
  ET_ASSERT(weights != NULL && packed != NULL);
  (void)kr, (void)sr, (void)scale, (void)params;
  const size_t column = n_taps * n_k;
  const float *const biases = bias;
  float *to = packed;
  for (size_t g = 0; g < n_groups; g++) {
    for (size_t first = 0; first < n_cols; first += nr) {
      const size_t n = n_cols - first < nr ? n_cols - first : nr;
      if (bias != NULL) memcpy(to, biases + g * n_cols + first, n * sizeof *to);
      to += nr;
      const float *const from = (const float *)weights + (g * n_cols + first) * column;
      for (size_t s = 0; s < n_taps; s++, to += n_k * nr)
        pack_tap(from + s * n_k, column, n, n_k, nr, to);
      to = (float *)(void *)((uint8_t *)to + extra_bytes);
    }
  }
}
