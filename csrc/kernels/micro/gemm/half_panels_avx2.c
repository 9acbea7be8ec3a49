// half_panels_avx2.c — the tile of half_panels.h with AVX2, FMA and F16C: at most eight sums, four
// factors and a converted vector of the 16 registers.
#include <immintrin.h>

#define SUFFIX avx2
#define VEC __m256
#define LANES 8
#define V_SET1(x) _mm256_set1_ps(x)
#define V_LOAD(p) _mm256_loadu_ps(p)
#define V_STORE(p, v) _mm256_storeu_ps(p, v)
#define V_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define V_LOAD_HALF(p) _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p)))
#define PANELS_1 4
#define PANELS_2 2
#define PANELS_3 1
#define PANELS_4 1
#include "kernels/micro/gemm/half_panels.body.h"
