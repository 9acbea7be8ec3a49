// split.c — operators that split their first argument into a list of outputs along a dimension:
// split, split_with_sizes, unbind. Each computes the window of one part; strided_copy.h copies it.
// Relies on copy_op.h. Copies bytes of any element type; computes nothing.
#include "kernels/kernel.h"
#include "kernels/lib/copy_op.h"

static et_status run_parts(et_kernel_ctx *ctx, et_value *const *args, size_t i_out,
                           eti_part_fn part) {
  et_tensor *self = NULL;
  et_value *const *outs = NULL;
  size_t n = 0;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_tensors(ctx, args, i_out, &outs, &n));
  const void *self_data = self->data;
  const eti_copy_plan *kept = ctx->state;
  for (size_t k = 0; k < n; k++) {
    eti_copy_plan plan;
    const et_tensor *out = eti_list_tensor(outs, k);
    if (kept == NULL) ET_TRY(part(ctx, args, k, n, &plan));
    eti_plan_run(kept == NULL ? &plan : kept, ctx->pool, out->data, self_data);
    if (kept != NULL) kept = eti_parts_next(kept);
  }
  return ET_OK;
}

static et_status prepare_parts(et_prepare_ctx *ctx, et_value *const *args, size_t i_out,
                               eti_part_fn part) {
  const et_kernel_ctx k = eti_silent_args(ctx);
  et_tensor *self = NULL;
  et_value *const *outs = NULL;
  size_t n = 0;
  if (eti_arg_tensor(&k, args, 0, &self) != ET_OK ||
      eti_arg_tensors(&k, args, i_out, &outs, &n) != ET_OK)
    return ET_OK;
  if (eti_is_dynamic(self)) return ET_OK;
  for (size_t i = 0; i < n; i++) {
    if (eti_list_tensor(outs, i) == NULL || eti_is_dynamic(eti_list_tensor(outs, i))) return ET_OK;
  }
  return eti_parts_prepare(ctx, args, n, part);
}

// Plans part k, items [start, start + length) of dim, into its output.
static et_status plan_piece(const et_kernel_ctx *ctx, et_value *const *args, size_t i_out, size_t k,
                            const et_tensor *self, size_t dim, const eti_slice *piece,
                            eti_copy_plan *plan) {
  et_value *const *outs = NULL;
  size_t n = 0;
  ET_TRY(eti_arg_tensors(ctx, args, i_out, &outs, &n));
  et_tensor *out = eti_list_tensor(outs, k);
  ET_CHECK(out != NULL, ctx->err, ET_INVALID_PROGRAM, "output %zu: expected a tensor, got None", k);
  eti_window view = eti_window_of(self);
  eti_window_slice(&view, dim, piece);
  return eti_copy_op_window(ctx, out, self, &view, plan);
}

static et_status part_split(const et_kernel_ctx *ctx, et_value *const *args, size_t k, size_t n,
                            eti_copy_plan *plan) {
  et_tensor *self = NULL;
  int64_t size = 0;
  size_t dim = 0;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_int(ctx, args, 1, &size));
  ET_TRY(eti_arg_dim(ctx, args, 2, self, "split", &dim));
  const int64_t total = self->sizes[dim];
  ET_CHECK(size > 0 || (size == 0 && total == 0), ctx->err, ET_INVALID_ARGUMENT,
           "split: expected a size of 1 or more for a dimension of %lld, got %lld",
           (long long)total, (long long)size);
  const int64_t needed = total == 0 ? 1 : (total - 1) / size + 1;
  ET_CHECK((int64_t)n == needed, ctx->err, ET_INVALID_ARGUMENT,
           "split: expected %lld outputs, got %zu", (long long)needed, n);
  const int64_t start = (int64_t)k * size;  // k < needed, so start ≤ total
  const eti_slice piece = {
      .start = start, .length = size < total - start ? size : total - start, .step = 1};
  return plan_piece(ctx, args, 3, k, self, dim, &piece, plan);
}

et_status op_split_copy_tensor_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_parts(ctx, args, 3, part_split);
}
et_status prepare_split_copy_tensor_out(et_prepare_ctx *ctx, et_value *const *args) {
  return prepare_parts(ctx, args, 3, part_split);
}

static et_status part_split_with_sizes(const et_kernel_ctx *ctx, et_value *const *args, size_t k,
                                       size_t n, eti_copy_plan *plan) {
  et_tensor *self = NULL;
  size_t dim = 0;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_dim(ctx, args, 2, self, "split_with_sizes", &dim));
  const et_value *sizes = args[1];
  ET_CHECK(sizes != NULL && sizes->tag == ET_INT_LIST, ctx->err, ET_INVALID_ARGUMENT,
           "split_with_sizes: sizes: expected IntList, got %s", eti_kind_name(sizes));
  ET_CHECK(sizes->n == n, ctx->err, ET_INVALID_ARGUMENT,
           "split_with_sizes: expected %zu sizes, one for each output, got %zu", n,
           (size_t)sizes->n);
  // A list may exceed any fixed buffer, so it is read in place.
  int64_t start = 0, total = 0, own = 0;
  for (size_t i = 0; i < n; i++) {
    int64_t size = 0;
    ET_TRY(eti_arg_int(ctx, sizes->as.list, i, &size));
    ET_CHECK(
        size >= 0 && size <= self->sizes[dim] - total, ctx->err, ET_INVALID_ARGUMENT,
        "split_with_sizes: size %lld at position %zu is more than the %lld of %d that are left",
        (long long)size, i, (long long)(self->sizes[dim] - total), (int)self->sizes[dim]);
    if (i == k) {
      start = total;
      own = size;
    }
    total += size;
  }
  ET_CHECK(total == self->sizes[dim], ctx->err, ET_INVALID_ARGUMENT,
           "split_with_sizes: dimension %zu: expected sizes that add up to %d, got %lld", dim,
           (int)self->sizes[dim], (long long)total);
  const eti_slice piece = {.start = start, .length = own, .step = 1};
  return plan_piece(ctx, args, 3, k, self, dim, &piece, plan);
}

et_status op_split_with_sizes_copy_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_parts(ctx, args, 3, part_split_with_sizes);
}
et_status prepare_split_with_sizes_copy_out(et_prepare_ctx *ctx, et_value *const *args) {
  return prepare_parts(ctx, args, 3, part_split_with_sizes);
}

static et_status part_unbind(const et_kernel_ctx *ctx, et_value *const *args, size_t k, size_t n,
                             eti_copy_plan *plan) {
  et_tensor *self = NULL;
  et_value *const *outs = NULL;
  size_t dim = 0, n_outs = 0;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_dim(ctx, args, 1, self, "unbind", &dim));
  ET_TRY(eti_arg_tensors(ctx, args, 2, &outs, &n_outs));
  ET_CHECK(n == (size_t)self->sizes[dim], ctx->err, ET_INVALID_ARGUMENT,
           "unbind: expected %d outputs, the size of dimension %zu, got %zu", (int)self->sizes[dim],
           dim, n);
  et_tensor *out = eti_list_tensor(outs, k);
  ET_CHECK(out != NULL, ctx->err, ET_INVALID_PROGRAM, "output %zu: expected a tensor, got None", k);
  eti_window view = eti_window_of(self);
  view.offset = (ptrdiff_t)k * view.strides[dim];
  eti_window_remove(&view, dim);
  return eti_copy_op_window(ctx, out, self, &view, plan);
}

et_status op_unbind_copy_int_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_parts(ctx, args, 2, part_unbind);
}
et_status prepare_unbind_copy_int_out(et_prepare_ctx *ctx, et_value *const *args) {
  return prepare_parts(ctx, args, 2, part_unbind);
}
