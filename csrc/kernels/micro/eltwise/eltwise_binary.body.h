// eltwise_binary.body.h — functions of two floats, part of eltwise.body.h: each is a name of
// ETI_BINARY_LIST and an expression of a and b, in f32 and in f64. k points to the parameters. Also
// clamp with bounds that are operands, of all real types.

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
#define LOOP_CHEAP
#include "kernels/micro/eltwise/binary_float.inc.h"
#define LOOP_NAME minimum
#define LOOP_EXPR(a, b) (((a < b) | (a != a)) ? a : b)
#define LOOP_CHEAP
#include "kernels/micro/eltwise/binary_float.inc.h"
#define LOOP_NAME pow
#define LOOP_EXPR(a, b) F(pow)(a, b)
#include "kernels/micro/eltwise/binary_float.inc.h"
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

// Clamp with operands as bounds: NaN stays, the upper bound wins. Comparisons choose among numbers;
// a NaN bound is added, other bounds add -0 (no change).
#define NAN_OF(bound) (bound != bound ? bound : -(CTYPE)0)
#define LOOP_NAME clamp3
#define LOOP_FIRST(x, low) ((x < low ? low : x) + NAN_OF(low))
#define LOOP_SECOND(t, high) (AT_MOST(t, high) + NAN_OF(high))
#define LOOP_TYPES ET_TYPES_REAL_BOOL
#include "kernels/loops/ternary_loop.inc.h"
