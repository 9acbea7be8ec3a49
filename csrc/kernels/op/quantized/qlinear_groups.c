// qlinear_groups.c — executorch_py::qlinear_groups: rows times packed weights of 4 bits (u8) or 8
// bits (i8) with a scale, and perhaps a minimum, for each group of a column's terms, to a result in
// f32. Rows are i8, each with its own scale and zero point, or f32 that are quantized here, as
// quantized_decomposed::choose_qparams_per_token_asymmetric and quantize_per_token do. Relies on
// micro/qgemm/qgemm_groups.h, which defines the layout of weights and the arithmetic. Threads share
// panels of columns and blocks of rows.
#include "kernels/kernel.h"
#include "kernels/micro/eltwise/eltwise.h"
#include "kernels/micro/qgemm/qgemm_groups.h"
#include "kernels/micro/quantized/quant.h"
#include "kernels/ops.h"
#include "kernels/sizes.h"
#include "kernels/lib/qgemm_driver.h"
#include "kernels/lib/token_qparams.h"

// Entries of the tables that this file calls directly.
ETI_USES(rows, row_min)
ETI_USES(rows, row_max)

enum {
  NR = ETI_QGROUPS_NR,
  BLOCK_BYTES = 256 * 1024,  // of a block of rows, which all panels pass
  MAX_ROWS = 128,            // of a block
  PAIR = 2,                  // panels that tiles may multiply at once
  UNITS = 4,                 // at least, for each thread, when columns can be shared
  SMALL = 128 * 1024,        // multiply-adds that are not worth a second thread
  ALIGNMENT = 64,            // of the parts of scratch
};

// (input, scale?, zero_point?, weight, scales, zero_points?, minimums?, sums, addends, group,
// channels, residual?, out)
enum {
  IN,
  SCALE,
  ZERO,
  WEIGHT,
  SCALES,
  ZEROS,
  MINIMUMS,
  SUMS,
  ADDENDS,
  GROUP,
  CHANNELS,
  RESIDUAL,
  OUT
};

typedef struct product {
  const eti_qgroups_micro *micro;
  const et_tensor *in;
  bool is_float;            // rows of f32
  eti_row_qparams numbers;  // of rows of i8
  size_t m, n, k, group, n_groups;
  const uint8_t *weight;
  uint8_t bits;  // of a weight
  const et_tensor *scales;
  const int8_t *zeros;   // or NULL
  const void *minimums;  // or NULL
  const float *sums, *adds;
  const float *residual;  // added to the result; or NULL
  float *out;
  // Rows of i8 in place or, with the numbers of rows of f32, in scratch.
  const int8_t *rows;
  float *row_scales;
  int32_t *row_zeros;
  int32_t *begins;  // in scratch, or NULL
  // The division into blocks and units.
  size_t block, n_blocks;  // rows of a block
  size_t chunk, n_chunks;  // panels of a unit
} product;

// ---- arguments

// Reads weights and data per column, checked against n, k and group, which are set.
static et_status read_columns(const et_kernel_ctx *ctx, et_value *const *args, product *p) {
  static const struct {
    const char *name;
    uint32_t types;
    const char *kind;
  } wanted[] = {
      [WEIGHT] = {"weight", ET_TYPES_U8 | ET_TYPES_I8, "u8 or i8"},
      [SCALES] = {"scales", ET_TYPES_F32 | ET_TYPES_HALF, "f32, bf16 or f16"},
      [ZEROS] = {"zero_points", ET_DTYPE_BIT(ET_I8), "i8"},
      [MINIMUMS] = {"minimums", ET_TYPES_F32 | ET_TYPES_HALF, "f32, bf16 or f16"},
      [SUMS] = {"sums", ET_TYPES_F32, "f32"},
      [ADDENDS] = {"addends", ET_TYPES_F32, "f32"},
  };
  et_tensor *t[ADDENDS + 1];
  const size_t columns = eti_div_up(p->n, NR) * NR, panels = columns / NR;
  size_t panel, needed[ADDENDS + 1];
  needed[SUMS] = needed[ADDENDS] = columns;
  ET_TRY(eti_arg_tensor(ctx, args, WEIGHT, &t[WEIGHT]));
  p->bits = t[WEIGHT]->dtype == ET_I8 ? 8 : 4;
  ET_CHECK(
      !__builtin_mul_overflow(eti_qgroups_group_bytes(p->group, p->bits), p->n_groups, &panel) &&
          !__builtin_mul_overflow(panel, panels, &needed[WEIGHT]) &&
          !__builtin_mul_overflow(columns, p->n_groups, &needed[SCALES]),
      ctx->err, ET_INVALID_ARGUMENT, "%zu x %zu weights are too many", p->n, p->k);
  needed[ZEROS] = needed[MINIMUMS] = needed[SCALES];
  for (size_t i = WEIGHT; i <= ADDENDS; i++) {
    if (i == ZEROS || i == MINIMUMS) {
      ET_TRY(eti_arg_optional_tensor(ctx, args, i, &t[i]));
      if (t[i] == NULL) continue;
    } else {
      ET_TRY(eti_arg_tensor(ctx, args, i, &t[i]));
    }
    ET_TRY(
        eti_check_elements(ctx, t[i], wanted[i].name, needed[i], wanted[i].types, wanted[i].kind));
  }
  ET_TRY(eti_check_minimums(ctx, t[SCALES], t[ZEROS], t[MINIMUMS]));
  p->minimums = t[MINIMUMS] == NULL ? NULL : t[MINIMUMS]->data;
  p->weight = t[WEIGHT]->data;
  p->scales = t[SCALES];
  p->zeros = t[ZEROS] == NULL ? NULL : t[ZEROS]->data;
  p->sums = t[SUMS]->data;
  p->adds = t[ADDENDS]->data;
  return ET_OK;
}

// Reads scales and zero points of rows of i8; those of rows of f32 are not arguments.
static et_status read_row_numbers(const et_kernel_ctx *ctx, et_value *const *args, product *p) {
  if (!p->is_float) return eti_row_qparams_read(ctx, args, SCALE, p->m, &p->numbers);
  for (size_t i = SCALE; i <= ZERO; i++) {
    et_tensor *t;
    ET_TRY(eti_arg_optional_tensor(ctx, args, i, &t));
    ET_CHECK(t == NULL, ctx->err, ET_INVALID_ARGUMENT,
             "%s: expected none for rows of f32, which are quantized here, got %s",
             i == SCALE ? "scale" : "zero_point", et_dtype_name((et_dtype)t->dtype));
  }
  return ET_OK;
}

static et_status read_residual(const et_kernel_ctx *ctx, et_value *const *args,
                               const et_tensor *out, product *p) {
  et_tensor *t;
  ET_TRY(eti_arg_optional_tensor(ctx, args, RESIDUAL, &t));
  if (t == NULL) return ET_OK;
  ET_CHECK(t->dtype == ET_F32 && eti_is_contiguous(t) && eti_same_shape(t, out), ctx->err,
           ET_INVALID_ARGUMENT,
           "residual: expected contiguous f32 of the result's sizes, got %s of %zu elements for "
           "%zu x %zu",
           et_dtype_name((et_dtype)t->dtype), t->numel, p->m, p->n);
  p->residual = t->data;
  return ET_OK;
}

// Reads the product and resizes the result.
static et_status read_product(const et_kernel_ctx *ctx, et_value *const *args, product *p) {
  et_tensor *in, *out;
  int64_t n, group;
  ET_TRY(eti_arg_tensor(ctx, args, IN, &in));
  ET_TRY(eti_arg_int(ctx, args, GROUP, &group));
  ET_TRY(eti_arg_int(ctx, args, CHANNELS, &n));
  ET_TRY(eti_arg_tensor(ctx, args, OUT, &out));
  const bool is_float = in->dtype == ET_F32;
  ET_CHECK(in->rank >= 1 && (is_float || in->dtype == ET_I8) && eti_is_contiguous(in), ctx->err,
           ET_INVALID_ARGUMENT, "input: expected contiguous rows of i8 or f32, got %s of rank %d",
           et_dtype_name((et_dtype)in->dtype), (int)in->rank);
  const int32_t k = in->sizes[in->rank - 1u];
  ET_CHECK(
      n >= 0 && n <= INT32_MAX && group >= 1 && k % group == 0, ctx->err, ET_INVALID_ARGUMENT,
      "expected 0 channels or more and groups that divide the rows' %d terms, got %lld and %lld",
      (int)k, (long long)n, (long long)group);
  *p = (product){.in = in, .is_float = is_float, .rows = is_float ? NULL : in->data};
  p->m = eti_numel_range(in, 0, in->rank - 1u);
  p->n = (size_t)n;
  p->k = (size_t)k;
  p->n_groups = (size_t)(k / group);
  p->group = p->n_groups == 0 ? 1 : (size_t)group;
  p->micro = eti_qgroups_micro_best(p->group);
  ET_TRY(read_row_numbers(ctx, args, p));
  ET_TRY(read_columns(ctx, args, p));
  eti_shape shape = eti_shape_of(in);
  shape.sizes[in->rank - 1u] = (int32_t)n;
  ET_TRY(eti_resize(ctx, out, &shape));
  ET_CHECK(out->dtype == ET_F32 && eti_is_contiguous(out), ctx->err, ET_INVALID_ARGUMENT,
           "out: expected contiguous f32, got %s", et_dtype_name((et_dtype)out->dtype));
  p->out = out->data;
  return read_residual(ctx, args, out, p);
}

// ---- rows

// The bytes of scratch for rows: their initial sums and, for rows of f32, their integers, scales
// and zero points. False if they are too many.
static bool scratch_sizes(const product *p, size_t of_part[4], size_t *total) {
  const size_t parts = p->micro->begins == NULL ? 0 : eti_qgroups_parts(p->group, p->n_groups);
  const size_t each[4] = {parts * sizeof(int32_t), p->is_float ? p->k : 0,
                          p->is_float ? sizeof(float) : 0, p->is_float ? sizeof(int32_t) : 0};
  *total = 0;
  for (size_t i = 0; i < 4; i++) {
    if (__builtin_mul_overflow(p->m, each[i], &of_part[i]) ||
        __builtin_add_overflow(of_part[i], (size_t)ALIGNMENT - 1, &of_part[i]))
      return false;
    of_part[i] -= of_part[i] % ALIGNMENT;
    if (__builtin_add_overflow(*total, of_part[i], total)) return false;
  }
  return true;
}

// Places rows in scratch. Products of rows of i8 that do not fit run slowly.
static et_status place_rows(const et_kernel_ctx *ctx, product *p) {
  size_t bytes[4], total;
  if (!scratch_sizes(p, bytes, &total) || total > ctx->scratch_bytes) {
    ET_CHECK(!p->is_float, ctx->err, ET_OUT_OF_MEMORY,
             "expected scratch for %zu x %zu integers, got %zu bytes; prepare requests it", p->m,
             p->k, ctx->scratch_bytes);
    p->micro = &eti_qgroups_scalar;  // which needs no initial sums
    return ET_OK;
  }
  char *at = ctx->scratch;
  if (bytes[0] > 0) p->begins = (int32_t *)(void *)at;
  if (!p->is_float) return ET_OK;
  at += bytes[0];
  p->rows = (const int8_t *)at;
  p->row_scales = (float *)(void *)(at + bytes[1]);
  p->row_zeros = (int32_t *)(void *)(at + bytes[1] + bytes[2]);
  return ET_OK;
}

static void quantize_row(const product *p, size_t row) {
  static const eti_quant_row limits = {.low = -128.0f, .high = 127.0f};
  const float *const x = (const float *)p->in->data + row * p->k;
  const eti_eltwise *const micro = eti_eltwise_get();
  const float least = p->k == 0 ? 0.0f : micro->row_min(x, p->k);
  const float greatest = p->k == 0 ? 0.0f : micro->row_max(x, p->k);
  float scale, zero;
  eti_token_qparams(least, greatest, &scale, &zero);
  zero = zero == zero ? zero : 0.0f;  // of a row with NaN, whose scale is NaN
  eti_quant_micro_best(ET_I8)->quantize_token((int8_t *)p->rows + row * p->k, x,
                                              1.0 / (double)scale, (double)zero, &limits, p->k);
  p->row_scales[row] = scale;
  p->row_zeros[row] = (int32_t)zero;
}

static void prepare_rows(void *ctx, size_t begin, size_t end) {
  const product *const p = ctx;
  for (size_t row = begin; row < end && p->is_float; row++) quantize_row(p, row);
  if (p->begins == NULL) return;
  const size_t parts = eti_qgroups_parts(p->group, p->n_groups);
  p->micro->begins(p->rows + begin * p->k, end - begin, p->group, p->n_groups,
                   p->begins + begin * parts);
}

// ---- sharing

// Rows of a block: blocks are nearly equal, and whole tiles except for the last one.
static size_t block_rows(const product *p) {
  const size_t tile = p->micro->rows_of_a_tile, near = BLOCK_BYTES / (p->k + 1);
  const size_t most = eti_at_least(eti_at_most(near, MAX_ROWS), tile) / tile * tile;
  const size_t blocks = eti_at_least(eti_div_up(p->m, most), 1);
  return eti_at_most(eti_div_up(eti_div_up(p->m, blocks), tile) * tile, p->m);
}

// Sets the division for so many threads.
static void share_work(product *p, size_t threads) {
  p->block = block_rows(p);
  p->n_blocks = eti_div_up(p->m, p->block);
  const size_t panels = eti_div_up(p->n, NR);
  const size_t wanted = threads == 1 ? 1 : eti_div_up(UNITS * threads, p->n_blocks);
  p->chunk = eti_div_up(eti_div_up(panels, eti_at_most(wanted, panels)), PAIR) * PAIR;
  p->n_chunks = eti_div_up(panels, p->chunk);
}

// Adds the residual to columns [from, from + n) of m rows from `first` on.
static void add_residual(const product *p, size_t first, size_t m, size_t from, size_t n) {
  for (size_t row = first; row < first + m; row++) {
    float *const out = p->out + row * p->n + from;
    const float *const more = p->residual + row * p->n + from;
    for (size_t i = 0; i < n; i++) out[i] = more[i] + out[i];
  }
}

// Multiplies the rows of a block from `first` on with the panels `from` to `to`.
static void run_block(const product *p, size_t first, size_t from, size_t to) {
  float scales[MAX_ROWS];
  int32_t zeros[MAX_ROWS];
  const size_t parts = eti_qgroups_parts(p->group, p->n_groups);
  const size_t column = from * NR, n = eti_at_most(to * NR, p->n) - column;
  eti_qgroups_tile t = {.a = p->rows + first * p->k,
                        .group = p->group,
                        .n_groups = p->n_groups,
                        .begins = p->begins == NULL ? NULL : p->begins + first * parts,
                        .w = p->weight,
                        .bits = p->bits,
                        .scale = p->scales->data,
                        .dtype = p->scales->dtype,
                        .zero = p->zeros,
                        .min = p->minimums,
                        .sum = p->sums,
                        .add = p->adds,
                        .m = eti_at_most(p->m - first, p->block),
                        .row_scale = scales,
                        .row_zero = zeros,
                        .out = p->out + first * p->n,
                        .out_step = p->n};
  if (p->is_float) {
    t.row_scale = p->row_scales + first;
    t.row_zero = p->row_zeros + first;
  } else {
    eti_row_qparams_get(&p->numbers, first, t.m, scales, zeros);
  }
  const eti_qgroups_tile part = eti_qgroups_columns(&t, column, n);
  p->micro->tile(&part);
  if (p->residual != NULL) add_residual(p, first, t.m, column, n);
}

static void run_units(void *ctx, size_t begin, size_t end) {
  const product *const p = ctx;
  const size_t panels = eti_div_up(p->n, NR), n_chunks = p->n_chunks;
  for (size_t u = begin, next; u < end; u = next) {
    const size_t block = u / n_chunks;
    next = eti_at_most(end, (block + 1) * n_chunks);
    const size_t from = u % n_chunks * p->chunk, to = from + (next - u) * p->chunk;
    run_block(p, block * p->block, from, eti_at_most(to, panels));
  }
}

et_status op_qlinear_groups_out(et_kernel_ctx *ctx, et_value *const *args) {
  product p;
  ET_TRY(read_product(ctx, args, &p));
  if (p.m == 0 || p.n == 0) return ET_OK;
  ET_TRY(place_rows(ctx, &p));
  if (p.is_float || p.begins != NULL) {
    et_parallel_for(ctx->pool, prepare_rows, &p, p.m, 1 + ETI_GRAIN_MATH / (p.k + 1));
  }
  const bool is_small = (double)p.m * (double)p.n * (double)p.k < SMALL;
  share_work(&p, ctx->pool == NULL || is_small ? 1 : ctx->pool->n_threads);
  const size_t n_units = p.n_blocks * p.n_chunks;
  et_parallel_for(ctx->pool, run_units, &p, n_units, is_small ? n_units : 1);
  return ET_OK;
}

et_status prepare_qlinear_groups_out(et_prepare_ctx *ctx, et_value *const *args) {
  const et_kernel_ctx k = eti_prepare_args(ctx);
  product p;
  size_t bytes[4], total;
  et_tensor *in;
  ET_TRY(eti_arg_tensor(&k, args, IN, &in));
  if (ctx->is_minimal && in->dtype != ET_F32) return ET_OK;  // whose products run without scratch
  ET_TRY(read_product(&k, args, &p));
  if (scratch_sizes(&p, bytes, &total) && total > ctx->scratch_bytes) ctx->scratch_bytes = total;
  return ET_OK;
}
