// math_f64.h — elementary functions of f64 as straight-line arithmetic: no branch, no table, no
// libm, so that loops over them vectorise and every instruction set gives the same bits. Twins of
// those of math_f32.h, with what f64 needs more: longer polynomials, and second words where a
// rounding would be felt. Error: at most 2 units in the last place (tests/kernels/test_math.py),
// specials as in C.
#ifndef ET_MATH_F64_H
#define ET_MATH_F64_H

#include "kernels/micro/math_f32.h"

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
// Exact, so libm's serves on every platform alike.
ETI_INLINE double eti_fmod_f64(double a, double b) {
  return fmod(a, b);
}

#define ETI_ROUND_f64 ETI_ROUND_F64
#define ETI_NEAR_f64 0x1p51
#define T double
#define SUFFIX f64
#include "kernels/micro/math_mod.body.h"

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

// Where the result rounds to 0 the arithmetic is done for 0 (see eti_exp_f32).
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

// t / (t + 2) with t = e^2a - 1; t has a second word, and the quotient is corrected by what the
// division left.
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

// ---- error function and what is made of it

ETI_INLINE double eti_erf_f64(double x) {
  const double a = fabs(x), t = x * x;
  double p = -0x1.90a65ff1846cap-31;
  p = eti_fma_f64(p, t, 0x1.cecedf988cbeep-27);
  p = eti_fma_f64(p, t, -0x1.5aed8253ca49p-23);
  p = eti_fma_f64(p, t, 0x1.b9559b3e685ecp-20);
  p = eti_fma_f64(p, t, -0x1.f4c65ecc4f05cp-17);
  p = eti_fma_f64(p, t, 0x1.f9a27e64ed85fp-14);
  p = eti_fma_f64(p, t, -0x1.c02dadec1ed84p-11);
  p = eti_fma_f64(p, t, 0x1.565bcceae86eep-8);
  p = eti_fma_f64(p, t, -0x1.b82ce311941cap-6);
  p = eti_fma_f64(p, t, 0x1.ce2f21a03f571p-4);
  p = eti_fma_f64(p, t, -0x1.812746b03799bp-2);
  p = eti_fma_f64(p, t, 0x1.06eba8214db68p-3);
  const double small = eti_fma_f64(p, x, x);
  // Else 1 - exp(-q), q fitted to -log(erfc|x|) on [0.93, 6] around 1.25; beyond 6 it is 1.
  const double u = (a > 6.0 ? 6.0 : a) - 1.25;
  double q = -0x1.2846619f9b1e1p-41;
  q = eti_fma_f64(q, u, 0x1.3f11d74fe09ccp-37);
  q = eti_fma_f64(q, u, -0x1.0af12893079b6p-34);
  q = eti_fma_f64(q, u, 0x1.4e46675ffd16fp-33);
  q = eti_fma_f64(q, u, 0x1.ae3f4e332a99bp-32);
  q = eti_fma_f64(q, u, -0x1.238ca37005ee9p-28);
  q = eti_fma_f64(q, u, 0x1.b6eced7f3a177p-27);
  q = eti_fma_f64(q, u, 0x1.bf831fe5241e8p-28);
  q = eti_fma_f64(q, u, -0x1.0f6bd4a21d942p-22);
  q = eti_fma_f64(q, u, 0x1.83fec4026e3a8p-20);
  q = eti_fma_f64(q, u, -0x1.5aac2b3322843p-18);
  q = eti_fma_f64(q, u, 0x1.6b6af19442604p-17);
  q = eti_fma_f64(q, u, 0x1.50f0ed71c6a9cp-17);
  q = eti_fma_f64(q, u, -0x1.02c590d8099bcp-12);
  q = eti_fma_f64(q, u, 0x1.a540a755423f8p-10);
  q = eti_fma_f64(q, u, -0x1.fea76c4d001d6p-8);
  q = eti_fma_f64(q, u, 0x1.0bc5a0297833p-5);
  q = eti_fma_f64(q, u, 0x1.bddad46f50613p-1);
  q = eti_fma_f64(q, u, 0x1.88ab2d9950139p+1);
  q = eti_fma_f64(q, u, 0x1.48050902770fdp+1);
  const double large = copysign(1.0 - eti_exp_f64(-q), x);
  return a < 0.95 ? small : large;
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
// As a double: integers of 64 bits do not convert before AVX-512, so the exponent enters below 2^52
// and leaves by subtraction.
ETI_INLINE double eti_small_f64(uint64_t n) {
  return eti_f64_from_bits(n | 0x4330000000000000u) - 0x1p52;
}

// n and f of any positive x; denormals included.
ETI_INLINE double eti_log_reduce_f64(double x, double *f) {
  const bool tiny = x < 0x1p-1022;
  const double y = tiny ? x * 0x1p54 : x;
  const uint64_t offset = eti_f64_bits(y) + (0x3FF0000000000000u - ETI_SQRT_HALF_BITS);
  *f = eti_f64_from_bits((offset & 0x000FFFFFFFFFFFFFu) + ETI_SQRT_HALF_BITS) - 1.0;
  return eti_small_f64(eti_log_exponent_f64(y)) - (tiny ? 1023.0 + 54.0 : 1023.0);
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
  y = x == 0.0 ? -(double)INFINITY : y;
  y = x == (double)INFINITY ? x : y;
  return x >= 0.0 ? y : (double)NAN;
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

// log(x / (1 - x)); see the f32 one.
ETI_INLINE double eti_logit_f64(double x) {
  const bool middle = x >= 0.42 && x <= 0.58;
  const double q = (middle ? 2.0 * x - 1.0 : x) / (1.0 - x);
  double f;
  const double n = eti_log_reduce_f64(q, &f);
  const double y = eti_log_sum_f64(middle ? 0.0 : n, middle ? q : f, 0.0);
  return middle ? y : eti_log_special_f64(q, y);
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

// √(x² + y²), scaled where squares leave the range, corrected by what the roundings of the root and
// the squares left (Borges, An improved algorithm for hypot(a, b), 2019): nearly always exact.
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

// ---- circular functions up to ETI_LARGE_ANGLE; loops send larger ones through
// eti_reduce_large_f64.

#define ETI_LARGE_ANGLE_f64 0x1p20
#define ETI_HUGE_ANGLE_f64 ETI_LARGE_ANGLE_f64

// x = n·π/2 + r + *low with |r| ≤ π/4; *quadrant receives n in its low bits. The first product
// cancels exactly; the parts of π/2 are truncated, so that all are positive.
ETI_INLINE double eti_angle_f64(double x, uint64_t *quadrant, double *low) {
  const double shifted = eti_fma_f64(x, 0x1.45f306dc9c883p-1, ETI_ROUND_F64),
               n = shifted - ETI_ROUND_F64;
  *quadrant = eti_f64_bits(shifted);
  const double first = eti_fma_f64(n, -0x1.921fb54442d18p+0, x), second = n * 0x1.1a62633145c06p-54;
  const double sum = first - second, part = sum - first;
  double lost = (first - (sum - part)) - (second + part);
  lost -= eti_fma_f64(n, 0x1.1a62633145c06p-54, -second);
  lost = eti_fma_f64(n, -0x1.c1cd129024e09p-107, lost);
  const double r = sum + lost;
  *low = lost - (r - sum);
  return r;
}

// |r| ≤ π/4; polynomials of r² fitted for relative errors 2^-58, 2^-64 and, of r²/4, 2^-64.
ETI_INLINE double eti_sin_reduced_f64(double r, double low) {
  const double t = r * r;
  double p = 0x1.5d8b69eb208f1p-33;
  p = eti_fma_f64(p, t, -0x1.ae5e4bc19d979p-26);
  p = eti_fma_f64(p, t, 0x1.71de35556d008p-19);
  p = eti_fma_f64(p, t, -0x1.a01a019be95a2p-13);
  p = eti_fma_f64(p, t, 0x1.111111110f731p-7);
  p = eti_fma_f64(p, t, -0x1.5555555555548p-3);
  return r + eti_fma_f64(p * t, r, low);
}
ETI_INLINE double eti_cos_reduced_f64(double r, double low) {
  const double t = r * r;
  double p = -0x1.8fa66e4eb8187p-37;
  p = eti_fma_f64(p, t, 0x1.1ee9dba9fba59p-29);
  p = eti_fma_f64(p, t, -0x1.27e4f7f164eafp-22);
  p = eti_fma_f64(p, t, 0x1.a01a019c8ef85p-16);
  p = eti_fma_f64(p, t, -0x1.6c16c16c15014p-10);
  p = eti_fma_f64(p, t, 0x1.555555555554bp-5);
  const double h = 0.5 * t, y = 1.0 - h;
  return y + (((1.0 - y) - h) + eti_fma_f64(p * t, t, -r * low));
}

// The tangent from that of half the angle, t of two words: 2t / (1 - t²), in odd quadrants its
// negative reciprocal; the quotient is corrected by what the division left.
ETI_INLINE double eti_tan_turned_f64(double r, double low, uint64_t quadrant) {
  const double h = 0.5 * r, z = h * h;
  double p = 0x1.1fb47c44ad0eep-13;
  p = eti_fma_f64(p, z, 0x1.d51094bab3a42p-13);
  p = eti_fma_f64(p, z, 0x1.370a618103eb3p-11);
  p = eti_fma_f64(p, z, 0x1.7d87b18703c83p-10);
  p = eti_fma_f64(p, z, 0x1.d6d4ef3bd7e7ep-9);
  p = eti_fma_f64(p, z, 0x1.226e31b725363p-7);
  p = eti_fma_f64(p, z, 0x1.664f48914a7f8p-6);
  p = eti_fma_f64(p, z, 0x1.ba1ba1b9fb384p-5);
  p = eti_fma_f64(p, z, 0x1.1111111111221p-3);
  p = eti_fma_f64(p, z, 0x1.5555555555555p-2);
  const double tail = eti_fma_f64(p * z, h, 0.5 * eti_fma_f64(low, z, low));
  const double t = h + tail, t_low = tail - (t - h);
  const double square = t * t, square_low = eti_fma_f64(t, t, -square) + 2.0 * t * t_low;
  const double d = 1.0 - square, d_low = ((1.0 - d) - square) - square_low;
  const bool odd = (quadrant & 1u) != 0;
  const double over = odd ? -d : 2.0 * t, over_low = odd ? -d_low : 2.0 * t_low;
  const double under = odd ? 2.0 * t : d, under_low = odd ? 2.0 * t_low : d_low;
  const double inverse = 1.0 / under, q = over * inverse;
  const double rest = eti_fma_f64(-q, under, over) + eti_fma_f64(-q, under_low, over_low);
  return eti_fma_f64(rest, inverse, q);
}

// sin(r + low + quadrant · π/2).
ETI_INLINE double eti_sin_turned_f64(double r, double low, uint64_t quadrant) {
  const double y = (quadrant & 1u) != 0 ? eti_cos_reduced_f64(r, low) : eti_sin_reduced_f64(r, low);
  return eti_f64_from_bits(eti_f64_bits(y) ^ (quadrant & 2u) << 62);
}

ETI_INLINE double eti_sin_f64(double x) {
  uint64_t quadrant;
  double low;
  const double r = eti_angle_f64(x, &quadrant, &low);
  return x == 0.0 ? x : eti_sin_turned_f64(r, low, quadrant);
}
ETI_INLINE double eti_cos_f64(double x) {
  uint64_t quadrant;
  double low;
  const double r = eti_angle_f64(x, &quadrant, &low);
  return eti_sin_turned_f64(r, low, quadrant + 1u);
}
ETI_INLINE double eti_tan_f64(double x) {
  uint64_t quadrant;
  double low;
  const double r = eti_angle_f64(x, &quadrant, &low);
  return fabs(x) < 0x1p-28 ? x : eti_tan_turned_f64(r, low, quadrant);
}

// The remainder and quadrant of an angle of at least 2^20: 192 bits of 2/π are multiplied, from the
// first that matters modulo four quadrants on. A branchy rarity, kept out of loops.
static inline double eti_reduce_large_f64(double x, uint64_t *quadrant, double *low) {
  static const uint32_t two_over_pi[] = {
      0x00000000u, 0x00000000u, 0xA2F9836Eu, 0x4E441529u, 0xFC2757D1u, 0xF534DDC0u, 0xDB629599u,
      0x3C439041u, 0xFE5163ABu, 0xDEBBC561u, 0xB7246E3Au, 0x424DD2E0u, 0x06492EEAu, 0x09D1921Cu,
      0xFE1DEB1Cu, 0xB129A73Eu, 0xE88235F5u, 0x2EBB4484u, 0xE99C7026u, 0xB45F7E41u, 0x3991D639u,
      0x835339F4u, 0x9C845F8Bu, 0xBDF9283Bu, 0x1FF897FFu, 0xDE05980Fu, 0xEF2F118Bu, 0x5A0A6D1Fu,
      0x6D367ECFu, 0x27CB09B7u, 0x4F463F66u, 0x9E5FEA2Du, 0x7527BAC7u, 0xEBE5F17Bu, 0x3D0739F7u,
      0x8A5292EAu, 0x6BFB5FB1u, 0x1F8D5D08u, 0x56033046u, 0xFC7B6BABu, 0xF0CFBC20u, 0x9AF4361Du,

  };  // after 64 zero bits
  const uint64_t bits = eti_f64_bits(x) & 0x7FFFFFFFFFFFFFFFu;
  *quadrant = 0;
  *low = 0.0;
  if (bits >= 0x7FF0000000000000u) return (double)NAN;
  const uint64_t m = (bits & 0x000FFFFFFFFFFFFFu) | 0x0010000000000000u;
  const uint32_t skip = (uint32_t)(bits >> 52) - 1075u - 2u + 64u;  // x = m · 2^(skip - 62)
  const uint32_t word = skip / 32u, shift = skip % 32u;
  uint64_t product[6], carry = 0, below = 0;
  for (uint32_t i = 6; i-- > 0;) {
    const uint64_t pair = (uint64_t)two_over_pi[word + i] << 32 | two_over_pi[word + i + 1];
    const uint64_t w = pair >> (32u - shift) & 0xFFFFFFFFu;
    const uint64_t a = w * (m & 0xFFFFFFFFu), b = below * (m >> 32);
    const uint64_t sum = (a & 0xFFFFFFFFu) + (b & 0xFFFFFFFFu) + carry;
    product[i] = sum & 0xFFFFFFFFu;
    carry = (a >> 32) + (b >> 32) + (sum >> 32);
    below = w;
  }
  // Quadrants as 2.190 fixed point; of the fraction 128 bits are kept, as distance to the nearest.
  uint64_t high = product[0] << 34 | product[1] << 2 | product[2] >> 30;
  uint64_t rest = product[2] << 34 | product[3] << 2 | product[4] >> 30;
  const bool up = high >> 63 != 0;
  const uint64_t q = (product[0] >> 30) + (up ? 1u : 0u);
  if (up) {
    rest = 0u - rest;
    high = ~high + (rest == 0 ? 1u : 0u);
  }
  const double sign = up != (x < 0.0) ? -1.0 : 1.0;
  const double a = sign * 0x1p-64 * (double)(high & ~(uint64_t)0x7FF);
  const double b = sign * 0x1p-64 * ((double)(high & 0x7FFu) + 0x1p-64 * (double)rest);
  const double first = a * 0x1.921fb54442d18p+0;
  const double second = eti_fma_f64(a, 0x1.921fb54442d18p+0, -first) +
                        eti_fma_f64(a, 0x1.1a62633145c07p-54, b * 0x1.921fb54442d18p+0);
  const double r = first + second;
  *low = (first - r) + second;
  *quadrant = x < 0.0 ? 0u - q : q;
  return r;
}

static inline double eti_sin_large_f64(double x) {
  uint64_t quadrant;
  double low;
  const double r = eti_reduce_large_f64(x, &quadrant, &low);
  return eti_sin_turned_f64(r, low, quadrant);
}
static inline double eti_cos_large_f64(double x) {
  uint64_t quadrant;
  double low;
  const double r = eti_reduce_large_f64(x, &quadrant, &low);
  return eti_sin_turned_f64(r, low, quadrant + 1u);
}
static inline double eti_tan_large_f64(double x) {
  uint64_t quadrant;
  double low;
  const double r = eti_reduce_large_f64(x, &quadrant, &low);
  return eti_tan_turned_f64(r, low, quadrant);
}

// ---- inverse circular functions

#define ETI_HALF_PI_F64 0x1.921fb54442d18p+0
#define ETI_HALF_PI_LOW_F64 0x1.1a62633145c07p-54

// atan(b) for b in [0, 1], fitted for relative error 2^-56.
ETI_INLINE double eti_atan_reduced_f64(double b) {
  const double t = b * b;
  double p = 0x1.bbe8654a00b98p-17;
  p = eti_fma_f64(p, t, -0x1.3f33110104272p-13);
  p = eti_fma_f64(p, t, 0x1.b3f717ff8b2cdp-11);
  p = eti_fma_f64(p, t, -0x1.7a3701c940936p-9);
  p = eti_fma_f64(p, t, 0x1.d7b6a7774d4b9p-8);
  p = eti_fma_f64(p, t, -0x1.c78e0d05494d8p-7);
  p = eti_fma_f64(p, t, 0x1.683bdd59e3fb7p-6);
  p = eti_fma_f64(p, t, -0x1.e9f94e98c3c69p-6);
  p = eti_fma_f64(p, t, 0x1.2c2e20c697338p-5);
  p = eti_fma_f64(p, t, -0x1.59a3e1b19554bp-5);
  p = eti_fma_f64(p, t, 0x1.82dacc4e8d925p-5);
  p = eti_fma_f64(p, t, -0x1.ae5e6f6106e7dp-5);
  p = eti_fma_f64(p, t, 0x1.e1bba5a577b69p-5);
  p = eti_fma_f64(p, t, -0x1.110e5115aea44p-4);
  p = eti_fma_f64(p, t, 0x1.3b136697f0331p-4);
  p = eti_fma_f64(p, t, -0x1.745d11ae40eebp-4);
  p = eti_fma_f64(p, t, 0x1.c71c717fcc5bep-4);
  p = eti_fma_f64(p, t, -0x1.249249237f4a3p-3);
  p = eti_fma_f64(p, t, 0x1.99999999955b1p-3);
  p = eti_fma_f64(p, t, -0x1.5555555555526p-2);
  return eti_fma_f64(p * t, b, b);
}

ETI_INLINE double eti_atan_f64(double x) {
  const double a = fabs(x);
  const bool large = a > 1.0;
  const double y = eti_atan_reduced_f64((large ? 1.0 : a) / (large ? a : 1.0));
  return copysign(large ? (ETI_HALF_PI_F64 - y) + ETI_HALF_PI_LOW_F64 : y, x);
}

// asin(s) - s for z = s² in [0, 1/4], fitted for relative error 2^-56 of the sum.
ETI_INLINE double eti_asin_tail_f64(double s, double z) {
  double p = 0x1.056c2a126f9b8p-5;
  p = eti_fma_f64(p, z, -0x1.09cf125377dffp-6);
  p = eti_fma_f64(p, z, 0x1.3ff1be314d5fap-6);
  p = eti_fma_f64(p, z, 0x1.abd4316cfaeb7p-8);
  p = eti_fma_f64(p, z, 0x1.8ec25911e574dp-7);
  p = eti_fma_f64(p, z, 0x1.c6fdde8a96d16p-7);
  p = eti_fma_f64(p, z, 0x1.1c6bdfedafa2fp-6);
  p = eti_fma_f64(p, z, 0x1.6e89f46355d4cp-6);
  p = eti_fma_f64(p, z, 0x1.f1c72c3725b82p-6);
  p = eti_fma_f64(p, z, 0x1.6db6db4281d5dp-5);
  p = eti_fma_f64(p, z, 0x1.333333336e6fep-4);
  p = eti_fma_f64(p, z, 0x1.5555555555391p-3);
  return p * z * s;
}

ETI_INLINE double eti_asin_f64(double x) {
  const double a = fabs(x);
  const bool large = a > 0.5;
  const double z = large ? 0.5 - 0.5 * a : x * x, s = large ? sqrt(z) : a;
  const double tail = eti_asin_tail_f64(s, z);
  const double y = ETI_HALF_PI_F64 - 2.0 * s, lost = (ETI_HALF_PI_F64 - y) - 2.0 * s;
  return copysign(large ? y - ((2.0 * tail - ETI_HALF_PI_LOW_F64) - lost) : s + tail, x);
}
ETI_INLINE double eti_acos_f64(double x) {
  const double a = fabs(x);
  const bool large = a > 0.5;
  const double z = large ? 0.5 - 0.5 * a : x * x, s = large ? sqrt(z) : a;
  const double y = s + eti_asin_tail_f64(s, z);
  const double ends = x < 0.0 ? 2.0 * ETI_HALF_PI_F64 - 2.0 * (y - ETI_HALF_PI_LOW_F64) : 2.0 * y;
  return large ? ends : ETI_HALF_PI_F64 - (copysign(y, x) - ETI_HALF_PI_LOW_F64);
}

ETI_INLINE double eti_atan2_f64(double y, double x) {
  const double a = fabs(y), b = fabs(x);
  const bool steep = a > b;
  const double low = steep ? b : a, high = steep ? a : b;
  const bool both_infinite = low == (double)INFINITY, both_zero = high == 0.0;
  double t = eti_atan_reduced_f64(both_infinite ? 1.0 : both_zero ? 0.0 : low / high);
  t = steep ? (ETI_HALF_PI_F64 - t) + ETI_HALF_PI_LOW_F64 : t;
  t = copysign(1.0, x) < 0.0 ? (2.0 * ETI_HALF_PI_F64 - t) + 2.0 * ETI_HALF_PI_LOW_F64 : t;
  return ((x != x) | (y != y)) ? x + y : copysign(t, y);
}

#endif  // ET_MATH_F64_H
