// qgemm_avx2.c — the products of qgemm.h with 256-bit vectors of words: 6 rows × 2 vectors use 12
// of the 16 registers for sums, two for pairs of weights and one for the pair of a row.
#include "kernels/micro/qgemm/qgemm.h"

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

typedef __m256i vi;
typedef __m256 vf;

#define ISA(name) name##__avx2
#define LANES 8
#define PANELS 1
#define MR 6
#define VI_LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define VI_SET1(x) _mm256_set1_epi32(x)
#define VI_ADD(a, b) _mm256_add_epi32(a, b)
#define VI_SUB(a, b) _mm256_sub_epi32(a, b)
#define VI_MUL(a, b) _mm256_mullo_epi32(a, b)
#define VI_PAIRS(a, w) _mm256_madd_epi16(a, w)
#define VI_EVEN(w) _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8)
#define VI_ODD(w) _mm256_srai_epi16(w, 8)
#define VF_LOAD(p) _mm256_loadu_ps(p)
#define VF_STORE(p, v) _mm256_storeu_ps(p, v)
#define VF_SET1(x) _mm256_set1_ps(x)
#define VF_MUL(a, b) _mm256_mul_ps(a, b)
#define VF_ADD(a, b) _mm256_add_ps(a, b)
#define VF_MIN(a, b) _mm256_min_ps(a, b)
#define VF_OF(v) _mm256_cvtepi32_ps(v)
#define VI_ROUND(v) _mm256_cvtps_epi32(v)

// Channels of two taps as pairs of words.
static inline void zip(__m128i x, __m128i y, vi v[2]) {
  v[0] = _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(x, y));
  v[1] = _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(x, y));
}

// Narrows a panel of numbers plus zero, saturated.
static inline __m128i narrow(const vi v[2], int32_t zero) {
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi32(v[0], v[1]), 0xD8);
  const __m256i sum = _mm256_adds_epi16(packed, _mm256_set1_epi16((short)zero));
  return _mm_packs_epi16(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
}

#include "kernels/micro/qgemm/qgemm.body.h"
#include "kernels/micro/qgemm/qgemm_words.body.h"

const eti_qgemm_micro eti_qgemm_avx2 = {ETI_QROWS_WORDS, MR,        ISA(tile_i8), ISA(tile_f32),
                                        ISA(depthwise),  ISA(copy), ISA(arrange)};
