// linear_bf16.c — executorch_py::linear_bf16: rows of f32, rounded to bf16, times packed bf16
// weights, then an epilogue. Relies on kernels/lib/bgemm_driver.h; micro/bgemm/ defines the layout
// of weights and the arithmetic.
#include "kernels/kernel.h"
#include "kernels/lib/bgemm_driver.h"
#include "kernels/ops.h"

#include <string.h>

// (input, weight, bias, channels, chain, numbers, tensors, out)
enum { I_WEIGHT = 1, I_CHANNELS = 3, I_EPILOGUE = 4, I_OUT = 7 };

typedef struct linear {
  const float *in;
  size_t k;
  const eti_bgemm_micro *micro;
} linear;

static void copy_rows(const void *ctx, size_t first, size_t n, char *to, size_t step) {
  const linear *const l = ctx;
  const float *const from = l->in + first * l->k;
  if (step == l->k * l->micro->term_bytes) {
    l->micro->copy(to, from, n * l->k);
    return;
  }
  for (size_t r = 0; r < n; r++) l->micro->copy(to + r * step, from + r * l->k, l->k);
}

static void copy_piece(const void *ctx, size_t row, size_t k0, size_t n, float *to) {
  const linear *const l = ctx;
  memcpy(to, l->in + row * l->k + k0, n * sizeof(float));
}

static et_status read_linear(const et_kernel_ctx *ctx, et_value *const *args, linear *l,
                             eti_bgemm_job *p) {
  et_tensor *in, *out;
  int64_t n;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &in));
  ET_TRY(eti_arg_int(ctx, args, I_CHANNELS, &n));
  ET_TRY(eti_arg_tensor(ctx, args, I_OUT, &out));
  ET_CHECK(in->rank >= 1 && in->dtype == ET_F32 && eti_is_contiguous(in), ctx->err,
           ET_INVALID_ARGUMENT, "input: expected contiguous rows of f32, got %s of rank %d",
           et_dtype_name((et_dtype)in->dtype), (int)in->rank);
  ET_CHECK(out->dtype == ET_F32, ctx->err, ET_INVALID_ARGUMENT, "out: expected f32, got %s",
           et_dtype_name((et_dtype)out->dtype));
  ET_CHECK(n >= 0 && n <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
           "channels: expected 0 or more, got %lld", (long long)n);
  *p = (eti_bgemm_job){.m = eti_numel_range(in, 0, in->rank - 1u),
                       .n = (size_t)n,
                       .k = (size_t)in->sizes[in->rank - 1u]};
  ET_TRY(eti_bgemm_job_read(ctx, args, I_WEIGHT, p));
  eti_shape shape = eti_shape_of(in);
  shape.sizes[in->rank - 1u] = (int32_t)n;
  ET_TRY(eti_resize(ctx, out, &shape));
  ET_TRY(eti_check_contiguous(ctx, out, ET_INVALID_ARGUMENT, "out"));
  *l = (linear){.in = in->data, .k = p->k, .micro = p->micro};
  p->rows = copy_rows;
  p->piece = copy_piece;
  p->ctx = l;
  p->out = out->data;
  return ET_OK;
}

et_status op_linear_bf16_out(et_kernel_ctx *ctx, et_value *const *args) {
  linear l;
  eti_bgemm_job p;
  eti_epilogue_call call;
  ET_TRY(read_linear(ctx, args, &l, &p));
  ET_TRY(eti_epilogue_bind_optional(ctx, args, I_EPILOGUE, ctx->state, args[I_OUT]->as.tensor,
                                    &call, &p.epilogue));
  eti_bgemm_job_run(ctx, &p);
  return ET_OK;
}

et_status prepare_linear_bf16_out(et_prepare_ctx *ctx, et_value *const *args) {
  const et_kernel_ctx k = eti_prepare_args(ctx);
  linear l;
  eti_bgemm_job p;
  const eti_epilogue *epilogue = NULL;
  ET_TRY(eti_epilogue_prepare_optional(ctx, args, I_EPILOGUE, &epilogue));
  ctx->state = (void *)(uintptr_t)epilogue;
  if (ctx->is_minimal) return ET_OK;
  ET_TRY(read_linear(&k, args, &l, &p));
  const size_t bytes = eti_bgemm_job_scratch(&p, ctx->n_threads);
  if (bytes > ctx->scratch_bytes) ctx->scratch_bytes = bytes;
  return ET_OK;
}
