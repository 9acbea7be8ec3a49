// qgemm_avx512.c — the products of qgemm.h with 512-bit vectors of words: a panel is one vector,
// and a tile has 12 rows of it. Needs AVX-512 F, BW, VL.
#include "kernels/micro/qgemm/qgemm.h"

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

typedef __m512i vi;
typedef __m512 vf;

#define ISA(name) name##__avx512
#define LANES 16
#define PANELS 1
#define MR 12
#define VI_LOAD(p) _mm512_loadu_si512((const void *)(p))
#define VI_SET1(x) _mm512_set1_epi32(x)
#define VI_ADD(a, b) _mm512_add_epi32(a, b)
#define VI_SUB(a, b) _mm512_sub_epi32(a, b)
#define VI_MUL(a, b) _mm512_mullo_epi32(a, b)
#define VI_PAIRS(a, w) _mm512_madd_epi16(a, w)
#define VI_EVEN(w) _mm512_srai_epi16(_mm512_slli_epi16(w, 8), 8)
#define VI_ODD(w) _mm512_srai_epi16(w, 8)
#define VF_LOAD(p) _mm512_loadu_ps(p)
#define VF_STORE(p, v) _mm512_storeu_ps(p, v)
#define VF_SET1(x) _mm512_set1_ps(x)
#define VF_MUL(a, b) _mm512_mul_ps(a, b)
#define VF_ADD(a, b) _mm512_add_ps(a, b)
#define VF_MIN(a, b) _mm512_min_ps(a, b)
#define VF_OF(v) _mm512_cvtepi32_ps(v)
#define VI_ROUND(v) _mm512_cvtps_epi32(v)

// Channels of two taps as pairs of words.
static inline void zip(__m128i x, __m128i y, vi v[1]) {
  v[0] = _mm512_cvtepi8_epi16(_mm256_set_m128i(_mm_unpackhi_epi8(x, y), _mm_unpacklo_epi8(x, y)));
}

// Narrows a panel of numbers plus zero, saturated.
static inline __m128i narrow(const vi v[1], int32_t zero) {
  const __m256i sum =
      _mm256_adds_epi16(_mm512_cvtsepi32_epi16(v[0]), _mm256_set1_epi16((short)zero));
  return _mm256_cvtsepi16_epi8(sum);
}

#include "kernels/micro/qgemm/qgemm.body.h"
#include "kernels/micro/qgemm/qgemm_words.body.h"

const eti_qgemm_micro eti_qgemm_avx512 = {ETI_QROWS_WORDS, MR,        ISA(tile_i8), ISA(tile_f32),
                                          ISA(depthwise),  ISA(copy), ISA(arrange)};
