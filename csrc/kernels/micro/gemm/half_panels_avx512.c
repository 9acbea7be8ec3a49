// half_panels_avx512.c — the tile of half_panels.h with AVX-512 F: at most 16 sums, four factors
// and a converted vector of the 32 registers. Compiled with AVX-512 F, BW, DQ, VL.
#include <immintrin.h>

#define SUFFIX avx512
#define VEC __m512
#define LANES 16
#define V_SET1(x) _mm512_set1_ps(x)
#define V_LOAD(p) _mm512_loadu_ps(p)
#define V_STORE(p, v) _mm512_storeu_ps(p, v)
#define V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define V_LOAD_HALF(p) _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(p)))
#define PANELS_1 8
#define PANELS_2 4
#define PANELS_3 4
#define PANELS_4 4
#include "kernels/micro/gemm/half_panels.body.h"
