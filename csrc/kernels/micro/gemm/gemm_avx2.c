// gemm_avx2.c — the micro-kernel with 256-bit vectors: 6 rows × 2 vectors use 12 of the 16
// registers for accumulators, two for the row of B and one for the broadcast of A. Compiled with
// AVX2 and FMA.
#include "kernels/micro/gemm/gemm.h"

#include <immintrin.h>

#include "kernels/contract.h"

// Masks for partial vectors: the first n elements are on.
static inline __m256i lanes8(size_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline __m256i lanes4(size_t n) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x((long long)n), _mm256_setr_epi64x(0, 1, 2, 3));
}

// Computes the low 64 bits of products, for which AVX2 has no instruction.
static inline __m256i mullo64(__m256i a, __m256i b) {
  typedef uint64_t u64x4 __attribute__((vector_size(32)));
  return (__m256i)((u64x4)a * (u64x4)b);
}

#define T float
#define SUFFIX f32__avx2
#define VEC __m256
#define LANES 8
#define MR 6
#define ROWS_MR 6
#define NV 2
#define V_SET1(x) _mm256_set1_ps(x)
#define V_LOAD(p) _mm256_loadu_ps(p)
#define V_STORE(p, v) _mm256_storeu_ps(p, v)
#define V_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define V_ADD(a, b) _mm256_add_ps(a, b)
#define V_LIMIT(v, low, high, plus) _mm256_add_ps(_mm256_min_ps(high, _mm256_max_ps(low, v)), plus)
#define V_LOAD_N(p, n) _mm256_maskload_ps(p, lanes8(n))
#define V_STORE_N(p, v, n) _mm256_maskstore_ps(p, lanes8(n), v)
#include "kernels/micro/gemm/gemm_tile.body.h"

#define T double
#define SUFFIX f64__avx2
#define VEC __m256d
#define LANES 4
#define MR 6
#define ROWS_MR 6
#define NV 2
#define V_SET1(x) _mm256_set1_pd(x)
#define V_LOAD(p) _mm256_loadu_pd(p)
#define V_STORE(p, v) _mm256_storeu_pd(p, v)
#define V_FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#define V_ADD(a, b) _mm256_add_pd(a, b)
#define V_LOAD_N(p, n) _mm256_maskload_pd(p, lanes4(n))
#define V_STORE_N(p, v, n) _mm256_maskstore_pd(p, lanes4(n), v)
#define IN_PIECES
#include "kernels/micro/gemm/gemm_tile.body.h"

#define T uint32_t
#define SUFFIX i32__avx2
#define VEC __m256i
#define LANES 8
#define MR 6
#define ROWS_MR 6
#define NV 2
#define V_SET1(x) _mm256_set1_epi32((int)(x))
#define V_LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define V_STORE(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define V_FMA(a, b, c) _mm256_add_epi32(_mm256_mullo_epi32(a, b), c)
#define V_ADD(a, b) _mm256_add_epi32(a, b)
#define V_LOAD_N(p, n) _mm256_maskload_epi32((const int *)(p), lanes8(n))
#define V_STORE_N(p, v, n) _mm256_maskstore_epi32((int *)(p), lanes8(n), v)
#define IN_PIECES
#include "kernels/micro/gemm/gemm_tile.body.h"

#define T uint64_t
#define SUFFIX i64__avx2
#define VEC __m256i
#define LANES 4
#define MR 6
#define ROWS_MR 6
#define NV 2
#define V_SET1(x) _mm256_set1_epi64x((long long)(x))
#define V_LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define V_STORE(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define V_FMA(a, b, c) _mm256_add_epi64(mullo64(a, b), c)
#define V_ADD(a, b) _mm256_add_epi64(a, b)
#define V_LOAD_N(p, n) _mm256_maskload_epi64((const long long *)(const void *)(p), lanes4(n))
#define V_STORE_N(p, v, n) _mm256_maskstore_epi64((long long *)(void *)(p), lanes4(n), v)
#define IN_PIECES
#include "kernels/micro/gemm/gemm_tile.body.h"

const eti_gemm_kernel eti_gemm_avx2[ETI_ACC_COUNT] = {
    [ETI_ACC_F32] = {ET_F32, 4, 6, 16, 6, ETI_GEMM_BUILT(F32, tile_f32__avx2),
                     ETI_GEMM_BUILT(F32, tile_rows_f32__avx2),
                     ETI_GEMM_BUILT(F32, walk_rows_f32__avx2),
                     ETI_GEMM_BUILT(F32, pack_rows_f32__avx2),
                     ETI_GEMM_BUILT(F32, tile_row_f32__avx2), ETI_GEMM_BUILT(F32, limit_f32__avx2)},
    [ETI_ACC_F64] = {ET_F64, 8, 6, 8, 6, ETI_GEMM_BUILT(F64, tile_f64__avx2),
                     ETI_GEMM_BUILT(F64, tile_rows_f64__avx2),
                     ETI_GEMM_BUILT(F64, walk_rows_f64__avx2),
                     ETI_GEMM_BUILT(F64, pack_rows_f64__avx2),
                     ETI_GEMM_BUILT(F64, tile_row_f64__avx2), NULL},
    [ETI_ACC_I32] = {ET_I32, 4, 6, 16, 6, ETI_GEMM_BUILT(I32, tile_i32__avx2),
                     ETI_GEMM_BUILT(I32, tile_rows_i32__avx2),
                     ETI_GEMM_BUILT(I32, walk_rows_i32__avx2),
                     ETI_GEMM_BUILT(I32, pack_rows_i32__avx2),
                     ETI_GEMM_BUILT(I32, tile_row_i32__avx2), NULL},
    [ETI_ACC_I64] = {ET_I64, 8, 6, 8, 6, ETI_GEMM_BUILT(I64, tile_i64__avx2),
                     ETI_GEMM_BUILT(I64, tile_rows_i64__avx2),
                     ETI_GEMM_BUILT(I64, walk_rows_i64__avx2),
                     ETI_GEMM_BUILT(I64, pack_rows_i64__avx2),
                     ETI_GEMM_BUILT(I64, tile_row_i64__avx2), NULL},
};
