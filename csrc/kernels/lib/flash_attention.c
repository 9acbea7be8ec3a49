// flash_attention.c — see flash_attention.h. A unit of work is a block of queries of one key/value
// head. Its scores are kept transposed, a row of queries for each key. So keys and values are read
// in place, softmax has queries in its lanes, and the weights already are a panel for the second
// product.
//
//            queries (lanes)                     values: key rows
//   key 0    x x x x x x x x      ▷ weights      v v v v v v v      out += weightsᵀ · values
//   key 1    x x x x x x x x                     v v v v v v v
//   …        scores = K · Qᵀ                     …
#include "kernels/lib/flash_attention.h"

#include <math.h>
#include <string.h>

#include "kernels/micro/attention/attention.h"
#include "kernels/micro/gemm/gemm.h"
#include "kernels/sizes.h"
#include "runtime/check.h"

enum {
  KEYS = ETI_ATTENTION_KEYS,
  DIMS = ETI_GEMM_CHUNK,  // dims of a head per step; longer values recompute the scores
  MAX_ROWS = 16,          // rows of the tallest tile
  QUERIES = ETI_ATTENTION_QUERIES,
};

// State of a block of rows (query, member) while its keys are walked. Work memory has four parts.
typedef struct block {
  const eti_attention *a;
  const eti_attention_micro *micro;
  const eti_gemm_kernel *kernel;
  eti_cast_fn read_q, read_k, read_v, read_mask, write;
  const char *q, *k, *v, *mask;  // of this head
  char *out;
  size_t outer, head;
  size_t first, n, width;  // rows; lanes of a tile
  size_t key0, n_keys;     // keys of this step
  size_t dim0, n_dims;     // columns of the output computed now
  char *panel;             // [DIMS][width] queries, panel after panel
  char *x;                 // [KEYS][width] scores
  char *acc;               // [n][n_dims]
  char *aux;               // rows being converted, masks
  int32_t seen[QUERIES];
  _Alignas(64) char high[QUERIES * 4];
  _Alignas(64) char sum[QUERIES * 4];
  _Alignas(64) char factor[QUERIES * 4];
} block;

static bool is_wide(const eti_attention *a) {
  return a->q.dtype == ET_F64;
}
static size_t block_rows(const eti_attention *a) {
  return is_wide(a) ? QUERIES / 2 : QUERIES;
}

static const eti_attention_micro *micro_of(const eti_attention *a) {
  return eti_attention_micro_best(is_wide(a) ? ETI_ATTENTION_F64 : ETI_ATTENTION_F32);
}

// Lanes of a tile of n rows.
static size_t width_of(const eti_attention_micro *micro, size_t n) {
  return n == 1 ? 1 : n <= micro->widths[0] ? micro->widths[0] : micro->widths[1];
}

// Keys that are converted together.
static size_t keys_at_once(const eti_attention *a) {
  return eti_at_most(block_rows(a), eti_at_least(a->n_keys, 1));
}

typedef struct parts {
  size_t panel, x, acc, aux;  // bytes
} parts;

static size_t aligned_bytes(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

static parts parts_of(const eti_attention *a) {
  const size_t esize = is_wide(a) ? sizeof(double) : sizeof(float);
  const size_t all = a->n_queries * a->members,
               keys = eti_at_most(eti_at_least(a->n_keys, 1), KEYS);
  const size_t rows = all < block_rows(a) ? width_of(micro_of(a), all) : block_rows(a);
  const size_t dim = eti_at_most(eti_at_least(a->dim, 1), DIMS),
               value = eti_at_most(a->value_dim, DIMS);
  const size_t converted = eti_at_least(rows, keys_at_once(a)) * eti_at_least(dim, value);
  const size_t masks = a->has_mask ? 2 * rows * keys : 0;
  return (parts){.panel = aligned_bytes(dim * rows * esize),
                 .x = aligned_bytes(keys * rows * esize),
                 .acc = aligned_bytes(rows * value * esize),
                 .aux = aligned_bytes(eti_at_least(converted, masks) * esize)};
}

// Work memory of one thread.
static size_t work_bytes(const eti_attention *a) {
  const parts p = parts_of(a);
  return p.panel + p.x + p.acc + p.aux;
}

// ---- rows

static ptrdiff_t bytes_of(const eti_attention_rows *r) {
  return (ptrdiff_t)et_dtype_bytes((et_dtype)r->dtype);
}

// First element of a head, in elements.
static ptrdiff_t head_offset(const eti_attention *a, const eti_attention_rows *r, size_t outer,
                             size_t head) {
  ptrdiff_t at = (ptrdiff_t)(head / r->share) * r->head;
  for (size_t d = a->outer.rank; d-- > 0;) {
    at += (ptrdiff_t)(outer % (size_t)a->outer.sizes[d]) * r->outer[d];
    outer /= (size_t)a->outer.sizes[d];
  }
  return at;
}

static const char *head_of(const block *b, const eti_attention_rows *r) {
  return (const char *)r->data + head_offset(b->a, r, b->outer, b->head) * bytes_of(r);
}

// Offset of row i of this block from the first element of a head, in elements.
static ptrdiff_t row_offset(const block *b, const eti_attention_rows *r, size_t i) {
  const size_t query = (b->first + i) / b->a->members, member = (b->first + i) % b->a->members;
  return (ptrdiff_t)query * r->row + (ptrdiff_t)member * r->member;
}

// Reads n elements of a row in the type of computation.
static void read_row(const block *b, const eti_attention_rows *r, eti_cast_fn read, char *dst,
                     const char *src, size_t n) {
  read(dst, b->micro->esize, src, r->item * bytes_of(r), n);
}

// True if rows can be read in place.
static bool in_place(const block *b, const eti_attention_rows *r) {
  return r->dtype == b->micro->dtype && r->item == 1 && r->row >= 0;
}

// Converts n rows from key0 + first on, columns col … col + n_cols, into aux, one after another.
static void convert_keys(const block *b, const eti_attention_rows *r, eti_cast_fn read,
                         const char *head, size_t first, size_t n, size_t col, size_t n_cols) {
  for (size_t i = 0; i < n; i++) {
    const ptrdiff_t key = (ptrdiff_t)(b->key0 + first + i);
    const char *const src = head + (key * r->row + (ptrdiff_t)col * r->item) * bytes_of(r);
    read_row(b, r, read, b->aux + i * n_cols * b->micro->esize, src, n_cols);
  }
}

// ---- scores

// Packs columns e0 … e0 + n_e of the queries, scaled, into panels.
static void pack_queries(const block *b, size_t e0, size_t n_e) {
  const eti_attention_rows *const q = &b->a->q;
  const size_t esize = b->micro->esize, nr = b->kernel->nr;
  for (size_t i = 0; i < b->n; i++) {
    char *const row = b->aux + i * n_e * esize;
    const ptrdiff_t at = row_offset(b, q, i) + (ptrdiff_t)e0 * q->item;
    read_row(b, q, b->read_q, row, b->q + at * bytes_of(q), n_e);
    b->micro->scale(row, row, b->a->scale, n_e);
  }
  for (size_t j = 0; j < b->width && n_e > 0; j += nr) {
    const size_t lanes = eti_at_most(b->width - j, nr),
                 n = j >= b->n ? 0 : eti_at_most(b->n - j, lanes);
    char *const dst = b->panel + j * n_e * esize;
    if (n == 0) {
      memset(dst, 0, lanes * n_e * esize);
    } else {
      b->kernel->pack_rows(dst, lanes, b->aux + j * n_e * esize, n_e, n, n_e);
    }
  }
}

// Computes x[first …] (+)= K · Qᵀ for n keys, with their columns in `rows`.
static void score_rows(const block *b, const void *const *rows, size_t first, size_t n, size_t n_e,
                       bool add) {
  const size_t esize = b->micro->esize, nr = b->kernel->nr;
  for (size_t j = 0; j < b->width; j += nr) {
    const size_t lanes = eti_at_most(b->width - j, nr);
    const eti_gemm_tile tile = {.k = n_e,
                                .rows = rows,
                                .segment = eti_at_least(n_e, 1),
                                .b = b->panel + j * n_e * esize,
                                .b_step = lanes,
                                .c = b->x + (first * b->width + j) * esize,
                                .c_step = b->width,
                                .init = add ? ETI_GEMM_ADD : ETI_GEMM_ZERO};
    b->kernel->tile_rows(&tile, n, lanes);
  }
}

static void score_keys(const block *b, size_t e0, size_t n_e) {
  const eti_attention_rows *const k = &b->a->k;
  const size_t height = eti_gemm_rows_height(b->kernel, b->n_keys);
  const ptrdiff_t esize = (ptrdiff_t)b->micro->esize;
  const size_t piece = keys_at_once(b->a);
  const bool direct = in_place(b, k);
  const size_t step = direct ? b->n_keys : eti_at_most(piece / height * height, b->n_keys);
  for (size_t first = 0; first < b->n_keys; first += step) {
    const size_t n = eti_at_most(b->n_keys - first, step);
    if (!direct) convert_keys(b, k, b->read_k, b->k, first, n, e0, n_e);
    const char *const base =
        direct ? b->k + ((ptrdiff_t)(b->key0 + first) * k->row + (ptrdiff_t)e0) * esize : b->aux;
    const ptrdiff_t row_bytes = (direct ? k->row : (ptrdiff_t)n_e) * esize;
    if (b->width == 1) {
      b->micro->dots(b->x + first * (size_t)esize, base, (size_t)(row_bytes / esize), n, b->panel,
                     n_e, e0 > 0);
      continue;
    }
    for (size_t i = 0; i < n; i += height) {
      const void *rows[MAX_ROWS];
      const size_t m = eti_at_most(n - i, height);
      for (size_t r = 0; r < m; r++) rows[r] = base + (ptrdiff_t)(i + r) * row_bytes;
      score_rows(b, rows, first + i, m, n_e, e0 > 0);
    }
  }
}

static void score_block(const block *b, bool is_first) {
  const size_t dim = b->a->dim;
  size_t e0 = 0;
  do {
    const size_t n_e = eti_at_most(dim - e0, DIMS);
    if (is_first || dim > DIMS) pack_queries(b, e0, n_e);
    score_keys(b, e0, n_e);
    e0 += n_e;
  } while (e0 < dim);
}

// ---- masks

// Reads n numbers of a mask's row: a visible key becomes 0, a hidden one -inf.
static void read_mask(const block *b, char *dst, ptrdiff_t at, size_t n) {
  const eti_attention_rows *const m = &b->a->mask;
  const char *const src = b->mask + (at + (ptrdiff_t)b->key0 * m->item) * bytes_of(m);
  read_row(b, m, b->read_mask, dst, src, n);
  if (m->dtype != ET_B8) return;
  if (is_wide(b->a)) {
    double *const x = (double *)(void *)dst;
    for (size_t i = 0; i < n; i++) x[i] = x[i] != 0 ? 0.0 : -(double)INFINITY;
  } else {
    float *const x = (float *)(void *)dst;
    for (size_t i = 0; i < n; i++) x[i] = x[i] != 0 ? 0.0f : -INFINITY;
  }
}

static void add_mask(const block *b) {
  const eti_attention_rows *const m = &b->a->mask;
  const size_t esize = b->micro->esize;
  if ((m->row == 0 && m->member == 0) || b->n == 1) {  // one row for all queries
    read_mask(b, b->aux, row_offset(b, m, 0), b->n_keys);
    b->micro->add_keys(b->x, b->aux, b->n_keys, b->width);
    return;
  }
  char *const transposed = b->aux + b->n * b->n_keys * esize;
  for (size_t i = 0; i < b->n; i++)
    read_mask(b, b->aux + i * b->n_keys * esize, row_offset(b, m, i), b->n_keys);
  b->kernel->pack_rows(transposed, b->width, b->aux, b->n_keys, b->n, b->n_keys);
  b->micro->add(b->x, transposed, b->n_keys * b->width);
}

// The first key that row i does not see.
static size_t keys_seen(const block *b, size_t i) {
  const eti_attention *const a = b->a;
  if (!a->causal) return a->n_keys;
  return eti_at_most((b->first + i) / a->members + 1, a->n_keys);
}

static void hide_later_keys(block *b) {
  if (keys_seen(b, 0) >= b->key0 + b->n_keys) return;  // the first row sees the fewest
  for (size_t i = 0; i < b->width; i++) {
    const size_t end = keys_seen(b, eti_at_most(i, b->n - 1));
    b->seen[i] = (int32_t)(end <= b->key0 ? 0 : eti_at_most(end - b->key0, b->n_keys));
  }
  b->micro->limit(b->x, b->seen, b->n_keys, b->width);
}

// ---- values

static double lane_value(const block *b, const char *numbers, size_t i) {
  return is_wide(b->a) ? ((const double *)(const void *)numbers)[i]
                       : (double)((const float *)(const void *)numbers)[i];
}

static void scale_sums(const block *b) {
  for (size_t i = 0; i < b->n; i++) {
    const double factor = lane_value(b, b->factor, i);
    char *const row = b->acc + i * b->n_dims * b->micro->esize;
    if (factor != 1.0) b->micro->scale(row, row, factor, b->n_dims);
  }
}

// Adds weightsᵀ · values to acc for n keys from `first` on, whose rows are `step` elements apart.
static void add_values(const block *b, const char *values, size_t step, size_t first, size_t n,
                       bool is_first) {
  const size_t esize = b->micro->esize, nr = b->kernel->nr;
  const size_t height = eti_gemm_a_height(b->kernel, b->n);
  for (size_t j = 0; j < b->n_dims; j += nr) {
    for (size_t i = 0; i < b->n; i += height) {
      const eti_gemm_tile tile = {.k = n,
                                  .a = b->x + (first * b->width + i) * esize,
                                  .a_step = b->width,
                                  .b = values + j * esize,
                                  .b_step = step,
                                  .c = b->acc + (i * b->n_dims + j) * esize,
                                  .c_step = b->n_dims,
                                  .init = is_first ? ETI_GEMM_ZERO : ETI_GEMM_KEEP,
                                  .ahead = values};
      b->kernel->tile(&tile, eti_at_most(b->n - i, height), eti_at_most(b->n_dims - j, nr));
    }
  }
}

static void weigh_values(const block *b) {
  const eti_attention_rows *const v = &b->a->v;
  const ptrdiff_t key0 = (ptrdiff_t)b->key0, dim0 = (ptrdiff_t)b->dim0;
  if (in_place(b, v)) {
    add_values(b, b->v + (key0 * v->row + dim0) * bytes_of(v), (size_t)v->row, 0, b->n_keys,
               b->key0 == 0);
    return;
  }
  const size_t piece = keys_at_once(b->a);
  for (size_t first = 0; first < b->n_keys; first += piece) {
    const size_t n = eti_at_most(b->n_keys - first, piece);
    convert_keys(b, v, b->read_v, b->v, first, n, b->dim0, b->n_dims);
    add_values(b, b->aux, b->n_dims, first, n, b->key0 + first == 0);
  }
}

static void fill_row(const block *b, char *row) {
  for (size_t i = 0; i < b->n_dims; i++) {
    if (is_wide(b->a)) {
      ((double *)(void *)row)[i] = b->a->unseen;
    } else {
      ((float *)(void *)row)[i] = (float)b->a->unseen;
    }
  }
}

static void store_rows(const block *b) {
  const eti_attention_rows *const out = &b->a->out;
  const size_t esize = b->micro->esize;
  for (size_t i = 0; i < b->n; i++) {
    char *const row = b->acc + i * b->n_dims * esize;
    char *const dst =
        b->out + (row_offset(b, out, i) + (ptrdiff_t)b->dim0 * out->item) * bytes_of(out);
    const double sum = lane_value(b, b->sum, i);
    if (sum != 0.0) {
      const double inverse = is_wide(b->a) ? 1.0 / sum : (double)(1.0f / (float)sum);
      b->micro->scale(row, row, inverse, b->n_dims);
    } else if (b->key0 == 0 || isnan(b->a->unseen)) {
      fill_row(b, row);
    }  // else results are 0, or NaN for a NaN value
    b->write(dst, out->item * bytes_of(out), row, (ptrdiff_t)esize, b->n_dims);
  }
}

// ---- whole blocks

static void start_block(block *b) {
  memset(b->sum, 0, sizeof b->sum);
  for (size_t i = 0; i < block_rows(b->a); i++) {
    if (is_wide(b->a)) {
      ((double *)(void *)b->high)[i] = -(double)INFINITY;
    } else {
      ((float *)(void *)b->high)[i] = -INFINITY;
    }
  }
}

static void run_block(block *b) {
  const eti_attention *const a = b->a;
  const size_t n_keys = keys_seen(b, b->n - 1);
  for (b->dim0 = 0; b->dim0 < a->value_dim; b->dim0 += DIMS) {
    b->n_dims = eti_at_most(a->value_dim - b->dim0, DIMS);
    start_block(b);
    for (b->key0 = 0; b->key0 < n_keys; b->key0 += KEYS) {
      b->n_keys = eti_at_most(n_keys - b->key0, KEYS);
      score_block(b, b->key0 == 0 && b->dim0 == 0);
      if (a->has_mask) add_mask(b);
      hide_later_keys(b);
      b->micro->soften(b->x, b->n_keys, b->width, b->high, b->sum, b->factor);
      if (b->key0 > 0) scale_sums(b);
      weigh_values(b);
    }
    store_rows(b);
  }
}

typedef struct run {
  const eti_attention *a;
  char *work;
  size_t slot_bytes, n_slots, n_blocks, n_units;
} run;

static void set_work(block *b, char *work) {
  const parts p = parts_of(b->a);
  b->panel = work;
  b->x = b->panel + p.panel;
  b->acc = b->x + p.x;
  b->aux = b->acc + p.acc;
}

static void set_types(block *b) {
  const eti_attention *const a = b->a;
  const bool wide = is_wide(a);
  const et_dtype t = wide ? ET_F64 : ET_F32;
  b->micro = micro_of(a);
  b->kernel = eti_gemm_kernel_for(wide ? ETI_ACC_F64 : ETI_ACC_F32);
  b->read_q = eti_casts[a->q.dtype][t];
  b->read_k = eti_casts[a->k.dtype][t];
  b->read_v = eti_casts[a->v.dtype][t];
  b->read_mask = a->has_mask ? eti_casts[a->mask.dtype][t] : NULL;
  b->write = eti_casts[t][a->out.dtype];
}

// Each slot runs every n-th unit, so that the long rows of a causal mask are shared evenly.
static void run_slots(void *opaque, size_t begin, size_t end) {
  const run *const r = opaque;
  const eti_attention *const a = r->a;
  const size_t rows = a->n_queries * a->members, most = block_rows(a);
  block b = {.a = a};
  set_types(&b);
  for (size_t slot = begin; slot < end; slot++) {
    set_work(&b, r->work + slot * r->slot_bytes);
    for (size_t u = slot; u < r->n_units; u += r->n_slots) {
      b.outer = u / r->n_blocks / a->heads;
      b.head = u / r->n_blocks % a->heads;
      b.first = u % r->n_blocks * most;
      b.n = eti_at_most(rows - b.first, most);
      b.width = width_of(b.micro, b.n);
      b.q = head_of(&b, &a->q);
      b.k = head_of(&b, &a->k);
      b.v = head_of(&b, &a->v);
      b.mask = a->has_mask ? head_of(&b, &a->mask) : NULL;
      b.out = (char *)(uintptr_t)head_of(&b, &a->out);
      run_block(&b);
    }
  }
}

void eti_attention_prepare(const eti_attention *a, et_prepare_ctx *ctx) {
  const size_t bytes = work_bytes(a) * eti_at_least(ctx->n_threads, 1);
  if (bytes > ctx->scratch_bytes) ctx->scratch_bytes = bytes;
}

// Fewer multiply-adds than this are not worth a second thread.
#define SMALL_WORK (128.0 * 1024.0)

et_status eti_attention_run(const et_kernel_ctx *ctx, const eti_attention *a) {
  size_t n_outer = 1;
  for (size_t d = 0; d < a->outer.rank; d++) n_outer *= (size_t)a->outer.sizes[d];
  const size_t rows = a->n_queries * a->members;
  run r = {.a = a, .slot_bytes = work_bytes(a)};
  r.n_blocks = (rows + block_rows(a) - 1) / block_rows(a);
  r.n_units = n_outer * a->heads * r.n_blocks;
  if (r.n_units == 0 || a->value_dim == 0) return ET_OK;
  const double cost = (double)n_outer * (double)a->heads * (double)rows * (double)a->n_keys *
                      (double)(a->dim + a->value_dim);
  const size_t n_threads = ctx->pool == NULL || cost < SMALL_WORK ? 1 : ctx->pool->n_threads;
  r.n_slots = eti_at_most(eti_at_most(n_threads, r.n_units), ctx->scratch_bytes / r.slot_bytes);
  ET_CHECK(r.n_slots > 0, ctx->err, ET_OUT_OF_RESOURCES,
           "attention: expected %zu bytes of scratch, got %zu; prepare requests them", r.slot_bytes,
           ctx->scratch_bytes);
  r.work = ctx->scratch;
  et_parallel_for(ctx->pool, run_slots, &r, r.n_slots, 1);
  return ET_OK;
}
