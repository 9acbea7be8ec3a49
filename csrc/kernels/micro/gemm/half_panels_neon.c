// half_panels_neon.c — the tile of half_panels.h with NEON: at most 16 sums, four factors and a
// converted vector of the 32 registers. For AArch64, whose conversion from f16 every processor has.
#include <arm_neon.h>

// Adds products, rounded once. The asm lets gcc 12 keep sums in registers: it takes the intrinsics
// for functions that read memory, and stores all sums before.
static inline float32x4_t fma_lanes(float32x4_t a, float32x4_t b, float32x4_t c) {
  __asm__("fmla %0.4s, %1.4s, %2.4s" : "+w"(c) : "w"(b), "w"(a));
  return c;
}

#define SUFFIX neon
#define VEC float32x4_t
#define LANES 4
#define V_SET1(x) vdupq_n_f32(x)
#define V_LOAD(p) vld1q_f32(p)
#define V_STORE(p, v) vst1q_f32(p, v)
#define V_FMA(a, b, c) fma_lanes(a, b, c)
#define V_LOAD_HALF(p) vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)))
#define PANELS_1 4
#define PANELS_2 2
#define PANELS_3 1
#define PANELS_4 1
#include "kernels/micro/gemm/half_panels.body.h"
