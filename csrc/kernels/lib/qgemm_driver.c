// qgemm_driver.c — see qgemm_driver.h. Rows are copied to scratch block by block, in the form that
// the micro-kernels read; each block is multiplied with all panels, chunk by chunk. Without
// scratch, each panel reads a piece of a row at a time.
#include "kernels/lib/qgemm_driver.h"

#include "kernels/dtype_sets.h"
#include "kernels/lib/args.h"
#include "kernels/lib/promote.h"
#include "kernels/lib/shape.h"
#include "kernels/lib/unit_queues.h"
#include "kernels/micro/convert/cast.h"
#include "kernels/micro/isa_select.h"
#include "kernels/sizes.h"

#include <string.h>

enum {
  NR = ETI_QGEMM_NR,
  QUAD = ETI_QGEMM_QUAD,
  BLOCK_BYTES = 128 * 1024,        // of a block, which stays in the L2 cache
  FEW_ROWS = 48,                   // rows that justify reading all weights once
  MAX_BYTES = 512 * 1024,          // of a block of few rows
  TILES_BYTES = 1280 * 1024,       // the same with AMX, whose processors have L2 caches of 2 MiB
  CHUNK_BYTES = 256 * 1024,        // of panels that all rows of a block meet before the next ones
  MAX_SCRATCH = 64 * 1024 * 1024,  // of a thread
  MANY_ROWS = 96,                  // of a thread, which justify that all threads read all weights
  UNITS = 4,                       // of each thread
  LINE_PANELS = 4,                 // panels whose i8 results are one cache line
  SMALL = 64 * 1024,               // multiply-adds that are not worth a second thread
  PIECE = 512,                     // terms of a row that are read on the stack
};

static size_t quads_of(size_t k) {
  return eti_div_up(k, QUAD);
}

// Bytes of a row in scratch: whole quads, and rows that do not all map to one set of the cache.
static size_t row_bytes(const eti_qgemm_job *p) {
  const size_t bytes = quads_of(p->k) * QUAD * eti_qterm_bytes(p->micro->form);
  return bytes % 1024 == 0 ? bytes + 64 : bytes;
}

et_status eti_check_minimums(const et_kernel_ctx *ctx, const et_tensor *scales,
                             const et_tensor *zeros, const et_tensor *minimums) {
  if (minimums == NULL) return ET_OK;
  ET_CHECK(zeros == NULL, ctx->err, ET_INVALID_ARGUMENT,
           "expected zero_points or minimums of groups, got both");
  ET_CHECK(minimums->dtype == scales->dtype, ctx->err, ET_INVALID_ARGUMENT,
           "minimums: expected the scales' type %s, got %s", et_dtype_name((et_dtype)scales->dtype),
           et_dtype_name((et_dtype)minimums->dtype));
  return ET_OK;
}

void eti_qcopy_rows(const eti_qgemm_micro *micro, const int8_t *from, size_t k, size_t n, char *to,
                    size_t step) {
  if (step == k * eti_qterm_bytes(micro->form)) {
    micro->copy(to, from, n * k);
    return;
  }
  for (size_t r = 0; r < n; r++) micro->copy(to + r * step, from + r * k, k);
}

// Rows of a block: as many as stay in the cache, unless they are then so few that reading the
// weights dominates.
static size_t block_rows(const eti_qgemm_job *p) {
  const size_t each = row_bytes(p) + 1, tile = p->micro->rows_of_a_tile;
  const size_t wanted = eti_at_least(FEW_ROWS, p->micro->rows_of_a_block);
  const size_t most = p->micro->rows_of_a_block > 0 ? TILES_BYTES : MAX_BYTES;
  const size_t few = eti_at_most(wanted, most / each);
  const size_t rows = eti_at_least(eti_at_least(BLOCK_BYTES / each, few) / tile, 1) * tile;
  return eti_at_most(rows, p->m);
}

// ---- arguments

// The size of the weights of all groups, in bytes, and of the data of their columns, in elements.
static bool packed_sizes(const eti_qgemm_job *p, size_t *weights, size_t *columns) {
  size_t panel;
  return !__builtin_mul_overflow(quads_of(p->k), (size_t)QUAD * NR, &panel) &&
         !__builtin_mul_overflow(eti_div_up(p->n, NR) * NR, p->groups, columns) &&
         !__builtin_mul_overflow(*columns / NR, panel, weights);
}

et_status eti_qgemm_job_read(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                             bool is_float, eti_qgemm_job *p) {
  static const et_dtype types[] = {ET_I8, ET_I32, ET_F32, ET_F32};
  const char *const names[] = {"weight", is_float ? "sums" : "starts", "scales", "addends"};
  et_tensor *t[4];
  size_t needed[4];
  ET_CHECK(packed_sizes(p, &needed[0], &needed[2]) &&
               !__builtin_mul_overflow(needed[2], (size_t)(is_float ? 1 : 2), &needed[1]),
           ctx->err, ET_INVALID_ARGUMENT, "%zu x %zu weights of %zu groups are too many", p->n,
           p->k, p->groups);
  needed[3] = needed[2];
  for (size_t j = 0; j < 4; j++) {
    ET_TRY(eti_arg_tensor(ctx, args, i + j, &t[j]));
    ET_TRY(eti_check_elements(ctx, t[j], names[j], needed[j], ET_DTYPE_BIT(types[j]),
                              et_dtype_name(types[j])));
  }
  ET_CHECK(t[0]->rank == 5 && t[0]->sizes[3] == NR && t[0]->sizes[4] == QUAD, ctx->err,
           ET_INVALID_ARGUMENT,
           "weight: expected panels [groups, panels, quads, %d, %d], got rank %d; a file that an "
           "earlier version exported has to be exported again",
           (int)NR, (int)QUAD, (int)t[0]->rank);
  p->micro = eti_qgemm_micro_best();
  p->weight = t[0]->data;
  p->starts = t[1]->data;
  if (!is_float && p->micro->form == ETI_QROWS_U8) p->starts += needed[2];
  p->scales = t[2]->data;
  p->adds = t[3]->data;
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

// ---- rows in place

enum { LEAST_IN_PLACE = 5 };  // rows for which the variant for rows of i8 is used

// The same job with rows that are read where they lie: it needs no scratch. False if they have to
// be copied.
static bool reads_in_place(const eti_qgemm_job *p, eti_qgemm_job *near) {
  const eti_qgemm_micro *const other = p->micro->of_i8;
  const bool is_i8 = p->micro->form == ETI_QROWS_I8;
  if (p->terms == NULL || p->groups != 1 || p->k == 0 || p->k % QUAD != 0) return false;
  if (!is_i8 && (other == NULL || p->m < LEAST_IN_PLACE)) return false;
  *near = *p;
  if (is_i8) return true;
  near->micro = other;
  // Starts of rows in U8 follow those of rows as they are.
  if (p->row_scales == NULL) near->starts -= eti_div_up(p->n, NR) * NR;
  return true;
}

// ---- blocks

static size_t slot_bytes(const eti_qgemm_job *p) {
  return eti_div_up(block_rows(p) * row_bytes(p), 64) * 64;
}

size_t eti_qgemm_job_scratch(const eti_qgemm_job *p, size_t n_threads) {
  eti_qgemm_job few;
  if (reads_in_place(p, &few)) {
    if (p->micro->form == ETI_QROWS_I8) return 0;
    few = *p;  // a run for fewer rows, since sizes are bounds
    few.m = LEAST_IN_PLACE - 1;
    p = &few;
  }
  if (p->k > MAX_SCRATCH / 2 / p->micro->rows_of_a_tile - 64) return 0;
  return slot_bytes(p) * (n_threads == 0 ? 1 : n_threads);
}

typedef struct run {
  const eti_qgemm_job *p;
  size_t block, n_blocks;  // rows of a block; blocks of a group
  size_t chunk, n_chunks;  // panels of a group per unit
  size_t n_slots;
  eti_unit_queues units;
  bool in_place;
  char *scratch;  // unless rows are in place
} run;

// The tile of the columns from a panel to another, and of all rows from `row` on.
static eti_qtile tile_of(const eti_qgemm_job *p, size_t group, size_t panel, size_t to,
                         size_t row) {
  const size_t quads = quads_of(p->k), column = panel * NR;
  const size_t at = group * eti_div_up(p->n, NR) + panel;
  eti_qtile t = {
      .w = p->weight + at * eti_qpanel_bytes(quads),
      .quads = quads,
      .next = (to - panel) * eti_qpanel_bytes(quads),
      .start = p->starts + at * NR,
      .scale = p->scales + at * NR,
      .add = p->adds + at * NR,
      .n = eti_at_most(to * NR, p->n) - column,
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

static void copy_block(const eti_qgemm_job *p, size_t group, size_t first, size_t n, char *rows) {
  const size_t step = row_bytes(p), each = eti_qterm_bytes(p->micro->form);
  const size_t quads = quads_of(p->k), missing = quads * QUAD - p->k;
  p->rows(p->ctx, group, first, n, rows, step);
  for (size_t r = 0; r < n && missing > 0; r++) {
    memset(rows + r * step + p->k * each, p->micro->form == ETI_QROWS_U8 ? 128 : 0, missing * each);
  }
  for (size_t r = 0; r < n && p->micro->arrange != NULL; r++) {
    p->micro->arrange((int16_t *)(void *)(rows + r * step), quads);
  }
}

static void run_slots(void *ctx, size_t begin, size_t end) {
  run *const r = ctx;
  const eti_qgemm_job *const p = r->p;
  const size_t panels = eti_div_up(p->n, NR);
  for (size_t slot = begin; slot < end; slot++) {
    char *const rows = r->in_place ? NULL : r->scratch + slot * slot_bytes(p);
    size_t copied = SIZE_MAX, u;
    while (eti_take_unit(&r->units, slot, &u)) {
      const size_t which = u / r->n_chunks, group = which / r->n_blocks;
      const size_t first = which % r->n_blocks * r->block;
      const size_t m = eti_at_most(p->m - first, r->block);
      const size_t from = u % r->n_chunks * r->chunk;
      eti_qtile t = tile_of(p, group, from, eti_at_most(panels, from + r->chunk), first);
      t.m = m;
      // The slot's block before has read all weights of the group.
      if (copied != SIZE_MAX && first > 0 && r->n_chunks == 1) t.next = 0;
      if (which != copied && !r->in_place) copy_block(p, group, first, m, rows);
      copied = which;
      t.a = r->in_place ? (const char *)p->terms + first * p->k : rows;
      t.a_step = r->in_place ? p->k : row_bytes(p);
      (p->row_scales != NULL ? p->micro->tile_f32 : p->micro->tile_i8)(&t);
    }
  }
}

// ---- without scratch

// Adds the products of one row and a panel.
static void sum_pieces(const eti_qgemm_job *p, size_t group, size_t row, const int8_t *w,
                       uint32_t sums[NR]) {
  int8_t piece[PIECE];
  for (size_t k = 0, n; k < p->k; k += n) {
    n = p->k - k < PIECE ? p->k - k : PIECE;
    p->piece(p->ctx, group, row, k, n, piece);
    for (size_t i = 0; i < n; i++) {
      const int8_t *const terms = w + (k + i) / QUAD * QUAD * NR + (k + i) % QUAD;
      for (size_t c = 0; c < NR; c++) sums[c] += (uint32_t)(piece[i] * terms[QUAD * c]);
    }
  }
}

// The micro-kernel only finishes the sums here, which are exact already: of no terms.
static void run_rows(void *ctx, size_t begin, size_t end) {
  const run *const r = ctx;
  const eti_qgemm_job *const p = r->p;
  const size_t panels = eti_div_up(p->n, NR), columns = panels * NR;
  const bool is_u8 = p->micro->form == ETI_QROWS_U8, is_float = p->row_scales != NULL;
  for (size_t i = begin; i < end; i++) {
    const size_t group = i / p->m, row = i % p->m;
    for (size_t panel = 0; panel < panels; panel++) {
      eti_qtile t = tile_of(p, group, panel, panel + 1, row);
      // Starts of rows in U8 follow those of rows as they are.
      const int32_t *const start = !is_float && is_u8 ? t.start - p->groups * columns : t.start;
      const int32_t minus_one = is_u8 ? -129 : -1;
      uint32_t sums[NR];
      for (size_t c = 0; c < NR; c++) {
        sums[c] = is_float ? 0 - (uint32_t)t.row_zero[0] * (uint32_t)start[c] : (uint32_t)start[c];
      }
      sum_pieces(p, group, row, t.w, sums);
      int32_t whole[NR];
      memcpy(whole, sums, sizeof whole);
      t.quads = 0;
      t.m = 1;
      t.start = whole;
      if (is_float) t.row_zero = &minus_one;
      (is_float ? p->micro->tile_f32 : p->micro->tile_i8)(&t);
    }
  }
}

// Divides the work into units, several for each slot. Slots share rows if there are many, or if all
// weights stay in the cache of each; else they share panels, four at a time, since a cache line of
// results has bytes of four panels.
static void divide(run *r) {
  const eti_qgemm_job *const p = r->p;
  const size_t tile = p->micro->rows_of_a_tile, panels = eti_div_up(p->n, NR);
  const size_t bytes = eti_qpanel_bytes(quads_of(p->k)), slots = r->n_slots;
  const size_t near = eti_at_least(CHUNK_BYTES / (bytes + 1) / 2, 1) * 2;
  const size_t most = block_rows(p), rows = p->m / slots;
  size_t block = most, share = panels;
  if (slots > 1 && p->groups < UNITS * slots) {
    const size_t many = eti_at_least(MANY_ROWS, p->micro->rows_of_a_block);
    if (rows >= many || (rows >= 2 * tile && panels * bytes <= CHUNK_BYTES)) {
      block = eti_at_most(eti_at_least(eti_div_up(rows, UNITS), 2 * tile), most);
    } else {
      share = eti_div_up(panels, UNITS * slots);
    }
  }
  const size_t blocks = eti_div_up(p->m, block);
  r->block = eti_at_most(eti_div_up(eti_div_up(p->m, blocks), tile) * tile, most);
  // A variant for rows in place takes two rows or more.
  while (r->in_place && p->m > 1 && p->m % r->block == 1) r->block += tile;
  r->n_blocks = eti_div_up(p->m, r->block);
  const size_t chunk = eti_div_up(share, eti_div_up(share, near));
  r->chunk = chunk < panels ? eti_div_up(chunk, LINE_PANELS) * LINE_PANELS : chunk;
  r->n_chunks = eti_div_up(panels, r->chunk);
  eti_unit_queues_fill(&r->units, r->n_blocks * p->groups * r->n_chunks, slots);
}

void eti_qgemm_job_run(const et_kernel_ctx *ctx, const eti_qgemm_job *p) {
  if (p->groups == 0 || p->m == 0 || p->n == 0) return;
  eti_qgemm_job near;
  const bool in_place = reads_in_place(p, &near), fits = eti_qgemm_job_scratch(p, 1) != 0;
  const size_t each = fits ? slot_bytes(p) : 1;
  const size_t copies = fits ? ctx->scratch_bytes / (each == 0 ? 1 : each) : 0;
  const size_t room = in_place ? SIZE_MAX : copies;
  run r = {.p = in_place ? &near : p, .in_place = in_place, .scratch = ctx->scratch};
  if (room == 0) {
    et_parallel_for(ctx->pool, run_rows, &r, p->groups * p->m, SMALL / (p->n * (p->k + 1)) + 1);
    return;
  }
  const size_t threads = ctx->pool == NULL ? 1 : ctx->pool->n_threads;
  const bool is_small = (double)p->groups * (double)p->m * (double)p->n * (double)p->k < SMALL;
  r.n_slots = is_small ? 1 : room < threads ? room : threads;
  divide(&r);
  et_parallel_for(ctx->pool, run_slots, &r, r.n_slots, 1);
}
