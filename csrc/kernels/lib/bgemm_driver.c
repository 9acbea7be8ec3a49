// bgemm_driver.c — see bgemm_driver.h. Rows are rounded to scratch block by block, in the form that
// the micro-kernels read; each block is multiplied with all panels, chunk by chunk. Without
// scratch, each row is read a piece at a time.
#include "kernels/lib/bgemm_driver.h"

#include "kernels/lib/args.h"
#include "kernels/lib/shape.h"
#include "kernels/lib/unit_queues.h"
#include "kernels/sizes.h"
#include "kernels/stack.h"

enum {
  NR = ETI_BGEMM_NR,
  PAIR = ETI_BGEMM_PAIR,
  BLOCK_BYTES = 128 * 1024,        // of a block, which stays in the L2 cache
  FEW_ROWS = 48,                   // rows that justify reading all weights once
  MAX_BYTES = 512 * 1024,          // of a block of few rows
  TILES_BYTES = 1280 * 1024,       // the same with AMX, whose processors have L2 caches of 2 MiB
  CHUNK_BYTES = 256 * 1024,        // of panels that all rows of a block meet before the next ones
  NEAR_BYTES = 40 * 1024,          // of the rows of a tile
  MAX_SCRATCH = 64 * 1024 * 1024,  // of a thread
  MANY_ROWS = 96,                  // of a thread, which justify that all threads read all weights
  UNITS = 4,                       // of each thread
  SMALL = 64 * 1024,               // multiply-adds that are not worth a second thread
};

static size_t pairs_of(size_t k) {
  return eti_div_up(k, PAIR);
}

static size_t panel_bytes(const eti_bgemm_job *p) {
  return eti_bpanel_elements(pairs_of(p->k)) * sizeof(uint16_t);
}

// Bytes of a row in scratch: whole pairs, and rows that do not all map to one set of the cache.
static size_t row_bytes(const eti_bgemm_job *p) {
  const size_t bytes = pairs_of(p->k) * PAIR * p->micro->term_bytes;
  return bytes % 1024 == 0 ? bytes + 64 : bytes;
}

// Rows of a block: as many as stay in the cache, unless they are then so few that reading the
// weights dominates.
static size_t block_rows(const eti_bgemm_job *p) {
  const size_t each = row_bytes(p) + 1, tile = p->micro->rows_of_a_tile;
  const size_t wanted = eti_at_least(FEW_ROWS, p->micro->rows_of_a_block);
  const size_t most = p->micro->rows_of_a_block > 0 ? TILES_BYTES : MAX_BYTES;
  const size_t few = eti_at_most(wanted, most / each);
  const size_t rows = eti_at_least(eti_at_least(BLOCK_BYTES / each, few) / tile, 1) * tile;
  return eti_at_most(rows, p->m);
}

// ---- arguments

static et_status check_sizes(const et_kernel_ctx *ctx, const et_tensor *w, const eti_bgemm_job *p) {
  const size_t panels = eti_div_up(p->n, NR), pairs = pairs_of(p->k);
  ET_CHECK(w->dtype == ET_BF16 && w->rank == 4 && eti_is_contiguous(w) &&
               (size_t)w->sizes[0] == panels && (size_t)w->sizes[1] == pairs && w->sizes[2] == NR &&
               w->sizes[3] == PAIR,
           ctx->err, ET_INVALID_ARGUMENT,
           "weight: expected contiguous panels of bf16 [%zu, %zu, %d, %d] for %zu x %zu weights, "
           "got %s of rank %d with %zu elements",
           panels, pairs, (int)NR, (int)PAIR, p->n, p->k, et_dtype_name((et_dtype)w->dtype),
           (int)w->rank, w->numel);
  return ET_OK;
}

et_status eti_bgemm_job_read(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                             eti_bgemm_job *p) {
  et_tensor *w, *bias;
  const size_t columns = eti_div_up(p->n, NR) * NR;
  ET_TRY(eti_arg_tensor(ctx, args, i, &w));
  ET_TRY(eti_arg_optional_tensor(ctx, args, i + 1, &bias));
  ET_TRY(check_sizes(ctx, w, p));
  ET_CHECK(
      bias == NULL || (bias->dtype == ET_F32 && bias->numel == columns && eti_is_contiguous(bias)),
      ctx->err, ET_INVALID_ARGUMENT,
      "bias: expected %zu contiguous elements of f32 (columns of whole panels), got %zu of %s",
      columns, bias == NULL ? 0 : bias->numel,
      bias == NULL ? "" : et_dtype_name((et_dtype)bias->dtype));
  p->micro = eti_bgemm_micro_best();
  p->weight = w->data;
  p->bias = bias == NULL ? NULL : bias->data;
  return ET_OK;
}

// ---- blocks

static size_t slot_bytes(const eti_bgemm_job *p) {
  return eti_div_up(block_rows(p) * row_bytes(p), 64) * 64;
}

size_t eti_bgemm_job_scratch(const eti_bgemm_job *p, size_t n_threads) {
  if (p->k > MAX_SCRATCH / 8 / p->micro->rows_of_a_tile - 64) return 0;
  return slot_bytes(p) * (n_threads == 0 ? 1 : n_threads);
}

typedef struct run {
  const eti_bgemm_job *p;
  size_t block, n_blocks;  // rows of a block; blocks
  size_t chunk, n_chunks;  // panels per unit
  size_t n_slots;
  eti_unit_queues units;
  char *scratch;
} run;

// The tile of the columns from a panel to another, and of all rows from `row` on.
static eti_btile tile_of(const eti_bgemm_job *p, size_t panel, size_t to, size_t row) {
  const size_t pairs = pairs_of(p->k), each = eti_bpanel_elements(pairs), column = panel * NR;
  return (eti_btile){
      .w = p->weight + panel * each,
      .w_step = each,
      .pairs = pairs,
      .next = (to - panel) * each * sizeof(uint16_t),
      .bias = p->bias == NULL ? NULL : p->bias + column,
      .n = eti_at_most(to * NR, p->n) - column,
      .out = p->out + row * p->n + column,
      .out_step = p->n,
  };
}

static void finish(const eti_bgemm_job *p, float *out, size_t m, size_t n) {
  if (p->epilogue != NULL) {
    eti_epilogue_rows(p->epilogue, out, p->n, (size_t)(out - p->out), m, n);
  }
}

static void copy_block(const eti_bgemm_job *p, size_t first, size_t n, char *rows) {
  const size_t step = row_bytes(p);
  const float zero = 0.0f;
  p->rows(p->ctx, first, n, rows, step);
  for (size_t r = 0; r < n && p->k % PAIR != 0; r++) {
    p->micro->copy(rows + r * step + p->k * p->micro->term_bytes, &zero, 1);
  }
}

// Multiplies so many terms at once that the rows of a tile stay in the L1 cache.
static void run_tile(const eti_bgemm_job *p, eti_btile *t) {
  const size_t bytes = PAIR * p->micro->term_bytes, all = t->pairs;
  const size_t most = NEAR_BYTES / p->micro->rows_of_a_tile / bytes / ETI_BGEMM_CHUNK_PAIRS;
  const size_t at_once = eti_at_least(most, 1) * ETI_BGEMM_CHUNK_PAIRS;
  const char *a = t->a;
  const uint16_t *w = t->w;
  eti_btile part = *t;
  for (size_t first = 0;; first += part.pairs) {
    part.a = a + first * bytes;
    part.w = w + eti_bpanel_elements(first);
    part.pairs = eti_at_most(all - first, at_once);
    part.adds = first > 0;
    if (part.adds) part.bias = NULL;
    p->micro->tile(&part);
    if (all - first <= at_once) return;
  }
}

static void run_slots(void *ctx, size_t begin, size_t end) {
  run *const r = ctx;
  const eti_bgemm_job *const p = r->p;
  const size_t panels = eti_div_up(p->n, NR);
  for (size_t slot = begin; slot < end; slot++) {
    char *const rows = r->scratch + slot * slot_bytes(p);
    size_t copied = SIZE_MAX, u;
    while (eti_take_unit(&r->units, slot, &u)) {
      const size_t which = u / r->n_chunks, first = which * r->block;
      const size_t m = eti_at_most(p->m - first, r->block);
      if (which != copied) copy_block(p, first, m, rows);
      copied = which;
      const size_t from = u % r->n_chunks * r->chunk;
      eti_btile t = tile_of(p, from, eti_at_most(panels, from + r->chunk), first);
      t.m = m;
      t.a = rows;
      t.a_step = row_bytes(p);
      run_tile(p, &t);
      finish(p, t.out, m, t.n);
    }
  }
}

// ---- without scratch

// Rounds a chunk of a row into place (small builds have the plain variant only, with rows of bf16),
// and multiplies it with all panels; chunks are added one after the other, as in a tile.
static void run_row(const eti_bgemm_job *p, size_t row) {
  float piece[ETI_ON_STACK(ETI_BGEMM_CHUNK, 32)];
  _Alignas(float) char rounded[ETI_BGEMM_CHUNK * ETI_ON_STACK(sizeof(float), sizeof(uint16_t))];
  eti_btile t = tile_of(p, 0, eti_div_up(p->n, NR), row);
  t.m = 1;
  t.next = 0;
  t.a = rounded;
  for (size_t k = 0, n; k < p->k || k == 0; k += n) {
    n = eti_at_most(p->k - k, ETI_BGEMM_CHUNK);
    for (size_t i = 0, some; i < n; i += some) {
      some = eti_at_most(n - i, sizeof piece / sizeof piece[0]);
      p->piece(p->ctx, row, k + i, some, piece);
      p->micro->copy(rounded + i * p->micro->term_bytes, piece, some);
    }
    const float zero = 0.0f;
    if (n % PAIR != 0) p->micro->copy(rounded + n * p->micro->term_bytes, &zero, 1);
    t.pairs = pairs_of(n);
    t.adds = k > 0;
    if (t.adds) t.bias = NULL;
    p->micro->tile(&t);
    t.w += eti_bpanel_elements(t.pairs);
    if (n == 0) break;
  }
  finish(p, t.out, 1, p->n);
}

static void run_rows(void *ctx, size_t begin, size_t end) {
  const run *const r = ctx;
  for (size_t i = begin; i < end; i++) run_row(r->p, i);
}

// Divides the work into units, several for each slot. Slots share rows if there are many, or if all
// weights stay in the cache of each; else they share panels.
static void divide(run *r) {
  const eti_bgemm_job *const p = r->p;
  const size_t tile = p->micro->rows_of_a_tile, panels = eti_div_up(p->n, NR);
  const size_t bytes = panel_bytes(p), slots = r->n_slots;
  const size_t near = eti_at_least(CHUNK_BYTES / (bytes + 1) / 2, 1) * 2;
  const size_t most = block_rows(p), rows = p->m / slots;
  size_t block = most, share = panels;
  if (slots > 1) {
    const size_t many = eti_at_least(MANY_ROWS, p->micro->rows_of_a_block);
    if (rows >= many || (rows >= 2 * tile && panels * bytes <= CHUNK_BYTES)) {
      block = eti_at_most(eti_at_least(eti_div_up(rows, UNITS), 2 * tile), most);
    } else {
      share = eti_div_up(panels, UNITS * slots);
    }
  }
  const size_t blocks = eti_div_up(p->m, block);
  r->block = eti_at_most(eti_div_up(eti_div_up(p->m, blocks), tile) * tile, most);
  r->n_blocks = eti_div_up(p->m, r->block);
  const size_t chunk = eti_div_up(share, eti_div_up(share, near));
  r->chunk = eti_at_most(chunk % 2 == 0 ? chunk : chunk + 1, panels);
  r->n_chunks = eti_div_up(panels, r->chunk);
  eti_unit_queues_fill(&r->units, r->n_blocks * r->n_chunks, slots);
}

void eti_bgemm_job_run(const et_kernel_ctx *ctx, const eti_bgemm_job *p) {
  if (p->m == 0 || p->n == 0) return;
  const bool fits = eti_bgemm_job_scratch(p, 1) != 0;
  const size_t each = fits ? slot_bytes(p) : 1;
  const size_t room = fits ? ctx->scratch_bytes / eti_at_least(each, 1) : 0;
  run r = {.p = p, .scratch = ctx->scratch};
  if (room == 0 || ctx->scratch == NULL) {
    et_parallel_for(ctx->pool, run_rows, &r, p->m, SMALL / (p->n * (p->k + 1)) + 1);
    return;
  }
  const size_t threads = ctx->pool == NULL ? 1 : ctx->pool->n_threads;
  const bool is_small = (double)p->m * (double)p->n * (double)p->k < SMALL;
  r.n_slots = is_small ? 1 : eti_at_most(room, threads);
  divide(&r);
  et_parallel_for(ctx->pool, run_slots, &r, r.n_slots, 1);
}
