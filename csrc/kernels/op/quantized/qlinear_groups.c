// qlinear_groups.c — products with weights of 4 bits (u8) or 8 bits (i8) that have a scale, and
// perhaps a minimum, for each group of a column's terms; results in f32.
//   executorch_py::qlinear_groups        one product of rows of i8 or f32, and perhaps a residual
//   executorch_py::joint_qlinear_groups  several products of the same rows of f32
//   executorch_py::gated_qlinear_groups  two such products, which element-wise steps make one
//   result
// Rows of f32 are quantized here, and perhaps divided by their root mean square before. Relies on
// lib/qgroups_job.h.
#include "kernels/kernel.h"
#include "kernels/lib/qgroups_job.h"
#include "kernels/ops.h"

enum { OPERANDS = ETI_QGROUPS_OPERANDS };

// Reads the weight of a norm at argument i, and its eps behind it.
static et_status read_norm(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                           eti_qgroups_job *job) {
  et_tensor *weight;
  ET_TRY(eti_arg_optional_tensor(ctx, args, i, &weight));
  ET_TRY(eti_arg_optional_double(ctx, args, i + 1, &job->is_normalized, &job->norm_eps));
  ET_CHECK(job->is_normalized ? job->is_float : weight == NULL, ctx->err, ET_INVALID_ARGUMENT,
           "norm: expected rows of f32 and norm_eps, got %s and %s", job->is_float ? "f32" : "i8",
           job->is_normalized ? "a number" : "None");
  if (weight == NULL) return ET_OK;
  ET_TRY(eti_check_elements(ctx, weight, "norm_weight", job->n_terms, ET_TYPES_F32, "f32"));
  job->norm_weight = weight->data;
  return ET_OK;
}

// ---- (input, scale?, zero_point?, weight, scales, zero_points?, minimums?, sums, addends, group,
// channels, residual?, norm_weight?, norm_eps?, out)

enum {
  IN,
  SCALE,
  ZERO,
  WEIGHT,
  GROUP = WEIGHT + OPERANDS,
  CHANNELS,
  RESIDUAL,
  NORM,
  OUT = NORM + 2
};

// Reads scales and zero points of rows of i8; those of rows of f32 are not arguments.
static et_status read_row_numbers(const et_kernel_ctx *ctx, et_value *const *args,
                                  eti_qgroups_job *job) {
  if (!job->is_float) return eti_row_qparams_read(ctx, args, SCALE, job->m, &job->numbers);
  for (size_t i = SCALE; i <= ZERO; i++) {
    et_tensor *t;
    ET_TRY(eti_arg_optional_tensor(ctx, args, i, &t));
    ET_CHECK(t == NULL, ctx->err, ET_INVALID_ARGUMENT,
             "%s: expected none for rows of f32, which are quantized here, got %s",
             i == SCALE ? "scale" : "zero_point", et_dtype_name((et_dtype)t->dtype));
  }
  return ET_OK;
}

static et_status read_residual(const et_kernel_ctx *ctx, et_value *const *args,
                               const et_tensor *out, eti_qgroups_job *job) {
  et_tensor *t;
  ET_TRY(eti_arg_optional_tensor(ctx, args, RESIDUAL, &t));
  if (t == NULL) return ET_OK;
  ET_CHECK(t->dtype == ET_F32 && eti_is_contiguous(t) && eti_same_shape(t, out), ctx->err,
           ET_INVALID_ARGUMENT,
           "residual: expected contiguous f32 of the result's sizes, got %s of %zu elements for "
           "%zu x %zu",
           et_dtype_name((et_dtype)t->dtype), t->numel, job->m, job->products[0].n);
  job->residual = t->data;
  return ET_OK;
}

// Reads the product and resizes the result.
static et_status read_one(const et_kernel_ctx *ctx, et_value *const *args, eti_qgroups_job *job) {
  et_tensor *in, *out, *operand;
  const et_tensor *operands[OPERANDS];
  int64_t n, group;
  ET_TRY(eti_arg_tensor(ctx, args, IN, &in));
  ET_TRY(eti_arg_int(ctx, args, GROUP, &group));
  ET_TRY(eti_arg_int(ctx, args, CHANNELS, &n));
  ET_TRY(eti_arg_tensor(ctx, args, OUT, &out));
  ET_TRY(eti_qgroups_read_rows(ctx, in, group, job));
  ET_TRY(read_row_numbers(ctx, args, job));
  ET_TRY(read_norm(ctx, args, NORM, job));
  for (size_t i = 0; i < OPERANDS; i++) {
    const bool may_be_none = i == ETI_QGROUPS_ZEROS || i == ETI_QGROUPS_MINIMUMS;
    ET_TRY(may_be_none ? eti_arg_optional_tensor(ctx, args, WEIGHT + i, &operand)
                       : eti_arg_tensor(ctx, args, WEIGHT + i, &operand));
    operands[i] = operand;
  }
  ET_TRY(eti_qgroups_add_product(ctx, operands, n, job));
  ET_TRY(eti_qgroups_resize(ctx, job, job->products[0].n, out));
  job->products[0].out = out->data;
  return read_residual(ctx, args, out, job);
}

et_status op_qlinear_groups_out(et_kernel_ctx *ctx, et_value *const *args) {
  eti_qgroups_job job;
  ET_TRY(read_one(ctx, args, &job));
  return eti_qgroups_run(ctx, &job);
}

et_status prepare_qlinear_groups_out(et_prepare_ctx *ctx, et_value *const *args) {
  const et_kernel_ctx k = eti_prepare_args(ctx);
  eti_qgroups_job job;
  et_tensor *in;
  ET_TRY(eti_arg_tensor(&k, args, IN, &in));
  if (ctx->is_minimal && in->dtype != ET_F32) return ET_OK;  // whose products run without scratch
  ET_TRY(read_one(&k, args, &job));
  eti_qgroups_prepare(ctx, &job);
  return ET_OK;
}

// ---- (input, norm_weight?, norm_eps?, weights, scales, minimums, sums, addends, group, …)

enum { JOINT_NORM = 1, LISTS = 3, JOINT_GROUP = LISTS + OPERANDS - 1, JOINT_CHANNELS };

// Reads rows, and the norm before them.
static et_status read_normalized_rows(const et_kernel_ctx *ctx, et_value *const *args,
                                      eti_qgroups_job *job) {
  et_tensor *in;
  int64_t group;
  ET_TRY(eti_arg_tensor(ctx, args, IN, &in));
  ET_TRY(eti_arg_int(ctx, args, JOINT_GROUP, &group));
  ET_TRY(eti_qgroups_read_rows(ctx, in, group, job));
  ET_CHECK(job->is_float, ctx->err, ET_INVALID_ARGUMENT, "input: expected f32, got %s",
           et_dtype_name((et_dtype)in->dtype));
  return read_norm(ctx, args, JOINT_NORM, job);
}

// Adds a product for each of n_products numbers of columns.
static et_status read_products(const et_kernel_ctx *ctx, et_value *const *args,
                               const int64_t *columns, size_t n_products, eti_qgroups_job *job) {
  static const char *const names[OPERANDS] = {"weights",  "scales", "",
                                              "minimums", "sums",   "addends"};
  et_value *const *lists[OPERANDS] = {NULL};
  for (size_t i = 0, at = LISTS; i < OPERANDS; i++) {
    size_t n;
    if (i == ETI_QGROUPS_ZEROS) continue;
    ET_TRY(eti_arg_tensors(ctx, args, at++, &lists[i], &n));
    ET_CHECK(n == n_products, ctx->err, ET_INVALID_ARGUMENT,
             "%s: expected %zu, one for each result, got %zu", names[i], n_products, n);
  }
  for (size_t p = 0; p < n_products; p++) {
    const et_tensor *operands[OPERANDS];
    for (size_t i = 0; i < OPERANDS; i++) {
      operands[i] = lists[i] == NULL ? NULL : eti_list_tensor(lists[i], p);
      ET_CHECK(operands[i] != NULL || i == ETI_QGROUPS_ZEROS || i == ETI_QGROUPS_MINIMUMS, ctx->err,
               ET_INVALID_PROGRAM, "%s: element %zu: expected a tensor, got None", names[i], p);
    }
    ET_TRY(eti_qgroups_add_product(ctx, operands, columns[p], job));
  }
  return ET_OK;
}

// ---- (…, channels: a number for each product, outs)

enum { JOINT_OUTS = JOINT_CHANNELS + 1 };

static et_status read_joint(const et_kernel_ctx *ctx, et_value *const *args, eti_qgroups_job *job) {
  int64_t columns[ETI_QGROUPS_MAX_PRODUCTS];
  et_value *const *outs;
  size_t n, n_outs;
  ET_TRY(read_normalized_rows(ctx, args, job));
  ET_TRY(eti_arg_ints(ctx, args, JOINT_CHANNELS, columns, ETI_QGROUPS_MAX_PRODUCTS, &n));
  ET_TRY(read_products(ctx, args, columns, n, job));
  ET_TRY(eti_arg_tensors(ctx, args, JOINT_OUTS, &outs, &n_outs));
  ET_CHECK(n_outs == n, ctx->err, ET_INVALID_ARGUMENT, "out: expected %zu tensors, got %zu", n,
           n_outs);
  for (size_t i = 0; i < n; i++) {
    et_tensor *const out = eti_list_tensor(outs, i);
    ET_CHECK(out != NULL, ctx->err, ET_INVALID_PROGRAM,
             "out: element %zu: expected a tensor, got None", i);
    ET_TRY(eti_qgroups_resize(ctx, job, job->products[i].n, out));
    job->products[i].out = out->data;
  }
  return ET_OK;
}

et_status op_joint_qlinear_groups_out(et_kernel_ctx *ctx, et_value *const *args) {
  eti_qgroups_job job;
  ET_TRY(read_joint(ctx, args, &job));
  return eti_qgroups_run(ctx, &job);
}

et_status prepare_joint_qlinear_groups_out(et_prepare_ctx *ctx, et_value *const *args) {
  const et_kernel_ctx k = eti_prepare_args(ctx);
  eti_qgroups_job job;
  ET_TRY(read_joint(&k, args, &job));
  eti_qgroups_prepare(ctx, &job);
  return ET_OK;
}

// ---- (…, channels: of both products, steps, numbers, out)

enum { STEPS = JOINT_CHANNELS + 1, GATED_OUT = STEPS + 2 };

static et_status read_gated(const et_kernel_ctx *ctx, et_value *const *args, eti_qgroups_job *job) {
  int64_t columns[2];
  et_tensor *out;
  ET_TRY(read_normalized_rows(ctx, args, job));
  ET_TRY(eti_arg_int(ctx, args, JOINT_CHANNELS, &columns[0]));
  columns[1] = columns[0];
  job->is_gated = true;
  ET_TRY(read_products(ctx, args, columns, 2, job));
  ET_TRY(eti_arg_tensor(ctx, args, GATED_OUT, &out));
  ET_TRY(eti_qgroups_resize(ctx, job, job->products[0].n, out));
  job->products[0].out = out->data;
  return ET_OK;
}

et_status op_gated_qlinear_groups_out(et_kernel_ctx *ctx, et_value *const *args) {
  eti_qgroups_job job;
  ET_TRY(read_gated(ctx, args, &job));
  job.steps = ctx->state;
  ET_CHECK(job.steps != NULL, ctx->err, ET_INVALID_STATE,
           "chain: expected steps that are prepared, got none");
  return eti_qgroups_run(ctx, &job);
}

et_status prepare_gated_qlinear_groups_out(et_prepare_ctx *ctx, et_value *const *args) {
  const et_kernel_ctx k = eti_prepare_args(ctx);
  eti_qgroups_job job;
  const eti_epilogue *steps = NULL;
  ET_TRY(read_gated(&k, args, &job));
  ET_TRY(eti_epilogue_prepare_steps(ctx, args, STEPS, 1, &steps));
  ctx->state = (void *)(uintptr_t)steps;
  eti_qgroups_prepare(ctx, &job);
  return ET_OK;
}
