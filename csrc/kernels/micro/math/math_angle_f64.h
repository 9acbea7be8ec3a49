// math_angle_f64.h — circular functions of f64 and their inverses; part of math_f64.h, whose rules
// hold here.
#ifndef ET_MATH_ANGLE_F64_H
#define ET_MATH_ANGLE_F64_H

#include "kernels/micro/math/math_core.h"

// ---- circular functions up to ETI_LARGE_ANGLE; loops use eti_reduce_large_f64 beyond.

#define ETI_LARGE_ANGLE_f64 0x1p20
#define ETI_HUGE_ANGLE_f64 ETI_LARGE_ANGLE_f64

// x = n·π/2 + r + *low with |r| ≤ π/4; *quadrant receives n in its low bits. The first product
// cancels exactly; the parts of π/2 are truncated, so that all are positive.
ETI_INLINE double eti_angle_f64(double x, uint64_t *quadrant, double *low) {
  const double shifted = eti_fma_f64(x, 0x1.45f306dc9c883p-1, ETI_ROUND_F64),
               n = shifted - ETI_ROUND_F64;
  *quadrant = eti_f64_bits(shifted);
  const double first = eti_fma_f64(n, -0x1.921fb54442d18p+0, x);
  const double r = eti_fma_f64(n, -0x1.1a62633145c06p-54, first);
  const double lost = eti_fma_f64(n, -0x1.1a62633145c06p-54, first - r);
  *low = eti_fma_f64(n, -0x1.c1cd129024e09p-107, lost);
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

// The tangent of r + low in even quadrants, p fitted for relative error 2^-56; in odd ones the
// negative reciprocal, corrected for what both roundings lost.
ETI_INLINE double eti_tan_rotated_f64(double r, double low, uint64_t quadrant) {
  const double z = r * r, t = z * z;
  double odd = 0x1.60e3c16128b65p-16, even = -0x1.7e9ecca1873bcp-15;
  odd = eti_fma_f64(odd, t, 0x1.7d1f124f1457dp-14);
  even = eti_fma_f64(even, t, -0x1.d58769442facbp-16);
  odd = eti_fma_f64(odd, t, 0x1.20cb739ff7cd7p-13);
  even = eti_fma_f64(even, t, 0x1.d11b7b2195331p-13);
  odd = eti_fma_f64(odd, t, 0x1.3818cb0adbe65p-11);
  even = eti_fma_f64(even, t, 0x1.7d5797cfe4206p-10);
  odd = eti_fma_f64(odd, t, 0x1.d6d987355abc6p-9);
  even = eti_fma_f64(even, t, 0x1.226e0fe9c0fffp-7);
  odd = eti_fma_f64(odd, t, 0x1.664f49bfe5574p-6);
  even = eti_fma_f64(even, t, 0x1.ba1ba1b3e6341p-5);
  odd = eti_fma_f64(odd, t, 0x1.1111111118ecp-3);
  even = eti_fma_f64(even, t, 0x1.55555555554e6p-2);
  const double p = eti_fma_f64(odd, z, even);
  const double more = eti_fma_f64(p * z, r, eti_fma_f64(low, z, low));
  const double y = r + more, y_low = more - (y - r), c = -1.0 / y;
  const double reciprocal = eti_fma_f64(c, eti_fma_f64(c, y_low, eti_fma_f64(c, y, 1.0)), c);
  return (quadrant & 1u) != 0 ? reciprocal : y;
}

// sin(r + low + quadrant · π/2).
ETI_INLINE double eti_sin_rotated_f64(double r, double low, uint64_t quadrant) {
  const double y = (quadrant & 1u) != 0 ? eti_cos_reduced_f64(r, low) : eti_sin_reduced_f64(r, low);
  return eti_f64_from_bits(eti_f64_bits(y) ^ (quadrant & 2u) << 62);
}

ETI_INLINE double eti_sin_f64(double x) {
  uint64_t quadrant;
  double low;
  const double r = eti_angle_f64(x, &quadrant, &low);
  return x == 0.0 ? x : eti_sin_rotated_f64(r, low, quadrant);
}
ETI_INLINE double eti_cos_f64(double x) {
  uint64_t quadrant;
  double low;
  const double r = eti_angle_f64(x, &quadrant, &low);
  return eti_sin_rotated_f64(r, low, quadrant + 1u);
}
ETI_INLINE double eti_tan_f64(double x) {
  uint64_t quadrant;
  double low;
  const double r = eti_angle_f64(x, &quadrant, &low);
  return fabs(x) < 0x1p-28 ? x : eti_tan_rotated_f64(r, low, quadrant);
}

// Remainder and quadrant of an angle of at least 2^20: 192 bits of 2/π are multiplied, from the
// first that matters modulo four quadrants on. Branchy and rare, kept out of loops.
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
  return eti_sin_rotated_f64(r, low, quadrant);
}
static inline double eti_cos_large_f64(double x) {
  uint64_t quadrant;
  double low;
  const double r = eti_reduce_large_f64(x, &quadrant, &low);
  return eti_sin_rotated_f64(r, low, quadrant + 1u);
}
static inline double eti_tan_large_f64(double x) {
  uint64_t quadrant;
  double low;
  const double r = eti_reduce_large_f64(x, &quadrant, &low);
  return eti_tan_rotated_f64(r, low, quadrant);
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

#endif  // ET_MATH_ANGLE_F64_H
