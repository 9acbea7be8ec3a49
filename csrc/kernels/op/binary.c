// binary.c — arithmetic of two operands, each a tensor or a number: sums, products, quotients and
// remainders with their rounding modes, powers, bits. Integers wrap; an integer divided by zero is
// refused before anything is written. Floats, divisions and shifts compute in micro-kernels, the
// rest in the loops here.
#include "kernels/lib/elementwise.h"
#include "kernels/lib/half_div.h"
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
#include "kernels/loops/binary_loop.inc.h"

#define LOOP_NAME add_scaled
#define LOOP_EXPR(a, b) ((CTYPE)((UTYPE)a + (UTYPE)b * (UTYPE)k[0]))
#define LOOP_TYPES ET_TYPES_INT
#define LOOP_NO_TABLE
#include "kernels/loops/binary_loop.inc.h"
#define LOOP_NAME add_scaled
#define LOOP_EXPR(a, b) ((a | (b & k[0])) != 0)
#define LOOP_TYPES ET_TYPES_BOOL
#define LOOP_NO_TABLE
#include "kernels/loops/binary_loop.inc.h"

#define LOOP_NAME sub
#define LOOP_EXPR(a, b) ((CTYPE)((UTYPE)a - (UTYPE)b))
#define LOOP_TYPES ET_TYPES_INT
#include "kernels/loops/binary_loop.inc.h"

#define LOOP_NAME rsub_scaled
#define LOOP_EXPR(a, b) ((CTYPE)((UTYPE)b - (UTYPE)a * (UTYPE)k[0]))
#define LOOP_TYPES (ET_TYPES_REAL)
#include "kernels/loops/binary_loop.inc.h"

#define LOOP_NAME mul
#define LOOP_EXPR(a, b) ((a & b) != 0)
#define LOOP_TYPES ET_TYPES_BOOL
#define LOOP_NO_TABLE
#include "kernels/loops/binary_loop.inc.h"

// ---- complex

#define COMPLEX_C eti_c64
#define COMPLEX_R float
#define COMPLEX_SUFFIX c64
#include "kernels/loops/complex_arith.inc.h"
#define COMPLEX_C eti_c128
#define COMPLEX_R double
#define COMPLEX_SUFFIX c128
#include "kernels/loops/complex_arith.inc.h"

// ---- maximum, minimum

#define LOOP_NAME maximum
#define LOOP_EXPR(a, b) (((a > b) | (a != a)) ? a : b)
#define LOOP_TYPES ET_TYPES_BOOL
#include "kernels/loops/binary_loop.inc.h"

#define LOOP_NAME minimum
#define LOOP_EXPR(a, b) (((a < b) | (a != a)) ? a : b)
#define LOOP_TYPES ET_TYPES_BOOL
#include "kernels/loops/binary_loop.inc.h"

// ---- powers

// Powers by squaring, modulo 2^bits. Negative exponents give 1 / a^|e| truncated to an integer.
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
#include "kernels/loops/binary_loop.inc.h"
// ---- bits

#define LOOP_NAME bitwise_and
#define LOOP_EXPR(a, b) (a & b)
#define LOOP_TYPES ET_TYPES_INT_BOOL
#include "kernels/loops/binary_loop.inc.h"

#define LOOP_NAME bitwise_or
#define LOOP_EXPR(a, b) (a | b)
#define LOOP_TYPES ET_TYPES_INT_BOOL
#include "kernels/loops/binary_loop.inc.h"

#define LOOP_NAME bitwise_xor
#define LOOP_EXPR(a, b) (a ^ b)
#define LOOP_TYPES ET_TYPES_INT_BOOL
#include "kernels/loops/binary_loop.inc.h"

// ---- logic, on operands converted to bool

#define LOOP_NAME logical_and
#define LOOP_EXPR(a, b) (a & b)
#define LOOP_TYPES ET_TYPES_BOOL
#include "kernels/loops/binary_loop.inc.h"

#define LOOP_NAME logical_or
#define LOOP_EXPR(a, b) (a | b)
#define LOOP_TYPES ET_TYPES_BOOL
#include "kernels/loops/binary_loop.inc.h"

#define LOOP_NAME logical_xor
#define LOOP_EXPR(a, b) (a ^ b)
#define LOOP_TYPES ET_TYPES_BOOL
#include "kernels/loops/binary_loop.inc.h"

// ---- tables of loops from several templates

#define INT_ROWS(name)                                                                \
  [ET_U8] = ETI_BUILT(ET_U8, name##_u8), [ET_I8] = ETI_BUILT(ET_I8, name##_i8),       \
  [ET_I16] = ETI_BUILT(ET_I16, name##_i16), [ET_I32] = ETI_BUILT(ET_I32, name##_i32), \
  [ET_I64] = ETI_BUILT(ET_I64, name##_i64)
#define COMPLEX_ROWS(name) \
  [ET_C64] = ETI_BUILT(ET_C64, name##_c64), [ET_C128] = ETI_BUILT(ET_C128, name##_c128)
static const eti_loop add_loops[ET_DTYPE_COUNT] = {INT_ROWS(add), [ET_B8] = add_b8};
static const eti_loop add_scaled_loops[ET_DTYPE_COUNT] = {
    INT_ROWS(add_scaled), [ET_B8] = add_scaled_b8, COMPLEX_ROWS(add_scaled)};
static const eti_loop mul_loops[ET_DTYPE_COUNT] = {[ET_B8] = mul_b8, COMPLEX_ROWS(mul)};
static const eti_loop div_loops[ET_DTYPE_COUNT] = {COMPLEX_ROWS(div)};

// ---- operators without parameters; both overloads take (self, other, out)

ETI_BINARY_OPERATOR(bitwise_and, .rule = ETI_RULE_SAME, .loops = bitwise_and_loops)
ETI_BINARY_OPERATOR(bitwise_or, .rule = ETI_RULE_SAME, .loops = bitwise_or_loops)
ETI_BINARY_OPERATOR(bitwise_xor, .rule = ETI_RULE_SAME, .loops = bitwise_xor_loops)
ETI_BINARY_OPERATOR(bitwise_left_shift, .rule = ETI_RULE_SAME,
                    .micro_int = ETI_MICRO_INT(left_shift))
ETI_BINARY_OPERATOR(bitwise_right_shift, .rule = ETI_RULE_SAME,
                    .micro_int = ETI_MICRO_INT(right_shift))
ETI_BINARY_OPERATOR(logical_and_out, .rule = ETI_RULE_LOGICAL, .loops = logical_and_loops)
ETI_BINARY_OPERATOR(logical_or_out, .rule = ETI_RULE_LOGICAL, .loops = logical_or_loops)
ETI_BINARY_OPERATOR(logical_xor_out, .rule = ETI_RULE_LOGICAL, .loops = logical_xor_loops)
ETI_BINARY_OPERATOR(maximum_out, .rule = ETI_RULE_SAME, .loops = maximum_loops,
                    .micro = ETI_MICRO_BINARY(maximum), .micro_int = ETI_MICRO_INT(maximum))
ETI_BINARY_OPERATOR(minimum_out, .rule = ETI_RULE_SAME, .loops = minimum_loops,
                    .micro = ETI_MICRO_BINARY(minimum), .micro_int = ETI_MICRO_INT(minimum))
ETI_BINARY_OPERATOR(mul_out, .rule = ETI_RULE_SAME, .loops = mul_loops,
                    .micro = ETI_MICRO_BINARY(mul), .micro_int = ETI_MICRO_INT(mul),
                    .wide_right = true)
ETI_BINARY_OPERATOR(div_out, .rule = ETI_RULE_FLOAT, .loops = div_loops,
                    .micro = ETI_MICRO_BINARY(div), .wide_right = true)
ETI_BINARY_OPERATOR(fmod, .rule = ETI_RULE_SAME, .micro = ETI_MICRO_BINARY(fmod),
                    .micro_int = ETI_MICRO_INT(fmod), .divides = true)
ETI_BINARY_OPERATOR(remainder, .rule = ETI_RULE_SAME, .micro = ETI_MICRO_BINARY(remainder),
                    .micro_int = ETI_MICRO_INT(remainder), .divides = true)
ETI_BINARY_OPERATOR(atan2_out, .rule = ETI_RULE_FLOAT, .micro = ETI_MICRO_BINARY(atan2),
                    .grain = ETI_GRAIN_MATH)

// ---- add, sub, rsub: with a factor for the second operand

static const eti_elementwise add_op = {
    .rule = ETI_RULE_SAME, .loops = add_loops, .micro = ETI_MICRO_BINARY(add)};
static const eti_elementwise add_scaled_op = {
    .rule = ETI_RULE_SAME, .loops = add_scaled_loops, .micro = ETI_MICRO_BINARY(add_scaled)};
static const eti_elementwise sub_op = {
    .rule = ETI_RULE_SAME, .loops = sub_loops, .micro = ETI_MICRO_BINARY(sub)};
static const eti_elementwise add_complex_op = {.rule = ETI_RULE_SAME, .loops = add_scaled_loops};
static const eti_elementwise rsub_op = {.rule = ETI_RULE_SAME, .loops = rsub_scaled_loops};

static et_status read_alpha(const et_kernel_ctx *ctx, et_value *const *args, et_dtype compute,
                            eti_scalar *alpha) {
  ET_TRY(eti_arg_scalar(ctx, args, 2, alpha));
  ET_CHECK(!(alpha->is_float && eti_is_integral(compute)), ctx->err, ET_INVALID_ARGUMENT,
           "alpha: expected an integer for integer operands, got %g", alpha->d);
  return ET_OK;
}

// Halves compute in f32, but ATen rounds the factor to a half.
static et_status set_alpha(const et_kernel_ctx *ctx, et_value *const *args, et_dtype compute,
                           eti_params *params, const eti_scalar *alpha) {
  eti_promotion p = ETI_PROMOTION_NONE;
  for (size_t i = 0; i < 2; i++) {
    if (args[i]->tag == ET_TENSOR) {
      eti_promote_tensor(&p, args[i]->as.tensor);
      continue;
    }
    eti_scalar number;
    ET_TRY(eti_arg_scalar(ctx, args, i, &number));
    eti_promote_scalar(&p, &number);
  }
  const et_dtype common = eti_promote_result(&p);
  eti_params_set(params, 0, alpha, compute);
  if (common != ET_F16 && common != ET_BF16) return ET_OK;
  uint16_t rounded;
  eti_casts[compute][common](&rounded, 0, params->bytes, 0, 1);
  eti_casts[common][compute](params->bytes, 0, &rounded, 0, 1);
  return ET_OK;
}

static et_status fill_alpha(const et_kernel_ctx *ctx, et_value *const *args, et_dtype compute,
                            eti_params *params) {
  eti_scalar alpha = {0};
  ET_TRY(read_alpha(ctx, args, compute, &alpha));
  return set_alpha(ctx, args, compute, params, &alpha);
}

static et_status fill_negative_alpha(const et_kernel_ctx *ctx, et_value *const *args,
                                     et_dtype compute, eti_params *params) {
  eti_scalar alpha = {0};
  ET_TRY(read_alpha(ctx, args, compute, &alpha));
  ET_CHECK(compute != ET_B8, ctx->err, ET_INVALID_ARGUMENT, "bool operands cannot be subtracted");
  alpha.d = -alpha.d;
  alpha.i = (int64_t)(0 - (uint64_t)alpha.i);
  return set_alpha(ctx, args, compute, params, &alpha);
}

static bool alpha_is_one(const et_value *v) {
  if (v == NULL) return false;
  return (v->tag == ET_INT && v->as.i == 1) || (v->tag == ET_DOUBLE && v->as.d == 1.0) ||
         (v->tag == ET_BOOL && v->as.b);
}

static bool is_complex_tensor(const et_value *v) {
  return v != NULL && v->tag == ET_TENSOR && eti_is_complex((et_dtype)v->as.tensor->dtype);
}

// A factor of 1, the usual case, uses the plain loops without parameters. Complex numbers are
// multiplied by it nevertheless, as in ATen: that makes infinite parts NaN.
static const eti_elementwise *choose_add(et_value *const *args, eti_fill_params *fill) {
  const bool plain = alpha_is_one(args[2]) && args[2]->tag != ET_DOUBLE;
  const bool complex = is_complex_tensor(args[0]) || is_complex_tensor(args[1]);
  *fill = plain && !complex ? NULL : fill_alpha;
  return complex ? &add_complex_op : plain ? &add_op : &add_scaled_op;
}

static const eti_elementwise *choose_sub(et_value *const *args, eti_fill_params *fill) {
  const bool plain = alpha_is_one(args[2]) && args[2]->tag != ET_DOUBLE;
  const bool complex = is_complex_tensor(args[0]) || is_complex_tensor(args[1]);
  *fill = plain && !complex ? NULL : fill_negative_alpha;
  return complex ? &add_complex_op : plain ? &sub_op : &add_scaled_op;
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

// ---- quotients rounded to integers

static const eti_elementwise div_trunc_op = {.rule = ETI_RULE_SAME,
                                             .micro = ETI_MICRO_BINARY(div_trunc),
                                             .micro_int = ETI_MICRO_INT(div_trunc),
                                             .divides = true,
                                             .wide_right = true};
static const eti_elementwise div_floor_op = {.rule = ETI_RULE_SAME,
                                             .micro = ETI_MICRO_BINARY(div_floor),
                                             .micro_int = ETI_MICRO_INT(div_floor),
                                             .divides = true,
                                             .wide_right = true};

et_status op_div_mode_out(et_kernel_ctx *ctx, et_value *const *args) {
  const char *mode;
  ET_TRY(eti_arg_string(ctx, args, 2, &mode));
  if (mode == NULL) return eti_binary_run(ctx, args, &div_out_op, 3, NULL);
  const bool floors = strcmp(mode, "floor") == 0;
  ET_CHECK(floors || strcmp(mode, "trunc") == 0, ctx->err, ET_INVALID_ARGUMENT,
           "rounding_mode: expected \"floor\", \"trunc\" or None, got \"%s\"", mode);
  if (eti_is_half_div(args)) return eti_half_div_run(ctx, args, 3, floors);
  return eti_binary_run(ctx, args, floors ? &div_floor_op : &div_trunc_op, 3, NULL);
}

et_status op_floor_divide_out(et_kernel_ctx *ctx, et_value *const *args) {
  if (eti_flat_run(ctx, args)) return ET_OK;
  if (eti_is_half_div(args)) return eti_half_div_run(ctx, args, 2, true);
  return eti_binary_run(ctx, args, &div_floor_op, 2, NULL);
}
et_status prepare_floor_divide_out(et_prepare_ctx *ctx, et_value *const *args) {
  if (eti_is_half_div(args)) return ET_OK;
  return eti_binary_prepare(ctx, args, &div_floor_op, 2, NULL);
}

// ---- pow

static const eti_elementwise pow_op = {.rule = ETI_RULE_SAME,
                                       .loops = pow_loops,
                                       .micro = ETI_MICRO_BINARY(pow),
                                       .grain = ETI_GRAIN_MATH};

// Exponents with a special loop, the same as in ATen: exact squares matter to norms and variances.
static const struct {
  double exponent;
  eti_elementwise op;
} short_powers[] = {
    {2.0, {.rule = ETI_RULE_SAME, .micro = ETI_MICRO_UNARY(square)}},
    {3.0, {.rule = ETI_RULE_SAME, .micro = ETI_MICRO_UNARY(cube)}},
    {-2.0, {.rule = ETI_RULE_SAME, .micro = ETI_MICRO_UNARY(inverse_square)}},
    {0.5, {.rule = ETI_RULE_SAME, .micro = ETI_MICRO_UNARY(sqrt)}},
    {-0.5, {.rule = ETI_RULE_SAME, .micro = ETI_MICRO_UNARY(rsqrt)}},
    {-1.0, {.rule = ETI_RULE_SAME, .micro = ETI_MICRO_UNARY(reciprocal)}},
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
  if (e != NULL && e->tag == ET_BOOL) {  // bools have integer powers
    et_value number = {.tag = ET_INT, .as = {.i = e->as.b}};
    et_value *const with_number[] = {args[0], &number, args[2]};
    return eti_binary_run(ctx, with_number, &pow_op, 2, NULL);
  }
  return eti_binary_run(ctx, args, &pow_op, 2, NULL);
}

et_status prepare_pow_tensor_scalar_out(et_prepare_ctx *ctx, et_value *const *args) {
  const eti_elementwise *op = short_power(args);
  if (op != NULL) return eti_unary_prepare(ctx, args, op, 2, NULL);
  const et_value *e = args[1];
  if (e == NULL || e->tag != ET_DOUBLE) return ET_OK;  // integer exponents are checked in run
  return eti_binary_prepare(ctx, args, &pow_op, 2, NULL);
}
