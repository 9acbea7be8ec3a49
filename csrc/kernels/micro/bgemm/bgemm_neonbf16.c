// bgemm_neonbf16.c — the products of bgemm.h with BFMLALT and BFMLALB, on rows of bf16, for AArch64
// with the products of bf16 of Armv8.6: fused multiply-adds of odd and of even terms into f32,
// which keep to FPCR as FMLA does. A panel is four vectors, and a tile has 6 rows of one panel, in
// 24 of the 32 registers; a vector of a row has four pairs.
#include <arm_neon.h>
#include <string.h>

#include "kernels/micro/bgemm/bgemm.h"

#define ISA(name) name##__neonbf16
#define MR 6

typedef uint16_t term;
#define TERM_BYTES 2

typedef uint16x8_t vx;
#define VX_PAIRS 4
#define VX_LOAD(p) vld1q_u16((const uint16_t *)(const void *)(p))

static inline uint16x8_t pair_of_row(const char *p) {
  uint32_t both;
  memcpy(&both, p, sizeof both);
  return vreinterpretq_u16_u32(vdupq_n_u32(both));
}
#define VX_PAIR(p) pair_of_row(p)
typedef uint16x8_t vw;
#define VW_TERMS(w, odd) (w)

// Adds the products of weights and a term of a row, whose lane is a constant where this is called;
// its register is one of the first 16. The asm keeps the order: gcc 12 moves intrinsics about until
// it runs out of registers.
static inline __attribute__((always_inline)) float32x4_t add_lane(float32x4_t sum, uint16x8_t x,
                                                                  uint16x8_t w, size_t lane) {
#define BFMLAL(half, i) \
  __asm__ volatile("bfmlal" #half " %0.4s, %1.8h, %2.h[" #i "]" : "+w"(sum) : "w"(w), "x"(x))
  if (lane == 0) BFMLAL(b, 0);
  if (lane == 1) BFMLAL(t, 1);
  if (lane == 2) BFMLAL(b, 2);
  if (lane == 3) BFMLAL(t, 3);
  if (lane == 4) BFMLAL(b, 4);
  if (lane == 5) BFMLAL(t, 5);
  if (lane == 6) BFMLAL(b, 6);
  if (lane == 7) BFMLAL(t, 7);
#undef BFMLAL
  return sum;
}
#define VF_LANE(sum, x, w, lane) add_lane(sum, x, w, lane)

#define PLAIN_TILE(t) eti_bgemm_scalar.tile(t)

static inline void store_terms(uint16_t *p, uint32x4_t bits) {
  vst1_u16(p, vshrn_n_u32(bits, 16));
}

#include "kernels/micro/bgemm/bgemm_neon.body.h"

const eti_bgemm_micro eti_bgemm_neonbf16 = {
    .term_bytes = sizeof(term),
    .rows_of_a_tile = MR,
    .tile = ISA(tile),
    .copy = ISA(copy),
};
