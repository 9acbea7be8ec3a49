// quantize.c — affine quantization: q = clamp(round(x / scale) + zero_point) and its inverse, with
// one scale for the tensor, one per channel, or one per token. Computes in f32 as torch's
// decomposed operators do. Two methods give the same bits. The fast one runs f32 and small integers
// of one layout row by row in micro/quantized. The general one treats scale and zero point as
// operands that broadcast, and relies on eti_map for layouts, casts and threads. Does not choose
// scales.
#include "kernels/kernel.h"
#include "kernels/micro/quantized/quant.h"
#include "kernels/ops.h"

#include <math.h>

typedef struct quant_params {
  float low, high;
  bool per_token;    // the zero point is added before rounding, the difference taken exactly
  bool per_channel;  // the difference is taken exactly
  bool wide;         // scales that are f64 tensors compute in f64
} quant_params;

// Rounds halves to even.
static float quantize_value(float x, double scale, float zero, const quant_params *k) {
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

static float dequantize_value(double q, double scale, double zero, const quant_params *k) {
  if (k->wide) return (float)((q - zero) * scale);
  const bool exact = k->per_channel || k->per_token;
  const float difference = exact ? (float)(q - zero) : (float)q - (float)zero;
  return difference * (float)scale;
}

// Quantizes a row. Operands: out f32, x f32, scale f64, zero point f32.
static void quantize_row(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  const quant_params *const k = params;
  for (size_t i = 0; i < n; i++) {
    const ptrdiff_t j = (ptrdiff_t)i;
    const float x = *(const float *)((const char *)p[1] + j * s[1]);
    const double scale = *(const double *)((const char *)p[2] + j * s[2]);
    const float zero = *(const float *)((const char *)p[3] + j * s[3]);
    *(float *)((char *)p[0] + j * s[0]) = quantize_value(x, scale, zero, k);
  }
}

// Dequantizes a row. Operands: out f32, q f64, scale f64, zero point f64.
static void dequantize_row(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  for (size_t i = 0; i < n; i++) {
    const ptrdiff_t j = (ptrdiff_t)i;
    const double q = *(const double *)((const char *)p[1] + j * s[1]);
    const double scale = *(const double *)((const char *)p[2] + j * s[2]);
    const double zero = *(const double *)((const char *)p[3] + j * s[3]);
    *(float *)((char *)p[0] + j * s[0]) = dequantize_value(q, scale, zero, params);
  }
}

// ---- scale and zero point as operands

// A tensor on the stack: one number, or another tensor viewed along one axis.
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

// Views `t` of rank 1 along `axis` of a tensor of the given rank.
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
  size_t axis;  // of channels
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

// ---- the fast method: memory is rows × channels × inner elements, with parameters per channel

typedef struct walk {
  const affine *a;
  const eti_quant_micro *micro;
  bool quantizes;
  size_t channels, inner;
  size_t q_bytes;
} walk;

enum { CHANNEL_BLOCK = ETI_ON_STACK(256, 128), SHORT_ROW = 16 };

static double number_at(const et_tensor *t, size_t i) {
  double x;
  const size_t at = t->numel == 1 ? 0 : i * et_dtype_bytes((et_dtype)t->dtype);
  eti_casts[t->dtype][ET_F64](&x, 0, (const char *)t->data + at, 0, 1);
  return x;
}

typedef struct channel_numbers {
  float inverse[CHANNEL_BLOCK], scale[CHANNEL_BLOCK], zero[CHANNEL_BLOCK];
} channel_numbers;

static void read_numbers(const walk *w, size_t first, size_t n, channel_numbers *to) {
  for (size_t i = 0; i < n; i++) {
    const double scale = number_at(w->a->scale, first + i);
    to->inverse[i] = (float)(1.0 / scale);
    to->scale[i] = (float)scale;
    to->zero[i] = (float)number_at(w->a->zero, first + i);
  }
}

static eti_quant_row row_of(const walk *w, const channel_numbers *numbers) {
  return (eti_quant_row){.low = w->a->params.low,
                         .high = w->a->params.high,
                         .inverse = numbers->inverse,
                         .scale = numbers->scale,
                         .zero = numbers->zero};
}

static void do_row(const walk *w, const eti_quant_row *r, size_t at, size_t n, bool each) {
  char *const out = (char *)w->a->out->data;
  const char *const in = (const char *)w->a->in->data;
  const eti_quant_micro *const m = w->micro;
  if (w->quantizes) {
    (each ? m->quantize_each : m->quantize)(out + at * w->q_bytes,
                                            (const float *)(const void *)in + at, r, n);
  } else {
    (each ? m->dequantize_each : m->dequantize)((float *)(void *)out + at, in + at * w->q_bytes, r,
                                                n);
  }
}

// Each item is an element.
static void walk_tensor(void *ctx, size_t begin, size_t end) {
  const walk *const w = ctx;
  channel_numbers numbers;
  read_numbers(w, 0, 1, &numbers);
  const eti_quant_row r = row_of(w, &numbers);
  do_row(w, &r, begin, end - begin, false);
}

// Each item is a row of one channel.
static void walk_channels(void *ctx, size_t begin, size_t end) {
  const walk *const w = ctx;
  channel_numbers numbers;
  for (size_t i = begin; i < end; i++) {
    read_numbers(w, i % w->channels, 1, &numbers);
    const eti_quant_row r = row_of(w, &numbers);
    do_row(w, &r, i * w->inner, w->inner, false);
  }
}

// Each item is a row of all channels, which are adjacent.
static void walk_columns(void *ctx, size_t begin, size_t end) {
  const walk *const w = ctx;
  channel_numbers numbers;
  for (size_t c = 0; c < w->channels; c += CHANNEL_BLOCK) {
    const size_t n = w->channels - c < CHANNEL_BLOCK ? w->channels - c : CHANNEL_BLOCK;
    read_numbers(w, c, n, &numbers);
    const eti_quant_row r = row_of(w, &numbers);
    for (size_t i = begin; i < end; i++) do_row(w, &r, i * w->channels + c, n, true);
  }
}

// Each item is a token; its parameters are f64.
static void walk_tokens(void *ctx, size_t begin, size_t end) {
  const walk *const w = ctx;
  const channel_numbers none = {{0}, {0}, {0}};
  const eti_quant_row r = row_of(w, &none);
  char *const out = (char *)w->a->out->data;
  const char *const in = (const char *)w->a->in->data;
  for (size_t i = begin; i < end; i++) {
    const double scale = number_at(w->a->scale, i), zero = number_at(w->a->zero, i);
    const size_t at = i * w->inner;
    if (w->quantizes) {
      w->micro->quantize_token(out + at * w->q_bytes, (const float *)(const void *)in + at,
                               1.0 / scale, zero, &r, w->inner);
    } else {
      w->micro->dequantize_token((float *)(void *)out + at, in + at * w->q_bytes, scale, zero,
                                 w->inner);
    }
  }
}

// True if zero points are in the range in which the loops are exact.
static bool has_plain_zeros(const et_tensor *zero) {
  for (size_t i = 0; i < zero->numel; i++) {
    const double z = number_at(zero, i);
    if (!(fabs(z) <= (double)ETI_QUANT_LIMIT) || z != nearbyint(z)) return false;
  }
  return true;
}

static bool run_walk(const et_kernel_ctx *ctx, const affine *a, bool quantizes) {
  const et_tensor *const x = quantizes ? a->in : a->out, *const q = quantizes ? a->out : a->in;
  const quant_params *const k = &a->params;
  walk w = {.a = a, .micro = eti_quant_micro_best(q->dtype), .quantizes = quantizes};
  if (w.micro == NULL || x->dtype != ET_F32 || x->numel == 0 || !eti_same_layout(x, q) ||
      fabsf(k->low) > (float)ETI_QUANT_LIMIT || fabsf(k->high) > (float)ETI_QUANT_LIMIT ||
      k->wide != k->per_token || !has_plain_zeros(a->zero))
    return false;
  w.q_bytes = et_dtype_bytes((et_dtype)q->dtype);
  if (k->per_token) {
    const size_t width = x->rank == 0 ? 0 : (size_t)x->sizes[x->rank - 1u];
    w.inner = width;
    if (width == 0 || a->scale->numel != x->numel / width || a->zero->numel != a->scale->numel ||
        !eti_is_contiguous(x) || !eti_is_contiguous(a->scale) || !eti_is_contiguous(a->zero))
      return false;
    et_parallel_for(ctx->pool, walk_tokens, &w, a->scale->numel, 1 + ETI_GRAIN_MATH / width);
    return true;
  }
  w.channels = k->per_channel ? a->scale->numel : 1;
  if (w.channels == 1) {
    et_parallel_for(ctx->pool, walk_tensor, &w, x->numel, ETI_GRAIN_CHEAP);
    return true;
  }
  w.inner = (size_t)x->strides[a->axis];
  if (w.inner == 1) {
    et_parallel_for(ctx->pool, walk_columns, &w, x->numel / w.channels,
                    1 + ETI_GRAIN_CHEAP / w.channels);
  } else {
    et_parallel_for(ctx->pool, walk_channels, &w, x->numel / w.inner,
                    1 + ETI_GRAIN_CHEAP / (w.inner + SHORT_ROW));
  }
  return true;
}

// ---- the general method

static et_status run_affine(const et_kernel_ctx *ctx, affine *a, bool quantizes) {
  ET_TRY(eti_resize_like(ctx, a->out, a->in));
  if (run_walk(ctx, a, quantizes)) return ET_OK;
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
  return run_affine(ctx, &a, quantizes);
}

et_status op_quantize_per_tensor_out(et_kernel_ctx *ctx, et_value *const *args) {
  return per_tensor(ctx, args, 6, true);
}
et_status op_dequantize_per_tensor_out(et_kernel_ctx *ctx, et_value *const *args) {
  return per_tensor(ctx, args, 7, false);
}

// Scale and zero point are tensors of one element.
static et_status by_tensors(const et_kernel_ctx *ctx, et_value *const *args, size_t i_out,
                            bool quantizes) {
  affine a = {0};
  ET_TRY(eti_arg_tensor(ctx, args, 0, &a.in));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &a.scale));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &a.zero));
  ET_TRY(eti_arg_tensor(ctx, args, i_out, &a.out));
  ET_CHECK(a.scale->numel == 1 && a.zero->numel == 1, ctx->err, ET_INVALID_ARGUMENT,
           "scale and zero_point: expected 1 element each, got %zu and %zu", a.scale->numel,
           a.zero->numel);
  ET_TRY(check_limits(ctx, args, 3, &a));
  a.scales.tensor = *a.scale;
  a.zeros.tensor = *a.zero;
  a.scales.tensor.rank = a.zeros.tensor.rank = 0;
  a.scale = &a.scales.tensor;
  a.zero = &a.zeros.tensor;
  return run_affine(ctx, &a, quantizes);
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
  a.axis = axis;
  const int32_t n = a.in->rank == 0 ? 1 : a.in->sizes[axis];
  const et_tensor *const both[2] = {scales, zeros};
  for (size_t k = 0; k < 2; k++) {
    const et_tensor *const t = both[k];
    char found[ETI_TENSOR_TEXT];
    ET_CHECK(t == NULL || (t->rank == 1 && t->sizes[0] == n), ctx->err, ET_INVALID_ARGUMENT,
             "%s: expected one element for each of the %d channels, got %s",
             k == 0 ? "scales" : "zero_points", (int)n, eti_tensor_text(t, found));
  }
  a.params.per_channel = true;
  a.params.wide = scales->dtype == ET_F64;
  a.scale = along_axis(&a.scales, scales, axis, a.in->rank);
  a.zero = zeros == NULL ? as_number(&a.zeros, 0.0) : along_axis(&a.zeros, zeros, axis, a.in->rank);
  return run_affine(ctx, &a, quantizes);
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
  return run_affine(ctx, &a, quantizes);
}

et_status op_quantize_per_token_out(et_kernel_ctx *ctx, et_value *const *args) {
  return per_token(ctx, args, 6, true);
}
et_status op_dequantize_per_token_out(et_kernel_ctx *ctx, et_value *const *args) {
  return per_token(ctx, args, 7, false);
}
