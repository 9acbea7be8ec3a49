// concat.c — concatenation: cat along a dimension, stack along a new one. Each part is a strided
// copy into a window of the output, so layouts are free; element types are converted. Relies on
// copy_op.h and promote.h.
#include "kernels/kernel.h"
#include "kernels/lib/copy_op.h"

// The list of tensors of cat or stack: the output's shape and the dimension of concatenation.
typedef struct joined {
  et_value *const *list;
  size_t n, dim;
  et_tensor *out;
  eti_shape shape;
} joined;

static et_status joined_args(const et_kernel_ctx *ctx, et_value *const *args, joined *j) {
  eti_promotion types = ETI_PROMOTION_NONE;
  ET_TRY(eti_arg_tensors(ctx, args, 0, &j->list, &j->n));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &j->out));
  ET_CHECK(j->n > 0, ctx->err, ET_INVALID_ARGUMENT, "expected 1 tensor or more, got none");
  for (size_t k = 0; k < j->n; k++) {
    const et_tensor *t = eti_list_tensor(j->list, k);
    ET_CHECK(t != NULL, ctx->err, ET_INVALID_PROGRAM,
             "tensor %zu of the list: expected a tensor, got None", k);
    eti_promote_tensor(&types, t);
  }
  const et_dtype type = eti_promote_result(&types);
  if (type == (et_dtype)j->out->dtype) return ET_OK;
  ET_CHECK(type != ET_DTYPE_COUNT, ctx->err, ET_INVALID_ARGUMENT,
           "the element types of the tensors have no common type");
  return eti_check_cast(ctx, type, j->out);
}

// Torch's legacy rule: a 1-d tensor without elements can be concatenated with any shape.
static bool is_skipped(const et_tensor *t) {
  return t->rank == 1 && t->sizes[0] == 0;
}

static et_status cat_shape(const et_kernel_ctx *ctx, et_value *const *args, joined *j) {
  int64_t dim = 0, total = 0;
  const et_tensor *first = NULL;
  ET_TRY(joined_args(ctx, args, j));
  ET_TRY(eti_arg_int(ctx, args, 1, &dim));
  for (size_t k = 0; k < j->n; k++) {
    const et_tensor *t = eti_list_tensor(j->list, k);
    ET_CHECK(t->rank > 0, ctx->err, ET_INVALID_ARGUMENT,
             "cat: tensor %zu: expected rank 1 or more, got 0", k);
    if (is_skipped(t)) continue;
    if (first == NULL) {
      first = t;
      ET_TRY(eti_wrap_dim(ctx, dim, t->rank, &j->dim));
    }
    bool fits = t->rank == first->rank;
    for (size_t d = 0; d < first->rank && fits; d++)
      fits = d == j->dim || t->sizes[d] == first->sizes[d];
    if (!fits) {
      char found[ETI_SHAPE_TEXT], needed[ETI_SHAPE_TEXT];
      const eti_shape own = eti_shape_of(t), other = eti_shape_of(first);
      return ET_FAIL(ctx->err, ET_INVALID_ARGUMENT,
                     "cat: tensor %zu: expected shape %s except in dimension %zu, got %s", k,
                     eti_shape_text(&other, needed), j->dim, eti_shape_text(&own, found));
    }
    total += t->sizes[j->dim];
    ET_CHECK(total <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
             "cat: dimension %zu: the sizes add up to %lld, which is too large", j->dim,
             (long long)total);
  }
  if (first == NULL) {
    j->shape = (eti_shape){.rank = 1};
    return eti_wrap_dim(ctx, dim, 1, &j->dim);
  }
  j->shape = eti_shape_of(first);
  j->shape.sizes[j->dim] = (int32_t)total;
  return ET_OK;
}

// Plans tensor k into out from `start` on, and advances start. The sizes are checked again: a
// damaged file can list the output among the inputs, and resizing has then changed it.
static et_status cat_part(const et_kernel_ctx *ctx, const joined *j, size_t k, int64_t *start,
                          eti_copy_plan *plan) {
  const et_tensor *t = eti_list_tensor(j->list, k);
  ET_TRY(eti_plan_begin_cast(plan, (et_dtype)j->out->dtype, (et_dtype)t->dtype, ctx->err));
  if (is_skipped(t)) {
    eti_plan_axis(plan, 0, 0, 0);
    eti_plan_finish(plan);
    return ET_OK;
  }
  eti_window to = eti_window_of(j->out);
  const eti_window from = eti_window_of(t);
  bool fits = t->rank == to.shape.rank;
  for (size_t d = 0; d < to.shape.rank && fits; d++) {
    fits =
        d == j->dim ? t->sizes[d] <= to.shape.sizes[d] - *start : t->sizes[d] == to.shape.sizes[d];
  }
  ET_CHECK(fits, ctx->err, ET_INVALID_PROGRAM, "cat: tensor %zu is the output itself", k);
  const eti_slice piece = {.start = *start, .length = t->sizes[j->dim], .step = 1};
  eti_window_slice(&to, j->dim, &piece);
  eti_plan_windows(plan, &to, &from);
  *start += piece.length;
  return ET_OK;
}

static et_status plan_cat_part(const et_kernel_ctx *ctx, et_value *const *args, size_t k, size_t n,
                               eti_copy_plan *plan) {
  joined j;
  int64_t start = 0;
  (void)n;
  ET_TRY(cat_shape(ctx, args, &j));
  ET_TRY(eti_resize(ctx, j.out, &j.shape));
  for (size_t i = 0; i < k; i++)
    start += is_skipped(eti_list_tensor(j.list, i)) ? 0 : eti_list_tensor(j.list, i)->sizes[j.dim];
  return cat_part(ctx, &j, k, &start, plan);
}

static et_status run_kept(et_kernel_ctx *ctx, et_value *const *args) {
  et_value *const *list = NULL;
  et_tensor *out = NULL;
  size_t n = 0;
  ET_TRY(eti_arg_tensors(ctx, args, 0, &list, &n));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &out));
  const eti_copy_plan *plan = ctx->state;
  for (size_t k = 0; k < n; k++) {
    eti_plan_run(plan, ctx->pool, out->data, eti_list_tensor(list, k)->data);
    plan = eti_parts_next(plan);
  }
  return ET_OK;
}

et_status op_cat_out(et_kernel_ctx *ctx, et_value *const *args) {
  joined j;
  int64_t start = 0;
  if (ctx->state != NULL) return run_kept(ctx, args);
  ET_TRY(cat_shape(ctx, args, &j));
  ET_TRY(eti_resize(ctx, j.out, &j.shape));
  for (size_t k = 0; k < j.n; k++) {
    eti_copy_plan plan;
    ET_TRY(cat_part(ctx, &j, k, &start, &plan));
    eti_plan_run(&plan, ctx->pool, j.out->data, eti_list_tensor(j.list, k)->data);
  }
  return ET_OK;
}

static et_status prepare_joined(et_prepare_ctx *ctx, et_value *const *args, eti_part_fn part) {
  const et_kernel_ctx k = eti_silent_args(ctx);
  joined j;
  if (joined_args(&k, args, &j) != ET_OK || eti_is_dynamic(j.out)) return ET_OK;
  for (size_t i = 0; i < j.n; i++) {
    if (eti_is_dynamic(eti_list_tensor(j.list, i))) return ET_OK;
  }
  return eti_parts_prepare(ctx, args, j.n, part);
}

et_status prepare_cat_out(et_prepare_ctx *ctx, et_value *const *args) {
  return prepare_joined(ctx, args, plan_cat_part);
}

static et_status stack_shape(const et_kernel_ctx *ctx, et_value *const *args, joined *j) {
  int64_t dim = 0;
  ET_TRY(joined_args(ctx, args, j));
  ET_TRY(eti_arg_int(ctx, args, 1, &dim));
  const et_tensor *first = eti_list_tensor(j->list, 0);
  ET_CHECK(first->rank < ET_MAX_RANK, ctx->err, ET_INVALID_ARGUMENT,
           "stack: expected rank below %d, got %d", ET_MAX_RANK, (int)first->rank);
  ET_TRY(eti_wrap_dim(ctx, dim, first->rank + 1u, &j->dim));
  for (size_t k = 1; k < j->n; k++) {
    const et_tensor *const t = eti_list_tensor(j->list, k);
    ET_CHECK(eti_same_shape(first, t), ctx->err, ET_INVALID_ARGUMENT,
             "stack: tensor %zu: expected shape %s, as tensor 0, got %s", k,
             eti_sizes_text(first->sizes, first->rank).text,
             eti_sizes_text(t->sizes, t->rank).text);
  }
  ET_CHECK(j->n <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT, "stack: %zu tensors are too many",
           j->n);
  eti_window view = eti_window_of(first);
  eti_window_insert(&view, j->dim, (int32_t)j->n, 0);
  j->shape = view.shape;
  return ET_OK;
}

static et_status stack_part(const et_kernel_ctx *ctx, const joined *j, size_t k,
                            eti_copy_plan *plan) {
  const et_tensor *t = eti_list_tensor(j->list, k);
  eti_window to = eti_window_of(j->out);
  const eti_window from = eti_window_of(t);
  to.offset = (ptrdiff_t)k * to.strides[j->dim];
  eti_window_remove(&to, j->dim);
  ET_CHECK(t != j->out, ctx->err, ET_INVALID_PROGRAM, "stack: tensor %zu is the output itself", k);
  ET_TRY(eti_plan_begin_cast(plan, (et_dtype)j->out->dtype, (et_dtype)t->dtype, ctx->err));
  eti_plan_windows(plan, &to, &from);
  return ET_OK;
}

static et_status plan_stack_part(const et_kernel_ctx *ctx, et_value *const *args, size_t k,
                                 size_t n, eti_copy_plan *plan) {
  joined j;
  (void)n;
  ET_TRY(stack_shape(ctx, args, &j));
  ET_TRY(eti_resize(ctx, j.out, &j.shape));
  return stack_part(ctx, &j, k, plan);
}

et_status op_stack_out(et_kernel_ctx *ctx, et_value *const *args) {
  joined j;
  if (ctx->state != NULL) return run_kept(ctx, args);
  ET_TRY(stack_shape(ctx, args, &j));
  ET_TRY(eti_resize(ctx, j.out, &j.shape));
  for (size_t k = 0; k < j.n; k++) {
    eti_copy_plan plan;
    ET_TRY(stack_part(ctx, &j, k, &plan));
    eti_plan_run(&plan, ctx->pool, j.out->data, eti_list_tensor(j.list, k)->data);
  }
  return ET_OK;
}

et_status prepare_stack_out(et_prepare_ctx *ctx, et_value *const *args) {
  return prepare_joined(ctx, args, plan_stack_part);
}
