// quads.h — four f32 numbers at a time, in the vectors of gcc and clang, which exist on every
// machine: compilers do not make vectors of maxima and masked sums by themselves.
#ifndef ET_LLM_QUADS_H
#define ET_LLM_QUADS_H

#include <stdint.h>
#include <string.h>

typedef float eti_quad __attribute__((vector_size(16)));
typedef int32_t eti_quad_mask __attribute__((vector_size(16)));

static inline eti_quad eti_quad_load(const float *p) {
  eti_quad quad;
  memcpy(&quad, p, sizeof quad);
  return quad;
}

static inline void eti_quad_store(float *p, eti_quad quad) {
  memcpy(p, &quad, sizeof quad);
}

static inline eti_quad eti_quad_all(float x) {
  return (eti_quad){x, x, x, x};
}

static inline eti_quad eti_quad_masked(eti_quad_mask mask, eti_quad a) {
  return (eti_quad)((eti_quad_mask)a & mask);
}

// mask ? a : b
static inline eti_quad eti_quad_pick(eti_quad_mask mask, eti_quad a, eti_quad b) {
  return (eti_quad)(((eti_quad_mask)a & mask) | ((eti_quad_mask)b & ~mask));
}

static inline int eti_quad_any(eti_quad_mask mask) {
  uint64_t halves[2];
  memcpy(halves, &mask, sizeof halves);
  return (halves[0] | halves[1]) != 0;
}

// Sum of 16 numbers: those of equal places in the quads first.
static inline float eti_quad_sum(const eti_quad sums[4]) {
  const eti_quad sum = (sums[0] + sums[2]) + (sums[1] + sums[3]);
  return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

#endif  // ET_LLM_QUADS_H
