// math_f32.h — elementary functions of f32 as straight-line arithmetic: no branch, no table, no
// libm, so that loops over them vectorise and every instruction set gives the same bits. Only +, -,
// ×, ÷, sqrt and explicit fma are used. Most work in f32; powers, hyperbolic sines and their
// inverses, and large angles work in f64 and round once at the end. Error: at most 2 units in the
// last place (tests/kernels/test_math.py), specials as in C.
#ifndef ET_MATH_F32_H
#define ET_MATH_F32_H

#include "kernels/micro/math/math_angle_f32.h"
#include "kernels/micro/math/math_core.h"

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

// Uses 0 where the result rounds to 0: products that underflow are slow (docs/benchmarks.md).
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
// could not change a sum of at least 1, and would slow later products. One factor reaches all other
// results.
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

// ---- error function and functions built on it

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

// exp(-x²) · (1 + w·p(w)) / (1 + 2|x|) with w = |x| / (|x| + 3), p fitted around w = 1/2 for error
// 2^-26 of the sum. One reciprocal serves both quotients; the rounding errors of the square and the
// first quotient go into the exponential, so that tails stay accurate down to their underflow.
ETI_INLINE float eti_erfc_f32(float x) {
  const float a = fabsf(x);
  const bool vanishes = a > 0x1.42p3f;  // 10.0625
  const float b = vanishes ? 0.0f : a;
  const float d = eti_fma_f32(2.0f, b, 1.0f), d_low = eti_fma_f32(2.0f, b, 1.0f - d), e = b + 3.0f;
  const float inverse = 1.0f / (d * e), v = e * inverse, near = d * inverse;
  const float w = b * eti_fma_f32(eti_fma_f32(-e, near, 1.0f), near, near);
  const float lost = eti_fma_f32(-d_low, v, eti_fma_f32(-d, v, 1.0f));
  const float u = w - 0.5f, t = u * u;
  float odd = -0x1.1a5d64p-2f, even = -0x1.0bdba6p-2f;
  odd = eti_fma_f32(odd, t, 0x1.4934fep-1f);
  even = eti_fma_f32(even, t, 0x1.de45bep-8f);
  odd = eti_fma_f32(odd, t, -0x1.86d16p+0f);
  even = eti_fma_f32(even, t, 0x1.797176p+1f);
  odd = eti_fma_f32(odd, t, -0x1.b0fd2cp+1f);
  even = eti_fma_f32(even, t, 0x1.5d409ep+1f);
  odd = eti_fma_f32(odd, t, -0x1.8df4dp+0f);
  even = eti_fma_f32(even, t, 0x1.03148cp-1f);
  const float p = eti_fma_f32(odd, u, even);
  const float s = b * b, s_low = eti_fma_f32(b, b, -s);
  const float shifted = eti_fma_f32(s, -0x1.715476p+0f, 0x1.8p23f), n = shifted - 0x1.8p23f;
  const float r = eti_fma_f32(n, -0x1.62e43p-1f, -s) + eti_fma_f32(n, 0x1.05c61p-29f, lost - s_low);
  const float m = eti_expm1_reduced(r);
  const float more = eti_fma_f32(w, p, eti_fma_f32(w * p, m, m));
  const float y = eti_fma_f32(v, more, v) *
                  eti_f32_from_bits((eti_f32_bits(shifted) - 0x4B400000u + 191u) << 23) * 0x1p-64f;
  const float tail = vanishes ? 0.0f : y;
  return x < 0.0f ? 2.0f - tail : tail;
}

// x·Φ(x). The tail Φ(-|x|) is exp(-q) / 2, with q fitted on [0, 6] so that it errs by 2^-27 for
// ordinary x and stays accurate to five digits for small values; beyond 11 it is 0, as q exceeds
// the powers of 2 there.
ETI_INLINE float eti_gelu_f32(float x) {
  const float a = fabsf(x), b = a > 11.0f ? 11.0f : a, t = b * b;
  float odd = 0x1.3a7c18p-26f, even = -0x1.2b269ap-21f;
  odd = eti_fma_f32(odd, t, 0x1.e606d8p-18f);
  even = eti_fma_f32(even, t, -0x1.acfc58p-15f);
  odd = eti_fma_f32(odd, t, 0x1.8a61c8p-13f);
  even = eti_fma_f32(even, t, 0x1.7a66f4p-17f);
  odd = eti_fma_f32(odd, t, -0x1.3c72ccp-8f);
  even = eti_fma_f32(even, t, 0x1.29d94ep-5f);
  odd = eti_fma_f32(odd, t, 0x1.45f1acp-2f);
  even = eti_fma_f32(even, t, 0x1.98846p-1f);
  const float q = -b * eti_fma_f32(odd, b, even);
  const float shifted = eti_fma_f32(q, 0x1.715476p+0f, 0x1.8p23f);
  const float r = eti_fma_f32(shifted - 0x1.8p23f, -0x1.62e430p-1f, q);
  const float half = eti_f32_from_bits((eti_f32_bits(shifted) - 0x4B400000u + 126u) << 23);
  const float near = eti_fma_f32(half, eti_expm1_reduced(r), half);
  const float tail = a > 11.0f ? 0.0f : near;
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

// The exponent of x as a float and f; denormal x included. (Masks instead of choices: compilers
// would compute all dependent values twice.)
ETI_INLINE float eti_log_reduce(float x, float *f) {
  const uint32_t tiny = 0u - (uint32_t)(x < 0x1p-126f);
  const float y = x * eti_f32_from_bits(0x3F800000u + (tiny & (23u << 23)));
  const uint32_t offset = eti_f32_bits(y) - 0x3F2AAAABu;
  *f = eti_f32_from_bits((offset & 0x7FFFFFu) + 0x3F2AAAABu) - 1.0f;
  return (float)(((int32_t)offset >> 23) - (int32_t)(tiny & 23u));
}

// log(1 + f) - f for f in [-1/3, 1/3]: -f²/2 + f³·p(f), p fitted for relative error 2^-29 of the
// logarithm.
ETI_INLINE float eti_log_tail(float f) {
  const float t = f * f;
  float even = 0x1.e069dap-4f, odd = -0x1.07d8dap-3f;
  even = eti_fma_f32(even, t, 0x1.bb477p-4f);
  odd = eti_fma_f32(odd, t, -0x1.f337d8p-4f);
  even = eti_fma_f32(even, t, 0x1.24d7b2p-3f);
  odd = eti_fma_f32(odd, t, -0x1.559bbp-3f);
  even = eti_fma_f32(even, t, 0x1.99985ep-3f);
  odd = eti_fma_f32(odd, t, -0x1.ffff02p-3f);
  even = eti_fma_f32(even, t, 0x1.555556p-2f);
  const float p = eti_fma_f32(odd, f, even);
  return eti_fma_f32(p * f, t, -0.5f * t);
}

// n·log(2) + log(1 + f).
ETI_INLINE float eti_log_sum(float n, float f) {
  const float tail = eti_fma_f32(n, -0x1.05c610p-29f, eti_log_tail(f));
  return eti_fma_f32(n, 0x1.62e430p-1f, f + tail);
}

// The special values of every logarithm: for 0, infinity, negative numbers and NaN.
ETI_INLINE float eti_log_special(float x, float y) {
  const bool ordinary = eti_f32_bits(x) - 1u < 0x7F7FFFFFu;
  const float more = x > 0.0f ? x : NAN;
  const float special = x == 0.0f ? -INFINITY : more;
  return ordinary ? y : special;
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

// The exponent is that of 1 + x; f = 2^-n·(1 + x) - 1 is rounded once, so that small x keep all
// digits.
ETI_INLINE float eti_log1p_f32(float x) {
  const float u = 1.0f + x;
  const int32_t n = eti_log_exponent(u);
  const float s = eti_f32_from_bits((uint32_t)(129 - n) << 23);  // 2^(2 - n), as n reaches 128
  const float f = eti_fma_f32(s, 0.25f * x, eti_fma_f32(s, 0.25f, -1.0f));
  const float y = eti_log_special(u, eti_log_sum((float)n, f));
  return fabsf(x) < 0x1p-100f ? x : y;
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
  const float q = eti_pick_f32(middle, 2.0f * x - 1.0f, x) / (1.0f - x);
  float f;
  const float n = eti_log_reduce(q, &f);
  const float y = eti_log_sum(eti_pick_f32(middle, 0.0f, n), eti_pick_f32(middle, q, f));
  const bool ordinary = eti_f32_bits(x) - 1u < 0x3F7FFFFFu;
  const float more = x == 1.0f ? INFINITY : NAN;
  const float special = x == 0.0f ? -INFINITY : more;
  return ordinary ? y : special;
}

#endif  // ET_MATH_F32_H
