// conv_avx2.c — the loops of conv.h with 256-bit vectors. Compiled with AVX2 and FMA.
#include "kernels/micro/conv.h"

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
#define V_LOAD_N(p, n) _mm256_maskload_ps(p, lanes8(n))
#define V_STORE_N(p, v, n) _mm256_maskstore_ps(p, lanes8(n), v)
#include "kernels/micro/conv_rows.body.h"

const eti_conv_micro eti_conv_avx2 = {copy_rows_f32__avx2, row_f32__avx2, pixels_f32__avx2};
