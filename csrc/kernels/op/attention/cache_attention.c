// cache_attention.c — see cache_attention.h. Relies on micro/gemm/gemm.h for both products, on
// lib/panel_product.h for those of codes, and on the f32 micro-kernels between them. Everything was
// checked before.
#include "kernels/op/attention/cache_attention.h"

#include <math.h>
#include <string.h>

#include "kernels/lib/panel_product.h"
#include "kernels/sizes.h"

// Entries of the tables that this file calls directly.
ETI_USES(unary, exp)
ETI_USES(rows, row_max)
ETI_USES(rows, row_sum)

enum {
  ROWS = 16,       // queries of one unit of work
  CODE_ROWS = 64,  // the same where keys or values are codes, which are packed for each unit
  KEYS = 128,      // keys of one block: part of the numeric definition
  DIMS = 256,      // elements of a head per step; larger heads recompute the scores
  WIDTH = ETI_GEMM_STORED,
  EXACT_DIMS = 33025,  // so many products of differences of codes have a sum of 32 bits
};

// ---- one block of rows

// Numbers of the codes of a block.
typedef struct numbers {
  float q_scales[CODE_ROWS];
  int32_t q_zeros[CODE_ROWS], q_sums[CODE_ROWS];  // sums of codes less zero points
  float k_scales[KEYS], no_adds[KEYS];
  int32_t k_sums[KEYS], k_zeros[KEYS];
  float v_scales[KEYS], v_zeros[KEYS];
  float row[KEYS > DIMS ? KEYS : DIMS];
} numbers;

// State of a block of rows while its keys are walked. Row r is query (first + r) / group of head
// kv_head · group + (first + r) % group.
typedef struct block {
  const eti_cache_attention *a;
  size_t batch, kv_head, first, n;
  size_t dim0, n_dims;  // columns of the output computed now
  size_t key0, n_keys;  // keys of this step
  float high[CODE_ROWS], sum[CODE_ROWS];
  float *scores, *acc;  // rows of `keys` and of `dims` elements
  size_t keys, dims;
  numbers *numbers;  // of codes; so are the next three
  int8_t *codes, *key_panels;
  float *value_panels;  // `dims` elements of KEYS rows, in panels
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
static void dequantize_row(const eti_row_numbers *of_row, size_t batch, size_t position,
                           size_t head, float *x, size_t step, size_t n) {
  const float scale = number_at(of_row->scales, batch, position, head),
              zero = number_at(of_row->zeros, batch, position, head);
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
  g->c = (void *)(uintptr_t)b->acc;
  g->c_step = b->dims;
  g->init = ETI_GEMM_KEEP;
}

static void run_gemm(block *b, size_t n, size_t k, eti_gemm_job_fn describe) {
  const eti_gemm shape = {.kernel = b->a->kernel, .m = b->n, .n = n, .k = k, .ctx = b};
  eti_gemm_run(NULL, &shape, 1, describe, b, b->work, b->work_bytes);
}

// ---- products of codes

static bool has_value_codes(const eti_cache_attention *a) {
  return a->of_v.scales != NULL;
}

// True if queries and keys are multiplied as codes, with exact sums.
static bool is_exact(const eti_cache_attention *a) {
  const et_tensor *const q = a->of_q.zeros, *const k = a->of_k.zeros;
  return q != NULL && k != NULL && q->dtype == ET_I8 && k->dtype == ET_I8 &&
         a->q->sizes[3] <= EXACT_DIMS;
}

// NULL in a build without codes, which has no micro-kernels for them then.
static const eti_qgemm_micro *products_of_codes(void) {
  const eti_qgemm_micro *(*const best)(void) = ETI_BUILT(ET_I8, eti_qgemm_micro_best);
  return best == NULL ? NULL : best();
}

// Copies the codes of the rows, and their numbers.
static void load_queries(const block *b) {
  const eti_cache_attention *const a = b->a;
  numbers *const x = b->numbers;
  const size_t dim = (size_t)a->q->sizes[3], step = eti_code_row_bytes(dim);
  const ptrdiff_t item = a->q->strides[3];
  int8_t *const codes = b->key_panels;  // free until the first keys
  for (size_t r = 0; r < b->n; r++) {
    const size_t head = b->kv_head * a->group + (b->first + r) % a->group;
    const int8_t *const row = (const int8_t *)row_of(b, a->q, r);
    x->q_scales[r] = number_at(a->of_q.scales, b->batch, query_of(b, r), head);
    x->q_zeros[r] = (int32_t)number_at(a->of_q.zeros, b->batch, query_of(b, r), head);
    int32_t sum = 0;
    for (size_t d = 0; d < dim; d++) sum += codes[d] = row[(ptrdiff_t)d * item];
    x->q_sums[r] = sum - (int32_t)dim * x->q_zeros[r];
    eti_code_row_copy(a->qgemm, b->codes + r * step, codes, dim);
  }
}

// Reads the number of each key of this step.
static void read_numbers(const block *b, const et_tensor *t, float *x) {
  const ptrdiff_t item = (ptrdiff_t)et_dtype_bytes((et_dtype)t->dtype);
  eti_casts[t->dtype][ET_F32](x, (ptrdiff_t)sizeof(float), key_row(b, t, b->key0, 0),
                              t->strides[1] * item, b->n_keys);
}

// Fetches the codes of keys [key, key + KEYS) that exist. The processor does that itself where rows
// of one head are side by side.
static void prefetch_rows(const block *b, const et_tensor *t, size_t key, size_t n_keys) {
  enum { LINE = 64 };
  const size_t end = eti_at_most(n_keys, key + KEYS), dim = (size_t)t->sizes[3];
  if (t->strides[1] == t->sizes[3]) return;
  for (; key < end; key++) {
    const char *const row = key_row(b, t, key, 0);
    for (size_t d = 0; d < dim; d += LINE) __builtin_prefetch(row + d, 0, 2);
  }
}

static void score_codes(const block *b) {
  const eti_cache_attention *const a = b->a;
  numbers *const x = b->numbers;
  const size_t dim = (size_t)a->q->sizes[3];
  read_numbers(b, a->of_k.zeros, x->row);
  for (size_t i = 0; i < b->n_keys; i++) x->k_zeros[i] = (int32_t)x->row[i];
  read_numbers(b, a->of_k.scales, x->k_scales);
  const eti_code_columns columns = {.rows = key_row(b, a->k, b->key0, 0),
                                    .row_step = a->k->strides[1],
                                    .item = a->k->strides[3],
                                    .n = b->n_keys,
                                    .dim = dim};
  eti_code_columns_pack(&columns, b->key_panels, x->k_sums);
  const eti_qtile t = {.a = b->codes,
                       .a_step = eti_code_row_bytes(dim),
                       .w = b->key_panels,
                       .quads = eti_div_up(dim, ETI_QGEMM_QUAD),
                       .start = x->k_sums,
                       .scale = x->k_scales,
                       .add = x->no_adds,
                       .m = b->n,
                       .n = b->n_keys,
                       .out = b->scores,
                       .out_step = b->keys,
                       .row_zero = x->q_zeros,
                       .row_scale = x->q_scales,
                       .row_sum = x->q_sums,
                       .column_zero = x->k_zeros,
                       .row_step = 1};
  a->qgemm->tile_f32(&t);
}

// Adds P · V, of values that are dequantized into panels.
static void weigh_codes(const block *b) {
  const et_tensor *const v = b->a->v;
  numbers *const x = b->numbers;
  read_numbers(b, b->a->of_v.zeros, x->v_zeros);
  read_numbers(b, b->a->of_v.scales, x->v_scales);
  for (size_t i = 0; i < b->n_keys; i++) {
    const float zero = x->v_zeros[i], scale = x->v_scales[i];
    eti_casts[ET_I8][ET_F32](x->row, (ptrdiff_t)sizeof(float), key_row(b, v, b->key0 + i, b->dim0),
                             v->strides[3], b->n_dims);
    for (size_t d = 0; d < b->n_dims; d += WIDTH) {
      float *const to = b->value_panels + d * KEYS + i * WIDTH;
      for (size_t c = 0; c < WIDTH; c++) to[c] = (x->row[d + c] - zero) * scale;
    }
  }
  const eti_panel_product p = {.dtype = ET_F32,
                               .a = b->scores,
                               .a_step = b->keys,
                               .m = b->n,
                               .k = b->n_keys,
                               .n = eti_round_up(b->n_dims, WIDTH),
                               .panels = (const char *)b->value_panels,
                               .panel_bytes = KEYS * WIDTH * sizeof(float),
                               .c = b->acc,
                               .c_step = b->dims,
                               .init = ETI_GEMM_KEEP};
  eti_panel_multiply(b->a->kernel, &p, NULL);
}

// ---- weights

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
  const bool exact = is_exact(a), value_codes = has_value_codes(a);
  size_t n_keys = a->n_keys;
  if (a->causal) n_keys = (size_t)a->start + query_of(b, b->n - 1) + 1;
  if (exact) load_queries(b);
  for (b->dim0 = 0; b->dim0 < dim; b->dim0 += b->dims) {
    b->n_dims = eti_at_most(dim - b->dim0, b->dims);
    memset(b->acc, 0, b->n * b->dims * sizeof *b->acc);
    for (size_t r = 0; r < b->n; r++) {
      b->high[r] = -INFINITY;
      b->sum[r] = 0.0f;
    }
    for (b->key0 = 0; b->key0 < n_keys; b->key0 += KEYS) {
      b->n_keys = n_keys - b->key0 < KEYS ? n_keys - b->key0 : KEYS;
      if (value_codes) prefetch_rows(b, a->v, b->key0, n_keys);
      if (exact) {
        score_codes(b);
      } else {
        run_gemm(b, b->n_keys, dim, describe_scores);
      }
      for (size_t r = 0; r < b->n; r++) soften_row(b, r);
      if (exact) prefetch_rows(b, a->k, b->key0 + KEYS, n_keys);
      if (value_codes) {
        weigh_codes(b);
      } else {
        run_gemm(b, b->n_dims, b->n_keys, describe_values);
      }
    }
    store_rows(b);
  }
}

// ---- blocks and their memory

// Parts of one thread's memory, in bytes.
typedef struct parts {
  size_t keys, dims;  // elements of a row of scores, of acc
  size_t scores, acc, numbers, codes, key_panels, value_panels, work;
} parts;

static size_t aligned_bytes(size_t bytes) {
  return eti_round_up(bytes, 64);
}

static size_t rows_of_a_block(const eti_cache_attention *a) {
  return is_exact(a) || has_value_codes(a) ? CODE_ROWS : ROWS;
}

// Memory of the products of gemm.h.
static size_t work_bytes_of(const eti_cache_attention *a, size_t rows, const parts *p) {
  const size_t dim = (size_t)a->q->sizes[3];
  size_t for_scores = 0, for_values = 0;
  float any;
  const block b = {
      .a = a, .n = rows, .keys = p->keys, .dims = p->dims, .scores = &any, .acc = &any};
  if (!is_exact(a)) {
    eti_gemm g = {.kernel = a->kernel, .m = rows, .n = p->keys, .k = dim, .ctx = &b};
    describe_scores(&b, 0, &g);
    for_scores = eti_gemm_work_bytes(&g, false, 1);
  }
  if (!has_value_codes(a)) {
    eti_gemm g = {.kernel = a->kernel, .m = rows, .n = p->dims, .k = p->keys, .ctx = &b};
    describe_values(&b, 0, &g);
    for_values = eti_gemm_work_bytes(&g, false, 1);
  }
  return for_scores > for_values ? for_scores : for_values;
}

// Memory for blocks of this problem; data of keys and values are not read.
static parts parts_of(const eti_cache_attention *a) {
  const size_t rows = eti_at_most(a->rows, rows_of_a_block(a)), dim = (size_t)a->q->sizes[3];
  parts p = {.keys = eti_at_most((size_t)a->k->sizes[1], KEYS),
             .dims = eti_round_up(eti_at_most(dim, DIMS), WIDTH)};
  p.scores = aligned_bytes(rows * p.keys * sizeof(float));
  p.acc = aligned_bytes(rows * p.dims * sizeof(float));
  if (is_exact(a) || has_value_codes(a)) p.numbers = aligned_bytes(sizeof(numbers));
  if (is_exact(a)) {
    const size_t panels = eti_at_least(eti_div_up(p.keys, ETI_QGEMM_NR), 1);
    p.codes = rows * eti_code_row_bytes(dim);
    p.key_panels = panels * eti_qpanel_bytes(eti_div_up(dim, ETI_QGEMM_QUAD));
  }
  if (has_value_codes(a)) p.value_panels = p.dims * KEYS * sizeof(float);
  p.work = work_bytes_of(a, rows, &p);
  return p;
}

// Without `work`, with which products are faster.
static size_t least_bytes(const parts *p) {
  return p->scores + p->acc + p->numbers + p->codes + p->key_panels + p->value_panels;
}

static size_t bytes_of(const parts *p) {
  return least_bytes(p) + p->work;
}

static char *take(char **room, size_t bytes) {
  char *const at = *room;
  *room += bytes;
  return at;
}

static block block_at(const eti_cache_attention *a, const parts *p, char *memory) {
  char *room = memory;
  block b = {.a = a, .keys = p->keys, .dims = p->dims};
  b.scores = (float *)(void *)take(&room, p->scores);
  b.acc = (float *)(void *)take(&room, p->acc);
  b.numbers = (numbers *)(void *)take(&room, p->numbers);
  b.codes = (int8_t *)take(&room, p->codes);
  b.key_panels = (int8_t *)take(&room, p->key_panels);
  b.value_panels = (float *)(void *)take(&room, p->value_panels);
  b.work = room;
  b.work_bytes = a->slot_bytes - least_bytes(p);
  if (p->numbers > 0) memset(b.numbers, 0, p->numbers);  // numbers of missing columns are read
  return b;
}

// Runs unit i: batch × key/value heads × blocks of ROWS rows.
static void run_unit(block *b, size_t i) {
  const eti_cache_attention *const a = b->a;
  const size_t heads = (size_t)a->k->sizes[2];
  b->batch = i / a->n_blocks / heads;
  b->kv_head = i / a->n_blocks % heads;
  b->first = i % a->n_blocks * rows_of_a_block(a);
  b->n = eti_at_most(a->rows - b->first, rows_of_a_block(a));
  run_block(b);
}

static void run_slots(void *opaque, size_t begin, size_t end) {
  const eti_cache_attention *const a = opaque;
  const parts p = parts_of(a);
  for (size_t slot = begin; slot < end; slot++) {
    block b = block_at(a, &p, a->scratch + slot * a->slot_bytes);
    for (size_t i = slot * a->n_items / a->n_slots; i < (slot + 1) * a->n_items / a->n_slots; i++)
      run_unit(&b, i);
  }
}

et_status eti_cache_attention_run(const et_kernel_ctx *ctx, eti_cache_attention *a) {
  if (a->out->numel == 0) return ET_OK;
  a->micro = eti_eltwise_get();
  a->kernel = eti_gemm_kernel_for(ETI_ACC_F32);
  a->qgemm = products_of_codes();
  a->group = (size_t)(a->q->sizes[2] / a->k->sizes[2]);
  a->rows = (size_t)a->q->sizes[1] * a->group;
  const size_t rows = rows_of_a_block(a);
  a->n_blocks = eti_div_up(a->rows, rows);
  const double work =
      (double)a->n_keys * (double)a->q->sizes[3] * (double)eti_at_most(a->rows, rows);
  const size_t grain = work > 65536.0 ? 1 : 1 + (size_t)(65536.0 / (work + 1.0));
  a->n_items = (size_t)a->q->sizes[0] * (size_t)a->k->sizes[2] * a->n_blocks;
  const parts p = parts_of(a);
  const size_t n_threads = ctx->pool == NULL ? 1 : ctx->pool->n_threads;
  const size_t most = eti_at_most(n_threads, (a->n_items + grain - 1) / grain);
  // Products of fewer queries than prepare saw may want more memory, and do with what there is.
  a->n_slots = eti_at_most(most, ctx->scratch_bytes / least_bytes(&p));
  ET_CHECK(a->n_slots > 0, ctx->err, ET_OUT_OF_RESOURCES,
           "sdpa: expected %zu bytes of scratch, got %zu; prepare requests them", bytes_of(&p),
           ctx->scratch_bytes);
  a->slot_bytes = eti_at_most(bytes_of(&p), ctx->scratch_bytes / a->n_slots / 64 * 64);
  a->scratch = ctx->scratch;
  et_parallel_for(ctx->pool, run_slots, a, a->n_slots, 1);
  return ET_OK;
}

void eti_cache_attention_prepare(et_prepare_ctx *ctx, const eti_cache_attention *given) {
  const et_tensor *const q = given->q, *const k = given->k, *const v = given->v;
  if (q->rank != 4 || k->rank != 4 || v->rank != 4 || k->sizes[2] <= 0) return;
  et_tensor keys = *k, values = *v;
  keys.data = values.data = &keys;  // an address for operands that are read in place
  eti_cache_attention a = *given;
  a.kernel = eti_gemm_kernel_for(ETI_ACC_F32);
  a.k = &keys;
  a.v = &values;
  a.group = (size_t)(q->sizes[2] / k->sizes[2]);
  a.rows = (size_t)q->sizes[1] * a.group;
  const parts p = parts_of(&a);
  const size_t bytes = bytes_of(&p) * (ctx->n_threads == 0 ? 1 : ctx->n_threads);
  if (bytes > ctx->scratch_bytes) ctx->scratch_bytes = bytes;
}
