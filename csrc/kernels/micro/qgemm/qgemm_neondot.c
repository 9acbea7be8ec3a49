// qgemm_neondot.c — the products of qgemm.h with SDOT, for AArch64 with the products of bytes of
// Armv8.2. A panel is four vectors, and a tile has 6 rows of one panel, in 24 of the 32 registers;
// a vector of a row has four quads, each of which SDOT takes from its lane.
#include "kernels/micro/qgemm/qgemm_vectors_neon.h"

#define ISA(name) name##__neondot
#define MR 6

// Adds the products of one quad of m rows; m and lane are constants where this is called.
INLINE void add_quad(int32x4_t sums[][NV], const int8x16_t *a, const int8_t *w, size_t m,
                     size_t lane) {
  int8x16_t next = vld1q_s8(w);
  UNROLL for (size_t v = 0; v < NV; v++) {
    const int8x16_t b = next;
    if (v + 1 < NV) next = vld1q_s8(w + (v + 1) * BYTES);
    UNROLL for (size_t r = 0; r < m; r++) sums[r][v] = dot(sums[r][v], b, a[r], lane);
  }
}

// Adds the products of all quads. One or two rows have two sums for each result, since an addition
// waits for the one before.
INLINE void multiply(const eti_qtile *t, size_t row, const int8_t *w, size_t ahead, size_t m,
                     int32x4_t sums[MR][NV]) {
  const int8_t *a = (const int8_t *)t->a + row * t->a_step;
  const size_t a_step = t->a_step;
  int32x4_t odd[2][NV];
  int8x16_t x[MR];
  UNROLL for (size_t i = 0; i < 2 * NV; i++) odd[i / NV][i % NV] = vdupq_n_s32(0);
  size_t q = t->quads;
  for (; q >= LANES; q -= LANES, a += BYTES, w += LANES * QUAD_BYTES) {
    UNROLL for (size_t r = 0; r < m; r++) x[r] = vld1q_s8(a + r * a_step);
    UNROLL for (size_t i = 0; i < LANES; i++) {
      __builtin_prefetch(w + ahead + i * QUAD_BYTES, 0, 2);
      add_quad(m <= 2 && i % 2 != 0 ? odd : sums, x, w + i * QUAD_BYTES, m, i);
    }
  }
  for (; q > 0; q--, a += QUAD, w += QUAD_BYTES) {
    UNROLL for (size_t r = 0; r < m; r++) x[r] = four_bytes(a + r * a_step);
    add_quad(sums, x, w, m, 0);
  }
  if (m <= 2) {
    UNROLL for (size_t i = 0; i < m * NV; i++) {
      sums[i / NV][i % NV] = vaddq_s32(sums[i / NV][i % NV], odd[i / NV][i % NV]);
    }
  }
}

INLINE int32x4_t dot_quads(int32x4_t sum, int8x16_t taps, int8x16_t w) {
  return vdotq_s32(sum, taps, w);
}

#include "kernels/micro/qgemm/qgemm_neon.body.h"

const eti_qgemm_micro eti_qgemm_neondot = {
    .form = ETI_QROWS_I8,
    .rows_of_a_tile = MR,
    .tile_i8 = ISA(tile_i8),
    .tile_f32 = ISA(tile_f32),
    .depthwise = ISA(depthwise),
    .copy = ISA(copy),
    .copy_windows = ISA(copy_windows),
};
