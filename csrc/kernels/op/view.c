// view.c — copies of torch's views: each operator computes a window on its first argument (sizes,
// strides, offset), and strided_copy.h copies it. Layouts of input and output are free. Relies on
// copy_op.h. Copies bytes of any element type; computes nothing.
#include "kernels/kernel.h"
#include "kernels/lib/copy_op.h"

// ---- Reordering dimensions

static et_status plan_permute(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                              const et_tensor *self, eti_copy_plan *plan) {
  int64_t dims[ET_MAX_RANK];
  size_t n = 0;
  uint32_t seen = 0;
  ET_TRY(eti_arg_ints(ctx, args, 1, dims, ET_MAX_RANK, &n));
  ET_CHECK(n == self->rank, ctx->err, ET_INVALID_ARGUMENT,
           "permute: expected %d dims, the rank of the tensor, got %zu", (int)self->rank, n);
  ET_TRY(eti_wrap_dims(ctx, dims, n, self->rank, false, &seen));
  eti_window view = {.shape.rank = n};
  for (size_t d = 0; d < n; d++) {
    const size_t from = (size_t)(dims[d] < 0 ? dims[d] + (int64_t)n : dims[d]);
    view.shape.sizes[d] = self->sizes[from];
    view.strides[d] = self->strides[from];
  }
  return eti_copy_op_window(ctx, out, self, &view, plan);
}

et_status op_permute_copy_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 2, plan_permute);
}
et_status prepare_permute_copy_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 2, plan_permute);
}

static void swap_dims(eti_window *view, size_t a, size_t b) {
  const int32_t size = view->shape.sizes[a];
  const ptrdiff_t stride = view->strides[a];
  view->shape.sizes[a] = view->shape.sizes[b];
  view->strides[a] = view->strides[b];
  view->shape.sizes[b] = size;
  view->strides[b] = stride;
}

static et_status plan_transpose(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                                const et_tensor *self, eti_copy_plan *plan) {
  int64_t dim0 = 0, dim1 = 0;
  size_t a = 0, b = 0;
  ET_TRY(eti_arg_int(ctx, args, 1, &dim0));
  ET_TRY(eti_arg_int(ctx, args, 2, &dim1));
  ET_TRY(eti_wrap_dim(ctx, dim0, self->rank, &a));
  ET_TRY(eti_wrap_dim(ctx, dim1, self->rank, &b));
  eti_window view = eti_window_of(self);
  if (a != b) swap_dims(&view, a, b);
  return eti_copy_op_window(ctx, out, self, &view, plan);
}

et_status op_transpose_copy_int_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 3, plan_transpose);
}
et_status prepare_transpose_copy_int_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 3, plan_transpose);
}

static et_status plan_t(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                        const et_tensor *self, eti_copy_plan *plan) {
  (void)args;
  ET_CHECK(self->rank <= 2, ctx->err, ET_INVALID_ARGUMENT, "t: expected rank 2 or less, got %d",
           (int)self->rank);
  eti_window view = eti_window_of(self);
  if (self->rank == 2) swap_dims(&view, 0, 1);
  return eti_copy_op_window(ctx, out, self, &view, plan);
}

et_status op_t_copy_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 1, plan_t);
}
et_status prepare_t_copy_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 1, plan_t);
}

// ---- Adding and removing dimensions of one element

static et_status plan_unsqueeze(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                                const et_tensor *self, eti_copy_plan *plan) {
  int64_t dim = 0;
  size_t d = 0;
  ET_TRY(eti_arg_int(ctx, args, 1, &dim));
  ET_CHECK(self->rank < ET_MAX_RANK, ctx->err, ET_INVALID_ARGUMENT,
           "unsqueeze: expected rank below %d, got %d", ET_MAX_RANK, (int)self->rank);
  ET_TRY(eti_wrap_dim(ctx, dim, self->rank + 1u, &d));
  eti_window view = eti_window_of(self);
  eti_window_insert(&view, d, 1, 0);
  return eti_copy_op_window(ctx, out, self, &view, plan);
}

et_status op_unsqueeze_copy_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 2, plan_unsqueeze);
}
et_status prepare_unsqueeze_copy_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 2, plan_unsqueeze);
}

static et_status squeeze_mask(const et_kernel_ctx *ctx, et_tensor *out, const et_tensor *self,
                              uint32_t mask, eti_copy_plan *plan) {
  eti_window view = eti_window_of(self);
  for (size_t d = self->rank; d-- > 0;) {
    if ((mask >> d & 1u) != 0 && self->sizes[d] == 1) eti_window_remove(&view, d);
  }
  return eti_copy_op_window(ctx, out, self, &view, plan);
}

static et_status plan_squeeze_dim(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                                  const et_tensor *self, eti_copy_plan *plan) {
  int64_t dim = 0;
  uint32_t mask = 0;
  ET_TRY(eti_arg_int(ctx, args, 1, &dim));
  ET_TRY(eti_wrap_dims(ctx, &dim, 1, self->rank, false, &mask));
  return squeeze_mask(ctx, out, self, mask, plan);
}

et_status op_squeeze_copy_dim_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 2, plan_squeeze_dim);
}
et_status prepare_squeeze_copy_dim_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 2, plan_squeeze_dim);
}

static et_status plan_squeeze_dims(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                                   const et_tensor *self, eti_copy_plan *plan) {
  int64_t dims[ET_MAX_RANK];
  size_t n = 0;
  uint32_t mask = 0;
  ET_TRY(eti_arg_ints(ctx, args, 1, dims, ET_MAX_RANK, &n));
  ET_TRY(eti_wrap_dims(ctx, dims, n, self->rank, false, &mask));
  return squeeze_mask(ctx, out, self, mask, plan);
}

et_status op_squeeze_copy_dims_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 2, plan_squeeze_dims);
}
et_status prepare_squeeze_copy_dims_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 2, plan_squeeze_dims);
}

// ---- Reshaping

static et_status reshape_out(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                             const et_tensor *self) {
  eti_shape shape;
  ET_TRY(eti_check_same_dtype(ctx, self, out, "self and out"));
  ET_TRY(eti_arg_reshape(ctx, args, 1, self->numel, &shape));
  return eti_resize(ctx, out, &shape);
}

static et_status plan_view(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                           const et_tensor *self, eti_copy_plan *plan) {
  ET_TRY(reshape_out(ctx, args, out, self));
  eti_plan_begin(plan, et_dtype_bytes((et_dtype)out->dtype));
  return eti_plan_reshape(plan, out, self) ? ET_OK : ET_NOT_SUPPORTED;
}

et_status op_view_copy_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self = NULL, *out = NULL;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &out));
  if (ctx->state != NULL) {
    eti_plan_run(ctx->state, ctx->pool, out->data, self->data);
    return ET_OK;
  }
  eti_copy_plan plan;
  ET_TRY(reshape_out(ctx, args, out, self));
  eti_plan_begin(&plan, et_dtype_bytes((et_dtype)out->dtype));
  if (eti_plan_reshape(&plan, out, self)) {
    eti_plan_run(&plan, ctx->pool, out->data, self->data);
  } else {
    eti_copy_in_order(out, self, 0);
  }
  return ET_OK;
}
et_status prepare_view_copy_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 2, plan_view);
}

static et_status plan_expand(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                             const et_tensor *self, eti_copy_plan *plan) {
  int64_t sizes[ET_MAX_RANK];
  eti_window view = {.offset = 0};
  ET_TRY(eti_arg_ints(ctx, args, 1, sizes, ET_MAX_RANK, &view.shape.rank));
  ET_CHECK(view.shape.rank >= self->rank, ctx->err, ET_INVALID_ARGUMENT,
           "expand: expected %d sizes or more, the rank of the tensor, got %zu", (int)self->rank,
           view.shape.rank);
  const size_t added = view.shape.rank - self->rank;
  for (size_t d = 0; d < view.shape.rank; d++) {
    const int32_t own = d < added ? 1 : self->sizes[d - added];
    if (sizes[d] == -1 && d >= added) sizes[d] = own;
    ET_TRY(eti_checked_size(ctx, sizes[d], "expand", &view.shape.sizes[d]));
    ET_CHECK(own == 1 || own == view.shape.sizes[d], ctx->err, ET_INVALID_ARGUMENT,
             "expand: dimension %zu of size %d cannot be expanded to %lld", d, (int)own,
             (long long)sizes[d]);
    view.strides[d] = (d < added || own == 1) ? 0 : self->strides[d - added];
  }
  return eti_copy_op_window(ctx, out, self, &view, plan);
}

et_status op_expand_copy_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 3, plan_expand);
}
et_status prepare_expand_copy_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 3, plan_expand);
}

// ---- Parts of one dimension

static et_status plan_select(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                             const et_tensor *self, eti_copy_plan *plan) {
  size_t dim = 0;
  int64_t index = 0;
  ET_TRY(eti_arg_dim(ctx, args, 1, self, "select", &dim));
  ET_TRY(eti_arg_int(ctx, args, 2, &index));
  ET_TRY(eti_wrap_index(ctx, index, dim, self->sizes[dim], &index));
  eti_window view = eti_window_of(self);
  view.offset = (ptrdiff_t)index * view.strides[dim];
  eti_window_remove(&view, dim);
  return eti_copy_op_window(ctx, out, self, &view, plan);
}

et_status op_select_copy_int_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 3, plan_select);
}
et_status prepare_select_copy_int_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 3, plan_select);
}

static et_status plan_slice(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                            const et_tensor *self, eti_copy_plan *plan) {
  size_t dim = 0;
  eti_slice slice;
  ET_TRY(eti_arg_dim(ctx, args, 1, self, "slice", &dim));
  ET_TRY(eti_slice_of(ctx, args, 2, self->sizes[dim], &slice));
  eti_window view = eti_window_of(self);
  eti_window_slice(&view, dim, &slice);
  return eti_copy_op_window(ctx, out, self, &view, plan);
}

et_status op_slice_copy_tensor_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 5, plan_slice);
}
et_status prepare_slice_copy_tensor_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 5, plan_slice);
}

static et_status plan_narrow(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                             const et_tensor *self, eti_copy_plan *plan) {
  size_t dim = 0;
  int64_t start = 0, length = 0;
  ET_TRY(eti_arg_dim(ctx, args, 1, self, "narrow", &dim));
  ET_TRY(eti_arg_int(ctx, args, 2, &start));
  ET_TRY(eti_arg_int(ctx, args, 3, &length));
  const int64_t n = self->sizes[dim];
  const int64_t first = start < 0 && start >= -n ? start + n : start;
  ET_CHECK(
      first >= 0 && first <= n && length >= 0 && length <= n - first, ctx->err, ET_INVALID_ARGUMENT,
      "narrow: expected a range within dimension %zu of size %lld, got start %lld and length %lld",
      dim, (long long)n, (long long)start, (long long)length);
  eti_window view = eti_window_of(self);
  const eti_slice slice = {.start = first, .length = length, .step = 1};
  eti_window_slice(&view, dim, &slice);
  return eti_copy_op_window(ctx, out, self, &view, plan);
}

et_status op_narrow_copy_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 4, plan_narrow);
}
et_status prepare_narrow_copy_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 4, plan_narrow);
}

// ---- Windows with strides of their own

static et_status plan_diagonal(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                               const et_tensor *self, eti_copy_plan *plan) {
  int64_t offset = 0, dims[2] = {0, 0};
  size_t a = 0, b = 0;
  ET_TRY(eti_arg_int(ctx, args, 1, &offset));
  ET_TRY(eti_arg_int(ctx, args, 2, &dims[0]));
  ET_TRY(eti_arg_int(ctx, args, 3, &dims[1]));
  ET_TRY(eti_wrap_dim(ctx, dims[0], self->rank, &a));
  ET_TRY(eti_wrap_dim(ctx, dims[1], self->rank, &b));
  ET_CHECK(a != b, ctx->err, ET_INVALID_ARGUMENT,
           "diagonal: expected two dimensions, got %zu twice", a);
  const int64_t rows = self->sizes[a], cols = self->sizes[b];
  int64_t n = 0;
  if (offset >= 0 && offset < cols) n = rows < cols - offset ? rows : cols - offset;
  if (offset < 0 && offset > -rows) n = rows + offset < cols ? rows + offset : cols;
  eti_window view = eti_window_of(self);
  if (n > 0)
    view.offset = (ptrdiff_t)(offset >= 0 ? offset : -offset) * self->strides[offset >= 0 ? b : a];
  eti_window_remove(&view, a > b ? a : b);
  eti_window_remove(&view, a > b ? b : a);
  eti_window_insert(&view, view.shape.rank, (int32_t)n, self->strides[a] + self->strides[b]);
  return eti_copy_op_window(ctx, out, self, &view, plan);
}

et_status op_diagonal_copy_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 4, plan_diagonal);
}
et_status prepare_diagonal_copy_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 4, plan_diagonal);
}

static et_status plan_as_strided(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                                 const et_tensor *self, eti_copy_plan *plan) {
  int64_t sizes[ET_MAX_RANK], strides[ET_MAX_RANK], offset = 0;
  size_t n = 0;
  bool has_offset = false, is_empty = false;
  eti_window view = {.offset = 0};
  ET_TRY(eti_arg_ints(ctx, args, 1, sizes, ET_MAX_RANK, &view.shape.rank));
  ET_TRY(eti_arg_ints(ctx, args, 2, strides, ET_MAX_RANK, &n));
  ET_TRY(eti_arg_optional_int(ctx, args, 3, &has_offset, &offset));
  if (!has_offset) offset = 0;
  ET_CHECK(
      n == view.shape.rank && offset >= 0, ctx->err, ET_INVALID_ARGUMENT,
      "as_strided: expected as many strides as sizes and an offset of 0 or more, got %zu sizes, "
      "%zu strides, offset %lld",
      view.shape.rank, n, (long long)offset);
  for (size_t d = 0; d < n; d++) {
    ET_TRY(eti_checked_size(ctx, sizes[d], "as_strided", &view.shape.sizes[d]));
    ET_CHECK(strides[d] >= 0, ctx->err, ET_INVALID_ARGUMENT,
             "as_strided: expected strides of 0 or more, got %lld", (long long)strides[d]);
    is_empty |= sizes[d] == 0;
  }
  // Room left after the farthest element, counted down so that nothing can overflow.
  uint64_t room = self->numel;
  ET_CHECK(is_empty || (uint64_t)offset < room, ctx->err, ET_INVALID_ARGUMENT,
           "as_strided: expected an offset inside the tensor's %zu elements, got %lld", self->numel,
           (long long)offset);
  room -= is_empty ? 0 : (uint64_t)offset + 1;
  for (size_t d = 0; d < n && !is_empty; d++) {
    const uint64_t steps = (uint64_t)sizes[d] - 1, stride = (uint64_t)strides[d];
    ET_CHECK(steps == 0 || stride <= room / steps, ctx->err, ET_INVALID_ARGUMENT,
             "as_strided: dimension %zu: expected a view inside the tensor's %zu elements, got "
             "size %lld and stride %lld from offset %lld",
             d, self->numel, (long long)sizes[d], (long long)strides[d], (long long)offset);
    room -= steps * stride;
    view.strides[d] = steps == 0 ? 0 : (ptrdiff_t)stride;
  }
  view.offset = is_empty ? 0 : (ptrdiff_t)offset;
  return eti_copy_op_window(ctx, out, self, &view, plan);
}

et_status op_as_strided_copy_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 4, plan_as_strided);
}
et_status prepare_as_strided_copy_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 4, plan_as_strided);
}

static et_status plan_unfold(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                             const et_tensor *self, eti_copy_plan *plan) {
  int64_t dimension = 0, size = 0, step = 0;
  size_t dim = 0;
  ET_TRY(eti_arg_int(ctx, args, 1, &dimension));
  ET_TRY(eti_arg_int(ctx, args, 2, &size));
  ET_TRY(eti_arg_int(ctx, args, 3, &step));
  ET_TRY(eti_wrap_dim(ctx, dimension, self->rank, &dim));
  ET_CHECK(self->rank < ET_MAX_RANK, ctx->err, ET_INVALID_ARGUMENT,
           "unfold: expected rank below %d, got %d", ET_MAX_RANK, (int)self->rank);
  const int64_t n = self->rank == 0 ? 1 : self->sizes[dim];
  ET_CHECK(size >= 0 && size <= n && step > 0, ctx->err, ET_INVALID_ARGUMENT,
           "unfold: expected a size of 0 to %lld and a step of 1 or more, got size %lld, step %lld",
           (long long)n, (long long)size, (long long)step);
  eti_window view = eti_window_of(self);
  const ptrdiff_t stride = self->rank == 0 ? 1 : self->strides[dim];
  if (self->rank > 0) {
    const eti_slice starts = {.start = 0, .length = (n - size) / step + 1, .step = step};
    eti_window_slice(&view, dim, &starts);
  }
  eti_window_insert(&view, view.shape.rank, (int32_t)size, stride);
  return eti_copy_op_window(ctx, out, self, &view, plan);
}

et_status op_unfold_copy_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 4, plan_unfold);
}
et_status prepare_unfold_copy_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 4, plan_unfold);
}

// ---- Complex numbers and their parts

static et_status check_parts(const et_kernel_ctx *ctx, const char *name, const et_tensor *whole,
                             const et_tensor *parts, const et_tensor *from, const et_tensor *to) {
  const bool matches = (whole->dtype == ET_C32 && parts->dtype == ET_F16) ||
                       (whole->dtype == ET_C64 && parts->dtype == ET_F32) ||
                       (whole->dtype == ET_C128 && parts->dtype == ET_F64);
  ET_CHECK(matches, ctx->err, ET_INVALID_ARGUMENT, "%s: not defined from %s to %s", name,
           et_dtype_name((et_dtype)from->dtype), et_dtype_name((et_dtype)to->dtype));
  ET_CHECK(whole->rank < ET_MAX_RANK, ctx->err, ET_INVALID_ARGUMENT,
           "%s: expected rank below %d, got %d", name, ET_MAX_RANK, (int)whole->rank);
  return ET_OK;
}

// A complex tensor as a real one with a last dimension of two.
static eti_window view_of_parts(const et_tensor *whole) {
  eti_window view = eti_window_of(whole);
  for (size_t d = 0; d < view.shape.rank; d++) view.strides[d] *= 2;
  eti_window_insert(&view, view.shape.rank, 2, 1);
  return view;
}

static et_status plan_view_as_real(const et_kernel_ctx *ctx, et_value *const *args, et_tensor *out,
                                   const et_tensor *self, eti_copy_plan *plan) {
  (void)args;
  ET_TRY(check_parts(ctx, "view_as_real", self, out, self, out));
  const eti_window view = view_of_parts(self);
  ET_TRY(eti_resize(ctx, out, &view.shape));
  const eti_window to = eti_window_of(out);
  eti_plan_begin(plan, et_dtype_bytes((et_dtype)out->dtype));
  eti_plan_windows(plan, &to, &view);
  return ET_OK;
}

et_status op_view_as_real_copy_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 1, plan_view_as_real);
}
et_status prepare_view_as_real_copy_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 1, plan_view_as_real);
}

static et_status plan_view_as_complex(const et_kernel_ctx *ctx, et_value *const *args,
                                      et_tensor *out, const et_tensor *self, eti_copy_plan *plan) {
  (void)args;
  ET_TRY(check_parts(ctx, "view_as_complex", out, self, self, out));
  const size_t last = (size_t)self->rank - 1;
  ET_CHECK(self->rank > 0 && self->sizes[last] == 2, ctx->err, ET_INVALID_ARGUMENT,
           "view_as_complex: expected a last dimension of size 2, got %d of rank %d",
           self->rank > 0 ? (int)self->sizes[last] : 0, (int)self->rank);
  const eti_window from = eti_window_of(self);
  eti_window shape = from;
  eti_window_remove(&shape, last);
  ET_TRY(eti_resize(ctx, out, &shape.shape));
  const eti_window to = view_of_parts(out);
  eti_plan_begin(plan, et_dtype_bytes((et_dtype)self->dtype));
  eti_plan_windows(plan, &to, &from);
  return ET_OK;
}

et_status op_view_as_complex_copy_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 1, plan_view_as_complex);
}
et_status prepare_view_as_complex_copy_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 1, plan_view_as_complex);
}
