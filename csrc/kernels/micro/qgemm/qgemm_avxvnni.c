// qgemm_avxvnni.c — the products of qgemm.h with VPDPBUSD on 256-bit vectors: 6 rows × 2 vectors
// use 12 of the 16 registers for sums. Needs AVX2 and AVX-VNNI.
#include "kernels/micro/qgemm/qgemm.h"

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

typedef __m256i vi;
typedef __m256 vf;

#define ISA(name) name##__avxvnni
#define LANES 8
#define PANELS 1
#define MR 6
#define VI_LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define VI_SET1(x) _mm256_set1_epi32(x)
#define VI_ADD(a, b) _mm256_add_epi32(a, b)
#define VI_SUB(a, b) _mm256_sub_epi32(a, b)
#define VI_MUL(a, b) _mm256_mullo_epi32(a, b)
#define VI_DOT(sum, a, w) add_products(sum, a, w)
#define VF_LOAD(p) _mm256_loadu_ps(p)
#define VF_STORE(p, v) _mm256_storeu_ps(p, v)
#define VF_SET1(x) _mm256_set1_ps(x)
#define VF_MUL(a, b) _mm256_mul_ps(a, b)
#define VF_ADD(a, b) _mm256_add_ps(a, b)
#define VF_MIN(a, b) _mm256_min_ps(a, b)
#define VF_OF(v) _mm256_cvtepi32_ps(v)
#define VI_ROUND(v) _mm256_cvtps_epi32(v)
#define BYTES 32
#define VB_SET1(x) _mm256_set1_epi8(x)
#define VB_SET1_16(x) _mm256_set1_epi16(x)
#define VB_XOR(a, b) _mm256_xor_si256(a, b)
#define VB_LOW_8(a, b) _mm256_unpacklo_epi8(a, b)
#define VB_HIGH_8(a, b) _mm256_unpackhi_epi8(a, b)
#define VB_LOW_16(a, b) _mm256_unpacklo_epi16(a, b)
#define VB_HIGH_16(a, b) _mm256_unpackhi_epi16(a, b)
#define VB_PACKS_32(a, b) _mm256_packs_epi32(a, b)
#define VB_PACKS_16(a, b) _mm256_packs_epi16(a, b)
#define VB_ADDS_16(a, b) _mm256_adds_epi16(a, b)
#define VB_MAX(a, b) _mm256_max_epi8(a, b)
#define VF_CAST(v) _mm256_castsi256_ps(v)
#define VB_LOAD_PART(p, n) load_half(p, n)
#define VB_STORE(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define VB_STORE_PART(p, v, n) store_half(p, v, n)

// Adds products to a sum. The asm keeps it in one register: for the intrinsic gcc 12 copies it
// twice.
static inline vi add_products(vi sum, vi a, vi w) {
  __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(a), "x"(w));
  return sum;
}

// Narrows a panel of numbers plus zero, saturated.
static inline __m128i narrow(const vi v[2], int32_t zero) {
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi32(v[0], v[1]), 0xD8);
  const __m256i sum = _mm256_adds_epi16(packed, _mm256_set1_epi16((short)zero));
  return _mm_packs_epi16(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
}

#include "kernels/micro/qgemm/qgemm.body.h"

// Loads 1 ≤ n ≤ 32 bytes, and zeros.
static inline __m256i load_half(const int8_t *p, size_t n) {
  const __m128i second = n > NR ? load_part(p + NR, n - NR) : _mm_setzero_si128();
  return _mm256_set_m128i(second, load_part(p, n));
}

static inline void store_half(int8_t *p, __m256i v, size_t n) {
  const __m128i first = _mm256_castsi256_si128(v);
  if (n < NR) {
    store_part(p, first, n);
    return;
  }
  _mm_storeu_si128((__m128i *)(void *)p, first);
  store_part(p + NR, _mm256_extracti128_si256(v, 1), n - NR);
}

#include "kernels/micro/qgemm/qgemm_dot.body.h"

const eti_qgemm_micro eti_qgemm_avxvnni = {ETI_QROWS_U8,   MR,        ISA(tile_i8), ISA(tile_f32),
                                           ISA(depthwise), ISA(copy), NULL};
