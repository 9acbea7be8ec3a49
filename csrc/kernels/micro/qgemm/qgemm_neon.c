// qgemm_neon.c — the products of qgemm.h for every AArch64: SMULL makes products of 16 bits, of
// which SADALP adds pairs. A sum of two products would not always fit in 16 bits. The two
// instructions run on different units of many processors, where SMLAL of words has only one. A
// panel is eight vectors of sums of pairs, and a tile has 3 rows of one panel, in 24 of the 32
// registers.
#include "kernels/micro/qgemm/qgemm_vectors_neon.h"

#define ISA(name) name##__neon
#define MR PAIR_ROWS

// Adds the products of all quads.
INLINE void multiply(const eti_qtile *t, size_t row, const int8_t *w, size_t ahead, size_t m,
                     int32x4_t sums[MR][NV]) {
  const int8_t *a = (const int8_t *)t->a + row * t->a_step;
  int32x4_t pairs[MR][2 * NV];
  UNROLL for (size_t i = 0; i < m * 2 * NV; i++) pairs[i / NV / 2][i % (2 * NV)] = vdupq_n_s32(0);
  for (size_t q = t->quads; q > 0; q--, a += QUAD, w += QUAD_BYTES) {
    __builtin_prefetch(w + ahead, 0, 2);
    add_quad_pairs(pairs, a, t->a_step, w, m);
  }
  add_pairs(m, pairs, sums);
}

INLINE int32x4_t dot_quads(int32x4_t sum, int8x16_t taps, int8x16_t w) {
  const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(taps), vget_low_s8(w)));
  return vaddq_s32(sum, vpaddq_s32(low, vpaddlq_s16(vmull_high_s8(taps, w))));
}

#include "kernels/micro/qgemm/qgemm_neon.body.h"

const eti_qgemm_micro eti_qgemm_neon = {
    .form = ETI_QROWS_I8,
    .rows_of_a_tile = MR,
    .tile_i8 = ISA(tile_i8),
    .tile_f32 = ISA(tile_f32),
    .depthwise = ISA(depthwise),
    .copy = ISA(copy),
    .copy_windows = ISA(copy_windows),
};
