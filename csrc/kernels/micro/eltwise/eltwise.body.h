// eltwise.body.h — the source of every variant of eltwise.h; the including file says what its table
// is called. Plain C over lanes: the compiler vectorises it for the instruction set of the
// including file, and since no operation is reassociated or contracted every variant gives the same
// bits.
#include "kernels/loops/loop.h"
#include "kernels/micro/eltwise/eltwise.h"
#include "kernels/micro/math/math_f32.h"
#include "kernels/micro/math/math_f64.h"
#include "kernels/micro/rows/rows_f32.h"
#include "kernels/micro/math/special_bessel.h"
#include "kernels/micro/math/special_f32.h"
#include "kernels/micro/math/special_f64.h"
#include "kernels/micro/math/special_zeta.h"
#include "kernels/micro/transpose.h"

#if defined(__F16C__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

// ---- elementwise loops of f32 and f64: k points to the parameters

#define F(name) ETI_LOOP_NAME(eti_##name, SUFFIX)

#define LOOP_NAME abs
#define LOOP_EXPR(x) F(abs)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME neg
#define LOOP_EXPR(x) (-x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME ceil
#define LOOP_EXPR(x) F(ceil)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME floor
#define LOOP_EXPR(x) F(floor)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME round
#define LOOP_EXPR(x) F(rint)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME trunc
#define LOOP_EXPR(x) F(trunc)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME sign
#define LOOP_EXPR(x) ((x > 0) - (x < 0))
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME relu
#define LOOP_EXPR(x) (x <= 0 ? 0 : x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME sqrt
#define LOOP_EXPR(x) F(sqrt)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME rsqrt
#define LOOP_EXPR(x) (1 / F(sqrt)(x))
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME reciprocal
#define LOOP_EXPR(x) (1 / x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME square
#define LOOP_EXPR(x) (x * x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME cube
#define LOOP_EXPR(x) (x * x * x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME inverse_square
#define LOOP_EXPR(x) (1 / (x * x))
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME exp
#define LOOP_EXPR(x) F(exp)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME expm1
#define LOOP_EXPR(x) F(expm1)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME log
#define LOOP_EXPR(x) F(log)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME log2
#define LOOP_EXPR(x) F(log2)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME log10
#define LOOP_EXPR(x) F(log10)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME log1p
#define LOOP_EXPR(x) F(log1p)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME sin_small
#define LOOP_EXPR(x) F(sin)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME cos_small
#define LOOP_EXPR(x) F(cos)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME tan_small
#define LOOP_EXPR(x) F(tan)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME asin
#define LOOP_EXPR(x) F(asin)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME acos
#define LOOP_EXPR(x) F(acos)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME atan
#define LOOP_EXPR(x) F(atan)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME sinh
#define LOOP_EXPR(x) F(sinh)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME cosh
#define LOOP_EXPR(x) F(cosh)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME tanh
#define LOOP_EXPR(x) F(tanh)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME asinh
#define LOOP_EXPR(x) F(asinh)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME acosh
#define LOOP_EXPR(x) F(acosh)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME atanh
#define LOOP_EXPR(x) F(atanh)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME erf
#define LOOP_EXPR(x) F(erf)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME sigmoid
#define LOOP_EXPR(x) F(sigmoid)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME gelu
#define LOOP_EXPR(x) F(gelu)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME gelu_tanh
#define LOOP_EXPR(x) F(gelu_tanh)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME logit
#define LOOP_EXPR(x) F(logit)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME logit_eps
#define LOOP_EXPR(x) F(logit)(x < k[0] ? k[0] : (x > k[1] ? k[1] : x))
#include "kernels/micro/eltwise/unary_float.inc.h"
// Keeps a NaN x; bounds are numbers. A NaN bound is said by the third parameter, which is NaN then
// and -0 (no change) else.
#define AT_MOST(x, high) ((x) > (high) ? (high) : (x))
#define LOOP_NAME clamp
#define LOOP_EXPR(x) (AT_MOST((x < k[0] ? k[0] : x), k[1]) + k[2])
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME leaky_relu
#define LOOP_EXPR(x) (x > 0 ? x : x * k[0])
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME elu_mixed
#define LOOP_EXPR(x) (x > 0 ? x * k[1] : F(expm1)(x * k[2]) * k[0])
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME elu_positive
#define LOOP_EXPR(x) (x * k[1])
#include "kernels/micro/eltwise/unary_float.inc.h"
#define T float
#define SUFFIX f32
#include "kernels/micro/eltwise/eltwise_elu.body.h"
#define T double
#define SUFFIX f64
#include "kernels/micro/eltwise/eltwise_elu.body.h"

#define LOOP_NAME add
#define LOOP_EXPR(a, b) (a + b)
#define LOOP_CHEAP
#include "kernels/micro/eltwise/binary_float.inc.h"
#define LOOP_NAME sub
#define LOOP_EXPR(a, b) (a - b)
#define LOOP_CHEAP
#include "kernels/micro/eltwise/binary_float.inc.h"
#define LOOP_NAME mul
#define LOOP_EXPR(a, b) (a * b)
#define LOOP_CHEAP
#include "kernels/micro/eltwise/binary_float.inc.h"
#define LOOP_NAME div
#define LOOP_EXPR(a, b) (a / b)
#define LOOP_CHEAP
#include "kernels/micro/eltwise/binary_float.inc.h"
#define LOOP_NAME add_scaled
#define LOOP_EXPR(a, b) (a + b * k[0])
#define LOOP_CHEAP
#include "kernels/micro/eltwise/binary_float.inc.h"
// ATen's rules: NaN wins in maximum and minimum.
#define LOOP_NAME maximum
#define LOOP_EXPR(a, b) (((a > b) | (a != a)) ? a : b)
#include "kernels/micro/eltwise/binary_float.inc.h"
#define LOOP_NAME minimum
#define LOOP_EXPR(a, b) (((a < b) | (a != a)) ? a : b)
#include "kernels/micro/eltwise/binary_float.inc.h"
#define LOOP_NAME power
#define LOOP_EXPR(a, b) F(pow)(a, b)
#include "kernels/micro/eltwise/binary_float.inc.h"
static void pow_f32(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  power_f32(p, s, n, params);
}
// One exponent for all is repeated in memory: what compilers know to be the same they branch on,
// and then find no vectors.
static void pow_f64(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  double exponents[256];
  if (s[2] != 0 || n < 8) {
    power_f64(p, s, n, params);
    return;
  }
  for (size_t i = 0; i < 256; i++) exponents[i] = *(const double *)p[2];
  const ptrdiff_t steps[3] = {s[0], s[1], sizeof exponents[0]};
  for (size_t i = 0; i < n; i += 256) {
    void *const q[3] = {(char *)p[0] + (ptrdiff_t)i * s[0], (char *)p[1] + (ptrdiff_t)i * s[1],
                        exponents};
    power_f64(q, steps, n - i < 256 ? n - i : 256, params);
  }
}
#define LOOP_NAME atan2
#define LOOP_EXPR(a, b) F(atan2)(a, b)
#include "kernels/micro/eltwise/binary_float.inc.h"
#define LOOP_NAME hypot
#define LOOP_EXPR(a, b) F(hypot)(a, b)
#include "kernels/micro/eltwise/binary_float.inc.h"
#define LOOP_NAME nextafter
#define LOOP_EXPR(a, b) F(nextafter)(a, b)
#include "kernels/micro/eltwise/binary_float.inc.h"
#define LOOP_NAME glu
#define LOOP_EXPR(a, b) (a * F(sigmoid)(b))
#include "kernels/micro/eltwise/binary_float.inc.h"
#define LOOP_NAME div_trunc
#define LOOP_EXPR(a, b) F(trunc)(a / b)
#include "kernels/micro/eltwise/binary_float.inc.h"
#define LOOP_NAME div_floor_near
#define LOOP_EXPR(a, b) F(div_floor)(a, b, F(near_mod)(a, b))
#include "kernels/micro/eltwise/binary_float.inc.h"
#define LOOP_NAME div_floor_far
#define LOOP_EXPR(a, b) F(div_floor)(a, b, F(fmod)(a, b))
#include "kernels/micro/eltwise/binary_float.inc.h"
#define LOOP_NAME fmod_near
#define LOOP_EXPR(a, b) F(near_mod)(a, b)
#include "kernels/micro/eltwise/binary_float.inc.h"
#define LOOP_NAME fmod_far
#define LOOP_EXPR(a, b) F(fmod)(a, b)
#include "kernels/micro/eltwise/binary_float.inc.h"
#define LOOP_NAME remainder_near
#define LOOP_EXPR(a, b) F(mod_positive)(F(near_mod)(a, b), b)
#include "kernels/micro/eltwise/binary_float.inc.h"
#define LOOP_NAME remainder_far
#define LOOP_EXPR(a, b) F(mod_positive)(F(fmod)(a, b), b)
#include "kernels/micro/eltwise/binary_float.inc.h"

#define T float
#define SUFFIX f32
#include "kernels/micro/eltwise/eltwise_mod.body.h"
#define T double
#define SUFFIX f64
#include "kernels/micro/eltwise/eltwise_mod.body.h"

// ---- special functions

#define LOOP_NAME erfc
#define LOOP_EXPR(x) F(erfc)(x)
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME erfcx
#define SPECIAL(x, wide) eti_erfcx(x, wide)
#include "kernels/micro/eltwise/special_float.inc.h"
#define LOOP_NAME erfinv
#define SPECIAL(x, wide) eti_erfinv(x, wide)
#include "kernels/micro/eltwise/special_float.inc.h"
#define LOOP_NAME log_ndtr
#define SPECIAL(x, wide) eti_log_ndtr(x, wide)
#include "kernels/micro/eltwise/special_float.inc.h"
#define LOOP_NAME lgamma
#define SPECIAL(x, wide) eti_lgamma(x, wide)
#include "kernels/micro/eltwise/special_float.inc.h"
#define LOOP_NAME digamma
#define SPECIAL(x, wide) eti_digamma(x, wide)
#include "kernels/micro/eltwise/special_float.inc.h"
#define LOOP_NAME trigamma
#define SPECIAL(x, wide) eti_trigamma(x, wide)
#include "kernels/micro/eltwise/special_float.inc.h"
#define LOOP_NAME i0
#define SPECIAL(x, wide) (eti_i0e(x) * eti_e_to(fabs(x), wide))
#include "kernels/micro/eltwise/special_float.inc.h"
#define LOOP_NAME i0e
#define SPECIAL(x, wide) eti_i0e(x)
#include "kernels/micro/eltwise/special_float.inc.h"
#define LOOP_NAME i1
#define SPECIAL(x, wide) (eti_i1e(x) * eti_e_to(fabs(x), wide))
#include "kernels/micro/eltwise/special_float.inc.h"
#define LOOP_NAME i1e
#define SPECIAL(x, wide) eti_i1e(x)
#include "kernels/micro/eltwise/special_float.inc.h"
#define LOOP_NAME igamma
#define LOOP_EXPR(a, x) ((CTYPE)eti_igamma((double)a, (double)x, false, sizeof(CTYPE) == 8))
#define LOOP_CHEAP
#include "kernels/micro/eltwise/binary_float.inc.h"
#define LOOP_NAME igammac
#define LOOP_EXPR(a, x) ((CTYPE)eti_igamma((double)a, (double)x, true, sizeof(CTYPE) == 8))
#define LOOP_CHEAP
#include "kernels/micro/eltwise/binary_float.inc.h"

#define T float
#define SUFFIX f32
#define WIDE false
#include "kernels/micro/eltwise/eltwise_zeta.body.h"
#define T double
#define SUFFIX f64
#define WIDE true
#include "kernels/micro/eltwise/eltwise_zeta.body.h"

// ---- circular functions of large angles

#define LOOP_TYPES ET_TYPES_F32
#define LOOP_NO_TABLE
#define LOOP_NAME sin_wide
#define LOOP_EXPR(x) eti_sin_wide(x)
#include "kernels/loops/unary.inc.h"
#define LOOP_TYPES ET_TYPES_F32
#define LOOP_NO_TABLE
#define LOOP_NAME cos_wide
#define LOOP_EXPR(x) eti_cos_wide(x)
#include "kernels/loops/unary.inc.h"
#define LOOP_TYPES ET_TYPES_F32
#define LOOP_NO_TABLE
#define LOOP_NAME tan_wide
#define LOOP_EXPR(x) eti_tan_wide(x)
#include "kernels/loops/unary.inc.h"

#define T float
#define UINT uint32_t
#define SUFFIX f32
#include "kernels/micro/eltwise/eltwise_angle.body.h"
#define T double
#define UINT uint64_t
#define SUFFIX f64
#include "kernels/micro/eltwise/eltwise_angle.body.h"

#define CIRCULAR(name)                                                                             \
  static void name##_f32(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {     \
    (void)params;                                                                                  \
    angles_f32(p, s, n, &(angle_loops_f32){name##_small_f32, name##_wide_f32, eti_##name##_huge}); \
  }                                                                                                \
  static void name##_f64(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {     \
    (void)params;                                                                                  \
    angles_f64(p, s, n,                                                                            \
               &(angle_loops_f64){name##_small_f64, name##_small_f64, eti_##name##_large_f64});    \
  }
CIRCULAR(sin)
CIRCULAR(cos)
CIRCULAR(tan)

#include "kernels/micro/eltwise/eltwise_int.body.h"

// Bounds that are operands: NaN stays, the upper bound wins. Comparisons choose among numbers; a
// NaN bound is added, where others add -0 (no change).
#define NAN_OF(bound) (bound != bound ? bound : -(CTYPE)0)
#define LOOP_NAME clamp3
#define LOOP_FIRST(x, low) ((x < low ? low : x) + NAN_OF(low))
#define LOOP_SECOND(t, high) (AT_MOST(t, high) + NAN_OF(high))
#define LOOP_TYPES ET_TYPES_REAL_BOOL
#include "kernels/loops/ternary.inc.h"

// ---- rows

static float row_sum(const float *x, size_t n) {
  ET_ASSERT(n > 0 && ETI_HOLDS(x, n, float));
  return eti_row_sum_f32(x, n);
}
static float row_sum_square_diff(const float *x, size_t n, float mean) {
  ET_ASSERT(n > 0 && ETI_HOLDS(x, n, float));
  return eti_row_square_diff_f32(x, n, mean);
}
static float row_max(const float *x, size_t n) {
  ET_ASSERT(n > 0 && ETI_HOLDS(x, n, float));
  return eti_row_max_f32(x, n);
}
static float row_min(const float *x, size_t n) {
  ET_ASSERT(n > 0 && ETI_HOLDS(x, n, float));
  return eti_row_min_f32(x, n);
}

static void row_softmax(float *out, const float *x, size_t n) {
  ET_ASSERT(n > 0 && ETI_HOLDS(out, n, float) && ETI_HOLDS(x, n, float));
  const float max = row_max(x, n);
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) out[i] = eti_exp_term_f32(x[i] - max);
  const float sum = row_sum(out, n);
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) out[i] = out[i] / sum;
}

// The exponentials are summed by pieces that fit a buffer, so that x survives where out is another
// array than x and where it is not; each piece has the lanes of row_sum.
static void row_log_softmax(float *out, const float *x, size_t n) {
  ET_ASSERT(n > 0 && ETI_HOLDS(out, n, float) && ETI_HOLDS(x, n, float));
  const float max = row_max(x, n);
  double sum = 0.0;
  float piece[512];
  for (size_t i = 0; i < n; i += 512) {
    const size_t m = n - i < 512 ? n - i : 512;
    for (size_t j = 0; j < m; j++) piece[j] = eti_exp_term_f32(x[i + j] - max);
    sum += (double)eti_piece_sum_f32(piece, m);
  }
  const float log_sum = (float)eti_log_d(sum);
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) out[i] = x[i] - max - log_sum;
}

// As row_softmax and row_log_softmax, but exponentials and logarithms are taken of many rows at
// once.
static void rows_softmax_flat(float *out, const float *x, size_t n, size_t rows, bool log) {
  float piece[1024], sums[1024];
  const size_t most = 1024 / n;
  for (size_t first = 0; first < rows; first += most) {
    const size_t m = rows - first < most ? rows - first : most;
    const float *const from = x + first * n;
    float *const to = out + first * n;
    for (size_t r = 0; r < m; r++) {
      const float max = row_max(from + r * n, n);
      for (size_t i = 0; i < n; i++) piece[r * n + i] = from[r * n + i] - max;
    }
    if (log) memmove(to, piece, m * n * sizeof *to);
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < m * n; i++) piece[i] = eti_exp_term_f32(piece[i]);
    for (size_t r = 0; r < m; r++) sums[r] = eti_piece_sum_f32(piece + r * n, n);
    if (log) {
      ETI_NO_DEPENDENCES
      for (size_t r = 0; r < m; r++) sums[r] = (float)eti_log_d((double)sums[r]);
    }
    for (size_t r = 0; r < m; r++) {
      const float sum = sums[r];
      float *const row = to + r * n;
      if (log) {
        ETI_NO_DEPENDENCES
        for (size_t i = 0; i < n; i++) row[i] -= sum;
      } else {
        ETI_NO_DEPENDENCES
        for (size_t i = 0; i < n; i++) row[i] = piece[r * n + i] / sum;
      }
    }
  }
}

#define UPRIGHT 32u  // terms of a row, at most; longer ones cost more to turn than they gain

static void exp_terms(float *x, size_t n) {
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) x[i] = eti_exp_term_f32(x[i]);
}

// The sums of sixteen rows that stand upright, added in the order of piece_sum.
static inline void upright_sums(eti_lanes *sums, const eti_lanes *terms, size_t n) {
  eti_lanes a[16] = {{0}};
  for (size_t i = 0; i < n; i++) a[i % 16] += terms[i];
  for (size_t l = 0; l < 8; l++) a[l] += a[l + 8];
  *sums = ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

// As row_softmax and row_log_softmax, but sixteen rows stand upright, one in each lane, so that
// what is done along a row is done to all of them at once. Where fewer are left, the last fills the
// rest.
static void rows_softmax_upright(float *out, const float *x, size_t n, size_t rows, bool log) {
  _Alignas(64) float v[UPRIGHT][16], e[UPRIGHT][16];
  eti_lanes *const values = (eti_lanes *)v, *const terms = (eti_lanes *)e;
  const ptrdiff_t row = (ptrdiff_t)(n * sizeof(float));
  for (size_t first = 0; first < rows; first += 16) {
    const size_t m = rows - first < 16 ? rows - first : 16;
    eti_transpose(v, sizeof v[0], x + first * n, row, m, n, sizeof(float));
    for (size_t i = 0; i < n; i++)
      for (size_t r = m; r < 16; r++) v[i][r] = v[i][0];
    eti_register most[ETI_REGISTERS];
    memcpy(most, v[0], sizeof most);
    for (size_t i = 1; i < n; i++) eti_lanes_max(most, v[i]);
    eti_lanes max, sums;
    memcpy(&max, most, sizeof max);
    for (size_t i = 0; i < n; i++) terms[i] = values[i] -= max;
    exp_terms(e[0], 16 * n);
    upright_sums(&sums, terms, n);
    for (size_t r = 0; r < 16 && log; r++) sums[r] = (float)eti_log_d((double)sums[r]);
    for (size_t i = 0; i < n; i++) terms[i] = log ? values[i] - sums : terms[i] / sums;
    eti_transpose(out + first * n, row, e, sizeof e[0], n, m, sizeof(float));
  }
}

static void rows_softmax_short(float *out, const float *x, size_t n, size_t rows, bool log) {
  ET_ASSERT(n > 0 && n <= ETI_SHORT_ROW);
  ET_ASSERT(ETI_HOLDS(out, rows, float) && ETI_HOLDS(x, rows, float));
  (n <= UPRIGHT ? rows_softmax_upright : rows_softmax_flat)(out, x, n, rows, log);
}

// Sums of a few columns stay in registers over all rows.
#ifdef __AVX512F__
enum { WIDE_SUMS = 8 };
#define WIDEN(x) ((wide_sums)_mm512_cvtps_pd(_mm256_loadu_ps(x)))
#elif defined __AVX__
enum { WIDE_SUMS = 4 };
#define WIDEN(x) ((wide_sums)_mm256_cvtps_pd(_mm_loadu_ps(x)))
#else
enum { WIDE_SUMS = 2 };
#define WIDEN(x) ((wide_sums){(double)(x)[0], (double)(x)[1]})
#endif
typedef double wide_sums __attribute__((vector_size(8 * WIDE_SUMS), aligned(8), may_alias));

static void rows_sum_wide(double *y, const float *const *x, size_t n_rows, size_t n) {
  ET_ASSERT(ETI_HOLDS(y, n, double) && ETI_HOLDS(x, n_rows, float *));
  size_t i = 0;
  for (; n - i >= 8 * WIDE_SUMS; i += 8 * WIDE_SUMS) {
    wide_sums *const to = (wide_sums *)(y + i);
    wide_sums a = to[0], b = to[1], c = to[2], d = to[3], e = to[4], f = to[5], g = to[6],
              h = to[7];
    for (size_t r = 0; r < n_rows; r++) {
      const float *const row = x[r] + i;
      a += WIDEN(row);
      b += WIDEN(row + WIDE_SUMS);
      c += WIDEN(row + 2 * WIDE_SUMS);
      d += WIDEN(row + 3 * WIDE_SUMS);
      e += WIDEN(row + 4 * WIDE_SUMS);
      f += WIDEN(row + 5 * WIDE_SUMS);
      g += WIDEN(row + 6 * WIDE_SUMS);
      h += WIDEN(row + 7 * WIDE_SUMS);
    }
    to[0] = a;
    to[1] = b;
    to[2] = c;
    to[3] = d;
    to[4] = e;
    to[5] = f;
    to[6] = g;
    to[7] = h;
  }
  for (; n - i >= WIDE_SUMS; i += WIDE_SUMS) {
    wide_sums a = *(wide_sums *)(y + i);
    for (size_t r = 0; r < n_rows; r++) a += WIDEN(x[r] + i);
    *(wide_sums *)(y + i) = a;
  }
  for (; i < n; i++) {
    double a = y[i];
    for (size_t r = 0; r < n_rows; r++) a += (double)x[r][i];
    y[i] = a;
  }
}
#undef WIDEN

// ---- halves. The instructions give the bits of the arithmetic of half.h.

static void f16_to_f32(float *out, const uint16_t *x, size_t n) {
  ET_ASSERT(ETI_HOLDS(out, n, float) && ETI_HOLDS(x, n, uint16_t));
  size_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(out + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(x + i))));
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(x + i))));
#elif defined(__aarch64__)
  for (; i + 4 <= n; i += 4)
    vst1q_f32(out + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x + i))));
#endif
  for (; i < n; i++) out[i] = eti_f16_to_f32(x[i]);
}

static void f32_to_f16(uint16_t *out, const float *x, size_t n) {
  ET_ASSERT(ETI_HOLDS(out, n, uint16_t) && ETI_HOLDS(x, n, float));
  size_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256((void *)(out + i),
                        _mm512_cvtps_ph(_mm512_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128((void *)(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__aarch64__)
  for (; i + 4 <= n; i += 4)
    vst1_u16(out + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(x + i))));
#endif
  for (; i < n; i++) out[i] = eti_f32_to_f16(x[i]);
}

static void bf16_to_f32(float *out, const uint16_t *x, size_t n) {
  ET_ASSERT(ETI_HOLDS(out, n, float) && ETI_HOLDS(x, n, uint16_t));
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) out[i] = eti_bf16_to_f32(x[i]);
}

static void f32_to_bf16(uint16_t *out, const float *x, size_t n) {
  ET_ASSERT(ETI_HOLDS(out, n, uint16_t) && ETI_HOLDS(x, n, float));
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) out[i] = eti_f32_to_bf16(x[i]);
}

#define ETI_ROW_ENTRY(name) .name = ETI_KEPT(rows, name, name),
#define ETI_UNARY_ENTRY(name) .name = ETI_KEPT(unary, name, name##_f32),
#define ETI_BINARY_ENTRY(name) .name = ETI_KEPT(binary, name, name##_f32),
#define ETI_UNARY_F64(name) .name = ETI_KEPT(unary, name, ETI_BUILT(ET_F64, name##_f64)),
#define ETI_BINARY_F64(name) .name = ETI_KEPT(binary, name, ETI_BUILT(ET_F64, name##_f64)),
#define ETI_INT_LOOP(name, dtype, loop) ETI_KEPT(ints, name, ETI_BUILT(dtype, loop))
#define ETI_INT_ENTRY(name)                                                                \
  .name = {ETI_INT_LOOP(name, ET_U8, name##_u8), ETI_INT_LOOP(name, ET_I8, name##_i8),     \
           ETI_INT_LOOP(name, ET_I16, name##_i16), ETI_INT_LOOP(name, ET_I32, name##_i32), \
           ETI_INT_LOOP(name, ET_I64, name##_i64)},
const eti_eltwise ETI_ELTWISE_TABLE = {
    .unary = {ETI_UNARY_LIST(ETI_UNARY_ENTRY)},
    .binary = {ETI_BINARY_LIST(ETI_BINARY_ENTRY)},
    .unary_f64 = {ETI_UNARY_LIST(ETI_UNARY_F64)},
    .binary_f64 = {ETI_BINARY_LIST(ETI_BINARY_F64)},
    .ints = {ETI_INT_LIST(ETI_INT_ENTRY)},
    ETI_ROW_LIST(ETI_ROW_ENTRY).f16_to_f32 = f16_to_f32,
    .f32_to_f16 = f32_to_f16,
    .bf16_to_f32 = bf16_to_f32,
    .f32_to_bf16 = f32_to_bf16,
};
#undef ETI_ROW_ENTRY
#undef ETI_UNARY_ENTRY
#undef ETI_BINARY_ENTRY
#undef ETI_UNARY_F64
#undef ETI_BINARY_F64
#undef ETI_INT_LOOP
#undef ETI_INT_ENTRY
