// philox_scalar.c — the loops of philox.h for any machine: the specification and the fallback.
#include "kernels/micro/random/philox.h"

typedef uint64_t lanes __attribute__((vector_size(16)));

static inline lanes multiply(lanes a, uint64_t m) {
  return a * m;
}

#define ETI_PHILOX_TABLE eti_philox_scalar
#include "kernels/micro/random/philox.body.h"
