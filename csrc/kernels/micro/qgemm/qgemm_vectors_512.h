// qgemm_vectors_512.h — the operations of qgemm.body.h and the files after it on 512-bit vectors:
// VI_ on words of 32 bits, VF_ on f32, VB_ on bytes and words of 16 bits.
#ifndef ET_MICRO_QGEMM_VECTORS_512_H
#define ET_MICRO_QGEMM_VECTORS_512_H

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/micro/qgemm/qgemm.h"

typedef __m512i vi;
typedef __m512 vf;

#define BYTES 64
#define LANES 16
#define VI_LOAD(p) _mm512_loadu_si512((const void *)(p))
#define VI_SET1(x) _mm512_set1_epi32(x)
#define VI_ADD(a, b) _mm512_add_epi32(a, b)
#define VI_SUB(a, b) _mm512_sub_epi32(a, b)
#define VI_MUL(a, b) _mm512_mullo_epi32(a, b)
#define VI_OF_I8(p) _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define VI_TOTAL(v) _mm512_reduce_add_epi32(v)
#define VI_OVER_8(v) _mm512_srai_epi32(v, 3)
#define VI_TIMES_16(v) _mm512_slli_epi32(v, 4)
#define VI_PAIRS(a, w) _mm512_madd_epi16(a, w)
#define VI_EVEN(w) _mm512_srai_epi16(_mm512_slli_epi16(w, 8), 8)
#define VI_ODD(w) _mm512_srai_epi16(w, 8)
#define VI_ROUND(v) _mm512_cvtps_epi32(v)
#define VF_LOAD(p) _mm512_loadu_ps(p)
#define VF_STORE(p, v) _mm512_storeu_ps(p, v)
#define VF_SET1(x) _mm512_set1_ps(x)
#define VF_MUL(a, b) _mm512_mul_ps(a, b)
#define VF_ADD(a, b) _mm512_add_ps(a, b)
#define VF_SUB(a, b) _mm512_sub_ps(a, b)
#define VF_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define VF_MIN(a, b) _mm512_min_ps(a, b)
#define VF_OF(v) _mm512_cvtepi32_ps(v)
#define VF_OF_BF16(p)                    \
  _mm512_castsi512_ps(_mm512_slli_epi32( \
      _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(p))), 16))
#define VF_OF_F16(p) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(p)))
#define VB_STORE(p, v) _mm512_storeu_si512((void *)(p), v)
#define VB_SET1(x) _mm512_set1_epi8(x)
#define VB_SET1_16(x) _mm512_set1_epi16(x)
#define VB_XOR(a, b) _mm512_xor_si512(a, b)
#define VB_LOW_4(v) _mm512_and_si512(v, _mm512_set1_epi8(15))
#define VB_HIGH_4(v) VB_LOW_4(_mm512_srli_epi16(v, 4))
#define VB_LOW_8(a, b) _mm512_unpacklo_epi8(a, b)
#define VB_HIGH_8(a, b) _mm512_unpackhi_epi8(a, b)
#define VB_LOW_16(a, b) _mm512_unpacklo_epi16(a, b)
#define VB_HIGH_16(a, b) _mm512_unpackhi_epi16(a, b)
#define VB_PACKS_32(a, b) _mm512_packs_epi32(a, b)
#define VB_PACKS_16(a, b) _mm512_packs_epi16(a, b)
#define VB_ADDS_16(a, b) _mm512_adds_epi16(a, b)
#define VB_MAX(a, b) _mm512_max_epi8(a, b)

// Narrows a panel of numbers plus zero, saturated.
static inline __m128i narrow(const vi v[1], int32_t zero) {
  const __m256i sum =
      _mm256_adds_epi16(_mm512_cvtsepi32_epi16(v[0]), _mm256_set1_epi16((short)zero));
  return _mm256_cvtsepi16_epi8(sum);
}

// Stores two rows of bytes, of which a lane has four of each vector: of a row's first and second
// vector, then of the next row's.
static inline void store_rows(int8_t *first, int8_t *second, vi bytes) {
  const vi order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const vi rows = _mm512_permutexvar_epi32(order, bytes);
  _mm256_storeu_si256((__m256i *)(void *)first, _mm512_castsi512_si256(rows));
  _mm256_storeu_si256((__m256i *)(void *)second, _mm512_extracti64x4_epi64(rows, 1));
}

#endif  // ET_MICRO_QGEMM_VECTORS_512_H
