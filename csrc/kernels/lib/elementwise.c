// elementwise.c — see elementwise.h.
#include "kernels/lib/elementwise.h"

#include "kernels/lib/args.h"

eti_loop eti_elementwise_loop(const eti_elementwise *op, et_dtype compute) {
  if ((unsigned)compute >= ET_DTYPE_COUNT) return NULL;
  if (op->micro != ETI_NO_FLOAT_LOOP && (compute == ET_F32 || compute == ET_F64))
    return eti_eltwise_get()->float_loops[compute == ET_F64][op->micro];
  if (op->micro_int != ETI_NO_INT_LOOP && compute <= ET_I64)
    return eti_eltwise_get()->int_loops[op->micro_int][compute];
  return op->loops == NULL ? NULL : op->loops[compute];
}

void eti_params_set(eti_params *params, size_t i, const eti_scalar *value, et_dtype compute) {
  const size_t bytes = et_dtype_bytes(compute);
  if (ET_NEVER((i + 1) * bytes > sizeof params->bytes)) return;
  (void)eti_scalar_store(value, compute, params->bytes + i * bytes);
}

// The types of an operator's result and of its computation, given its operands' common type.
static void apply_rule(eti_rule rule, et_dtype common, et_dtype *result, et_dtype *compute) {
  if (rule == ETI_RULE_FLOAT) common = eti_to_float(common);
  *result = rule == ETI_RULE_COMPARE || rule == ETI_RULE_LOGICAL ? ET_B8 : common;
  *compute = rule == ETI_RULE_LOGICAL ? ET_B8 : eti_compute_type(common);
}

static uint8_t loop_output(eti_rule rule, et_dtype compute) {
  return (uint8_t)(rule == ETI_RULE_COMPARE || rule == ETI_RULE_LOGICAL ? ET_B8 : compute);
}

static et_status check_output(const et_kernel_ctx *ctx, eti_rule rule, et_dtype result,
                              const et_tensor *out) {
  if (rule == ETI_RULE_COMPARE || rule == ETI_RULE_LOGICAL)
    return ET_OK;  // bool converts to everything
  return eti_check_cast(ctx, result, out);
}

static et_status no_loop(const et_kernel_ctx *ctx, et_dtype compute) {
  return ET_FAIL(ctx->err, ET_NOT_SUPPORTED, "not defined for dtype %s", et_dtype_name(compute));
}

// ---- one operand

static et_status unary_map(const et_kernel_ctx *ctx, et_value *const *args,
                           const eti_elementwise *op, const et_tensor *in, const et_tensor *out,
                           eti_fill_params fill, eti_map *map, eti_params *params) {
  et_dtype result, compute;
  apply_rule(op->rule, (et_dtype)in->dtype, &result, &compute);
  ET_TRY(check_output(ctx, op->rule, result, out));
  const bool as_bits = op->halves != NULL && compute != result;
  if (as_bits) compute = result;
  const eti_loop loop = as_bits ? op->halves : eti_elementwise_loop(op, compute);
  if (loop == NULL) return no_loop(ctx, compute);
  if (fill != NULL) ET_TRY(fill(ctx, args, compute, params));
  *map = (eti_map){.loop = loop,
                   .params = params,
                   .grain = op->grain,
                   .types = {loop_output(op->rule, compute), (uint8_t)compute}};
  return ET_OK;
}

et_status eti_unary_run(et_kernel_ctx *ctx, et_value *const *args, const eti_elementwise *op,
                        size_t i_out, eti_fill_params fill) {
  if (eti_flat_run(ctx, args)) return ET_OK;
  et_tensor *operands[2];
  ET_TRY(eti_arg_tensor(ctx, args, 0, &operands[1]));
  ET_TRY(eti_arg_tensor(ctx, args, i_out, &operands[0]));
  eti_map map;
  eti_params params = {.align = 0.0};
  ET_TRY(unary_map(ctx, args, op, operands[1], operands[0], fill, &map, &params));
  ET_TRY(eti_resize_like(ctx, operands[0], operands[1]));
  return eti_map_run(ctx, &map, operands, 2);
}

// True when every scalar argument is known, as a prepare step needs.
static bool arguments_known(et_value *const *args, size_t i_out, eti_fill_params fill) {
  for (size_t i = 0; fill != NULL && i < i_out; i++) {
    if (args[i] == NULL || args[i]->tag == ET_NONE) return false;
  }
  return true;
}

et_status eti_unary_prepare(et_prepare_ctx *ctx, et_value *const *args, const eti_elementwise *op,
                            size_t i_out, eti_fill_params fill) {
  if (!arguments_known(args, i_out, fill)) return ET_OK;
  const et_kernel_ctx k = eti_prepare_args(ctx);
  et_tensor *in, *out;
  ET_TRY(eti_arg_tensor(&k, args, 0, &in));
  ET_TRY(eti_arg_tensor(&k, args, i_out, &out));
  eti_map map;
  eti_params params = {.align = 0.0};
  ET_TRY(unary_map(&k, args, op, in, out, fill, &map, &params));
  const uint8_t arg[2] = {(uint8_t)i_out, 0};
  return eti_flat_prepare(ctx, &map, args, arg, 2, sizeof params);
}

// ---- two operands

typedef struct operand {
  et_tensor *tensor;  // NULL for a number
  eti_scalar scalar;
} operand;

static et_status read_operand(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                              operand *out) {
  out->tensor = NULL;
  if (args[i] != NULL && args[i]->tag == ET_TENSOR)
    return eti_arg_tensor(ctx, args, i, &out->tensor);
  return eti_arg_scalar(ctx, args, i, &out->scalar);
}

static et_status common_type(const et_kernel_ctx *ctx, const operand in[2], et_dtype *out) {
  eti_promotion p = ETI_PROMOTION_NONE;
  for (size_t i = 0; i < 2; i++) {
    if (in[i].tensor != NULL) {
      eti_promote_tensor(&p, in[i].tensor);
    } else {
      eti_promote_scalar(&p, &in[i].scalar);
    }
  }
  *out = eti_promote_result(&p);
  ET_CHECK(*out != ET_DTYPE_COUNT, ctx->err, ET_INVALID_ARGUMENT,
           "the operands' dtypes have no common type");
  return ET_OK;
}

// True if a tensor contains 0. Tensors are dense, so its elements are the first numel in memory.
static bool has_zero(const et_tensor *t) {
  uint64_t zeros = 0;
  switch (et_dtype_bytes((et_dtype)t->dtype)) {
    case 1:
      for (size_t i = 0; i < t->numel; i++) zeros |= ((const uint8_t *)t->data)[i] == 0;
      break;
    case 2:
      for (size_t i = 0; i < t->numel; i++) zeros |= ((const uint16_t *)t->data)[i] == 0;
      break;
    case 4:
      for (size_t i = 0; i < t->numel; i++) zeros |= ((const uint32_t *)t->data)[i] == 0;
      break;
    default:
      for (size_t i = 0; i < t->numel; i++) zeros |= ((const uint64_t *)t->data)[i] == 0;
      break;
  }
  return zeros != 0;
}

static et_status check_divisor(const et_kernel_ctx *ctx, const operand *b) {
  const bool zero = b->tensor != NULL ? has_zero(b->tensor) : b->scalar.i == 0;
  ET_CHECK(!zero, ctx->err, ET_INVALID_ARGUMENT, "integer division by zero");
  return ET_OK;
}

// The half type that an operand is rounded to. ATen computes halves in f32, from operands rounded
// to the common type; only a product and a quotient use a number on the right unrounded.
static uint8_t rounded_to(const eti_elementwise *op, const operand *in, bool right,
                          et_dtype common) {
  if (op->rule == ETI_RULE_LOGICAL || eti_compute_type(common) == common) return 0;
  if (in->tensor != NULL && in->tensor->dtype == common) return 0;
  const bool one = in->tensor == NULL || in->tensor->numel == 1;
  return right && one && op->wide_right ? 0 : (uint8_t)common;
}

static et_status binary_map(const et_kernel_ctx *ctx, et_value *const *args,
                            const eti_elementwise *op, const operand in[2], const et_tensor *out,
                            eti_fill_params fill, eti_map *map, eti_params *params) {
  et_dtype common, result, compute;
  ET_TRY(common_type(ctx, in, &common));
  apply_rule(op->rule, common, &result, &compute);
  ET_TRY(check_output(ctx, op->rule, result, out));
  const eti_loop loop = eti_elementwise_loop(op, compute);
  if (loop == NULL) return no_loop(ctx, compute);
  const uint8_t via[2] = {rounded_to(op, &in[0], false, common),
                          rounded_to(op, &in[1], true, common)};
  for (size_t i = 0; i < 2; i++) {
    if (in[i].tensor != NULL) continue;
    unsigned char rounded[16];
    unsigned char *to = params->bytes + ETI_PARAM_OPERAND;
    (void)eti_scalar_store(&in[i].scalar, compute, to);
    if (via[i] == 0) continue;
    (void)eti_scalar_store(&in[i].scalar, (et_dtype)via[i], rounded);
    eti_casts[via[i]][compute](to, 0, rounded, 0, 1);
  }
  if (fill != NULL) ET_TRY(fill(ctx, args, compute, params));
  *map =
      (eti_map){.loop = loop,
                .params = params,
                .grain = op->grain,
                .types = {loop_output(op->rule, compute), (uint8_t)compute, (uint8_t)compute},
                .via = {0, in[0].tensor != NULL ? via[0] : 0, in[1].tensor != NULL ? via[1] : 0}};
  return ET_OK;
}

static et_status binary_general(et_kernel_ctx *ctx, et_value *const *args,
                                const eti_elementwise *op, et_tensor *out, const operand in[2],
                                eti_fill_params fill) {
  eti_map map;
  eti_params params = {.align = 0.0};
  ET_TRY(binary_map(ctx, args, op, in, out, fill, &map, &params));
  if (op->divides && eti_is_integral((et_dtype)map.types[1])) ET_TRY(check_divisor(ctx, &in[1]));
  et_tensor number = {
      .data = params.bytes + ETI_PARAM_OPERAND, .numel = 1, .capacity = 1, .dtype = map.types[1]};
  et_tensor *operands[3] = {out, &number, &number};
  eti_shape shape = {.rank = 0};
  for (size_t i = 0; i < 2; i++) {
    if (in[i].tensor == NULL) continue;
    operands[i + 1] = in[i].tensor;
    const eti_shape own = eti_shape_of(in[i].tensor);
    ET_TRY(eti_broadcast(ctx, &shape, &own, &shape));
  }
  ET_TRY(eti_resize(ctx, out, &shape));
  return eti_map_run(ctx, &map, operands, 3);
}

// Runs the usual case without prepare (dynamic shapes): three tensors of one type and layout, and a
// loop without parameters.
static bool run_same_layout(et_value *const *args, const eti_elementwise *op, size_t i_out) {
  if (args[0]->tag != ET_TENSOR || args[1]->tag != ET_TENSOR || args[i_out]->tag != ET_TENSOR ||
      op->divides)
    return false;
  const et_tensor *a = args[0]->as.tensor, *b = args[1]->as.tensor, *out = args[i_out]->as.tensor;
  et_dtype result, compute;
  apply_rule(op->rule, (et_dtype)a->dtype, &result, &compute);
  if (b->dtype != a->dtype || compute != (et_dtype)a->dtype || out->dtype != (uint8_t)result)
    return false;
  if (a->numel == 0 || a->numel > ETI_GRAIN_MATH || a->data == NULL || b->data == NULL ||
      out->data == NULL)
    return false;
  if (!eti_same_layout(a, b) || !eti_same_layout(a, out)) return false;
  const eti_loop loop = eti_elementwise_loop(op, compute);
  if (loop == NULL) return false;
  const ptrdiff_t in_bytes = (ptrdiff_t)et_dtype_bytes(compute);
  void *const p[3] = {out->data, a->data, b->data};
  const ptrdiff_t s[3] = {(ptrdiff_t)et_dtype_bytes(result), in_bytes, in_bytes};
  loop(p, s, a->numel, NULL);
  return true;
}

et_status eti_binary_run(et_kernel_ctx *ctx, et_value *const *args, const eti_elementwise *op,
                         size_t i_out, eti_fill_params fill) {
  if (eti_flat_run(ctx, args) || (fill == NULL && run_same_layout(args, op, i_out))) return ET_OK;
  operand in[2];
  et_tensor *out;
  ET_TRY(read_operand(ctx, args, 0, &in[0]));
  ET_TRY(read_operand(ctx, args, 1, &in[1]));
  ET_TRY(eti_arg_tensor(ctx, args, i_out, &out));
  return binary_general(ctx, args, op, out, in, fill);
}

et_status eti_binary_prepare(et_prepare_ctx *ctx, et_value *const *args, const eti_elementwise *op,
                             size_t i_out, eti_fill_params fill) {
  for (size_t i = 0; i < i_out; i++) {
    if (args[i] == NULL || args[i]->tag == ET_NONE) return ET_OK;
  }
  const et_kernel_ctx k = eti_prepare_args(ctx);
  operand in[2];
  et_tensor *out;
  ET_TRY(read_operand(&k, args, 0, &in[0]));
  ET_TRY(read_operand(&k, args, 1, &in[1]));
  ET_TRY(eti_arg_tensor(&k, args, i_out, &out));
  eti_map map;
  eti_params params = {.align = 0.0};
  ET_TRY(binary_map(&k, args, op, in, out, fill, &map, &params));
  if (op->divides && eti_is_integral((et_dtype)map.types[1]))
    return ET_OK;  // the divisor must be checked in every run
  const uint8_t arg[3] = {(uint8_t)i_out, in[0].tensor != NULL ? 0 : ETI_ARG_PARAM,
                          in[1].tensor != NULL ? 1 : ETI_ARG_PARAM};
  return eti_flat_prepare(ctx, &map, args, arg, 3, sizeof params);
}
