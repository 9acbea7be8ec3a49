// qeltwise_vectors_256.h — i8 arithmetic of two operands with 256-bit vectors. For files compiled
// with AVX2.
#ifndef ET_MICRO_QELTWISE_VECTORS_256_H
#define ET_MICRO_QELTWISE_VECTORS_256_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/micro/quantized/qeltwise.h"

#define INLINE_256 static inline __attribute__((always_inline))

typedef struct operand_numbers {
  __m256 scale;
  __m256i zero;
} operand_numbers;

INLINE_256 operand_numbers operand_of(float scale, float zero) {
  return (operand_numbers){_mm256_set1_ps(scale), _mm256_set1_epi32((int)zero)};
}

// Sixteen bytes, or one repeated.
INLINE_256 __m128i load_16(const int8_t *p, size_t step) {
  return step == 0 ? _mm_set1_epi8(p[0]) : _mm_loadu_si128((const __m128i *)(const void *)p);
}

INLINE_256 __m256 dequantized_8(__m128i bytes, const operand_numbers *k) {
  return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_cvtepi8_epi32(bytes), k->zero)),
                       k->scale);
}

// Integers of 8 values, without the zero point.
INLINE_256 __m256i quantized_8(__m256 a, __m256 b, __m256 inverse, int kind, bool is_limited) {
  const __m256 value = kind == 0   ? _mm256_add_ps(a, b)
                       : kind == 1 ? _mm256_sub_ps(a, b)
                                   : _mm256_mul_ps(a, b);
  const __m256 scaled = _mm256_mul_ps(value, inverse);
  if (is_limited) return _mm256_cvtps_epi32(scaled);
  const __m256 most = _mm256_set1_ps(0x1p22f), least = _mm256_set1_ps(-0x1p22f);
  return _mm256_cvtps_epi32(_mm256_max_ps(_mm256_min_ps(scaled, most), least));
}

INLINE_256 size_t run_groups(int8_t *out, const int8_t *a, const int8_t *b, size_t a_step,
                             size_t b_step, const eti_qbinary *k, size_t n, int kind,
                             bool is_limited) {
  const operand_numbers of_a = operand_of(k->a_scale, k->a_zero);
  const operand_numbers of_b = operand_of(k->b_scale, k->b_zero);
  const __m256 inverse = _mm256_set1_ps(k->inverse);
  const __m256i zero = _mm256_set1_epi16((short)k->zero);
  const __m128i low = _mm_set1_epi8((char)k->low), high = _mm_set1_epi8((char)k->high);
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m128i x = load_16(a + i * a_step, a_step), y = load_16(b + i * b_step, b_step);
    const __m256i q[2] = {
        quantized_8(dequantized_8(x, &of_a), dequantized_8(y, &of_b), inverse, kind, is_limited),
        quantized_8(dequantized_8(_mm_srli_si128(x, 8), &of_a),
                    dequantized_8(_mm_srli_si128(y, 8), &of_b), inverse, kind, is_limited)};
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi32(q[0], q[1]), 0xD8);
    const __m256i sum = _mm256_adds_epi16(packed, zero);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    _mm_storeu_si128((__m128i *)(void *)(out + i), _mm_min_epi8(_mm_max_epi8(bytes, low), high));
  }
  return i;
}

// Computes whole groups of sixteen values; returns the number of values done.
INLINE_256 size_t run_vectors(int8_t *out, const int8_t *a, const int8_t *b, size_t a_step,
                              size_t b_step, const eti_qbinary *k, size_t n, int kind) {
  return eti_qbinary_is_limited(k, kind) ? run_groups(out, a, b, a_step, b_step, k, n, kind, true)
                                         : run_groups(out, a, b, a_step, b_step, k, n, kind, false);
}

#undef INLINE_256

#endif  // ET_MICRO_QELTWISE_VECTORS_256_H
