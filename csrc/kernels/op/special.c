// special.c — special functions of one or two numbers, element by element: the gamma, error and
// Bessel families of micro/special.h, the usual ones in micro-kernels. f32 (and the halves through
// it) computes in f64 and rounds once; f64 takes longer elementary functions.
#include "kernels/lib/elementwise.h"
#include "kernels/kernel.h"
#include "kernels/loops/loop.h"
#include "kernels/micro/math/special.h"
#include "kernels/ops.h"

#define WIDE (sizeof(CTYPE) == sizeof(double))

// ---- one operand

#define LOOP_NAME polygamma
#define LOOP_EXPR(x) ((CTYPE)eti_polygamma((int64_t)k[0], (double)x, WIDE))
#define LOOP_TYPES ET_TYPES_FLOAT
#include "kernels/loops/unary.inc.h"

#define LOOP_NAME ndtri
#define LOOP_EXPR(x) ((CTYPE)eti_ndtri((double)x, WIDE))
#define LOOP_TYPES ET_TYPES_FLOAT
#include "kernels/loops/unary.inc.h"

#define FLOAT(name)        \
  {.rule = ETI_RULE_FLOAT, \
   .loops = name##_loops,  \
   .micro = ETI_NO_MICRO,  \
   .grain = ETI_GRAIN_MATH / 4}

#define MICRO(name) \
  {.rule = ETI_RULE_FLOAT, .micro = ETI_MICRO_UNARY(name), .grain = ETI_GRAIN_MATH / 4}

// X(operator, description)
#define UNARY_LIST(X)                  \
  X(digamma, MICRO(digamma))           \
  X(erfc, MICRO(erfc))                 \
  X(erfinv, MICRO(erfinv))             \
  X(i0, MICRO(i0))                     \
  X(lgamma, MICRO(lgamma))             \
  X(special_erfcx, MICRO(erfcx))       \
  X(special_i0e, MICRO(i0e))           \
  X(special_i1, MICRO(i1))             \
  X(special_i1e, MICRO(i1e))           \
  X(special_log_ndtr, MICRO(log_ndtr)) \
  X(special_ndtri, FLOAT(ndtri))

UNARY_LIST(ETI_UNARY_OPERATOR)

// ---- polygamma: (n, self, out), so that the frame, which reads the operand first, starts at self

static const eti_elementwise polygamma_op = FLOAT(polygamma);
static const eti_elementwise trigamma_op = MICRO(trigamma);

static et_status fill_order(const et_kernel_ctx *ctx, et_value *const *args, et_dtype compute,
                            eti_params *params) {
  eti_scalar n = {.is_float = false};
  ET_TRY(eti_arg_int(ctx, args - 1, 0, &n.i));
  ET_CHECK(n.i >= 0 && n.i <= 100000, ctx->err, ET_INVALID_ARGUMENT, "n is %lld, needs 0 to 100000",
           (long long)n.i);
  eti_params_set(params, 0, &n, compute);
  return ET_OK;
}

et_status op_polygamma_out(et_kernel_ctx *ctx, et_value *const *args) {
  const bool is_one = args[0] != NULL && args[0]->tag == ET_INT && args[0]->as.i == 1;
  return is_one ? eti_unary_run(ctx, args + 1, &trigamma_op, 1, NULL)
                : eti_unary_run(ctx, args + 1, &polygamma_op, 1, fill_order);
}

// ---- two operands

#define BINARY(kind, name) \
  {.rule = kind, .micro = ETI_MICRO_BINARY(name), .grain = ETI_GRAIN_MATH / 16}
static const eti_elementwise igamma_op = BINARY(ETI_RULE_SAME, igamma);
static const eti_elementwise igammac_op = BINARY(ETI_RULE_SAME, igammac);
static const eti_elementwise zeta_op = BINARY(ETI_RULE_FLOAT, zeta);

et_status op_igamma_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_binary_run(ctx, args, &igamma_op, 2, NULL);
}
et_status op_igammac_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_binary_run(ctx, args, &igammac_op, 2, NULL);
}
et_status op_special_zeta_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_binary_run(ctx, args, &zeta_op, 2, NULL);
}
