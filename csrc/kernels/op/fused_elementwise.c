// fused_elementwise.c — executorch_py::chain: element-wise steps on a tensor, block by block, so
// that what is between them never leaves the cache. Relies on kernels/lib/epilogue.h.
#include "kernels/lib/epilogue.h"

#include "kernels/kernel.h"
#include "kernels/ops.h"

static et_status read_chain(const et_kernel_ctx *ctx, et_value *const *args, et_tensor **in,
                            et_tensor **out, eti_chain *chain) {
  ET_TRY(eti_arg_tensor(ctx, args, 0, in));
  ET_TRY(eti_chain_read(ctx, args, 1, chain));
  ET_TRY(eti_arg_tensor(ctx, args, 1 + ETI_CHAIN_ARGS, out));
  ET_CHECK((*in)->dtype == ET_F32, ctx->err, ET_NOT_SUPPORTED,
           "chain: the operand is %s, needs f32", et_dtype_name((et_dtype)(*in)->dtype));
  ET_TRY(eti_resize_like(ctx, *out, *in));
  ET_CHECK(eti_same_layout(*in, *out), ctx->err, ET_INVALID_ARGUMENT,
           "chain: the result does not lie as the operand does");
  return eti_chain_check(ctx, chain, *out);
}

et_status op_chain_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *in, *out;
  eti_chain chain;
  ET_TRY(read_chain(ctx, args, &in, &out, &chain));
  eti_chain_all(ctx->pool, &chain, in, out);
  return ET_OK;
}
