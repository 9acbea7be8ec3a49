// row_distance.body.h — the source of every variant of row_distance.h; the including file names its
// table, ETI_ROW_DISTANCE_TABLE.
#include "kernels/micro/rows/row_distance.h"

#include "kernels/contract.h"
#include "kernels/loops/loop.h"
#include "kernels/micro/math/math_f32.h"

#include <stdint.h>
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__) && defined(__ARM_NEON)
#include <arm_neon.h>
#endif

typedef double wide __attribute__((vector_size(64), aligned(8), may_alias));
typedef int64_t wide_mask __attribute__((vector_size(64), aligned(8), may_alias));
// Vectors of the instruction set's own size.
#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64 };
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32 };
#else
enum { VECTOR_BYTES = 16 };
#endif
typedef float floats __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
typedef double doubles __attribute__((vector_size(VECTOR_BYTES), aligned(8), may_alias));
enum { HALF = ETI_TILE / 2 };  // half the rows of a tile: the f64 elements of a vector

// Sums stay in registers; d is the difference, or its absolute value if the kind needs that.
#define SUM(step)                                                       \
  for (size_t k = 0; k < n; k++) {                                      \
    wide d = x[k] - *(const wide *)(const void *)(tile + k * ETI_TILE); \
    step;                                                               \
  }
#define SIZE(d) ((wide)((wide_mask)(d) & INT64_MAX))

static void add_half(double *acc, const double *x, const double *tile, size_t n,
                     eti_norm_kind kind) {
  wide a = *(const wide *)(const void *)acc;
  switch (kind) {
    case ETI_NORM_ZERO: {
      const wide ones = {1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0};
      SUM(a += (wide)(((wide_mask)ones & (wide_mask)(d != 0.0) & (wide_mask)(d == d)) |
                      ((wide_mask)d & (wide_mask)(d != d))))
      break;
    }
    case ETI_NORM_ONE:
      SUM(a += SIZE(d))
      break;
    default:
      SUM(d = SIZE(d); const wide_mask takes = (wide_mask)(d > a) | (wide_mask)(d != d);
          a = (wide)(((wide_mask)d & takes) | ((wide_mask)a & ~takes)))
      break;
  }
  *(wide *)(void *)acc = a;
}
#undef SUM
#undef SIZE

static void add(double acc[ETI_TILE], const double *x, const double *tile, size_t n,
                eti_norm_kind kind) {
  ET_ASSERT(kind == ETI_NORM_ZERO || kind == ETI_NORM_ONE || kind == ETI_NORM_INFINITE);
  ET_ASSERT(ETI_HOLDS(acc, 1, double) && ETI_HOLDS(x, n, double) && ETI_HOLDS(tile, n, double));
  add_half(acc, x, tile, n, kind);
  add_half(acc + HALF, x, tile + HALF, n, kind);
}

#if defined(__AVX512F__)
#define ROWS_VECTOR floats
#define DISTANCE_FMA(d, s) _mm512_fmadd_ps((__m512)(d), (__m512)(d), (__m512)(s))
#elif defined(__AVX2__) && defined(__FMA__)
#define ROWS_VECTOR floats
#define DISTANCE_FMA(d, s) _mm256_fmadd_ps((__m256)(d), (__m256)(d), (__m256)(s))
#elif defined(__aarch64__) && defined(__ARM_NEON)
#define ROWS_VECTOR floats
#define DISTANCE_FMA(d, s) vfmaq_f32((float32x4_t)(s), (float32x4_t)(d), (float32x4_t)(d))
#endif
#define T float
#define SUFFIX f32
#include "kernels/micro/rows/row_distance_squares.inc.h"

#if defined(__AVX512F__)
#define ROWS_VECTOR doubles
#define DISTANCE_FMA(d, s) _mm512_fmadd_pd((__m512d)(d), (__m512d)(d), (__m512d)(s))
#elif defined(__AVX2__) && defined(__FMA__)
#define ROWS_VECTOR doubles
#define DISTANCE_FMA(d, s) _mm256_fmadd_pd((__m256d)(d), (__m256d)(d), (__m256d)(s))
#elif defined(__aarch64__) && defined(__ARM_NEON)
#define ROWS_VECTOR doubles
#define DISTANCE_FMA(d, s) vfmaq_f64((float64x2_t)(s), (float64x2_t)(d), (float64x2_t)(d))
#endif
#define T double
#define SUFFIX f64
#include "kernels/micro/rows/row_distance_squares.inc.h"

static void roots(float *out, ptrdiff_t step, const float sums[][ETI_TILE], size_t n) {
  ET_ASSERT(ETI_HOLDS(out, n, float) && ETI_HOLDS(sums, n, float));
  for (size_t i = 0; i < n; i++, out += step) {
    ETI_NO_DEPENDENCES
    for (size_t l = 0; l < ETI_TILE; l++) out[l] = sqrtf(sums[i][l]);
  }
}

const eti_row_distance_micro ETI_ROW_DISTANCE_TABLE = {
    .add = add, .squares = squares_f32, .squares_f64 = squares_f64, .roots = roots};
