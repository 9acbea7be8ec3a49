// qlinear_groups.c — executorch_py::qlinear_groups: rows of i8, each with its own scale, times
// packed weights of 4 bits (u8) or 8 bits (i8) with a scale, and perhaps a minimum, for each group
// of a column's terms, to a result in f32. Relies on micro/qgemm/qgemm_groups.h, which defines the
// layout of weights and the arithmetic. Threads share panels of columns and blocks of rows; rows
// are read in place.
#include "kernels/kernel.h"
#include "kernels/micro/qgemm/qgemm_groups.h"
#include "kernels/ops.h"
#include "kernels/sizes.h"
#include "kernels/lib/qgemm_driver.h"

enum {
  NR = ETI_QGROUPS_NR,
  BLOCK_BYTES = 256 * 1024,  // of a block of rows, which all panels pass
  MAX_ROWS = 128,            // of a block
  PAIR = 2,                  // panels that tiles may multiply at once
  UNITS = 8,                 // at least, for each thread, when columns can be shared
  SMALL = 128 * 1024,        // multiply-adds that are not worth a second thread
};

// (input, scale, zero_point, weight, scales, zero_points?, minimums?, sums, addends, group,
// channels, out)
enum { IN, SCALE, ZERO, WEIGHT, SCALES, ZEROS, MINIMUMS, SUMS, ADDENDS, GROUP, CHANNELS, OUT };

typedef struct product {
  const eti_qgroups_micro *micro;
  const et_tensor *in;
  eti_row_qparams numbers;  // of rows
  size_t m, n, k, group, n_groups;
  const uint8_t *weight;
  uint8_t bits;  // of a weight
  const et_tensor *scales;
  const int8_t *zeros;   // or NULL
  const void *minimums;  // or NULL
  const float *sums, *adds;
  float *out;
  // The division into blocks, units and slots.
  size_t block, n_blocks;  // rows of a block
  size_t chunk, n_chunks;  // panels of a unit
  size_t n_units, n_slots;
  int32_t *begins;  // of a block for each slot, or NULL
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

// Reads the product and resizes the result.
static et_status read_product(const et_kernel_ctx *ctx, et_value *const *args, product *p) {
  et_tensor *in, *out;
  int64_t n, group;
  ET_TRY(eti_arg_tensor(ctx, args, IN, &in));
  ET_TRY(eti_arg_int(ctx, args, GROUP, &group));
  ET_TRY(eti_arg_int(ctx, args, CHANNELS, &n));
  ET_TRY(eti_arg_tensor(ctx, args, OUT, &out));
  ET_CHECK(in->rank >= 1 && in->dtype == ET_I8 && eti_is_contiguous(in), ctx->err,
           ET_INVALID_ARGUMENT, "input: expected contiguous rows of i8, got %s of rank %d",
           et_dtype_name((et_dtype)in->dtype), (int)in->rank);
  const int32_t k = in->sizes[in->rank - 1u];
  ET_CHECK(
      n >= 0 && n <= INT32_MAX && group >= 1 && k % group == 0, ctx->err, ET_INVALID_ARGUMENT,
      "expected 0 channels or more and groups that divide the rows' %d terms, got %lld and %lld",
      (int)k, (long long)n, (long long)group);
  *p = (product){.in = in};
  p->m = eti_numel_range(in, 0, in->rank - 1u);
  p->n = (size_t)n;
  p->k = (size_t)k;
  p->n_groups = (size_t)(k / group);
  p->group = p->n_groups == 0 ? 1 : (size_t)group;
  p->micro = eti_qgroups_micro_best(p->group);
  ET_TRY(eti_row_qparams_read(ctx, args, SCALE, p->m, &p->numbers));
  ET_TRY(read_columns(ctx, args, p));
  eti_shape shape = eti_shape_of(in);
  shape.sizes[in->rank - 1u] = (int32_t)n;
  ET_TRY(eti_resize(ctx, out, &shape));
  ET_CHECK(out->dtype == ET_F32 && eti_is_contiguous(out), ctx->err, ET_INVALID_ARGUMENT,
           "out: expected contiguous f32, got %s", et_dtype_name((et_dtype)out->dtype));
  p->out = out->data;
  return ET_OK;
}

// ---- sharing

// Rows of a block: blocks are nearly equal, and whole tiles except for the last one.
static size_t block_rows(const product *p) {
  const size_t tile = p->micro->rows_of_a_tile, near = BLOCK_BYTES / (p->k + 1);
  const size_t most = eti_at_least(eti_at_most(near, MAX_ROWS), tile) / tile * tile;
  const size_t blocks = eti_at_least(eti_div_up(p->m, most), 1);
  return eti_at_most(eti_div_up(eti_div_up(p->m, blocks), tile) * tile, p->m);
}

// Bytes of scratch that a slot keeps; 0 for none.
static size_t slot_bytes(const product *p) {
  if (p->micro->begins == NULL) return 0;
  const size_t parts = eti_qgroups_parts(p->group, p->n_groups);
  return eti_div_up(block_rows(p) * parts * sizeof(int32_t), 64) * 64;
}

static void share_work(const et_kernel_ctx *ctx, product *p) {
  const size_t threads = ctx->pool == NULL ? 1 : ctx->pool->n_threads, each = slot_bytes(p);
  const bool is_small = (double)p->m * (double)p->n * (double)p->k < SMALL;
  p->n_slots = is_small ? 1 : threads;
  if (each > ctx->scratch_bytes / p->n_slots) {
    p->micro = &eti_qgroups_scalar;  // which needs no scratch
  } else if (each > 0) {
    p->begins = ctx->scratch;
  }
  p->block = block_rows(p);
  p->n_blocks = eti_div_up(p->m, p->block);
  const size_t panels = eti_div_up(p->n, NR);
  const size_t wanted = p->n_slots == 1 ? 1 : eti_div_up(UNITS * p->n_slots, p->n_blocks);
  p->chunk = eti_div_up(eti_div_up(panels, eti_at_most(wanted, panels)), PAIR) * PAIR;
  p->n_chunks = eti_div_up(panels, p->chunk);
  p->n_units = p->n_blocks * p->n_chunks;
}

// Multiplies the rows of a block from `first` on with the panels `from` to `to`.
static void run_block(const product *p, size_t first, size_t from, size_t to, int32_t *begins) {
  float scales[MAX_ROWS];
  int32_t zeros[MAX_ROWS];
  const eti_qgroups_tile t = {.a = (const int8_t *)p->in->data + first * p->k,
                              .group = p->group,
                              .n_groups = p->n_groups,
                              .begins = begins,
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
  eti_row_qparams_get(&p->numbers, first, t.m, scales, zeros);
  if (begins != NULL) p->micro->begins(t.a, t.m, t.group, t.n_groups, begins);
  const eti_qgroups_tile part =
      eti_qgroups_columns(&t, from * NR, eti_at_most(to * NR, p->n) - from * NR);
  p->micro->tile(&part);
}

static void run_slots(void *ctx, size_t begin, size_t end) {
  const product *const p = ctx;
  const size_t panels = eti_div_up(p->n, NR), n_chunks = p->n_chunks;
  for (size_t slot = begin; slot < end; slot++) {
    int32_t *const begins =
        p->begins == NULL ? NULL : p->begins + slot * slot_bytes(p) / sizeof(int32_t);
    const size_t last = (slot + 1) * p->n_units / p->n_slots;
    for (size_t u = slot * p->n_units / p->n_slots, next; u < last; u = next) {
      const size_t block = u / n_chunks;
      next = eti_at_most(last, (block + 1) * n_chunks);
      const size_t from = u % n_chunks * p->chunk, to = from + (next - u) * p->chunk;
      run_block(p, block * p->block, from, eti_at_most(to, panels), begins);
    }
  }
}

et_status op_qlinear_groups_out(et_kernel_ctx *ctx, et_value *const *args) {
  product p;
  ET_TRY(read_product(ctx, args, &p));
  if (p.m == 0 || p.n == 0) return ET_OK;
  share_work(ctx, &p);
  et_parallel_for(ctx->pool, run_slots, &p, p.n_slots, 1);
  return ET_OK;
}

et_status prepare_qlinear_groups_out(et_prepare_ctx *ctx, et_value *const *args) {
  const et_kernel_ctx k = eti_prepare_args(ctx);
  product p;
  ET_TRY(read_product(&k, args, &p));
  const size_t bytes = slot_bytes(&p) * (ctx->n_threads == 0 ? 1 : ctx->n_threads);
  if (bytes > ctx->scratch_bytes) ctx->scratch_bytes = bytes;
  return ET_OK;
}
