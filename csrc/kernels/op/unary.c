// unary.c — operators of one tensor, element by element: rounding, signs, tests, and the elementary
// functions. Floats compute in micro-kernels (the halves through f32), integers in the loops here.
#include "kernels/lib/elementwise.h"
#include "kernels/kernel.h"
#include "kernels/loops/cast_values.h"
#include "kernels/loops/loop.h"
#include "kernels/ops.h"

#include <math.h>

// An entry of the tables that is called as such.
ETI_USES(binary, hypot)

// ---- the type stays

// Halves as bits, for what only changes their sign.
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
#include "kernels/loops/unary.inc.h"

// Rounding leaves integers alone.
#define LOOP_NAME same
#define LOOP_EXPR(x) x
#define LOOP_TYPES ET_TYPES_INT
#include "kernels/loops/unary.inc.h"

#define LOOP_NAME bitwise_not
#define LOOP_EXPR(x) (LOOP_IS_BOOL ? (CTYPE)(x == 0) : (CTYPE)~x)
#define LOOP_TYPES ET_TYPES_INT_BOOL
#include "kernels/loops/unary.inc.h"

// ---- tests

#define LOOP_NAME logical_not
#define LOOP_EXPR(x) (x == 0)
#define LOOP_TYPES ET_TYPES_BOOL
#include "kernels/loops/unary.inc.h"

#define LOOP_NAME isnan
#define LOOP_EXPR(x) (x != x)
#define LOOP_OUT uint8_t
#define LOOP_TYPES (ET_TYPES_REAL_BOOL)
#include "kernels/loops/unary.inc.h"

#define LOOP_NAME isinf
#define LOOP_EXPR(x) (LOOP_IS_FLOAT && fabs((double)x) == (double)INFINITY)
#define LOOP_OUT uint8_t
#define LOOP_TYPES (ET_TYPES_REAL_BOOL)
#include "kernels/loops/unary.inc.h"

// ---- the operators

#define WHOLE(name) {.rule = ETI_RULE_SAME, .loops = same_loops, .micro = ETI_MICRO_UNARY(name)}
#define MICRO(name) \
  .rule = ETI_RULE_SAME, .micro = ETI_MICRO_UNARY(name), .micro_int = ETI_MICRO_INT(name)
#define SAME(name) {MICRO(name)}
#define SIGN {MICRO(sign), .loops = sign_loops}
#define SIGN_BIT(name) {MICRO(name), .halves = name##_half}
#define SAME_INT(name) {.rule = ETI_RULE_SAME, .loops = name##_loops, .micro = ETI_NO_MICRO}
#define TEST(name) {.rule = ETI_RULE_COMPARE, .loops = name##_loops, .micro = ETI_NO_MICRO}
#define FLOAT(name) \
  {.rule = ETI_RULE_FLOAT, .micro = ETI_MICRO_UNARY(name), .grain = ETI_GRAIN_MATH}
#define LOGICAL(name) {.rule = ETI_RULE_LOGICAL, .loops = name##_loops, .micro = ETI_NO_MICRO}

// X(operator, description)
#define UNARY_LIST(X)                   \
  X(bitwise_not, SAME_INT(bitwise_not)) \
  X(ceil, WHOLE(ceil))                  \
  X(floor, WHOLE(floor))                \
  X(isinf, TEST(isinf))                 \
  X(isnan, TEST(isnan))                 \
  X(logical_not, LOGICAL(logical_not))  \
  X(neg, SIGN_BIT(neg))                 \
  X(relu, SAME(relu))                   \
  X(round, WHOLE(round))                \
  X(sign, SIGN)                         \
  X(trunc, WHOLE(trunc))                \
  X(acos, FLOAT(acos))                  \
  X(acosh, FLOAT(acosh))                \
  X(asin, FLOAT(asin))                  \
  X(asinh, FLOAT(asinh))                \
  X(atan, FLOAT(atan))                  \
  X(atanh, FLOAT(atanh))                \
  X(cos, FLOAT(cos))                    \
  X(cosh, FLOAT(cosh))                  \
  X(erf, FLOAT(erf))                    \
  X(exp, FLOAT(exp))                    \
  X(expm1, FLOAT(expm1))                \
  X(log, FLOAT(log))                    \
  X(log10, FLOAT(log10))                \
  X(log1p, FLOAT(log1p))                \
  X(log2, FLOAT(log2))                  \
  X(reciprocal, FLOAT(reciprocal))      \
  X(rsqrt, FLOAT(rsqrt))                \
  X(sigmoid, FLOAT(sigmoid))            \
  X(sin, FLOAT(sin))                    \
  X(sinh, FLOAT(sinh))                  \
  X(sqrt, FLOAT(sqrt))                  \
  X(tan, FLOAT(tan))                    \
  X(tanh, FLOAT(tanh))

UNARY_LIST(ETI_UNARY_OPERATOR)

// ---- abs: of complex numbers it is their size, a real number

static const eti_elementwise abs_op = SIGN_BIT(abs);

#define SIZES 256u  // computed together

static void sizes(void *const p[], const ptrdiff_t s[], size_t n, et_dtype part, eti_loop length) {
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
  sizes(p, s, n, ET_F32, eti_eltwise_get()->binary.hypot);
}

static void size_c128(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  (void)params;
  sizes(p, s, n, ET_F64, eti_eltwise_get()->binary_f64.hypot);
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

// ---- logit: an eps of None leaves the operand as it is

static const eti_elementwise logit_op = FLOAT(logit);
static const eti_elementwise logit_eps_op = FLOAT(logit_eps);

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
