// direct_conv_neon.c — the loops of direct_conv.h with 128-bit vectors. For AArch64.
#include "kernels/micro/conv/direct_conv.h"

#include <arm_neon.h>
#include <string.h>

// Partial vectors: the first n elements, the others 0. An element at a time, since gcc 12 calls
// memcpy for a copy of n elements, in each turn of a loop.
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

// Adds the products of a vector and a number. The asm keeps the number in one element of a
// register: gcc 12 has the units of arithmetic spread it, which have enough to do.
static inline float32x4_t fma_by(float x, float32x4_t v, float32x4_t c) {
  __asm__("" : "+w"(x));
  return vfmaq_n_f32(c, v, x);
}

// p[0], p[2], p[4], p[6]; reads nothing past them.
static inline float32x4_t every_second(const float *p) {
  const float32x4_t a = vld1q_f32(p), b = vld1q_f32(p + 3);
  return vcombine_f32(vget_low_f32(vuzp1q_f32(a, a)), vget_low_f32(vuzp2q_f32(b, b)));
}

typedef struct lane_set {
  ptrdiff_t from, to;
} lane_set;

static inline float32x4_t inside(const float *p, int step, lane_set at) {
  float t[4] = {0};
  for (int l = 0; l < 4; l++) {
    if (l * step >= at.from && l * step < at.to) t[l] = p[l * step];
  }
  return vld1q_f32(t);
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
#define V_FMA_BY(x, v, c) fma_by(x, v, c)
#define V_LIMIT(v, low, high, plus) limit(v, low, high, plus)
#define V_LOAD_N(p, n) load_n(p, n)
#define V_STORE_N(p, v, n) store_n(p, v, n)
#define V_EVEN(p) every_second(p)
#define LANES_T lane_set
#define V_LANES(from, to) ((lane_set){from, to})
#define V_INSIDE(p, step, at) inside(p, step, at)
#include "kernels/micro/conv/direct_conv_rows.body.h"

const eti_direct_conv_micro eti_direct_conv_neon = {
    copy_rows_f32__neon,
    row_f32__neon,
    rows_f32__neon,
    pixels_f32__neon,
    pixel_f32__neon,
    {{plane_3x3_f32__neon, plane_3x3_by_2_f32__neon},
     {plane_5x5_f32__neon, plane_5x5_by_2_f32__neon}},
};
