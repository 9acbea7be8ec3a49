// rms_norm.c — executorch_py::rms_norm: rows of f32 divided by their root mean square, times a
// weight for each element. Relies on lib/rms_norm_row.h, which defines the arithmetic. Knows no
// other layout than contiguous rows.
#include "kernels/kernel.h"
#include "kernels/lib/rms_norm_row.h"
#include "kernels/ops.h"

// Entries of the tables that this file calls directly.
ETI_USES(rows, row_sum_square_diff)

// (input, weight?, eps, out)
enum { IN, WEIGHT, EPS, OUT };

typedef struct norm {
  const float *x, *w;  // w may be NULL
  float *out;
  size_t n;  // elements of a row
  double eps;
} norm;

static void norm_rows(void *ctx, size_t begin, size_t end) {
  const norm *const r = ctx;
  for (size_t row = begin; row < end; row++) {
    eti_rms_norm_row(r->out + row * r->n, r->x + row * r->n, r->w, r->eps, r->n);
  }
}

et_status op_rms_norm_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *in, *weight, *out;
  double eps;
  ET_TRY(eti_arg_tensor(ctx, args, IN, &in));
  ET_TRY(eti_arg_optional_tensor(ctx, args, WEIGHT, &weight));
  ET_TRY(eti_arg_double(ctx, args, EPS, &eps));
  ET_TRY(eti_arg_tensor(ctx, args, OUT, &out));
  ET_CHECK(in->rank >= 1 && in->dtype == ET_F32 && eti_is_contiguous(in), ctx->err,
           ET_INVALID_ARGUMENT,
           "rms_norm: input: expected contiguous rows of f32, got %s of rank %d",
           et_dtype_name((et_dtype)in->dtype), (int)in->rank);
  const size_t n = (size_t)in->sizes[in->rank - 1u];
  ET_CHECK(weight == NULL ||
               (weight->dtype == ET_F32 && weight->numel == n && eti_is_contiguous(weight)),
           ctx->err, ET_INVALID_ARGUMENT,
           "rms_norm: weight: expected %zu contiguous elements of f32, got %zu of %s", n,
           weight->numel, et_dtype_name((et_dtype)weight->dtype));
  const eti_shape shape = eti_shape_of(in);
  ET_TRY(eti_resize(ctx, out, &shape));
  ET_CHECK(out->dtype == ET_F32 && eti_is_contiguous(out), ctx->err, ET_INVALID_ARGUMENT,
           "rms_norm: out: expected contiguous f32, got %s", et_dtype_name((et_dtype)out->dtype));
  if (in->numel == 0) return ET_OK;
  norm r = {.x = in->data,
            .w = weight == NULL ? NULL : weight->data,
            .out = out->data,
            .n = n,
            .eps = eps};
  et_parallel_for(ctx->pool, norm_rows, &r, in->numel / n, 1 + ETI_GRAIN_CHEAP / n);
  return ET_OK;
}
