// qgemm_vectors_neon.h — vectors of 128 bits for the files of qgemm_neon.body.h and of
// qgemm_groups_neon.body.h: the sizes of a panel in them, and products of bytes.
#ifndef ET_MICRO_QGEMM_VECTORS_NEON_H
#define ET_MICRO_QGEMM_VECTORS_NEON_H

#include <arm_neon.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/micro/qgemm/qgemm.h"

#define INLINE static inline __attribute__((always_inline))
// Unrolls loops over registers.
#define UNROLL _Pragma("GCC unroll 16")

enum {
  NR = ETI_QGEMM_NR,
  QUAD = ETI_QGEMM_QUAD,
  QUAD_BYTES = NR * QUAD,  // of a panel
  LANES = 4,               // of a vector of sums
  BYTES = 16,              // of a vector
  NV = NR / LANES,         // vectors of a panel
  PAIR_ROWS = 3,           // rows whose sums of pairs leave registers for operands
};

// The same four bytes in each lane.
INLINE int8x16_t four_bytes(const int8_t *p) {
  int32_t word;
  memcpy(&word, p, sizeof word);
  return vreinterpretq_s8_s32(vdupq_n_s32(word));
}

// The first n ≤ 16 bytes, and zeros.
static inline int8x16_t load_bytes(const int8_t *p, size_t n) {
  int8_t bytes[BYTES] = {0};
  return vld1q_s8(memcpy(bytes, p, n));
}

// Unsigned codes of 4 bits in 16 bytes: the low halves of the bytes, or the high ones.
INLINE int8x16_t quads_of(int8x16_t both, size_t half) {
  const uint8x16_t codes = vreinterpretq_u8_s8(both);
  return vreinterpretq_s8_u8(half == 0 ? vandq_u8(codes, vdupq_n_u8(15)) : vshrq_n_u8(codes, 4));
}

// The asm of the functions below keeps their order: gcc 12 moves intrinsics about until it runs out
// of registers.

INLINE void keep_order(int8x16_t *v) {
  __asm__ volatile("" : "+w"(*v));
}

// Adds the products of one quad of m ≤ PAIR_ROWS rows, a constant where this is called, to sums of
// two products each, which would not always fit in 16 bits.
INLINE void add_quad_pairs(int32x4_t pairs[][2 * NV], const int8_t *a, size_t a_step,
                           const int8_t *w, size_t m) {
  int8x16_t x[PAIR_ROWS];
  UNROLL for (size_t r = 0; r < m; r++) x[r] = four_bytes(a + r * a_step);
  int8x16_t next = vld1q_s8(w);
  UNROLL for (size_t v = 0; v < NV; v++) {
    const int8x16_t b = next;
    if (v + 1 < NV) next = vld1q_s8(w + (v + 1) * BYTES);
    UNROLL for (size_t r = 0; r < m; r++) {
      int16x8_t low = vmull_s8(vget_low_s8(b), vget_low_s8(x[r])), high = vmull_high_s8(b, x[r]);
      __asm__ volatile("" : "+w"(low), "+w"(high));
      pairs[r][2 * v] = vpadalq_s16(pairs[r][2 * v], low);
      pairs[r][2 * v + 1] = vpadalq_s16(pairs[r][2 * v + 1], high);
    }
  }
}

// Adds the sums of pairs to those of columns.
INLINE void add_pairs(size_t m, int32x4_t pairs[][2 * NV], int32x4_t sums[][NV]) {
  UNROLL for (size_t i = 0; i < m * NV; i++) {
    const int32x4_t *const two = &pairs[i / NV][i % NV * 2];
    sums[i / NV][i % NV] = vaddq_s32(sums[i / NV][i % NV], vpaddq_s32(two[0], two[1]));
  }
}

#if defined(__ARM_FEATURE_DOTPROD)
// Adds the products of four quads of weights and the quad of `a` in a lane, which is a constant
// where this is called.
INLINE int32x4_t dot(int32x4_t sum, int8x16_t w, int8x16_t a, size_t lane) {
#define SDOT(i) __asm__ volatile("sdot %0.4s, %1.16b, %2.4b[" #i "]" : "+w"(sum) : "w"(w), "w"(a))
  if (lane == 0) SDOT(0);
  if (lane == 1) SDOT(1);
  if (lane == 2) SDOT(2);
  if (lane == 3) SDOT(3);
#undef SDOT
  return sum;
}
#endif

#if defined(__ARM_FEATURE_MATMUL_INT8)
// Adds the products of two rows of eight terms and two columns.
INLINE int32x4_t multiply_pairs(int32x4_t sum, int8x16_t rows, int8x16_t columns) {
  __asm__ volatile("smmla %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(rows), "w"(columns));
  return sum;
}
#endif

#endif  // ET_MICRO_QGEMM_VECTORS_NEON_H
