// quantized_add.c — the quantized sum of two affinely quantized tensors: dequantized, added and
// rounded in f32, like separate dequantize, add and quantize operators. Relies on eti_map for
// layouts, casts and threads.
#include "kernels/kernel.h"
#include "kernels/ops.h"

#include <math.h>

typedef struct quantized {
  float scale, zero;
} quantized;

typedef struct quantized_sum {
  quantized a, b, out;  // out.scale is the inverse
  float low, high;
} quantized_sum;

static void add_row(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  const quantized_sum *const k = params;
  for (size_t i = 0; i < n; i++) {
    const ptrdiff_t j = (ptrdiff_t)i;
    const float a = *(const float *)((const char *)p[1] + j * s[1]);
    const float b = *(const float *)((const char *)p[2] + j * s[2]);
    const float sum = (a - k->a.zero) * k->a.scale + (b - k->b.zero) * k->b.scale;
    const float q = nearbyintf(sum * k->out.scale) + k->out.zero;
    *(float *)((char *)p[0] + j * s[0]) = q < k->low ? k->low : q > k->high ? k->high : q;
  }
}

// Reads (scale, zero_point, quant_min, quant_max) from position i on.
static et_status read_numbers(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                              quantized *q, float limits[2]) {
  double scale;
  int64_t zero, low, high;
  ET_TRY(eti_arg_double(ctx, args, i, &scale));
  ET_TRY(eti_arg_int(ctx, args, i + 1, &zero));
  ET_TRY(eti_arg_int(ctx, args, i + 2, &low));
  ET_TRY(eti_arg_int(ctx, args, i + 3, &high));
  ET_CHECK(low <= high, ctx->err, ET_INVALID_ARGUMENT, "quant_min %lld is above quant_max %lld",
           (long long)low, (long long)high);
  *q = (quantized){(float)scale, (float)zero};
  limits[0] = (float)low;
  limits[1] = (float)high;
  return ET_OK;
}

et_status op_quantized_add_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *a, *b, *out;
  quantized_sum k;
  float limits[2];
  double scale;
  eti_shape shape_a, shape_b, shape;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &a));
  ET_TRY(eti_arg_tensor(ctx, args, 5, &b));
  ET_TRY(eti_arg_tensor(ctx, args, 14, &out));
  ET_TRY(read_numbers(ctx, args, 1, &k.a, limits));
  ET_TRY(read_numbers(ctx, args, 6, &k.b, limits));
  ET_TRY(read_numbers(ctx, args, 10, &k.out, limits));
  ET_TRY(eti_arg_double(ctx, args, 10, &scale));
  ET_TRY(eti_check_same_dtype(ctx, a, b, "a and b"));
  ET_TRY(eti_check_same_dtype(ctx, a, out, "a and out"));
  ET_CHECK(eti_dtype_in((et_dtype)a->dtype, ET_TYPES_INT | ET_DTYPE_BIT(ET_U16)), ctx->err,
           ET_NOT_SUPPORTED, "not defined for %s", et_dtype_name((et_dtype)a->dtype));
  k.out.scale = (float)(1.0 / scale);
  k.low = limits[0];
  k.high = limits[1];
  shape_a = eti_shape_of(a);
  shape_b = eti_shape_of(b);
  ET_TRY(eti_broadcast(ctx, &shape_a, &shape_b, &shape));
  ET_TRY(eti_resize(ctx, out, &shape));
  const eti_map map = {
      .loop = add_row, .params = &k, .grain = ETI_GRAIN_MATH, .types = {ET_F32, ET_F32, ET_F32}};
  et_tensor *const operands[] = {out, a, b};
  return eti_map_run(ctx, &map, operands, 3);
}
