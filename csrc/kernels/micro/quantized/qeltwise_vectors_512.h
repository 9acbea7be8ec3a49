// qeltwise_vectors_512.h — i8 arithmetic of two operands with 512-bit vectors, the last one under a
// mask. For files compiled with AVX-512 F, BW, DQ, VL.
#ifndef ET_MICRO_QELTWISE_VECTORS_512_H
#define ET_MICRO_QELTWISE_VECTORS_512_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/micro/quantized/qeltwise.h"

#define INLINE_512 static inline __attribute__((always_inline))

enum { AT_ONCE = 64, GROUP = 16 };

typedef struct numbers {
  __m512 a_scale, b_scale, inverse;
  __m512i a_zero, b_zero, zero, low, high;
} numbers;

INLINE_512 __m512 dequantized_16(__m128i bytes, __m512 scale, __m512i zero) {
  return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_cvtepi8_epi32(bytes), zero)),
                       scale);
}

// The sixteen bytes of p that are among some, or one repeated.
INLINE_512 __m128i load_16(const int8_t *p, size_t step, __mmask16 some) {
  return step == 0 ? _mm_set1_epi8(p[0]) : _mm_maskz_loadu_epi8(some, p);
}

// Integers of 16 values, without the zero point.
INLINE_512 __m512i quantized_16(__m128i a, __m128i b, const numbers *k, int kind, bool is_limited) {
  const __m512 x = dequantized_16(a, k->a_scale, k->a_zero);
  const __m512 y = dequantized_16(b, k->b_scale, k->b_zero);
  const __m512 value = kind == 0   ? _mm512_add_ps(x, y)
                       : kind == 1 ? _mm512_sub_ps(x, y)
                                   : _mm512_mul_ps(x, y);
  const __m512 scaled = _mm512_mul_ps(value, k->inverse);
  if (is_limited) return _mm512_cvtps_epi32(scaled);
  const __m512 most = _mm512_set1_ps(0x1p22f), least = _mm512_set1_ps(-0x1p22f);
  return _mm512_cvtps_epi32(_mm512_max_ps(_mm512_min_ps(scaled, most), least));
}

// Results of AT_ONCE values.
INLINE_512 __m512i results_64(const int8_t *a, const int8_t *b, size_t a_step, size_t b_step,
                              const numbers *k, int kind, bool is_limited) {
  // Packing takes four values of each vector in turn.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __m512i q[4];
  for (size_t j = 0; j < 4; j++) {
    const __m128i x = load_16(a + j * a_step * GROUP, a_step, 0xFFFF);
    q[j] = quantized_16(x, load_16(b + j * b_step * GROUP, b_step, 0xFFFF), k, kind, is_limited);
  }
  const __m512i first = _mm512_adds_epi16(_mm512_packs_epi32(q[0], q[1]), k->zero);
  const __m512i second = _mm512_adds_epi16(_mm512_packs_epi32(q[2], q[3]), k->zero);
  const __m512i bytes = _mm512_permutexvar_epi32(order, _mm512_packs_epi16(first, second));
  return _mm512_min_epi8(_mm512_max_epi8(bytes, k->low), k->high);
}

// Results of the first GROUP values.
INLINE_512 __m128i results_16(__m128i a, __m128i b, const numbers *k, int kind, bool is_limited) {
  const __m256i words = _mm512_cvtsepi32_epi16(quantized_16(a, b, k, kind, is_limited));
  const __m128i bytes =
      _mm256_cvtsepi16_epi8(_mm256_adds_epi16(words, _mm512_castsi512_si256(k->zero)));
  return _mm_min_epi8(_mm_max_epi8(bytes, _mm512_castsi512_si128(k->low)),
                      _mm512_castsi512_si128(k->high));
}

INLINE_512 void run_groups(int8_t *out, const int8_t *a, const int8_t *b, size_t a_step,
                           size_t b_step, const numbers *k, size_t n, int kind, bool is_limited) {
  size_t i = 0;
  for (; i + AT_ONCE <= n; i += AT_ONCE) {
    _mm512_storeu_si512((void *)(out + i), results_64(a + i * a_step, b + i * b_step, a_step,
                                                      b_step, k, kind, is_limited));
  }
  for (; i < n; i += GROUP) {
    const __mmask16 some = (__mmask16)(n - i < GROUP ? (1u << (n - i)) - 1u : 0xFFFFu);
    const __m128i x = load_16(a + i * a_step, a_step, some);
    const __m128i y = load_16(b + i * b_step, b_step, some);
    _mm_mask_storeu_epi8(out + i, some, results_16(x, y, k, kind, is_limited));
  }
}

// Computes all values, the last ones under a mask; returns their number.
INLINE_512 size_t run_wide_vectors(int8_t *out, const int8_t *a, const int8_t *b, size_t a_step,
                                   size_t b_step, const eti_qbinary *k, size_t n, int kind) {
  const numbers all = {
      .a_scale = _mm512_set1_ps(k->a_scale),
      .b_scale = _mm512_set1_ps(k->b_scale),
      .inverse = _mm512_set1_ps(k->inverse),
      .a_zero = _mm512_set1_epi32((int)k->a_zero),
      .b_zero = _mm512_set1_epi32((int)k->b_zero),
      .zero = _mm512_set1_epi16((short)k->zero),
      .low = _mm512_set1_epi8((char)k->low),
      .high = _mm512_set1_epi8((char)k->high),
  };
  if (eti_qbinary_is_limited(k, kind)) {
    run_groups(out, a, b, a_step, b_step, &all, n, kind, true);
  } else {
    run_groups(out, a, b, a_step, b_step, &all, n, kind, false);
  }
  return n;
}

#undef INLINE_512

#endif  // ET_MICRO_QELTWISE_VECTORS_512_H
