// bgemm_neon.c — the products of bgemm.h for every AArch64: a panel is four vectors, and a tile has
// 5 rows of one panel, in 20 of the 32 registers. Weights are widened to f32, rows are such numbers
// already; a vector of a row has two pairs, whose terms FMLA takes from their lanes.
#include <arm_neon.h>
#include <string.h>

#include "kernels/micro/bgemm/bgemm.h"

#define ISA(name) name##__neon
#define MR 5

typedef float term;
#define TERM_BYTES 4

typedef float32x4_t vx;
#define VX_PAIRS 2
#define VX_LOAD(p) vld1q_f32((const float *)(const void *)(p))
#define VX_PAIR(p) vcombine_f32(vld1_f32((const float *)(const void *)(p)), vdup_n_f32(0.0f))

// The first or second terms of pairs, in f32. The asm hides the mask: otherwise gcc 12 makes it
// anew for each vector.
static inline __attribute__((always_inline)) float32x4_t terms_of(uint16x8_t both, size_t odd) {
  const uint32x4_t pairs = vreinterpretq_u32_u16(both);
  uint32x4_t mask = vdupq_n_u32(0xffff0000u);
  __asm__("" : "+w"(mask));
  return vreinterpretq_f32_u32(odd != 0 ? vandq_u32(pairs, mask) : vshlq_n_u32(pairs, 16));
}
typedef float32x4_t vw;
#define VW_TERMS(w, odd) terms_of(w, odd)

// Adds the products of weights and a term of a row, whose lane is a constant where this is called.
// The asm keeps the order: gcc 12 moves intrinsics about until it runs out of registers.
static inline __attribute__((always_inline)) float32x4_t add_lane(float32x4_t sum, float32x4_t x,
                                                                  float32x4_t w, size_t lane) {
#define FMLA(i) __asm__ volatile("fmla %0.4s, %1.4s, %2.s[" #i "]" : "+w"(sum) : "w"(w), "w"(x))
  if (lane == 0) FMLA(0);
  if (lane == 1) FMLA(1);
  if (lane == 2) FMLA(2);
  if (lane == 3) FMLA(3);
#undef FMLA
  return sum;
}
#define VF_LANE(sum, x, w, lane) add_lane(sum, x, w, lane)

#define PLAIN_TILE(t) eti_bgemm_plain_tile_of_f32(t)

static inline void store_terms(float *p, uint32x4_t bits) {
  vst1q_f32(p, vreinterpretq_f32_u32(bits));
}

#include "kernels/micro/bgemm/bgemm_neon.body.h"

const eti_bgemm_micro eti_bgemm_neon = {
    .term_bytes = sizeof(term),
    .rows_of_a_tile = MR,
    .tile = ISA(tile),
    .copy = ISA(copy),
};
