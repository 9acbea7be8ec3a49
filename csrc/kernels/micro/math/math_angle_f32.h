// math_angle_f32.h — circular functions of f32 and their inverses; part of math_f32.h, whose rules
// hold here.
#ifndef ET_MATH_ANGLE_F32_H
#define ET_MATH_ANGLE_F32_H

#include "kernels/micro/math/math_core.h"

// ---- circular functions. Up to 2^15 in f32; the wide functions reach ETI_HUGE_ANGLE; loops use
// eti_reduce_huge beyond.

#define ETI_LARGE_ANGLE_f32 0x1p15f
#define ETI_HUGE_ANGLE_f32 0x1p50f

// x = n·π/2 + r with |r| ≤ π/4; *quadrant receives n in its low bits. The first product cancels
// exactly; the parts of π/2 are truncated, so that all are positive and a zero keeps its sign.
ETI_INLINE float eti_angle_f32(float x, uint32_t *quadrant) {
  const float shifted = eti_fma_f32(x, 0x1.45f306p-1f, 0x1.8p23f), n = shifted - 0x1.8p23f;
  *quadrant = eti_f32_bits(shifted);
  const float first = eti_fma_f32(n, -0x1.921fb4p+0f, x);
  return eti_fma_f32(n, -0x1.84698ap-48f, eti_fma_f32(n, -0x1.4442dp-24f, first));
}

// The angle with the remainder of r in *low, since a tangent magnifies it.
ETI_INLINE float eti_angle_pair_f32(float x, uint32_t *quadrant, float *low) {
  const float shifted = eti_fma_f32(x, 0x1.45f306p-1f, 0x1.8p23f), n = shifted - 0x1.8p23f;
  *quadrant = eti_f32_bits(shifted);
  const float first = eti_fma_f32(n, -0x1.921fb4p+0f, x);
  const float r = eti_fma_f32(n, -0x1.4442dp-24f, first);
  const float lost = eti_fma_f32(n, -0x1.4442dp-24f, first - r);
  *low = eti_fma_f32(n, -0x1.84698ap-48f, lost);
  return r;
}

// |r| ≤ π/4; polynomials of r² fitted for relative errors 2^-32, 2^-37 and 2^-29.5.
ETI_INLINE float eti_sin_reduced(float r) {
  const float t = r * r;
  float p = 0x1.7c2c4cp-19f;
  p = eti_fma_f32(p, t, -0x1.a05954p-13f);
  p = eti_fma_f32(p, t, 0x1.111174p-7f);
  p = eti_fma_f32(p, t, -0x1.555556p-3f);
  return eti_fma_f32(p * t, r, r);
}
ETI_INLINE float eti_cos_reduced(float r) {
  const float t = r * r;
  float p = -0x1.361c14p-22f;
  p = eti_fma_f32(p, t, 0x1.a071c6p-16f);
  p = eti_fma_f32(p, t, -0x1.6c175ep-10f);
  p = eti_fma_f32(p, t, 0x1.555556p-5f);
  p = eti_fma_f32(p, t, -0.5f);
  return eti_fma_f32(p, t, 1.0f);
}
// The tangent of r + low in even quadrants; in odd ones the negative reciprocal, corrected for what
// both roundings lost.
ETI_INLINE float eti_tan_rotated(float r, float low, uint32_t quadrant) {
  const float t = r * r;
  float p = 0x1.1e920cp-8f;
  p = eti_fma_f32(p, t, 0x1.9bf346p-14f);
  p = eti_fma_f32(p, t, 0x1.62cb4ap-7f);
  p = eti_fma_f32(p, t, 0x1.5cc0d2p-6f);
  p = eti_fma_f32(p, t, 0x1.bad9c2p-5f);
  p = eti_fma_f32(p, t, 0x1.110d9ep-3f);
  p = eti_fma_f32(p, t, 0x1.55556p-2f);
  const float more = eti_fma_f32(p * t, r, eti_fma_f32(low, t, low));
  const float y = r + more, y_low = more - (y - r), c = -1.0f / y;
  return (quadrant & 1u) != 0 ? eti_fma_f32(c, eti_fma_f32(c, y_low, eti_fma_f32(c, y, 1.0f)), c)
                              : y;
}

// sin(r + quadrant · π/2).
ETI_INLINE float eti_sin_rotated(float r, uint32_t quadrant) {
  const float y = (quadrant & 1u) != 0 ? eti_cos_reduced(r) : eti_sin_reduced(r);
  return eti_f32_from_bits(eti_f32_bits(y) ^ (quadrant & 2u) << 30);
}

ETI_INLINE float eti_sin_f32(float x) {
  uint32_t quadrant;
  const float r = eti_angle_f32(x, &quadrant);
  return x == 0.0f ? x : eti_sin_rotated(r, quadrant);
}
ETI_INLINE float eti_cos_f32(float x) {
  uint32_t quadrant;
  const float r = eti_angle_f32(x, &quadrant);
  return eti_sin_rotated(r, quadrant + 1u);
}
ETI_INLINE float eti_tan_f32(float x) {
  uint32_t quadrant;
  float low;
  const float r = eti_angle_pair_f32(x, &quadrant, &low);
  return x == 0.0f ? x : eti_tan_rotated(r, low, quadrant);
}

// ---- the same for large angles, in f64

// x = n·π/2 + r with |r| ≤ π/4; *quadrant receives n modulo 4. Exact products and a π/2 of 106
// bits.
ETI_INLINE double eti_angle_d(double x, uint64_t *quadrant) {
  const double shifted = eti_fma_f64(x, 0x1.45f306dc9c883p-1, ETI_ROUND_F64),
               n = shifted - ETI_ROUND_F64;
  *quadrant = eti_f64_bits(shifted) & 3u;
  return eti_fma_f64(n, -0x1.1a62633145c07p-54, eti_fma_f64(n, -0x1.921fb54442d18p+0, x));
}

ETI_INLINE double eti_sin_core(double r) {
  const double t = r * r;
  double p = -1.0 / 39916800.0;
  p = eti_fma_f64(p, t, 1.0 / 362880.0);
  p = eti_fma_f64(p, t, -1.0 / 5040.0);
  p = eti_fma_f64(p, t, 1.0 / 120.0);
  p = eti_fma_f64(p, t, -1.0 / 6.0);
  return eti_fma_f64(p * t, r, r);
}

ETI_INLINE double eti_cos_core(double r) {
  const double t = r * r;
  double p = 1.0 / 479001600.0;
  p = eti_fma_f64(p, t, -1.0 / 3628800.0);
  p = eti_fma_f64(p, t, 1.0 / 40320.0);
  p = eti_fma_f64(p, t, -1.0 / 720.0);
  p = eti_fma_f64(p, t, 1.0 / 24.0);
  p = eti_fma_f64(p, t, -0.5);
  return eti_fma_f64(p, t, 1.0);
}

// Remainder and quadrant of an angle of at least ETI_HUGE_ANGLE_f32: only the bits of 2/π that
// matter modulo four quadrants are multiplied. Branchy and rare, kept out of loops.
static inline double eti_reduce_huge(float x, uint64_t *quadrant) {
  static const uint32_t two_over_pi[8] = {0xA2F9836Eu, 0x4E441529u, 0xFC2757D1u, 0xF534DDC0u,
                                          0xDB629599u, 0x3C439041u, 0xFE5163ABu, 0xDEBBC561u};
  const uint32_t bits = eti_f32_bits(x) & 0x7FFFFFFFu;
  *quadrant = 0;
  if (bits >= 0x7F800000u) return (double)NAN;
  const uint64_t m = (bits & 0x7FFFFFu) | 0x800000u;
  const uint32_t skip = (bits >> 23) - 150u - 2u, word = skip / 32u,
                 shift = skip % 32u;  // x = m · 2^(skip + 2)
  uint64_t w[3];
  for (uint32_t i = 0; i < 3; i++) {
    const uint64_t pair = (uint64_t)two_over_pi[word + i] << 32 | two_over_pi[word + i + 1];
    w[i] = pair >> (32u - shift) & 0xFFFFFFFFu;
  }
  const uint64_t low = m * w[2], middle = m * w[1] + (low >> 32), high = m * w[0] + (middle >> 32);
  const uint64_t turns = high << 32 | (middle & 0xFFFFFFFFu);  // quadrants as 2.62 fixed point
  const uint64_t fraction = turns << 2;
  const bool up = fraction >> 63 != 0;
  const uint64_t q = (turns >> 62) + (up ? 1u : 0u);
  const double r = (double)(int64_t)fraction *
                   (0x1p-64 * 0x1.921fb54442d18p+0);  // as signed: the nearest quadrant
  *quadrant = (x < 0.0f ? 0u - q : q) & 3u;
  return x < 0.0f ? -r : r;
}

ETI_INLINE double eti_sin_quadrant(double r, uint64_t quadrant) {
  const double y = (quadrant & 1u) != 0 ? eti_cos_core(r) : eti_sin_core(r);
  return eti_f64_from_bits(eti_f64_bits(y) ^ (quadrant & 2u) << 62);
}

ETI_INLINE double eti_tan_quadrant(double r, uint64_t quadrant) {
  const double s = eti_sin_core(r), c = eti_cos_core(r);
  return (quadrant & 1u) != 0 ? -c / s : s / c;
}

ETI_INLINE float eti_sin_wide(float x) {
  uint64_t quadrant;
  const double r = eti_angle_d((double)x, &quadrant);
  return (float)eti_sin_quadrant(r, quadrant);
}
ETI_INLINE float eti_cos_wide(float x) {
  uint64_t quadrant;
  const double r = eti_angle_d((double)x, &quadrant);
  return (float)eti_sin_quadrant(r, quadrant + 1u);
}
ETI_INLINE float eti_tan_wide(float x) {
  uint64_t quadrant;
  const double r = eti_angle_d((double)x, &quadrant);
  return (float)eti_tan_quadrant(r, quadrant);
}

static inline float eti_sin_huge(float x) {
  uint64_t quadrant;
  const double r = eti_reduce_huge(x, &quadrant);
  return (float)eti_sin_quadrant(r, quadrant);
}
static inline float eti_cos_huge(float x) {
  uint64_t quadrant;
  const double r = eti_reduce_huge(x, &quadrant);
  return (float)eti_sin_quadrant(r, quadrant + 1u);
}
static inline float eti_tan_huge(float x) {
  uint64_t quadrant;
  const double r = eti_reduce_huge(x, &quadrant);
  return (float)eti_tan_quadrant(r, quadrant);
}

// ---- inverse circular functions

// atan(b) for b in [0, 1], fitted for relative error 2^-28.5.
ETI_INLINE float eti_atan_reduced(float b) {
  const float t = b * b;
  float p = -0x1.d3427ep-10f;
  p = eti_fma_f32(p, t, 0x1.641b1ap-7f);
  p = eti_fma_f32(p, t, -0x1.fd77dep-6f);
  p = eti_fma_f32(p, t, 0x1.da2824p-5f);
  p = eti_fma_f32(p, t, -0x1.5808d4p-4f);
  p = eti_fma_f32(p, t, 0x1.c08c46p-4f);
  p = eti_fma_f32(p, t, -0x1.242086p-3f);
  p = eti_fma_f32(p, t, 0x1.9991e4p-3f);
  p = eti_fma_f32(p, t, -0x1.55553ep-2f);
  return eti_fma_f32(p * t, b, b);
}

#define ETI_HALF_PI_F32 0x1.921fb6p+0f
#define ETI_HALF_PI_LOW_F32 -0x1.777a5cp-25f

ETI_INLINE float eti_atan_f32(float x) {
  const float a = fabsf(x);
  const bool large = a > 1.0f;
  const float y = eti_atan_reduced((large ? 1.0f : a) / (large ? a : 1.0f));
  return copysignf(large ? (ETI_HALF_PI_F32 - y) + ETI_HALF_PI_LOW_F32 : y, x);
}

// asin(s) - s for z = s² in [0, 1/4], fitted for relative error 2^-27.6 of the sum.
ETI_INLINE float eti_asin_tail(float s, float z) {
  float p = 0x1.595c5cp-5f;
  p = eti_fma_f32(p, z, 0x1.8c3e52p-6f);
  p = eti_fma_f32(p, z, 0x1.747bb8p-5f);
  p = eti_fma_f32(p, z, 0x1.330204p-4f);
  p = eti_fma_f32(p, z, 0x1.5555c8p-3f);
  return p * z * s;
}

// Beyond 1/2 it uses half the angle: asin(a) = π/2 - 2·asin(sqrt((1 - a) / 2)).
ETI_INLINE float eti_asin_f32(float x) {
  const float a = fabsf(x);
  const bool large = a > 0.5f;
  const float z = large ? 0.5f - 0.5f * a : x * x, s = large ? sqrtf(z) : a;
  const float tail = eti_asin_tail(s, z);
  const float y = ETI_HALF_PI_F32 - 2.0f * s, lost = (ETI_HALF_PI_F32 - y) - 2.0f * s;
  return copysignf(large ? y - ((2.0f * tail - ETI_HALF_PI_LOW_F32) - lost) : s + tail, x);
}
ETI_INLINE float eti_acos_f32(float x) {
  const float a = fabsf(x);
  const bool large = a > 0.5f;
  const float z = large ? 0.5f - 0.5f * a : x * x, s = large ? sqrtf(z) : a;
  const float y = s + eti_asin_tail(s, z);
  const float ends = x < 0.0f ? 2.0f * ETI_HALF_PI_F32 - 2.0f * y : 2.0f * y;
  return large ? ends : ETI_HALF_PI_F32 - (copysignf(y, x) - ETI_HALF_PI_LOW_F32);
}

ETI_INLINE float eti_atan2_f32(float y, float x) {
  const float a = fabsf(y), b = fabsf(x);
  const bool steep = a > b;
  const float low = steep ? b : a, high = steep ? a : b;
  const bool both_infinite = low == INFINITY, both_zero = high == 0.0f;
  float t = eti_atan_reduced(both_infinite ? 1.0f : both_zero ? 0.0f : low / high);
  t = steep ? (ETI_HALF_PI_F32 - t) + ETI_HALF_PI_LOW_F32 : t;
  t = signbit(x) ? (2.0f * ETI_HALF_PI_F32 - t) + 2.0f * ETI_HALF_PI_LOW_F32 : t;
  return ((x != x) | (y != y)) ? x + y : copysignf(t, y);
}

#endif  // ET_MATH_ANGLE_F32_H
