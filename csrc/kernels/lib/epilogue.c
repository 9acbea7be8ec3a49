// epilogue.c — running epilogues, see epilogue.h: looks up the tensors of a call and runs the steps
// block by block. epilogue_parse.c parses them.
#include "kernels/lib/epilogue.h"

#include "kernels/lib/args.h"
#include "kernels/lib/shape.h"
#include "kernels/stack.h"

#include <string.h>

et_status eti_epilogue_bind(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                            const eti_epilogue *epilogue, const et_tensor *result,
                            eti_epilogue_call *call) {
  et_value *const *list;
  size_t n = 0;
  ET_TRY(eti_arg_tensors(ctx, args, i + 2, &list, &n));
  ET_CHECK(epilogue != NULL, ctx->err, ET_INVALID_STATE,
           "epilogue: expected steps that are prepared, got none");
  ET_CHECK(n == epilogue->n_tensors, ctx->err, ET_INVALID_STATE,
           "epilogue: expected %zu tensors, as prepared, got %zu", (size_t)epilogue->n_tensors, n);
  call->epilogue = epilogue;
  ET_CHECK(result->dtype == ET_F32, ctx->err, ET_NOT_SUPPORTED,
           "epilogue: expected a result of f32, got %s", et_dtype_name((et_dtype)result->dtype));
  for (size_t t = 0; t < n; t++) {
    const et_tensor *const x = call->tensors[t] = eti_list_tensor(list, t);
    ET_CHECK(x != NULL, ctx->err, ET_INVALID_PROGRAM, "epilogue: expected tensor %zu, got None", t);
    ET_CHECK(x->dtype == ET_F32 && x->numel == result->numel, ctx->err, ET_INVALID_ARGUMENT,
             "epilogue: tensor %zu: expected f32 of %zu elements, got %s of %zu", t,
             (size_t)result->numel, et_dtype_name((et_dtype)x->dtype), (size_t)x->numel);
    ET_CHECK(eti_same_layout(x, result) || (eti_is_contiguous(x) && eti_is_contiguous(result)),
             ctx->err, ET_INVALID_ARGUMENT,
             "epilogue: tensor %zu and the result have different memory layouts", t);
  }
  return ET_OK;
}

enum { BLOCK = ETI_ON_STACK(1024, 256) };

static const void *operand_of(const eti_epilogue_call *call, const eti_epilogue_step *step,
                              size_t i, const float *running, const float *start, size_t at) {
  switch (step->in[i]) {
    case ETI_EPILOGUE_RUNNING:
      return running;
    case ETI_EPILOGUE_START:
      return start;
    case ETI_EPILOGUE_NUMBER:
      return &step->k[3];
    default:
      return (const float *)call->tensors[step->in[i] - ETI_EPILOGUE_TENSOR]->data + at;
  }
}

void eti_epilogue_row(const eti_epilogue_call *call, const float *in, float *out, size_t at,
                      size_t n) {
  const eti_epilogue *const epilogue = call->epilogue;
  float kept[BLOCK];
  for (size_t i = 0, count; i < n; i += count) {
    count = n - i < BLOCK ? n - i : BLOCK;
    const float *start = in + i, *running = start;
    if (epilogue->keeps_start && in == out) start = memcpy(kept, start, count * sizeof(float));
    for (size_t t = 0; t < epilogue->n_steps; t++) {
      const eti_epilogue_step *const step = &epilogue->steps[t];
      void *p[3] = {out + i};
      ptrdiff_t s[3] = {sizeof(float), sizeof(float), sizeof(float)};
      for (size_t o = 0; o < step->n_in; o++) {
        p[o + 1] = (void *)(uintptr_t)operand_of(call, step, o, running, start, at + i);
        if (step->in[o] == ETI_EPILOGUE_NUMBER) s[o + 1] = 0;
      }
      step->loop(p, s, count, step->k);
      running = out + i;
    }
  }
}

void eti_epilogue_rows(const eti_epilogue_call *call, float *rows, size_t step, size_t at,
                       size_t n_rows, size_t n) {
  if (step == n) {
    eti_epilogue_row(call, rows, rows, at, n_rows * n);
    return;
  }
  for (size_t r = 0; r < n_rows; r++, rows += step, at += step)
    eti_epilogue_row(call, rows, rows, at, n);
}

typedef struct whole_result {
  const eti_epilogue_call *call;
  const float *in;
  float *out;
} whole_result;

static void run_range(void *ctx, size_t begin, size_t end) {
  const whole_result *const w = ctx;
  eti_epilogue_row(w->call, w->in + begin, w->out + begin, begin, end - begin);
}

void eti_epilogue_all(const et_pool *pool, const eti_epilogue_call *call, const et_tensor *in,
                      const et_tensor *out) {
  whole_result w = {.call = call, .in = in->data, .out = out->data};
  et_parallel_for(pool, run_range, &w, out->numel, ETI_GRAIN_MATH);
}
