// select.c — operators that choose between operands: where, masked_fill, clamp with numbers or
// tensors, hardtanh. where copies elements by size and needs no arithmetic type; clamp follows
// ATen: NaN stays and the upper bound wins.
#include "kernels/lib/elementwise.h"
#include "kernels/kernel.h"
#include "kernels/loops/cast_values.h"
#include "kernels/loops/loop.h"
#include "kernels/lib/copy_op.h"
#include "kernels/ops.h"

#include <math.h>
#include <string.h>

ETI_USES(rows, clamp3_loops)

// ---- where

static et_status check_condition(const et_kernel_ctx *ctx, const et_tensor *condition) {
  ET_CHECK(condition->dtype == ET_B8 || condition->dtype == ET_U8, ctx->err, ET_INVALID_ARGUMENT,
           "condition: expected b8, got %s", et_dtype_name((et_dtype)condition->dtype));
  return ET_OK;
}

static et_status where_map(const et_kernel_ctx *ctx, et_tensor *const *operands, eti_map *map) {
  et_dtype common = ET_B8;
  ET_TRY(check_condition(ctx, operands[1]));
  ET_TRY(eti_result_type(ctx, operands[2], operands[3], &common));
  ET_TRY(eti_check_cast(ctx, common, operands[0]));
  // A u8 condition is read as it is: any byte but 0 counts.
  *map =
      (eti_map){.loop = eti_where_loop(common),
                .types = {(uint8_t)common, operands[1]->dtype, (uint8_t)common, (uint8_t)common}};
  return ET_OK;
}

static et_status read_where(const et_kernel_ctx *ctx, et_value *const *args, et_tensor **operands) {
  for (size_t i = 0; i < 3; i++) ET_TRY(eti_arg_tensor(ctx, args, i, &operands[i + 1]));
  return eti_arg_tensor(ctx, args, 3, &operands[0]);
}

// Resizes the output to the inputs' broadcast shape, then runs.
static et_status run_broadcast(const et_kernel_ctx *ctx, const eti_map *map,
                               et_tensor *const *operands, size_t n) {
  eti_shape shape = eti_shape_of(operands[1]);
  for (size_t i = 2; i < n; i++) {
    const eti_shape next = eti_shape_of(operands[i]);
    ET_TRY(eti_broadcast(ctx, &shape, &next, &shape));
  }
  ET_TRY(eti_resize(ctx, operands[0], &shape));
  return eti_map_run(ctx, map, operands, n);
}

et_status op_where_self_out(et_kernel_ctx *ctx, et_value *const *args) {
  if (eti_flat_run(ctx, args)) return ET_OK;
  et_tensor *operands[4];
  eti_map map;
  ET_TRY(read_where(ctx, args, operands));
  ET_TRY(where_map(ctx, operands, &map));
  return run_broadcast(ctx, &map, operands, 4);
}

et_status prepare_where_self_out(et_prepare_ctx *ctx, et_value *const *args) {
  static const uint8_t arg[4] = {3, 0, 1, 2};
  const et_kernel_ctx k = eti_prepare_args(ctx);
  et_tensor *operands[4];
  eti_map map;
  ET_TRY(read_where(&k, args, operands));
  ET_TRY(where_map(&k, operands, &map));
  return eti_flat_prepare(ctx, &map, args, arg, 4, 0);
}

// ---- masked_fill: the value, a number or a tensor of one element, becomes an element of self's
// type

et_status op_masked_fill_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self, *mask, *out;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &mask));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &out));
  ET_TRY(check_condition(ctx, mask));
  eti_params element = {.align = 0.0};
  if (args[2]->tag == ET_TENSOR) {
    et_tensor *value;
    ET_TRY(eti_arg_tensor(ctx, args, 2, &value));
    const eti_cast_fn cast = eti_casts[value->dtype][self->dtype];
    ET_CHECK(value->numel == 1 && cast != NULL, ctx->err, ET_INVALID_ARGUMENT,
             "value: expected 1 element that converts to %s, got %zu of %s",
             et_dtype_name((et_dtype)self->dtype), value->numel,
             et_dtype_name((et_dtype)value->dtype));
    cast(element.bytes, 0, value->data, 0, 1);
  } else {
    eti_scalar value = {0};
    ET_TRY(eti_arg_scalar(ctx, args, 2, &value));
    ET_CHECK(eti_scalar_store(&value, (et_dtype)self->dtype, element.bytes), ctx->err,
             ET_NOT_SUPPORTED, "self: not defined for dtype %s",
             et_dtype_name((et_dtype)self->dtype));
  }
  ET_TRY(eti_check_cast(ctx, (et_dtype)self->dtype, out));
  et_tensor value = {.data = element.bytes, .numel = 1, .capacity = 1, .dtype = self->dtype};
  et_tensor *operands[4] = {out, mask, &value, self};
  const eti_map map = {.loop = eti_where_loop((et_dtype)self->dtype),
                       .types = {self->dtype, mask->dtype, self->dtype, self->dtype}};
  return run_broadcast(ctx, &map, operands, 4);
}

// ---- clamp

#define CLAMP_LOW(x, low) ((((x) > (low)) | ((x) != (x))) ? (x) : (low))
#define CLAMP_HIGH(x, high) ((((x) < (high)) | ((x) != (x))) ? (x) : (high))
#define LOOP_NAME clamp
#define LOOP_EXPR(x) CLAMP_HIGH(CLAMP_LOW(x, k[0]), k[1])
#define LOOP_TYPES ET_TYPES_INT_BOOL
#include "kernels/loops/unary_loop.inc.h"

static const eti_elementwise clamp_op = {
    .rule = ETI_RULE_SAME, .loops = clamp_loops, .micro = ETI_MICRO_UNARY(clamp)};

// The smallest and largest element of a type, which bound nothing.
static eti_scalar no_bound(et_dtype compute, bool upper) {
  static const int64_t lows[] = {0, INT8_MIN, INT16_MIN, INT32_MIN, INT64_MIN};
  static const int64_t highs[] = {UINT8_MAX, INT8_MAX, INT16_MAX, INT32_MAX, INT64_MAX};
  if (compute <= ET_I64) return (eti_scalar){.i = upper ? highs[compute] : lows[compute]};
  if (compute == ET_B8) return (eti_scalar){.i = upper};
  return eti_scalar_double(upper ? (double)INFINITY : -(double)INFINITY);
}

static et_status read_bound(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                            et_dtype compute, eti_scalar *out) {
  bool present;
  ET_TRY(eti_arg_optional_scalar(ctx, args, i, &present, out));
  if (!present) *out = no_bound(compute, i == 2);
  return ET_OK;
}

typedef struct clamp_job {
  et_tensor *operands[2];
  eti_map map;
  eti_params params;
} clamp_job;

// A float bound makes an integer tensor compute in f32, as in ATen; hardtanh casts its bounds to
// the tensor's type instead.
static et_status clamp_setup(const et_kernel_ctx *ctx, et_value *const *args, bool promotes,
                             clamp_job *job) {
  ET_TRY(eti_arg_tensor(ctx, args, 0, &job->operands[1]));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &job->operands[0]));
  eti_promotion p = ETI_PROMOTION_NONE;
  eti_promote_tensor(&p, job->operands[1]);
  for (size_t i = 1; promotes && i < 3; i++) {
    bool present;
    eti_scalar bound = {0};
    ET_TRY(eti_arg_optional_scalar(ctx, args, i, &present, &bound));
    if (present) eti_promote_scalar(&p, &bound);
  }
  const et_dtype common = eti_promote_result(&p), compute = eti_compute_type(common);
  ET_TRY(eti_check_cast(ctx, common, job->operands[0]));
  const eti_loop loop = eti_elementwise_loop(&clamp_op, compute);
  ET_CHECK(loop != NULL, ctx->err, ET_NOT_SUPPORTED, "not defined for dtype %s",
           et_dtype_name(compute));
  eti_scalar low = {0}, high = {0};
  ET_TRY(read_bound(ctx, args, 1, compute, &low));
  ET_TRY(read_bound(ctx, args, 2, compute, &high));
  eti_params_set(&job->params, 0, &low, compute);
  eti_params_set(&job->params, 1, &high, compute);
  // The loop compares numbers only and adds this (see micro/eltwise/eltwise.body.h).
  if (eti_is_float(compute)) {
    const eti_scalar nan =
        eti_scalar_double(low.d != low.d || high.d != high.d ? (double)NAN : -0.0);
    eti_params_set(&job->params, 2, &nan, compute);
  }
  job->map = (eti_map){
      .loop = loop, .params = &job->params, .types = {(uint8_t)compute, (uint8_t)compute}};
  return ET_OK;
}

static et_status clamp_run(et_kernel_ctx *ctx, et_value *const *args, bool promotes) {
  if (eti_flat_run(ctx, args)) return ET_OK;
  clamp_job job;
  ET_TRY(clamp_setup(ctx, args, promotes, &job));
  ET_TRY(eti_resize_like(ctx, job.operands[0], job.operands[1]));
  return eti_map_run(ctx, &job.map, job.operands, 2);
}

// A bound that an instruction computes is None here and looks absent, so only existing bounds can
// be prepared.
static et_status clamp_prepare(et_prepare_ctx *ctx, et_value *const *args, bool promotes) {
  static const uint8_t arg[2] = {3, 0};
  for (size_t i = 1; i < 3; i++) {
    if (args[i] == NULL || args[i]->tag == ET_NONE) return ET_OK;
  }
  const et_kernel_ctx k = eti_prepare_args(ctx);
  clamp_job job;
  ET_TRY(clamp_setup(&k, args, promotes, &job));
  return eti_flat_prepare(ctx, &job.map, args, arg, 2, sizeof job.params);
}

et_status op_clamp_out(et_kernel_ctx *ctx, et_value *const *args) {
  return clamp_run(ctx, args, true);
}
et_status prepare_clamp_out(et_prepare_ctx *ctx, et_value *const *args) {
  return clamp_prepare(ctx, args, true);
}
et_status op_hardtanh_out(et_kernel_ctx *ctx, et_value *const *args) {
  return clamp_run(ctx, args, false);
}
et_status prepare_hardtanh_out(et_prepare_ctx *ctx, et_value *const *args) {
  return clamp_prepare(ctx, args, false);
}

et_status op_clamp_tensor_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *operands[4];
  ET_TRY(eti_arg_tensor(ctx, args, 0, &operands[1]));
  ET_TRY(eti_arg_optional_tensor(ctx, args, 1, &operands[2]));
  ET_TRY(eti_arg_optional_tensor(ctx, args, 2, &operands[3]));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &operands[0]));
  eti_promotion p = ETI_PROMOTION_NONE;
  for (size_t i = 1; i < 4; i++) {
    if (operands[i] != NULL) eti_promote_tensor(&p, operands[i]);
  }
  const et_dtype common = eti_promote_result(&p);
  ET_CHECK(common != ET_DTYPE_COUNT, ctx->err, ET_INVALID_ARGUMENT,
           "the operands' dtypes have no common type");
  ET_TRY(eti_check_cast(ctx, common, operands[0]));
  const et_dtype compute = eti_compute_type(common);
  eti_params bounds[2] = {{.align = 0.0}, {.align = 0.0}};
  et_tensor absent[2];
  for (size_t i = 0; i < 2; i++) {
    if (operands[i + 2] != NULL) continue;
    const eti_scalar bound = no_bound(compute, i == 1);
    eti_params_set(&bounds[i], 0, &bound, compute);
    absent[i] =
        (et_tensor){.data = bounds[i].bytes, .numel = 1, .capacity = 1, .dtype = (uint8_t)compute};
    operands[i + 2] = &absent[i];
  }
  const uint8_t t = (uint8_t)compute;
  const eti_map map = {.loop = eti_eltwise_get()->clamp3_loops[compute], .types = {t, t, t, t}};
  return run_broadcast(ctx, &map, operands, 4);
}
