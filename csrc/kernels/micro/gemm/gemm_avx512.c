// gemm_avx512.c — the micro-kernel with 512-bit vectors: 14 rows × 2 vectors use 28 of the 32
// registers for accumulators, two for the row of B and one for the broadcast of A. 28 FMAs per k
// need 16 loads, so two FMA units, not the load ports, are the limit. Integers use the AVX2 file.
// Compiled with AVX-512 F, BW, DQ, VL.
#include "kernels/micro/gemm/gemm.h"

#include <immintrin.h>

#include "kernels/contract.h"

static inline __mmask16 lanes16(size_t n) {
  return (__mmask16)((1u << n) - 1u);
}
static inline __mmask8 lanes8(size_t n) {
  return (__mmask8)((1u << n) - 1u);
}

// Transposes a 16 × 16 block: r[i] becomes column i. Pairs, then fours, then 128-bit lanes are
// exchanged.
static inline __attribute__((always_inline)) void transpose16(__m512 r[16]) {
  __m512 t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    const __m512d a = _mm512_castps_pd(t[i]), b = _mm512_castps_pd(t[i + 2]);
    const __m512d c = _mm512_castps_pd(t[i + 1]), d = _mm512_castps_pd(t[i + 3]);
    r[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
    r[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    r[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(c, d));
    r[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(c, d));
  }
  for (int i = 0; i < 4; i++) {
    t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; i++) {
    r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
    r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
    r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

// Packs up to 16 rows at a time, 16 values of k at a time.
static void pack_rows_f32__avx512(void *dst, size_t width, const void *src, size_t row_step,
                                  size_t n, size_t n_k) {
  ET_ASSERT(n <= width && ETI_HOLDS(dst, width * n_k, float) && ETI_HOLDS(src, n * n_k, float));
  float *const to = dst;
  const float *const from = src;
  for (size_t i0 = 0; i0 < width; i0 += 16) {
    const size_t rows = i0 >= n ? 0 : n - i0 < 16 ? n - i0 : 16;
    const __mmask16 out = width - i0 < 16 ? lanes16(width - i0) : (__mmask16)0xffff;
    for (size_t k0 = 0; k0 < n_k; k0 += 16) {
      const size_t n_cols = n_k - k0 < 16 ? n_k - k0 : 16;
      const __mmask16 in = n_cols < 16 ? lanes16(n_cols) : (__mmask16)0xffff;
      __m512 r[16];
      for (size_t i = 0; i < 16; i++) {
        r[i] = i < rows ? _mm512_maskz_loadu_ps(in, from + (i0 + i) * row_step + k0)
                        : _mm512_setzero_ps();
      }
      transpose16(r);
      for (size_t k = 0; k < 16; k++) {
        if (k < n_cols) _mm512_mask_storeu_ps(to + (k0 + k) * width + i0, out, r[k]);
      }
    }
  }
}

#define T float
#define SUFFIX f32__avx512
#define VEC __m512
#define LANES 16
#define MR 14
#define ROWS_MR 8
#define NV 2
#define V_SET1(x) _mm512_set1_ps(x)
#define V_LOAD(p) _mm512_loadu_ps(p)
#define V_STORE(p, v) _mm512_storeu_ps(p, v)
#define V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define V_ADD(a, b) _mm512_add_ps(a, b)
#define V_LIMIT(v, low, high, plus) _mm512_add_ps(_mm512_min_ps(high, _mm512_max_ps(low, v)), plus)
#define V_LOAD_N(p, n) _mm512_maskz_loadu_ps(lanes16(n), p)
#define V_STORE_N(p, v, n) _mm512_mask_storeu_ps(p, lanes16(n), v)
#define B_GAPS
#define B_NEAR 1024
#define PACK_ROWS
#include "kernels/micro/gemm/gemm_tile.body.h"

#define T double
#define SUFFIX f64__avx512
#define VEC __m512d
#define LANES 8
#define MR 14
#define ROWS_MR 8
#define NV 2
#define V_SET1(x) _mm512_set1_pd(x)
#define V_LOAD(p) _mm512_loadu_pd(p)
#define V_STORE(p, v) _mm512_storeu_pd(p, v)
#define V_FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#define V_ADD(a, b) _mm512_add_pd(a, b)
#define V_LOAD_N(p, n) _mm512_maskz_loadu_pd(lanes8(n), p)
#define V_STORE_N(p, v, n) _mm512_mask_storeu_pd(p, lanes8(n), v)
#define IN_PIECES
#include "kernels/micro/gemm/gemm_tile.body.h"

const eti_gemm_kernel eti_gemm_avx512[ETI_ACC_COUNT] = {
    [ETI_ACC_F32] = {ET_F32, 4, 14, 32, 8, ETI_GEMM_BUILT(F32, tile_f32__avx512),
                     ETI_GEMM_BUILT(F32, tile_rows_f32__avx512),
                     ETI_GEMM_BUILT(F32, walk_rows_f32__avx512),
                     ETI_GEMM_BUILT(F32, pack_rows_f32__avx512),
                     ETI_GEMM_BUILT(F32, tile_row_f32__avx512),
                     ETI_GEMM_BUILT(F32, limit_f32__avx512)},
    [ETI_ACC_F64] = {ET_F64, 8, 14, 16, 8, ETI_GEMM_BUILT(F64, tile_f64__avx512),
                     ETI_GEMM_BUILT(F64, tile_rows_f64__avx512),
                     ETI_GEMM_BUILT(F64, walk_rows_f64__avx512),
                     ETI_GEMM_BUILT(F64, pack_rows_f64__avx512),
                     ETI_GEMM_BUILT(F64, tile_row_f64__avx512), NULL},
};
