// transposev_avx2.c — XNNPACK's transposition of elements of any size, on 256-bit vectors: see
// gemm_kernels.h. Compiled with AVX2.
#include "backends/xnnpack/tuned/gemm/gemm_kernels.h"

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "runtime/check.h"

enum { VECTOR_BYTES = 32, MANY_BYTES = 2048 };  // from MANY_BYTES on a call of memcpy costs nothing

static inline void copy(uint8_t *to, const uint8_t *from, size_t n) {
  if (n < VECTOR_BYTES || n >= MANY_BYTES) {
    memcpy(to, from, n);
    return;
  }
  size_t i = 0;
  for (; i + VECTOR_BYTES <= n; i += VECTOR_BYTES)
    _mm256_storeu_si256((__m256i *)(void *)(to + i),
                        _mm256_loadu_si256((const __m256i *)(const void *)(from + i)));
  if (i == n) return;
  i = n - VECTOR_BYTES;  // the last vector overlaps the one before
  _mm256_storeu_si256((__m256i *)(void *)(to + i),
                      _mm256_loadu_si256((const __m256i *)(const void *)(from + i)));
}

void eti_xnn_xx_transpose__avx2(const void *from, void *to, size_t from_row_bytes,
                                size_t to_row_bytes, size_t from_element_bytes,
                                size_t to_element_bytes, size_t element_bytes, size_t width,
                                size_t height) {
  ET_ASSERT(from != NULL && to != NULL && element_bytes > 0);
  for (size_t i = 0; i < width; i++) {
    const uint8_t *source = (const uint8_t *)from + i * from_element_bytes;
    uint8_t *target = (uint8_t *)to + i * to_row_bytes;
    for (size_t j = 0; j < height; j++) {
      copy(target, source, element_bytes);
      source += from_row_bytes;
      target += to_element_bytes;
    }
  }
}
