// gemm_neon.c — the micro-kernel with 128-bit vectors: 6 rows × 4 vectors use 24 of the 32
// registers for accumulators, the rest for elements of A and vectors of B. NEON has no 64-bit
// multiplication, so i64 uses the plain C file. For AArch64, which always has NEON (the plain C of
// the norm, pool and elementwise loops is vectorised with it).
#include "kernels/micro/gemm/gemm.h"

#include <arm_neon.h>

#include "kernels/contract.h"

// Partial vectors: the first n elements, the others 0. An element at a time, since gcc 12 calls
// memcpy for a copy of n elements, in each turn of a loop.
static inline float32x4_t load_f32(const float *p, size_t n) {
  if (n == 1) return vsetq_lane_f32(p[0], vdupq_n_f32(0.0f), 0);
  const float32x4_t two = vcombine_f32(vld1_f32(p), vdup_n_f32(0.0f));
  return n == 2 ? two : vld1q_lane_f32(p + 2, two, 2);
}
static inline void store_f32(float *p, float32x4_t v, size_t n) {
  vst1q_lane_f32(p, v, 0);
  if (n > 1) vst1q_lane_f32(p + 1, v, 1);
  if (n > 2) vst1q_lane_f32(p + 2, v, 2);
}
static inline float64x2_t load_f64(const double *p, size_t n) {
  (void)n;
  return vcombine_f64(vld1_f64(p), vdup_n_f64(0.0));
}
static inline void store_f64(double *p, float64x2_t v, size_t n) {
  (void)n;
  vst1_f64(p, vget_low_f64(v));
}
static inline uint32x4_t load_u32(const uint32_t *p, size_t n) {
  if (n == 1) return vsetq_lane_u32(p[0], vdupq_n_u32(0), 0);
  const uint32x4_t two = vcombine_u32(vld1_u32(p), vdup_n_u32(0));
  return n == 2 ? two : vld1q_lane_u32(p + 2, two, 2);
}
static inline void store_u32(uint32_t *p, uint32x4_t v, size_t n) {
  vst1q_lane_u32(p, v, 0);
  if (n > 1) vst1q_lane_u32(p + 1, v, 1);
  if (n > 2) vst1q_lane_u32(p + 2, v, 2);
}

// Adds the products of a vector and an element, rounded once. The asm lets gcc 12 keep sums in
// registers: it takes the intrinsics for functions that read memory, and stores all sums before.
static inline float32x4_t fma_f32(float a, float32x4_t b, float32x4_t c) {
  __asm__("fmla %0.4s, %1.4s, %2.s[0]" : "+w"(c) : "w"(b), "w"(a));
  return c;
}
static inline float64x2_t fma_f64(double a, float64x2_t b, float64x2_t c) {
  __asm__("fmla %0.2d, %1.2d, %2.d[0]" : "+w"(c) : "w"(b), "w"(a));
  return c;
}

// Computes eti_clamp of four elements.
static inline float32x4_t limit(float32x4_t v, float32x4_t low, float32x4_t high,
                                float32x4_t plus) {
  const float32x4_t risen = vbslq_f32(vcltq_f32(v, low), low, v);
  return vaddq_f32(vbslq_f32(vcgtq_f32(risen, high), high, risen), plus);
}

#define T float
#define SUFFIX f32__neon
#define VEC float32x4_t
#define LANES 4
#define MR 6
#define ROWS_MR 6
#define NV 4
#define V_SET1(x) vdupq_n_f32(x)
#define V_LOAD(p) vld1q_f32(p)
#define V_STORE(p, v) vst1q_f32(p, v)
#define FACTOR float
#define V_FACTOR(x) (x)
#define BY_VECTORS
#define V_FMA(a, b, c) fma_f32(a, b, c)
#define V_ADD(a, b) vaddq_f32(a, b)
#define V_LIMIT(v, low, high, plus) limit(v, low, high, plus)
#define V_LOAD_N(p, n) load_f32(p, n)
#define V_STORE_N(p, v, n) store_f32(p, v, n)
#include "kernels/micro/gemm/gemm_tile.body.h"

#define T double
#define SUFFIX f64__neon
#define VEC float64x2_t
#define LANES 2
#define MR 6
#define ROWS_MR 6
#define NV 4
#define V_SET1(x) vdupq_n_f64(x)
#define V_LOAD(p) vld1q_f64(p)
#define V_STORE(p, v) vst1q_f64(p, v)
#define FACTOR double
#define V_FACTOR(x) (x)
#define BY_VECTORS
#define V_FMA(a, b, c) fma_f64(a, b, c)
#define V_ADD(a, b) vaddq_f64(a, b)
#define V_LOAD_N(p, n) load_f64(p, n)
#define V_STORE_N(p, v, n) store_f64(p, v, n)
#define IN_PIECES
#include "kernels/micro/gemm/gemm_tile.body.h"

#define T uint32_t
#define SUFFIX i32__neon
#define VEC uint32x4_t
#define LANES 4
#define MR 6
#define ROWS_MR 6
#define NV 4
#define V_SET1(x) vdupq_n_u32(x)
#define V_LOAD(p) vld1q_u32(p)
#define V_STORE(p, v) vst1q_u32(p, v)
#define V_FMA(a, b, c) vmlaq_u32(c, a, b)
#define V_ADD(a, b) vaddq_u32(a, b)
#define V_LOAD_N(p, n) load_u32(p, n)
#define V_STORE_N(p, v, n) store_u32(p, v, n)
#define IN_PIECES
#include "kernels/micro/gemm/gemm_tile.body.h"

const eti_gemm_kernel eti_gemm_neon[ETI_ACC_COUNT] = {
    [ETI_ACC_F32] = {ET_F32, 4, 6, 16, 6, ETI_GEMM_BUILT(F32, tile_f32__neon),
                     ETI_GEMM_BUILT(F32, tile_rows_f32__neon),
                     ETI_GEMM_BUILT(F32, walk_rows_f32__neon),
                     ETI_GEMM_BUILT(F32, pack_rows_f32__neon),
                     ETI_GEMM_BUILT(F32, tile_row_f32__neon), ETI_GEMM_BUILT(F32, limit_f32__neon)},
    [ETI_ACC_F64] = {ET_F64, 8, 6, 8, 6, ETI_GEMM_BUILT(F64, tile_f64__neon),
                     ETI_GEMM_BUILT(F64, tile_rows_f64__neon),
                     ETI_GEMM_BUILT(F64, walk_rows_f64__neon),
                     ETI_GEMM_BUILT(F64, pack_rows_f64__neon),
                     ETI_GEMM_BUILT(F64, tile_row_f64__neon), NULL},
    [ETI_ACC_I32] = {ET_I32, 4, 6, 16, 6, ETI_GEMM_BUILT(I32, tile_i32__neon),
                     ETI_GEMM_BUILT(I32, tile_rows_i32__neon),
                     ETI_GEMM_BUILT(I32, walk_rows_i32__neon),
                     ETI_GEMM_BUILT(I32, pack_rows_i32__neon),
                     ETI_GEMM_BUILT(I32, tile_row_i32__neon)},
};
