// philox_avx512.c — the loops of philox.h with AVX-512.
#include "kernels/micro/random/philox.h"

#include <immintrin.h>

typedef uint64_t lanes __attribute__((vector_size(64)));

static inline lanes multiply(lanes a, uint64_t m) {
  return (lanes)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64((long long)m));
}

#define ETI_PHILOX_TABLE eti_philox_avx512
#include "kernels/micro/random/philox.body.h"
