// eltwise_unary.body.h — functions of one float, part of eltwise.body.h: each is a name of
// ETI_UNARY_LIST and an expression of x, in f32 and in f64. k points to the parameters.

#define LOOP_NAME abs
#define LOOP_EXPR(x) F(abs)(x)
#define LOOP_CHEAP
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME neg
#define LOOP_EXPR(x) (-x)
#define LOOP_CHEAP
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME ceil
#define LOOP_EXPR(x) F(ceil)(x)
#define LOOP_CHEAP
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME floor
#define LOOP_EXPR(x) F(floor)(x)
#define LOOP_CHEAP
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME round
#define LOOP_EXPR(x) F(rint)(x)
#define LOOP_CHEAP
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME trunc
#define LOOP_EXPR(x) F(trunc)(x)
#define LOOP_CHEAP
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME sign
#define LOOP_EXPR(x) ((x > 0) - (x < 0))
#define LOOP_CHEAP
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME relu
#define LOOP_EXPR(x) (x <= 0 ? 0 : x)
#define LOOP_CHEAP
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME sqrt
#define LOOP_EXPR(x) F(sqrt)(x)
#define LOOP_CHEAP
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME rsqrt
#define LOOP_EXPR(x) (1 / F(sqrt)(x))
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME reciprocal
#define LOOP_EXPR(x) (1 / x)
#define LOOP_CHEAP
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME square
#define LOOP_EXPR(x) (x * x)
#define LOOP_CHEAP
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME cube
#define LOOP_EXPR(x) (x * x * x)
#define LOOP_CHEAP
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
// Clamps x and keeps a NaN; bounds are numbers. For a NaN bound the third parameter is NaN, else -0
// (no change).
#define AT_MOST(x, high) ((x) > (high) ? (high) : (x))
#define LOOP_NAME clamp
#define LOOP_EXPR(x) (AT_MOST((x < k[0] ? k[0] : x), k[1]) + k[2])
#define LOOP_CHEAP
#include "kernels/micro/eltwise/unary_float.inc.h"
// x · clamp(x + k[0], 0, k[1]) / k[2], with the bits of these four steps; k[1] is a number.
#define LOOP_NAME hardswish
#define LOOP_EXPR(x) (x * AT_MOST((x + k[0] < 0 ? 0 : x + k[0]), k[1]) / k[2])
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME leaky_relu
#define LOOP_EXPR(x) (x > 0 ? x : x * k[0])
#define LOOP_CHEAP
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME elu_mixed
#define LOOP_EXPR(x) (x > 0 ? x * k[1] : F(expm1)(x * k[2]) * k[0])
#include "kernels/micro/eltwise/unary_float.inc.h"
#define LOOP_NAME elu_positive
#define LOOP_EXPR(x) (x * k[1])
#define LOOP_CHEAP
#include "kernels/micro/eltwise/unary_float.inc.h"
#define T float
#define SUFFIX f32
#include "kernels/micro/eltwise/eltwise_elu.body.h"
#define T double
#define SUFFIX f64
#include "kernels/micro/eltwise/eltwise_elu.body.h"

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
// ---- circular functions of large angles

#define LOOP_TYPES ET_TYPES_F32
#define LOOP_NAME sin_wide
#define LOOP_EXPR(x) eti_sin_wide(x)
#include "kernels/loops/unary_vectors.inc.h"
#define LOOP_TYPES ET_TYPES_F32
#define LOOP_NAME cos_wide
#define LOOP_EXPR(x) eti_cos_wide(x)
#include "kernels/loops/unary_vectors.inc.h"
#define LOOP_TYPES ET_TYPES_F32
#define LOOP_NAME tan_wide
#define LOOP_EXPR(x) eti_tan_wide(x)
#include "kernels/loops/unary_vectors.inc.h"

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
