// qlinear.c — executorch_py::qlinear and qlinear_float: rows of i8 times packed 8-bit weights. The
// result is i8 or, if the input's scale is known only at run time, f32. Relies on
// kernels/lib/qgemm_driver.h; micro/qgemm/ defines the layout of weights and the arithmetic.
#include "kernels/kernel.h"
#include "kernels/ops.h"
#include "kernels/lib/qgemm_driver.h"

#include <string.h>

typedef struct qlinear {
  const et_tensor *in;
  const eti_qgemm_micro *micro;
} qlinear;

static void copy_rows(const void *ctx, size_t group, size_t first, size_t n, char *to,
                      size_t step) {
  const qlinear *const l = ctx;
  (void)group;
  const size_t k = (size_t)l->in->sizes[l->in->rank - 1u];
  eti_qcopy_rows(l->micro, (const int8_t *)l->in->data + first * k, k, n, to, step);
}

static void copy_piece(const void *ctx, size_t group, size_t row, size_t k0, size_t n, int8_t *to) {
  const qlinear *const l = ctx;
  (void)group;
  const size_t k = (size_t)l->in->sizes[l->in->rank - 1u];
  memcpy(to, (const int8_t *)l->in->data + row * k + k0, n);
}

// Reads the input at position 0, weights and data per column from position i_weight on, and the
// number of columns at i_columns. Resizes the result at i_out.
static et_status read_product(const et_kernel_ctx *ctx, et_value *const *args, size_t i_weight,
                              size_t i_columns, size_t i_out, bool is_float, qlinear *l,
                              eti_qgemm_job *p) {
  et_tensor *in, *out;
  int64_t n;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &in));
  ET_TRY(eti_arg_int(ctx, args, i_columns, &n));
  ET_TRY(eti_arg_tensor(ctx, args, i_out, &out));
  ET_CHECK(in->rank >= 1 && in->dtype == ET_I8 && eti_is_contiguous(in), ctx->err,
           ET_INVALID_ARGUMENT, "input: expected contiguous rows of i8, got %s of rank %d",
           et_dtype_name((et_dtype)in->dtype), (int)in->rank);
  ET_CHECK(n >= 0 && n <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
           "channels: expected 0 or more, got %lld", (long long)n);
  p->groups = 1;
  p->k = (size_t)in->sizes[in->rank - 1u];
  p->m = eti_numel_range(in, 0, in->rank - 1u);
  p->n = (size_t)n;
  ET_TRY(eti_qgemm_job_read(ctx, args, i_weight, is_float, p));
  eti_shape shape = eti_shape_of(in);
  shape.sizes[in->rank - 1u] = (int32_t)n;
  ET_TRY(eti_resize(ctx, out, &shape));
  ET_TRY(eti_check_contiguous(ctx, out, ET_INVALID_ARGUMENT, "out"));
  *l = (qlinear){.in = in, .micro = p->micro};
  p->rows = copy_rows;
  p->piece = copy_piece;
  p->terms = in->data;
  p->ctx = l;
  p->out = out->data;
  p->out_step = p->n;
  return ET_OK;
}

static et_status prepare_scratch(et_prepare_ctx *ctx, const eti_qgemm_job *p) {
  const size_t bytes = eti_qgemm_job_scratch(p, ctx->n_threads);
  if (bytes > ctx->scratch_bytes) ctx->scratch_bytes = bytes;
  return ET_OK;
}

// ---- (input, weight, starts, scales, addends, channels, zero_point, quant_min, quant_max, out)

enum { PLAIN_WEIGHT = 1, PLAIN_CHANNELS = 5, PLAIN_LIMITS = 6, PLAIN_OUT = 9 };

static et_status read_plain(const et_kernel_ctx *ctx, et_value *const *args, qlinear *l,
                            eti_qgemm_job *p) {
  *p = (eti_qgemm_job){0};
  ET_TRY(read_product(ctx, args, PLAIN_WEIGHT, PLAIN_CHANNELS, PLAIN_OUT, false, l, p));
  ET_TRY(eti_qlimits_read(ctx, args, PLAIN_LIMITS, p));
  ET_CHECK(args[PLAIN_OUT]->as.tensor->dtype == ET_I8, ctx->err, ET_INVALID_ARGUMENT,
           "out: expected i8, got %s", et_dtype_name((et_dtype)args[PLAIN_OUT]->as.tensor->dtype));
  return ET_OK;
}

et_status op_qlinear_out(et_kernel_ctx *ctx, et_value *const *args) {
  qlinear l;
  eti_qgemm_job p;
  ET_TRY(read_plain(ctx, args, &l, &p));
  eti_qgemm_job_run(ctx, &p);
  return ET_OK;
}

et_status prepare_qlinear_out(et_prepare_ctx *ctx, et_value *const *args) {
  const et_kernel_ctx k = eti_prepare_args(ctx);
  qlinear l;
  eti_qgemm_job p;
  ET_TRY(read_plain(&k, args, &l, &p));
  return prepare_scratch(ctx, &p);
}

// ---- (input, scale, zero_point, weight, sums, scales, addends, channels, out)

enum { FLOAT_WEIGHT = 3, FLOAT_CHANNELS = 7, FLOAT_OUT = 8 };

static et_status read_float(const et_kernel_ctx *ctx, et_value *const *args, qlinear *l,
                            eti_qgemm_job *p, eti_row_qparams *numbers) {
  *p = (eti_qgemm_job){0};
  ET_TRY(read_product(ctx, args, FLOAT_WEIGHT, FLOAT_CHANNELS, FLOAT_OUT, true, l, p));
  ET_TRY(eti_row_qparams_read(ctx, args, 1, p->m, numbers));
  ET_CHECK(args[FLOAT_OUT]->as.tensor->dtype == ET_F32, ctx->err, ET_INVALID_ARGUMENT,
           "out: expected f32, got %s", et_dtype_name((et_dtype)args[FLOAT_OUT]->as.tensor->dtype));
  return ET_OK;
}

// Rows whose scales and zero points are read together.
enum { ROWS_AT_ONCE = ETI_ON_STACK(512, 192) };

et_status op_qlinear_float_out(et_kernel_ctx *ctx, et_value *const *args) {
  qlinear l;
  eti_qgemm_job p;
  eti_row_qparams numbers;
  float scales[ROWS_AT_ONCE];
  int32_t zeros[ROWS_AT_ONCE];
  ET_TRY(read_float(ctx, args, &l, &p, &numbers));
  p.row_scales = scales;
  p.row_zeros = zeros;
  if (numbers.scale->numel == 1 && numbers.zero->numel == 1) {
    eti_row_qparams_get(&numbers, 0, 1, scales, zeros);
    eti_qgemm_job_run(ctx, &p);
    return ET_OK;
  }
  p.row_step = 1;
  const size_t all = p.m;
  et_tensor part = *l.in;
  l.in = &part;
  for (size_t first = 0; first < all; first += ROWS_AT_ONCE) {
    p.m = all - first < ROWS_AT_ONCE ? all - first : ROWS_AT_ONCE;
    eti_row_qparams_get(&numbers, first, p.m, scales, zeros);
    eti_qgemm_job_run(ctx, &p);
    part.data = (char *)part.data + p.m * p.k;
    p.terms = part.data;
    p.out = (float *)p.out + p.m * p.n;
  }
  return ET_OK;
}

et_status prepare_qlinear_float_out(et_prepare_ctx *ctx, et_value *const *args) {
  const et_kernel_ctx k = eti_prepare_args(ctx);
  qlinear l;
  eti_qgemm_job p;
  eti_row_qparams numbers;
  ET_TRY(read_float(&k, args, &l, &p, &numbers));
  return prepare_scratch(ctx, &p);
}
