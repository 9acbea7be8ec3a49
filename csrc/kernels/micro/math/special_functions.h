// special_functions.h — functions of the gamma, error and Bessel families in f64. With `wide` they
// use the elementary functions of math_f64.h and are accurate to about 1e-14; without, the shorter
// ones in f64 of math_f32.h, accurate to about 1e-11, below f32 precision. Neither uses libm's, so
// that results are the same on every machine. Coefficients are Chebyshev and Taylor expansions
// computed with 40 digits. Knows no tensor.
#ifndef ET_SPECIAL_FUNCTIONS_H
#define ET_SPECIAL_FUNCTIONS_H

#include "kernels/micro/math/math_f64.h"

#include <math.h>

#define ETI_PI 0x1.921fb54442d18p+1
#define ETI_INF ((double)INFINITY)
#define ETI_NAN ((double)NAN)

static inline double eti_ln(double x, bool wide) {
  return wide ? eti_log_f64(x) : eti_log_d(x);
}
static inline double eti_ln1p(double x, bool wide) {
  if (wide) return eti_log1p_f64(x);
  return fabs(x) < 0x1p-20 ? x - 0.5 * x * x : eti_log_d(1.0 + x);
}
static inline double eti_e_to(double x, bool wide) {
  return wide ? eti_exp_f64(x) : x < -700.0 ? 0.0 : x > 700.0 ? ETI_INF : eti_exp_d(x);
}

// sin(πx) and cos(πx), exact reduction.
static inline double eti_sin_pi(double x, bool wide) {
  const double n = rint(x), r = x - n;
  double y = 0.0;
  if (wide) {
    y = eti_sin_f64(ETI_PI * r);
  } else {
    y = fabs(r) <= 0.25 ? eti_sin_core(ETI_PI * r)
                        : copysign(eti_cos_core(ETI_PI * (0.5 - fabs(r))), r);
  }
  return fmod(n, 2.0) != 0.0 ? -y : y;
}
static inline double eti_cos_pi(double x, bool wide) {
  return eti_sin_pi(0.5 - fabs(fmod(x, 2.0)), wide);
}

// Σ c[j]·T_j(u), |u| ≤ 1.
static inline double eti_chebyshev(const double *c, size_t n, double u) {
  double b0 = 0.0, b1 = 0.0;
  for (size_t j = n; j-- > 1;) {
    const double next = c[j] + 2.0 * u * b0 - b1;
    b1 = b0;
    b0 = next;
  }
  return c[0] + u * b0 - b1;
}
#define ETI_CHEBYSHEV(table, u) eti_chebyshev(table, sizeof(table) / sizeof *(table), u)

// ---- gamma family

// log Γ(2 + z), |z| ≤ 1/2: (1 - γ)z + Σ (-1)^k (ζ(k) - 1) z^k / k, k from 2.
static inline double eti_lgamma_near_2(double z) {
  static const double c[] = {
      0.322467033424113218,      -0.0673523010531980951,   0.0205808084277845479,
      -0.00738555102867398527,   0.00289051033074152329,   -0.00119275391170326098,
      0.000509669524743042422,   -0.000223154758453579380, 0.0000994575127818085337,
      -0.0000449262367381331417, 0.0000205072127756706916, -9.43948827526839590e-6,
      4.37486678990748780e-6,    -2.03921575380136624e-6,  9.55141213040741983e-7,
      -4.49246919876456604e-7,   2.12071848055546659e-7,   -1.00432248239680996e-7,
      4.76981016936398057e-8,    -2.27110946089431649e-8,  1.08386592148969541e-8,
      -5.18347504197004666e-9,   2.48367454380247832e-9,   -1.19214014058609121e-9,
      5.73136724167886201e-10,   -2.75952288512423315e-10, 1.33047643742444895e-10,
      -6.42296456383810002e-11,
  };
  double p = 0.0;
  for (size_t k = sizeof c / sizeof *c; k-- > 0;) p = p * z + c[k];
  return z * (0.422784335098467139 + z * p);
}

// x > 0.
static inline double eti_lgamma_positive(double x, bool wide) {
  if (x == ETI_INF) return x;
  if (x < 0.5) return eti_lgamma_near_2(x) - eti_ln1p(x, wide) - eti_ln(x, wide);
  if (x < 1.5) return eti_lgamma_near_2(x - 1.0) - eti_ln1p(x - 1.0, wide);
  if (x < 2.5) return eti_lgamma_near_2(x - 2.0);
  double shift = 1.0;
  for (; x < 10.0; x += 1.0) shift *= x;
  const double r = 1.0 / x, t = r * r;  // Stirling's series
  double p = 1.0 / 156.0;
  p = p * t - 691.0 / 360360.0;
  p = p * t + 1.0 / 1188.0;
  p = p * t - 1.0 / 1680.0;
  p = p * t + 1.0 / 1260.0;
  p = p * t - 1.0 / 360.0;
  p = p * t + 1.0 / 12.0;
  return (x - 0.5) * eti_ln(x, wide) - x + 0.918938533204672742 + p * r - eti_ln(shift, wide);
}

static inline double eti_lgamma(double x, bool wide) {
  if (x != x) return x;
  if (x > 0.0) return eti_lgamma_positive(x, wide);
  if (x == floor(x)) return ETI_INF;
  return eti_ln(ETI_PI / fabs(eti_sin_pi(x, wide)), wide) - eti_lgamma_positive(1.0 - x, wide);
}

static inline double eti_digamma(double x, bool wide) {
  double y = 0.0;
  if (x == 0.0) return copysign(ETI_INF, -x);
  if (x == ETI_INF) return x;
  if (x < 0.0) {
    if (x == floor(x)) return ETI_NAN;  // minus infinity too
    y = -ETI_PI * eti_cos_pi(x, wide) / eti_sin_pi(x, wide);
    x = 1.0 - x;
  }
  for (; x < 10.0; x += 1.0) y -= 1.0 / x;
  const double t = 1.0 / (x * x);
  double p = 1.0 / 12.0;
  p = p * t - 691.0 / 32760.0;
  p = p * t + 1.0 / 132.0;
  p = p * t - 1.0 / 240.0;
  p = p * t + 1.0 / 252.0;
  p = p * t - 1.0 / 120.0;
  p = p * t + 1.0 / 12.0;
  return y + eti_ln(x, wide) - 0.5 / x - p * t;
}

static inline double eti_trigamma(double x, bool wide) {
  double y = 0.0, sign = 1.0;
  if (x < 0.5) {
    const double s = eti_sin_pi(x, wide);
    if (x == -ETI_INF) return ETI_NAN;
    y = -ETI_PI * ETI_PI / (s * s);
    sign = -1.0;
    x = 1.0 - x;
  }
  for (; x < 10.0; x += 1.0) y += 1.0 / (x * x);
  const double t = 1.0 / (x * x);
  double p = 5.0 / 66.0;
  p = p * t - 1.0 / 30.0;
  p = p * t + 1.0 / 42.0;
  p = p * t - 1.0 / 30.0;
  p = p * t + 1.0 / 6.0;
  return sign * (y + 1.0 / x + 0.5 * t + p * t / x);
}

// a^-x for the terms of zeta; a negative a occurs only with whole x. Small whole x, as in
// polygamma, are products.
static inline double eti_inverse_power(double a, double x, bool wide) {
  if (x >= 1.0 && x <= 8.0 && x == floor(x)) {
    double power = a;
    for (double k = 1.0; k < x; k += 1.0) power *= a;
    return 1.0 / power;
  }
  if (wide) return eti_pow_f64(a, -x);
  const double y = a == 1.0 ? 1.0 : eti_e_to(-x * eti_log_d(fabs(a)), wide);
  return a < 0.0 && fabs(fmod(x, 2.0)) == 1.0 ? -y : y;
}

// Hurwitz zeta Σ (q + k)^-x: nine terms and more, the rest by Euler and Maclaurin.
static inline double eti_zeta(double x, double q, bool wide) {
  static const double bernoulli[] = {
      0.0833333333333333333,    -0.00138888888888888889,  0.0000330687830687830688,
      -8.26719576719576720e-7,  2.08767569878680990e-8,   -5.28419013868749318e-10,
      1.33825365306846788e-11,  -3.38968029632258287e-13, 8.58606205627784456e-15,
      -2.17486869855806187e-16, 5.50900282836022952e-18,  -1.39544646858125233e-19,
  };
  if (x == 1.0) return ETI_INF;
  if (x < 1.0) return ETI_NAN;
  if (q <= 0.0) {
    if (q == floor(q)) return ETI_INF;
    if (x != floor(x)) return ETI_NAN;
  }
  if (x != x || q != q) return ETI_NAN;
  if (q < -1000.0) {  // the terms below zero are those of two sums above it, mirrored
    const double n = ceil(-q), rest = q + n;
    const double below = eti_zeta(x, 1.0 - rest, wide) - eti_zeta(x, 1.0 - rest + n, wide);
    return eti_zeta(x, rest, wide) + (fmod(x, 2.0) != 0.0 ? -below : below);
  }
  double a = q, term = eti_inverse_power(a, x, wide), sum = term;
  for (int i = 0; i < 9 || a <= 9.0; i++) {
    a += 1.0;
    term = eti_inverse_power(a, x, wide);
    sum += term;
    if (fabs(term) < 0x1p-53 * fabs(sum)) return sum;  // not where both vanish
  }
  sum += term * a / (x - 1.0) - 0.5 * term;
  double factor = x;  // x (x + 1) … (x + 2k) / a^(2k + 1)
  term /= a;
  for (size_t k = 0; k < sizeof bernoulli / sizeof *bernoulli; k++) {
    const double next = bernoulli[k] * factor * term;
    sum += next;
    if (fabs(next) <= 0x1p-53 * fabs(sum)) break;
    factor *= (x + 2.0 * (double)k + 1.0) * (x + 2.0 * (double)k + 2.0);
    term /= a * a;
  }
  return sum;
}

static inline double eti_polygamma(int64_t n, double x, bool wide) {
  if (n == 0) return eti_digamma(x, wide);
  if (n == 1) return eti_trigamma(x, wide);
  const double size = eti_e_to(eti_lgamma_positive((double)n + 1.0, wide), wide) *
                      eti_zeta((double)n + 1.0, x, wide);
  return n % 2 == 0 ? -size : size;
}

// Regularised incomplete gamma functions, a > 0 and finite, x > 0 and finite: a series below a + 1,
// a continued fraction (Lentz) above; without `wide` to 2^-40. *upper is true if the upper function
// was computed.
static inline double eti_incomplete_gamma(double a, double x, bool wide, bool *upper) {
  const double scale = eti_e_to(a * eti_ln(x, wide) - x - eti_lgamma_positive(a, wide), wide);
  const double enough = wide ? 0x1p-53 : 0x1p-40;
  *upper = x > a + 1.0;
  if (!*upper) {
    double term = 1.0 / a, sum = term;
    for (int k = 1; k < 20000; k++) {  // a + k may be a itself
      term *= x / (a + (double)k);
      sum += term;
      if (term <= enough * sum) break;
    }
    return sum * scale;
  }
  double b = x + 1.0 - a, c = 0x1p1000, d = 1.0 / b, h = d;
  for (double k = 1.0; k < 20000.0; k += 1.0) {
    const double up = -k * (k - a);
    b += 2.0;
    d = up * d + b;
    d = 1.0 / (d == 0.0 ? 0x1p-1000 : d);
    c = b + up / c;
    c = c == 0.0 ? 0x1p-1000 : c;
    h *= d * c;
    if (fabs(d * c - 1.0) <= 2.0 * enough) break;
  }
  return h * scale;
}

// P(a, x), or Q(a, x) = 1 - P for the complement; the limits are ATen's.
static inline double eti_igamma(double a, double x, bool complement, bool wide) {
  if (a < 0.0 || x < 0.0) return ETI_NAN;
  if (a == 0.0) return x > 0.0 ? (complement ? 0.0 : 1.0) : ETI_NAN;
  if (x == 0.0) return complement ? 1.0 : 0.0;
  if (a == ETI_INF) return x == ETI_INF ? ETI_NAN : complement ? 1.0 : 0.0;
  if (x == ETI_INF) return complement ? 0.0 : 1.0;
  if (a != a || x != x) return ETI_NAN;
  bool upper;
  const double y = eti_incomplete_gamma(a, x, wide, &upper);
  return upper == complement ? y : 1.0 - y;
}

// ---- error family

// exp(x²) erfc(x) for x ≥ 0, over 1 + 2x an expansion in (x - 3.75) / (x + 3.75).
static inline double eti_erfcx_positive(double x) {
  static const double c[] = {
      1.17757893456740175,      -0.00459005458064647733,  -0.0842491333665179156,
      0.0592099399981918905,    -0.0266586684353057523,   0.00907499767070526509,
      -0.00241316354041760819,  0.000490775836525808630,  -0.0000691697330250120662,
      4.13902798607300752e-6,   7.74038306619846677e-7,   -2.18864010492345783e-7,
      1.07649994656698781e-8,   4.52195981121817639e-9,   -7.75440020882315069e-10,
      -6.31808834072268439e-11, 2.86879501115515215e-11,  1.94558688016003081e-13,
      -9.65469672301433304e-13, 3.25254836817387654e-14,  3.34781210623852230e-14,
      -1.86456211880308691e-15, -1.25079519978485249e-15,
  };
  if (x > 1e8) return 0.564189583547756287 / x;
  return ETI_CHEBYSHEV(c, (x - 3.75) / (x + 3.75)) / (1.0 + 2.0 * x);
}

static inline double eti_erfcx(double x, bool wide) {
  if (x != x || x == ETI_INF) return x != x ? x : 0.0;
  if (x >= 0.0) return eti_erfcx_positive(x);
  return 2.0 * eti_e_to(x * x, wide) - eti_erfcx_positive(-x);
}

static inline double eti_erfc(double x, bool wide) {
  if (x != x) return x;
  const double a = fabs(x), square = a * a, rest = eti_fma_f64(a, a, -square);
  double tail = a > 27.3 ? 0.0 : eti_e_to(-square, wide) * eti_erfcx_positive(a);
  tail -= a > 27.3 ? 0.0 : tail * rest;
  return x < 0.0 ? 2.0 - tail : tail;
}

static inline double eti_log_ndtr(double x, bool wide) {
  const double t = x * 0x1.6a09e667f3bcdp-1;
  if (x < -1.0) return eti_ln(eti_erfcx_positive(-t) / 2.0, wide) - t * t;
  return eti_ln1p(-eti_erfc(t, wide) / 2.0, wide);
}

// The normal quantile of 1/2 + q; `tail` is the smaller of the probabilities on both sides, which
// may be much more exact than 1/2 - |q|. Wichura, Algorithm AS 241, Applied Statistics 37 (1988).
static inline double eti_normal_quantile(double q, double tail, bool wide) {
  static const double a[] = {3.3871328727963666080e0,  1.3314166789178437745e+2,
                             1.9715909503065514427e+3, 1.3731693765509461125e+4,
                             4.5921953931549871457e+4, 6.7265770927008700853e+4,
                             3.3430575583588128105e+4, 2.5090809287301226727e+3};
  static const double b[] = {1.0,
                             4.2313330701600911252e+1,
                             6.8718700749205790830e+2,
                             5.3941960214247511077e+3,
                             2.1213794301586595867e+4,
                             3.9307895800092710610e+4,
                             2.8729085735721942674e+4,
                             5.2264952788528545610e+3};
  static const double c[] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                             5.76949722146069140550e0,  3.64784832476320460504e0,
                             1.27045825245236838258e0,  2.41780725177450611770e-1,
                             2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static const double d[] = {1.0,
                             2.05319162663775882187e0,
                             1.67638483018380384940e0,
                             6.89767334985100004550e-1,
                             1.48103976427480074590e-1,
                             1.51986665636164571966e-2,
                             5.47593808499534494600e-4,
                             1.05075007164441684324e-9};
  static const double e[] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                             1.78482653991729133580e0,  2.96560571828504891230e-1,
                             2.65321895265761230930e-2, 1.24266094738807843860e-3,
                             2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static const double f[] = {1.0,
                             5.99832206555887937690e-1,
                             1.36929880922735805310e-1,
                             1.48753612908506148525e-2,
                             7.86869131145613259100e-4,
                             1.84631831751005468180e-5,
                             1.42151175831644588870e-7,
                             2.04426310338993978564e-15};
  const double *over = a, *under = b;
  double t = 0.180625 - q * q, up = 0.0, down = 0.0;
  if (fabs(q) > 0.425) {
    const double r = sqrt(-eti_ln(tail, wide));
    over = r > 5.0 ? e : c;
    under = r > 5.0 ? f : d;
    t = r > 5.0 ? r - 5.0 : r - 1.6;
  }
  for (size_t k = 8; k-- > 0;) {
    up = up * t + over[k];
    down = down * t + under[k];
  }
  return over == a ? q * up / down : copysign(up / down, q);
}

static inline double eti_ndtri(double p, bool wide) {
  if (p == 0.0 || p == 1.0) return p == 0.0 ? -ETI_INF : ETI_INF;
  if (!(p > 0.0 && p < 1.0)) return ETI_NAN;
  return eti_normal_quantile(p - 0.5, p < 0.5 ? p : 1.0 - p, wide);
}

static inline double eti_erfinv(double y, bool wide) {
  if (fabs(y) == 1.0) return copysign(ETI_INF, y);
  if (!(fabs(y) < 1.0)) return ETI_NAN;
  return eti_normal_quantile(0.5 * y, 0.5 * (1.0 - fabs(y)), wide) * 0x1.6a09e667f3bcdp-1;
}

// ---- modified Bessel functions of the first kind, times exp(-|x|)

static inline double eti_i0e(double x) {
  static const double small[] = {
      0.338397637204738042,     -0.304682672343198399,    0.171620901522208775,
      -0.0949010970480476444,   0.0493052842396707085,    -0.0237374148058994688,
      0.0105464603945949983,    -0.00432430999505057594,  0.00163947561694133580,
      -0.000576375574538582366, 0.000188502885095841656,  -0.0000575419501008210370,
      0.0000164484480707288971, -4.41673835845875056e-6,  1.11738753912010372e-6,
      -2.67079385394061173e-7,  6.04699502254191895e-8,   -1.30002500998624804e-8,
      2.65982372468238665e-9,   -5.18979560163526291e-10, 9.67580903537323691e-11,
      -1.72682629144155571e-11, 2.95505266312963983e-12,  -4.85644678311192946e-13,
      7.67618549860493562e-14,  -1.16853328779934517e-14, 1.71539128555513303e-15,
      -2.43127984654795469e-16, 3.33079451882223810e-17,
  };
  static const double large[] = {
      0.402245205507054416,     0.00336911647825569409,   0.0000688975834691682398,
      2.89137052083475648e-6,   2.04891858946906374e-7,   2.26666899049817806e-8,
      3.39623202570838635e-9,   4.94060238822496959e-10,  1.18891471078464383e-11,
      -3.14991652796324136e-11, -1.32158118404477131e-11, -1.79417853150680612e-12,
      7.18012445138366623e-13,  3.85277838274214270e-13,  1.54008621752140983e-14,
      -4.15056934728722209e-14, -9.55484669882830765e-15, 3.81168066935262242e-15,
      1.77256013305652638e-15,  -3.42548561967721913e-16, -2.82762398051658348e-16,
  };
  x = fabs(x);
  if (!(x > 8.0)) return ETI_CHEBYSHEV(small, x / 4.0 - 1.0);
  return ETI_CHEBYSHEV(large, 16.0 / x - 1.0) / sqrt(x);
}

static inline double eti_i1e(double x) {
  static const double small[] = {
      0.126293593221816827,     -0.176416518357834055,    0.102643658689847095,
      -0.0529459812080949914,   0.0247264490306265168,    -0.0105640848946261982,
      0.00415642294431288816,   -0.00151357245063125315,  0.000512285956168575773,
      -0.000161760815825896746, 0.0000478156510755005423, -0.0000132731636560394358,
      3.47025130813767848e-6,   -8.56872026469545474e-7,  2.00329475355213526e-7,
      -4.44505912879632808e-8,  9.38153738649577178e-9,   -1.88724975172282929e-9,
      3.62559028155211704e-10,  -6.66348972350202774e-11, 1.17361862988909016e-11,
      -1.98397439776494372e-12, 3.22379336594557471e-13,  -5.04218550472791169e-14,
      7.60068429473540693e-15,  -1.10559694773538631e-15, 1.55363195773620047e-16,
      -2.11142121435816608e-17,
  };
  static const double large[] = {
      0.389288117509140060,     -0.00976109749136146841,  -0.000110588938762623716,
      -3.88256480887769039e-6,  -2.51223623787020893e-7,  -2.63146884688951951e-8,
      -3.83538038596423702e-9,  -5.58974346219658381e-10, -1.89749581235054123e-11,
      3.25260358301548824e-11,  1.41258074366137813e-11,  2.03562854414708951e-12,
      -7.19855177624590851e-13, -4.08355111109219732e-13, -2.10154184277266431e-14,
      4.27244001671195135e-14,  1.04202769841288028e-14,  -3.81440307243700780e-15,
      -1.88035477551078245e-15, 3.30820231092092828e-16,  2.96262899764595014e-16,
  };
  const double a = fabs(x);
  if (!(a > 8.0)) return x * ETI_CHEBYSHEV(small, a / 4.0 - 1.0);
  return copysign(ETI_CHEBYSHEV(large, 16.0 / a - 1.0) / sqrt(a), x);
}

#endif  // ET_SPECIAL_FUNCTIONS_H
