// qgemm_groups_neon.c — the products of qgemm_groups.h for every AArch64: SMULL and SMLAL sum
// products in 16 bits, which hold those of ETI_QGROUPS_PART terms. A panel is eight vectors of such
// sums, four for each result, and a tile has 3 rows of one panel, in 24 of the 32 registers.
#include "kernels/micro/qgemm/qgemm_groups.h"

#include "kernels/micro/qgemm/qgemm_vectors_neon.h"

#define ISA(name) name##__neon
#define MR PAIR_ROWS
#define UNIT 1

INLINE int32x4_t add_bytes(int32x4_t sum, int8x16_t bytes) {
  return vpadalq_s16(sum, vpaddlq_s8(bytes));
}

// Adds the products of four quads and the one that all lanes of `x` hold, or begins with them. The
// asm keeps the order.
INLINE void add_quads(int16x8_t sums[2], int8x16_t codes, int8x16_t x, bool begins) {
  if (begins) {
    sums[0] = vmull_s8(vget_low_s8(codes), vget_low_s8(x));
    sums[1] = vmull_high_s8(codes, x);
  } else {
    sums[0] = vmlal_s8(sums[0], vget_low_s8(codes), vget_low_s8(x));
    sums[1] = vmlal_high_s8(sums[1], codes, x);
  }
  __asm__ volatile("" : "+w"(sums[0]), "+w"(sums[1]));
}

// Adds the products of a step, or begins with them; m and begins are constants where this is
// called. One or two rows leave registers for vectors that are loaded and unpacked ahead.
INLINE void add_step(const int8_t *a, size_t a_step, const int8_t *w, size_t m, bool begins,
                     int16x8_t sums[][2 * NV]) {
  const bool is_ahead = m <= 2;
  int8x16_t both[NV], x[MR];
  UNROLL for (size_t v = 0; v < NV && is_ahead; v++) {
    both[v] = vld1q_s8(w + v * BYTES);
    keep_order(&both[v]);
  }
  UNROLL for (size_t half = 0; half < 2; half++) {
    int8x16_t codes[NV];
    UNROLL for (size_t r = 0; r < m; r++) x[r] = four_bytes(a + r * a_step + half * QUAD);
    UNROLL for (size_t v = 0; v < NV && is_ahead; v++) {
      codes[v] = quads_of(both[v], half);
      keep_order(&codes[v]);
    }
    int8x16_t next = vld1q_s8(w);
    UNROLL for (size_t v = 0; v < NV; v++) {
      if (!is_ahead) codes[v] = quads_of(next, half);
      if (v + 1 < NV) next = vld1q_s8(w + (v + 1) * BYTES);
      UNROLL for (size_t r = 0; r < m; r++) {
        add_quads(&sums[r][2 * v], codes[v], x[r], begins && half == 0);
      }
    }
  }
}

// Adds sums of 16 bits to those of 32 bits.
INLINE void widen(const int16x8_t parts[][2 * NV], size_t m, int32x4_t sums[][NV]) {
  UNROLL for (size_t r = 0; r < m; r++) {
    UNROLL for (size_t v = 0; v < NV; v++) {
      sums[r][v] = vpadalq_s16(sums[r][v], vpaddq_s16(parts[r][2 * v], parts[r][2 * v + 1]));
    }
  }
}

// Adds the products of a group of m rows, which is a constant where this is called.
INLINE void sum_group(const int8_t *a, size_t a_step, const int8_t *w, size_t group, size_t m,
                      int32x4_t sums[][NV]) {
  enum { STEP_TERMS = ETI_QGROUPS_STEP, W_BYTES = ETI_QGROUPS_STEP_BYTES };
  int16x8_t parts[MR][2 * NV];
  while (group >= STEP_TERMS) {
    const size_t n = group < ETI_QGROUPS_PART ? group / STEP_TERMS * STEP_TERMS : ETI_QGROUPS_PART;
    const int8_t *const end = a + n;
    add_step(a, a_step, w, m, true, parts);
    for (a += STEP_TERMS, w += W_BYTES; a < end; a += STEP_TERMS, w += W_BYTES) {
      add_step(a, a_step, w, m, false, parts);
    }
    widen((const int16x8_t(*)[2 * NV]) parts, m, sums);
    group -= n;
  }
  if (group > 0) {
    int8_t last[MR][BYTES];
    UNROLL for (size_t r = 0; r < m; r++) vst1q_s8(last[r], load_bytes(a + r * a_step, group));
    add_step(last[0], BYTES, w, m, true, parts);
    widen((const int16x8_t(*)[2 * NV]) parts, m, sums);
  }
}

// Adds the products of a group with codes of 8 bits; m is a constant where this is called.
INLINE void sum_group_of_bytes(const int8_t *a, size_t a_step, const int8_t *w, size_t group,
                               size_t m, int32x4_t sums[][NV]) {
  int32x4_t pairs[MR][2 * NV];
  UNROLL for (size_t i = 0; i < m * 2 * NV; i++) pairs[i / NV / 2][i % (2 * NV)] = vdupq_n_s32(0);
  for (; group >= QUAD; group -= QUAD, a += QUAD, w += QUAD_BYTES) {
    add_quad_pairs(pairs, a, a_step, w, m);
  }
  if (group > 0) {
    int8_t last[MR][BYTES];
    UNROLL for (size_t r = 0; r < m; r++) vst1q_s8(last[r], load_bytes(a + r * a_step, group));
    add_quad_pairs(pairs, last[0], BYTES, w, m);
  }
  add_pairs(m, pairs, sums);
}

#include "kernels/micro/qgemm/qgemm_groups_neon.body.h"

const eti_qgroups_micro eti_qgroups_neon = {
    .tile = ISA(tile), .begins = ISA(begins), .rows_of_a_tile = MR};
