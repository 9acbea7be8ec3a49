// choose_qparams.c — computes scale and zero point from the values of a tensor, or of each of its
// tokens, as torch's decomposed operators do. Relies on micro/eltwise for contiguous rows. Knows
// nothing of quantizing.
#include "kernels/kernel.h"
#include "kernels/micro/eltwise/eltwise.h"
#include "kernels/lib/token_qparams.h"
#include "kernels/ops.h"

#include <math.h>

// Entries of the tables that this file calls directly.
ETI_USES(rows, row_min)
ETI_USES(rows, row_max)

typedef struct value_range {
  float low, high;  // zero is always inside
} value_range;

static value_range range_of(const et_tensor *t, size_t first, size_t n) {
  value_range r = {0.0f, 0.0f};
  if (t->dtype == ET_F32 && (n == t->numel || eti_is_contiguous(t))) {
    const eti_eltwise *const micro = eti_eltwise_get();
    const float *const x = (const float *)t->data + first;
    const float low = micro->row_min(x, n), high = micro->row_max(x, n);
    if (low < 0.0f || low != low) r.low = low;
    if (high > 0.0f || high != high) r.high = high;
    return r;
  }
  const eti_cast_fn load = eti_casts[t->dtype][ET_F32];
  for (size_t i = first; i < first + n; i++) {
    ptrdiff_t offset = 0;
    size_t rest = i;
    for (size_t d = t->rank; d-- > 0; rest /= (size_t)t->sizes[d])
      offset += (ptrdiff_t)(rest % (size_t)t->sizes[d]) * t->strides[d];
    float x;
    const ptrdiff_t es = (ptrdiff_t)et_dtype_bytes((et_dtype)t->dtype);
    load(&x, 0, (const char *)t->data + offset * es, 0, 1);
    if (x < r.low || x != x) r.low = x;
    if (x > r.high || x != x) r.high = x;
  }
  return r;
}

static et_status read_choice(const et_kernel_ctx *ctx, et_value *const *args, size_t i_out,
                             et_tensor *t[3]) {
  ET_TRY(eti_arg_tensor(ctx, args, 0, &t[0]));
  ET_TRY(eti_arg_tensor(ctx, args, i_out, &t[1]));
  ET_TRY(eti_arg_tensor(ctx, args, i_out + 1, &t[2]));
  ET_CHECK(eti_dtype_in((et_dtype)t[0]->dtype, ET_TYPES_FLOAT_HALF) &&
               eti_dtype_in((et_dtype)t[1]->dtype, ET_TYPES_FLOAT) &&
               eti_dtype_in((et_dtype)t[2]->dtype, ET_TYPES_INDEX),
           ctx->err, ET_NOT_SUPPORTED, "not defined for dtypes %s, %s and %s",
           et_dtype_name((et_dtype)t[0]->dtype), et_dtype_name((et_dtype)t[1]->dtype),
           et_dtype_name((et_dtype)t[2]->dtype));
  return ET_OK;
}

static void store_choice(et_tensor *const t[3], size_t i, float scale, float zero) {
  const ptrdiff_t scale_bytes = (ptrdiff_t)et_dtype_bytes((et_dtype)t[1]->dtype);
  const ptrdiff_t zero_bytes = (ptrdiff_t)et_dtype_bytes((et_dtype)t[2]->dtype);
  eti_casts[ET_F32][t[1]->dtype]((char *)t[1]->data + (ptrdiff_t)i * scale_bytes, 0, &scale, 0, 1);
  eti_casts[ET_F32][t[2]->dtype]((char *)t[2]->data + (ptrdiff_t)i * zero_bytes, 0, &zero, 0, 1);
}

// (input, quant_min, quant_max, eps, dtype, scale_out, zero_point_out)
et_status op_choose_qparams_tensor_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *t[3];
  int64_t low, high;
  double eps;
  ET_TRY(read_choice(ctx, args, 5, t));
  ET_TRY(eti_arg_int(ctx, args, 1, &low));
  ET_TRY(eti_arg_int(ctx, args, 2, &high));
  ET_TRY(eti_arg_double(ctx, args, 3, &eps));
  ET_CHECK(low < high && t[0]->numel > 0, ctx->err, ET_INVALID_ARGUMENT,
           "choose_qparams: expected quant_min below quant_max and 1 element or more, got %lld, "
           "%lld and %zu elements",
           (long long)low, (long long)high, t[0]->numel);
  const eti_shape one = {.rank = 1, .sizes = {1}};
  ET_TRY(eti_resize(ctx, t[1], &one));
  ET_TRY(eti_resize(ctx, t[2], &one));
  const value_range r = range_of(t[0], 0, t[0]->numel);
  // An int64 may overflow for the difference.
  float scale = (r.high - r.low) / (float)((double)high - (double)low);
  if (scale < (float)eps) scale = (float)eps;
  float zero = (float)low - nearbyintf(r.low / scale);
  zero = zero<(float)low ? (float)low : zero>(float) high ? (float)high : zero;
  store_choice(t, 0, scale, zero);
  return ET_OK;
}

static void choose_for_token(et_tensor *const t[3], size_t row, size_t width) {
  const value_range r = range_of(t[0], row * width, width);
  float scale, zero;
  eti_token_qparams(r.low, r.high, &scale, &zero);
  store_choice(t, row, scale, zero);
}

// (input, dtype, scale_out, zero_point_out)
et_status op_choose_qparams_per_token_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *t[3];
  ET_TRY(read_choice(ctx, args, 2, t));
  ET_CHECK(t[0]->rank > 0 && t[0]->sizes[t[0]->rank - 1u] > 0, ctx->err, ET_INVALID_ARGUMENT,
           "choose_qparams_per_token_asymmetric: expected tokens with values, got rank %d",
           (int)t[0]->rank);
  eti_shape shape = eti_shape_of(t[0]);
  const size_t width = (size_t)shape.sizes[shape.rank - 1];
  shape.sizes[shape.rank - 1] = 1;
  ET_TRY(eti_resize(ctx, t[1], &shape));
  ET_TRY(eti_resize(ctx, t[2], &shape));
  ET_TRY(eti_check_contiguous(ctx, t[1], ET_NOT_SUPPORTED,
                              "choose_qparams_per_token_asymmetric: scale_out"));
  ET_TRY(eti_check_contiguous(ctx, t[2], ET_NOT_SUPPORTED,
                              "choose_qparams_per_token_asymmetric: zero_point_out"));
  for (size_t row = 0; row < t[1]->numel; row++) choose_for_token(t, row, width);
  return ET_OK;
}
