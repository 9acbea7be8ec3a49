// qgemm_avx512vnni.c — the products of qgemm.h with VPDPBUSD on 512-bit vectors: a panel is one
// vector, and a tile has 12 rows of two panels, in 24 of the 32 registers. Needs AVX-512 F, BW, VL,
// VNNI.
#include "kernels/micro/qgemm/qgemm.h"

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

typedef __m512i vi;
typedef __m512 vf;

#define ISA(name) name##__avx512vnni
#define LANES 16
#define PANELS 2
#define MR 12
#define VI_LOAD(p) _mm512_loadu_si512((const void *)(p))
#define VI_SET1(x) _mm512_set1_epi32(x)
#define VI_ADD(a, b) _mm512_add_epi32(a, b)
#define VI_SUB(a, b) _mm512_sub_epi32(a, b)
#define VI_MUL(a, b) _mm512_mullo_epi32(a, b)
#define VI_DOT(sum, a, w) add_products(sum, a, w)
#define VF_LOAD(p) _mm512_loadu_ps(p)
#define VF_STORE(p, v) _mm512_storeu_ps(p, v)
#define VF_SET1(x) _mm512_set1_ps(x)
#define VF_MUL(a, b) _mm512_mul_ps(a, b)
#define VF_ADD(a, b) _mm512_add_ps(a, b)
#define VF_MIN(a, b) _mm512_min_ps(a, b)
#define VF_OF(v) _mm512_cvtepi32_ps(v)
#define VI_ROUND(v) _mm512_cvtps_epi32(v)
#define BYTES 64
#define VB_SET1(x) _mm512_set1_epi8(x)
#define VB_SET1_16(x) _mm512_set1_epi16(x)
#define VB_XOR(a, b) _mm512_xor_si512(a, b)
#define VB_LOW_8(a, b) _mm512_unpacklo_epi8(a, b)
#define VB_HIGH_8(a, b) _mm512_unpackhi_epi8(a, b)
#define VB_LOW_16(a, b) _mm512_unpacklo_epi16(a, b)
#define VB_HIGH_16(a, b) _mm512_unpackhi_epi16(a, b)
#define VB_PACKS_32(a, b) _mm512_packs_epi32(a, b)
#define VB_PACKS_16(a, b) _mm512_packs_epi16(a, b)
#define VB_ADDS_16(a, b) _mm512_adds_epi16(a, b)
#define VB_MAX(a, b) _mm512_max_epi8(a, b)
#define VF_CAST(v) _mm512_castsi512_ps(v)
#define VB_LOAD_PART(p, n) _mm512_maskz_loadu_epi8(first_bytes(n), p)
#define VB_STORE(p, v) _mm512_storeu_si512((void *)(p), v)
#define VB_STORE_PART(p, v, n) _mm512_mask_storeu_epi8(p, first_bytes(n), v)

// The first 1 ≤ n ≤ 64 bytes.
static inline __mmask64 first_bytes(size_t n) {
  return UINT64_MAX >> (64 - n);
}

// Adds products to a sum. The asm keeps it in one register: for the intrinsic gcc 12 copies it
// twice.
static inline vi add_products(vi sum, vi a, vi w) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(w));
  return sum;
}

// Narrows a panel of numbers plus zero, saturated.
static inline __m128i narrow(const vi v[1], int32_t zero) {
  const __m256i sum =
      _mm256_adds_epi16(_mm512_cvtsepi32_epi16(v[0]), _mm256_set1_epi16((short)zero));
  return _mm256_cvtsepi16_epi8(sum);
}

#include "kernels/micro/qgemm/qgemm.body.h"
#include "kernels/micro/qgemm/qgemm_dot.body.h"

const eti_qgemm_micro eti_qgemm_avx512vnni = {
    ETI_QROWS_U8, MR, ISA(tile_i8), ISA(tile_f32), ISA(depthwise), ISA(copy), NULL};
