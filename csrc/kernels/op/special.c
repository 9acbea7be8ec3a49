// special.c — special functions of one or two numbers, element by element: the gamma, error and
// Bessel families of micro/math/special_functions.h, the usual ones in micro-kernels. f32 (and the
// halves through it) computes in f64 and rounds once; f64 uses longer elementary functions.
#include "kernels/lib/elementwise.h"
#include "kernels/kernel.h"
#include "kernels/loops/loop.h"
#include "kernels/micro/math/special_functions.h"
#include "kernels/ops.h"

#define WIDE (sizeof(CTYPE) == sizeof(double))

// ---- one operand

#define LOOP_NAME polygamma
#define LOOP_EXPR(x) ((CTYPE)eti_polygamma((int64_t)k[0], (double)x, WIDE))
#define LOOP_TYPES ET_TYPES_FLOAT
#include "kernels/loops/unary_loop.inc.h"

#define LOOP_NAME ndtri
#define LOOP_EXPR(x) ((CTYPE)eti_ndtri((double)x, WIDE))
#define LOOP_TYPES ET_TYPES_FLOAT
#include "kernels/loops/unary_loop.inc.h"

#define FLOAT(name) \
  .rule = ETI_RULE_FLOAT, .micro = ETI_MICRO_UNARY(name), .grain = ETI_GRAIN_MATH / 4
ETI_UNARY_OPERATOR(digamma_out, FLOAT(digamma))
ETI_UNARY_OPERATOR(erfc_out, FLOAT(erfc))
ETI_UNARY_OPERATOR(erfinv_out, FLOAT(erfinv))
ETI_UNARY_OPERATOR(i0_out, FLOAT(i0))
ETI_UNARY_OPERATOR(lgamma_out, FLOAT(lgamma))
ETI_UNARY_OPERATOR(special_erfcx_out, FLOAT(erfcx))
ETI_UNARY_OPERATOR(special_i0e_out, FLOAT(i0e))
ETI_UNARY_OPERATOR(special_i1_out, FLOAT(i1))
ETI_UNARY_OPERATOR(special_i1e_out, FLOAT(i1e))
ETI_UNARY_OPERATOR(special_log_ndtr_out, FLOAT(log_ndtr))
ETI_UNARY_OPERATOR(special_ndtri_out, .rule = ETI_RULE_FLOAT, .loops = ndtri_loops,
                   .grain = ETI_GRAIN_MATH / 4)

// ---- polygamma: (n, self, out); the frame reads the operand first, so it starts at self

static const eti_elementwise polygamma_op = {
    .rule = ETI_RULE_FLOAT, .loops = polygamma_loops, .grain = ETI_GRAIN_MATH / 4};
static const eti_elementwise trigamma_op = {FLOAT(trigamma)};

static et_status fill_order(const et_kernel_ctx *ctx, et_value *const *args, et_dtype compute,
                            eti_params *params) {
  eti_scalar n = {.is_float = false};
  ET_TRY(eti_arg_int(ctx, args - 1, 0, &n.i));
  ET_CHECK(n.i >= 0 && n.i <= 100000, ctx->err, ET_INVALID_ARGUMENT,
           "n: expected 0 to 100000, got %lld", (long long)n.i);
  eti_params_set(params, 0, &n, compute);
  return ET_OK;
}

et_status op_polygamma_out(et_kernel_ctx *ctx, et_value *const *args) {
  const bool is_one = args[0] != NULL && args[0]->tag == ET_INT && args[0]->as.i == 1;
  return is_one ? eti_unary_run(ctx, args + 1, &trigamma_op, 1, NULL)
                : eti_unary_run(ctx, args + 1, &polygamma_op, 1, fill_order);
}

// ---- two operands

static const eti_elementwise igamma_op = {
    .rule = ETI_RULE_SAME, .micro = ETI_MICRO_BINARY(igamma), .grain = ETI_GRAIN_MATH / 16};
static const eti_elementwise igammac_op = {
    .rule = ETI_RULE_SAME, .micro = ETI_MICRO_BINARY(igammac), .grain = ETI_GRAIN_MATH / 16};
static const eti_elementwise zeta_op = {
    .rule = ETI_RULE_FLOAT, .micro = ETI_MICRO_BINARY(zeta), .grain = ETI_GRAIN_MATH / 16};

et_status op_igamma_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_binary_run(ctx, args, &igamma_op, 2, NULL);
}
et_status op_igammac_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_binary_run(ctx, args, &igammac_op, 2, NULL);
}
et_status op_special_zeta_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_binary_run(ctx, args, &zeta_op, 2, NULL);
}
