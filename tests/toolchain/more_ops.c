// more_ops.c — operators of a library for test_op_library.py: several results, an argument that is
// updated in place, optional and list arguments, a prepare step with memory of its own.
#include "kernels/custom.h"

// mylib::split_sign(Tensor x) -> (Tensor, Tensor): the positive and the negative part.
static et_status split_sign(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *t[3];
  for (size_t i = 0; i < 3; i++) ET_TRY(et_arg_tensor(ctx, args, i, &t[i]));
  for (size_t k = 1; k < 3; k++) {
    ET_TRY(et_resize_like(ctx, t[k], t[0]));
    ET_CHECK(et_same_layout(t[0], t[k]), ctx->err, ET_NOT_SUPPORTED, "layouts differ");
  }
  for (size_t i = 0; i < t[0]->numel; i++) {
    const float x = ((const float *)t[0]->data)[i];
    ((float *)t[1]->data)[i] = x > 0 ? x : 0;
    ((float *)t[2]->data)[i] = x > 0 ? 0 : x;
  }
  return ET_OK;
}

// mylib::count(Tensor(a!) seen, int by) -> (): adds to a buffer of i64. Without a result, a call
// carries the arguments alone.
static et_status count(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *seen;
  int64_t by;
  ET_TRY(et_arg_tensor(ctx, args, 0, &seen));
  ET_TRY(et_arg_int(ctx, args, 1, &by));
  for (size_t i = 0; i < seen->numel; i++) ((int64_t *)seen->data)[i] += by;
  return ET_OK;
}

// mylib::weigh(Tensor x, Tensor? bias, int[] weights) -> Tensor: x · Σ weights + bias. The sum is
// made once, when the method is loaded.
static et_status sum_weights(const et_kernel_ctx *ctx, et_value *const *args, double *sum) {
  int64_t weights[8];
  size_t n;
  ET_TRY(et_arg_ints(ctx, args, 2, weights, 8, &n));
  *sum = 0;
  for (size_t i = 0; i < n; i++) *sum += (double)weights[i];
  return ET_OK;
}

static et_status prepare_weigh(et_prepare_ctx *ctx, et_value *const *args) {
  const et_kernel_ctx k = et_prepare_args(ctx);
  double *sum = et_prepare_alloc(ctx, sizeof *sum, sizeof *sum);
  if (sum == NULL) return et_prepare_status(ctx);
  ET_TRY(sum_weights(&k, args, sum));
  ctx->state = sum;
  return ET_OK;
}

static et_status weigh(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *x, *bias, *out;
  ET_TRY(et_arg_tensor(ctx, args, 0, &x));
  ET_TRY(et_arg_optional_tensor(ctx, args, 1, &bias));
  ET_TRY(et_arg_tensor(ctx, args, 3, &out));
  ET_CHECK(ctx->state != NULL, ctx->err, ET_INVALID_STATE, "weigh was not prepared");
  ET_CHECK(bias == NULL || bias->numel == x->numel, ctx->err, ET_INVALID_ARGUMENT,
           "bias has %zu elements, x has %zu", bias == NULL ? 0 : bias->numel, x->numel);
  ET_TRY(et_resize_like(ctx, out, x));
  const float sum = (float)*(const double *)ctx->state;
  for (size_t i = 0; i < x->numel; i++) {
    const float b = bias == NULL ? 0 : ((const float *)bias->data)[i];
    ((float *)out->data)[i] = ((const float *)x->data)[i] * sum + b;
  }
  return ET_OK;
}

static const et_op ops[] = {
    {.name = "mylib::weigh.out",
     .run = weigh,
     .prepare = prepare_weigh,
     .n_args = 5,
     .in_dtypes = ET_TYPES_F32,
     .out_dtypes = ET_TYPES_F32},
    {.name = "mylib::split_sign.out",
     .run = split_sign,
     .n_args = 4,
     .writes = 3u << 1,
     .in_dtypes = ET_TYPES_F32,
     .out_dtypes = ET_TYPES_F32},
    {.name = "mylib::count",
     .run = count,
     .n_args = 2,
     .returns_nothing = true,
     .writes = 1u << 0,
     .out_dtypes = ET_DTYPE_BIT(ET_I64)},
};
ET_OP_LIBRARY(ops);
