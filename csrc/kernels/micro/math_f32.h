// math_f32.h — elementary functions of f32 as straight-line arithmetic: no branch, no table, no
// libm, so that loops over them vectorise and every instruction set gives the same bits. Only +, -,
// ×, ÷, sqrt and explicit fma are used.
//   Most work in f32; powers, hyperbolic sines and their inverses, and large angles
//   work in f64 and round once at the end. Error: at most 2 units in the last place
//   (tests/kernels/test_math.py), specials as in C.
#ifndef ET_MATH_F32_H
#define ET_MATH_F32_H

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
// Exact, so libm's serves on every platform alike.
ETI_INLINE float eti_fmod_f32(float a, float b) {
  return fmodf(a, b);
}

#define ETI_ROUND_f32 0x1.8p23f
#define ETI_NEAR_f32 0x1p22f
#define T float
#define SUFFIX f32
#include "kernels/micro/math_mod.body.h"

// ---- f64 building blocks, good for about 1e-12 relative: f32 results round as if they were exact

#define ETI_ROUND_F64 0x1.8p52  // adding it rounds to an integer, which then lies in the low bits

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
  // Exponent such that the mantissa lies in [sqrt(1/2), sqrt(2)): the offset carries into the
  // exponent from sqrt(2) on.
  const uint64_t offset = bits + (0x3FF0000000000000u - 0x3FE6A09E667F3BCDu);
  // As a double, because integers of 64 bits do not convert before AVX-512: the exponent enters
  // below 2^52 and leaves by subtraction.
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

// ---- exponentials

// n + 0x1.8p23 and the remainder r of x = n·ln2 + r, |r| ≤ ln2 / 2.
ETI_INLINE float eti_exp_reduce(float x, float *shifted) {
  const float t = eti_fma_f32(x, 0x1.715476p+0f, 0x1.8p23f), n = t - 0x1.8p23f;
  *shifted = t;
  return eti_fma_f32(n, 0x1.05c610p-29f, eti_fma_f32(n, -0x1.62e430p-1f, x));
}

// e^r - 1 for |r| ≤ ln2 / 2 (Taylor; the first term left out is 2e-10). Adding r last keeps the
// error near half a unit.
ETI_INLINE float eti_expm1_reduced(float r) {
  float p = 1.0f / 40320.0f;
  p = eti_fma_f32(p, r, 1.0f / 5040.0f);
  p = eti_fma_f32(p, r, 1.0f / 720.0f);
  p = eti_fma_f32(p, r, 1.0f / 120.0f);
  p = eti_fma_f32(p, r, 1.0f / 24.0f);
  p = eti_fma_f32(p, r, 1.0f / 6.0f);
  p = eti_fma_f32(p, r, 0.5f);
  return eti_fma_f32(p, r * r, r);
}

// Where the result rounds to 0 the arithmetic is done for 0: products that underflow cost
// processors a hundred times what others do.
ETI_INLINE float eti_exp_f32(float x) {
  const bool vanishes = x < -104.0f;
  float y = x > 89.0f ? 89.0f : x;
  y = vanishes ? 0.0f : y;
  float shifted;
  const float r = eti_exp_reduce(y, &shifted);
  const float p = eti_expm1_reduced(r) + 1.0f;
  // 2^n in two factors, because n reaches from -150 (denormal results) to 128 (infinity).
  const int32_t n = (int32_t)(eti_f32_bits(shifted) - 0x4B400000u), half = n >> 1;
  const float s1 = eti_f32_from_bits((uint32_t)(half + 127) << 23),
              s2 = eti_f32_from_bits((uint32_t)(n - half + 127) << 23);
  return vanishes ? 0.0f : p * s1 * s2;
}

// e^x for terms of sums and tails, x ≤ 0: results below the smallest normal number are 0. They
// could not change a sum of at least 1, and whatever multiplied by them next would pay as above.
// One factor reaches all others.
ETI_INLINE float eti_exp_term_f32(float x) {
  const bool vanishes = x < -87.33f;
  float shifted;
  const float r = eti_exp_reduce(vanishes ? 0.0f : x, &shifted);
  const float p = eti_expm1_reduced(r) + 1.0f;
  const float y = p * eti_f32_from_bits((eti_f32_bits(shifted) - 0x4B400000u + 127u) << 23);
  return vanishes ? 0.0f : y;
}

ETI_INLINE float eti_expm1_f32(float x) {
  float y = x > 89.0f ? 89.0f : x;
  y = y < -18.0f ? -18.0f : y;  // from there on -1
  float shifted;
  const float r = eti_exp_reduce(y, &shifted);
  // Half of 2^n·(e^r - 1) + (2^n - 1): half, because n reaches 128. No cancellation, as n = 0 for
  // small arguments.
  const float half = eti_f32_from_bits((eti_f32_bits(shifted) - 0x4B400000u + 126u) << 23);
  const float m = eti_fma_f32(half, eti_expm1_reduced(r), half - 0.5f);
  return fabsf(x) < 0x1p-25f ? x : m + m;
}

// t / (1 + t) below 0 and 1 / (1 + t) above, t = e^-|x|: at most 1, so that small results keep all
// their digits. The reciprocal is corrected for its own rounding and that of the sum.
ETI_INLINE float eti_sigmoid_f32(float x) {
  const float t = eti_exp_f32(-fabsf(x)), sum = 1.0f + t, inverse = 1.0f / sum;
  const float lost = t - (sum - 1.0f);
  const float y = x < 0.0f ? t * inverse : inverse;
  return eti_fma_f32(y, eti_fma_f32(-inverse, lost, eti_fma_f32(-inverse, sum, 1.0f)), y);
}

ETI_INLINE float eti_tanh_f32(float x) {
  const float a = fabsf(x);
  float y = a > 10.0f ? 10.0f : a;  // tanh(10) rounds to 1
  y += y;
  float shifted;
  const float r = eti_exp_reduce(y, &shifted);
  // e^2a - 1 = 2^n·(e^r - 1) + (2^n - 1), without cancellation because n = 0 for small arguments.
  const float scale = eti_f32_from_bits((eti_f32_bits(shifted) - 0x4B400000u + 127u) << 23);
  const float m = eti_fma_f32(scale, eti_expm1_reduced(r), scale - 1.0f);
  // Below 0.3 the series: the quotient would be off by more than two units there.
  const float t = a * a;
  float p = -1382.0f / 155925.0f;
  p = eti_fma_f32(p, t, 62.0f / 2835.0f);
  p = eti_fma_f32(p, t, -17.0f / 315.0f);
  p = eti_fma_f32(p, t, 2.0f / 15.0f);
  p = eti_fma_f32(p, t, -1.0f / 3.0f);
  return copysignf(a < 0.3f ? eti_fma_f32(p * t, a, a) : m / (m + 2.0f), x);
}

// ---- error function and what is made of it

ETI_INLINE float eti_erf_f32(float x) {
  const float a = fabsf(x), t = x * x;
  // |x| < 0.95: x times a polynomial of x², fitted for relative error 6e-10.
  float p = 0x1.574e98p-14f;
  p = eti_fma_f32(p, t, -0x1.a88d7ap-11f);
  p = eti_fma_f32(p, t, 0x1.549662p-8f);
  p = eti_fma_f32(p, t, -0x1.b80962p-6f);
  p = eti_fma_f32(p, t, 0x1.ce2dcap-4f);
  p = eti_fma_f32(p, t, -0x1.812742p-2f);
  p = eti_fma_f32(p, t, 0x1.06eba8p-3f);
  const float small = eti_fma_f32(p, x, x);
  // Else 1 - exp(-q), q fitted to -log(erfc|x|) on [0.9, 4] so that the result errs by 6e-11;
  // beyond 4 it is 1.
  const float b = a > 4.0f ? 4.0f : a;
  float q = 2.08296918868e-5f;
  q = eti_fma_f32(q, b, -0.000431405338937f);
  q = eti_fma_f32(q, b, 0.00415630905335f);
  q = eti_fma_f32(q, b, -0.0250807518664f);
  q = eti_fma_f32(q, b, 0.108220582934f);
  q = eti_fma_f32(q, b, 0.633400679104f);
  q = eti_fma_f32(q, b, 1.12948848719f);
  q = eti_fma_f32(q, b, -0.000169221084866f);
  const float large = copysignf(1.0f - eti_exp_f32(-q), x);
  return a < 0.95f ? small : large;
}

// (1 + 2x)·exp(x²)·erfc(x) for x ≥ 0, a function of u = (x - 3.75) / (x + 3.75): special.h's
// expansion to 1e-9, as powers.
ETI_INLINE double eti_erfcx_powers(double u) {
  double p = 0x1.36bf288552444p-16;
  p = eti_fma_f64(p, u, 0x1.71e1efca86a89p-16);
  p = eti_fma_f64(p, u, -0x1.2a1fb5cb7934ep-12);
  p = eti_fma_f64(p, u, 0x1.5a34a6d48dbb3p-12);
  p = eti_fma_f64(p, u, 0x1.cb0e32fdabd90p-10);
  p = eti_fma_f64(p, u, -0x1.40256e773fd3bp-7);
  p = eti_fma_f64(p, u, 0x1.d0b7adf700b97p-6);
  p = eti_fma_f64(p, u, -0x1.e0c049f57cecep-5);
  p = eti_fma_f64(p, u, 0x1.7a13b1904d789p-4);
  p = eti_fma_f64(p, u, -0x1.bdaa8cdf57d04p-4);
  p = eti_fma_f64(p, u, 0x1.5101735820314p-4);
  p = eti_fma_f64(p, u, 0x1.d5f5423a4c280p-9);
  p = eti_fma_f64(p, u, -0x1.1f3676a4a0131p-3);
  p = eti_fma_f64(p, u, 0x1.3ccda0b2609cbp+0);
  return p;
}

// exp(-x²)·p(u) / (1 + 2|x|) in f64. Beyond 11 nothing remains, so that the exponential needs no
// bounds. One reciprocal serves both quotients: that of f32, improved once.
ETI_INLINE float eti_erfc_f32(float x) {
  const double a = fabs((double)x), b = a > 11.0 ? 11.0 : a;
  const double d = 1.0 + 2.0 * b, e = b + 3.75, both = d * e;
  const double guess = (double)(1.0f / (float)both);
  const double inverse = eti_fma_f64(eti_fma_f64(-both, guess, 1.0), guess, guess);
  const double shifted = eti_fma_f64(-b * b, 0x1.71547652b82fep+0, ETI_ROUND_F64),
               r = eti_fma_f64(shifted - ETI_ROUND_F64, -0x1.62e42fefa39efp-1, -b * b);
  double y = 1.0 / 5040.0;  // Taylor: |r| ≤ ln2 / 2, the first term left out is 5e-9
  y = eti_fma_f64(y, r, 1.0 / 720.0);
  y = eti_fma_f64(y, r, 1.0 / 120.0);
  y = eti_fma_f64(y, r, 1.0 / 24.0);
  y = eti_fma_f64(y, r, 1.0 / 6.0);
  y = eti_fma_f64(y, r, 0.5);
  y = eti_fma_f64(y, r, 1.0);
  y = eti_fma_f64(y, r, 1.0);
  const double p = eti_erfcx_powers((b - 3.75) * (d * inverse));
  const double near = y * eti_exp2i_f64(shifted) * p * (e * inverse), tail = a > 11.0 ? 0.0 : near;
  return (float)(x < 0.0f ? 2.0 - tail : tail);
}

// x·Φ(x). The tail Φ(-|x|) is exp(-q) / 2, q fitted on [0, 6] so that it errs by 2^-27 for ordinary
// x and stays good to five digits where it is small; q keeps growing beyond, until nothing remains.
ETI_INLINE float eti_gelu_f32(float x) {
  const float a = fabsf(x), b = a > 16.0f ? 16.0f : a;
  float q = 0x1.3a7c18p-26f;
  q = eti_fma_f32(q, b, -0x1.2b269ap-21f);
  q = eti_fma_f32(q, b, 0x1.e606d8p-18f);
  q = eti_fma_f32(q, b, -0x1.acfc58p-15f);
  q = eti_fma_f32(q, b, 0x1.8a61c8p-13f);
  q = eti_fma_f32(q, b, 0x1.7a66f4p-17f);
  q = eti_fma_f32(q, b, -0x1.3c72ccp-8f);
  q = eti_fma_f32(q, b, 0x1.29d94ep-5f);
  q = eti_fma_f32(q, b, 0x1.45f1acp-2f);
  q = eti_fma_f32(q, b, 0x1.98846p-1f);
  const float tail = 0.5f * eti_exp_term_f32(-q * b);
  return x * (x > 0.0f ? 1.0f - tail : tail);
}

ETI_INLINE float eti_gelu_tanh_f32(float x) {
  const float inner = 0x1.988454p-1f * (x + 0x1.6e4e26p-5f * (x * x * x));  // sqrt(2/π), 0.044715
  const float half = 0.5f * x;
  return half * (1.0f + eti_tanh_f32(inner));
}

// ---- logarithms

// y = 2^n · (1 + f) with 1 + f in [2/3, 4/3), for a normal positive y; the result is n.
ETI_INLINE int32_t eti_log_exponent(float y) {
  return (int32_t)(eti_f32_bits(y) - 0x3F2AAAABu) >> 23;
}

// The exponent of x as a float and f; denormal x included.
ETI_INLINE float eti_log_reduce(float x, float *f) {
  const bool tiny = x < 0x1p-126f;
  const float y = tiny ? x * 0x1p23f : x;
  *f = eti_f32_from_bits(((eti_f32_bits(y) - 0x3F2AAAABu) & 0x7FFFFFu) + 0x3F2AAAABu) - 1.0f;
  return (float)(eti_log_exponent(y) - (tiny ? 23 : 0));
}

// log(1 + f) - f for f in [-1/3, 1/3]: -f²/2 + f³·p(f), p fitted for relative error 2^-29 of the
// logarithm.
ETI_INLINE float eti_log_tail(float f) {
  float p = 0x1.e069dap-4f;
  p = eti_fma_f32(p, f, -0x1.07d8dap-3f);
  p = eti_fma_f32(p, f, 0x1.bb477p-4f);
  p = eti_fma_f32(p, f, -0x1.f337d8p-4f);
  p = eti_fma_f32(p, f, 0x1.24d7b2p-3f);
  p = eti_fma_f32(p, f, -0x1.559bbp-3f);
  p = eti_fma_f32(p, f, 0x1.99985ep-3f);
  p = eti_fma_f32(p, f, -0x1.ffff02p-3f);
  p = eti_fma_f32(p, f, 0x1.555556p-2f);
  const float t = f * f;
  return eti_fma_f32(p * f, t, -0.5f * t);
}

// n·log(2) + log(1 + f).
ETI_INLINE float eti_log_sum(float n, float f) {
  const float tail = eti_fma_f32(n, -0x1.05c610p-29f, eti_log_tail(f));
  return eti_fma_f32(n, 0x1.62e430p-1f, f + tail);
}

// What every logarithm gives for 0, infinity, negative numbers and NaN.
ETI_INLINE float eti_log_special(float x, float y) {
  y = x == 0.0f ? -INFINITY : y;
  y = x == INFINITY ? x : y;
  return x >= 0.0f ? y : NAN;
}

ETI_INLINE float eti_log_f32(float x) {
  float f;
  const float n = eti_log_reduce(x, &f);
  return eti_log_special(x, eti_log_sum(n, f));
}

ETI_INLINE float eti_log2_f32(float x) {
  float f;
  const float n = eti_log_reduce(x, &f);
  const float low = eti_fma_f32(eti_log_tail(f), 0x1.715476p+0f, f * 0x1.4ae0cp-26f);
  return eti_log_special(x, n + eti_fma_f32(f, 0x1.715476p+0f, low));
}

ETI_INLINE float eti_log10_f32(float x) {
  float f;
  const float n = eti_log_reduce(x, &f);
  float low = eti_fma_f32(eti_log_tail(f), 0x1.bcb7b2p-2f, f * -0x1.5b235ep-27f);
  low = eti_fma_f32(n, -0x1.ec10cp-27f, low);
  const float m = eti_fma_f32(f, 0x1.bcb7b2p-2f, low);
  return eti_log_special(x, eti_fma_f32(n, 0x1.344136p-2f, m));
}

// The exponent is that of 1 + x; f = 2^-n·(1 + x) - 1 is rounded once, so that small x lose
// nothing.
ETI_INLINE float eti_log1p_f32(float x) {
  const float u = 1.0f + x;
  const int32_t n = eti_log_exponent(u);
  const float s = eti_f32_from_bits((uint32_t)(129 - n) << 23);  // 2^(2 - n), as n reaches 128
  const float f = eti_fma_f32(s, 0.25f * x, eti_fma_f32(s, 0.25f, -1.0f));
  const float y = eti_log_special(u, eti_log_sum((float)n, f));
  return fabsf(x) < 0x1p-100f ? x : y;
}

// ---- circular functions. Up to 2^15 in f32; the wide functions reach ETI_HUGE_ANGLE;
// loops send what is beyond through eti_reduce_huge.

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

// The same with what r lacks in *low, since a tangent magnifies it.
ETI_INLINE float eti_angle_pair_f32(float x, uint32_t *quadrant, float *low) {
  const float shifted = eti_fma_f32(x, 0x1.45f306p-1f, 0x1.8p23f), n = shifted - 0x1.8p23f;
  *quadrant = eti_f32_bits(shifted);
  const float first = eti_fma_f32(n, -0x1.921fb4p+0f, x), second = n * 0x1.4442dp-24f;
  const float sum = first - second, part = sum - first;
  float lost = (first - (sum - part)) - (second + part);
  lost -= eti_fma_f32(n, 0x1.4442dp-24f, -second);
  lost = eti_fma_f32(n, -0x1.84698ap-48f, lost);
  const float r = sum + lost;
  *low = lost - (r - sum);
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
ETI_INLINE float eti_tan_turned(float r, float low, uint32_t quadrant) {
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
ETI_INLINE float eti_sin_turned(float r, uint32_t quadrant) {
  const float y = (quadrant & 1u) != 0 ? eti_cos_reduced(r) : eti_sin_reduced(r);
  return eti_f32_from_bits(eti_f32_bits(y) ^ (quadrant & 2u) << 30);
}

ETI_INLINE float eti_sin_f32(float x) {
  uint32_t quadrant;
  const float r = eti_angle_f32(x, &quadrant);
  return x == 0.0f ? x : eti_sin_turned(r, quadrant);
}
ETI_INLINE float eti_cos_f32(float x) {
  uint32_t quadrant;
  const float r = eti_angle_f32(x, &quadrant);
  return eti_sin_turned(r, quadrant + 1u);
}
ETI_INLINE float eti_tan_f32(float x) {
  uint32_t quadrant;
  float low;
  const float r = eti_angle_pair_f32(x, &quadrant, &low);
  return x == 0.0f ? x : eti_tan_turned(r, low, quadrant);
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

// The remainder and quadrant of an angle of at least ETI_HUGE_ANGLE_f32: only those bits of 2/π are
// multiplied that matter modulo four quadrants. A branchy rarity, kept out of loops.
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

// Beyond 1/2 half the angle is taken: asin(a) = π/2 - 2·asin(sqrt((1 - a) / 2)).
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

// ---- hyperbolic functions and their inverses

ETI_INLINE float eti_sinh_f32(float x) {
  const double d = (double)x, e = eti_exp_d(fabs(d));
  const double small = eti_fma_f64(d * d * (1.0 / 6.0), d, d),
               large = copysign(0.5 * (e - 1.0 / e), d);
  return (float)(fabs(d) < 0x1p-12 ? small : large);
}
ETI_INLINE float eti_cosh_f32(float x) {
  const double e = eti_exp_d(fabs((double)x));
  return (float)(0.5 * (e + 1.0 / e));
}
ETI_INLINE float eti_asinh_f32(float x) {
  const double d = (double)x, a = fabs(d);
  const double small = eti_fma_f64(a * a * (-1.0 / 6.0), a, a),
               large = eti_log_d(a + sqrt(eti_fma_f64(a, a, 1.0)));
  return (float)copysign(a < 0x1p-12 ? small : large, d);
}
ETI_INLINE float eti_acosh_f32(float x) {
  const double d = (double)x, y = eti_log_d(d + sqrt((d - 1.0) * (d + 1.0)));
  return (float)(d >= 1.0 ? y : (double)NAN);
}
ETI_INLINE float eti_atanh_f32(float x) {
  const double d = (double)x;
  const double small = eti_fma_f64(d * d * (1.0 / 3.0), d, d),
               large = 0.5 * eti_log_d((1.0 + d) / (1.0 - d));
  return (float)(fabs(d) < 0x1p-12 ? small : large);
}

// ---- powers

ETI_INLINE float eti_pow_f32(float x, float y) {
  const double a = fabs((double)x), e = (double)y;
  const double magnitude = eti_exp_d(e * eti_log_d(a));
  const bool whole = floor(e) == e, odd = whole && floor(e * 0.5) != e * 0.5;
  double r = odd && signbit(x) ? -magnitude : magnitude;
  r = x < 0.0f && !whole && a != (double)INFINITY ? (double)NAN : r;
  const bool one = y == 0.0f || x == 1.0f || (x == -1.0f && fabsf(y) == INFINITY);
  return (float)(one ? 1.0 : r);
}

// Squares of f32 neither overflow nor vanish in f64.
ETI_INLINE float eti_hypot_f32(float x, float y) {
  const double a = (double)x, b = (double)y;
  const float z = (float)sqrt(a * a + b * b);
  return ((fabsf(x) == INFINITY) | (fabsf(y) == INFINITY)) ? INFINITY : z;
}

// log(x / (1 - x)). Near 1/2 the quotient is near 1, and log(1 + f) with f = (2x - 1) / (1 - x)
// keeps the digits that x / (1 - x) - 1 would lose.
ETI_INLINE float eti_logit_f32(float x) {
  const bool middle = x >= 0.4f && x <= 0.57f;
  const float q = (middle ? 2.0f * x - 1.0f : x) / (1.0f - x);
  float f;
  const float n = eti_log_reduce(q, &f);
  const float y = eti_log_sum(middle ? 0.0f : n, middle ? q : f);
  return middle ? y : eti_log_special(q, y);
}

#endif  // ET_MATH_F32_H
