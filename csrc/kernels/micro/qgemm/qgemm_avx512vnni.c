// qgemm_avx512vnni.c — the products of qgemm.h with VPDPBUSD on 512-bit vectors: a panel is one
// vector, and a tile has 12 rows of two panels, in 24 of the 32 registers. Needs AVX-512 F, BW, VL,
// VNNI.
#include "kernels/micro/qgemm/qgemm_vectors_512.h"

#define ISA(name) name##__avx512vnni
#define TV 2
#define MR 12

// Adds products to a sum. The asm keeps it in one register: for the intrinsic gcc 12 copies it
// twice.
static inline vi add_products(vi sum, vi a, vi w) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(w));
  return sum;
}
#define VI_DOT(sum, a, w) add_products(sum, a, w)

// The first 1 ≤ n ≤ 64 bytes.
static inline __mmask64 first_bytes(size_t n) {
  return UINT64_MAX >> (64 - n);
}

static inline vi load_bytes(const int8_t *p, size_t n) {
  return _mm512_maskz_loadu_epi8(first_bytes(n), p);
}

static inline void store_bytes(int8_t *p, vi v, size_t n) {
  _mm512_mask_storeu_epi8(p, first_bytes(n), v);
}

static inline vi load_two(const int8_t *first, const int8_t *second, size_t n) {
  const __mmask32 mask = UINT32_MAX >> (32 - n);
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_maskz_loadu_epi8(mask, first)),
                            _mm256_maskz_loadu_epi8(mask, second), 1);
}

static inline void store_two(int8_t *first, int8_t *second, vi v, size_t n) {
  const __mmask32 mask = UINT32_MAX >> (32 - n);
  _mm256_mask_storeu_epi8(first, mask, _mm512_castsi512_si256(v));
  _mm256_mask_storeu_epi8(second, mask, _mm512_extracti64x4_epi64(v, 1));
}

#include "kernels/micro/qgemm/qgemm.body.h"
#include "kernels/micro/qgemm/qgemm_dot.body.h"

const eti_qgemm_micro eti_qgemm_avx512vnni = {
    .form = ETI_QROWS_U8,
    .rows_of_a_tile = MR,
    .tile_i8 = ISA(tile_i8),
    .tile_f32 = ISA(tile_f32),
    .depthwise = ISA(depthwise),
    .arranged_bytes = ISA(arranged_bytes),
    .arrange_channels = ISA(arrange_channels),
    .copy = ISA(copy),
    .copy_windows = ISA(copy_windows),
};
