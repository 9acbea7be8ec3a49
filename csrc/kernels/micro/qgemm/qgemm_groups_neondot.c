// qgemm_groups_neondot.c — the products of qgemm_groups.h with SDOT, for AArch64 with the products
// of bytes of Armv8.2. A panel is four vectors, and a tile has 5 rows of one panel; a vector of a
// row has the four quads of two steps, each of which SDOT takes from its lane.
#include "kernels/micro/qgemm/qgemm_groups.h"

#include "kernels/micro/qgemm/qgemm_vectors_neon.h"

#define ISA(name) name##__neondot
#define MR 5
#define UNIT 1

INLINE int32x4_t add_bytes(int32x4_t sum, int8x16_t bytes) {
  return vdotq_s32(sum, bytes, vdupq_n_s8(1));
}

// Adds the products of one or two steps of m rows, column after column.
INLINE void add_to_columns(const int8x16_t x[], const int8_t *w, size_t steps, size_t m,
                           int32x4_t sums[][NV]) {
  const size_t n = steps * NV;
  int8x16_t next = vld1q_s8(w);
  UNROLL for (size_t i = 0; i < n; i++) {
    const int8x16_t first = quads_of(next, 0), second = quads_of(next, 1);
    if (i + 1 < n) next = vld1q_s8(w + (i + 1) * BYTES);
    keep_order(&next);
    const size_t v = i % NV, lane = i / NV * 2;
    UNROLL for (size_t r = 0; r < m; r++) sums[r][v] = dot(sums[r][v], first, x[r], lane);
    UNROLL for (size_t r = 0; r < m; r++) sums[r][v] = dot(sums[r][v], second, x[r], lane + 1);
  }
}

// Adds them to all columns by turns: an addition waits for the one before, and there are few rows.
INLINE void add_by_turns(const int8x16_t x[], const int8_t *w, size_t steps, size_t m,
                         int32x4_t sums[][NV]) {
  int8x16_t both[2 * NV];
  UNROLL for (size_t i = 0; i < steps * NV; i++) {
    both[i] = vld1q_s8(w + i * BYTES);
    keep_order(&both[i]);
  }
  UNROLL for (size_t lane = 0; lane < 2 * steps; lane++) {
    int8x16_t codes[NV];
    UNROLL for (size_t v = 0; v < NV; v++) codes[v] = quads_of(both[lane / 2 * NV + v], lane % 2);
    UNROLL for (size_t v = 0; v < NV; v++) keep_order(&codes[v]);
    UNROLL for (size_t i = 0; i < m * NV; i++) {
      const size_t v = i / m, r = i % m;
      sums[r][v] = dot(sums[r][v], codes[v], x[r], lane);
    }
  }
}

INLINE void add_steps(const int8x16_t x[], const int8_t *w, size_t steps, size_t m,
                      int32x4_t sums[][NV]) {
  if (m <= 2) {
    add_by_turns(x, w, steps, m, sums);
  } else {
    add_to_columns(x, w, steps, m, sums);
  }
}

// Adds the products of a group of m rows, which is a constant where this is called.
INLINE void sum_group(const int8_t *a, size_t a_step, const int8_t *w, size_t group, size_t m,
                      int32x4_t sums[][NV]) {
  enum { TWO_STEPS = 2 * ETI_QGROUPS_STEP };
  int8x16_t x[MR];
  for (; group >= TWO_STEPS; group -= TWO_STEPS, a += TWO_STEPS, w += 2 * ETI_QGROUPS_STEP_BYTES) {
    UNROLL for (size_t r = 0; r < m; r++) x[r] = vld1q_s8(a + r * a_step);
    add_steps(x, w, 2, m, sums);
  }
  if (group > 0) {
    UNROLL for (size_t r = 0; r < m; r++) x[r] = load_bytes(a + r * a_step, group);
    if (group > ETI_QGROUPS_STEP) {
      add_steps(x, w, 2, m, sums);
    } else {
      add_steps(x, w, 1, m, sums);
    }
  }
}

// Adds the products of some quads of codes of 8 bits.
INLINE void add_quads_of_bytes(const int8x16_t x[], const int8_t *w, size_t quads, size_t m,
                               int32x4_t sums[][NV]) {
  int8x16_t next = vld1q_s8(w);
  UNROLL for (size_t i = 0; i < quads * NV; i++) {
    const int8x16_t codes = next;
    if (i + 1 < quads * NV) next = vld1q_s8(w + (i + 1) * BYTES);
    keep_order(&next);
    UNROLL for (size_t r = 0; r < m; r++) sums[r][i % NV] =
        dot(sums[r][i % NV], codes, x[r], i / NV);
  }
}

// Adds the products of a group with codes of 8 bits; m is a constant where this is called.
INLINE void sum_group_of_bytes(const int8_t *a, size_t a_step, const int8_t *w, size_t group,
                               size_t m, int32x4_t sums[][NV]) {
  enum { QUADS = BYTES / QUAD };
  int8x16_t x[MR];
  for (; group >= BYTES; group -= BYTES, a += BYTES, w += QUADS * QUAD_BYTES) {
    UNROLL for (size_t r = 0; r < m; r++) x[r] = vld1q_s8(a + r * a_step);
    add_quads_of_bytes(x, w, QUADS, m, sums);
  }
  if (group > 0) {
    UNROLL for (size_t r = 0; r < m; r++) x[r] = load_bytes(a + r * a_step, group);
    if (group > ETI_QGROUPS_STEP) {
      add_quads_of_bytes(x, w, QUADS, m, sums);
    } else {
      add_quads_of_bytes(x, w, QUADS / 2, m, sums);
    }
  }
}

#include "kernels/micro/qgemm/qgemm_groups_neon.body.h"

const eti_qgroups_micro eti_qgroups_neondot = {
    .tile = ISA(tile), .begins = ISA(begins), .rows_of_a_tile = MR};
