// qgemm_neoni8mm.c — the products of qgemm.h with SMMLA, for AArch64 with the matrix products of
// bytes of Armv8.6: an instruction multiplies two rows of eight terms and two columns. A tile has 6
// rows of one panel, in 24 of the 32 registers; two quads of two columns meet by ZIP.
#include "kernels/micro/qgemm/qgemm_vectors_neon.h"

#define ISA(name) name##__neoni8mm
#define MR 6

enum { PAIRS = MR / 2 };

// Adds the products of two quads of some pairs of rows; `second` is false if there is only one.
INLINE void add_quads(int32x4_t sums[][2 * NV], const int8x16_t *x, const int8_t *w, size_t pairs,
                      bool second) {
  UNROLL for (size_t v = 0; v < NV; v++) {
    const int32x4_t a = vreinterpretq_s32_s8(vld1q_s8(w + v * BYTES));
    const int32x4_t b =
        second ? vreinterpretq_s32_s8(vld1q_s8(w + QUAD_BYTES + v * BYTES)) : vdupq_n_s32(0);
    const int8x16_t low = vreinterpretq_s8_s32(vzip1q_s32(a, b));
    const int8x16_t high = vreinterpretq_s8_s32(vzip2q_s32(a, b));
    UNROLL for (size_t p = 0; p < pairs; p++) {
      sums[p][2 * v] = multiply_pairs(sums[p][2 * v], x[p], low);
    }
    UNROLL for (size_t p = 0; p < pairs; p++) {
      sums[p][2 * v + 1] = multiply_pairs(sums[p][2 * v + 1], x[p], high);
    }
  }
}

// Adds the products of all quads. An odd last row is a pair with itself.
INLINE void multiply(const eti_qtile *t, size_t row, const int8_t *w, size_t ahead, size_t m,
                     int32x4_t sums[MR][NV]) {
  const int8_t *a = (const int8_t *)t->a + row * t->a_step;
  const size_t a_step = t->a_step, pairs = (m + 1) / 2;
  int32x4_t both[PAIRS][2 * NV];  // two columns of a row, then of the next one
  int8x16_t x[PAIRS];
  UNROLL for (size_t i = 0; i < pairs * 2 * NV; i++) {
    both[i / NV / 2][i % (2 * NV)] = vdupq_n_s32(0);
  }
  size_t q = t->quads;
  for (; q >= 2; q -= 2, a += 2 * QUAD, w += 2 * QUAD_BYTES) {
    __builtin_prefetch(w + ahead, 0, 2);
    __builtin_prefetch(w + ahead + QUAD_BYTES, 0, 2);
    UNROLL for (size_t p = 0; p < pairs; p++) {
      const int8_t *const first = a + 2 * p * a_step;
      x[p] = vcombine_s8(vld1_s8(first), vld1_s8(2 * p + 1 < m ? first + a_step : first));
    }
    add_quads(both, x, w, pairs, true);
  }
  if (q > 0) {
    UNROLL for (size_t p = 0; p < pairs; p++) {
      const int8_t *const first = a + 2 * p * a_step;
      const int8x16_t second = four_bytes(2 * p + 1 < m ? first + a_step : first);
      x[p] = vcombine_s8(vget_low_s8(four_bytes(first)), vget_low_s8(second));
    }
    add_quads(both, x, w, pairs, false);
  }
  UNROLL for (size_t r = 0; r < m; r++) {
    UNROLL for (size_t v = 0; v < NV; v++) {
      const int64x2_t first = vreinterpretq_s64_s32(both[r / 2][2 * v]);
      const int64x2_t second = vreinterpretq_s64_s32(both[r / 2][2 * v + 1]);
      const int64x2_t of_row = r % 2 == 0 ? vzip1q_s64(first, second) : vzip2q_s64(first, second);
      sums[r][v] = vaddq_s32(sums[r][v], vreinterpretq_s32_s64(of_row));
    }
  }
}

INLINE int32x4_t dot_quads(int32x4_t sum, int8x16_t taps, int8x16_t w) {
  return vdotq_s32(sum, taps, w);
}

#include "kernels/micro/qgemm/qgemm_neon.body.h"

const eti_qgemm_micro eti_qgemm_neoni8mm = {
    .form = ETI_QROWS_I8,
    .rows_of_a_tile = MR,
    .tile_i8 = ISA(tile_i8),
    .tile_f32 = ISA(tile_f32),
    .depthwise = ISA(depthwise),
    .copy = ISA(copy),
    .copy_windows = ISA(copy_windows),
};
