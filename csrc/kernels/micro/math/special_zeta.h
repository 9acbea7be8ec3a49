// special_zeta.h — Hurwitz zeta functions of many pairs as arithmetic that vectorises: f32 pair by
// pair, all in f64; f64 term by term, since exact powers take most of the time. The first terms are
// added directly, the Euler-Maclaurin formula gives the rest. Exponents up to 1 are answered at
// once; pairs for which eti_zeta_is_rare_… holds belong to special_functions.h. Knows no tensor.
#ifndef ET_SPECIAL_ZETA_H
#define ET_SPECIAL_ZETA_H

#include "kernels/micro/math/math_f64.h"
#include "kernels/micro/math/special_f32.h"

#include <stddef.h>

// The value for x ≤ 1, where the sum does not converge.
ETI_INLINE double eti_zeta_divergent(double x) {
  return x == 1.0 ? (double)INFINITY : (double)NAN;
}

// ---- f32: four terms and six of the formula, good to 1e-10 up to x = 32

ETI_INLINE bool eti_zeta_is_rare_f32(float x, float q) {
  return (!(x <= 32.0f)) | ((x > 1.0f) & (!(q > 0.0f && q < INFINITY)));
}
ETI_INLINE float eti_zeta_common_f32(float exponent, float shift) {
  const double x = (double)exponent, q = (double)shift, a = q + 4.0, inverse = 1.0 / a;
  const double near = eti_exp_d(-x * eti_log_d(q)) + eti_exp_d(-x * eti_log_d(q + 1.0));
  const double far = eti_exp_d(-x * eti_log_d(q + 2.0)) + eti_exp_d(-x * eti_log_d(q + 3.0));
  const double term = eti_exp_d(-x * eti_log_d(a)), t = inverse * inverse;
  double p = -5.28419013868749318e-10;
  p = (x + 9.0) * (x + 10.0) * t * p + 2.08767569878680990e-8;
  p = (x + 7.0) * (x + 8.0) * t * p - 8.26719576719576720e-7;
  p = (x + 5.0) * (x + 6.0) * t * p + 0.0000330687830687830688;
  p = (x + 3.0) * (x + 4.0) * t * p - 0.00138888888888888889;
  p = (x + 1.0) * (x + 2.0) * t * p + 0.0833333333333333333;
  const double rest = term * ((a / (x - 1.0) + 0.5) + x * inverse * p);
  return (float)(x <= 1.0 ? eti_zeta_divergent(x) : near + (far + rest));
}
ETI_INLINE void eti_zeta_all_f32(float *y, const float *x, const float *q, size_t n) {
  for (size_t i = 0; i != n; i++) y[i] = eti_zeta_common_f32(x[i], q[i]);
}

// ---- f64: eleven terms and eight of the formula, good to 2^-60 up to x = 40, but for roundings

ETI_INLINE bool eti_zeta_is_rare_f64(double x, double q) {
  return (!(x <= 40.0)) | ((x > 1.0) & (!(q > 0.0 && q < 1e300)));
}
ETI_INLINE double eti_zeta_common_f64(double x, double q) {
  enum { TERMS = 12 };
  static const double bernoulli[] = {
      0.0833333333333333333,   -0.00138888888888888889,  0.0000330687830687830688,
      -8.26719576719576720e-7, 2.08767569878680990e-8,   -5.28419013868749318e-10,
      1.33825365306846788e-11, -3.38968029632258287e-13,
  };
  double term[TERMS];
  for (int k = 0; k < TERMS; k++) term[k] = eti_pow_magnitude_f64(q + (double)k, -x);
  const double a = q + 11.0, inverse = 1.0 / a, t = inverse * inverse, last = term[TERMS - 1];
  double p = bernoulli[7];
  for (int k = 7; k-- > 0;)
    p = (x + (2.0 * k + 1.0)) * (x + (2.0 * k + 2.0)) * t * p + bernoulli[k];
  double sum = last * (a / (x - 1.0) + (0.5 + x * inverse * p));
  for (int k = TERMS - 1; k-- > 0;) sum += term[k];  // the smallest first
  return sum;
}
ETI_INLINE void eti_zeta_all_f64(double *y, const double *x, const double *q, size_t n) {
  for (size_t i = 0; i < n; i++)
    y[i] = x[i] <= 1.0 ? eti_zeta_divergent(x[i]) : eti_zeta_common_f64(x[i], q[i]);
}

#endif  // ET_SPECIAL_ZETA_H
