// qgemm_vectors_neon.h — what the files of qgemm_neon.body.h start with: vectors of 128 bits, and
// the sizes of a panel in them.
#ifndef ET_MICRO_QGEMM_VECTORS_NEON_H
#define ET_MICRO_QGEMM_VECTORS_NEON_H

#include <arm_neon.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/micro/qgemm/qgemm.h"

#define INLINE static inline __attribute__((always_inline))
// Unrolls loops over registers.
#define UNROLL _Pragma("GCC unroll 16")

enum {
  NR = ETI_QGEMM_NR,
  QUAD = ETI_QGEMM_QUAD,
  QUAD_BYTES = NR * QUAD,  // of a panel
  LANES = 4,               // of a vector of sums
  BYTES = 16,              // of a vector
  NV = NR / LANES,         // vectors of a panel
};

// The same four bytes in each lane.
INLINE int8x16_t four_bytes(const int8_t *p) {
  int32_t word;
  memcpy(&word, p, sizeof word);
  return vreinterpretq_s8_s32(vdupq_n_s32(word));
}

#endif  // ET_MICRO_QGEMM_VECTORS_NEON_H
