// math_core.h — building blocks of the elementary functions of math_f32.h and math_f64.h: bits and
// fused products, the functions of f32 that C names by type, and exponential, logarithm and arc
// tangent in f64 with the accuracy of f32 results. Straight-line arithmetic without libm, as there.
#ifndef ET_MATH_CORE_H
#define ET_MATH_CORE_H

#include "runtime/half.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define ETI_INLINE static inline __attribute__((always_inline))
#else
#define ETI_INLINE static inline
#endif

ETI_INLINE uint64_t eti_f64_bits(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

ETI_INLINE double eti_f64_from_bits(uint64_t u) {
  double x;
  memcpy(&x, &u, sizeof x);
  return x;
}

ETI_INLINE float eti_fma_f32(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
ETI_INLINE double eti_fma_f64(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}

// which ? a : b by masks, for use when compilers would compute all dependent values twice.
ETI_INLINE float eti_pick_f32(bool which, float a, float b) {
  const uint32_t mask = 0u - (uint32_t)which;
  return eti_f32_from_bits((eti_f32_bits(a) & mask) | (eti_f32_bits(b) & ~mask));
}
ETI_INLINE double eti_pick_f64(bool which, double a, double b) {
  const uint64_t mask = 0u - (uint64_t)which;
  return eti_f64_from_bits((eti_f64_bits(a) & mask) | (eti_f64_bits(b) & ~mask));
}

// ---- by type, for loops that exist in f32 and f64

ETI_INLINE float eti_abs_f32(float x) {
  return fabsf(x);
}
ETI_INLINE float eti_ceil_f32(float x) {
  return ceilf(x);
}
ETI_INLINE float eti_floor_f32(float x) {
  return floorf(x);
}
ETI_INLINE float eti_rint_f32(float x) {
  return rintf(x);
}
ETI_INLINE float eti_trunc_f32(float x) {
  return truncf(x);
}
ETI_INLINE float eti_sqrt_f32(float x) {
  return sqrtf(x);
}
ETI_INLINE float eti_copysign_f32(float x, float sign) {
  return copysignf(x, sign);
}
ETI_INLINE uint32_t eti_bits_f32(float x) {
  return eti_f32_bits(x);
}
// fmod is exact, so libm's gives the same bits on every platform.
ETI_INLINE float eti_fmod_f32(float a, float b) {
  return fmodf(a, b);
}

#define ETI_ROUND_f32 0x1.8p23f
#define ETI_NEAR_f32 0x1p22f
#define T float
#define SUFFIX f32
#include "kernels/micro/math/math_mod.body.h"

// The neighbour of a on the side of b: one step on the bits as integers, which order floats of one
// sign.
ETI_INLINE float eti_nextafter_f32(float a, float b) {
  const uint32_t from = eti_f32_bits(a), towards = eti_f32_bits(b);
  const uint32_t step = (a < b) == (a > 0.0f) ? from + 1u : from - 1u;
  const uint32_t moved = a == 0.0f ? (towards & 0x80000000u) | 1u : step;
  const float y = a == b ? b : eti_f32_from_bits(moved);
  return ((a != a) | (b != b)) ? a + b : y;
}
ETI_INLINE double eti_nextafter_f64(double a, double b) {
  const uint64_t from = eti_f64_bits(a), towards = eti_f64_bits(b);
  const uint64_t step = (a < b) == (a > 0.0) ? from + 1u : from - 1u;
  const uint64_t moved = a == 0.0 ? (towards & 0x8000000000000000u) | 1u : step;
  const double y = a == b ? b : eti_f64_from_bits(moved);
  return ((a != a) | (b != b)) ? a + b : y;
}

// ---- f64 building blocks, good for about 1e-12 relative: f32 results round as if they were exact

#define ETI_ROUND_F64 0x1.8p52  // adding it rounds to an integer, in the low bits

// 2^n for n in -1022 … 1023, given n + ETI_ROUND_F64.
ETI_INLINE double eti_exp2i_f64(double n_shifted) {
  return eti_f64_from_bits((eti_f64_bits(n_shifted) + 1023u) << 52);
}

ETI_INLINE double eti_exp_d(double x) {
  x = x > 700.0 ? 700.0 : x;  // f32 overflows at 89; NaN passes both comparisons unchanged
  x = x < -700.0 ? -700.0 : x;
  const double shifted = eti_fma_f64(x, 0x1.71547652b82fep+0, ETI_ROUND_F64),
               n = shifted - ETI_ROUND_F64;
  const double r = eti_fma_f64(n, -0x1.abc9e3b39803fp-56, eti_fma_f64(n, -0x1.62e42fefa39efp-1, x));
  double p = 1.0 / 362880.0;  // Taylor: |r| ≤ ln2 / 2, the first term left out is 7e-12
  p = eti_fma_f64(p, r, 1.0 / 40320.0);
  p = eti_fma_f64(p, r, 1.0 / 5040.0);
  p = eti_fma_f64(p, r, 1.0 / 720.0);
  p = eti_fma_f64(p, r, 1.0 / 120.0);
  p = eti_fma_f64(p, r, 1.0 / 24.0);
  p = eti_fma_f64(p, r, 1.0 / 6.0);
  p = eti_fma_f64(p, r, 0.5);
  p = eti_fma_f64(p, r, 1.0);
  p = eti_fma_f64(p, r, 1.0);
  return p * eti_exp2i_f64(shifted);
}

// Natural logarithm of a normal number, 0 or infinity; NaN below 0. (Every f32 is normal in f64.)
ETI_INLINE double eti_log_d(double x) {
  const uint64_t bits = eti_f64_bits(x);
  // Exponent for a mantissa in [sqrt(1/2), sqrt(2)): the offset carries into the exponent from
  // sqrt(2) on.
  const uint64_t offset = bits + (0x3FF0000000000000u - 0x3FE6A09E667F3BCDu);
  // The exponent becomes a double by bits, because 64-bit integers do not convert before AVX-512:
  // it enters below 2^52 and leaves by subtraction.
  const double e = eti_f64_from_bits(offset >> 52 | 0x4330000000000000u) - (0x1p52 + 1023.0);
  const double m = eti_f64_from_bits((offset & 0x000FFFFFFFFFFFFFu) + 0x3FE6A09E667F3BCDu);
  const double s = (m - 1.0) / (m + 1.0), t = s * s;
  double p = 1.0 / 13.0;  // atanh series: |s| ≤ 0.172, the first term left out is 1e-12
  p = eti_fma_f64(p, t, 1.0 / 11.0);
  p = eti_fma_f64(p, t, 1.0 / 9.0);
  p = eti_fma_f64(p, t, 1.0 / 7.0);
  p = eti_fma_f64(p, t, 1.0 / 5.0);
  p = eti_fma_f64(p, t, 1.0 / 3.0);
  const double log_m = eti_fma_f64(p * t, 2.0 * s, 2.0 * s);
  double y = eti_fma_f64(e, 0x1.62e42fefa39efp-1, log_m);
  y = x == 0.0 ? -(double)INFINITY : y;
  y = x == (double)INFINITY ? x : y;
  return x >= 0.0 ? y : (double)NAN;
}

ETI_INLINE double eti_atan_d(double x) {
  const double a = fabs(x);
  const bool large = a > 1.0;
  const double b = large ? 1.0 / a : a;                            // [0, 1]
  const bool middle = b > 0x1.a827999fcef32p-2;                    // tan(π/8)
  const double c = middle ? (b - 1.0) / (b + 1.0) : b, t = c * c;  // |c| ≤ tan(π/8)
  double p = -1.0 / 27.0;
  p = eti_fma_f64(p, t, 1.0 / 25.0);
  p = eti_fma_f64(p, t, -1.0 / 23.0);
  p = eti_fma_f64(p, t, 1.0 / 21.0);
  p = eti_fma_f64(p, t, -1.0 / 19.0);
  p = eti_fma_f64(p, t, 1.0 / 17.0);
  p = eti_fma_f64(p, t, -1.0 / 15.0);
  p = eti_fma_f64(p, t, 1.0 / 13.0);
  p = eti_fma_f64(p, t, -1.0 / 11.0);
  p = eti_fma_f64(p, t, 1.0 / 9.0);
  p = eti_fma_f64(p, t, -1.0 / 7.0);
  p = eti_fma_f64(p, t, 1.0 / 5.0);
  p = eti_fma_f64(p, t, -1.0 / 3.0);
  double y = eti_fma_f64(p * t, c, c);
  y = middle ? y + 0x1.921fb54442d18p-1 : y;
  y = large ? 0x1.921fb54442d18p+0 - y : y;
  return copysign(y, x);
}

#endif  // ET_MATH_CORE_H
