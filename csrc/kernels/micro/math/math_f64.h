// math_f64.h — elementary functions of f64 as straight-line arithmetic: no branch, no table, no
// libm, so that loops over them vectorise and every instruction set gives the same bits. They
// follow math_f32.h, with the additions that f64 needs: longer polynomials, and second words to
// absorb roundings. Error: at most 2 units in the last place (tests/kernels/test_math.py), specials
// as in C.
#ifndef ET_MATH_F64_H
#define ET_MATH_F64_H

#include "kernels/micro/math/math_angle_f64.h"
#include "kernels/micro/math/math_f32.h"

ETI_INLINE double eti_abs_f64(double x) {
  return fabs(x);
}
ETI_INLINE double eti_ceil_f64(double x) {
  return ceil(x);
}
ETI_INLINE double eti_floor_f64(double x) {
  return floor(x);
}
ETI_INLINE double eti_rint_f64(double x) {
  return rint(x);
}
ETI_INLINE double eti_trunc_f64(double x) {
  return trunc(x);
}
ETI_INLINE double eti_sqrt_f64(double x) {
  return sqrt(x);
}
ETI_INLINE double eti_copysign_f64(double x, double sign) {
  return copysign(x, sign);
}
ETI_INLINE uint64_t eti_bits_f64(double x) {
  return eti_f64_bits(x);
}
// fmod is exact, so libm's gives the same bits on every platform.
ETI_INLINE double eti_fmod_f64(double a, double b) {
  return fmod(a, b);
}

#define ETI_ROUND_f64 ETI_ROUND_F64
#define ETI_NEAR_f64 0x1p51
#define T double
#define SUFFIX f64
#include "kernels/micro/math/math_mod.body.h"

// ---- exponentials

// n + ETI_ROUND_F64 and the remainder r of x = n·ln2 + r, |r| ≤ ln2 / 2.
ETI_INLINE double eti_exp_reduce_f64(double x, double *shifted) {
  const double t = eti_fma_f64(x, 0x1.71547652b82fep+0, ETI_ROUND_F64), n = t - ETI_ROUND_F64;
  *shifted = t;
  return eti_fma_f64(n, -0x1.abc9e3b39803fp-56, eti_fma_f64(n, -0x1.62e42fefa39efp-1, x));
}

// e^r - 1 - r for |r| ≤ ln2 / 2, fitted for relative error 2^-58 of the exponential.
ETI_INLINE double eti_exp_tail_f64(double r) {
  double p = 0x1.adc5cf2f5fac3p-26;
  p = eti_fma_f64(p, r, 0x1.28aef9e9abf7fp-22);
  p = eti_fma_f64(p, r, 0x1.71deff0b4f998p-19);
  p = eti_fma_f64(p, r, 0x1.a01998706ee4ap-16);
  p = eti_fma_f64(p, r, 0x1.a01a0138a5e72p-13);
  p = eti_fma_f64(p, r, 0x1.6c16c184bd871p-10);
  p = eti_fma_f64(p, r, 0x1.1111111125a32p-7);
  p = eti_fma_f64(p, r, 0x1.55555555505efp-5);
  p = eti_fma_f64(p, r, 0x1.55555555555p-3);
  p = eti_fma_f64(p, r, 0x1.000000000000ap-1);
  return p * (r * r);
}

// y · 2^(n + more) for n = shifted - ETI_ROUND_F64 in -1100 … 1100, in two factors, because results
// reach from denormal to infinite.
ETI_INLINE double eti_scale_f64(double y, double shifted, int more) {
  const uint64_t n = eti_f64_bits(shifted) - eti_f64_bits(ETI_ROUND_F64) + (uint64_t)(2048 + more);
  const uint64_t half = n >> 1;
  return y * eti_f64_from_bits((half - 1u) << 52) * eti_f64_from_bits((n - half - 1u) << 52);
}

// Uses 0 where the result rounds to 0 (see eti_exp_f32).
ETI_INLINE double eti_exp_times_f64(double x, int more) {
  const bool vanishes = x < -746.0;
  double y = x > 712.0 ? 712.0 : x;
  y = vanishes ? 0.0 : y;
  double shifted;
  const double r = eti_exp_reduce_f64(y, &shifted);
  const double z = eti_scale_f64(1.0 + (r + eti_exp_tail_f64(r)), shifted, more);
  return vanishes ? 0.0 : z;
}

ETI_INLINE double eti_exp_f64(double x) {
  return eti_exp_times_f64(x, 0);
}

// e^x for terms of sums, x ≤ 0: results below the smallest normal number are 0.
ETI_INLINE double eti_exp_term_f64(double x) {
  const double y = eti_exp_f64(x);
  return y < 0x1p-1022 ? 0.0 : y;
}

ETI_INLINE double eti_expm1_f64(double x) {
  double y = x > 712.0 ? 712.0 : x;
  y = y < -40.0 ? -40.0 : y;  // from there on -1
  double shifted;
  const double r = eti_exp_reduce_f64(y, &shifted);
  // Half of 2^n·(e^r - 1) + (2^n - 1), as n reaches 1024.
  const double half =
      eti_f64_from_bits((eti_f64_bits(shifted) - eti_f64_bits(ETI_ROUND_F64) + 1022u) << 52);
  const double m = eti_fma_f64(half, eti_exp_tail_f64(r), eti_fma_f64(half, r, half - 0.5));
  y = x > 709.9 ? (double)INFINITY : m + m;
  return fabs(x) < 0x1p-54 ? x : y;
}

ETI_INLINE double eti_sigmoid_f64(double x) {
  const double t = eti_exp_f64(-fabs(x)), sum = 1.0 + t, inverse = 1.0 / sum;
  const double lost = t - (sum - 1.0);
  const double y = x < 0.0 ? t * inverse : inverse;
  return eti_fma_f64(y, eti_fma_f64(-inverse, lost, eti_fma_f64(-inverse, sum, 1.0)), y);
}

// t / (t + 2) with t = e^2a - 1; t has a second word, and the quotient is corrected by the
// remainder of the division.
ETI_INLINE double eti_tanh_f64(double x) {
  double a = fabs(x);
  a = a > 22.0 ? 22.0 : a;  // tanh(22) rounds to 1
  double shifted;
  const double r = eti_exp_reduce_f64(a + a, &shifted);
  const double scale =
      eti_f64_from_bits((eti_f64_bits(shifted) - eti_f64_bits(ETI_ROUND_F64) + 1023u) << 52);
  const double tail = eti_exp_tail_f64(r), head = eti_fma_f64(scale, r, scale - 1.0);
  const double t = eti_fma_f64(scale, tail, head);
  const double low = eti_fma_f64(scale, tail, head - t);
  const double sum = t + 2.0, inverse = 1.0 / sum, y = t * inverse;
  const double rest = eti_fma_f64(-y, sum, t) + eti_fma_f64(-y, t - (sum - 2.0), low);
  return copysign(eti_fma_f64(rest, inverse, y), x);
}

ETI_INLINE double eti_sinh_f64(double x) {
  const double a = fabs(x), t = x * x;
  double p = 0x1.b5c8c1d6365ffp-41;
  p = eti_fma_f64(p, t, 0x1.6116f42f0cc0bp-33);
  p = eti_fma_f64(p, t, 0x1.ae646ff5e5156p-26);
  p = eti_fma_f64(p, t, 0x1.71de3a3b060b3p-19);
  p = eti_fma_f64(p, t, 0x1.a01a01a03727p-13);
  p = eti_fma_f64(p, t, 0x1.111111111101ep-7);
  p = eti_fma_f64(p, t, 0x1.5555555555556p-3);
  const double half = eti_exp_times_f64(a, -1);
  return copysign(a < 1.0 ? eti_fma_f64(p * t, a, a) : half - 0.25 / half, x);
}
ETI_INLINE double eti_cosh_f64(double x) {
  const double half = eti_exp_times_f64(fabs(x), -1);
  return half + 0.25 / half;
}

// ---- error function and functions built on it

// 1 - exp(-q) with q = |x|·(1 + p(|x|)) of two words, p fitted to -log(erfc|x|) / |x| - 1 on [0, 6]
// for relative error 2^-54 of the result; beyond 6 it is 1.
ETI_INLINE double eti_erf_f64(double x) {
  const double a = fabs(x), b = a > 6.0 ? 6.0 : a, t = b * b;
  double odd = -0x1.02cc67e30df1dp-48, even = 0x1.6b9491fe2ac4fp-43;
  odd = eti_fma_f64(odd, t, -0x1.d96d10d2cfe9p-39);
  even = eti_fma_f64(even, t, 0x1.7a57e54d26f2cp-35);
  odd = eti_fma_f64(odd, t, -0x1.9d72e3b2883b8p-32);
  even = eti_fma_f64(even, t, 0x1.4464832084963p-29);
  odd = eti_fma_f64(odd, t, -0x1.722182eac5e06p-27);
  even = eti_fma_f64(even, t, 0x1.290c4abae60d4p-25);
  odd = eti_fma_f64(odd, t, -0x1.1a476e82fc58ap-24);
  even = eti_fma_f64(even, t, -0x1.92faba79bc2a8p-27);
  odd = eti_fma_f64(odd, t, 0x1.325eac7c728b1p-21);
  even = eti_fma_f64(even, t, -0x1.116dbb8a7992cp-19);
  odd = eti_fma_f64(odd, t, 0x1.a47ef0da6bc85p-19);
  even = eti_fma_f64(even, t, 0x1.a96f8f81ff96p-19);
  odd = eti_fma_f64(odd, t, -0x1.f032f3fcd66f2p-16);
  even = eti_fma_f64(even, t, 0x1.0e330d9f84604p-14);
  odd = eti_fma_f64(odd, t, 0x1.b29ab8c7a68dcp-16);
  even = eti_fma_f64(even, t, -0x1.35663ae87ece7p-11);
  odd = eti_fma_f64(odd, t, 0x1.bca691b380cdcp-10);
  even = eti_fma_f64(even, t, -0x1.b6b6a171ee2ap-13);
  odd = eti_fma_f64(odd, t, -0x1.39668590a9152p-6);
  even = eti_fma_f64(even, t, 0x1.a4f4e2a1aa426p-4);
  odd = eti_fma_f64(odd, t, 0x1.45f306dc9c8d3p-1);
  even = eti_fma_f64(even, t, 0x1.06eba8214db67p-3);
  const double p = eti_fma_f64(odd, b, even);
  const double q = eti_fma_f64(p, b, b), q_low = eti_fma_f64(p, b, b - q);
  const double shifted = eti_fma_f64(q, -0x1.71547652b82fep+0, ETI_ROUND_F64);
  const double r = eti_fma_f64(shifted - ETI_ROUND_F64, -0x1.62e42fefa39efp-1, -q);
  const double scale = eti_exp2i_f64(shifted);
  return copysign(eti_fma_f64(-scale, r + (eti_exp_tail_f64(r) - q_low), 1.0 - scale), x);
}

ETI_INLINE double eti_gelu_f64(double x) {
  const double half = 0.5 * x;
  return half * (1.0 + eti_erf_f64(x * 0x1.6a09e667f3bcdp-1));
}

ETI_INLINE double eti_gelu_tanh_f64(double x) {
  const double inner = 0x1.9884533d43651p-1 * (x + 0.044715 * (x * x * x));
  const double half = 0.5 * x;
  return half * (1.0 + eti_tanh_f64(inner));
}

// ---- logarithms

#define ETI_SQRT_HALF_BITS 0x3FE6A09E667F3BCDu

// The exponent n of a positive normal y = 2^n · (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), plus
// 1023.
ETI_INLINE uint64_t eti_log_exponent_f64(double y) {
  return (eti_f64_bits(y) + (0x3FF0000000000000u - ETI_SQRT_HALF_BITS)) >> 52;
}
// The exponent becomes a double by bits: 64-bit integers do not convert before AVX-512, so it
// enters below 2^52 and leaves by subtraction.
ETI_INLINE double eti_small_f64(uint64_t n) {
  return eti_f64_from_bits(n | 0x4330000000000000u) - 0x1p52;
}

// n and f of any positive x; denormals included.
ETI_INLINE double eti_log_reduce_f64(double x, double *f) {
  const uint64_t tiny = 0u - (uint64_t)(x < 0x1p-1022);
  const double y = x * eti_f64_from_bits(0x3FF0000000000000u + (tiny & (54ull << 52)));
  const uint64_t offset = eti_f64_bits(y) + (0x3FF0000000000000u - ETI_SQRT_HALF_BITS);
  *f = eti_f64_from_bits((offset & 0x000FFFFFFFFFFFFFu) + ETI_SQRT_HALF_BITS) - 1.0;
  return eti_small_f64((offset >> 52) + (~tiny & 54u)) - (1023.0 + 54.0);
}

// log(1 + f) - f. With s = f / (2 + f) the logarithm is 2·atanh(s) = 2s + s·z·p(z), z = s², and 2s
// is f - f²/2 + s·f²/2. p fitted for relative error 2^-59 of the logarithm.
ETI_INLINE double eti_log_tail_f64(double f) {
  const double s = f / (2.0 + f), z = s * s, h = 0.5 * f * f;
  double p = 0x1.2f04c0fe7287p-3;
  p = eti_fma_f64(p, z, 0x1.39a1d141349ep-3);
  p = eti_fma_f64(p, z, 0x1.74663dba90fe6p-3);
  p = eti_fma_f64(p, z, 0x1.c71c5211098a9p-3);
  p = eti_fma_f64(p, z, 0x1.24924941e46bdp-2);
  p = eti_fma_f64(p, z, 0x1.999999997fef8p-2);
  p = eti_fma_f64(p, z, 0x1.5555555555592p-1);
  return eti_fma_f64(s, eti_fma_f64(z, p, h), -h);
}

// n·log(2) + log(1 + f) for f with a second word.
ETI_INLINE double eti_log_sum_f64(double n, double f, double low) {
  const double tail = eti_log_tail_f64(f) + eti_fma_f64(-f, low, low);
  return eti_fma_f64(n, 0x1.62e42fefa39efp-1, f + eti_fma_f64(n, 0x1.abc9e3b39803fp-56, tail));
}

ETI_INLINE double eti_log_special_f64(double x, double y) {
  const bool ordinary = eti_f64_bits(x) - 1u < 0x7FEFFFFFFFFFFFFFu;
  const double more = x > 0.0 ? x : (double)NAN;
  const double special = x == 0.0 ? -(double)INFINITY : more;
  return ordinary ? y : special;
}

ETI_INLINE double eti_log_f64(double x) {
  double f;
  const double n = eti_log_reduce_f64(x, &f);
  return eti_log_special_f64(x, eti_log_sum_f64(n, f, 0.0));
}

ETI_INLINE double eti_log2_f64(double x) {
  double f;
  const double n = eti_log_reduce_f64(x, &f);
  const double low =
      eti_fma_f64(eti_log_tail_f64(f), 0x1.71547652b82fep+0, f * 0x1.777d0ffda0d24p-56);
  return eti_log_special_f64(x, n + eti_fma_f64(f, 0x1.71547652b82fep+0, low));
}

ETI_INLINE double eti_log10_f64(double x) {
  double f;
  const double n = eti_log_reduce_f64(x, &f);
  double low = eti_fma_f64(eti_log_tail_f64(f), 0x1.bcb7b1526e50ep-2, f * 0x1.95355baaafad3p-57);
  low = eti_fma_f64(n, -0x1.9dc1da994fd21p-59, low);
  const double m = eti_fma_f64(f, 0x1.bcb7b1526e50ep-2, low);
  return eti_log_special_f64(x, eti_fma_f64(n, 0x1.34413509f79ffp-2, m));
}

// n and both words of f of 1 + x + x_low. The exponent is that of 1 + x; f = 2^-n·(1 + x) - 1.
ETI_INLINE double eti_log1p_reduce_f64(double x, double x_low, double *f, double *low) {
  const uint64_t n = eti_log_exponent_f64(1.0 + x);
  const double s = eti_f64_from_bits((2048u - n) << 52);  // 2^(2 - n), as n reaches 1024
  const double a = eti_fma_f64(s, 0.25, -1.0), b = s * (0.25 * x);
  const double sum = a + b, part = sum - a;
  *f = sum;
  *low = ((a - (sum - part)) + (b - part)) + s * (0.25 * x_low);
  return eti_small_f64(n) - 1023.0;
}

ETI_INLINE double eti_log1p_pair_f64(double x, double x_low) {
  double f, low;
  const double n = eti_log1p_reduce_f64(x, x_low, &f, &low);
  const double y = eti_log_special_f64(1.0 + x, eti_log_sum_f64(n, f, low));
  return fabs(x) < 0x1p-1000 ? x : y;
}

ETI_INLINE double eti_log1p_f64(double x) {
  return eti_log1p_pair_f64(x, 0.0);
}

// log(x / (1 - x)); see eti_logit_f32.
ETI_INLINE double eti_logit_f64(double x) {
  const bool middle = x >= 0.42 && x <= 0.58;
  const double q = eti_pick_f64(middle, 2.0 * x - 1.0, x) / (1.0 - x);
  double f;
  const double n = eti_log_reduce_f64(q, &f);
  const double y = eti_log_sum_f64(eti_pick_f64(middle, 0.0, n), eti_pick_f64(middle, q, f), 0.0);
  const bool ordinary = eti_f64_bits(x) - 1u < 0x3FEFFFFFFFFFFFFFu;
  const double more = x == 1.0 ? (double)INFINITY : (double)NAN;
  const double special = x == 0.0 ? -(double)INFINITY : more;
  return ordinary ? y : special;
}

// log(a + sqrt(a² + 1)) as log1p(a + a² / (1 + sqrt(a² + 1))); log(2a) where a² might overflow.
ETI_INLINE double eti_asinh_f64(double x) {
  const double a = fabs(x), b = a > 0x1p28 ? 0.0 : a;
  const double t = b * b, w = t / (1.0 + sqrt(1.0 + t)), v = b + w;
  double f, low, f_large;
  const double n = eti_log1p_reduce_f64(v, w - (v - b), &f, &low);
  const double n_large = eti_log_reduce_f64(a, &f_large) + 1.0;
  const bool large = a > 0x1p28;
  const double y = eti_log_sum_f64(large ? n_large : n, large ? f_large : f, large ? 0.0 : low);
  return a == (double)INFINITY || a < 0x1p-28 ? x : copysign(y, x);
}

ETI_INLINE double eti_acosh_f64(double x) {
  const bool large = x > 0x1p28;
  const double t = (large ? 1.0 : x) - 1.0, w = sqrt(t * (t + 2.0)), v = w + t;
  double f, low, f_large;
  const double n = eti_log1p_reduce_f64(v, t - (v - w), &f, &low);
  const double n_large = eti_log_reduce_f64(x, &f_large) + 1.0;
  const double y = eti_log_sum_f64(large ? n_large : n, large ? f_large : f, large ? 0.0 : low);
  return x == (double)INFINITY ? x : x >= 1.0 ? y : (double)NAN;
}

// Half of log1p(2a / (1 - a)), the quotient with a second word.
ETI_INLINE double eti_atanh_f64(double x) {
  const double a = fabs(x), d = 1.0 - a, inverse = 1.0 / d, q = 2.0 * a * inverse;
  const double rest = eti_fma_f64(-q, d, 2.0 * a) - q * ((1.0 - d) - a);
  return copysign(0.5 * eti_log1p_pair_f64(q, rest * inverse), x);
}

// ---- powers

// |x|^y by a logarithm of two words, good to 2^-64.
ETI_INLINE double eti_pow_magnitude_f64(double a, double y) {
  double f;
  const double n = eti_log_reduce_f64(a, &f);
  const double d = 2.0 + f, inverse = 1.0 / d, s = f * inverse;
  const double s_low = (eti_fma_f64(-s, d, f) - s * (f - (d - 2.0))) * inverse;
  const double z = s * s, z_low = eti_fma_f64(s, s, -z) + 2.0 * s * s_low;
  double p = 0x1.0f0de0a10efc6p-3;
  p = eti_fma_f64(p, z, 0x1.0f6742fab3bc6p-3);
  p = eti_fma_f64(p, z, 0x1.3b20248b5ba74p-3);
  p = eti_fma_f64(p, z, 0x1.745ce1c89b8f4p-3);
  p = eti_fma_f64(p, z, 0x1.c71c724b673c7p-3);
  p = eti_fma_f64(p, z, 0x1.24924924397f7p-2);
  p = eti_fma_f64(p, z, 0x1.9999999999d11p-2);
  const double first = 0x1.5555555555555p-1;
  const double c = eti_fma_f64(z, p, first), c_low = eti_fma_f64(z, p, first - c);
  const double w = z * c, w_low = eti_fma_f64(z, c, -w) + eti_fma_f64(z, c_low, z_low * c);
  const double t = s * w, t_low = eti_fma_f64(s, w, -t) + eti_fma_f64(s, w_low, s_low * w);
  const double part = 2.0 * s + t, part_low = ((2.0 * s - part) + t) + (2.0 * s_low + t_low);
  const double whole = n * 0x1.62e42fefa3800p-1;  // exact
  double ln = whole + part;
  const double low = ((whole - ln) + part) + eti_fma_f64(n, 0x1.ef35793c76730p-45, part_low);
  ln = a == 0.0 ? -(double)INFINITY : ln;
  ln = a == (double)INFINITY ? a : ln;
  ln = a != a ? a : ln;
  const double product = y * ln;
  const bool ordinary = fabs(product) < 800.0;
  const double rest = eti_fma_f64(y, ln, -product) + y * low;
  double e = product > 712.0 ? 712.0 : product;
  e = e < -746.0 ? -746.0 : e;
  double shifted;
  const double r = eti_exp_reduce_f64(e, &shifted) + (ordinary ? rest : 0.0);
  return eti_scale_f64(1.0 + (r + eti_exp_tail_f64(r)), shifted, 0);
}

ETI_INLINE double eti_pow_f64(double x, double y) {
  const double a = fabs(x), magnitude = eti_pow_magnitude_f64(a, y);
  const bool whole = floor(y) == y, odd = whole & (floor(y * 0.5) != y * 0.5);
  double r = odd ? copysign(magnitude, x) : magnitude;
  r = ((x < 0.0) & !whole & (a != (double)INFINITY)) ? (double)NAN : r;
  const bool one = (y == 0.0) | (x == 1.0) | ((x == -1.0) & (fabs(y) == (double)INFINITY));
  return one ? 1.0 : r;
}

// √(x² + y²), scaled if squares leave the range, corrected by the rounding errors of the root and
// the squares (Borges, An improved algorithm for hypot(a, b), 2019): nearly always exact.
ETI_INLINE double eti_hypot_f64(double x, double y) {
  const double a = fabs(x), b = fabs(y), high = a > b ? a : b, low = a > b ? b : a;
  const double scale = high > 0x1p500 ? 0x1p-600 : high < 0x1p-500 ? 0x1p600 : 1.0;
  const double back = high > 0x1p500 ? 0x1p600 : high < 0x1p-500 ? 0x1p-600 : 1.0;
  const double h = high * scale, l = low * scale, hh = h * h;
  const double r = sqrt(eti_fma_f64(h, h, l * l)), rr = r * r;
  const double rest = eti_fma_f64(-l, l, rr - hh) + eti_fma_f64(r, r, -rr) - eti_fma_f64(h, h, -hh);
  double z = low == 0.0 ? high : (r - rest / (2.0 * r)) * back;
  z = ((x != x) | (y != y)) ? (double)NAN : z;
  return ((a == (double)INFINITY) | (b == (double)INFINITY)) ? (double)INFINITY : z;
}

#endif  // ET_MATH_F64_H
