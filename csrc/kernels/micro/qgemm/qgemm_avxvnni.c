// qgemm_avxvnni.c — the products of qgemm.h with VPDPBUSD on 256-bit vectors: 6 rows × 2 vectors
// use 12 of the 16 registers for sums. Needs AVX2 and AVX-VNNI.
#include "kernels/micro/qgemm/qgemm_vectors_256.h"

#define ISA(name) name##__avxvnni
#define TV 2
#define MR 6

// Adds products to a sum. The asm keeps it in one register: for the intrinsic gcc 12 copies it
// twice.
static inline vi add_products(vi sum, vi a, vi w) {
  __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(a), "x"(w));
  return sum;
}
#define VI_DOT(sum, a, w) add_products(sum, a, w)

#include "kernels/micro/qgemm/qgemm.body.h"

// Loads 1 ≤ n ≤ 32 bytes, and zeros.
static inline vi load_bytes(const int8_t *p, size_t n) {
  const __m128i second = n > NR ? load_part(p + NR, n - NR) : _mm_setzero_si128();
  return _mm256_set_m128i(second, load_part(p, n));
}

static inline void store_bytes(int8_t *p, vi v, size_t n) {
  store_part(p, _mm256_castsi256_si128(v), n);
  if (n > NR) store_part(p + NR, _mm256_extracti128_si256(v, 1), n - NR);
}

static inline vi load_two(const int8_t *first, const int8_t *second, size_t n) {
  return _mm256_set_m128i(load_part(second, n), load_part(first, n));
}

static inline void store_two(int8_t *first, int8_t *second, vi v, size_t n) {
  store_part(first, _mm256_castsi256_si128(v), n);
  store_part(second, _mm256_extracti128_si256(v, 1), n);
}

#include "kernels/micro/qgemm/qgemm_dot.body.h"

const eti_qgemm_micro eti_qgemm_avxvnni = {
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
