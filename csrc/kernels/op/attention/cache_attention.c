// cache_attention.c — see cache_attention.h. Relies on micro/gemm/gemm.h for both products and on
// the f32 micro-kernels between them. Everything was checked before.
#include "kernels/op/attention/cache_attention.h"

#include <math.h>
#include <string.h>

#include "kernels/sizes.h"

// Entries of the tables that this file calls directly.
ETI_USES(unary, exp)
ETI_USES(rows, row_max)
ETI_USES(rows, row_sum)

enum {
  ROWS = 16,   // queries of one unit of work
  KEYS = 128,  // keys of one block: part of the numeric definition
  DIMS = 256,  // elements of a head per step; larger heads recompute the scores
};

// ---- one block of rows

// State of a block of rows while its keys are walked. Row r is query (first + r) / group of head
// kv_head · group + (first + r) % group.
typedef struct block {
  const eti_cache_attention *a;
  size_t batch, kv_head, first, n;
  size_t dim0, n_dims;  // columns of the output computed now
  size_t key0, n_keys;  // keys of this step
  float high[ROWS], sum[ROWS];
  float *scores, *acc;  // rows of `keys` and of `dims` elements
  size_t keys, dims;
  char *work;
  size_t work_bytes;
} block;

static size_t query_of(const block *b, size_t r) {
  return (b->first + r) / b->a->group;
}

static char *row_of(const block *b, const et_tensor *t, size_t r) {
  const size_t head = b->kv_head * b->a->group + (b->first + r) % b->a->group;
  const ptrdiff_t at = (ptrdiff_t)b->batch * t->strides[0] +
                       (ptrdiff_t)query_of(b, r) * t->strides[1] + (ptrdiff_t)head * t->strides[2];
  return (char *)t->data + at * (ptrdiff_t)et_dtype_bytes((et_dtype)t->dtype);
}

static const void *key_row(const block *b, const et_tensor *t, size_t key, size_t dim) {
  const ptrdiff_t at = (ptrdiff_t)b->batch * t->strides[0] + (ptrdiff_t)key * t->strides[1] +
                       (ptrdiff_t)b->kv_head * t->strides[2] + (ptrdiff_t)dim * t->strides[3];
  return (const char *)t->data + at * (ptrdiff_t)et_dtype_bytes((et_dtype)t->dtype);
}

static float number_at(const et_tensor *t, size_t batch, size_t position, size_t head) {
  const ptrdiff_t at = (ptrdiff_t)batch * t->strides[0] + (ptrdiff_t)position * t->strides[1] +
                       (ptrdiff_t)head * t->strides[2];
  float x;
  eti_casts[t->dtype][ET_F32](
      &x, 0, (const char *)t->data + at * (ptrdiff_t)et_dtype_bytes((et_dtype)t->dtype), 0, 1);
  return x;
}

// Dequantizes n numbers of a row that are `step` elements apart.
static void dequantize_row(const eti_row_numbers *numbers, size_t batch, size_t position,
                           size_t head, float *x, size_t step, size_t n) {
  const float scale = number_at(numbers->scales, batch, position, head),
              zero = number_at(numbers->zeros, batch, position, head);
  for (size_t i = 0; i < n; i++) x[i * step] = (x[i * step] - zero) * scale;
}

static void pack_queries(const eti_gemm *g, void *dst, size_t width, size_t first, size_t n,
                         size_t k0, size_t n_k) {
  const block *const b = g->ctx;
  const et_tensor *const q = b->a->q;
  const ptrdiff_t item = (ptrdiff_t)et_dtype_bytes((et_dtype)q->dtype),
                  step = (ptrdiff_t)(width * sizeof(float));
  for (size_t i = 0; i < width; i++) {
    float *const lane = (float *)dst + i;
    if (i < n) {
      eti_casts[q->dtype][ET_F32](lane, step,
                                  row_of(b, q, first + i) + (ptrdiff_t)k0 * q->strides[3] * item,
                                  q->strides[3] * item, n_k);
      if (b->a->of_q.scales != NULL)
        dequantize_row(&b->a->of_q, b->batch, query_of(b, first + i),
                       b->kv_head * b->a->group + (b->first + first + i) % b->a->group, lane, width,
                       n_k);
    } else {
      for (size_t k = 0; k < n_k; k++) lane[k * width] = 0.0f;
    }
  }
}

// Packs keys; lanes are keys.
static void pack_key_codes(const eti_gemm *g, void *dst, size_t width, size_t first, size_t n,
                           size_t k0, size_t n_k) {
  const block *const b = g->ctx;
  const et_tensor *const k = b->a->k;
  for (size_t i = 0; i < width; i++) {
    float *const lane = (float *)dst + i;
    for (size_t d = 0; d < n_k; d++) lane[d * width] = 0.0f;
    if (i >= n) continue;
    const size_t key = b->key0 + first + i;
    const int8_t *const codes = key_row(b, k, key, k0);
    for (size_t d = 0; d < n_k; d++) lane[d * width] = (float)codes[(ptrdiff_t)d * k->strides[3]];
    dequantize_row(&b->a->of_k, b->batch, key, b->kv_head, lane, width, n_k);
  }
}

// Packs values; lanes are columns, and each step of k is another key.
static void pack_value_codes(const eti_gemm *g, void *dst, size_t width, size_t first, size_t n,
                             size_t k0, size_t n_k) {
  const block *const b = g->ctx;
  const et_tensor *const v = b->a->v;
  for (size_t i = 0; i < n_k; i++) {
    float *const row = (float *)dst + i * width;
    const size_t key = b->key0 + k0 + i;
    const int8_t *const codes = key_row(b, v, key, b->dim0 + first);
    for (size_t d = 0; d < width; d++)
      row[d] = d < n ? (float)codes[(ptrdiff_t)d * v->strides[3]] : 0.0f;
    dequantize_row(&b->a->of_v, b->batch, key, b->kv_head, row, 1, n);
  }
}

// Describes scores = Q · Kᵀ.
static void describe_scores(const void *ctx, size_t i, eti_gemm *g) {
  const block *const b = ctx;
  const et_tensor *const k = b->a->k;
  (void)i;
  g->a = (eti_gemm_operand){.height = eti_gemm_a_height(g->kernel, g->m), .pack = pack_queries};
  eti_gemm_use_b_view(g, (eti_gemm_view){.data = key_row(b, k, b->key0, 0),
                                         .dtype = k->dtype,
                                         .row_step = k->strides[1],
                                         .k_step = k->strides[3]});
  if (b->a->of_k.scales != NULL)
    g->b = (eti_gemm_operand){.height = g->kernel->nr, .pack = pack_key_codes};
  g->c = (void *)(uintptr_t)b->scores;
  g->c_step = b->keys;
  g->init = ETI_GEMM_ZERO;
}

// Describes acc += P · V.
static void describe_values(const void *ctx, size_t i, eti_gemm *g) {
  const block *const b = ctx;
  const et_tensor *const v = b->a->v;
  (void)i;
  eti_gemm_use_a_view(
      g, (eti_gemm_view){
             .data = b->scores, .dtype = ET_F32, .row_step = (ptrdiff_t)b->keys, .k_step = 1});
  eti_gemm_use_b_view(g, (eti_gemm_view){.data = key_row(b, v, b->key0, b->dim0),
                                         .dtype = v->dtype,
                                         .row_step = v->strides[3],
                                         .k_step = v->strides[1]});
  if (b->a->of_v.scales != NULL)
    g->b = (eti_gemm_operand){.height = g->kernel->nr, .pack = pack_value_codes};
  g->c = (void *)(uintptr_t)b->acc;
  g->c_step = b->dims;
  g->init = ETI_GEMM_KEEP;
}

static void run_gemm(block *b, size_t n, size_t k, eti_gemm_job_fn describe) {
  const eti_gemm shape = {.kernel = b->a->kernel, .m = b->n, .n = n, .k = k, .ctx = b};
  eti_gemm_run(NULL, &shape, 1, describe, b, b->work, b->work_bytes);
}

// Scales the scores of row r and hides masked keys. Returns the number of this step's keys that the
// query may see.
static size_t mask_row(const block *b, size_t r, float *x) {
  const eti_cache_attention *const a = b->a;
  size_t n = b->n_keys;
  if (a->causal) {
    const size_t seen = (size_t)a->start + query_of(b, r) + 1;
    n = seen <= b->key0 ? 0 : seen - b->key0 < n ? seen - b->key0 : n;
  }
  for (size_t i = 0; i < n; i++) x[i] *= a->scale;
  if (a->mask == NULL) return n;
  const ptrdiff_t step = a->mask->strides[1];
  const ptrdiff_t at = (ptrdiff_t)query_of(b, r) * a->mask->strides[0] + (ptrdiff_t)b->key0 * step;
  if (a->mask->dtype == ET_B8) {
    const uint8_t *const m = (const uint8_t *)a->mask->data + at;
    for (size_t i = 0; i < n; i++) x[i] = m[(ptrdiff_t)i * step] != 0 ? x[i] : -INFINITY;
  } else {
    const float *const m = (const float *)a->mask->data + at;
    for (size_t i = 0; i < n; i++) x[i] += m[(ptrdiff_t)i * step];
  }
  return n;
}

static void exp_row(const eti_eltwise *micro, float *x, size_t n) {
  void *p[2] = {x, x};
  const ptrdiff_t s[2] = {(ptrdiff_t)sizeof(float), (ptrdiff_t)sizeof(float)};
  micro->unary.exp(p, s, n, NULL);
}

// Turns scores into weights relative to the highest score so far, and rescales the running sums to
// it.
static void soften_row(block *b, size_t r) {
  const eti_eltwise *const micro = b->a->micro;
  float *const x = b->scores + r * b->keys;
  const size_t n = mask_row(b, r, x);
  float high = n == 0 ? -INFINITY : micro->row_max(x, n);
  if (!(high > b->high[r]) && !isnan(high)) high = b->high[r];
  if (n == 0 || high == -INFINITY) {  // no visible key yet
    memset(x, 0, b->n_keys * sizeof *x);
    return;
  }
  float factor = b->high[r] - high;
  exp_row(micro, &factor, 1);
  for (size_t i = 0; i < n; i++) x[i] -= high;
  exp_row(micro, x, n);
  memset(x + n, 0, (b->n_keys - n) * sizeof *x);
  b->high[r] = high;
  b->sum[r] = b->sum[r] * factor + micro->row_sum(x, n);
  float *const acc = b->acc + r * b->dims;
  for (size_t i = 0; i < b->n_dims; i++) acc[i] *= factor;
}

static void store_rows(const block *b) {
  const et_tensor *const out = b->a->out;
  const ptrdiff_t item = (ptrdiff_t)et_dtype_bytes((et_dtype)out->dtype);
  for (size_t r = 0; r < b->n; r++) {
    float *const result = b->acc + r * b->dims;
    for (size_t i = 0; i < b->n_dims; i++) result[i] /= b->sum[r];
    eti_casts[ET_F32][out->dtype](row_of(b, out, r) + (ptrdiff_t)b->dim0 * out->strides[3] * item,
                                  out->strides[3] * item, result, (ptrdiff_t)sizeof(float),
                                  b->n_dims);
  }
}

static void run_block(block *b) {
  const eti_cache_attention *const a = b->a;
  const size_t dim = (size_t)a->q->sizes[3];
  size_t n_keys = a->n_keys;
  if (a->causal) n_keys = (size_t)a->start + query_of(b, b->n - 1) + 1;
  for (b->dim0 = 0; b->dim0 < dim; b->dim0 += b->dims) {
    b->n_dims = eti_at_most(dim - b->dim0, b->dims);
    memset(b->acc, 0, b->n * b->dims * sizeof *b->acc);
    for (size_t r = 0; r < b->n; r++) {
      b->high[r] = -INFINITY;
      b->sum[r] = 0.0f;
    }
    for (b->key0 = 0; b->key0 < n_keys; b->key0 += KEYS) {
      b->n_keys = n_keys - b->key0 < KEYS ? n_keys - b->key0 : KEYS;
      run_gemm(b, b->n_keys, dim, describe_scores);
      for (size_t r = 0; r < b->n; r++) soften_row(b, r);
      run_gemm(b, b->n_dims, b->n_keys, describe_values);
    }
    store_rows(b);
  }
}

// ---- blocks and their memory

// Parts of one thread's memory, in bytes.
typedef struct parts {
  size_t keys, dims;  // elements of a row of scores, of acc
  size_t scores, acc, work;
} parts;

static size_t aligned_bytes(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// Memory for blocks of this problem; data of keys and values are not read.
static parts parts_of(const eti_cache_attention *a, size_t cache_size) {
  const size_t rows = eti_at_most(a->rows, ROWS), dim = (size_t)a->q->sizes[3];
  parts p = {.keys = eti_at_most(cache_size, KEYS), .dims = eti_at_most(dim, DIMS)};
  p.scores = aligned_bytes(rows * p.keys * sizeof(float));
  p.acc = aligned_bytes(rows * p.dims * sizeof(float));
  float any;
  const block b = {.a = a, .n = rows, .keys = p.keys, .dims = p.dims, .scores = &any, .acc = &any};
  eti_gemm g = {.kernel = a->kernel, .m = rows, .n = p.keys, .k = dim, .ctx = &b};
  describe_scores(&b, 0, &g);
  const size_t for_scores = eti_gemm_work_bytes(&g, false, 1);
  g = (eti_gemm){.kernel = a->kernel, .m = rows, .n = p.dims, .k = p.keys, .ctx = &b};
  describe_values(&b, 0, &g);
  const size_t for_values = eti_gemm_work_bytes(&g, false, 1);
  p.work = for_scores > for_values ? for_scores : for_values;
  return p;
}

static size_t bytes_of(const parts *p) {
  return p->scores + p->acc + p->work;
}

// Runs unit i: batch × key/value heads × blocks of ROWS rows.
static void run_unit(block *b, size_t i) {
  const eti_cache_attention *const a = b->a;
  const size_t heads = (size_t)a->k->sizes[2];
  b->batch = i / a->n_blocks / heads;
  b->kv_head = i / a->n_blocks % heads;
  b->first = i % a->n_blocks * ROWS;
  b->n = eti_at_most(a->rows - b->first, ROWS);
  run_block(b);
}

static void run_slots(void *opaque, size_t begin, size_t end) {
  const eti_cache_attention *const a = opaque;
  const parts p = parts_of(a, (size_t)a->k->sizes[1]);
  for (size_t slot = begin; slot < end; slot++) {
    char *const room = a->scratch + slot * a->slot_bytes;
    block b = {.a = a,
               .keys = p.keys,
               .dims = p.dims,
               .scores = (float *)(void *)room,
               .acc = (float *)(void *)(room + p.scores),
               .work = room + p.scores + p.acc,
               .work_bytes = a->slot_bytes - p.scores - p.acc};
    for (size_t i = slot * a->n_items / a->n_slots; i < (slot + 1) * a->n_items / a->n_slots; i++)
      run_unit(&b, i);
  }
}

et_status eti_cache_attention_run(const et_kernel_ctx *ctx, eti_cache_attention *a) {
  if (a->out->numel == 0) return ET_OK;
  a->micro = eti_eltwise_get();
  a->kernel = eti_gemm_kernel_for(ETI_ACC_F32);
  a->group = (size_t)(a->q->sizes[2] / a->k->sizes[2]);
  a->rows = (size_t)a->q->sizes[1] * a->group;
  a->n_blocks = (a->rows + ROWS - 1) / ROWS;
  const double work =
      (double)a->n_keys * (double)a->q->sizes[3] * (double)(a->rows < ROWS ? a->rows : ROWS);
  const size_t grain = work > 65536.0 ? 1 : 1 + (size_t)(65536.0 / (work + 1.0));
  a->n_items = (size_t)a->q->sizes[0] * (size_t)a->k->sizes[2] * a->n_blocks;
  const parts p = parts_of(a, (size_t)a->k->sizes[1]);
  const size_t n_threads = ctx->pool == NULL ? 1 : ctx->pool->n_threads;
  const size_t most = eti_at_most(n_threads, (a->n_items + grain - 1) / grain);
  // Products of fewer queries than prepare saw may want more memory, and do with what there is.
  const size_t least = p.scores + p.acc;
  a->n_slots = eti_at_most(most, ctx->scratch_bytes / least);
  ET_CHECK(a->n_slots > 0, ctx->err, ET_OUT_OF_RESOURCES,
           "sdpa: expected %zu bytes of scratch, got %zu; prepare requests them", bytes_of(&p),
           ctx->scratch_bytes);
  a->slot_bytes = eti_at_most(bytes_of(&p), ctx->scratch_bytes / a->n_slots / 64 * 64);
  a->scratch = ctx->scratch;
  et_parallel_for(ctx->pool, run_slots, a, a->n_slots, 1);
  return ET_OK;
}

void eti_cache_attention_prepare(et_prepare_ctx *ctx, const et_tensor *q, const et_tensor *k,
                                 const et_tensor *v) {
  if (q->rank != 4 || k->rank != 4 || v->rank != 4 || k->sizes[2] <= 0) return;
  et_tensor keys = *k, values = *v;
  keys.data = values.data = &keys;  // an address for operands that are read in place
  eti_cache_attention a = {.kernel = eti_gemm_kernel_for(ETI_ACC_F32),
                           .q = q,
                           .k = &keys,
                           .v = &values,
                           .group = (size_t)(q->sizes[2] / k->sizes[2])};
  a.rows = (size_t)q->sizes[1] * a.group;
  const parts p = parts_of(&a, (size_t)k->sizes[1]);
  const size_t bytes = bytes_of(&p) * (ctx->n_threads == 0 ? 1 : ctx->n_threads);
  if (bytes > ctx->scratch_bytes) ctx->scratch_bytes = bytes;
}
