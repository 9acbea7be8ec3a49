// qgemm_driver.c — see qgemm_driver.h. Rows are widened to 16 bits block by block, in scratch; each
// block is multiplied with all panels. Without scratch, each panel widens a piece of a row at a
// time.
#include "kernels/lib/qgemm_driver.h"

#include "kernels/dtype_sets.h"
#include "kernels/lib/args.h"
#include "kernels/lib/promote.h"
#include "kernels/lib/shape.h"
#include "kernels/micro/convert/cast.h"
#include "kernels/micro/isa_select.h"
#include "kernels/sizes.h"

#include <string.h>

enum {
  NR = ETI_QGEMM_NR,
  ROWS = ETI_QGEMM_ROWS,           // rows of a block are a multiple of this
  BLOCK_BYTES = 48 * 1024,         // of a block and its result
  FEW_ROWS = 48,                   // rows that justify reading all weights once
  MAX_BYTES = 512 * 1024,          // of a block of few rows
  MAX_SCRATCH = 64 * 1024 * 1024,  // of a thread
  UNITS = 8,                       // at least, for each thread, when columns can be shared
  SMALL = 64 * 1024,               // multiply-adds that are not worth a second thread
  PIECE = 512,                     // terms of a row that are widened on the stack
};

// The length of a row in memory, in terms: whole pairs, and rows that do not all map to one set of
// the cache.
static size_t row_length(size_t k) {
  const size_t length = eti_div_up(k, 2) * 2;
  return length % 512 == 0 ? length + 32 : length;
}

void eti_qwiden_rows(const eti_qgemm_micro *micro, const int8_t *from, size_t k, size_t n,
                     int16_t *to, size_t step) {
  if (step == k) {
    micro->widen(to, from, n * k);
    return;
  }
  for (size_t r = 0; r < n; r++) micro->widen(to + r * step, from + r * k, k);
}

// Rows of a block. A block and its result stay in the L1 cache during all panels, unless its rows
// are then so few that reading the weights dominates.
static size_t block_rows(size_t m, size_t n, size_t k) {
  const size_t each = row_length(k) * sizeof(int16_t) + 1;
  const size_t near = BLOCK_BYTES / (each + n), few = eti_at_most(FEW_ROWS, MAX_BYTES / each);
  const size_t rows = eti_at_least(eti_at_least(near, few) / ROWS, 1) * ROWS;
  return eti_at_most(rows, eti_div_up(m, ROWS) * ROWS);
}

// ---- arguments

// The size of the weights of all groups, in bytes, and of the data of their columns, in elements.
static bool packed_sizes(const eti_qgemm_job *p, size_t *weights, size_t *columns) {
  size_t panel;
  return !__builtin_mul_overflow(eti_div_up(p->k, 2), (size_t)2 * NR, &panel) &&
         !__builtin_mul_overflow(eti_div_up(p->n, NR) * NR, p->groups, columns) &&
         !__builtin_mul_overflow(*columns / NR, panel, weights);
}

et_status eti_qgemm_job_read(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                             eti_qgemm_job *p) {
  static const et_dtype types[] = {ET_I8, ET_I32, ET_F32, ET_F32};
  static const char *const names[] = {"weight", "starts", "scales", "addends"};
  et_tensor *t[4];
  size_t weights, columns;
  ET_CHECK(packed_sizes(p, &weights, &columns), ctx->err, ET_INVALID_ARGUMENT,
           "%zu x %zu weights of %zu groups are too many", p->n, p->k, p->groups);
  for (size_t j = 0; j < 4; j++) {
    ET_TRY(eti_arg_tensor(ctx, args, i + j, &t[j]));
    const size_t needed = j == 0 ? weights : columns;
    ET_CHECK(t[j]->dtype == types[j] && t[j]->numel == needed && eti_is_contiguous(t[j]), ctx->err,
             ET_INVALID_ARGUMENT, "%s: expected %zu contiguous elements of %s, got %zu of %s",
             names[j], needed, et_dtype_name(types[j]), t[j]->numel,
             et_dtype_name((et_dtype)t[j]->dtype));
  }
  p->weight = t[0]->data;
  p->starts = t[1]->data;
  p->scales = t[2]->data;
  p->adds = t[3]->data;
  p->micro = eti_qgemm_micro_best();
  return ET_OK;
}

et_status eti_qlimits_read(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                           eti_qgemm_job *p) {
  int64_t z, least, most;
  ET_TRY(eti_arg_int(ctx, args, i, &z));
  ET_TRY(eti_arg_int(ctx, args, i + 1, &least));
  ET_TRY(eti_arg_int(ctx, args, i + 2, &most));
  ET_CHECK(
      z >= INT8_MIN && z <= INT8_MAX && least >= INT8_MIN && least <= most && most <= INT8_MAX,
      ctx->err, ET_INVALID_ARGUMENT,
      "expected a zero point and limits of i8, quant_min below quant_max, got %lld, %lld and %lld",
      (long long)z, (long long)least, (long long)most);
  p->zero = (int32_t)z;
  p->low = (int32_t)least;
  p->high = (float)(most - z);
  return ET_OK;
}

et_status eti_row_qparams_read(const et_kernel_ctx *ctx, et_value *const *args, size_t i, size_t m,
                               eti_row_qparams *numbers) {
  et_tensor *t[2];
  for (size_t j = 0; j < 2; j++) {
    ET_TRY(eti_arg_tensor(ctx, args, i + j, &t[j]));
    const et_dtype dtype = (et_dtype)t[j]->dtype;
    const uint32_t types = j == 0 ? ET_TYPES_FLOAT : ET_TYPES_INDEX | ET_DTYPE_BIT(ET_I8);
    ET_CHECK((t[j]->numel == 1 || t[j]->numel == m) && eti_is_contiguous(t[j]) &&
                 eti_dtype_in(dtype, types),
             ctx->err, ET_INVALID_ARGUMENT,
             "%s: expected 1 element or one for each of the %zu rows, %s, got %zu of %s",
             j == 0 ? "scale" : "zero_point", m, j == 0 ? "f32 or f64" : "integers", t[j]->numel,
             et_dtype_name(dtype));
  }
  *numbers = (eti_row_qparams){t[0], t[1]};
  return ET_OK;
}

static double number_of(const et_tensor *t, size_t row) {
  const size_t at = t->numel == 1 ? 0 : row;
  double number;
  eti_casts[t->dtype][ET_F64](
      &number, 0, (const char *)t->data + at * et_dtype_bytes((et_dtype)t->dtype), 0, 1);
  return number;
}

void eti_row_qparams_get(const eti_row_qparams *numbers, size_t first, size_t n, float *scales,
                         int32_t *zeros) {
  for (size_t i = 0; i < n; i++) {
    const double zero = number_of(numbers->zero, first + i);
    scales[i] = (float)number_of(numbers->scale, first + i);
    // Zero points beyond these limits are far from every quantized value.
    zeros[i] = (int32_t)(zero < -0x1p20 ? -0x1p20 : zero > 0x1p20 ? 0x1p20 : zero);
  }
}

// ---- blocks

static size_t slot_bytes(size_t m, size_t n, size_t k) {
  return eti_div_up(block_rows(m, n, k) * row_length(k), 32) * 32 * sizeof(int16_t);
}

size_t eti_qgemm_job_scratch(size_t m, size_t n, size_t k, size_t n_threads) {
  if (k > MAX_SCRATCH / ROWS / sizeof(int16_t) - 32) return 0;
  return slot_bytes(m, n, k) * (n_threads == 0 ? 1 : n_threads);
}

typedef struct run {
  const eti_qgemm_job *p;
  size_t block, n_blocks;  // rows of a block; blocks of a group
  size_t chunk, n_chunks;  // panels of a group per unit
  size_t n_units, n_slots;
  char *scratch;
} run;

static eti_qtile tile_of(const eti_qgemm_job *p, size_t group, size_t panel, size_t row) {
  const size_t panels = eti_div_up(p->n, NR), pairs = eti_div_up(p->k, 2);
  const size_t at = group * panels + panel, column = panel * NR;
  eti_qtile t = {
      .w = p->weight + at * pairs * 2 * NR,
      .pairs = pairs,
      .start = p->starts + at * NR,
      .scale = p->scales + at * NR,
      .add = p->adds + at * NR,
      .n = p->n - column < NR ? p->n - column : NR,
      .out_step = p->out_step,
      .low = p->low,
      .high = p->high,
      .zero = p->zero,
  };
  const size_t first = row * p->out_step + group * p->n + column;
  t.out = (char *)p->out + first * (p->row_scales != NULL ? sizeof(float) : 1);
  if (p->row_scales != NULL) {
    t.row_zero = p->row_zeros + row * p->row_step;
    t.row_scale = p->row_scales + row * p->row_step;
    t.row_step = p->row_step;
  }
  return t;
}

static void widen_block(const eti_qgemm_job *p, size_t group, size_t first, size_t n,
                        int16_t *rows) {
  const size_t step = row_length(p->k);
  p->rows(p->ctx, group, first, n, rows, step);
  for (size_t r = 0; r < n && p->k % 2 != 0; r++) rows[r * step + p->k] = 0;
}

static void run_slots(void *ctx, size_t begin, size_t end) {
  const run *const r = ctx;
  const eti_qgemm_job *const p = r->p;
  const size_t step = row_length(p->k), panels = eti_div_up(p->n, NR);
  for (size_t slot = begin; slot < end; slot++) {
    int16_t *const rows = (int16_t *)(void *)(r->scratch + slot * slot_bytes(p->m, p->n, p->k));
    size_t widened = SIZE_MAX;
    for (size_t u = slot * r->n_units / r->n_slots; u < (slot + 1) * r->n_units / r->n_slots; u++) {
      const size_t which = u / r->n_chunks, group = which / r->n_blocks;
      const size_t first = which % r->n_blocks * r->block;
      const size_t m = p->m - first < r->block ? p->m - first : r->block;
      if (which != widened) widen_block(p, group, first, m, rows);
      widened = which;
      const size_t from = u % r->n_chunks * r->chunk;
      const size_t to = panels - from < r->chunk ? panels : from + r->chunk;
      for (size_t panel = from; panel < to; panel++) {
        eti_qtile t = tile_of(p, group, panel, first);
        t.m = m;
        t.a = rows;
        t.a_step = step;
        (p->row_scales != NULL ? p->micro->tile_f32 : p->micro->tile_i8)(&t);
      }
    }
  }
}

// ---- without scratch

// Adds the products of one row and a panel.
static void sum_pieces(const eti_qgemm_job *p, size_t group, size_t row, const int8_t *w,
                       uint32_t sums[NR]) {
  int16_t piece[PIECE];
  for (size_t k = 0, n; k < p->k; k += n) {
    n = p->k - k < PIECE ? p->k - k : PIECE;
    p->piece(p->ctx, group, row, k, n, piece);
    for (size_t i = 0; i < n; i++) {
      const int8_t *const pair = w + (k + i) / 2 * 2 * NR + (k + i) % 2;
      for (size_t c = 0; c < NR; c++) sums[c] += (uint32_t)(piece[i] * pair[2 * c]);
    }
  }
}

// The micro-kernel only finishes the sums here.
static void run_rows(void *ctx, size_t begin, size_t end) {
  const run *const r = ctx;
  const eti_qgemm_job *const p = r->p;
  const int16_t none[2] = {0};
  const size_t panels = eti_div_up(p->n, NR);
  for (size_t i = begin; i < end; i++) {
    const size_t group = i / p->m, row = i % p->m;
    for (size_t panel = 0; panel < panels; panel++) {
      eti_qtile t = tile_of(p, group, panel, row);
      const int32_t less_one = -1;
      uint32_t sums[NR];
      for (size_t c = 0; c < NR; c++) {
        const uint32_t start = (uint32_t)t.start[c];
        sums[c] = t.row_zero != NULL ? 0 - (uint32_t)t.row_zero[0] * start : start;
      }
      sum_pieces(p, group, row, t.w, sums);
      int32_t whole[NR];
      memcpy(whole, sums, sizeof whole);
      t.a = none;
      t.pairs = 0;
      t.m = 1;
      t.start = whole;
      if (t.row_zero != NULL) t.row_zero = &less_one;
      (p->row_scales != NULL ? p->micro->tile_f32 : p->micro->tile_i8)(&t);
    }
  }
}

void eti_qgemm_job_run(const et_kernel_ctx *ctx, const eti_qgemm_job *p) {
  if (p->groups == 0 || p->m == 0 || p->n == 0) return;
  const bool fits = eti_qgemm_job_scratch(p->m, p->n, p->k, 1) != 0;
  const size_t each = fits ? slot_bytes(p->m, p->n, p->k) : 1;
  const size_t room = fits ? ctx->scratch_bytes / (each == 0 ? 1 : each) : 0;
  run r = {.p = p, .scratch = ctx->scratch};
  if (room == 0) {
    et_parallel_for(ctx->pool, run_rows, &r, p->groups * p->m, SMALL / (p->n * (p->k + 1)) + 1);
    return;
  }
  const size_t threads = ctx->pool == NULL ? 1 : ctx->pool->n_threads;
  const bool is_small = (double)p->groups * (double)p->m * (double)p->n * (double)p->k < SMALL;
  r.n_slots = is_small ? 1 : room < threads ? room : threads;
  r.block = block_rows(p->m, p->n, p->k);
  r.n_blocks = eti_div_up(p->m, r.block);
  const size_t panels = eti_div_up(p->n, NR), whole = r.n_blocks * p->groups;
  const size_t wanted = r.n_slots == 1 ? 1 : eti_div_up(UNITS * r.n_slots, whole);
  r.chunk = eti_div_up(panels, wanted < panels ? wanted : panels);
  r.n_chunks = eti_div_up(panels, r.chunk);
  r.n_units = whole * r.n_chunks;
  et_parallel_for(ctx->pool, run_slots, &r, r.n_slots, 1);
}
