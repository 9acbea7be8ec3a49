// binary.c — arithmetic of two operands, each a tensor or a number: sums, products, quotients and
// remainders with their rounding modes, powers, bits. Integers wrap; an integer divided by zero is
// refused before anything is written. f64 powers and arctangents use libm, f32 ones the project's
// own.
#include "kernels/elementwise.h"
#include "kernels/kernel.h"
#include "kernels/loops/cast_values.h"
#include "kernels/loops/loop.h"
#include "kernels/ops.h"

#include <math.h>
#include <string.h>

// ---- sums and products

#define LOOP_NAME add
#define LOOP_EXPR(a, b) (LOOP_IS_BOOL ? (CTYPE)((a | b) != 0) : (CTYPE)((UTYPE)a + (UTYPE)b))
#define LOOP_TYPES (ET_TYPES_INT_BOOL)
#define LOOP_NO_TABLE
#include "kernels/loops/binary.inc.h"
#define LOOP_NAME add
#define LOOP_EXPR(a, b) (a + b)
#define LOOP_TYPES ET_TYPES_F64
#define LOOP_NO_TABLE
#include "kernels/loops/binary.inc.h"

#define LOOP_NAME add_scaled
#define LOOP_EXPR(a, b) ((CTYPE)((UTYPE)a + (UTYPE)b * (UTYPE)k[0]))
#define LOOP_TYPES (ET_TYPES_INT | ET_TYPES_F64)
#define LOOP_NO_TABLE
#include "kernels/loops/binary.inc.h"
#define LOOP_NAME add_scaled
#define LOOP_EXPR(a, b) ((a | (b & k[0])) != 0)
#define LOOP_TYPES ET_TYPES_BOOL
#define LOOP_NO_TABLE
#include "kernels/loops/binary.inc.h"

#define LOOP_NAME sub
#define LOOP_EXPR(a, b) ((CTYPE)((UTYPE)a - (UTYPE)b))
#define LOOP_TYPES (ET_TYPES_INT | ET_TYPES_F64)
#include "kernels/loops/binary.inc.h"

#define LOOP_NAME rsub_scaled
#define LOOP_EXPR(a, b) ((CTYPE)((UTYPE)b - (UTYPE)a * (UTYPE)k[0]))
#define LOOP_TYPES (ET_TYPES_REAL)
#include "kernels/loops/binary.inc.h"

#define LOOP_NAME mul
#define LOOP_EXPR(a, b) (LOOP_IS_BOOL ? (CTYPE)((a & b) != 0) : (CTYPE)((UTYPE)a * (UTYPE)b))
#define LOOP_TYPES ET_TYPES_INT_BOOL
#define LOOP_NO_TABLE
#include "kernels/loops/binary.inc.h"
#define LOOP_NAME mul
#define LOOP_EXPR(a, b) (a * b)
#define LOOP_TYPES ET_TYPES_F64
#define LOOP_NO_TABLE
#include "kernels/loops/binary.inc.h"

// ---- complex

#define COMPLEX_C eti_c64
#define COMPLEX_R float
#define COMPLEX_SUFFIX c64
#include "kernels/loops/complex.inc.h"
#define COMPLEX_C eti_c128
#define COMPLEX_R double
#define COMPLEX_SUFFIX c128
#include "kernels/loops/complex.inc.h"

// ---- quotients. Loops guard against zero although run has looked: a 0-d divisor can become zero
// when it narrows.

#define LOOP_NAME div
#define LOOP_EXPR(a, b) (a / b)
#define LOOP_TYPES ET_TYPES_F64
#define LOOP_NO_TABLE
#include "kernels/loops/binary.inc.h"

#define WRAPPED_NEGATIVE(a) ((CTYPE)((UTYPE)0 - (UTYPE)a))
#define IS_MINUS_ONE(b) (LOOP_IS_NEGATIVE(b) && (b) == (CTYPE) - 1)
#define SIGNS_DIFFER(a, b) (LOOP_IS_NEGATIVE(a) != LOOP_IS_NEGATIVE(b))

#define LOOP_NAME div_trunc
#define LOOP_EXPR(a, b) (b == 0 ? 0 : IS_MINUS_ONE(b) ? WRAPPED_NEGATIVE(a) : a / b)
#define LOOP_TYPES ET_TYPES_INT
#define LOOP_NO_TABLE
#include "kernels/loops/binary.inc.h"
#define LOOP_NAME div_trunc
#define LOOP_EXPR(a, b) ((CTYPE)trunc((double)(a / b)))
#define LOOP_TYPES (ET_TYPES_FLOAT)
#define LOOP_NO_TABLE
#include "kernels/loops/binary.inc.h"

#define LOOP_NAME div_floor
#define LOOP_EXPR(a, b)                    \
  (b == 0            ? 0                   \
   : IS_MINUS_ONE(b) ? WRAPPED_NEGATIVE(a) \
                     : (CTYPE)(a / b - (a % b != 0 && SIGNS_DIFFER(a, b))))
#define LOOP_TYPES ET_TYPES_INT
#define LOOP_NO_TABLE
#include "kernels/loops/binary.inc.h"

// Python's floor division, as ATen does it: the remainder decides, not the rounded quotient.
static inline double floor_quotient_f64(double a, double b) {
  if (b == 0.0) return a / b;
  const double mod = fmod(a, b);
  double quotient = (a - mod) / b;
  if (mod != 0.0 && (b < 0.0) != (mod < 0.0)) quotient -= 1.0;
  if (quotient == 0.0) return copysign(0.0, a / b);
  const double whole = floor(quotient);
  return quotient - whole > 0.5 ? whole + 1.0 : whole;
}
static inline float floor_quotient_f32(float a, float b) {
  if (b == 0.0f) return a / b;
  const float mod = fmodf(a, b);
  float quotient = (a - mod) / b;
  if (mod != 0.0f && (b < 0.0f) != (mod < 0.0f)) quotient -= 1.0f;
  if (quotient == 0.0f) return copysignf(0.0f, a / b);
  const float whole = floorf(quotient);
  return quotient - whole > 0.5f ? whole + 1.0f : whole;
}
#define LOOP_NAME div_floor
#define LOOP_EXPR(a, b) ETI_LOOP_NAME(floor_quotient, SUFFIX)(a, b)
#define LOOP_TYPES (ET_TYPES_FLOAT)
#define LOOP_NO_TABLE
#include "kernels/loops/binary.inc.h"

// fmod is exact, so libm's serves on every platform alike.
#define LOOP_NAME fmod
#define LOOP_EXPR(a, b) (b == 0 || IS_MINUS_ONE(b) ? 0 : a % b)
#define LOOP_TYPES ET_TYPES_INT
#define LOOP_NO_TABLE
#include "kernels/loops/binary.inc.h"
#define LOOP_NAME fmod
#define LOOP_EXPR(a, b) ((CTYPE)fmod((double)a, (double)b))
#define LOOP_TYPES (ET_TYPES_FLOAT)
#define LOOP_NO_TABLE
#include "kernels/loops/binary.inc.h"

#define LOOP_NAME remainder
#define LOOP_EXPR(a, b)          \
  (b == 0 || IS_MINUS_ONE(b) ? 0 \
                             : (CTYPE)(a % b + ((a % b != 0 && SIGNS_DIFFER(a % b, b)) ? b : 0)))
#define LOOP_TYPES ET_TYPES_INT
#define LOOP_NO_TABLE
#include "kernels/loops/binary.inc.h"
static inline double positive_remainder(double a, double b) {
  const double mod = fmod(a, b);
  return mod != 0.0 && (b < 0.0) != (mod < 0.0) ? mod + b : mod;
}
static inline float positive_remainder_f(float a, float b) {
  const float mod = fmodf(a, b);
  return mod != 0.0f && (b < 0.0f) != (mod < 0.0f) ? mod + b : mod;
}
#define LOOP_NAME remainder
#define LOOP_EXPR(a, b) positive_remainder(a, b)
#define LOOP_TYPES ET_TYPES_F64
#define LOOP_NO_TABLE
#include "kernels/loops/binary.inc.h"
#define LOOP_NAME remainder
#define LOOP_EXPR(a, b) positive_remainder_f(a, b)
#define LOOP_TYPES ET_TYPES_F32
#define LOOP_NO_TABLE
#include "kernels/loops/binary.inc.h"

// ---- the larger, the smaller

#define LOOP_NAME maximum
#define LOOP_EXPR(a, b) (((a > b) | (a != a)) ? a : b)
#define LOOP_TYPES (ET_TYPES_REAL_BOOL & ~ET_TYPES_F32)
#include "kernels/loops/binary.inc.h"

#define LOOP_NAME minimum
#define LOOP_EXPR(a, b) (((a < b) | (a != a)) ? a : b)
#define LOOP_TYPES (ET_TYPES_REAL_BOOL & ~ET_TYPES_F32)
#include "kernels/loops/binary.inc.h"

// ---- powers

// By squaring, modulo 2^bits. Negative exponents: what remains of 1 / a^|e| in integers.
static inline uint64_t integer_power(uint64_t a, uint64_t e) {
  uint64_t r = 1;
  for (; e != 0; e >>= 1, a *= a) {
    if ((e & 1u) != 0) r *= a;
  }
  return r;
}
static inline uint64_t signed_power(int64_t a, int64_t e) {
  if (e >= 0) return integer_power((uint64_t)a, (uint64_t)e);
  if (a == 1) return 1;
  return a == -1 ? (uint64_t)(e % 2 == 0 ? 1 : -1) : 0;
}
#define LOOP_NAME pow
#define LOOP_EXPR(a, b) ((CTYPE)signed_power((int64_t)a, (int64_t)b))
#define LOOP_TYPES ET_TYPES_INT
#define LOOP_NO_TABLE
#include "kernels/loops/binary.inc.h"
#define LOOP_NAME pow
#define LOOP_EXPR(a, b) pow(a, b)
#define LOOP_TYPES ET_TYPES_F64
#define LOOP_NO_TABLE
#include "kernels/loops/binary.inc.h"

#define LOOP_NAME atan2
#define LOOP_EXPR(a, b) atan2(a, b)
#define LOOP_TYPES ET_TYPES_F64
#include "kernels/loops/binary.inc.h"

// ---- bits

#define LOOP_NAME bitwise_and
#define LOOP_EXPR(a, b) (a & b)
#define LOOP_TYPES ET_TYPES_INT_BOOL
#include "kernels/loops/binary.inc.h"

#define LOOP_NAME bitwise_or
#define LOOP_EXPR(a, b) (a | b)
#define LOOP_TYPES ET_TYPES_INT_BOOL
#include "kernels/loops/binary.inc.h"

#define LOOP_NAME bitwise_xor
#define LOOP_EXPR(a, b) (a ^ b)
#define LOOP_TYPES ET_TYPES_INT_BOOL
#include "kernels/loops/binary.inc.h"

// A count outside the width shifts everything out: 0, and the sign to the right.
#define IN_WIDTH(b) (!LOOP_IS_NEGATIVE(b) && (uint64_t)(b) < 8 * sizeof(CTYPE))
#define LOOP_NAME left_shift
#define LOOP_EXPR(a, b) (IN_WIDTH(b) ? (CTYPE)((UTYPE)a << b) : 0)
#define LOOP_TYPES ET_TYPES_INT
#include "kernels/loops/binary.inc.h"

#define LOOP_NAME right_shift
#define LOOP_EXPR(a, b) (IN_WIDTH(b) ? a >> b : LOOP_IS_NEGATIVE(a) ? -1 : 0)
#define LOOP_TYPES ET_TYPES_INT
#include "kernels/loops/binary.inc.h"

// ---- logic, on operands made bool

#define LOOP_NAME logical_and
#define LOOP_EXPR(a, b) (a & b)
#define LOOP_TYPES ET_TYPES_BOOL
#include "kernels/loops/binary.inc.h"

#define LOOP_NAME logical_or
#define LOOP_EXPR(a, b) (a | b)
#define LOOP_TYPES ET_TYPES_BOOL
#include "kernels/loops/binary.inc.h"

#define LOOP_NAME logical_xor
#define LOOP_EXPR(a, b) (a ^ b)
#define LOOP_TYPES ET_TYPES_BOOL
#include "kernels/loops/binary.inc.h"

// ---- tables of the loops that come from several templates

#define INT_ROWS(name)                                                                    \
  [ET_U8] = name##_u8, [ET_I8] = name##_i8, [ET_I16] = name##_i16, [ET_I32] = name##_i32, \
  [ET_I64] = name##_i64
#define COMPLEX_ROWS(name) [ET_C64] = name##_c64, [ET_C128] = name##_c128
static const eti_loop add_loops[ET_DTYPE_COUNT] = {INT_ROWS(add), [ET_B8] = add_b8,
                                                   [ET_F64] = add_f64, COMPLEX_ROWS(add)};
static const eti_loop add_scaled_loops[ET_DTYPE_COUNT] = {
    INT_ROWS(add_scaled), [ET_B8] = add_scaled_b8, [ET_F64] = add_scaled_f64,
    COMPLEX_ROWS(add_scaled)};
static const eti_loop mul_loops[ET_DTYPE_COUNT] = {INT_ROWS(mul), [ET_B8] = mul_b8,
                                                   [ET_F64] = mul_f64, COMPLEX_ROWS(mul)};
static const eti_loop div_loops[ET_DTYPE_COUNT] = {[ET_F64] = div_f64, COMPLEX_ROWS(div)};
static const eti_loop div_trunc_loops[ET_DTYPE_COUNT] = {
    INT_ROWS(div_trunc), [ET_F32] = div_trunc_f32, [ET_F64] = div_trunc_f64};
static const eti_loop div_floor_loops[ET_DTYPE_COUNT] = {
    INT_ROWS(div_floor), [ET_F32] = div_floor_f32, [ET_F64] = div_floor_f64};
static const eti_loop fmod_loops[ET_DTYPE_COUNT] = {INT_ROWS(fmod), [ET_F32] = fmod_f32,
                                                    [ET_F64] = fmod_f64};
static const eti_loop remainder_loops[ET_DTYPE_COUNT] = {
    INT_ROWS(remainder), [ET_F32] = remainder_f32, [ET_F64] = remainder_f64};
static const eti_loop pow_loops[ET_DTYPE_COUNT] = {INT_ROWS(pow), [ET_F64] = pow_f64};

// ---- operators without parameters

#define SAME(name) {.rule = ETI_RULE_SAME, .loops = name##_loops, .micro = ETI_NO_MICRO}
#define DIVIDES(name) \
  {.rule = ETI_RULE_SAME, .loops = name##_loops, .micro = ETI_NO_MICRO, .divides = true}
#define LOGICAL(name) {.rule = ETI_RULE_LOGICAL, .loops = name##_loops, .micro = ETI_NO_MICRO}
#define FAST(name) {.rule = ETI_RULE_SAME, .loops = name##_loops, .micro = ETI_MICRO_BINARY(name)}
#define FLOAT(name, cost) \
  {.rule = ETI_RULE_FLOAT, .loops = name##_loops, .micro = ETI_MICRO_BINARY(name), .grain = cost}

// X(operator and overload, description); both overloads take (self, other, out)
#define BINARY_LIST(X)                       \
  X(atan2_out, FLOAT(atan2, ETI_GRAIN_MATH)) \
  X(bitwise_and, SAME(bitwise_and))          \
  X(bitwise_left_shift, SAME(left_shift))    \
  X(bitwise_or, SAME(bitwise_or))            \
  X(bitwise_right_shift, SAME(right_shift))  \
  X(bitwise_xor, SAME(bitwise_xor))          \
  X(div_out, FLOAT(div, ETI_GRAIN_CHEAP))    \
  X(floor_divide_out, DIVIDES(div_floor))    \
  X(fmod, DIVIDES(fmod))                     \
  X(logical_and_out, LOGICAL(logical_and))   \
  X(logical_or_out, LOGICAL(logical_or))     \
  X(logical_xor_out, LOGICAL(logical_xor))   \
  X(maximum_out, FAST(maximum))              \
  X(minimum_out, FAST(minimum))              \
  X(mul_out, FAST(mul))                      \
  X(remainder, DIVIDES(remainder))

#define DESCRIBE(name, description) static const eti_elementwise name##_op = description;
BINARY_LIST(DESCRIBE)
#undef DESCRIBE
#define RUN(name, description)                                     \
  et_status op_##name(et_kernel_ctx *ctx, et_value *const *args) { \
    return eti_binary_run(ctx, args, &name##_op, 2, NULL);         \
  }
BINARY_LIST(RUN)
#undef RUN
#define PREPARE(name, description)                                       \
  et_status prepare_##name(et_prepare_ctx *ctx, et_value *const *args) { \
    return eti_binary_prepare(ctx, args, &name##_op, 2, NULL);           \
  }
BINARY_LIST(PREPARE)
#undef PREPARE

// ---- add, sub, rsub: with a factor for the second operand

static const eti_elementwise add_op = FAST(add);
static const eti_elementwise add_scaled_op = FAST(add_scaled);
static const eti_elementwise sub_op = FAST(sub);
static const eti_elementwise sub_complex_op = SAME(add_scaled);
static const eti_elementwise rsub_op = SAME(rsub_scaled);

static et_status read_alpha(const et_kernel_ctx *ctx, et_value *const *args, et_dtype compute,
                            eti_scalar *alpha) {
  ET_TRY(eti_arg_scalar(ctx, args, 2, alpha));
  ET_CHECK(!(alpha->is_float && eti_is_integral(compute)), ctx->err, ET_INVALID_ARGUMENT,
           "alpha is %g, which integer operands cannot use", alpha->d);
  return ET_OK;
}

static et_status fill_alpha(const et_kernel_ctx *ctx, et_value *const *args, et_dtype compute,
                            eti_params *params) {
  eti_scalar alpha = {0};
  ET_TRY(read_alpha(ctx, args, compute, &alpha));
  eti_params_set(params, 0, &alpha, compute);
  return ET_OK;
}

static et_status fill_negative_alpha(const et_kernel_ctx *ctx, et_value *const *args,
                                     et_dtype compute, eti_params *params) {
  eti_scalar alpha = {0};
  ET_TRY(read_alpha(ctx, args, compute, &alpha));
  ET_CHECK(compute != ET_B8, ctx->err, ET_INVALID_ARGUMENT, "bool operands cannot be subtracted");
  alpha.d = -alpha.d;
  alpha.i = (int64_t)(0 - (uint64_t)alpha.i);
  eti_params_set(params, 0, &alpha, compute);
  return ET_OK;
}

static bool alpha_is_one(const et_value *v) {
  if (v == NULL) return false;
  return (v->tag == ET_INT && v->as.i == 1) || (v->tag == ET_DOUBLE && v->as.d == 1.0) ||
         (v->tag == ET_BOOL && v->as.b);
}

// A factor of 1, nearly always, takes the plain loops: no parameters, and complex operands subtract
// exactly.
static const eti_elementwise *choose_add(et_value *const *args, eti_fill_params *fill) {
  const bool plain = alpha_is_one(args[2]) && args[2]->tag != ET_DOUBLE;
  *fill = plain ? NULL : fill_alpha;
  return plain ? &add_op : &add_scaled_op;
}

static bool is_complex_tensor(const et_value *v) {
  return v != NULL && v->tag == ET_TENSOR && eti_is_complex((et_dtype)v->as.tensor->dtype);
}

static const eti_elementwise *choose_sub(et_value *const *args, eti_fill_params *fill) {
  const bool plain = alpha_is_one(args[2]) && args[2]->tag != ET_DOUBLE;
  const bool complex = is_complex_tensor(args[0]) || is_complex_tensor(args[1]);
  *fill = plain && !complex ? NULL : fill_negative_alpha;
  return complex ? &sub_complex_op : plain ? &sub_op : &add_scaled_op;
}

et_status op_add_out(et_kernel_ctx *ctx, et_value *const *args) {
  if (eti_flat_run(ctx, args)) return ET_OK;
  eti_fill_params fill;
  const eti_elementwise *op = choose_add(args, &fill);
  return eti_binary_run(ctx, args, op, 3, fill);
}

et_status prepare_add_out(et_prepare_ctx *ctx, et_value *const *args) {
  eti_fill_params fill;
  const eti_elementwise *op = choose_add(args, &fill);
  return eti_binary_prepare(ctx, args, op, 3, fill);
}

et_status op_sub_out(et_kernel_ctx *ctx, et_value *const *args) {
  if (eti_flat_run(ctx, args)) return ET_OK;
  eti_fill_params fill;
  const eti_elementwise *op = choose_sub(args, &fill);
  return eti_binary_run(ctx, args, op, 3, fill);
}

et_status prepare_sub_out(et_prepare_ctx *ctx, et_value *const *args) {
  eti_fill_params fill;
  const eti_elementwise *op = choose_sub(args, &fill);
  return eti_binary_prepare(ctx, args, op, 3, fill);
}

et_status op_rsub_scalar_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_binary_run(ctx, args, &rsub_op, 3, fill_alpha);
}

et_status prepare_rsub_scalar_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_binary_prepare(ctx, args, &rsub_op, 3, fill_alpha);
}

// ---- div with a rounding mode

static const eti_elementwise div_trunc_op = DIVIDES(div_trunc);

et_status op_div_mode_out(et_kernel_ctx *ctx, et_value *const *args) {
  const char *mode;
  ET_TRY(eti_arg_string(ctx, args, 2, &mode));
  if (mode == NULL) return eti_binary_run(ctx, args, &div_out_op, 3, NULL);
  const bool floors = strcmp(mode, "floor") == 0;
  ET_CHECK(floors || strcmp(mode, "trunc") == 0, ctx->err, ET_INVALID_ARGUMENT,
           "rounding_mode \"%s\": needs \"floor\", \"trunc\" or None", mode);
  return eti_binary_run(ctx, args, floors ? &floor_divide_out_op : &div_trunc_op, 3, NULL);
}

// ---- pow

static const eti_elementwise pow_op = {.rule = ETI_RULE_SAME,
                                       .loops = pow_loops,
                                       .micro = ETI_MICRO_BINARY(pow),
                                       .grain = ETI_GRAIN_MATH};

// Exponents with a shorter way, the same as ATen's: exact squares matter to norms and variances.
#define LOOP_NAME square
#define LOOP_EXPR(x) (x * x)
#define LOOP_TYPES ET_TYPES_F64
#include "kernels/loops/unary.inc.h"
#define LOOP_NAME cube
#define LOOP_EXPR(x) (x * x * x)
#define LOOP_TYPES ET_TYPES_F64
#include "kernels/loops/unary.inc.h"
#define LOOP_NAME inverse_square
#define LOOP_EXPR(x) (1.0 / (x * x))
#define LOOP_TYPES ET_TYPES_F64
#include "kernels/loops/unary.inc.h"
#define LOOP_NAME sqrt
#define LOOP_EXPR(x) sqrt(x)
#define LOOP_TYPES ET_TYPES_F64
#include "kernels/loops/unary.inc.h"
#define LOOP_NAME rsqrt
#define LOOP_EXPR(x) (1.0 / sqrt(x))
#define LOOP_TYPES ET_TYPES_F64
#include "kernels/loops/unary.inc.h"
#define LOOP_NAME reciprocal
#define LOOP_EXPR(x) (1.0 / x)
#define LOOP_TYPES ET_TYPES_F64
#include "kernels/loops/unary.inc.h"

#define SHORT(name) {.rule = ETI_RULE_SAME, .loops = name##_loops, .micro = ETI_MICRO_UNARY(name)}
static const struct {
  double exponent;
  eti_elementwise op;
} short_powers[] = {
    {2.0, SHORT(square)}, {3.0, SHORT(cube)},   {-2.0, SHORT(inverse_square)},
    {0.5, SHORT(sqrt)},   {-0.5, SHORT(rsqrt)}, {-1.0, SHORT(reciprocal)},
};

static const eti_elementwise *short_power(et_value *const *args) {
  const et_value *self = args[0], *e = args[1];
  if (self == NULL || self->tag != ET_TENSOR || e == NULL ||
      (e->tag != ET_INT && e->tag != ET_DOUBLE))
    return NULL;
  if (!eti_is_float((et_dtype)self->as.tensor->dtype)) return NULL;
  const double exponent = e->tag == ET_INT ? (double)e->as.i : e->as.d;
  for (size_t i = 0; i < sizeof short_powers / sizeof short_powers[0]; i++) {
    if (short_powers[i].exponent == exponent) return &short_powers[i].op;
  }
  return NULL;
}

et_status op_pow_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_binary_run(ctx, args, &pow_op, 2, NULL);
}
et_status prepare_pow_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_binary_prepare(ctx, args, &pow_op, 2, NULL);
}

et_status op_pow_tensor_scalar_out(et_kernel_ctx *ctx, et_value *const *args) {
  if (eti_flat_run(ctx, args)) return ET_OK;
  const eti_elementwise *op = short_power(args);
  if (op != NULL) return eti_unary_run(ctx, args, op, 2, NULL);
  const et_value *self = args[0], *e = args[1];
  const bool integers =
      self != NULL && self->tag == ET_TENSOR && eti_is_integral((et_dtype)self->as.tensor->dtype);
  ET_CHECK(!(integers && e != NULL && e->tag == ET_INT && e->as.i < 0), ctx->err,
           ET_INVALID_ARGUMENT, "integers to negative integer powers are not allowed");
  return eti_binary_run(ctx, args, &pow_op, 2, NULL);
}

et_status prepare_pow_tensor_scalar_out(et_prepare_ctx *ctx, et_value *const *args) {
  const eti_elementwise *op = short_power(args);
  if (op != NULL) return eti_unary_prepare(ctx, args, op, 2, NULL);
  const et_value *e = args[1];
  if (e == NULL || e->tag != ET_DOUBLE) return ET_OK;  // integer exponents are looked at in run
  return eti_binary_prepare(ctx, args, &pow_op, 2, NULL);
}
