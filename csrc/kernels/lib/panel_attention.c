// panel_attention.c — see panel_attention.h. A unit of work is a head of the cache and a tile of
// rows, the queries of all heads that share it: each block of keys is read once for all of them.
// With fewer units than threads, the blocks are divided as well, and merged in order.
//
// Products run over all keys that some row of the tile sees, with weights of 0 where a row does
// not. That changes no bit unless such a value is not finite; a row that becomes NaN is therefore
// computed again over its own keys only.
#include "kernels/lib/panel_attention.h"

#include <math.h>
#include <string.h>

#include "kernels/lib/panel_product.h"
#include "kernels/loops/loop.h"
#include "kernels/micro/attention/attention.h"
#include "kernels/micro/eltwise/eltwise.h"
#include "runtime/bytes.h"

// Entries of the tables that this file calls directly.
ETI_USES(unary, exp)
ETI_USES(unary, tanh)

enum {
  BLOCK = ETI_GEMM_CHUNK,  // slots: a product over a block is one chunk
  WIDTH = ETI_GEMM_STORED,
  ROWS = 64,      // rows of a tile
  FEW_ROWS = 16,  // tiles whose blocks may be divided among threads
  PARTS = 16,     // blocks of such a tile at once, for each thread
};

// The slots of a block that one query sees, at most three runs, ascending.
typedef struct span {
  size_t begin, end;
} span;
typedef struct spans {
  size_t n;
  span at[3];
} spans;

// Elements of one thread's memory, each a multiple of 16 floats.
typedef struct sizes {
  size_t rows, wide;  // rows of a tile; elements of a row of values in whole panels
  size_t forms;       // of queries: 2 with sinks
  size_t queries, codes, scores, block, acc, panel;
} sizes;

typedef struct run {
  const eti_panel_attention *a;
  const eti_gemm_kernel *kernel;
  const eti_qgemm_micro *qgemm;
  const eti_attention_micro *micro;
  const eti_cache_rows_micro *rows;
  const eti_eltwise *eltwise;
  sizes sizes;
  float scale;  // of scores
  size_t n_rows, n_tiles, n_units, n_blocks;
  char *scratch;
  size_t slot_bytes, n_slots;
  // Blocks of one tile, divided among threads.
  char *parts;
  size_t part_floats, unit, first_block, n_parts;
} run;

// Sums of a block or of several, of the rows of a tile. A block whose keys a row does not see has
// the sum NO_KEY.
#define NO_KEY (-1.0f)
typedef struct sums {
  float *high, *sum;  // of each row
  float *rows;        // `wide` elements each
} sums;

// Queries of a tile, rotated; of i8 caches, their codes and scales.
typedef struct queries {
  float *rows;
  int8_t *codes;
  float *scales;
} queries;

typedef struct tile {
  const run *r;
  size_t batch, head, first, n;
  size_t next_head;  // of the unit that this thread takes next, through all batches
  queries queries, to_sinks;
  bool is_far;  // from the sinks: some row has a rotation of its own for them
  size_t code_step;
  int32_t *no_zeros;  // of the queries' codes
  float *no_adds;     // zeros for a block of codes
  float *scores;      // rows of BLOCK
  float *panel;       // converted elements
  sums block, acc;
} tile;

// ---- memory

static bool is_i8(const run *r) {
  return r->a->cache.dtype == ET_I8;
}

static sizes sizes_of(const eti_panel_attention *a) {
  const eti_panel_cache *const c = &a->cache;
  sizes s = {.rows = eti_at_most(a->n_queries * a->group, ROWS),
             .wide = eti_value_panels(c) * WIDTH,
             .forms = c->sinks > 0 ? 2 : 1};
  const size_t columns = eti_panel_columns(eti_gemm_kernel_for(ETI_ACC_F32));
  s.queries = eti_round_up(s.rows * c->dim, WIDTH);
  s.scores = s.rows * BLOCK;
  s.block = s.rows * s.wide;
  s.acc = s.rows * s.wide;
  if (c->dtype != ET_F32) s.panel = columns * eti_at_least(c->dim, BLOCK);
  if (c->dtype == ET_I8) s.codes = s.rows * eti_code_row_bytes(c->dim) / sizeof(float);
  return s;
}

// Floats of one thread; its numbers of rows come first.
static size_t slot_floats(const sizes *s) {
  return 5 * ROWS + BLOCK + s->forms * (ROWS + s->queries + s->codes) + s->scores + s->block +
         s->acc + s->panel;
}

static size_t part_floats_of(const sizes *s) {
  return FEW_ROWS * 2 + FEW_ROWS * s->wide;
}

static size_t slot_bytes_of(const eti_panel_attention *a, const sizes *s) {
  return eti_at_least(slot_floats(s) * sizeof(float), eti_cache_append_room(&a->cache));
}

size_t eti_panel_attention_scratch(const eti_panel_attention *a, size_t n_threads) {
  const sizes s = sizes_of(a);
  const size_t threads = eti_at_least(n_threads, 1);
  size_t bytes = slot_bytes_of(a, &s);
  if (threads > 1) bytes += PARTS * part_floats_of(&s) * sizeof(float);
  size_t all;
  return eti_mul(bytes, threads, &all) ? all : 0;
}

static float *take(float **room, size_t floats) {
  float *const at = *room;
  *room += floats;
  return at;
}

static tile tile_at(const run *r, char *memory) {
  const sizes *const s = &r->sizes;
  float *room = (float *)(void *)memory;
  tile t = {.r = r};
  t.block.high = take(&room, ROWS);
  t.block.sum = take(&room, ROWS);
  t.acc.high = take(&room, ROWS);
  t.acc.sum = take(&room, ROWS);
  t.no_zeros = (int32_t *)(void *)take(&room, ROWS);
  t.no_adds = take(&room, BLOCK);
  for (size_t i = 0; i < s->forms; i++) {
    queries *const q = i == 0 ? &t.queries : &t.to_sinks;
    q->scales = take(&room, ROWS);
    q->rows = take(&room, s->queries);
    q->codes = (int8_t *)take(&room, s->codes);
  }
  t.scores = take(&room, s->scores);
  t.block.rows = take(&room, s->block);
  t.acc.rows = take(&room, s->acc);
  t.panel = take(&room, s->panel);
  return t;
}

// ---- queries

static size_t query_of(const tile *t, size_t row) {
  return (t->first + row) / t->r->a->group;
}

static float *row_at(const tile *t, const eti_head_rows *rows, size_t row) {
  const size_t head = t->head * t->r->a->group + (t->first + row) % t->r->a->group;
  return rows->data + (ptrdiff_t)t->batch * rows->batch +
         (ptrdiff_t)query_of(t, row) * rows->position + (ptrdiff_t)head * rows->head;
}

// Mixes and quantizes the queries, and copies their codes in the form that the micro-kernels read.
static void quantize_queries(const tile *t, const queries *q) {
  const size_t dim = t->r->a->cache.dim;
  int8_t *const codes = (int8_t *)t->panel;  // free until the first block
  for (size_t i = 0; i < t->n; i++) {
    t->r->rows->mix(q->rows + i * dim, dim, eti_cache_run(&t->r->a->cache));
    q->scales[i] = t->r->rows->quantize(codes, q->rows + i * dim, dim);
    eti_code_row_copy(t->r->qgemm, q->codes + i * t->code_step, codes, dim);
  }
}

// Rotates the queries, those of positions from far_from on by the tables' last row.
static void load_queries(const tile *t, const queries *q, size_t far_from) {
  const eti_panel_attention *const a = t->r->a;
  for (size_t i = 0; i < t->n; i++) {
    const size_t query = query_of(t, i), row = a->start + query < far_from ? query : a->n_queries;
    eti_rotate_row(t->r->rows, &a->rotation, row_at(t, &a->query, i), a->query.item, a->cache.dim,
                   row, q->rows + i * a->cache.dim);
  }
  if (is_i8(t->r)) quantize_queries(t, q);
}

static void start_tile(tile *t, size_t unit) {
  const run *const r = t->r;
  const eti_panel_attention *const a = r->a;
  t->batch = unit / r->n_tiles / a->cache.heads;
  t->head = unit / r->n_tiles % a->cache.heads;
  t->next_head = (unit + r->n_slots) / r->n_tiles;
  t->first = unit % r->n_tiles * ROWS;
  t->n = eti_at_most(r->n_rows - t->first, ROWS);
  if (is_i8(r)) {
    t->code_step = eti_code_row_bytes(a->cache.dim);
    memset(t->no_zeros, 0, ROWS * sizeof *t->no_zeros);
    memset(t->no_adds, 0, BLOCK * sizeof *t->no_adds);
  }
  load_queries(t, &t->queries, SIZE_MAX);
  const size_t far_from = a->cache.sinks + a->window;
  t->is_far = a->cache.sinks > 0 && a->start + query_of(t, t->n - 1) >= far_from;
  if (t->is_far) load_queries(t, &t->to_sinks, far_from);
}

static void start_sums(const sums *s, size_t rows, size_t wide) {
  for (size_t i = 0; i < rows; i++) {
    s->high[i] = -INFINITY;
    s->sum[i] = 0.0f;
  }
  memset(s->rows, 0, rows * wide * sizeof(float));
}

// ---- visible keys

// Adds slots [begin, end), as far as they are in block `block`, counted from its first slot.
static void add_span(spans *s, size_t block, size_t begin, size_t end) {
  const size_t first = block * BLOCK;
  begin = begin < first ? 0 : begin - first;
  end = end < first ? 0 : eti_at_most(end - first, BLOCK);
  if (begin < end) s->at[s->n++] = (span){begin, end};
}

static spans spans_of(const tile *t, size_t row, size_t block) {
  const eti_panel_attention *const a = t->r->a;
  const size_t end = a->start + query_of(t, row) + 1, capacity = a->cache.capacity,
               sinks = a->cache.sinks;
  spans s = {.n = 0};
  if (a->window == 0) {
    add_span(&s, block, 0, end);
    return s;
  }
  add_span(&s, block, 0, eti_at_most(sinks, end));
  if (end <= sinks) return s;
  const size_t n = eti_at_most(end - sinks, a->window), first = eti_cache_slot(&a->cache, end - n);
  if (first + n > capacity) add_span(&s, block, sinks, sinks + first + n - capacity);
  add_span(&s, block, first, eti_at_most(first + n, capacity));
  return s;
}

// The keys of a block that some row sees, in whole panels.
static span visible_keys(const tile *t, size_t block) {
  span all = {BLOCK, 0};
  for (size_t i = 0; i < t->n;
       i += i == 0 ? t->r->a->group - t->first % t->r->a->group : t->r->a->group) {
    const spans s = spans_of(t, i, block);
    if (s.n == 0) continue;
    all.begin = eti_at_most(all.begin, s.at[0].begin);
    all.end = eti_at_least(all.end, s.at[s.n - 1].end);
  }
  if (all.begin >= all.end) return (span){0, 0};
  return (span){all.begin / WIDTH * WIDTH, eti_round_up(all.end, WIDTH)};
}

// Hides the keys of a row that are not in its spans.
static void hide_keys(const spans *s, span keys, float *x) {
  size_t at = keys.begin;
  for (size_t i = 0; i < s->n; i++) {
    for (; at < s->at[i].begin; at++) x[at] = -INFINITY;
    at = s->at[i].end;
  }
  for (; at < keys.end; at++) x[at] = -INFINITY;
}

// ---- products

static size_t head_index(const tile *t) {
  return t->batch * t->r->a->cache.heads + t->head;
}

// Scores of queries and n keys from a slot on, in rows that are `step` apart.
static void multiply_codes(const tile *t, const queries *q, const char *panels, size_t slot,
                           size_t n, float *scores, size_t step) {
  const eti_panel_cache *const c = &t->r->a->cache;
  const size_t at = head_index(t) * eti_cache_slots(c) + slot;
  const eti_qtile codes = {.a = q->codes,
                           .a_step = t->code_step,
                           .w = (const int8_t *)panels,
                           .quads = eti_div_up(c->dim, ETI_QGEMM_QUAD),
                           .start = c->key_sums + at,
                           .scale = c->key_scales + at,
                           .add = t->no_adds,
                           .m = t->n,
                           .n = n,
                           .out = scores,
                           .out_step = step,
                           .row_zero = t->no_zeros,
                           .row_scale = q->scales,
                           .row_step = 1};
  t->r->qgemm->tile_f32(&codes);
}

// The address of the keys of a head from a slot on. Also of what is prefetched only, which may lie
// behind the cache.
static uintptr_t keys_at(const eti_panel_cache *c, size_t head, size_t slot) {
  const size_t panel = head * eti_cache_panels(c) + slot / WIDTH;
  return (uintptr_t)c->keys + panel * eti_key_panel_bytes(c);
}

static uintptr_t values_at(const eti_panel_cache *c, size_t head, size_t slot) {
  const size_t item = et_dtype_bytes((et_dtype)c->dtype);
  return (uintptr_t)c->values + head * eti_value_panels(c) * eti_value_panel_bytes(c) +
         slot * WIDTH * item;
}

static void multiply_keys(const tile *t, const queries *q, size_t slot, size_t n, float *scores,
                          size_t step) {
  const eti_panel_cache *const c = &t->r->a->cache;
  const char *const panels = (const char *)keys_at(c, head_index(t), slot);
  if (c->dtype == ET_I8) {
    multiply_codes(t, q, panels, slot, n, scores, step);
    return;
  }
  const eti_panel_product p = {.dtype = c->dtype,
                               .a = q->rows,
                               .a_step = c->dim,
                               .m = t->n,
                               .k = c->dim,
                               .n = n,
                               .panels = panels,
                               .panel_bytes = eti_key_panel_bytes(c),
                               .next = (const void *)values_at(c, head_index(t), slot),
                               .next_bytes = eti_value_panel_bytes(c),
                               .c = scores,
                               .c_step = step,
                               .init = ETI_GEMM_ZERO};
  eti_panel_multiply(t->r->kernel, &p, t->panel);
}

static void score_keys(const tile *t, size_t block, span keys) {
  const size_t first = block * BLOCK, sinks = t->r->a->cache.sinks;
  multiply_keys(t, &t->queries, first + keys.begin, keys.end - keys.begin, t->scores + keys.begin,
                BLOCK);
  if (!t->is_far) return;
  float *const scores = t->block.rows;  // free until values are weighed
  for (size_t slot = first; slot < sinks && slot < first + BLOCK; slot += WIDTH) {
    multiply_keys(t, &t->to_sinks, slot, WIDTH, scores, WIDTH);
    for (size_t i = 0; i < t->n; i++)
      memcpy(t->scores + i * BLOCK + (slot - first), scores + i * WIDTH,
             eti_at_most(sinks - slot, WIDTH) * sizeof *scores);
  }
}

// Computes the rows [row, row + m) of weights · values, over these keys of the block.
static void weigh_values(const tile *t, size_t block, span keys, size_t row, size_t m,
                         eti_gemm_init init) {
  const eti_panel_cache *const c = &t->r->a->cache;
  const char *const panels = (const char *)values_at(c, head_index(t), block * BLOCK + keys.begin);
  // After this block, the next one's keys, or the first ones of the next unit, as far as blocks and
  // heads follow one another.
  const bool is_last = block + 1 >= t->r->n_blocks;
  const uintptr_t next = is_last ? keys_at(c, t->next_head, keys.begin)
                                 : keys_at(c, head_index(t), (block + 1) * BLOCK);
  const size_t wide = t->r->sizes.wide;
  const eti_panel_product p = {.dtype = c->dtype,
                               .a = t->scores + row * BLOCK + keys.begin,
                               .a_step = BLOCK,
                               .m = m,
                               .k = keys.end - keys.begin,
                               .n = wide,
                               .panels = panels,
                               .panel_bytes = eti_value_panel_bytes(c),
                               .next = (const void *)next,
                               .next_bytes = eti_key_panel_bytes(c),
                               .c = t->block.rows + row * wide,
                               .c_step = wide,
                               .init = init};
  eti_panel_multiply(t->r->kernel, &p, t->panel);
}

// ---- weights

static void apply(eti_loop loop, float *x, size_t n) {
  void *p[2] = {x, x};
  const ptrdiff_t s[2] = {(ptrdiff_t)sizeof(float), (ptrdiff_t)sizeof(float)};
  loop(p, s, n, NULL);
}

static void scale_scores(const run *r, float *x, size_t n) {
  const float softcap = r->a->softcap;
  r->micro->scale(x, x, (double)r->scale, n);
  if (!(softcap > 0.0f)) return;
  for (size_t i = 0; i < n; i++) x[i] /= softcap;
  apply(r->eltwise->unary.tanh, x, n);
  for (size_t i = 0; i < n; i++) x[i] *= softcap;
}

// Turns the scores of a row into weights.
static void soften_row(const tile *t, size_t block, span keys, size_t row) {
  const run *const r = t->r;
  const eti_panel_cache *const c = &r->a->cache;
  const size_t n = keys.end - keys.begin;
  float *const x = t->scores + row * BLOCK, *const high = t->block.high + row,
               *const sum = t->block.sum + row;
  const spans s = spans_of(t, row, block);
  *high = -INFINITY;
  *sum = s.n == 0 ? NO_KEY : 0.0f;
  if (s.n == 0) {
    memset(x + keys.begin, 0, n * sizeof *x);
    return;
  }
  float factor;
  scale_scores(r, x + keys.begin, n);
  hide_keys(&s, keys, x);
  r->micro->soften(x + keys.begin, n, 1, high, sum, &factor);
  if (c->dtype == ET_I8) {
    const float *const scales =
        c->value_scales + head_index(t) * eti_cache_slots(c) + block * BLOCK;
    for (size_t k = keys.begin; k < keys.end; k++) x[k] *= scales[k];
  }
}

// Computes a row again over the keys that it sees.
static void weigh_visible(const tile *t, size_t block, size_t row) {
  const spans s = spans_of(t, row, block);
  for (size_t i = 0; i < s.n; i++)
    weigh_values(t, block, s.at[i], row, 1, i == 0 ? ETI_GEMM_ZERO : ETI_GEMM_KEEP);
}

// Adds row i of a block to the sums of the blocks before it.
static void merge_row(const run *r, const sums *acc, const sums *block, size_t i) {
  if (block->sum[i] == NO_KEY) return;
  const size_t wide = r->sizes.wide;
  const float before = acc->high[i], here = block->high[i];
  const float high = here > before || here != here ? here : before;
  const float shift = high == -INFINITY ? 0.0f : high;
  float f[2] = {before - shift, here - shift};
  apply(r->eltwise->unary.exp, f, 2);
  acc->high[i] = high;
  acc->sum[i] = acc->sum[i] * f[0] + block->sum[i] * f[1];
  r->rows->merge(acc->rows + i * wide, f[0], block->rows + i * wide, f[1], wide);
}

// Computes the sums of one block. Returns false if no row sees a key of it.
static bool run_block(const tile *t, size_t block) {
  const span keys = visible_keys(t, block);
  if (keys.end == 0) return false;
  const size_t wide = t->r->sizes.wide, n = t->r->a->cache.value_dim;
  score_keys(t, block, keys);
  for (size_t i = 0; i < t->n; i++) soften_row(t, block, keys, i);
  weigh_values(t, block, keys, 0, t->n, ETI_GEMM_ZERO);
  for (size_t i = 0; i < t->n; i++) {
    if (t->block.sum[i] >= 0.0f && t->r->rows->has_nan(t->block.rows + i * wide, n))
      weigh_visible(t, block, i);
  }
  return true;
}

// Divides a row by its sum. Adding 0 makes a zero positive: its sign would depend on unseen keys.
static void divide_row(float *x, size_t n, float sum) {
  for (size_t d = 0; d < n; d++) x[d] = x[d] / sum + 0.0f;
}

static void store_tile(const tile *t) {
  const eti_head_rows *const out = &t->r->a->out;
  const size_t wide = t->r->sizes.wide, n = t->r->a->cache.value_dim;
  for (size_t i = 0; i < t->n; i++) {
    float *const x = t->acc.rows + i * wide, *const to = row_at(t, out, i);
    divide_row(x, n, t->acc.sum[i]);
    if (out->item == 1) {
      memcpy(to, x, n * sizeof *x);
      continue;
    }
    for (size_t d = 0; d < n; d++) to[(ptrdiff_t)d * out->item] = x[d];
  }
}

// ---- threads

// Runs every n-th unit in each slot, so that the long rows of later queries are shared evenly.
static void run_units(void *opaque, size_t begin, size_t end) {
  const run *const r = opaque;
  for (size_t slot = begin; slot < end; slot++) {
    tile t = tile_at(r, r->scratch + slot * r->slot_bytes);
    for (size_t unit = slot; unit < r->n_units; unit += r->n_slots) {
      start_tile(&t, unit);
      start_sums(&t.acc, t.n, r->sizes.wide);
      for (size_t block = 0; block < r->n_blocks; block++) {
        if (!run_block(&t, block)) continue;
        for (size_t i = 0; i < t.n; i++) merge_row(r, &t.acc, &t.block, i);
      }
      store_tile(&t);
    }
  }
}

static sums part_at(const run *r, size_t i) {
  float *const part = (float *)(void *)r->parts + i * r->part_floats;
  return (sums){.high = part, .sum = part + FEW_ROWS, .rows = part + 2 * FEW_ROWS};
}

static void run_parts(void *opaque, size_t begin, size_t end) {
  const run *const r = opaque;
  for (size_t slot = begin; slot < end; slot++) {
    tile t = tile_at(r, r->scratch + slot * r->slot_bytes);
    start_tile(&t, r->unit);
    for (size_t i = slot; i < r->n_parts; i += r->n_slots) {
      t.block = part_at(r, i);
      if (run_block(&t, r->first_block + i)) continue;
      for (size_t row = 0; row < t.n; row++) t.block.sum[row] = NO_KEY;
    }
  }
}

// Divides the blocks of each unit among threads, and adds them in order.
static void run_blocks(const et_pool *pool, run *r) {
  for (r->unit = 0; r->unit < r->n_units; r->unit++) {
    tile t = tile_at(r, r->scratch);
    start_tile(&t, r->unit);
    start_sums(&t.acc, t.n, r->sizes.wide);
    for (r->first_block = 0; r->first_block < r->n_blocks; r->first_block += r->n_parts) {
      r->n_parts = eti_at_most(r->n_blocks - r->first_block, r->n_slots * PARTS);
      et_parallel_for(pool, run_parts, r, r->n_slots, 1);
      for (size_t i = 0; i < r->n_parts; i++) {
        const sums part = part_at(r, i);
        for (size_t row = 0; row < t.n; row++) merge_row(r, &t.acc, &part, row);
      }
    }
    store_tile(&t);
  }
}

// The end of the slots that some query sees.
static size_t slots_seen(const eti_panel_attention *a) {
  return eti_at_most(a->start + a->n_queries, a->cache.capacity);
}

// Fewer multiply-adds than this are not worth a second thread.
#define SMALL_WORK (128.0 * 1024.0)

static run make_run(const et_kernel_ctx *ctx, const eti_panel_attention *a) {
  const eti_panel_cache *const c = &a->cache;
  run r = {.a = a,
           .kernel = eti_gemm_kernel_for(ETI_ACC_F32),
           .qgemm = eti_qgemm_micro_best(),
           .micro = eti_attention_micro_best(ETI_ATTENTION_F32),
           .rows = eti_cache_rows_best(),
           .eltwise = eti_eltwise_get(),
           .sizes = sizes_of(a),
           .n_rows = a->n_queries * a->group,
           .n_blocks = eti_div_up(slots_seen(a), BLOCK),
           .scratch = ctx->scratch};
  r.scale = a->scale;
  if (is_i8(&r))
    r.scale *= (float)ETI_CACHE_MIXED / (float)eti_cache_run(c);  // exact: a power of two
  r.n_tiles = eti_div_up(r.n_rows, ROWS);
  r.n_units = c->batch * c->heads * r.n_tiles;
  r.slot_bytes = slot_bytes_of(a, &r.sizes);
  r.part_floats = part_floats_of(&r.sizes);
  const double work = (double)c->batch * (double)c->heads * (double)r.n_rows *
                      (double)slots_seen(a) * (double)(c->dim + c->value_dim);
  const size_t n_threads = ctx->pool == NULL || work < SMALL_WORK ? 1 : ctx->pool->n_threads;
  r.n_slots = eti_at_most(n_threads, ctx->scratch_bytes / r.slot_bytes);
  return r;
}

// True if whole units would leave threads idle, and there is room for blocks.
static bool divides_blocks(const et_kernel_ctx *ctx, const run *r) {
  const size_t bytes = r->slot_bytes + PARTS * r->part_floats * sizeof(float);
  return r->n_slots > 1 && r->n_rows <= FEW_ROWS && r->n_blocks > 1 &&
         r->n_units < 4 * r->n_slots && r->n_units % r->n_slots != 0 &&
         ctx->scratch_bytes / bytes >= r->n_slots;
}

void eti_panel_attention_run(const et_kernel_ctx *ctx, const eti_panel_attention *a) {
  run r = make_run(ctx, a);
  ET_ASSERT(r.n_slots > 0 && r.n_units > 0);
  if (divides_blocks(ctx, &r)) {
    r.parts = r.scratch + r.n_slots * r.slot_bytes;
    run_blocks(ctx->pool, &r);
    return;
  }
  r.n_slots = eti_at_most(r.n_slots, r.n_units);
  et_parallel_for(ctx->pool, run_units, &r, r.n_slots, 1);
}
