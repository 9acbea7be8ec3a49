// quantize.c — affine quantization: q = clamp(round(x / scale) + zero_point) and back, with one
// scale for the tensor, one per channel, or one per token, and the choice of scales from values.
// Scale and zero point are operands that broadcast, so one loop each way serves all of them.
// Computes in f32 as torch's decomposed operators do; relies on eti_map for layouts, casts and
// threads.
#include "kernels/kernel.h"
#include "kernels/ops.h"

#include <math.h>

typedef struct quant_params {
  float low, high;
  bool per_token;    // the zero point is added before rounding, the difference taken exactly
  bool per_channel;  // the difference is taken exactly
  bool wide;         // scales that are f64 tensors compute in f64
} quant_params;

// Rounds halves to even.
static float quantized(float x, double scale, float zero, const quant_params *k) {
  float q;
  if (k->wide) {
    const double scaled = (double)x * (1.0 / scale);
    q = (float)(k->per_token ? nearbyint(scaled + (double)zero) : nearbyint(scaled) + (double)zero);
  } else {
    const float scaled = x * (float)(1.0 / scale);
    q = k->per_token ? nearbyintf(scaled + zero) : nearbyintf(scaled) + zero;
  }
  return q < k->low ? k->low : q > k->high ? k->high : q;
}

static float dequantized(double q, double scale, double zero, const quant_params *k) {
  if (k->wide) return (float)((q - zero) * scale);
  const bool exact = k->per_channel || k->per_token;
  const float difference = exact ? (float)(q - zero) : (float)q - (float)zero;
  return difference * (float)scale;
}

// Operands: out f32, x f32, scale f64, zero point f32.
static void quantize_row(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  const quant_params *const k = params;
  for (size_t i = 0; i < n; i++) {
    const ptrdiff_t j = (ptrdiff_t)i;
    const float x = *(const float *)((const char *)p[1] + j * s[1]);
    const double scale = *(const double *)((const char *)p[2] + j * s[2]);
    const float zero = *(const float *)((const char *)p[3] + j * s[3]);
    *(float *)((char *)p[0] + j * s[0]) = quantized(x, scale, zero, k);
  }
}

// Operands: out f32, q f64, scale f64, zero point f64.
static void dequantize_row(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  for (size_t i = 0; i < n; i++) {
    const ptrdiff_t j = (ptrdiff_t)i;
    const double q = *(const double *)((const char *)p[1] + j * s[1]);
    const double scale = *(const double *)((const char *)p[2] + j * s[2]);
    const double zero = *(const double *)((const char *)p[3] + j * s[3]);
    *(float *)((char *)p[0] + j * s[0]) = dequantized(q, scale, zero, params);
  }
}

// ---- scale and zero point as operands

// A tensor that lives on the stack: one number, or another tensor seen along one axis.
typedef struct operand {
  et_tensor tensor;
  int32_t sizes[ET_MAX_RANK];
  ptrdiff_t strides[ET_MAX_RANK];
  double number;
} operand;

static et_tensor *as_number(operand *o, double number) {
  *o = (operand){.number = number};
  o->tensor = (et_tensor){.data = &o->number,
                          .sizes = o->sizes,
                          .strides = o->strides,
                          .numel = 1,
                          .capacity = 1,
                          .dtype = ET_F64};
  return &o->tensor;
}

// `t` with rank 1 lies along `axis` of a tensor of that rank.
static et_tensor *along_axis(operand *o, const et_tensor *t, size_t axis, size_t rank) {
  *o = (operand){.tensor = *t};
  for (size_t d = 0; d < rank; d++) {
    o->sizes[d] = d == axis ? t->sizes[0] : 1;
    o->strides[d] = d == axis ? t->strides[0] : 1;
  }
  o->tensor.rank = (uint8_t)rank;
  o->tensor.sizes = o->sizes;
  o->tensor.strides = o->strides;
  return &o->tensor;
}

typedef struct affine {
  et_tensor *in, *out, *scale, *zero;
  quant_params params;
  operand scales, zeros;
} affine;

static et_status check_limits(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                              affine *a) {
  int64_t low, high;
  ET_TRY(eti_arg_int(ctx, args, i, &low));
  ET_TRY(eti_arg_int(ctx, args, i + 1, &high));
  ET_CHECK(low <= high, ctx->err, ET_INVALID_ARGUMENT, "quant_min %lld is above quant_max %lld",
           (long long)low, (long long)high);
  a->params.low = (float)low;
  a->params.high = (float)high;
  return ET_OK;
}

static et_status run_map(const et_kernel_ctx *ctx, affine *a, bool quantizes) {
  ET_TRY(eti_resize_like(ctx, a->out, a->in));
  const uint8_t wide = quantizes ? ET_F32 : ET_F64;
  const eti_map map = {.loop = quantizes ? quantize_row : dequantize_row,
                       .params = &a->params,
                       .grain = ETI_GRAIN_MATH,
                       .types = {ET_F32, wide, ET_F64, wide}};
  et_tensor *const operands[] = {a->out, a->in, a->scale, a->zero};
  return eti_map_run(ctx, &map, operands, 4);
}

// ---- one scale for the tensor: (input, scale, zero_point, quant_min, quant_max, dtype, …, out)

static et_status per_tensor(const et_kernel_ctx *ctx, et_value *const *args, size_t i_out,
                            bool quantizes) {
  affine a = {0};
  double scale;
  int64_t zero;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &a.in));
  ET_TRY(eti_arg_double(ctx, args, 1, &scale));
  ET_TRY(eti_arg_int(ctx, args, 2, &zero));
  ET_TRY(eti_arg_tensor(ctx, args, i_out, &a.out));
  ET_TRY(check_limits(ctx, args, 3, &a));
  a.scale = as_number(&a.scales, scale);
  a.zero = as_number(&a.zeros, (double)zero);
  return run_map(ctx, &a, quantizes);
}

et_status op_quantize_per_tensor_out(et_kernel_ctx *ctx, et_value *const *args) {
  return per_tensor(ctx, args, 6, true);
}
et_status op_dequantize_per_tensor_out(et_kernel_ctx *ctx, et_value *const *args) {
  return per_tensor(ctx, args, 7, false);
}

// The same with scale and zero point in tensors of one element.
static et_status by_tensors(const et_kernel_ctx *ctx, et_value *const *args, size_t i_out,
                            bool quantizes) {
  affine a = {0};
  ET_TRY(eti_arg_tensor(ctx, args, 0, &a.in));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &a.scale));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &a.zero));
  ET_TRY(eti_arg_tensor(ctx, args, i_out, &a.out));
  ET_CHECK(a.scale->numel == 1 && a.zero->numel == 1, ctx->err, ET_INVALID_ARGUMENT,
           "scale has %zu elements and zero_point %zu, each needs 1", a.scale->numel,
           a.zero->numel);
  ET_TRY(check_limits(ctx, args, 3, &a));
  a.scales.tensor = *a.scale;
  a.zeros.tensor = *a.zero;
  a.scales.tensor.rank = a.zeros.tensor.rank = 0;
  a.scale = &a.scales.tensor;
  a.zero = &a.zeros.tensor;
  return run_map(ctx, &a, quantizes);
}

et_status op_quantize_per_tensor_tensor_out(et_kernel_ctx *ctx, et_value *const *args) {
  return by_tensors(ctx, args, 6, true);
}
et_status op_dequantize_per_tensor_tensor_out(et_kernel_ctx *ctx, et_value *const *args) {
  return by_tensors(ctx, args, 7, false);
}

// ---- one per channel: (input, scales, zero_points?, axis, quant_min, quant_max, dtype, …, out)

static et_status per_channel(const et_kernel_ctx *ctx, et_value *const *args, size_t i_out,
                             bool quantizes) {
  affine a = {0};
  et_tensor *scales, *zeros;
  int64_t wanted;
  size_t axis;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &a.in));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &scales));
  ET_TRY(eti_arg_optional_tensor(ctx, args, 2, &zeros));
  ET_TRY(eti_arg_int(ctx, args, 3, &wanted));
  ET_TRY(eti_arg_tensor(ctx, args, i_out, &a.out));
  ET_TRY(check_limits(ctx, args, 4, &a));
  ET_TRY(eti_wrap_dim(ctx, wanted, a.in->rank, &axis));
  const int32_t n = a.in->rank == 0 ? 1 : a.in->sizes[axis];
  ET_CHECK(scales->rank == 1 && scales->sizes[0] == n &&
               (zeros == NULL || (zeros->rank == 1 && zeros->sizes[0] == n)),
           ctx->err, ET_INVALID_ARGUMENT,
           "scales and zero_points need one element for each of the %d channels", (int)n);
  a.params.per_channel = true;
  a.params.wide = scales->dtype == ET_F64;
  a.scale = along_axis(&a.scales, scales, axis, a.in->rank);
  a.zero = zeros == NULL ? as_number(&a.zeros, 0.0) : along_axis(&a.zeros, zeros, axis, a.in->rank);
  return run_map(ctx, &a, quantizes);
}

et_status op_quantize_per_channel_out(et_kernel_ctx *ctx, et_value *const *args) {
  return per_channel(ctx, args, 7, true);
}
et_status op_dequantize_per_channel_out(et_kernel_ctx *ctx, et_value *const *args) {
  return per_channel(ctx, args, 8, false);
}

// ---- one per token, the last dimension: (input, scales, zero_points, min, max, dtype, …, out)

static et_status per_token(const et_kernel_ctx *ctx, et_value *const *args, size_t i_out,
                           bool quantizes) {
  affine a = {.params = {.per_token = true}};
  ET_TRY(eti_arg_tensor(ctx, args, 0, &a.in));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &a.scale));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &a.zero));
  ET_TRY(eti_arg_tensor(ctx, args, i_out, &a.out));
  ET_TRY(check_limits(ctx, args, 3, &a));
  a.params.wide = a.scale->dtype == ET_F64;
  return run_map(ctx, &a, quantizes);
}

et_status op_quantize_per_token_out(et_kernel_ctx *ctx, et_value *const *args) {
  return per_token(ctx, args, 6, true);
}
et_status op_dequantize_per_token_out(et_kernel_ctx *ctx, et_value *const *args) {
  return per_token(ctx, args, 7, false);
}

// ---- scales from values

typedef struct value_range {
  float low, high;  // zero is always inside
} value_range;

static value_range range_of(const et_tensor *t, size_t first, size_t n) {
  value_range r = {0.0f, 0.0f};
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
           "choose_qparams: quant_min %lld, quant_max %lld, %zu elements: needs a range and values",
           (long long)low, (long long)high, t[0]->numel);
  const eti_shape one = {.rank = 1, .sizes = {1}};
  ET_TRY(eti_resize(ctx, t[1], &one));
  ET_TRY(eti_resize(ctx, t[2], &one));
  const value_range r = range_of(t[0], 0, t[0]->numel);
  float scale = (r.high - r.low) / (float)(high - low);
  if (scale < (float)eps) scale = (float)eps;
  float zero = (float)low - nearbyintf(r.low / scale);
  zero = zero<(float)low ? (float)low : zero>(float) high ? (float)high : zero;
  store_choice(t, 0, scale, zero);
  return ET_OK;
}

// The zero point is set from the end of the range that leaves the smaller error.
static void choose_for_token(et_tensor *const t[3], size_t row, size_t width) {
  const value_range r = range_of(t[0], row * width, width);
  float scale = (r.high - r.low) / 255.0f;
  if (scale < 0x1p-23f) scale = 0x1p-23f;
  const float low = r.low / scale, high = r.high / scale;
  float zero = (-128.0f + low) + (127.0f + high) > 0.0f ? -128.0f - low : 127.0f - high;
  zero = zero < -128.0f ? -128.0f : zero > 127.0f ? 127.0f : zero;
  store_choice(t, row, scale, nearbyintf(zero));
}

// (input, dtype, scale_out, zero_point_out)
et_status op_choose_qparams_per_token_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *t[3];
  ET_TRY(read_choice(ctx, args, 2, t));
  ET_CHECK(t[0]->rank > 0 && t[0]->sizes[t[0]->rank - 1u] > 0, ctx->err, ET_INVALID_ARGUMENT,
           "choose_qparams_per_token_asymmetric: needs tokens with values, got rank %d",
           (int)t[0]->rank);
  eti_shape shape = eti_shape_of(t[0]);
  const size_t width = (size_t)shape.sizes[shape.rank - 1];
  shape.sizes[shape.rank - 1] = 1;
  ET_TRY(eti_resize(ctx, t[1], &shape));
  ET_TRY(eti_resize(ctx, t[2], &shape));
  ET_CHECK(eti_is_contiguous(t[1]) && eti_is_contiguous(t[2]), ctx->err, ET_NOT_SUPPORTED,
           "choose_qparams_per_token_asymmetric: results need the contiguous dim order");
  for (size_t row = 0; row < t[1]->numel; row++) choose_for_token(t, row, width);
  return ET_OK;
}
