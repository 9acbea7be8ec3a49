// conv_neon.c — the loops of conv.h with 128-bit vectors. For AArch64.
#include "kernels/micro/conv.h"

#include <arm_neon.h>
#include <string.h>

static inline float32x4_t load_n(const float *p, size_t n) {
  float t[4] = {0};
  memcpy(t, p, n * sizeof *p);
  return vld1q_f32(t);
}
static inline void store_n(float *p, float32x4_t v, size_t n) {
  float t[4];
  vst1q_f32(t, v);
  memcpy(p, t, n * sizeof *p);
}

#define SUFFIX f32__neon
#define VEC float32x4_t
#define LANES 4
#define V_SET1(x) vdupq_n_f32(x)
#define V_LOAD(p) vld1q_f32(p)
#define V_STORE(p, v) vst1q_f32(p, v)
#define V_FMA(a, b, c) vfmaq_f32(c, a, b)
#define V_LOAD_N(p, n) load_n(p, n)
#define V_STORE_N(p, v, n) store_n(p, v, n)
#include "kernels/micro/conv_rows.body.h"

const eti_conv_micro eti_conv_neon = {copy_rows_f32__neon, row_f32__neon, pixels_f32__neon};
