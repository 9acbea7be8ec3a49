// sampler_math.h — exponential, logarithm and random numbers of a sampler, with the same bits on
// every machine: only +, -, ×, ÷ and shifts, in one order, and no fused products (the build has
// -ffp-contract=off).
#ifndef ET_LLM_SAMPLER_MATH_H
#define ET_LLM_SAMPLER_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t eti_bits_of_f32(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline float eti_f32_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// e^-y for y ≥ 0, infinity included, in two steps, which long loops take one after the other: each
// has a short chain of operations. 0 from 87.7 on, where the result is below the smallest normal
// number. Error: 1 unit in the last place; none for 0.

// n and r of -y = n·ln2 - r, |r| ≤ ln2 / 2; n + 0x1.8p23 is returned in *shifted.
static inline float eti_weight_reduce(float y, float *shifted) {
  const float x = y < 88.0f ? y : 88.0f;
  *shifted = 0x1.8p23f - x * 0x1.715476p+0f;
  const float n = *shifted - 0x1.8p23f;
  // ln 2 in two parts; the product with the first, of 9 bits, is exact.
  return (x + n * 0x1.63p-1f) - n * 0x1.bd0106p-13f;
}

// 2^n · e^-r; 2^n is 0 for n = -127, to which 88 is rounded.
static inline float eti_weight_raise(float r, float shifted) {
  const float square = r * r;
  // Minimax for |r| ≤ ln2 / 2, relative error 3e-9.
  const float low = 0x1.fffffcp-2f - 0x1.555492p-3f * r;
  const float high = 0x1.5558f2p-5f - 0x1.1239f2p-7f * r;
  const float p = low + square * (high + square * 0x1.6a241ap-10f);
  return ((p * square - r) + 1.0f) * eti_f32_of_bits((eti_bits_of_f32(shifted) + 127u) << 23);
}

static inline float eti_weight(float y) {
  float shifted;
  const float r = eti_weight_reduce(y, &shifted);
  return eti_weight_raise(r, shifted);
}

// Natural logarithm of a normal number above 0. Error: about 1e-12.
static inline double eti_log_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  // The exponent for a mantissa in [sqrt(1/2), sqrt(2)).
  const uint64_t offset = bits + (0x3FF0000000000000u - 0x3FE6A09E667F3BCDu);
  const double e = (double)(int32_t)(offset >> 52) - 1023.0;
  const uint64_t mantissa = (offset & 0x000FFFFFFFFFFFFFu) + 0x3FE6A09E667F3BCDu;
  double m;
  memcpy(&m, &mantissa, sizeof m);
  const double s = (m - 1.0) / (m + 1.0), t = s * s;
  double p = 1.0 / 13.0;  // atanh series: |s| ≤ 0.172, the first term left out is 1e-12
  p = p * t + 1.0 / 11.0;
  p = p * t + 1.0 / 9.0;
  p = p * t + 1.0 / 7.0;
  p = p * t + 1.0 / 5.0;
  p = p * t + 1.0 / 3.0;
  return e * 0x1.62e42fefa39efp-1 + (p * t * (2.0 * s) + 2.0 * s);
}

// Random number of a position: a multiple of 2^-53 in [0, 1), from block (position, 0) of
// Philox4x32-10 with the seed as key (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011).
static inline double eti_uniform(uint64_t seed, uint64_t position) {
  uint32_t c[4] = {(uint32_t)position, (uint32_t)(position >> 32), 0, 0};
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < 10; round++) {
    const uint64_t p0 = (uint64_t)c[0] * 0xD2511F53u, p1 = (uint64_t)c[2] * 0xCD9E8D57u;
    c[0] = (uint32_t)(p1 >> 32) ^ c[1] ^ k0;
    c[1] = (uint32_t)p1;
    c[2] = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
    c[3] = (uint32_t)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return (double)(int64_t)(((uint64_t)c[1] << 32 | c[0]) >> 11) * 0x1p-53;
}

#endif  // ET_LLM_SAMPLER_MATH_H
