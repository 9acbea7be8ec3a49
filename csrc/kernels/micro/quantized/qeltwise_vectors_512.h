// qeltwise_vectors_512.h — i8 arithmetic of two operands with 512-bit vectors, the last one under a
// mask. For files compiled with AVX-512 F, BW, DQ, VL.
#ifndef ET_MICRO_QELTWISE_VECTORS_512_H
#define ET_MICRO_QELTWISE_VECTORS_512_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/micro/quantized/qeltwise.h"

#define INLINE_512 static inline __attribute__((always_inline))

enum { AT_ONCE = 64, GROUP = 16 };

typedef struct numbers {
  __m512 a_scale, a_zero, b_scale, b_zero, inverse;
} numbers;

INLINE_512 __m512 dequantized_16(__m128i bytes, __m512 scale, __m512 zero) {
  return _mm512_mul_ps(_mm512_sub_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)), zero), scale);
}

// The sixteen bytes of p + at that are among n of them, or one repeated.
INLINE_512 __m128i load_16(const int8_t *p, size_t step, size_t at, size_t n) {
  if (step == 0) return _mm_set1_epi8(p[0]);
  if (n >= AT_ONCE) return _mm_loadu_si128((const __m128i *)(const void *)(p + at));
  const size_t left = n < at ? 0 : n - at < GROUP ? n - at : GROUP;
  return _mm_maskz_loadu_epi8((__mmask16)((1u << left) - 1u), p + at);
}

// Integers of 16 values, without the zero point.
INLINE_512 __m512i quantized_16(const int8_t *a, const int8_t *b, size_t a_step, size_t b_step,
                                size_t at, size_t n, const numbers *k, int kind) {
  const __m512 x = dequantized_16(load_16(a, a_step, at, n), k->a_scale, k->a_zero);
  const __m512 y = dequantized_16(load_16(b, b_step, at, n), k->b_scale, k->b_zero);
  const __m512 value = kind == 0   ? _mm512_add_ps(x, y)
                       : kind == 1 ? _mm512_sub_ps(x, y)
                                   : _mm512_mul_ps(x, y);
  const __m512 most = _mm512_set1_ps(0x1p22f), least = _mm512_set1_ps(-0x1p22f);
  const __m512 scaled = _mm512_min_ps(_mm512_mul_ps(value, k->inverse), most);
  return _mm512_cvtps_epi32(_mm512_max_ps(scaled, least));
}

// The limits of results, and their zero point.
typedef struct ends {
  __m512i zero, low, high;
} ends;

// Results of n values, at most AT_ONCE.
INLINE_512 __m512i results_64(const int8_t *a, const int8_t *b, size_t a_step, size_t b_step,
                              size_t n, const numbers *k, const ends *e, int kind) {
  // Packing takes four values of each vector in turn.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __m512i q[4];
  for (size_t j = 0; j < 4; j++) q[j] = quantized_16(a, b, a_step, b_step, j * GROUP, n, k, kind);
  const __m512i first = _mm512_adds_epi16(_mm512_packs_epi32(q[0], q[1]), e->zero);
  const __m512i second = _mm512_adds_epi16(_mm512_packs_epi32(q[2], q[3]), e->zero);
  const __m512i bytes = _mm512_permutexvar_epi32(order, _mm512_packs_epi16(first, second));
  return _mm512_min_epi8(_mm512_max_epi8(bytes, e->low), e->high);
}

// Computes all values, the last ones under a mask; returns their number.
INLINE_512 size_t run_wide_vectors(int8_t *out, const int8_t *a, const int8_t *b, size_t a_step,
                                   size_t b_step, const eti_qbinary *k, size_t n, int kind) {
  const numbers all = {_mm512_set1_ps(k->a_scale), _mm512_set1_ps(k->a_zero),
                       _mm512_set1_ps(k->b_scale), _mm512_set1_ps(k->b_zero),
                       _mm512_set1_ps(k->inverse)};
  const ends e = {_mm512_set1_epi16((short)k->zero), _mm512_set1_epi8((char)k->low),
                  _mm512_set1_epi8((char)k->high)};
  size_t i = 0;
  for (; i + AT_ONCE <= n; i += AT_ONCE) {
    _mm512_storeu_si512((void *)(out + i), results_64(a + i * a_step, b + i * b_step, a_step,
                                                      b_step, AT_ONCE, &all, &e, kind));
  }
  if (i < n) {
    const __mmask64 some = ((__mmask64)1 << (n - i)) - 1;
    _mm512_mask_storeu_epi8(
        out + i, some,
        results_64(a + i * a_step, b + i * b_step, a_step, b_step, n - i, &all, &e, kind));
  }
  return n;
}

#undef INLINE_512

#endif  // ET_MICRO_QELTWISE_VECTORS_512_H
