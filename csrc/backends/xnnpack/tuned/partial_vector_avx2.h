// partial_vector_avx2.h — loads and stores of the first elements of a vector. Stores do not use a
// mask: on AMD's processors a masked store takes about twenty cycles, and more if two are in one
// cache line.
#ifndef ET_XNNPACK_PARTIAL_VECTOR_AVX2_H
#define ET_XNNPACK_PARTIAL_VECTOR_AVX2_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

// The first n of 8 elements; all of them if n is greater.
static inline __attribute__((always_inline)) void eti_store_some(float *at, __m256 v, size_t n) {
  if (n >= 8) {
    _mm256_storeu_ps(at, v);
    return;
  }
  __m128 left = _mm256_castps256_ps128(v);
  if (n & 4) {
    _mm_storeu_ps(at, left);
    left = _mm256_extractf128_ps(v, 1);
    at += 4;
  }
  if (n & 2) {
    _mm_storel_pi((__m64 *)(void *)at, left);
    left = _mm_movehl_ps(left, left);
    at += 2;
  }
  if (n & 1) _mm_store_ss(at, left);
}

// The first n of 8 elements, and zeros; all of them if n is greater.
static inline __attribute__((always_inline)) __m256 eti_load_some(const float *at, size_t n) {
  static const int32_t masks[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  if (n >= 8) return _mm256_loadu_ps(at);
  return _mm256_maskload_ps(at, _mm256_loadu_si256((const __m256i *)(const void *)(masks + 8 - n)));
}

#endif  // ET_XNNPACK_PARTIAL_VECTOR_AVX2_H
