// gemm_f32_avx2.c — f32 gemm and igemm for XNNPACK's operators on 256-bit vectors, with tiles of 6
// rows and 16 columns: gemm_kernels.h says when they are used. Compiled with AVX2 and FMA.
#include "backends/xnnpack/tuned/gemm/gemm_kernels.h"

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "backends/xnnpack/tuned/partial_vector_avx2.h"
#include "runtime/bytes.h"
#include "runtime/check.h"

#define KERNEL(name) eti_xnn_f32_##name##_6x16__avx2
#define KERNEL_1_ROW(name) eti_xnn_f32_##name##_1x16__avx2
#define VEC __m256
#define LANES 8
#define ROWS 6
#define HEIGHTS(X, ...) \
  X(1, __VA_ARGS__) X(2, __VA_ARGS__) X(3, __VA_ARGS__) X(4, __VA_ARGS__) X(5, __VA_ARGS__)
#define V_LOAD(p) _mm256_load_ps(p)
#define V_STORE(p, v) _mm256_storeu_ps(p, v)
#define V_ZERO() _mm256_setzero_ps()
#define V_SET1(x) _mm256_set1_ps(x)
#define V_BROADCAST(p) _mm256_broadcast_ss(p)
#define V_ADD(a, b) _mm256_add_ps(a, b)
#define V_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define V_MIN(a, b) _mm256_min_ps(a, b)
#define V_MAX(a, b) _mm256_max_ps(a, b)
#define V_LOAD_SOME(p, n) eti_load_some(p, n)
#define V_STORE_SOME(p, v, n) eti_store_some(p, v, n)
#include "backends/xnnpack/tuned/gemm/gemm_f32.body.h"
