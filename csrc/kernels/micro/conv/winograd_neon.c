// winograd_neon.c — the transforms of winograd.h with 128-bit vectors. For AArch64.
#include "kernels/micro/conv/winograd.h"

#include <arm_neon.h>
#include <string.h>

// Partial vectors: the first n elements, the others 0.
static inline float32x4_t load_n(const float *p, size_t n) {
  if (n == 1) return vsetq_lane_f32(p[0], vdupq_n_f32(0.0f), 0);
  const float32x4_t two = vcombine_f32(vld1_f32(p), vdup_n_f32(0.0f));
  return n == 2 ? two : vld1q_lane_f32(p + 2, two, 2);
}
static inline void store_n(float *p, float32x4_t v, size_t n) {
  float t[4];
  vst1q_f32(t, v);
  memcpy(p, t, n * sizeof *p);
}

// Computes eti_clamp of four elements.
static inline float32x4_t limit(float32x4_t v, float32x4_t low, float32x4_t high,
                                float32x4_t plus) {
  const float32x4_t risen = vbslq_f32(vcltq_f32(v, low), low, v);
  return vaddq_f32(vbslq_f32(vcgtq_f32(risen, high), high, risen), plus);
}

#define SUFFIX f32__neon
#define VEC float32x4_t
#define LANES 4
#define V_SET1(x) vdupq_n_f32(x)
#define V_LOAD(p) vld1q_f32(p)
#define V_STORE(p, v) vst1q_f32(p, v)
#define V_FMA(a, b, c) vfmaq_f32(c, a, b)
#define V_ADD(a, b) vaddq_f32(a, b)
#define V_SUB(a, b) vsubq_f32(a, b)
#define V_MUL(a, b) vmulq_f32(a, b)
#define V_LIMIT(v, low, high, plus) limit(v, low, high, plus)
#define V_LOAD_N(p, n) load_n(p, n)
#define V_STORE_N(p, v, n) store_n(p, v, n)
#include "kernels/micro/conv/winograd.body.h"

const eti_winograd_micro eti_winograd_neon = {
    {input_2_f32__neon, input_4_f32__neon, input_6_f32__neon},
    {output_2_f32__neon, output_4_f32__neon, output_6_f32__neon},
};
