// qeltwise_vectors.h — i8 arithmetic of two operands, and lookup in a table of 256 bytes, with
// 256-bit vectors. Each sixteenth of the table serves the bytes with one upper half, and gives 0
// for the others. For files compiled with AVX2.
#ifndef ET_MICRO_QELTWISE_VECTORS_H
#define ET_MICRO_QELTWISE_VECTORS_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/micro/quantized/qeltwise.h"

// ---- two operands

static inline __m256 dequantized_8(__m128i bytes, __m256 scale, __m256 zero) {
  return _mm256_mul_ps(_mm256_sub_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), zero), scale);
}

// Integers of 8 values, without the zero point.
static inline __m256i quantized_8(__m256 a, __m256 b, __m256 inverse, int kind) {
  const __m256 value = kind == 0   ? _mm256_add_ps(a, b)
                       : kind == 1 ? _mm256_sub_ps(a, b)
                                   : _mm256_mul_ps(a, b);
  const __m256 most = _mm256_set1_ps(0x1p22f), least = _mm256_set1_ps(-0x1p22f);
  const __m256 scaled = _mm256_min_ps(_mm256_mul_ps(value, inverse), most);
  return _mm256_cvtps_epi32(_mm256_max_ps(scaled, least));
}

// Computes whole groups of sixteen values; returns the number of values done.
static inline __attribute__((always_inline)) size_t run_vectors(int8_t *out, const int8_t *a,
                                                                const int8_t *b, size_t a_step,
                                                                size_t b_step, const eti_qbinary *k,
                                                                size_t n, int kind) {
  const __m256 a_scale = _mm256_set1_ps(k->a_scale), a_zero = _mm256_set1_ps(k->a_zero);
  const __m256 b_scale = _mm256_set1_ps(k->b_scale), b_zero = _mm256_set1_ps(k->b_zero);
  const __m256 inverse = _mm256_set1_ps(k->inverse);
  const __m256i zero = _mm256_set1_epi16((short)k->zero);
  const __m128i low = _mm_set1_epi8((char)k->low), high = _mm_set1_epi8((char)k->high);
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    __m256i q[2];
    const __m128i x =
        a_step == 0 ? _mm_set1_epi8(a[0]) : _mm_loadu_si128((const __m128i *)(const void *)(a + i));
    const __m128i y =
        b_step == 0 ? _mm_set1_epi8(b[0]) : _mm_loadu_si128((const __m128i *)(const void *)(b + i));
    q[0] = quantized_8(dequantized_8(x, a_scale, a_zero), dequantized_8(y, b_scale, b_zero),
                       inverse, kind);
    q[1] = quantized_8(dequantized_8(_mm_srli_si128(x, 8), a_scale, a_zero),
                       dequantized_8(_mm_srli_si128(y, 8), b_scale, b_zero), inverse, kind);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi32(q[0], q[1]), 0xD8);
    const __m256i sum = _mm256_adds_epi16(packed, zero);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    _mm_storeu_si128((__m128i *)(void *)(out + i), _mm_min_epi8(_mm_max_epi8(bytes, low), high));
  }
  return i;
}

// ---- a table

enum { LOOKUP_PARTS = 16, LOOKUP_BYTES = 32 };

static inline __m256i lookup_32(__m256i bytes, const __m256i parts[LOOKUP_PARTS]) {
  __m256i result = _mm256_setzero_si256();
  for (int t = 0; t < LOOKUP_PARTS; t++) {
    // The index is below 128 if the upper halves agree; otherwise its highest bit is set, and the
    // shuffle gives 0.
    const __m256i mine = _mm256_xor_si256(bytes, _mm256_set1_epi8((char)(t << 4)));
    const __m256i index = _mm256_adds_epu8(mine, _mm256_set1_epi8(0x70));
    result = _mm256_or_si256(result, _mm256_shuffle_epi8(parts[t], index));
  }
  return result;
}

// out may be in.
static inline void lookup_bytes(int8_t *out, const int8_t *in, const int8_t *table, size_t n) {
  __m256i parts[LOOKUP_PARTS];
  for (int t = 0; t < LOOKUP_PARTS; t++) {
    // As unsigned numbers, 0 … 127 come first.
    const int8_t *const part = table + (t ^ 8) * LOOKUP_PARTS;
    parts[t] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)part));
  }
  size_t i = 0;
  for (; i + LOOKUP_BYTES <= n; i += LOOKUP_BYTES) {
    const __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)(in + i));
    _mm256_storeu_si256((__m256i *)(void *)(out + i), lookup_32(bytes, parts));
  }
  for (; i < n; i++) out[i] = table[in[i] + 128];
}

#endif  // ET_MICRO_QELTWISE_VECTORS_H
