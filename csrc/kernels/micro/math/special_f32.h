// special_f32.h — special functions of f32 as straight-line arithmetic that vectorises, each for
// its usual operands; operands for which eti_<name>_is_rare_f32 holds belong to
// special_functions.h. All but erfinv work in f64 and round once. Expansions are those of
// special_functions.h, as powers and shortened to about 1e-10. Knows no tensor.
#ifndef ET_SPECIAL_F32_H
#define ET_SPECIAL_F32_H

#include "kernels/micro/math/special_functions.h"

// Σ c[j]·x^j; the table is a constant, so that the loop unrolls.
ETI_INLINE double eti_powers(const double *c, size_t n, double x) {
  double p = c[n - 1];
#if defined(__clang__)
#pragma clang loop unroll(full)
#elif defined(__GNUC__)
#pragma GCC unroll 32
#endif
  for (size_t j = n - 1; j-- > 0;) p = eti_fma_f64(p, x, c[j]);
  return p;
}
#define ETI_POWERS(x, ...)                  \
  eti_powers((const double[]){__VA_ARGS__}, \
             sizeof((const double[]){__VA_ARGS__}) / sizeof(double), x)

// ---- the inverse of the error function: x·p(w), w = -log(1 - x²), p fitted for relative error
// 2^-30 on the w of |x| ≤ 0.97. The rounding errors of p and w are multiplied separately, the
// latter by about p's derivative.

ETI_INLINE bool eti_erfinv_is_rare_f32(float x) {
  return !(fabsf(x) <= 0.97f);
}
ETI_INLINE float eti_erfinv_common_f32(float x) {
  float f;
  const float n = eti_log_reduce(eti_fma_f32(-x, x, 1.0f), &f);
  const float tail = eti_fma_f32(n, -0x1.05c610p-29f, eti_log_tail(f)), sum = f + tail;
  const float w = -eti_fma_f32(n, 0x1.62e430p-1f, sum);
  const float w_low = -((eti_fma_f32(n, 0x1.62e430p-1f, w) + sum) + (tail - (sum - f)));
  float p = -0x1.135d4ep-30f;
  p = eti_fma_f32(p, w, 0x1.4a15b6p-27f);
  p = eti_fma_f32(p, w, 0x1.62697cp-24f);
  p = eti_fma_f32(p, w, -0x1.808c96p-20f);
  p = eti_fma_f32(p, w, 0x1.7be3b2p-19f);
  p = eti_fma_f32(p, w, 0x1.7f640cp-15f);
  p = eti_fma_f32(p, w, -0x1.0b546ep-13f);
  p = eti_fma_f32(p, w, -0x1.32170ap-9f);
  p = eti_fma_f32(p, w, 0x1.7a7316p-7f);
  p = eti_fma_f32(p, w, 0x1.db29fcp-3f);
  const float first = 0x1.c5bf8ap-1f, y = eti_fma_f32(p, w, first);
  const float low = eti_fma_f32(p, w, first - y) + eti_fma_f32(0.29f, w_low, -0x1.c96212p-26f);
  return eti_fma_f32(x, y, x * low);
}

// ---- exp(x²)·erfc(x)

// (1 + 2x)·exp(x²)·erfc(x) for x ≥ 0, a function of u = (x - 3.75) / (x + 3.75):
// special_functions.h's expansion to 1e-9, as powers.
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

ETI_INLINE bool eti_erfcx_is_rare_f32(float x) {
  return !(fabsf(x) < INFINITY);
}
ETI_INLINE float eti_erfcx_common_f32(float v) {
  const double x = (double)v, a = fabs(x);
  const double y = eti_erfcx_powers((a - 3.75) / (a + 3.75)) / (1.0 + 2.0 * a);
  return (float)(x < 0.0 ? 2.0 * eti_exp_d(x * x) - y : y);
}

// ---- gamma family, of positive numbers. Those below 10 are shifted by eight.

ETI_INLINE bool eti_lgamma_is_rare_f32(float x) {
  return !(x > 0.0f && x < INFINITY);
}
ETI_INLINE float eti_lgamma_common_f32(float v) {
  const double x = (double)v;
  const bool near = x < 2.5, below = x < 0.5, middle = x < 1.5;
  // Γ(2 + z) over `rest` …
  const double z = x - (below ? 0.0 : middle ? 1.0 : 2.0);
  const double rest = below ? x * (x + 1.0) : middle ? x : 1.0;
  const double p = ETI_POWERS(
      z, 0.422784335098467139, 0.322467033424113218, -0.0673523010531980951, 0.0205808084277845479,
      -0.00738555102867398527, 0.00289051033074152329, -0.00119275391170326098,
      0.000509669524743042422, -0.000223154758453579380, 0.0000994575127818085337,
      -0.0000449262367381331417, 0.0000205072127756706916, -9.43948827526839590e-6,
      4.37486678990748780e-6, -2.03921575380136624e-6, 9.55141213040741983e-7);
  // … or Stirling's series of the shifted number.
  const bool small = x < 10.0;
  double product = x;
  for (int k = 1; k < 8; k++) product *= x + (double)k;
  const double y = small ? x + 8.0 : x, r = 1.0 / y;
  const double s = r * ETI_POWERS(r * r, 1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0);
  const double far = ((y - 0.5) * eti_log_d(y) - y) + (0.918938533204672742 + s);
  return (float)((near ? z * p : far) - eti_log_d(near ? rest : small ? product : 1.0));
}

ETI_INLINE bool eti_digamma_is_rare_f32(float x) {
  return !(x > 0.0f && x < INFINITY);
}
ETI_INLINE float eti_digamma_common_f32(float v) {
  const double x = (double)v;
  const bool small = x < 10.0;
  double over = 1.0, under = x;  // Σ 1 / (x + k)
  for (int k = 1; k < 8; k++) {
    const double next = x + (double)k;
    over = over * next + under;
    under *= next;
  }
  const double y = small ? x + 8.0 : x, r = 1.0 / y, t = r * r;
  const double s = ETI_POWERS(t, 1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0);
  return (float)((eti_log_d(y) - 0.5 * r - s * t) - (small ? over / under : 0.0));
}

ETI_INLINE bool eti_trigamma_is_rare_f32(float x) {
  return !(x > 0.0f && x < INFINITY);
}
ETI_INLINE float eti_trigamma_common_f32(float v) {
  const double x = (double)v;
  const bool small = x < 10.0;
  double over = 1.0, under = x * x;  // Σ 1 / (x + k)²
  for (int k = 1; k < 8; k++) {
    const double next = x + (double)k, square = next * next;
    over = over * square + under;
    under *= square;
  }
  const double y = small ? x + 8.0 : x, r = 1.0 / y, t = r * r;
  const double s = ETI_POWERS(t, 1.0 / 6.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 5.0 / 66.0);
  return (float)((r + 0.5 * t + s * t * r) + (small ? over / under : 0.0));
}

// ---- the logarithm of the normal distribution; see special_f64.h

ETI_INLINE bool eti_log_ndtr_is_rare_f32(float x) {
  return !(fabsf(x) < INFINITY);
}
ETI_INLINE float eti_log_ndtr_common_f32(float v) {
  const double x = (double)v, a = fabs(x), t = a * 0x1.6a09e667f3bcdp-1, s = t * t;
  const double d = 1.0 + 2.0 * t, e = t + 3.75, inverse = 1.0 / (d * e);
  const double y = 0.5 * eti_erfcx_powers((t - 3.75) * (d * inverse)) * (e * inverse);
  const bool below = x < 0.0;
  const double tail = y * eti_exp_d(below ? 0.0 : -s);
  const double z = eti_log_d(below ? y : 1.0 - tail);
  const double above = tail < 0x1p-20 ? -tail - 0.5 * tail * tail : z;
  return (float)(below ? z - s : above);
}

#endif  // ET_SPECIAL_F32_H
