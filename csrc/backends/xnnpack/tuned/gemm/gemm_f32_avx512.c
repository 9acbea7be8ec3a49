// gemm_f32_avx512.c — f32 gemm and igemm for XNNPACK's operators on 512-bit vectors, with tiles of
// 8 rows and 32 columns: gemm_kernels.h says when they are used. Compiled with AVX-512 F, BW, DQ,
// VL.
#include "backends/xnnpack/tuned/gemm/gemm_kernels.h"

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "runtime/bytes.h"
#include "runtime/check.h"

static __mmask16 first_lanes(size_t n) {
  return n >= 16 ? (__mmask16)0xffff : (__mmask16)((1u << n) - 1u);
}

#define KERNEL(name) eti_xnn_f32_##name##_8x32__avx512
#define KERNEL_1_ROW(name) eti_xnn_f32_##name##_1x32__avx512
#define PREFETCHES_PANELS
#define VEC __m512
#define LANES 16
#define ROWS 8
#define HEIGHTS(X, ...) \
  X(1, __VA_ARGS__)     \
  X(2, __VA_ARGS__)     \
  X(3, __VA_ARGS__) X(4, __VA_ARGS__) X(5, __VA_ARGS__) X(6, __VA_ARGS__) X(7, __VA_ARGS__)
#define V_LOAD(p) _mm512_loadu_ps(p)
#define V_STORE(p, v) _mm512_storeu_ps(p, v)
#define V_ZERO() _mm512_setzero_ps()
#define V_SET1(x) _mm512_set1_ps(x)
#define V_BROADCAST(p) _mm512_set1_ps(*(p))
#define V_ADD(a, b) _mm512_add_ps(a, b)
#define V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define V_MIN(a, b) _mm512_min_ps(a, b)
#define V_MAX(a, b) _mm512_max_ps(a, b)
#define V_LOAD_SOME(p, n) _mm512_maskz_loadu_ps(first_lanes(n), p)
#define V_STORE_SOME(p, v, n) _mm512_mask_storeu_ps(p, first_lanes(n), v)
#include "backends/xnnpack/tuned/gemm/gemm_f32.body.h"
