// qgemm_vectors_256.h — the operations of qgemm.body.h and the files after it on 256-bit vectors:
// VI_ on words of 32 bits, VF_ on f32, VB_ on bytes and words of 16 bits.
#ifndef ET_MICRO_QGEMM_VECTORS_256_H
#define ET_MICRO_QGEMM_VECTORS_256_H

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/micro/qgemm/qgemm.h"

typedef __m256i vi;
typedef __m256 vf;

#define BYTES 32
#define LANES 8
#define VI_LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define VI_SET1(x) _mm256_set1_epi32(x)
#define VI_ADD(a, b) _mm256_add_epi32(a, b)
#define VI_SUB(a, b) _mm256_sub_epi32(a, b)
#define VI_MUL(a, b) _mm256_mullo_epi32(a, b)
#define VI_OVER_8(v) _mm256_srai_epi32(v, 3)
#define VI_TIMES_16(v) _mm256_slli_epi32(v, 4)
#define VI_OF_I8(p) _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(p)))
#define VI_TOTAL(v) total_of(v)
#define VI_PAIRS(a, w) _mm256_madd_epi16(a, w)
#define VI_EVEN(w) _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8)
#define VI_ODD(w) _mm256_srai_epi16(w, 8)
#define VI_ROUND(v) _mm256_cvtps_epi32(v)
#define VF_LOAD(p) _mm256_loadu_ps(p)
#define VF_STORE(p, v) _mm256_storeu_ps(p, v)
#define VF_SET1(x) _mm256_set1_ps(x)
#define VF_MUL(a, b) _mm256_mul_ps(a, b)
#define VF_ADD(a, b) _mm256_add_ps(a, b)
#define VF_SUB(a, b) _mm256_sub_ps(a, b)
#define VF_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define VF_MIN(a, b) _mm256_min_ps(a, b)
#define VF_OF(v) _mm256_cvtepi32_ps(v)
#define VF_OF_BF16(p)                    \
  _mm256_castsi256_ps(_mm256_slli_epi32( \
      _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(p))), 16))
#define VF_OF_F16(p) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define VB_STORE(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define VB_SET1(x) _mm256_set1_epi8(x)
#define VB_SET1_16(x) _mm256_set1_epi16(x)
#define VB_XOR(a, b) _mm256_xor_si256(a, b)
#define VB_LOW_4(v) _mm256_and_si256(v, _mm256_set1_epi8(15))
#define VB_HIGH_4(v) VB_LOW_4(_mm256_srli_epi16(v, 4))
#define VB_LOW_8(a, b) _mm256_unpacklo_epi8(a, b)
#define VB_HIGH_8(a, b) _mm256_unpackhi_epi8(a, b)
#define VB_LOW_16(a, b) _mm256_unpacklo_epi16(a, b)
#define VB_HIGH_16(a, b) _mm256_unpackhi_epi16(a, b)
#define VB_PACKS_32(a, b) _mm256_packs_epi32(a, b)
#define VB_PACKS_16(a, b) _mm256_packs_epi16(a, b)
#define VB_ADDS_16(a, b) _mm256_adds_epi16(a, b)
#define VB_MAX(a, b) _mm256_max_epi8(a, b)

// The sum of all words.
static inline int32_t total_of(vi v) {
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  sum = _mm_add_epi32(sum, _mm_unpackhi_epi64(sum, sum));
  return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_srli_epi64(sum, 32)));
}

// Narrows a panel of numbers plus zero, saturated.
static inline __m128i narrow(const vi v[2], int32_t zero) {
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi32(v[0], v[1]), 0xD8);
  const __m256i sum = _mm256_adds_epi16(packed, _mm256_set1_epi16((short)zero));
  return _mm_packs_epi16(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
}

// Stores two rows of bytes, of which a lane has four of each vector: of a row's first and second
// vector, then of the next row's.
static inline void store_rows(int8_t *first, int8_t *second, vi bytes) {
  const vi order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const vi rows = _mm256_permutevar8x32_epi32(bytes, order);
  _mm_storeu_si128((__m128i *)(void *)first, _mm256_castsi256_si128(rows));
  _mm_storeu_si128((__m128i *)(void *)second, _mm256_extracti128_si256(rows, 1));
}

#endif  // ET_MICRO_QGEMM_VECTORS_256_H
