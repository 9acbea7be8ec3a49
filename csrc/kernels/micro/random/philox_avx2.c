// philox_avx2.c — the loops of philox.h with AVX2.
#include "kernels/micro/random/philox.h"

#include <immintrin.h>

typedef uint64_t lanes __attribute__((vector_size(32)));

static inline lanes multiply(lanes a, uint64_t m) {
  return (lanes)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x((long long)m));
}

#define ETI_PHILOX_TABLE eti_philox_avx2
#include "kernels/micro/random/philox.body.h"
