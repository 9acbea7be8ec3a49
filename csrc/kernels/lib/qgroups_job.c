// qgroups_job.c — see qgroups_job.h. Rows are quantized to scratch, as
// quantized_decomposed::choose_qparams_per_token_asymmetric and quantize_per_token do; then threads
// take units of a block of rows and a range of panels, one after the other. Panels are counted
// through all products.
#include "kernels/lib/qgroups_job.h"

#include "kernels/dtype_sets.h"
#include "kernels/lib/args.h"
#include "kernels/lib/rms_norm_row.h"
#include "kernels/lib/shape.h"
#include "kernels/lib/token_qparams.h"
#include "kernels/lib/unit_queues.h"
#include "kernels/micro/quantized/quant.h"
#include "kernels/sizes.h"
#include "runtime/check.h"

// Entries of the tables that this file calls directly.
ETI_USES(rows, row_min)
ETI_USES(rows, row_max)
ETI_USES(rows, row_sum_square_diff)

enum {
  NR = ETI_QGROUPS_NR,
  BLOCK_BYTES = 256 * 1024,  // of a block of rows, which all panels pass
  MAX_ROWS = 128,            // of a block
  PAIR = 2,                  // panels that tiles may multiply at once
  UNITS = 4,                 // at least, for each thread, when columns can be shared
  SMALL = 128 * 1024,        // multiply-adds that are not worth a second thread
  ALIGNMENT = 64,            // of the parts of scratch
  TILE_FLOATS = 16 * 1024,   // at most, of a second result before the steps
};

// ---- arguments

et_status eti_qgroups_read_rows(const et_kernel_ctx *ctx, const et_tensor *in, int64_t group,
                                eti_qgroups_job *job) {
  const bool is_float = in->dtype == ET_F32;
  ET_CHECK(in->rank >= 1 && (is_float || in->dtype == ET_I8) && eti_is_contiguous(in), ctx->err,
           ET_INVALID_ARGUMENT, "input: expected contiguous rows of i8 or f32, got %s of rank %d",
           et_dtype_name((et_dtype)in->dtype), (int)in->rank);
  const int32_t k = in->sizes[in->rank - 1u];
  ET_CHECK(group >= 1 && k % group == 0, ctx->err, ET_INVALID_ARGUMENT,
           "group: expected a divisor of the rows' %d terms, got %lld", (int)k, (long long)group);
  *job = (eti_qgroups_job){.in = in, .is_float = is_float};
  job->m = eti_numel_range(in, 0, in->rank - 1u);
  job->n_terms = (size_t)k;
  job->n_groups = (size_t)(k / group);
  job->group = job->n_groups == 0 ? 1 : (size_t)group;
  job->micro = eti_qgroups_micro_best(job->group);
  return ET_OK;
}

static uint8_t bits_of(const eti_qgroups_product *p) {
  return p->operands[ETI_QGROUPS_WEIGHT]->dtype == ET_I8 ? 8 : 4;
}

et_status eti_qgroups_add_product(const et_kernel_ctx *ctx,
                                  const et_tensor *const operands[ETI_QGROUPS_OPERANDS], int64_t n,
                                  eti_qgroups_job *job) {
  static const struct {
    const char *name;
    uint32_t types;
    const char *kind;
  } wanted[] = {
      [ETI_QGROUPS_WEIGHT] = {"weight", ET_TYPES_U8 | ET_TYPES_I8, "u8 or i8"},
      [ETI_QGROUPS_SCALES] = {"scales", ET_TYPES_F32 | ET_TYPES_HALF, "f32, bf16 or f16"},
      [ETI_QGROUPS_ZEROS] = {"zero_points", ET_DTYPE_BIT(ET_I8), "i8"},
      [ETI_QGROUPS_MINIMUMS] = {"minimums", ET_TYPES_F32 | ET_TYPES_HALF, "f32, bf16 or f16"},
      [ETI_QGROUPS_SUMS] = {"sums", ET_TYPES_F32, "f32"},
      [ETI_QGROUPS_ADDENDS] = {"addends", ET_TYPES_F32, "f32"},
  };
  ET_CHECK(n >= 0 && n <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
           "channels: expected 0 … %d, got %lld", INT32_MAX, (long long)n);
  eti_qgroups_product *const p = &job->products[job->n_products++];
  *p = (eti_qgroups_product){.n = (size_t)n};
  for (size_t i = 0; i < ETI_QGROUPS_OPERANDS; i++) p->operands[i] = operands[i];
  const size_t panels = eti_div_up(p->n, NR), columns = panels * NR;
  size_t panel, needed[ETI_QGROUPS_OPERANDS];
  needed[ETI_QGROUPS_SUMS] = needed[ETI_QGROUPS_ADDENDS] = columns;
  ET_CHECK(!__builtin_mul_overflow(eti_qgroups_group_bytes(job->group, bits_of(p)), job->n_groups,
                                   &panel) &&
               !__builtin_mul_overflow(panel, panels, &needed[ETI_QGROUPS_WEIGHT]) &&
               !__builtin_mul_overflow(columns, job->n_groups, &needed[ETI_QGROUPS_SCALES]),
           ctx->err, ET_INVALID_ARGUMENT, "%zu x %zu weights are too many", p->n, job->n_terms);
  needed[ETI_QGROUPS_ZEROS] = needed[ETI_QGROUPS_MINIMUMS] = needed[ETI_QGROUPS_SCALES];
  for (size_t i = 0; i < ETI_QGROUPS_OPERANDS; i++) {
    if (operands[i] == NULL) continue;
    ET_TRY(eti_check_elements(ctx, operands[i], wanted[i].name, needed[i], wanted[i].types,
                              wanted[i].kind));
  }
  return eti_check_minimums(ctx, operands[ETI_QGROUPS_SCALES], operands[ETI_QGROUPS_ZEROS],
                            operands[ETI_QGROUPS_MINIMUMS]);
}

et_status eti_qgroups_resize(const et_kernel_ctx *ctx, const eti_qgroups_job *job, size_t n,
                             et_tensor *out) {
  eti_shape shape = eti_shape_of(job->in);
  shape.sizes[job->in->rank - 1u] = (int32_t)n;
  ET_TRY(eti_resize(ctx, out, &shape));
  ET_CHECK(out->dtype == ET_F32 && eti_is_contiguous(out), ctx->err, ET_INVALID_ARGUMENT,
           "out: expected contiguous f32, got %s", et_dtype_name((et_dtype)out->dtype));
  return ET_OK;
}

// ---- scratch

// Rows of a block: blocks are nearly equal, and whole tiles except for the last one.
static size_t block_rows(const eti_qgroups_job *job) {
  const size_t tile = job->micro->rows_of_a_tile, near = BLOCK_BYTES / (job->n_terms + 1);
  const size_t most = eti_at_least(eti_at_most(near, MAX_ROWS), tile) / tile * tile;
  const size_t blocks = eti_at_least(eti_div_up(job->m, most), 1);
  return eti_at_most(eti_div_up(eti_div_up(job->m, blocks), tile) * tile, job->m);
}

// Parts of scratch. All threads share the first ones; each thread has a slot.
typedef enum part { BEGINS, ROWS, ROW_SCALES, ROW_ZEROS, SLOTS, PARTS } part;

// Sets the bytes of each part, SLOTS those of one slot. False if they are too many.
static bool scratch_sizes(const eti_qgroups_job *job, size_t bytes[PARTS]) {
  const size_t begins = eti_qgroups_begins(job->micro, job->group, job->n_groups);
  // More rows never need less, so that what suffices for the most rows suffices for fewer.
  const size_t rows = eti_at_most(job->m, MAX_ROWS);
  const size_t columns = job->is_gated ? eti_at_most(job->products[0].n, TILE_FLOATS) : 0;
  const size_t of_tile = eti_at_most(eti_round_up(columns, NR) * rows, TILE_FLOATS);
  const size_t of_norm = job->is_normalized ? job->n_terms : 0;
  const size_t each[PARTS] = {
      begins * sizeof(int32_t),
      job->is_float ? job->n_terms : 0,
      job->is_float ? sizeof(float) : 0,
      job->is_float ? sizeof(int32_t) : 0,
      eti_at_least(of_tile, of_norm) * sizeof(float),
  };
  for (size_t i = 0; i < PARTS; i++) {
    if (__builtin_mul_overflow(i == SLOTS ? 1 : job->m, each[i], &bytes[i]) ||
        __builtin_add_overflow(bytes[i], (size_t)ALIGNMENT - 1, &bytes[i]))
      return false;
    bytes[i] -= bytes[i] % ALIGNMENT;
  }
  return true;
}

// The bytes of scratch with so many slots. False if they are too many.
static bool scratch_total(const size_t bytes[PARTS], size_t n_slots, size_t *total) {
  if (__builtin_mul_overflow(bytes[SLOTS], n_slots, total)) return false;
  for (size_t i = 0; i < SLOTS; i++) {
    if (__builtin_add_overflow(*total, bytes[i], total)) return false;
  }
  return true;
}

void eti_qgroups_prepare(et_prepare_ctx *ctx, const eti_qgroups_job *job) {
  size_t bytes[PARTS], total;
  if (!scratch_sizes(job, bytes) || !scratch_total(bytes, eti_at_least(ctx->n_threads, 1), &total))
    return;
  ctx->scratch_bytes = eti_at_least(ctx->scratch_bytes, total);
}

// A job that runs.
typedef struct run {
  const eti_qgroups_job *job;
  const eti_qgroups_micro *micro;
  // Rows of i8 in place or, with the numbers of rows of f32, in scratch.
  const int8_t *rows;
  float *row_scales;
  int32_t *row_zeros;
  int32_t *begins;  // in scratch, or NULL
  char *slots;
  size_t slot_bytes, n_slots;
  // The division into units.
  size_t block, n_blocks;  // rows of a block
  size_t panels;           // of all products, or of the first of two that steps make one
  size_t chunk, n_chunks;  // panels of a unit
  eti_unit_queues units;
} run;

// Places rows in scratch, and sets the slots. Products of rows of i8 that do not fit run slowly.
static et_status place_rows(const et_kernel_ctx *ctx, run *r) {
  const eti_qgroups_job *const job = r->job;
  const size_t n_threads = ctx->pool == NULL ? 1 : ctx->pool->n_threads;
  size_t bytes[PARTS], total;
  r->micro = job->micro;
  r->n_slots = n_threads;
  if (!scratch_sizes(job, bytes) || !scratch_total(bytes, 1, &total) ||
      total > ctx->scratch_bytes) {
    ET_CHECK(!job->is_float, ctx->err, ET_OUT_OF_MEMORY,
             "expected scratch for %zu x %zu integers, got %zu bytes; prepare requests it", job->m,
             job->n_terms, ctx->scratch_bytes);
    r->micro = &eti_qgroups_scalar;  // which needs no initial sums
    r->rows = job->in->data;
    return ET_OK;
  }
  char *at = ctx->scratch;
  r->slot_bytes = bytes[SLOTS];
  if (r->slot_bytes > 0) {
    const size_t room = (ctx->scratch_bytes - (total - r->slot_bytes)) / r->slot_bytes;
    r->n_slots = eti_at_most(n_threads, room);
  }
  if (bytes[BEGINS] > 0) r->begins = (int32_t *)(void *)at;
  at += bytes[BEGINS];
  r->rows = job->is_float ? (const int8_t *)at : job->in->data;
  at += bytes[ROWS];
  r->row_scales = (float *)(void *)at;
  at += bytes[ROW_SCALES];
  r->row_zeros = (int32_t *)(void *)at;
  r->slots = at + bytes[ROW_ZEROS];
  return ET_OK;
}

static float *slot_of(const run *r, size_t slot) {
  return (float *)(void *)(r->slots + slot * r->slot_bytes);
}

// ---- rows

// Quantizes a row of f32; a normalized one is in `slot` meanwhile.
static void quantize_row(const run *r, size_t row, float *slot) {
  static const eti_quant_row limits = {.low = -128.0f, .high = 127.0f};
  const eti_qgroups_job *const job = r->job;
  const size_t k = job->n_terms;
  const float *x = (const float *)job->in->data + row * k;
  if (job->is_normalized && k > 0) {
    eti_rms_norm_row(slot, x, job->norm_weight, job->norm_eps, k);
    x = slot;
  }
  const eti_eltwise *const micro = eti_eltwise_get();
  const float least = k == 0 ? 0.0f : micro->row_min(x, k);
  const float greatest = k == 0 ? 0.0f : micro->row_max(x, k);
  float scale, zero;
  eti_token_qparams(least, greatest, &scale, &zero);
  zero = zero == zero ? zero : 0.0f;  // of a row with NaN, whose scale is NaN
  eti_quant_micro_best(ET_I8)->quantize_token((int8_t *)r->rows + row * k, x, 1.0 / (double)scale,
                                              (double)zero, &limits, k);
  r->row_scales[row] = scale;
  r->row_zeros[row] = (int32_t)zero;
}

// Each slot prepares a range of rows.
static void prepare_rows(void *ctx, size_t begin, size_t end) {
  const run *const r = ctx;
  const eti_qgroups_job *const job = r->job;
  const size_t begins = eti_qgroups_begins(job->micro, job->group, job->n_groups);
  const size_t share = eti_div_up(job->m, r->n_slots);
  for (size_t slot = begin; slot < end; slot++) {
    const size_t first = eti_at_most(slot * share, job->m);
    const size_t last = eti_at_most(first + share, job->m);
    for (size_t row = first; row < last && job->is_float; row++) {
      quantize_row(r, row, slot_of(r, slot));
    }
    if (r->begins == NULL) continue;
    r->micro->begins(r->rows + first * job->n_terms, last - first, job->group, job->n_groups,
                     r->begins + first * begins);
  }
}

// ---- products

// Adds the residual to columns [from, from + n) of m rows from `first` on.
static void add_residual(const eti_qgroups_job *job, size_t first, size_t m, size_t from,
                         size_t n) {
  const eti_qgroups_product *const p = job->products;
  for (size_t row = first; row < first + m; row++) {
    float *const out = p->out + row * p->n + from;
    const float *const more = job->residual + row * p->n + from;
    for (size_t i = 0; i < n; i++) out[i] = more[i] + out[i];
  }
}

// Rows of a block, with the data of each.
typedef struct block {
  size_t first, m;
  const float *scales;
  const int32_t *zeros;
} block;

// Multiplies a block with the panels [from, to) of a product, to rows that are `step` apart.
static void multiply(const run *r, const block *b, const eti_qgroups_product *p, size_t from,
                     size_t to, float *out, size_t step) {
  const eti_qgroups_job *const job = r->job;
  const et_tensor *const *const x = p->operands;
  const size_t column = from * NR, n = eti_at_most(to * NR, p->n) - column;
  const size_t n_begins = eti_qgroups_begins(r->micro, job->group, job->n_groups);
  const eti_qgroups_tile whole = {
      .a = r->rows + b->first * job->n_terms,
      .group = job->group,
      .n_groups = job->n_groups,
      .begins = r->begins == NULL ? NULL : r->begins + b->first * n_begins,
      .w = x[ETI_QGROUPS_WEIGHT]->data,
      .bits = bits_of(p),
      .scale = x[ETI_QGROUPS_SCALES]->data,
      .dtype = x[ETI_QGROUPS_SCALES]->dtype,
      .zero = x[ETI_QGROUPS_ZEROS] == NULL ? NULL : x[ETI_QGROUPS_ZEROS]->data,
      .min = x[ETI_QGROUPS_MINIMUMS] == NULL ? NULL : x[ETI_QGROUPS_MINIMUMS]->data,
      .sum = x[ETI_QGROUPS_SUMS]->data,
      .add = x[ETI_QGROUPS_ADDENDS]->data,
      .m = b->m,
      .row_scale = b->scales,
      .row_zero = b->zeros,
      .out_step = step,
  };
  eti_qgroups_tile tile = eti_qgroups_columns(&whole, column, n);
  tile.out = out;
  r->micro->tile(&tile);
}

// Multiplies a block with panels of the first product, and with the same ones of the second, whose
// results are in `slot` until the steps made one of both.
static void multiply_two(const run *r, const block *b, size_t from, size_t to, float *slot) {
  const eti_qgroups_product *const p = r->job->products;
  const size_t most = TILE_FLOATS / (b->m * NR) / PAIR * PAIR;
  const size_t step = eti_at_most(most, to - from) * NR;
  const et_tensor second = {.dtype = ET_F32, .data = slot};
  const eti_epilogue_call call = {.epilogue = r->job->steps, .tensors = {&second}};
  for (size_t panel = from, next; panel < to; panel = next) {
    next = eti_at_most(panel + most, to);
    const size_t n = eti_at_most(next * NR, p->n) - panel * NR;
    float *const out = p->out + b->first * p->n + panel * NR;
    multiply(r, b, p, panel, next, out, p->n);
    multiply(r, b, p + 1, panel, next, slot, step);
    for (size_t row = 0; row < b->m; row++) {
      eti_epilogue_row(&call, out + row * p->n, out + row * p->n, row * step, n);
    }
  }
}

// Multiplies a block with the panels [from, to) of all products, one after the other.
static void multiply_all(const run *r, const block *b, size_t from, size_t to) {
  const eti_qgroups_job *const job = r->job;
  size_t begin = 0;  // of a product's panels
  for (size_t i = 0; i < job->n_products; i++) {
    const eti_qgroups_product *const p = &job->products[i];
    const size_t end = begin + eti_div_up(p->n, NR);
    const size_t low = eti_at_least(from, begin), high = eti_at_most(to, end);
    if (low < high) {
      const size_t column = (low - begin) * NR;
      multiply(r, b, p, low - begin, high - begin, p->out + b->first * p->n + column, p->n);
      if (job->residual != NULL) {
        add_residual(job, b->first, b->m, column, eti_at_most((high - begin) * NR, p->n) - column);
      }
    }
    begin = end;
  }
}

static void run_slots(void *ctx, size_t begin, size_t end) {
  run *const r = ctx;
  const eti_qgroups_job *const job = r->job;
  float scales[MAX_ROWS];
  int32_t zeros[MAX_ROWS];
  for (size_t slot = begin; slot < end; slot++) {
    size_t u;
    while (eti_take_unit(&r->units, slot, &u)) {
      const size_t first = u / r->n_chunks * r->block, from = u % r->n_chunks * r->chunk;
      const size_t to = eti_at_most(from + r->chunk, r->panels);
      block b = {first, eti_at_most(job->m - first, r->block), scales, zeros};
      if (job->is_float) {
        b.scales = r->row_scales + first;
        b.zeros = r->row_zeros + first;
      } else {
        eti_row_qparams_get(&job->numbers, first, b.m, scales, zeros);
      }
      if (job->is_gated) {
        multiply_two(r, &b, from, to, slot_of(r, slot));
      } else {
        multiply_all(r, &b, from, to);
      }
    }
  }
}

// Divides the work into units for all slots.
static void divide(run *r) {
  const eti_qgroups_job *const job = r->job;
  r->block = block_rows(job);
  r->n_blocks = eti_div_up(job->m, r->block);
  const size_t wanted = r->n_slots == 1 ? 1 : eti_div_up(UNITS * r->n_slots, r->n_blocks);
  r->chunk = eti_div_up(eti_div_up(r->panels, eti_at_most(wanted, r->panels)), PAIR) * PAIR;
  r->n_chunks = eti_div_up(r->panels, r->chunk);
  eti_unit_queues_fill(&r->units, r->n_blocks * r->n_chunks, r->n_slots);
}

et_status eti_qgroups_run(const et_kernel_ctx *ctx, const eti_qgroups_job *job) {
  run r = {.job = job};
  double n = 0;
  for (size_t i = 0; i < job->n_products; i++) {
    n += (double)job->products[i].n;
    if (i == 0 || !job->is_gated) r.panels += eti_div_up(job->products[i].n, NR);
  }
  if (job->m == 0 || r.panels == 0) return ET_OK;
  ET_TRY(place_rows(ctx, &r));
  if ((double)job->m * n * (double)job->n_terms < SMALL) r.n_slots = 1;
  if (job->is_float || r.begins != NULL) {
    const size_t grain = 1 + ETI_GRAIN_MATH / (job->m * job->n_terms / r.n_slots + 1);
    et_parallel_for(ctx->pool, prepare_rows, &r, r.n_slots, grain);
  }
  divide(&r);
  et_parallel_for(ctx->pool, run_slots, &r, r.n_slots, 1);
  return ET_OK;
}
