// special_f64.h — special functions of f64 as straight-line arithmetic that vectorises, each for
// its usual operands; operands for which eti_<name>_is_rare_f64 holds belong to
// special_functions.h. Errors are a few units in the last place (tests/kernels/test_special.py);
// polynomials are fitted for 2^-56. Knows no tensor.
#ifndef ET_SPECIAL_F64_H
#define ET_SPECIAL_F64_H

#include "kernels/micro/math/special_functions.h"

// Σ c[j]·x^j for an even n, as sums of even and of odd powers, which are independent; the table is
// a constant, so that the loop unrolls.
ETI_INLINE double eti_split_powers(const double *c, size_t n, double x) {
  const double t = x * x;
  double odd = c[n - 1], even = c[n - 2];
#if defined(__clang__)
#pragma clang loop unroll(full)
#elif defined(__GNUC__)
#pragma GCC unroll 16
#endif
  for (size_t j = n - 2; j >= 2; j -= 2) {
    odd = eti_fma_f64(odd, t, c[j - 1]);
    even = eti_fma_f64(even, t, c[j - 2]);
  }
  return eti_fma_f64(odd, x, even);
}
#define ETI_SPLIT_POWERS(x, ...)                  \
  eti_split_powers((const double[]){__VA_ARGS__}, \
                   sizeof((const double[]){__VA_ARGS__}) / sizeof(double), x)

// ---- error family: exp(x²)·erfc(x) of x ≥ 0 is v·(1 + more) with v = 1 / (1 + 2x) rounded. `more`
// has w·p(w), w = x / (x + 3), and the rounding error of v, which is also returned.

ETI_INLINE double eti_erfcx_quotient_f64(double x, double *more, double *lost) {
  const double d = eti_fma_f64(2.0, x, 1.0), d_low = eti_fma_f64(2.0, x, 1.0 - d), e = x + 3.0;
  const double inverse = 1.0 / (d * e), v = e * inverse, near = d * inverse;
  const double w = x * eti_fma_f64(eti_fma_f64(-e, near, 1.0), near, near);
  *lost = eti_fma_f64(-d_low, v, eti_fma_f64(-d, v, 1.0));
  *more = w * ETI_SPLIT_POWERS(w - 0.5, 0x1.03148b5f9261dp-1, -0x1.8df4cdbd61a96p+0,
                               0x1.5d40a2324c62ep+1, -0x1.b0fdddbee45a7p+1, 0x1.79703b437bd48p+1,
                               -0x1.86984b2e2a091p+0, 0x1.23872362f4393p-7, 0x1.426c152873fc7p-1,
                               -0x1.2b789b3c5710bp-2, -0x1.b58ad72123608p-3, 0x1.b20369408d915p-3,
                               0x1.6ac413ba0cb93p-4, -0x1.17bd10fac84f3p-3, -0x1.cbf3c6e768136p-5,
                               0x1.69f9f90e0a00cp-4, 0x1.a063a96685d7fp-5, -0x1.c428b6ed7553ep-5,
                               -0x1.a42ffc7297838p-5, 0x1.e509285455a8ap-6, 0x1.86c509e3781aep-5,
                               -0x1.67e237e9f2ebp-7, -0x1.172be00120213p-5, 0x1.bdee21f687654p-10,
                               0x1.b375ac8f16348p-7);
  return v;
}

// e^-(s + s_low) is 2^n·(1 + m) for s ≥ 0; gives m, and n in *shifted.
ETI_INLINE double eti_exp_minus_f64(double s, double s_low, double *shifted) {
  const double r = eti_exp_reduce_f64(-s, shifted) - s_low;
  return r + eti_exp_tail_f64(r);
}

// erfc(x); beyond 27.3 it is 0, and the arithmetic runs on 0.
ETI_INLINE double eti_erfc_f64(double x) {
  const double a = fabs(x);
  const bool vanishes = a > 27.3;
  const double b = vanishes ? 0.0 : a, s = b * b;
  double more, lost, shifted;
  const double v = eti_erfcx_quotient_f64(b, &more, &lost);
  const double m = eti_exp_minus_f64(s, eti_fma_f64(b, b, -s) - lost, &shifted);
  const double y = eti_fma_f64(v, eti_fma_f64(more, m, more + m), v);
  const double tail = vanishes ? 0.0 : eti_scale_f64(y, shifted, 0);
  return x < 0.0 ? 2.0 - tail : tail;
}

ETI_INLINE bool eti_erfcx_is_rare_f64(double x) {
  return !(fabs(x) < 1e100);
}
ETI_INLINE double eti_erfcx_common_f64(double x) {
  const double a = fabs(x), b = a > 27.0 || x > 0.0 ? 27.0 : a, s = b * b;
  double more, lost, shifted;
  const double v = eti_erfcx_quotient_f64(a, &more, &lost);
  const double y = eti_fma_f64(v, more + lost, v);
  const double r = eti_exp_reduce_f64(s, &shifted) + eti_fma_f64(b, b, -s);
  const double twice = eti_scale_f64(1.0 + (r + eti_exp_tail_f64(r)), shifted, 1);
  return x < 0.0 ? twice - y : y;
}

// log Φ(x) of the normal distribution: for x < 0 the logarithm of exp(x²/2)·Φ(x), minus x²/2; for x
// > 0 log1p of minus the other tail.
ETI_INLINE bool eti_log_ndtr_is_rare_f64(double x) {
  return !(fabs(x) < 1e100);
}
ETI_INLINE double eti_log_ndtr_common_f64(double x) {
  const double a = fabs(x), s = 0.5 * a * a;
  const bool below = x < 0.0, vanishes = a > 38.7;
  double more, lost, shifted, f, low, f_below;
  const double v = 0.5 * eti_erfcx_quotient_f64(a * 0x1.6a09e667f3bcdp-1, &more, &lost);
  const double b = vanishes || below ? 0.0 : a, t = 0.5 * b * b;
  const double m = eti_exp_minus_f64(t, eti_fma_f64(0.5 * b, b, -t) - lost, &shifted);
  const double y = eti_fma_f64(v, eti_fma_f64(more, m, more + m), v);
  const double tail = vanishes ? 0.0 : eti_scale_f64(y, shifted, 0);
  const double n = eti_log1p_reduce_f64(below ? 0.0 : -tail, 0.0, &f, &low);
  const double n_below = eti_log_reduce_f64(eti_fma_f64(v, more + lost, v), &f_below);
  const double z = eti_log_sum_f64(below ? n_below : n, below ? f_below : f, below ? 0.0 : low);
  return below ? z - s : z;
}

// x·(√π / 2 + w·p(w)), w = -log(1 - x²), the constant in two words.
ETI_INLINE bool eti_erfinv_is_rare_f64(double x) {
  return !(fabs(x) <= 0.99);
}
ETI_INLINE double eti_erfinv_common_f64(double x) {
  double f;
  const double n = eti_log_reduce_f64(eti_fma_f64(-x, x, 1.0), &f);
  const double w = -eti_log_sum_f64(n, f, 0.0);
  const double p = ETI_SPLIT_POWERS(
      w - 1.96, 0x1.f697170ef6717p-3, 0x1.2dbb39bd5000ep-9, -0x1.0fd7fb811c9a4p-9,
      0x1.73be5ad42e94bp-13, 0x1.3d13e9d81d019p-16, -0x1.5b19821814dd4p-18, 0x1.d0db26fd7638fp-24,
      0x1.974c4bfd3098fp-24, -0x1.72bd86c8913aap-27, -0x1.1551573dbec03p-30, 0x1.5c6762ac4545cp-32,
      -0x1.de22b3f101e02p-38, -0x1.b154d2a10fd19p-38, 0x1.8582eacd77f43p-41, 0x1.4484191eee8ccp-44,
      -0x1.7f8b09cfd0e33p-46, 0x1.89b36f30fb108p-53, 0x1.f120d8331eb21p-52, -0x1.ae3430050bafbp-56,
      -0x1.7eeb3220f27a2p-58);
  const double low = eti_fma_f64(w, p, -0x1.618f13eb7ca89p-55);
  return eti_fma_f64(x, 0x1.c5bf891b4ef6bp-1, x * low);
}

// ---- gamma family, of positive numbers: log Γ(2 + z) = z·p(z) for |z| ≤ 1/2 and the logarithm of
// the factors between it and x; Stirling's series from 10.5 on.

ETI_INLINE bool eti_lgamma_is_rare_f64(double x) {
  return !(x > 0.0 && x < 1e300);
}
ETI_INLINE double eti_lgamma_common_f64(double x) {
  const bool near = x < 10.5;
  const double y = near ? 16.0 : x, r = 1.0 / y;
  const double s =
      r * ETI_SPLIT_POWERS(r * r, 1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0,
                           1.0 / 1188.0, -691.0 / 360360.0, 1.0 / 156.0, -3617.0 / 122400.0);
  double z = near ? x : 2.0, product = 1.0;
#if defined(__clang__)
#pragma clang loop unroll(full)
#elif defined(__GNUC__)
#pragma GCC unroll 8
#endif
  for (int k = 0; k < 8; k++) {
    const double next = z - 1.0;
    const bool is_more = z >= 2.5;
    product = is_more ? product * next : product;
    z = is_more ? next : z;
  }
  const bool below = z < 0.5, middle = z < 1.5;
  const double under = below ? z * (z + 1.0) : z;
  z = z - (below ? 0.0 : middle ? 1.0 : 2.0);
  const double q =
      z * ETI_SPLIT_POWERS(z, 0x1.b0ee6072093cep-2, 0x1.4a34cc4a60fa6p-2, -0x1.13e001a55760ap-4,
                           0x1.51322ac7d848ap-6, -0x1.e404fc218dbaep-8, 0x1.7add6eadb5317p-9,
                           -0x1.38ac5c2d48207p-10, 0x1.0b36af8779cap-11, -0x1.d3fd4b679c1c4p-13,
                           0x1.a127afee53e7dp-14, -0x1.78de9ab752b81p-15, 0x1.580e0afa5585p-16,
                           -0x1.3cb3be36ad88bp-17, 0x1.258f3057730fap-18, -0x1.1276ebd557fbp-19,
                           0x1.012012be3900ap-20, -0x1.ce17528bcf46p-22, 0x1.b40adb09a1e12p-23,
                           -0x1.2009c1a550d0dp-23, 0x1.11fa5e7c86f7bp-24);
  double f;
  const double close = middle ? under : product;
  const double n = eti_log_reduce_f64(near ? close : x, &f), ln = eti_log_sum_f64(n, f, 0.0);
  const double rest = (x - 0.5) * (ln - 1.0) + (s + 0.418938533204672742);
  return near ? q + (middle ? -ln : ln) : rest;
}

// Numbers below ten are shifted by ten.

ETI_INLINE bool eti_digamma_is_rare_f64(double x) {
  return !(x > 1e-30 && x < 1e300);
}
ETI_INLINE double eti_digamma_common_f64(double x) {
  const bool small = x < 10.0;
  // Σ 1 / (x + k), k below ten, in pairs of k and 9 - k
  const double u = x * (x + 9.0);
  const double sum =
      1.0 / u + (1.0 / (u + 8.0) + 1.0 / (u + 14.0)) + (1.0 / (u + 18.0) + 1.0 / (u + 20.0));
  const double y = small ? x + 10.0 : x, r = 1.0 / y, t = r * r;
  const double s = ETI_SPLIT_POWERS(t, 1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0,
                                    1.0 / 132.0, -691.0 / 32760.0, 1.0 / 12.0, -3617.0 / 8160.0);
  double f;
  const double n = eti_log_reduce_f64(y, &f), ln = eti_log_sum_f64(n, f, 0.0);
  return (ln - eti_fma_f64(s, t, 0.5 * r)) - (small ? (2.0 * x + 9.0) * sum : 0.0);
}

ETI_INLINE bool eti_trigamma_is_rare_f64(double x) {
  return !(x > 1e-15 && x < 1e150);
}
ETI_INLINE double eti_trigamma_common_f64(double x) {
  const bool small = x < 10.0;
  double over = 1.0, under = x * x;  // Σ 1 / (x + k)²
  for (int k = 1; k < 10; k++) {
    const double next = x + (double)k, square = next * next;
    over = eti_fma_f64(over, square, under);
    under *= square;
  }
  const double y = small ? x + 10.0 : x, r = 1.0 / y, t = r * r;
  const double s = ETI_SPLIT_POWERS(t, 1.0 / 6.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 5.0 / 66.0,
                                    -691.0 / 2730.0, 7.0 / 6.0, -3617.0 / 510.0);
  return r + eti_fma_f64(0.5, t, s * t * r) + (small ? over / under : 0.0);
}

#endif  // ET_SPECIAL_F64_H
