// row_reduce.body.h — the source of every variant of row_reduce.h; the including file names its
// table, ETI_ROW_REDUCE_TABLE.
#include "kernels/micro/rows/row_reduce.h"

#include "kernels/contract.h"
#include "kernels/loops/loop.h"
#include "kernels/micro/math/math_f64.h"
#include "kernels/micro/rows/rows_f32.h"

#include <stdbool.h>

// ---- sums and products of f32, in f64; eight elements of a column are summed in f32, as those of
// a row are

#define SUM_OF_EIGHT(x0, x1, x2, x3, x4, x5, x6, x7) \
  ((double)((((x0) + (x1)) + ((x2) + (x3))) + (((x4) + (x5)) + ((x6) + (x7)))))
ETI_INLINE double sum_of_eight(const float *x, ptrdiff_t s) {
  return SUM_OF_EIGHT(x[0], x[s], x[2 * s], x[3 * s], x[4 * s], x[5 * s], x[6 * s], x[7 * s]);
}
ETI_INLINE float square_diff(float x, float c) {
  return (x - c) * (x - c);
}
ETI_INLINE double squares_of_eight(const float *x, ptrdiff_t s, float c) {
  return SUM_OF_EIGHT(square_diff(x[0], c), square_diff(x[s], c), square_diff(x[2 * s], c),
                      square_diff(x[3 * s], c), square_diff(x[4 * s], c), square_diff(x[5 * s], c),
                      square_diff(x[6 * s], c), square_diff(x[7 * s], c));
}
// Multiplies in pairs first: products with a subnormal accumulator are slow.
ETI_INLINE double product_of_eight(const float *x, ptrdiff_t s) {
  const double a = (double)x[0] * (double)x[s], b = (double)x[2 * s] * (double)x[3 * s],
               c = (double)x[4 * s] * (double)x[5 * s], d = (double)x[6 * s] * (double)x[7 * s];
  return (a * b) * (c * d);
}

#define REDUCE_NAME sum_f32
#define REDUCE_TYPE float
#define REDUCE_ACC double
#define REDUCE_EXPR(a, x, c) ((a) + (double)(x))
#define REDUCE_ROW(a, x, n, c) ((a) + (double)eti_row_sum_f32(x, n))
#define REDUCE_EIGHT(a, x, s, c) ((a) + sum_of_eight(x, s))
#include "kernels/micro/rows/row_reduce.inc.h"
#define REDUCE_NAME square_f32
#define REDUCE_CENTERED
#define REDUCE_TYPE float
#define REDUCE_ACC double
#define REDUCE_EXPR(a, x, c) ((a) + (double)square_diff(x, c))
#define REDUCE_ROW(a, x, n, c) ((a) + (double)eti_row_square_diff_f32(x, n, c))
#define REDUCE_EIGHT(a, x, s, c) ((a) + squares_of_eight(x, s, c))
#include "kernels/micro/rows/row_reduce.inc.h"
#define REDUCE_NAME prod_f32
#define REDUCE_TYPE float
#define REDUCE_ACC double
#define REDUCE_EXPR(a, x, c) ((a) * (double)(x))
#define REDUCE_ROW(a, x, n, c) ((a) * eti_row_product_f32(x, n))
#define REDUCE_EIGHT(a, x, s, c) ((a) * product_of_eight(x, s))
#include "kernels/micro/rows/row_reduce.inc.h"

// ---- of f64 and integers, which wrap

#define REDUCE_NAME sum_f64
#define REDUCE_TYPE double
#define REDUCE_INIT 0.0
#define REDUCE_EXPR(a, x, c) ((a) + (x))
#define REDUCE_MERGE(a, b) ((a) + (b))
#include "kernels/micro/rows/row_reduce.inc.h"
#define REDUCE_NAME square_f64
#define REDUCE_CENTERED
#define REDUCE_TYPE double
#define REDUCE_INIT 0.0
#define REDUCE_EXPR(a, x, c) ((a) + ((x) - (c)) * ((x) - (c)))
#define REDUCE_MERGE(a, b) ((a) + (b))
#include "kernels/micro/rows/row_reduce.inc.h"
#define REDUCE_NAME prod_f64
#define REDUCE_TYPE double
#define REDUCE_INIT 1.0
#define REDUCE_EXPR(a, x, c) ((a) * (x))
#define REDUCE_MERGE(a, b) ((a) * (b))
#include "kernels/micro/rows/row_reduce.inc.h"
#define REDUCE_NAME sum_i64
#define REDUCE_TYPE int64_t
#define REDUCE_INIT 0
#define REDUCE_EXPR(a, x, c) ((int64_t)((uint64_t)(a) + (uint64_t)(x)))
#define REDUCE_MERGE(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#include "kernels/micro/rows/row_reduce.inc.h"
#define REDUCE_NAME prod_i64
#define REDUCE_TYPE int64_t
#define REDUCE_INIT 1
#define REDUCE_EXPR(a, x, c) ((int64_t)((uint64_t)(a) * (uint64_t)(x)))
#define REDUCE_MERGE(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))
#include "kernels/micro/rows/row_reduce.inc.h"

// ---- extremes

#define REDUCE_NAME max_f32
#define REDUCE_TYPE float
#define REDUCE_ROW(a, x, n, c) eti_maximum_f32(a, eti_row_max_f32(x, n))
#define EXTREME_BEFORE >
#include "kernels/micro/rows/row_reduce_extreme.inc.h"
#define REDUCE_NAME min_f32
#define REDUCE_TYPE float
#define REDUCE_ROW(a, x, n, c) eti_minimum_f32(a, eti_row_min_f32(x, n))
#define EXTREME_BEFORE <
#include "kernels/micro/rows/row_reduce_extreme.inc.h"
#define REDUCE_NAME max_f64
#define REDUCE_TYPE double
#define REDUCE_INIT -(double)INFINITY
#define EXTREME_BEFORE >
#include "kernels/micro/rows/row_reduce_extreme.inc.h"
#define REDUCE_NAME min_f64
#define REDUCE_TYPE double
#define REDUCE_INIT (double)INFINITY
#define EXTREME_BEFORE <
#include "kernels/micro/rows/row_reduce_extreme.inc.h"
#define LARGER_INT(a, b) ((a) > (b) ? (a) : (b))
#define SMALLER_INT(a, b) ((a) < (b) ? (a) : (b))
#define REDUCE_NAME max_u8
#define REDUCE_TYPE uint8_t
#define REDUCE_INIT 0
#define REDUCE_EXPR(a, x, c) LARGER_INT(a, x)
#define REDUCE_MERGE(a, b) LARGER_INT(a, b)
#include "kernels/micro/rows/row_reduce.inc.h"
#define REDUCE_NAME min_u8
#define REDUCE_TYPE uint8_t
#define REDUCE_INIT UINT8_MAX
#define REDUCE_EXPR(a, x, c) SMALLER_INT(a, x)
#define REDUCE_MERGE(a, b) SMALLER_INT(a, b)
#include "kernels/micro/rows/row_reduce.inc.h"
#define REDUCE_NAME max_i8
#define REDUCE_TYPE int8_t
#define REDUCE_INIT INT8_MIN
#define REDUCE_EXPR(a, x, c) LARGER_INT(a, x)
#define REDUCE_MERGE(a, b) LARGER_INT(a, b)
#include "kernels/micro/rows/row_reduce.inc.h"
#define REDUCE_NAME min_i8
#define REDUCE_TYPE int8_t
#define REDUCE_INIT INT8_MAX
#define REDUCE_EXPR(a, x, c) SMALLER_INT(a, x)
#define REDUCE_MERGE(a, b) SMALLER_INT(a, b)
#include "kernels/micro/rows/row_reduce.inc.h"
#define REDUCE_NAME max_i16
#define REDUCE_TYPE int16_t
#define REDUCE_INIT INT16_MIN
#define REDUCE_EXPR(a, x, c) LARGER_INT(a, x)
#define REDUCE_MERGE(a, b) LARGER_INT(a, b)
#include "kernels/micro/rows/row_reduce.inc.h"
#define REDUCE_NAME min_i16
#define REDUCE_TYPE int16_t
#define REDUCE_INIT INT16_MAX
#define REDUCE_EXPR(a, x, c) SMALLER_INT(a, x)
#define REDUCE_MERGE(a, b) SMALLER_INT(a, b)
#include "kernels/micro/rows/row_reduce.inc.h"
#define REDUCE_NAME max_i32
#define REDUCE_TYPE int32_t
#define REDUCE_INIT INT32_MIN
#define REDUCE_EXPR(a, x, c) LARGER_INT(a, x)
#define REDUCE_MERGE(a, b) LARGER_INT(a, b)
#include "kernels/micro/rows/row_reduce.inc.h"
#define REDUCE_NAME min_i32
#define REDUCE_TYPE int32_t
#define REDUCE_INIT INT32_MAX
#define REDUCE_EXPR(a, x, c) SMALLER_INT(a, x)
#define REDUCE_MERGE(a, b) SMALLER_INT(a, b)
#include "kernels/micro/rows/row_reduce.inc.h"
#define REDUCE_NAME max_i64
#define REDUCE_TYPE int64_t
#define REDUCE_INIT INT64_MIN
#define REDUCE_EXPR(a, x, c) LARGER_INT(a, x)
#define REDUCE_MERGE(a, b) LARGER_INT(a, b)
#include "kernels/micro/rows/row_reduce.inc.h"
#define REDUCE_NAME min_i64
#define REDUCE_TYPE int64_t
#define REDUCE_INIT INT64_MAX
#define REDUCE_EXPR(a, x, c) SMALLER_INT(a, x)
#define REDUCE_MERGE(a, b) SMALLER_INT(a, b)
#include "kernels/micro/rows/row_reduce.inc.h"

// ---- any byte that is not 0

#define REDUCE_NAME any_b8
#define REDUCE_TYPE uint8_t
#define REDUCE_INIT 0
#define REDUCE_EXPR(a, x, c) ((uint8_t)((a) | ((x) != 0)))
#define REDUCE_MERGE(a, b) ((uint8_t)((a) | (b)))
#include "kernels/micro/rows/row_reduce.inc.h"

// ---- extremes with their positions

#define ARG_EXTREME(name, type, better)                                               \
  static void name(type *best, int64_t *at, const type *x, int64_t place, size_t n) { \
    ET_ASSERT(ETI_HOLDS(best, n, type) && ETI_HOLDS(at, n, int64_t));                 \
    ET_ASSERT(ETI_HOLDS(x, n, type));                                                 \
    ETI_NO_DEPENDENCES                                                                \
    for (size_t i = 0; i < n; i++) {                                                  \
      const type a = x[i], b = best[i];                                               \
      const bool takes = better;                                                      \
      best[i] = takes ? a : b;                                                        \
      at[i] = takes ? place : at[i];                                                  \
    }                                                                                 \
  }
ARG_EXTREME(arg_max_f64, double, (b == b) & ((a > b) | (a != a)))
ARG_EXTREME(arg_min_f64, double, (b == b) & ((a < b) | (a != a)))
ARG_EXTREME(arg_max_i64, int64_t, a > b)
ARG_EXTREME(arg_min_i64, int64_t, a < b)

ARG_EXTREME(last_max_f64, double, ((b == b) & (a >= b)) | (a != a))
ARG_EXTREME(last_min_f64, double, ((b == b) & (a <= b)) | (a != a))
ARG_EXTREME(last_max_i64, int64_t, a >= b)
ARG_EXTREME(last_min_i64, int64_t, a <= b)

// ---- logarithms of sums of exponentials

static void log_add_exp_f32(double *at, const double *x, size_t n) {
  ET_ASSERT(ETI_HOLDS(at, n, double) && ETI_HOLDS(x, n, double));
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) {
    const double a = at[i], b = x[i], low = a < b ? a : b, high = a < b ? b : a;
    const double sum = high + eti_log_d(1.0 + eti_exp_d(low - high));
    const double one = ((low == high) & (fabs(low) > 0x1.fffffffffffffp+1023)) ? low : sum;
    at[i] = ((a != a) | (b != b)) ? a + b : one;
  }
}

static void log_add_exp_f64(double *at, const double *x, size_t n) {
  ET_ASSERT(ETI_HOLDS(at, n, double) && ETI_HOLDS(x, n, double));
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) {
    const double a = at[i], b = x[i], low = a < b ? a : b, high = a < b ? b : a;
    const double sum = high + eti_log1p_f64(eti_exp_f64(low - high));
    const double one = ((low == high) & (fabs(low) > 0x1.fffffffffffffp+1023)) ? low : sum;
    at[i] = ((a != a) | (b != b)) ? a + b : one;
  }
}

#define ETI_ENTRY(name, types) \
  .name = {ETI_BUILT_ANY(types, name##_rows), ETI_BUILT_ANY(types, name##_columns)},
const eti_row_reduce_micro ETI_ROW_REDUCE_TABLE = {
    ETI_ROW_REDUCE_LIST(ETI_ENTRY).arg_max_f64 = arg_max_f64,
    .arg_min_f64 = arg_min_f64,
    .arg_max_i64 = ETI_BUILT_ANY(ETI_ROW_REDUCE_INT, arg_max_i64),
    .arg_min_i64 = ETI_BUILT_ANY(ETI_ROW_REDUCE_INT, arg_min_i64),
    .last_max_f64 = last_max_f64,
    .last_min_f64 = last_min_f64,
    .last_max_i64 = ETI_BUILT_ANY(ETI_ROW_REDUCE_INT, last_max_i64),
    .last_min_i64 = ETI_BUILT_ANY(ETI_ROW_REDUCE_INT, last_min_i64),
    .log_add_exp_f32 = log_add_exp_f32,
    .log_add_exp_f64 = ETI_BUILT(ET_F64, log_add_exp_f64)};
#undef ETI_ENTRY
