// reduce.body.h — the source of every variant of reduce.h; the including file says what its table
// is called, ETI_REDUCE_TABLE.
#include "kernels/micro/reduce.h"

#include "kernels/loops/loop.h"

#include <stdbool.h>

// ---- sums and products; integers wrap

#define REDUCE_NAME sum_f64
#define REDUCE_TYPE double
#define REDUCE_INIT 0.0
#define REDUCE_EXPR(a, x, c) ((a) + (x))
#define REDUCE_MERGE(a, b) ((a) + (b))
#include "kernels/micro/reduce_row.inc.h"
#define REDUCE_NAME square_f64
#define REDUCE_TYPE double
#define REDUCE_INIT 0.0
#define REDUCE_EXPR(a, x, c) ((a) + ((x) - (c)) * ((x) - (c)))
#define REDUCE_MERGE(a, b) ((a) + (b))
#include "kernels/micro/reduce_row.inc.h"
#define REDUCE_NAME prod_f64
#define REDUCE_TYPE double
#define REDUCE_INIT 1.0
#define REDUCE_EXPR(a, x, c) ((a) * (x))
#define REDUCE_MERGE(a, b) ((a) * (b))
#include "kernels/micro/reduce_row.inc.h"
#define REDUCE_NAME sum_i64
#define REDUCE_TYPE int64_t
#define REDUCE_INIT 0
#define REDUCE_EXPR(a, x, c) ((int64_t)((uint64_t)(a) + (uint64_t)(x)))
#define REDUCE_MERGE(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#include "kernels/micro/reduce_row.inc.h"
#define REDUCE_NAME prod_i64
#define REDUCE_TYPE int64_t
#define REDUCE_INIT 1
#define REDUCE_EXPR(a, x, c) ((int64_t)((uint64_t)(a) * (uint64_t)(x)))
#define REDUCE_MERGE(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))
#include "kernels/micro/reduce_row.inc.h"

// ---- extremes; NaN wins

#define LARGER(a, b) ((((a) > (b)) | ((a) != (a))) ? (a) : (b))
#define SMALLER(a, b) ((((a) < (b)) | ((a) != (a))) ? (a) : (b))
#define REDUCE_NAME max_f64
#define REDUCE_TYPE double
#define REDUCE_INIT -(double)INFINITY
#define REDUCE_EXPR(a, x, c) LARGER(a, x)
#define REDUCE_MERGE(a, b) LARGER(a, b)
#include "kernels/micro/reduce_row.inc.h"
#define REDUCE_NAME min_f64
#define REDUCE_TYPE double
#define REDUCE_INIT (double)INFINITY
#define REDUCE_EXPR(a, x, c) SMALLER(a, x)
#define REDUCE_MERGE(a, b) SMALLER(a, b)
#include "kernels/micro/reduce_row.inc.h"
#define LARGER_INT(a, b) ((a) > (b) ? (a) : (b))
#define SMALLER_INT(a, b) ((a) < (b) ? (a) : (b))
#define REDUCE_NAME max_u8
#define REDUCE_TYPE uint8_t
#define REDUCE_INIT 0
#define REDUCE_EXPR(a, x, c) LARGER_INT(a, x)
#define REDUCE_MERGE(a, b) LARGER_INT(a, b)
#include "kernels/micro/reduce_row.inc.h"
#define REDUCE_NAME min_u8
#define REDUCE_TYPE uint8_t
#define REDUCE_INIT UINT8_MAX
#define REDUCE_EXPR(a, x, c) SMALLER_INT(a, x)
#define REDUCE_MERGE(a, b) SMALLER_INT(a, b)
#include "kernels/micro/reduce_row.inc.h"
#define REDUCE_NAME max_i8
#define REDUCE_TYPE int8_t
#define REDUCE_INIT INT8_MIN
#define REDUCE_EXPR(a, x, c) LARGER_INT(a, x)
#define REDUCE_MERGE(a, b) LARGER_INT(a, b)
#include "kernels/micro/reduce_row.inc.h"
#define REDUCE_NAME min_i8
#define REDUCE_TYPE int8_t
#define REDUCE_INIT INT8_MAX
#define REDUCE_EXPR(a, x, c) SMALLER_INT(a, x)
#define REDUCE_MERGE(a, b) SMALLER_INT(a, b)
#include "kernels/micro/reduce_row.inc.h"
#define REDUCE_NAME max_i16
#define REDUCE_TYPE int16_t
#define REDUCE_INIT INT16_MIN
#define REDUCE_EXPR(a, x, c) LARGER_INT(a, x)
#define REDUCE_MERGE(a, b) LARGER_INT(a, b)
#include "kernels/micro/reduce_row.inc.h"
#define REDUCE_NAME min_i16
#define REDUCE_TYPE int16_t
#define REDUCE_INIT INT16_MAX
#define REDUCE_EXPR(a, x, c) SMALLER_INT(a, x)
#define REDUCE_MERGE(a, b) SMALLER_INT(a, b)
#include "kernels/micro/reduce_row.inc.h"
#define REDUCE_NAME max_i32
#define REDUCE_TYPE int32_t
#define REDUCE_INIT INT32_MIN
#define REDUCE_EXPR(a, x, c) LARGER_INT(a, x)
#define REDUCE_MERGE(a, b) LARGER_INT(a, b)
#include "kernels/micro/reduce_row.inc.h"
#define REDUCE_NAME min_i32
#define REDUCE_TYPE int32_t
#define REDUCE_INIT INT32_MAX
#define REDUCE_EXPR(a, x, c) SMALLER_INT(a, x)
#define REDUCE_MERGE(a, b) SMALLER_INT(a, b)
#include "kernels/micro/reduce_row.inc.h"
#define REDUCE_NAME max_i64
#define REDUCE_TYPE int64_t
#define REDUCE_INIT INT64_MIN
#define REDUCE_EXPR(a, x, c) LARGER_INT(a, x)
#define REDUCE_MERGE(a, b) LARGER_INT(a, b)
#include "kernels/micro/reduce_row.inc.h"
#define REDUCE_NAME min_i64
#define REDUCE_TYPE int64_t
#define REDUCE_INIT INT64_MAX
#define REDUCE_EXPR(a, x, c) SMALLER_INT(a, x)
#define REDUCE_MERGE(a, b) SMALLER_INT(a, b)
#include "kernels/micro/reduce_row.inc.h"

// ---- extremes with their places

#define ARG_EXTREME(name, type, better)                                               \
  static void name(type *best, int64_t *at, const type *x, int64_t place, size_t n) { \
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

#define ETI_ENTRY(name, types) \
  .name = {ETI_BUILT_ANY(types, name##_row), ETI_BUILT_ANY(types, name##_columns)},
const eti_reduce_micro ETI_REDUCE_TABLE = {
    ETI_REDUCE_LIST(ETI_ENTRY).arg_max_f64 = arg_max_f64, .arg_min_f64 = arg_min_f64,
    .arg_max_i64 = ETI_BUILT_ANY(ETI_REDUCE_INT, arg_max_i64),
    .arg_min_i64 = ETI_BUILT_ANY(ETI_REDUCE_INT, arg_min_i64)};
#undef ETI_ENTRY
