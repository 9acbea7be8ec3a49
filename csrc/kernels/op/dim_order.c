// dim_order.c — operators of the dim_order_ops namespace: copies to another planned dim order or
// element type, and memory without values. The output tensor's own dim order determines the layout.
// The dim_order argument repeats it, except that sizes of 1 allow several orders for one layout, so
// it is not read. Relies on copy_op.h.
#include "kernels/kernel.h"
#include "kernels/lib/copy_op.h"

et_status op_to_dim_order_copy_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 3, eti_plan_convert);
}
et_status prepare_to_dim_order_copy_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 3, eti_plan_convert);
}

et_status op_clone_dim_order_out(et_kernel_ctx *ctx, et_value *const *args) {
  return eti_copy_op_run(ctx, args, 3, eti_plan_clone);
}
et_status prepare_clone_dim_order_out(et_prepare_ctx *ctx, et_value *const *args) {
  return eti_copy_op_prepare(ctx, args, 3, eti_plan_clone);
}

et_status op_empty_dim_order_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *out = NULL;
  int64_t sizes[ET_MAX_RANK];
  eti_shape shape;
  ET_TRY(eti_arg_tensor(ctx, args, 2, &out));
  ET_TRY(eti_arg_ints(ctx, args, 0, sizes, ET_MAX_RANK, &shape.rank));
  for (size_t d = 0; d < shape.rank; d++)
    ET_TRY(eti_checked_size(ctx, sizes[d], "empty", &shape.sizes[d]));
  return eti_resize(ctx, out, &shape);
}
