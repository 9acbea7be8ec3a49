// unary.c — operators of one tensor, element by element: rounding, signs, tests, and the elementary
// functions. Floats compute in micro-kernels (the halves through f32), integers in the loops here.
#include "kernels/lib/elementwise.h"
#include "kernels/kernel.h"
#include "kernels/loops/cast_values.h"
#include "kernels/loops/loop.h"
#include "kernels/ops.h"

#include <math.h>

// The entry of the tables that this file calls directly.
ETI_USES(binary, hypot)

// ---- operators that keep the type

// Changes bits of halves, for operators that only change the sign.
static inline void change_bits(void *const p[], const ptrdiff_t s[], size_t n, unsigned keep,
                               unsigned turn) {
  if (s[0] == sizeof(uint16_t) && s[1] == sizeof(uint16_t)) {
    uint16_t *out = p[0];
    const uint16_t *in = p[1];
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) out[i] = (uint16_t)((in[i] & keep) ^ turn);
    return;
  }
  for (size_t i = 0; i < n; i++)
    ETI_AT(uint16_t, p[0], i, s[0]) = (uint16_t)((ETI_CAT(uint16_t, p[1], i, s[1]) & keep) ^ turn);
}
static void abs_half(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  (void)params;
  change_bits(p, s, n, 0x7FFFu, 0);
}
static void neg_half(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  (void)params;
  change_bits(p, s, n, 0xFFFFu, 0x8000u);
}

#define LOOP_NAME sign
#define LOOP_EXPR(x) ((x > 0) - LOOP_IS_NEGATIVE(x))
#define LOOP_TYPES ET_TYPES_BOOL
#include "kernels/loops/unary_loop.inc.h"

// Rounding leaves integers alone.
#define LOOP_NAME same
#define LOOP_EXPR(x) x
#define LOOP_TYPES ET_TYPES_INT
#include "kernels/loops/unary_loop.inc.h"

#define LOOP_NAME bitwise_not
#define LOOP_EXPR(x) (LOOP_IS_BOOL ? (CTYPE)(x == 0) : (CTYPE)~x)
#define LOOP_TYPES ET_TYPES_INT_BOOL
#include "kernels/loops/unary_loop.inc.h"

// ---- tests

#define LOOP_NAME logical_not
#define LOOP_EXPR(x) (x == 0)
#define LOOP_TYPES ET_TYPES_BOOL
#include "kernels/loops/unary_loop.inc.h"

#define LOOP_NAME isnan
#define LOOP_EXPR(x) (x != x)
#define LOOP_OUT uint8_t
#define LOOP_TYPES (ET_TYPES_REAL_BOOL)
#include "kernels/loops/unary_loop.inc.h"

#define LOOP_NAME isinf
#define LOOP_EXPR(x) (LOOP_IS_FLOAT && fabs((double)x) == (double)INFINITY)
#define LOOP_OUT uint8_t
#define LOOP_TYPES (ET_TYPES_REAL_BOOL)
#include "kernels/loops/unary_loop.inc.h"

// ---- the operators

ETI_UNARY_OPERATOR(bitwise_not_out, .rule = ETI_RULE_SAME, .loops = bitwise_not_loops)
ETI_UNARY_OPERATOR(ceil_out, .rule = ETI_RULE_SAME, .loops = same_loops,
                   .micro = ETI_MICRO_UNARY(ceil))
ETI_UNARY_OPERATOR(floor_out, .rule = ETI_RULE_SAME, .loops = same_loops,
                   .micro = ETI_MICRO_UNARY(floor))
ETI_UNARY_OPERATOR(isinf_out, .rule = ETI_RULE_COMPARE, .loops = isinf_loops)
ETI_UNARY_OPERATOR(isnan_out, .rule = ETI_RULE_COMPARE, .loops = isnan_loops)
ETI_UNARY_OPERATOR(logical_not_out, .rule = ETI_RULE_LOGICAL, .loops = logical_not_loops)
ETI_UNARY_OPERATOR(neg_out, .rule = ETI_RULE_SAME, .micro = ETI_MICRO_UNARY(neg),
                   .micro_int = ETI_MICRO_INT(neg), .halves = neg_half)
ETI_UNARY_OPERATOR(relu_out, .rule = ETI_RULE_SAME, .micro = ETI_MICRO_UNARY(relu),
                   .micro_int = ETI_MICRO_INT(relu))
ETI_UNARY_OPERATOR(round_out, .rule = ETI_RULE_SAME, .loops = same_loops,
                   .micro = ETI_MICRO_UNARY(round))
ETI_UNARY_OPERATOR(sign_out, .rule = ETI_RULE_SAME, .micro = ETI_MICRO_UNARY(sign),
                   .micro_int = ETI_MICRO_INT(sign), .loops = sign_loops)
ETI_UNARY_OPERATOR(trunc_out, .rule = ETI_RULE_SAME, .loops = same_loops,
                   .micro = ETI_MICRO_UNARY(trunc))

// Functions of floats; integers and bool compute in f32.
#define FLOAT(name) .rule = ETI_RULE_FLOAT, .micro = ETI_MICRO_UNARY(name), .grain = ETI_GRAIN_MATH
ETI_UNARY_OPERATOR(acos_out, FLOAT(acos))
ETI_UNARY_OPERATOR(acosh_out, FLOAT(acosh))
ETI_UNARY_OPERATOR(asin_out, FLOAT(asin))
ETI_UNARY_OPERATOR(asinh_out, FLOAT(asinh))
ETI_UNARY_OPERATOR(atan_out, FLOAT(atan))
ETI_UNARY_OPERATOR(atanh_out, FLOAT(atanh))
ETI_UNARY_OPERATOR(cos_out, FLOAT(cos))
ETI_UNARY_OPERATOR(cosh_out, FLOAT(cosh))
ETI_UNARY_OPERATOR(erf_out, FLOAT(erf))
ETI_UNARY_OPERATOR(exp_out, FLOAT(exp))
ETI_UNARY_OPERATOR(expm1_out, FLOAT(expm1))
ETI_UNARY_OPERATOR(log_out, FLOAT(log))
ETI_UNARY_OPERATOR(log10_out, FLOAT(log10))
ETI_UNARY_OPERATOR(log1p_out, FLOAT(log1p))
ETI_UNARY_OPERATOR(log2_out, FLOAT(log2))
ETI_UNARY_OPERATOR(reciprocal_out, FLOAT(reciprocal))
ETI_UNARY_OPERATOR(rsqrt_out, FLOAT(rsqrt))
ETI_UNARY_OPERATOR(sigmoid_out, FLOAT(sigmoid))
ETI_UNARY_OPERATOR(sin_out, FLOAT(sin))
ETI_UNARY_OPERATOR(sinh_out, FLOAT(sinh))
ETI_UNARY_OPERATOR(sqrt_out, FLOAT(sqrt))
ETI_UNARY_OPERATOR(tan_out, FLOAT(tan))
ETI_UNARY_OPERATOR(tanh_out, FLOAT(tanh))

// ---- abs: for complex numbers the magnitude, a real number

static const eti_elementwise abs_op = {.rule = ETI_RULE_SAME,
                                       .micro = ETI_MICRO_UNARY(abs),
                                       .micro_int = ETI_MICRO_INT(abs),
                                       .halves = abs_half};

#define SIZES 64u  // computed together

static void run_sizes(void *const p[], const ptrdiff_t s[], size_t n, et_dtype part,
                      eti_loop length) {
  double re[SIZES], im[SIZES];
  const ptrdiff_t bytes = (ptrdiff_t)et_dtype_bytes(part), steps[3] = {s[0], bytes, bytes};
  const eti_cast_fn copy = eti_casts[part][part];
  for (size_t i = 0; i < n; i += SIZES) {
    const size_t m = n - i < SIZES ? n - i : SIZES;
    const char *const x = (const char *)p[1] + (ptrdiff_t)i * s[1];
    copy(re, bytes, x, s[1], m);
    copy(im, bytes, x + bytes, s[1], m);
    length((void *[]){(char *)p[0] + (ptrdiff_t)i * s[0], re, im}, steps, m, NULL);
  }
}

static void size_c64(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  (void)params;
  run_sizes(p, s, n, ET_F32, eti_eltwise_get()->binary.hypot);
}

static void size_c128(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  (void)params;
  run_sizes(p, s, n, ET_F64, eti_eltwise_get()->binary_f64.hypot);
}

et_status op_abs_out(et_kernel_ctx *ctx, et_value *const *args) {
  if (args[0] == NULL || args[0]->tag != ET_TENSOR ||
      !eti_is_complex((et_dtype)args[0]->as.tensor->dtype)) {
    return eti_unary_run(ctx, args, &abs_op, 1, NULL);
  }
  et_tensor *operands[2];
  ET_TRY(eti_arg_tensor(ctx, args, 0, &operands[1]));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &operands[0]));
  const et_dtype dtype = (et_dtype)operands[1]->dtype, part = dtype == ET_C128 ? ET_F64 : ET_F32;
  ET_CHECK(eti_dtype_in(dtype, ET_TYPES_COMPLEX), ctx->err, ET_NOT_SUPPORTED,
           "self: not defined for dtype %s", et_dtype_name(dtype));
  ET_TRY(eti_check_cast(ctx, part, operands[0]));
  ET_TRY(eti_resize_like(ctx, operands[0], operands[1]));
  const eti_map map = {.loop = dtype == ET_C128 ? size_c128 : size_c64,
                       .types = {(uint8_t)part, (uint8_t)dtype}};
  return eti_map_run(ctx, &map, operands, 2);
}

et_status prepare_abs_out(et_prepare_ctx *ctx, et_value *const *args) {
  if (args[0] == NULL || args[0]->tag != ET_TENSOR ||
      eti_is_complex((et_dtype)args[0]->as.tensor->dtype))
    return ET_OK;
  return eti_unary_prepare(ctx, args, &abs_op, 1, NULL);
}

// ---- logit: an eps of None leaves the operand unchanged

static const eti_elementwise logit_op = {FLOAT(logit)};
static const eti_elementwise logit_eps_op = {FLOAT(logit_eps)};

static et_status fill_logit(const et_kernel_ctx *ctx, et_value *const *args, et_dtype compute,
                            eti_params *params) {
  double eps;
  ET_TRY(eti_arg_double(ctx, args, 1, &eps));
  const eti_scalar low = eti_scalar_double(eps), high = eti_scalar_double(1.0 - eps);
  eti_params_set(params, 0, &low, compute);
  eti_params_set(params, 1, &high, compute);
  return ET_OK;
}

et_status op_logit_out(et_kernel_ctx *ctx, et_value *const *args) {
  if (args[1] == NULL || args[1]->tag == ET_NONE)
    return eti_unary_run(ctx, args, &logit_op, 2, NULL);
  return eti_unary_run(ctx, args, &logit_eps_op, 2, fill_logit);
}
