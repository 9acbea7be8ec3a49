// qelementwise.c — executorch_py::qadd, qsub, qmul and qlookup: elementwise operators on i8. Two
// operands with their own scales are computed as by separate operators
// (micro/quantized/qeltwise.h); a function of one operand is a table of 256 results. Relies on
// eti_map for layouts, broadcasting and threads.
#include "kernels/kernel.h"
#include "kernels/micro/quantized/qeltwise.h"
#include "kernels/ops.h"

// ---- (a, scale, zero_point, b, scale, zero_point, scale, zero_point, quant_min, quant_max, out)

enum { I_A = 0, I_B = 3, I_RESULT = 6, I_OUT = 10, BLOCK = 256 };

typedef struct binary {
  eti_qbinary numbers;
  eti_qbinary_fn run;
} binary;

// Rows with other steps are packed block by block.
static void binary_row(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  const binary *const k = params;
  int8_t out[BLOCK], in[2][BLOCK];
  for (size_t at = 0, count; at < n; at += count) {
    count = s[0] == 1 && (s[1] == 1 || s[1] == 0) && (s[2] == 1 || s[2] == 0) ? n
            : n - at < BLOCK                                                  ? n - at
                                                                              : BLOCK;
    const int8_t *from[2];
    size_t step[2];
    for (size_t j = 0; j < 2; j++) {
      const int8_t *const base = (const int8_t *)p[j + 1] + (ptrdiff_t)at * s[j + 1];
      const bool in_place = s[j + 1] == 1 || s[j + 1] == 0;
      from[j] = in_place ? base : in[j];
      step[j] = s[j + 1] == 0 ? 0 : 1;
      for (size_t i = 0; i < count && !in_place; i++) in[j][i] = base[(ptrdiff_t)i * s[j + 1]];
    }
    int8_t *const to = (int8_t *)p[0] + (ptrdiff_t)at * s[0];
    k->run(s[0] == 1 ? to : out, from[0], from[1], step[0], step[1], &k->numbers, count);
    for (size_t i = 0; i < count && s[0] != 1; i++) to[(ptrdiff_t)i * s[0]] = out[i];
  }
}

static et_status read_affine(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                             double *scale, float *zero) {
  int64_t z;
  ET_TRY(eti_arg_double(ctx, args, i, scale));
  ET_TRY(eti_arg_int(ctx, args, i + 1, &z));
  ET_CHECK(z >= INT8_MIN && z <= INT8_MAX, ctx->err, ET_INVALID_ARGUMENT,
           "zero point: expected a number of i8, got %lld", (long long)z);
  *zero = (float)z;
  return ET_OK;
}

static et_status read_numbers(const et_kernel_ctx *ctx, et_value *const *args, eti_qbinary *k) {
  double a, b, result;
  int64_t low, high;
  ET_TRY(read_affine(ctx, args, I_A + 1, &a, &k->a_zero));
  ET_TRY(read_affine(ctx, args, I_B + 1, &b, &k->b_zero));
  ET_TRY(read_affine(ctx, args, I_RESULT, &result, &k->zero));
  ET_TRY(eti_arg_int(ctx, args, I_RESULT + 2, &low));
  ET_TRY(eti_arg_int(ctx, args, I_RESULT + 3, &high));
  ET_CHECK(low >= INT8_MIN && low <= high && high <= INT8_MAX, ctx->err, ET_INVALID_ARGUMENT,
           "expected numbers of i8 with quant_min below quant_max, got %lld and %lld",
           (long long)low, (long long)high);
  k->a_scale = (float)a;
  k->b_scale = (float)b;
  k->inverse = (float)(1.0 / result);
  k->low = (float)low;
  k->high = (float)high;
  return ET_OK;
}

static et_status check_i8(const et_kernel_ctx *ctx, const et_tensor *t, const char *what) {
  ET_CHECK(t->dtype == ET_I8, ctx->err, ET_INVALID_ARGUMENT, "%s: expected i8, got %s", what,
           et_dtype_name((et_dtype)t->dtype));
  return ET_OK;
}

static et_status run_binary(const et_kernel_ctx *ctx, et_value *const *args, eti_qbinary_fn run) {
  et_tensor *a, *b, *out;
  binary k = {.run = run};
  eti_shape shape;
  ET_TRY(eti_arg_tensor(ctx, args, I_A, &a));
  ET_TRY(eti_arg_tensor(ctx, args, I_B, &b));
  ET_TRY(eti_arg_tensor(ctx, args, I_OUT, &out));
  ET_TRY(read_numbers(ctx, args, &k.numbers));
  ET_TRY(check_i8(ctx, a, "a"));
  ET_TRY(check_i8(ctx, b, "b"));
  ET_TRY(check_i8(ctx, out, "out"));
  const eti_shape shapes[] = {eti_shape_of(a), eti_shape_of(b)};
  ET_TRY(eti_broadcast(ctx, &shapes[0], &shapes[1], &shape));
  ET_TRY(eti_resize(ctx, out, &shape));
  const eti_map map = {
      .loop = binary_row, .params = &k, .grain = ETI_GRAIN_MATH, .types = {ET_I8, ET_I8, ET_I8}};
  et_tensor *const operands[] = {out, a, b};
  return eti_map_run(ctx, &map, operands, 3);
}

et_status op_qadd_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_binary(ctx, args, eti_qeltwise_micro_best()->add);
}
et_status op_qsub_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_binary(ctx, args, eti_qeltwise_micro_best()->sub);
}
et_status op_qmul_out(et_kernel_ctx *ctx, et_value *const *args) {
  return run_binary(ctx, args, eti_qeltwise_micro_best()->mul);
}

// ---- (input, table for -128 … 127, out)

enum { TABLE = 256, MIDDLE = 128 };

typedef struct lookup {
  const int8_t *table;
  const eti_qeltwise_micro *micro;
} lookup;

static void lookup_row(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  const lookup *const l = params;
  if (s[0] == 1 && s[1] == 1) {
    l->micro->lookup(p[0], p[1], l->table, n);
    return;
  }
  const int8_t *const middle = l->table + MIDDLE;
  int8_t *const out = p[0];
  const int8_t *const in = p[1];
  for (size_t i = 0; i < n; i++) out[(ptrdiff_t)i * s[0]] = middle[in[(ptrdiff_t)i * s[1]]];
}

et_status op_qlookup_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *in, *table, *out;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &in));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &table));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &out));
  ET_TRY(check_i8(ctx, in, "input"));
  ET_TRY(check_i8(ctx, table, "table"));
  ET_TRY(check_i8(ctx, out, "out"));
  ET_CHECK(table->numel == TABLE && eti_is_contiguous(table), ctx->err, ET_INVALID_ARGUMENT,
           "table: expected %d contiguous elements, got %zu", (int)TABLE, table->numel);
  ET_TRY(eti_resize_like(ctx, out, in));
  const lookup l = {.table = table->data, .micro = eti_qeltwise_micro_best()};
  const eti_map map = {
      .loop = lookup_row, .params = &l, .grain = ETI_GRAIN_MATH, .types = {ET_I8, ET_I8}};
  et_tensor *const operands[] = {out, in};
  return eti_map_run(ctx, &map, operands, 2);
}
