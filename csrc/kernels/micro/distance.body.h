// distance.body.h — the source of every variant of distance.h; the including file says what its
// table is called, ETI_DISTANCE_TABLE.
#include "kernels/micro/distance.h"

#include "kernels/micro/math_f32.h"
#include "kernels/micro/math_f64.h"

#include <stdint.h>

typedef double wide __attribute__((vector_size(64), aligned(8), may_alias));
typedef int64_t wide_mask __attribute__((vector_size(64), aligned(8), may_alias));
typedef float lanes __attribute__((vector_size(64), aligned(4), may_alias));
enum { HALF = ETI_TILE / 2 };  // of the rows of a tile: as many f64 as a vector holds

// Sums stay in registers; d is the difference, its sign lost where the kind needs that.
#define SUM(step)                                                       \
  for (size_t k = 0; k < n; k++) {                                      \
    wide d = x[k] - *(const wide *)(const void *)(tile + k * ETI_TILE); \
    step;                                                               \
  }
#define SIZE(d) ((wide)((wide_mask)(d) & INT64_MAX))

static void add_powers(double acc[ETI_TILE], const double *x, const double *tile, size_t n,
                       eti_norm_kind kind, double p) {
  const float p_f32 = (float)p;
  for (size_t k = 0; k < n; k++) {
    for (size_t l = 0; l < ETI_TILE; l++) {
      const double d = fabs(x[k] - tile[k * ETI_TILE + l]);
      acc[l] += kind == ETI_NORM_POWER ? (double)eti_pow_f32((float)d, p_f32) : eti_pow_f64(d, p);
    }
  }
}

static void add_half(double *acc, const double *x, const double *tile, size_t n,
                     eti_norm_kind kind) {
  wide a = *(const wide *)(const void *)acc;
  switch (kind) {
    case ETI_NORM_ZERO: {
      const wide ones = {1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0};
      SUM(a += (wide)((wide_mask)ones & (wide_mask)(d != 0.0)))
      break;
    }
    case ETI_NORM_ONE:
      SUM(a += SIZE(d))
      break;
    case ETI_NORM_TWO:
      SUM(a += d * d)
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
                eti_norm_kind kind, double p) {
  if (kind == ETI_NORM_POWER || kind == ETI_NORM_POWER_F64) {
    add_powers(acc, x, tile, n, kind, p);
    return;
  }
  add_half(acc, x, tile, n, kind);
  add_half(acc + HALF, x, tile + HALF, n, kind);
}

static void squares(float acc[ETI_TILE_GROUP][ETI_TILE], const float *const x[ETI_TILE_GROUP],
                    const float *tile, size_t n) {
  const float *const x0 = x[0], *const x1 = x[1], *const x2 = x[2], *const x3 = x[3];
  lanes a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0}, b0 = {0}, b1 = {0}, b2 = {0}, b3 = {0};
#define STEP(sum, row, k)       \
  do {                          \
    const lanes d = row[k] - t; \
    sum += d * d;               \
  } while (0)
#define STEPS(s0, s1, s2, s3, k)                                           \
  do {                                                                     \
    const lanes t = *(const lanes *)(const void *)(tile + (k) * ETI_TILE); \
    STEP(s0, x0, k);                                                       \
    STEP(s1, x1, k);                                                       \
    STEP(s2, x2, k);                                                       \
    STEP(s3, x3, k);                                                       \
  } while (0)
  size_t k = 0;
  for (; k + 2 <= n; k += 2) {
    STEPS(a0, a1, a2, a3, k);
    STEPS(b0, b1, b2, b3, k + 1);
  }
  if (k < n) STEPS(a0, a1, a2, a3, k);
#undef STEP
#undef STEPS
  *(lanes *)(void *)acc[0] = a0 + b0;
  *(lanes *)(void *)acc[1] = a1 + b1;
  *(lanes *)(void *)acc[2] = a2 + b2;
  *(lanes *)(void *)acc[3] = a3 + b3;
}

const eti_distance_micro ETI_DISTANCE_TABLE = {.add = add, .squares = squares};
