// winograd_avx512.c — the transforms of winograd.h with 512-bit vectors. Compiled with AVX-512 F,
// BW, DQ, VL.
#include "kernels/micro/conv/winograd.h"

#include <immintrin.h>

static inline __mmask16 lanes16(size_t n) {
  return (__mmask16)((1u << n) - 1u);
}

#define SUFFIX f32__avx512
#define VEC __m512
#define LANES 16
#define V_SET1(x) _mm512_set1_ps(x)
#define V_LOAD(p) _mm512_loadu_ps(p)
#define V_STORE(p, v) _mm512_storeu_ps(p, v)
#define V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define V_ADD(a, b) _mm512_add_ps(a, b)
#define V_SUB(a, b) _mm512_sub_ps(a, b)
#define V_MUL(a, b) _mm512_mul_ps(a, b)
#define V_LIMIT(v, low, high, plus) _mm512_add_ps(_mm512_min_ps(high, _mm512_max_ps(low, v)), plus)
#define V_LOAD_N(p, n) _mm512_maskz_loadu_ps(lanes16(n), p)
#define V_STORE_N(p, v, n) _mm512_mask_storeu_ps(p, lanes16(n), v)
#include "kernels/micro/conv/winograd.body.h"

const eti_winograd_micro eti_winograd_avx512 = {
    {input_2_f32__avx512, input_4_f32__avx512, input_6_f32__avx512},
    {output_2_f32__avx512, output_4_f32__avx512, output_6_f32__avx512},
};
