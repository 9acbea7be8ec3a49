// winograd_avx2.c — the transforms of winograd.h with 256-bit vectors. Compiled with AVX2 and FMA.
#include "kernels/micro/conv/winograd.h"

#include <immintrin.h>

static inline __m256i lanes8(size_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

#define SUFFIX f32__avx2
#define VEC __m256
#define LANES 8
#define V_SET1(x) _mm256_set1_ps(x)
#define V_LOAD(p) _mm256_loadu_ps(p)
#define V_STORE(p, v) _mm256_storeu_ps(p, v)
#define V_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define V_ADD(a, b) _mm256_add_ps(a, b)
#define V_SUB(a, b) _mm256_sub_ps(a, b)
#define V_MUL(a, b) _mm256_mul_ps(a, b)
#define V_LIMIT(v, low, high, plus) _mm256_add_ps(_mm256_min_ps(high, _mm256_max_ps(low, v)), plus)
#define V_LOAD_N(p, n) _mm256_maskload_ps(p, lanes8(n))
#define V_STORE_N(p, v, n) _mm256_maskstore_ps(p, lanes8(n), v)
#include "kernels/micro/conv/winograd.body.h"

const eti_winograd_micro eti_winograd_avx2 = {
    {input_2_f32__avx2, input_4_f32__avx2, input_6_f32__avx2},
    {output_2_f32__avx2, output_4_f32__avx2, output_6_f32__avx2},
};
