// fused_elementwise.c — executorch_py::chain: element-wise steps on a tensor, block by block, so
// that intermediate results never leave the cache. It is an epilogue (epilogue.h) without an
// operator before it.
#include "kernels/kernel.h"
#include "kernels/lib/epilogue.h"
#include "kernels/ops.h"

enum { EPILOGUE_AT = 1, OUT_AT = EPILOGUE_AT + ETI_EPILOGUE_ARGS };

et_status op_chain_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *in, *out;
  eti_epilogue_call call;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &in));
  ET_TRY(eti_arg_tensor(ctx, args, OUT_AT, &out));
  ET_CHECK(in->dtype == ET_F32, ctx->err, ET_NOT_SUPPORTED,
           "chain: expected an operand of f32, got %s", et_dtype_name((et_dtype)in->dtype));
  ET_TRY(eti_resize_like(ctx, out, in));
  ET_CHECK(eti_same_layout(in, out), ctx->err, ET_INVALID_ARGUMENT,
           "chain: the operand and the result have different memory layouts");
  ET_TRY(eti_epilogue_bind(ctx, args, EPILOGUE_AT, ctx->state, out, &call));
  eti_epilogue_all(ctx->pool, &call, in, out);
  return ET_OK;
}

et_status prepare_chain_out(et_prepare_ctx *ctx, et_value *const *args) {
  const eti_epilogue *epilogue = NULL;
  ET_TRY(eti_epilogue_prepare(ctx, args, EPILOGUE_AT, &epilogue));
  ctx->state = (void *)(uintptr_t)epilogue;
  return ET_OK;
}
