// eltwise.h — the loops and row kernels that exist per instruction set: elementwise functions of
// f32 and f64, divisions and shifts of integers, softmax rows, reductions. All variants come from
// one source (eltwise.body.h) and give the same bits; the scalar one is the specification. Relies
// on the loop signature of loops/loop_type.h; knows no tensor.
#ifndef ET_ELTWISE_H
#define ET_ELTWISE_H

#include "kernels/loops/loop_type.h"
#include "kernels/micro/isa_select.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// X(name): functions of one float, and of two; eltwise_unary.body.h and eltwise_binary.body.h have
// their expressions.
// clang-format off
#define ETI_UNARY_LIST(X) \
  X(abs) X(neg) X(ceil) X(floor) X(round) X(trunc) X(sign) X(relu) X(sqrt) X(rsqrt) \
  X(reciprocal) X(square) X(cube) X(inverse_square) X(exp) X(expm1) X(log) X(log2) X(log10) \
  X(log1p) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(asinh) \
  X(acosh) X(atanh) X(erf) X(sigmoid) X(gelu) X(gelu_tanh) X(logit) X(logit_eps) X(clamp) \
  X(hardswish) X(leaky_relu) X(elu) X(erfc) X(erfcx) X(erfinv) X(lgamma) X(digamma) X(trigamma) X(i0) X(i1) \
  X(i0e) X(i1e) X(log_ndtr)
#define ETI_BINARY_LIST(X) \
  X(add) X(sub) X(mul) X(div) X(add_scaled) X(maximum) X(minimum) X(pow) X(atan2) X(glu) \
  X(div_trunc) X(div_floor) X(fmod) X(remainder) X(hypot) X(nextafter) X(igamma) X(igammac) X(zeta)
// Functions of one or two integers.
#define ETI_INT_LIST(X) \
  X(abs) X(neg) X(sign) X(relu) X(mul) X(maximum) X(minimum) X(left_shift) X(right_shift) \
  X(div_trunc) X(div_floor) X(fmod) X(remainder)
// The rest of the table.
#define ETI_ROW_LIST(X) \
  X(row_sum) X(row_sum_square_diff) X(row_max) X(row_min) X(row_softmax) X(row_log_softmax) \
  X(rows_sum_wide) X(rows_softmax_short) X(clamp3_loops)
// clang-format on

// A selective build names the functions that its operators use, as ETI_KEEP_unary_exp 1 or 0 in a
// header of its own; the other entries of the tables are NULL and have no loops. Operators declare
// their functions: descriptions by ETI_MICRO_UNARY and the like (elementwise.h), code that reads
// the tables directly by ETI_USES at the head of its file.
#ifdef ET_SELECTED_LOOPS
#include ET_SELECTED_LOOPS
#define ETI_KEPT(kind, name, built) ((ETI_KEEP_##kind##_##name) != 0 ? (built) : NULL)
#define ETI_USE_SYMBOL(kind, name) eti_use_##kind##_##name
#define ETI_USES(kind, name)                                                  \
  __attribute__((used)) static const char *const eti_direct_##kind##_##name = \
      &ETI_USE_SYMBOL(kind, name);
#define ETI_DECLARE(name) extern const char ETI_USE_SYMBOL(unary, name);
ETI_UNARY_LIST(ETI_DECLARE)
#undef ETI_DECLARE
#define ETI_DECLARE(name) extern const char ETI_USE_SYMBOL(binary, name);
ETI_BINARY_LIST(ETI_DECLARE)
#undef ETI_DECLARE
#define ETI_DECLARE(name) extern const char ETI_USE_SYMBOL(ints, name);
ETI_INT_LIST(ETI_DECLARE)
#undef ETI_DECLARE
#define ETI_DECLARE(name) extern const char ETI_USE_SYMBOL(rows, name);
ETI_ROW_LIST(ETI_DECLARE)
#undef ETI_DECLARE
#else
#define ETI_KEPT(kind, name, built) (built)
#define ETI_USES(kind, name)
#endif

// The loops of floats, for descriptions of operators: ETI_UNARY_exp, ETI_BINARY_add.
#define ETI_UNARY_NAME(name) ETI_UNARY_##name,
#define ETI_BINARY_NAME(name) ETI_BINARY_##name,
typedef enum eti_float_loop {
  ETI_NO_FLOAT_LOOP,
  ETI_UNARY_LIST(ETI_UNARY_NAME) ETI_BINARY_LIST(ETI_BINARY_NAME) ETI_N_FLOAT_LOOPS,
} eti_float_loop;
#undef ETI_UNARY_NAME
#undef ETI_BINARY_NAME

// Descriptions of the loops of integers: ETI_INT_mul.
#define ETI_INT_NAME(name) ETI_INT_##name,
typedef enum eti_int_loop {
  ETI_NO_INT_LOOP,
  ETI_INT_LIST(ETI_INT_NAME) ETI_N_INT_LOOPS,
} eti_int_loop;
#undef ETI_INT_NAME

typedef struct eti_eltwise {
#define ETI_FIELD(name) eti_loop name;
  union {
    struct {
      struct {
        eti_loop none;
        ETI_UNARY_LIST(ETI_FIELD)
      } unary;
      struct {
        ETI_BINARY_LIST(ETI_FIELD)
      } binary;
      struct {
        eti_loop none;
        ETI_UNARY_LIST(ETI_FIELD)
      } unary_f64;
      struct {
        ETI_BINARY_LIST(ETI_FIELD)
      } binary_f64;
    };
    eti_loop float_loops[2][ETI_N_FLOAT_LOOPS];  // the same: of f32, of f64
  };
#undef ETI_FIELD
#define ETI_FIELD(name) eti_loop name[5];  // u8, i8, i16, i32, i64
  union {
    struct {
      eti_loop none[5];
      ETI_INT_LIST(ETI_FIELD)
    } ints;
    eti_loop int_loops[ETI_N_INT_LOOPS][5];  // the same
  };
#undef ETI_FIELD

  // Rows of n ≥ 1 contiguous floats. Reductions keep 64 lanes, element i in lane i mod 64, which
  // are added in a fixed tree; sums of more than 4096 elements add the sums of such pieces in f64.
  float (*row_sum)(const float *x, size_t n);
  float (*row_sum_square_diff)(const float *x, size_t n, float mean);  // Σ (x - mean)²
  float (*row_max)(const float *x, size_t n);                          // NaN when there is one
  float (*row_min)(const float *x, size_t n);
  void (*row_softmax)(float *out, const float *x, size_t n);      // out may be x
  void (*row_log_softmax)(float *out, const float *x, size_t n);  // out may be x
  // Many rows of n ≤ ETI_SHORT_ROW (rows/row_softmax.h), one after the other; out may be x.
  void (*rows_softmax_short)(float *out, const float *x, size_t n, size_t rows, bool log);
  // Adds n_rows rows, one after the other: y[j] += x[0][j], x[1][j] …
  void (*rows_sum_wide)(double *y, const float *const *x, size_t n_rows, size_t n);
  const eti_loop *clamp3_loops;  // by type: x, low, high
} eti_eltwise;

extern const eti_eltwise eti_eltwise_scalar;
#if ETI_HAVE_X86
extern const eti_eltwise eti_eltwise_avx2;
extern const eti_eltwise eti_eltwise_avx512;
#endif

static_assert(offsetof(eti_eltwise, unary_f64) == sizeof(eti_loop[ETI_N_FLOAT_LOOPS]) &&
                  offsetof(eti_eltwise, ints) == sizeof(eti_loop[2][ETI_N_FLOAT_LOOPS]),
              "loops by name and by number must be the same entries");

// The variant of an instruction set (or the next lower one that exists), and that of this CPU.
const eti_eltwise *eti_eltwise_for(eti_isa isa);
const eti_eltwise *eti_eltwise_get(void);

#endif  // ET_ELTWISE_H
