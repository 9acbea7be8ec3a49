// half.h — conversion between f32 and the two half types, as integer arithmetic that compilers
// vectorise. Rounds to nearest, ties to even; overflow gives infinity; NaN stays NaN (f16 keeps its
// upper payload, bf16 becomes 0x7FC0 as torch's does). Relies on nothing; denormals of all types
// are exact.
#ifndef ET_HALF_H
#define ET_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t eti_f32_bits(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

static inline float eti_f32_from_bits(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

static inline float eti_f16_to_f32(uint16_t h) {
  const uint32_t magnitude = h & 0x7FFFu;
  // The shifted exponent is 112 too small; one exact multiplication corrects it, also for
  // denormals.
  const uint32_t finite = eti_f32_bits(eti_f32_from_bits(magnitude << 13) * 0x1p112f);
  const uint32_t special = magnitude << 13 | 0x7F800000u | (magnitude > 0x7C00u ? 0x00400000u : 0u);
  return eti_f32_from_bits((magnitude >= 0x7C00u ? special : finite) | (uint32_t)(h & 0x8000u)
                                                                           << 16);
}

static inline uint16_t eti_f32_to_f16(float x) {
  const uint32_t bits = eti_f32_bits(x), a = bits & 0x7FFFFFFFu;
  // Below 2^-14 the unit in the last place is 2^-24, as for 0.5: the addition rounds.
  const uint32_t tiny = eti_f32_bits(eti_f32_from_bits(a) + 0.5f) - 0x3F000000u;
  const uint32_t normal = ((a + 0xFFFu + (a >> 13 & 1u)) >> 13) - (112u << 10);
  const uint32_t nan = 0x7E00u | (a >> 13 & 0x3FFu);
  uint32_t h = a < 0x38800000u ? tiny : normal;
  h = a >= 0x47800000u ? 0x7C00u : h;
  h = a > 0x7F800000u ? nan : h;
  return (uint16_t)(h | (bits >> 16 & 0x8000u));
}

static inline float eti_bf16_to_f32(uint16_t b) {
  return eti_f32_from_bits((uint32_t)b << 16);
}

static inline uint16_t eti_f32_to_bf16(float x) {
  const uint32_t bits = eti_f32_bits(x);
  const uint32_t rounded = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
  return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FC0u : rounded);
}

#endif  // ET_HALF_H
