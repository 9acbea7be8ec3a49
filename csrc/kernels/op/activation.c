// activation.c — activations with parameters: gelu, elu, leaky_relu, and glu, which halves a
// dimension. (relu, sigmoid and tanh are in unary.c, hardtanh is a clamp in select.c.)
#include "kernels/lib/elementwise.h"
#include "kernels/kernel.h"
#include "kernels/loops/loop.h"
#include "kernels/ops.h"

#include <math.h>
#include <string.h>

#define ACTIVATION(name) \
  {.rule = ETI_RULE_SAME, .micro = ETI_MICRO_UNARY(name), .grain = ETI_GRAIN_MATH}
static const eti_elementwise gelu_op = ACTIVATION(gelu);
static const eti_elementwise gelu_tanh_op = ACTIVATION(gelu_tanh);
static const eti_elementwise elu_op = ACTIVATION(elu);
static const eti_elementwise leaky_relu_op = {.rule = ETI_RULE_SAME,
                                              .micro = ETI_MICRO_UNARY(leaky_relu)};
static const eti_elementwise glu_op = {
    .rule = ETI_RULE_SAME, .micro = ETI_MICRO_BINARY(glu), .grain = ETI_GRAIN_MATH};

// ---- gelu

static et_status choose_gelu(const et_kernel_ctx *ctx, et_value *const *args,
                             const eti_elementwise **op) {
  const char *approximate;
  ET_TRY(eti_arg_string(ctx, args, 1, &approximate));
  const bool tanh_form = approximate != NULL && strcmp(approximate, "tanh") == 0;
  ET_CHECK(tanh_form || (approximate != NULL && strcmp(approximate, "none") == 0), ctx->err,
           ET_INVALID_ARGUMENT, "approximate: expected \"none\" or \"tanh\", got \"%s\"",
           approximate != NULL ? approximate : "None");
  *op = tanh_form ? &gelu_tanh_op : &gelu_op;
  return ET_OK;
}

et_status op_gelu_out(et_kernel_ctx *ctx, et_value *const *args) {
  if (eti_flat_run(ctx, args)) return ET_OK;
  const eti_elementwise *op = NULL;
  ET_TRY(choose_gelu(ctx, args, &op));
  return eti_unary_run(ctx, args, op, 2, NULL);
}

et_status prepare_gelu_out(et_prepare_ctx *ctx, et_value *const *args) {
  const et_kernel_ctx k = eti_prepare_args(ctx);
  const eti_elementwise *op = NULL;
  ET_TRY(choose_gelu(&k, args, &op));
  return eti_unary_prepare(ctx, args, op, 2, NULL);
}

// ---- elu, leaky_relu

static et_status fill_elu(const et_kernel_ctx *ctx, et_value *const *args, et_dtype compute,
                          eti_params *params) {
  double alpha, scale, input_scale;
  ET_TRY(eti_arg_double(ctx, args, 1, &alpha));
  ET_TRY(eti_arg_double(ctx, args, 2, &scale));
  ET_TRY(eti_arg_double(ctx, args, 3, &input_scale));
  const eti_scalar k[3] = {eti_scalar_double(alpha * scale), eti_scalar_double(scale),
                           eti_scalar_double(input_scale)};
  for (size_t i = 0; i < 3; i++) eti_params_set(params, i, &k[i], compute);
  return ET_OK;
}

static et_status fill_slope(const et_kernel_ctx *ctx, et_value *const *args, et_dtype compute,
                            eti_params *params) {
  double slope;
  ET_TRY(eti_arg_double(ctx, args, 1, &slope));
  const eti_scalar k = eti_scalar_double(slope);
  eti_params_set(params, 0, &k, compute);
  return ET_OK;
}

et_status op_elu_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_unary_run(ctx, args, &elu_op, 4, fill_elu);
}
et_status prepare_elu_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_unary_prepare(ctx, args, &elu_op, 4, fill_elu);
}
et_status op_leaky_relu_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_unary_run(ctx, args, &leaky_relu_op, 2, fill_slope);
}
et_status prepare_leaky_relu_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_unary_prepare(ctx, args, &leaky_relu_op, 2, fill_slope);
}

// ---- glu: the first half of a dimension times the sigmoid of the second, both seen as tensors of
// their own

et_status op_glu_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self, *out;
  int64_t wanted = 0;
  size_t dim = 0;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_int(ctx, args, 1, &wanted));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &out));
  ET_TRY(eti_wrap_dim(ctx, wanted, self->rank, &dim));
  char found[ETI_TENSOR_TEXT];
  ET_CHECK(self->rank > 0 && self->sizes[dim] % 2 == 0, ctx->err, ET_INVALID_ARGUMENT,
           "self: expected an even size of dimension %zu, got %s", dim,
           eti_tensor_text(self, found));
  eti_shape half = eti_shape_of(self);
  half.sizes[dim] /= 2;
  const et_dtype compute = eti_compute_type((et_dtype)self->dtype);
  const eti_loop loop = eti_elementwise_loop(&glu_op, compute);
  ET_CHECK(loop != NULL, ctx->err, ET_NOT_SUPPORTED, "not defined for dtype %s",
           et_dtype_name((et_dtype)self->dtype));
  ET_TRY(eti_check_cast(ctx, (et_dtype)self->dtype, out));
  ET_TRY(eti_resize(ctx, out, &half));
  et_tensor a = *self, b = *self;
  a.sizes = b.sizes = half.sizes;
  a.numel = b.numel = self->numel / 2;
  const ptrdiff_t offset =
      half.sizes[dim] * self->strides[dim] * (ptrdiff_t)et_dtype_bytes((et_dtype)self->dtype);
  if (self->numel != 0) b.data = (char *)self->data + offset;
  et_tensor *operands[3] = {out, &a, &b};
  const eti_map map = {.loop = loop,
                       .grain = ETI_GRAIN_MATH,
                       .types = {(uint8_t)compute, (uint8_t)compute, (uint8_t)compute}};
  return eti_map_run(ctx, &map, operands, 3);
}
