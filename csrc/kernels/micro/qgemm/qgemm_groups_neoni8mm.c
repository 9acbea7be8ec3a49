// qgemm_groups_neoni8mm.c — the products of qgemm_groups.h with SMMLA, for AArch64 with the matrix
// products of bytes of Armv8.6: an instruction multiplies two rows of a step and two columns. A
// tile has 6 rows of one panel, in 24 of the 32 registers; the quads of two columns meet by ZIP.
// Few rows are multiplied by SDOT, which needs no ZIP.
#include "kernels/micro/qgemm/qgemm_groups.h"

#include "kernels/micro/qgemm/qgemm_vectors_neon.h"

#define ISA(name) name##__neoni8mm
#define MR 6
#define UNIT 2

enum { FEW = 3, PAIRS = MR / 2 };

INLINE int32x4_t add_bytes(int32x4_t sum, int8x16_t bytes) {
  return vdotq_s32(sum, bytes, vdupq_n_s8(1));
}

// Adds the products of a step of some pairs of rows.
INLINE void add_step(const int8x16_t x[PAIRS], const int8_t *w, size_t pairs, size_t bits,
                     int32x4_t sums[][2 * NV]) {
  UNROLL for (size_t v = 0; v < NV; v++) {
    const int8x16_t both = vld1q_s8(w + v * BYTES);
    const int8x16_t low_half = bits == 4 ? quads_of(both, 0) : both;
    const int8x16_t high_half =
        bits == 4 ? quads_of(both, 1) : vld1q_s8(w + QUAD_BYTES + v * BYTES);
    const int32x4_t first = vreinterpretq_s32_s8(low_half);
    const int32x4_t second = vreinterpretq_s32_s8(high_half);
    const int8x16_t low = vreinterpretq_s8_s32(vzip1q_s32(first, second));
    const int8x16_t high = vreinterpretq_s8_s32(vzip2q_s32(first, second));
    UNROLL for (size_t p = 0; p < pairs; p++) {
      sums[p][2 * v] = multiply_pairs(sums[p][2 * v], x[p], low);
    }
    UNROLL for (size_t p = 0; p < pairs; p++) {
      sums[p][2 * v + 1] = multiply_pairs(sums[p][2 * v + 1], x[p], high);
    }
  }
}

// Adds the products of a group of m rows; m and bits are constants where this is called. An odd
// last row is a pair with itself.
INLINE void sum_steps(const int8_t *a, size_t a_step, const int8_t *w, size_t group, size_t m,
                      size_t bits, int32x4_t sums[][2 * NV]) {
  enum { STEP_TERMS = ETI_QGROUPS_STEP };
  const size_t pairs = (m + 1) / 2, w_bytes = eti_qgroups_step_bytes(bits);
  int8x16_t x[PAIRS];
  for (; group >= STEP_TERMS; group -= STEP_TERMS, a += STEP_TERMS, w += w_bytes) {
    UNROLL for (size_t p = 0; p < pairs; p++) {
      const int8_t *const first = a + 2 * p * a_step;
      x[p] = vcombine_s8(vld1_s8(first), vld1_s8(2 * p + 1 < m ? first + a_step : first));
    }
    add_step(x, w, pairs, bits, sums);
  }
  if (group > 0) {
    UNROLL for (size_t p = 0; p < pairs; p++) {
      const int8_t *const first = a + 2 * p * a_step;
      const int8x16_t second = load_bytes(2 * p + 1 < m ? first + a_step : first, group);
      x[p] = vcombine_s8(vget_low_s8(load_bytes(first, group)), vget_low_s8(second));
    }
    add_step(x, w, pairs, bits, sums);
  }
}

INLINE void sum_group(const int8_t *a, size_t a_step, const int8_t *w, size_t group, size_t m,
                      int32x4_t sums[][2 * NV]) {
  sum_steps(a, a_step, w, group, m, 4, sums);
}

INLINE void sum_group_of_bytes(const int8_t *a, size_t a_step, const int8_t *w, size_t group,
                               size_t m, int32x4_t sums[][2 * NV]) {
  sum_steps(a, a_step, w, group, m, 8, sums);
}

#include "kernels/micro/qgemm/qgemm_groups_neon.body.h"

static void ISA(tile_of_any)(const eti_qgroups_tile *t) {
  if (t->m <= FEW) {
    eti_qgroups_neondot.tile(t);
  } else {
    ISA(tile)(t);
  }
}

const eti_qgroups_micro eti_qgroups_neoni8mm = {
    .tile = ISA(tile_of_any), .begins = ISA(begins), .rows_of_a_tile = MR};
