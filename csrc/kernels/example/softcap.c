// softcap.c — a complete custom operator: mylib::softcap(Tensor x, float cap) -> Tensor computes
// cap · tanh(x / cap), element by element, for f32. Build it, load it:
//   executorch_py build-ops softcap.c -o softcap.so
//   executorch_py.load_ops("softcap.so")
#include "kernels/custom.h"

#include <math.h>

typedef struct softcap_call {
  const float *x;
  float *out;
  float cap;
} softcap_call;

// One range of elements; ranges run on several threads and share no data.
static void softcap_range(void *ctx, size_t begin, size_t end) {
  const softcap_call *call = ctx;
  for (size_t i = begin; i < end; i++) call->out[i] = call->cap * tanhf(call->x[i] / call->cap);
}

// Arguments are the schema's, the output, and the output again as the result: x, cap, out, out.
static et_status softcap_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *x, *out;
  double cap;
  ET_TRY(et_arg_tensor(ctx, args, 0, &x));
  ET_TRY(et_arg_double(ctx, args, 1, &cap));
  ET_TRY(et_arg_tensor(ctx, args, 2, &out));
  ET_CHECK(x->dtype == ET_F32 && out->dtype == ET_F32, ctx->err, ET_NOT_SUPPORTED,
           "x: expected f32, got %s", et_dtype_name((et_dtype)x->dtype));
  ET_CHECK(cap > 0, ctx->err, ET_INVALID_ARGUMENT, "cap: expected more than 0, got %g", cap);
  ET_TRY(et_resize_like(ctx, out, x));
  ET_CHECK(et_same_layout(x, out), ctx->err, ET_NOT_SUPPORTED,
           "x and out have different memory layouts");
  softcap_call call = {.x = x->data, .out = out->data, .cap = (float)cap};
  et_parallel_for(ctx->pool, softcap_range, &call, x->numel, 8192);
  return ET_OK;
}

static const et_op ops[] = {
    {.name = "mylib::softcap.out",
     .run = softcap_out,
     .n_args = 4,
     .in_dtypes = ET_TYPES_F32,
     .out_dtypes = ET_TYPES_F32},
};
ET_OP_LIBRARY(ops);
