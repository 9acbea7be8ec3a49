// eltwise_int.body.h — loops of integers that need newer instruction sets to vectorise well:
// products, comparisons, shifts, and quotients and remainders computed with floats. Part of
// eltwise.body.h. Nearest quotients of floats that hold both operands exactly never round up to the
// next integer, so the results are those of integer division. A zero divisor gives 0; run has
// refused it already, but a 0-d divisor can become zero when it narrows.

// ---- signs, products, the larger and the smaller

#define LOOP_NAME abs
#define LOOP_EXPR(x) ((CTYPE)(LOOP_IS_NEGATIVE(x) ? (UTYPE)0 - (UTYPE)x : (UTYPE)x))
#define LOOP_TYPES ET_TYPES_INT
#define LOOP_NO_TABLE
#include "kernels/loops/unary_loop.inc.h"
#define LOOP_NAME neg
#define LOOP_EXPR(x) ((CTYPE)((UTYPE)0 - (UTYPE)x))
#define LOOP_TYPES ET_TYPES_INT
#define LOOP_NO_TABLE
#include "kernels/loops/unary_loop.inc.h"
#define LOOP_NAME sign
#define LOOP_EXPR(x) ((x > 0) - LOOP_IS_NEGATIVE(x))
#define LOOP_TYPES ET_TYPES_INT
#define LOOP_NO_TABLE
#include "kernels/loops/unary_loop.inc.h"
#define LOOP_NAME relu
#define LOOP_EXPR(x) (x <= 0 ? 0 : x)
#define LOOP_TYPES ET_TYPES_INT
#define LOOP_NO_TABLE
#include "kernels/loops/unary_loop.inc.h"
#define LOOP_NAME mul
#define LOOP_EXPR(a, b) ((CTYPE)((UTYPE)a * (UTYPE)b))
#define LOOP_TYPES ET_TYPES_INT
#define LOOP_NO_TABLE
#include "kernels/loops/binary_loop.inc.h"
#define LOOP_NAME maximum
#define LOOP_EXPR(a, b) (a > b ? a : b)
#define LOOP_TYPES ET_TYPES_INT
#define LOOP_NO_TABLE
#include "kernels/loops/binary_loop.inc.h"
#define LOOP_NAME minimum
#define LOOP_EXPR(a, b) (a < b ? a : b)
#define LOOP_TYPES ET_TYPES_INT
#define LOOP_NO_TABLE
#include "kernels/loops/binary_loop.inc.h"

// ---- shifts

// A count outside the width, also a negative one, shifts out all bits: the result is 0, or the sign
// when shifting right.
#define WIDTH ((UTYPE)(8 * sizeof(CTYPE)))
#define IN_WIDTH(b) ((UTYPE)(b) < WIDTH)
#define LOOP_NAME left_shift
#define LOOP_EXPR(a, b) (IN_WIDTH(b) ? (CTYPE)((UTYPE)(a) << ((UTYPE)(b) & (WIDTH - 1))) : (CTYPE)0)
#define LOOP_TYPES ET_TYPES_INT
#include "kernels/loops/binary_vectors.inc.h"
#define LOOP_NAME right_shift
#define LOOP_EXPR(a, b) \
  (IN_WIDTH(b) ? (CTYPE)((a) >> ((UTYPE)(b) & (WIDTH - 1))) : (CTYPE)(LOOP_IS_NEGATIVE(a) ? -1 : 0))
#define LOOP_TYPES ET_TYPES_INT
#include "kernels/loops/binary_vectors.inc.h"

// ---- quotients in 32 bits: u8, i8, i16 by f32, i32 by f64

#define IS_MINUS_ONE(b) (LOOP_IS_NEGATIVE(b) & ((b) == (CTYPE) - 1))
#define SIGNS_DIFFER(a, b) (((a) < 0) != ((b) < 0))
// Division by -1 overflows for the smallest integer, and division by 0 is undefined.
#define SAFE(b) ((((b) == 0) | IS_MINUS_ONE(b)) ? (CTYPE)1 : (b))

ETI_INLINE int32_t eti_quotient_f32(int32_t a, int32_t b) {
  return (int32_t)((float)a / (float)b);
}
ETI_INLINE int32_t eti_quotient_f64(int32_t a, int32_t b) {
  return (int32_t)((double)a / (double)b);
}
ETI_INLINE int32_t eti_lower(int32_t quotient, int32_t rest, int32_t b) {
  return quotient - (int32_t)((rest != 0) & SIGNS_DIFFER(rest, b));
}
ETI_INLINE int32_t eti_raised(int32_t rest, int32_t b) {
  return rest + (((rest != 0) & SIGNS_DIFFER(rest, b)) ? b : 0);
}

// Quotients for any b: -1 wraps, 0 gives 0.
#define DIVIDED(a, b, quotient) \
  ((b) == 0 ? (CTYPE)0 : IS_MINUS_ONE(b) ? (CTYPE)((UTYPE)0 - (UTYPE)(a)) : (CTYPE)(quotient))
#define LEFT_OVER(b, rest) ((((b) == 0) | IS_MINUS_ONE(b)) ? (CTYPE)0 : (CTYPE)(rest))
#define REST(a, b) ((a) - QUOTIENT(a, SAFE(b)) * SAFE(b))

#define DIV_TRUNC(a, b) DIVIDED(a, b, QUOTIENT(a, SAFE(b)))
#define DIV_FLOOR(a, b) DIVIDED(a, b, eti_lower(QUOTIENT(a, SAFE(b)), REST(a, b), b))
#define FMOD(a, b) LEFT_OVER(b, REST(a, b))
#define REMAINDER(a, b) LEFT_OVER(b, eti_raised(REST(a, b), b))
#define LOOP_NAME_OF(name) name

#define QUOTIENT(a, b) eti_quotient_f32(a, b)
#define QUOTIENT_TYPES (ET_TYPES_INT & 7u)
#include "kernels/micro/eltwise/eltwise_quotient.inc.h"
#define QUOTIENT(a, b) eti_quotient_f64(a, b)
#define QUOTIENT_TYPES (ET_TYPES_INT & 8u)
#include "kernels/micro/eltwise/eltwise_quotient.inc.h"

#undef REST
#undef DIV_TRUNC
#undef DIV_FLOOR
#undef FMOD
#undef REMAINDER
#undef LOOP_NAME_OF

// ---- i64: by f64 if all are below 2^50 (tested block by block), else as integers

#define ETI_WHOLE 0x1.8p52  // adding it moves an integer into the low bits

ETI_INLINE double eti_f64_of_whole(int64_t v) {
  return eti_f64_from_bits((uint64_t)v + eti_f64_bits(ETI_WHOLE)) - ETI_WHOLE;
}
ETI_INLINE int64_t eti_whole_of_f64(double v) {
  return (int64_t)(eti_f64_bits(v + ETI_WHOLE) - eti_f64_bits(ETI_WHOLE));
}

// Quotient and remainder of small integers; 0 for a zero divisor.
ETI_INLINE int64_t eti_small_quotient(int64_t a, int64_t b, bool floors) {
  const double x = eti_f64_of_whole(a), y = eti_f64_of_whole(b == 0 ? 1 : b), q = trunc(x / y);
  const double rest = eti_fma_f64(-q, y, x);
  const bool lowers = floors & (rest * y < 0.0);
  const int64_t quotient = eti_whole_of_f64(q - (lowers ? 1.0 : 0.0));
  return b == 0 ? 0 : quotient;
}
ETI_INLINE int64_t eti_small_rest(int64_t a, int64_t b, bool raises) {
  const double x = eti_f64_of_whole(a), y = eti_f64_of_whole(b == 0 ? 1 : b), q = trunc(x / y);
  const double rest = eti_fma_f64(-q, y, x);
  const bool raised = raises & (rest * y < 0.0);
  const int64_t whole = eti_whole_of_f64(rest + (raised ? y : 0.0));
  return b == 0 ? 0 : whole;
}

#define DIV_TRUNC(a, b) eti_small_quotient(a, b, false)
#define DIV_FLOOR(a, b) eti_small_quotient(a, b, true)
#define FMOD(a, b) eti_small_rest(a, b, false)
#define REMAINDER(a, b) eti_small_rest(a, b, true)
#define LOOP_NAME_OF(name) name##_small
#define QUOTIENT_TYPES (ET_TYPES_INT & 16u)
#include "kernels/micro/eltwise/eltwise_quotient.inc.h"
#undef DIV_TRUNC
#undef DIV_FLOOR
#undef FMOD
#undef REMAINDER
#undef LOOP_NAME_OF

#define REST(a, b) ((a) % SAFE(b))
#define LOWERED(a, b) ((a) / SAFE(b) - ((REST(a, b) != 0) & SIGNS_DIFFER(REST(a, b), b)))
#define RAISED(rest, b) ((rest) + ((((rest) != 0) & SIGNS_DIFFER(rest, b)) ? (b) : 0))
#define DIV_TRUNC(a, b) DIVIDED(a, b, (a) / SAFE(b))
#define DIV_FLOOR(a, b) DIVIDED(a, b, LOWERED(a, b))
#define FMOD(a, b) LEFT_OVER(b, REST(a, b))
#define REMAINDER(a, b) LEFT_OVER(b, RAISED(REST(a, b), b))
#define LOOP_NAME_OF(name) name##_large
#define QUOTIENT_TYPES (ET_TYPES_INT & 16u)
#include "kernels/micro/eltwise/eltwise_quotient.inc.h"

#define WHOLES 256u  // tested together

static bool any_large_i64(const void *x, ptrdiff_t stride, size_t n) {
  uint64_t bits = 0;
  if (stride == sizeof(int64_t)) {
    const int64_t *dense = x;
    for (size_t i = 0; i < n; i++) bits |= (uint64_t)(dense[i] < 0 ? ~dense[i] : dense[i]);
  } else {
    for (size_t i = 0; i < (stride == 0 ? 1 : n); i++) {
      const int64_t v = ETI_CAT(int64_t, x, i, stride);
      bits |= (uint64_t)(v < 0 ? ~v : v);
    }
  }
  return bits >> 50 != 0;
}

static void quotients_i64(void *const p[], const ptrdiff_t s[], size_t n, eti_loop small,
                          eti_loop large) {
  for (size_t i = 0; i < n; i += WHOLES) {
    const size_t m = n - i < WHOLES ? n - i : WHOLES;
    void *q[3];
    for (size_t k = 0; k < 3; k++) q[k] = (char *)p[k] + (ptrdiff_t)i * s[k];
    (any_large_i64(q[1], s[1], m) || any_large_i64(q[2], s[2], m) ? large : small)(q, s, m, NULL);
  }
}

#define BY_SIZE(name)                                                                          \
  static void name##_i64(void *const p[], const ptrdiff_t s[], size_t n, const void *params) { \
    (void)params;                                                                              \
    quotients_i64(p, s, n, name##_small_i64, name##_large_i64);                                \
  }
BY_SIZE(div_trunc)
BY_SIZE(div_floor)
BY_SIZE(fmod)
BY_SIZE(remainder)
