// row_reduce.h — reductions of rows and of columns, per instruction set, as reducers of
// reduction.h. All variants come from one source (row_reduce.body.h) and give the same bits: a row
// is reduced in lanes that are merged in a fixed tree, a column in order, or in groups of eight in
// order.
#ifndef ET_MICRO_ROW_REDUCE_H
#define ET_MICRO_ROW_REDUCE_H

#include "kernels/dtype_sets.h"
#include "kernels/micro/isa_select.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// X(name, types): name is operation and type; types are those of operands that may need it: a
// selective build without them omits it. Sums and products of f32 use those of f64 at the end.
// clang-format off
#define ETI_ROW_REDUCE_LIST(X) \
  X(sum_f32, ET_TYPES_F32) X(prod_f32, ET_TYPES_F32) X(square_f32, ET_TYPES_F32) \
  X(max_f32, ET_TYPES_F32) X(min_f32, ET_TYPES_F32) \
  X(sum_f64, ET_TYPES_ALL) X(prod_f64, ET_TYPES_ALL) X(square_f64, ET_TYPES_F64) \
  X(max_f64, ET_TYPES_F64) X(min_f64, ET_TYPES_F64) \
  X(sum_i64, ETI_ROW_REDUCE_INT) X(prod_i64, ETI_ROW_REDUCE_INT) \
  X(max_u8, ET_TYPES_U8) X(max_i8, ET_TYPES_I8) X(max_i16, ET_TYPES_I16) X(max_i32, ET_TYPES_I32) \
  X(max_i64, ETI_ROW_REDUCE_INT) \
  X(min_u8, ET_TYPES_U8) X(min_i8, ET_TYPES_I8) X(min_i16, ET_TYPES_I16) X(min_i32, ET_TYPES_I32) \
  X(min_i64, ETI_ROW_REDUCE_INT) X(any_b8, ET_TYPES_ALL)
#define ETI_ROW_REDUCE_INT ET_TYPES_I64  // a build that has any integers, or booleans as operands, has i64
// clang-format on

// Reduces n ≥ 1 elements into each of w accumulators. rows: acc[j] ∘= x[j·step] ∘ … ∘ x[j·step +
// n-1]; columns: acc[j] ∘= x[j] ∘ x[j + step] ∘ … ∘ x[j + (n-1)·step]. center[j] is for deviations,
// else unused.
typedef void (*eti_row_reduce_fn)(void *acc, const void *x, ptrdiff_t step, size_t n, size_t w,
                                  const void *center);
typedef struct eti_row_reduce_pair {
  eti_row_reduce_fn rows, columns;
} eti_row_reduce_pair;

typedef struct eti_row_reduce_micro {
#define ETI_FIELD(name, types) eti_row_reduce_pair name;
  ETI_ROW_REDUCE_LIST(ETI_FIELD)
#undef ETI_FIELD
  // x[j] and `place` replace best[j] and its position at[j] if x[j] is better. NaN is better than
  // all but NaN, for maximum and minimum.
  void (*arg_max_f64)(double *best, int64_t *at, const double *x, int64_t place, size_t n);
  void (*arg_min_f64)(double *best, int64_t *at, const double *x, int64_t place, size_t n);
  void (*arg_max_i64)(int64_t *best, int64_t *at, const int64_t *x, int64_t place, size_t n);
  void (*arg_min_i64)(int64_t *best, int64_t *at, const int64_t *x, int64_t place, size_t n);
  // Positions of the last best element: an equal element is better, and so is NaN compared with
  // NaN.
  void (*last_max_f64)(double *best, int64_t *at, const double *x, int64_t place, size_t n);
  void (*last_min_f64)(double *best, int64_t *at, const double *x, int64_t place, size_t n);
  void (*last_max_i64)(int64_t *best, int64_t *at, const int64_t *x, int64_t place, size_t n);
  void (*last_min_i64)(int64_t *best, int64_t *at, const int64_t *x, int64_t place, size_t n);
  // at[j] = log(e^at[j] + e^x[j]), to the digits of f32 or of f64
  void (*log_add_exp_f32)(double *at, const double *x, size_t n);
  void (*log_add_exp_f64)(double *at, const double *x, size_t n);
} eti_row_reduce_micro;

extern const eti_row_reduce_micro eti_row_reduce_scalar;
#if ETI_HAVE_X86
extern const eti_row_reduce_micro eti_row_reduce_avx2;
extern const eti_row_reduce_micro eti_row_reduce_avx512;
#endif

// The variant of this CPU.
const eti_row_reduce_micro *eti_row_reduce_micro_get(void);

// A row of elements of eight bytes that comes in parts, with the result of one call of `rows`. All
// parts but the last have whole vectors of lanes.
#define ETI_ROW_LANES 32u
typedef struct eti_row_parts {
  eti_row_reduce_fn rows, columns, merge;  // merge: columns of accumulators
  bool has_lanes;
  double lanes[ETI_ROW_LANES], init;  // of any type
  const double *centers;              // ETI_ROW_LANES copies of the center, or NULL
} eti_row_parts;
void eti_row_part(eti_row_parts *r, void *acc, const double *x, size_t n, bool is_last);

#endif  // ET_MICRO_ROW_REDUCE_H
