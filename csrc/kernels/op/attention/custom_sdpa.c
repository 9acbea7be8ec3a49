// custom_sdpa.c — attention over a key/value cache: the sdpa operators of the llama:: library.
// Tensors are [batch, position, head, dim] in any layout. Keys are processed in blocks of KEYS with
// a running maximum and sum, so memory does not grow with the cache; query heads that share a
// key/value head share its packed block. Relies on micro/gemm/gemm.h, the f32 micro-kernels and
// kv_cache.h. Halves compute in f32 and round once. Threads split rows of queries, which are
// independent. Everything is checked before a cache is written.
//
// Its core differs from flash_attention.h: it scales scores instead of queries and divides by the
// sum, and its blocks are made for single tokens. The few query heads that share a key/value head
// are rows of a product here; there they would be half-empty vectors. For the many queries of a
// prompt flash_attention.h is faster.
#include "kernels/lib/elementwise.h"
#include "kernels/kernel.h"
#include "kernels/micro/gemm/gemm.h"
#include "kernels/lib/copy_op.h"
#include "kernels/op/attention/kv_cache.h"
#include "kernels/ops.h"

#include <math.h>
#include <string.h>

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

// Scale and zero point of every row of an i8 tensor, [batch, position, head, 1]; NULL for floats.
typedef struct row_numbers {
  const et_tensor *scales, *zeros;
} row_numbers;

typedef struct attention {
  const eti_eltwise *micro;
  const eti_gemm_kernel *kernel;
  const et_tensor *q, *k, *v, *mask, *out;
  row_numbers of_q, of_k, of_v;
  int64_t start;
  size_t n_keys;          // keys that any query sees
  size_t group;           // query heads for each key/value head
  size_t rows, n_blocks;  // queries × group of one key/value head, and their blocks
  bool causal;            // query s sees keys up to start + s
  float scale;
} attention;

// State of a block of rows while its keys are walked. Row r is query (first + r) / group of head
// kv_head · group + (first + r) % group.
typedef struct block {
  const attention *a;
  size_t batch, kv_head, first, n;
  size_t dim0, n_dims;  // columns of the output computed now
  size_t key0, n_keys;  // keys of this step
  float high[ROWS], sum[ROWS];
  _Alignas(64) float scores[ROWS * KEYS];
  _Alignas(64) float acc[ROWS * DIMS];
  _Alignas(64) char work[ETI_GEMM_MIN_WORK];
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
static void dequantize_row(const row_numbers *numbers, size_t batch, size_t position, size_t head,
                           float *x, size_t step, size_t n) {
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
  g->c_step = KEYS;
  g->init = ETI_GEMM_ZERO;
}

// Describes acc += P · V.
static void describe_values(const void *ctx, size_t i, eti_gemm *g) {
  const block *const b = ctx;
  const et_tensor *const v = b->a->v;
  (void)i;
  eti_gemm_use_a_view(
      g, (eti_gemm_view){.data = b->scores, .dtype = ET_F32, .row_step = KEYS, .k_step = 1});
  eti_gemm_use_b_view(g, (eti_gemm_view){.data = key_row(b, v, b->key0, b->dim0),
                                         .dtype = v->dtype,
                                         .row_step = v->strides[3],
                                         .k_step = v->strides[1]});
  if (b->a->of_v.scales != NULL)
    g->b = (eti_gemm_operand){.height = g->kernel->nr, .pack = pack_value_codes};
  g->c = (void *)(uintptr_t)b->acc;
  g->c_step = DIMS;
  g->init = ETI_GEMM_KEEP;
}

static void run_gemm(block *b, size_t n, size_t k, eti_gemm_job_fn describe) {
  const eti_gemm shape = {.kernel = b->a->kernel, .m = b->n, .n = n, .k = k, .ctx = b};
  eti_gemm_run(NULL, &shape, 1, describe, b, b->work, sizeof b->work);
}

// Scales the scores of row r and hides masked keys. Returns the number of this step's keys that the
// query may see.
static size_t mask_row(const block *b, size_t r, float *x) {
  const attention *const a = b->a;
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
  float *const x = b->scores + r * KEYS;
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
  float *const acc = b->acc + r * DIMS;
  for (size_t i = 0; i < b->n_dims; i++) acc[i] *= factor;
}

static void store_rows(const block *b) {
  const et_tensor *const out = b->a->out;
  const ptrdiff_t item = (ptrdiff_t)et_dtype_bytes((et_dtype)out->dtype);
  for (size_t r = 0; r < b->n; r++) {
    float result[DIMS];
    for (size_t i = 0; i < b->n_dims; i++) result[i] = b->acc[r * DIMS + i] / b->sum[r];
    eti_casts[ET_F32][out->dtype](row_of(b, out, r) + (ptrdiff_t)b->dim0 * out->strides[3] * item,
                                  out->strides[3] * item, result, (ptrdiff_t)sizeof(float),
                                  b->n_dims);
  }
}

static void run_block(block *b) {
  const attention *const a = b->a;
  const size_t dim = (size_t)a->q->sizes[3];
  size_t n_keys = a->n_keys;
  if (a->causal) n_keys = (size_t)a->start + query_of(b, b->n - 1) + 1;
  for (b->dim0 = 0; b->dim0 < dim; b->dim0 += DIMS) {
    b->n_dims = dim - b->dim0 < DIMS ? dim - b->dim0 : DIMS;
    memset(b->acc, 0, sizeof b->acc);
    for (size_t r = 0; r < ROWS; r++) {
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

// Each item is a block of rows: batch × key/value heads × blocks.
static void run_blocks(void *opaque, size_t begin, size_t end) {
  const attention *const a = opaque;
  const size_t heads = (size_t)a->k->sizes[2];
  block b;
  b.a = a;
  for (size_t i = begin; i < end; i++) {
    b.batch = i / a->n_blocks / heads;
    b.kv_head = i / a->n_blocks % heads;
    b.first = i % a->n_blocks * ROWS;
    b.n = a->rows - b.first < ROWS ? a->rows - b.first : ROWS;
    run_block(&b);
  }
}

static et_status check_floats(const et_kernel_ctx *ctx, const et_tensor *q, const et_tensor *k,
                              const et_tensor *v) {
  ET_CHECK(eti_dtype_in((et_dtype)q->dtype, ET_TYPES_F32 | ET_TYPES_HALF), ctx->err,
           ET_NOT_SUPPORTED, "sdpa: query: expected f32, f16 or bf16, got %s",
           et_dtype_name((et_dtype)q->dtype));
  ET_CHECK(k->dtype == q->dtype && v->dtype == q->dtype, ctx->err, ET_INVALID_ARGUMENT,
           "sdpa: expected one dtype, got query %s, key %s, value %s",
           et_dtype_name((et_dtype)q->dtype), et_dtype_name((et_dtype)k->dtype),
           et_dtype_name((et_dtype)v->dtype));
  return ET_OK;
}

static et_status check_heads(const et_kernel_ctx *ctx, const et_tensor *q, const et_tensor *k,
                             const et_tensor *v) {
  ET_CHECK(q->rank == 4 && k->rank == 4 && v->rank == 4, ctx->err, ET_INVALID_ARGUMENT,
           "sdpa: expected query, key and value of rank 4, [batch, position, head, dim], got ranks "
           "%d, %d and %d",
           (int)q->rank, (int)k->rank, (int)v->rank);
  ET_CHECK(eti_same_shape(k, v), ctx->err, ET_INVALID_ARGUMENT,
           "sdpa: key and value have different shapes");
  ET_CHECK(q->sizes[0] == k->sizes[0] && q->sizes[3] == k->sizes[3], ctx->err, ET_INVALID_ARGUMENT,
           "sdpa: query has batch %d and head size %d, the keys %d and %d", (int)q->sizes[0],
           (int)q->sizes[3], (int)k->sizes[0], (int)k->sizes[3]);
  ET_CHECK(k->sizes[2] > 0 && q->sizes[2] % k->sizes[2] == 0, ctx->err, ET_INVALID_ARGUMENT,
           "sdpa: query: expected a multiple of the %d key heads, got %d heads", (int)k->sizes[2],
           (int)q->sizes[2]);
  return ET_OK;
}

// Finds the visible keys: a mask covers the whole cache; without one, keys end at the positions of
// the queries.
static et_status check_keys(const et_kernel_ctx *ctx, attention *a) {
  const int64_t n_queries = a->q->sizes[1], size = a->k->sizes[1];
  if (a->mask == NULL) {
    ET_TRY(eti_cache_check_position(ctx, "sdpa", a->start, n_queries, size));
    a->n_keys = (size_t)(a->start + n_queries);
    return ET_OK;
  }
  ET_CHECK(!a->causal, ctx->err, ET_INVALID_ARGUMENT,
           "sdpa: expected attn_mask or is_causal, got both");
  ET_CHECK(a->start >= 0, ctx->err, ET_INVALID_ARGUMENT,
           "sdpa: start_pos: expected 0 or more, got %lld", (long long)a->start);
  ET_CHECK(a->mask->dtype == ET_F32 || a->mask->dtype == ET_B8, ctx->err, ET_INVALID_ARGUMENT,
           "sdpa: attn_mask: expected f32 or b8, got %s", et_dtype_name((et_dtype)a->mask->dtype));
  const eti_shape shape = eti_shape_of(a->mask);
  char text[ETI_SHAPE_TEXT];
  ET_CHECK(shape.rank == 2 && shape.sizes[0] == n_queries && shape.sizes[1] == size, ctx->err,
           ET_INVALID_ARGUMENT,
           "sdpa: attn_mask: expected shape [%lld, %lld], of queries and the whole cache, got %s",
           (long long)n_queries, (long long)size, eti_shape_text(&shape, text));
  a->n_keys = (size_t)size;
  return ET_OK;
}

// Reads arguments from start_pos, at position i, on: start_pos, (seq_len,) attn_mask, dropout,
// is_causal, scale, out.
static et_status read_attention(const et_kernel_ctx *ctx, et_value *const *args, size_t i_start,
                                size_t i_mask, attention *a) {
  et_tensor *mask;
  double dropout, scale = 0.0;
  bool has_scale = false;
  ET_TRY(eti_arg_int(ctx, args, i_start, &a->start));
  ET_TRY(eti_arg_optional_tensor(ctx, args, i_mask, &mask));
  ET_TRY(eti_arg_double(ctx, args, i_mask + 1, &dropout));  // inference drops nothing
  ET_TRY(eti_arg_bool(ctx, args, i_mask + 2, &a->causal));
  ET_TRY(eti_arg_optional_double(ctx, args, i_mask + 3, &has_scale, &scale));
  a->mask = mask;
  ET_TRY(check_heads(ctx, a->q, a->k, a->v));
  ET_TRY(check_keys(ctx, a));
  a->scale = (float)(has_scale ? scale : 1.0 / sqrt((double)a->q->sizes[3]));
  return ET_OK;
}

static et_status read_out(const et_kernel_ctx *ctx, et_value *const *args, size_t i, attention *a) {
  et_tensor *out;
  ET_TRY(eti_arg_tensor(ctx, args, i, &out));
  ET_TRY(eti_check_same_dtype(ctx, a->q, out, "query and out"));
  ET_CHECK(out != a->k && out != a->v && out != a->mask, ctx->err, ET_INVALID_ARGUMENT,
           "sdpa: out is also an input");
  ET_TRY(eti_resize_like(ctx, out, a->q));
  a->out = out;
  return ET_OK;
}

static void run_attention(const et_kernel_ctx *ctx, attention *a) {
  if (a->out->numel == 0) return;
  a->micro = eti_eltwise_get();
  a->kernel = eti_gemm_kernel_for(ETI_ACC_F32);
  a->group = (size_t)(a->q->sizes[2] / a->k->sizes[2]);
  a->rows = (size_t)a->q->sizes[1] * a->group;
  a->n_blocks = (a->rows + ROWS - 1) / ROWS;
  const double work =
      (double)a->n_keys * (double)a->q->sizes[3] * (double)(a->rows < ROWS ? a->rows : ROWS);
  const size_t grain = work > 65536.0 ? 1 : 1 + (size_t)(65536.0 / (work + 1.0));
  const size_t n = (size_t)a->q->sizes[0] * (size_t)a->k->sizes[2] * a->n_blocks;
  et_parallel_for(ctx->pool, run_blocks, a, n, grain);
}

et_status op_llama_custom_sdpa_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *q, *k, *v;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &q));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &k));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &v));
  attention a = {.q = q, .k = k, .v = v};
  ET_TRY(read_attention(ctx, args, 3, 4, &a));
  ET_TRY(check_floats(ctx, q, k, v));
  ET_TRY(read_out(ctx, args, 8, &a));
  run_attention(ctx, &a);
  return ET_OK;
}

et_status op_llama_sdpa_with_kv_cache_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *q, *key, *value, *k, *v;
  int64_t length;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &q));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &key));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &value));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &k));
  ET_TRY(eti_arg_tensor(ctx, args, 4, &v));
  ET_TRY(eti_arg_int(ctx, args, 6, &length));
  attention a = {.q = q, .k = k, .v = v};
  ET_TRY(read_attention(ctx, args, 5, 7, &a));
  ET_TRY(check_floats(ctx, q, k, v));
  ET_TRY(eti_cache_check(ctx, "sdpa_with_kv_cache", key, k));
  ET_TRY(eti_cache_check(ctx, "sdpa_with_kv_cache", value, v));
  ET_CHECK(
      key->sizes[1] == value->sizes[1] && key->sizes[1] == q->sizes[1], ctx->err,
      ET_INVALID_ARGUMENT,
      "sdpa_with_kv_cache: expected one number of positions, got query %d, key %d and value %d",
      (int)q->sizes[1], (int)key->sizes[1], (int)value->sizes[1]);
  ET_TRY(eti_cache_check_position(ctx, "sdpa_with_kv_cache", a.start, key->sizes[1], k->sizes[1]));
  ET_TRY(eti_cache_check_position(ctx, "sdpa_with_kv_cache", a.start, length, k->sizes[1]));
  ET_TRY(read_out(ctx, args, 11, &a));
  eti_cache_write(ctx, key, k, a.start);
  eti_cache_write(ctx, value, v, a.start);
  run_attention(ctx, &a);
  return ET_OK;
}

// ---- quantized operands

// A tensor viewed as [batch, position, head, dim], whichever order it has.
typedef struct seen {
  et_tensor tensor;
  int32_t sizes[4];
  ptrdiff_t strides[4];
} seen;

static et_tensor *view_as_heads(seen *s, const et_tensor *t, bool heads_first) {
  s->tensor = *t;
  for (size_t d = 0; d < 4; d++) {
    const size_t from = heads_first && (d == 1 || d == 2) ? 3 - d : d;
    s->sizes[d] = t->sizes[from];
    s->strides[d] = t->strides[from];
  }
  s->tensor.sizes = s->sizes;
  s->tensor.strides = s->strides;
  return &s->tensor;
}

// Reads query, key or value, and the zero points and scales of its rows; floats have none.
static et_status read_codes(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                            bool heads_first, seen s[3], const et_tensor **out,
                            row_numbers *numbers) {
  et_tensor *t, *zeros, *scales;
  ET_TRY(eti_arg_tensor(ctx, args, i, &t));
  ET_TRY(eti_arg_optional_tensor(ctx, args, 8 + 2 * i, &zeros));
  ET_TRY(eti_arg_optional_tensor(ctx, args, 9 + 2 * i, &scales));
  const bool has_numbers = zeros != NULL && scales != NULL;
  ET_CHECK(t->rank == 4 && t->dtype == (has_numbers ? ET_I8 : ET_F32), ctx->err,
           ET_INVALID_ARGUMENT,
           "sdpa: argument %zu: expected rank 4 and f32, or i8 with scales and zero points, got %s "
           "of rank %d",
           i, et_dtype_name((et_dtype)t->dtype), (int)t->rank);
  *out = view_as_heads(&s[0], t, heads_first);
  if (!has_numbers) return ET_OK;
  const et_tensor *const both[2] = {scales, zeros};
  for (size_t k = 0; k < 2; k++) {
    const et_tensor *const n = both[k];
    ET_CHECK(eti_dtype_in((et_dtype)n->dtype, ET_TYPES_REAL_HALF) && n->rank == 4 &&
                 n->sizes[0] == t->sizes[0] && n->sizes[1] == t->sizes[1] &&
                 n->sizes[2] == t->sizes[2] && n->sizes[3] == 1,
             ctx->err, ET_INVALID_ARGUMENT,
             "sdpa: argument %zu: expected one scale and one zero point for each row", i);
  }
  *numbers = (row_numbers){view_as_heads(&s[1], scales, heads_first),
                           view_as_heads(&s[2], zeros, heads_first)};
  return ET_OK;
}

// (query, key, value, start_pos, attn_mask, dropout, is_causal, scale, zero points and scales of
// query, key and value, is_seq_at_dim_2, out)
et_status op_llama_custom_quantized_sdpa_out(et_kernel_ctx *ctx, et_value *const *args) {
  attention a = {0};
  seen of_q[3], of_k[3], of_v[3], of_out;
  et_tensor *q, *out;
  bool heads_first;
  ET_TRY(eti_arg_bool(ctx, args, 14, &heads_first));
  ET_TRY(read_codes(ctx, args, 0, heads_first, of_q, &a.q, &a.of_q));
  ET_TRY(read_codes(ctx, args, 1, heads_first, of_k, &a.k, &a.of_k));
  ET_TRY(read_codes(ctx, args, 2, heads_first, of_v, &a.v, &a.of_v));
  ET_TRY(read_attention(ctx, args, 3, 4, &a));
  ET_TRY(eti_arg_tensor(ctx, args, 0, &q));
  ET_TRY(eti_arg_tensor(ctx, args, 15, &out));
  ET_CHECK(out->dtype == ET_F32, ctx->err, ET_INVALID_ARGUMENT, "sdpa: out: expected f32, got %s",
           et_dtype_name((et_dtype)out->dtype));
  for (size_t i = 0; i < 14; i++)
    ET_CHECK(args[i]->tag != ET_TENSOR || args[i]->as.tensor != out, ctx->err, ET_INVALID_ARGUMENT,
             "sdpa: out is also argument %zu", i);
  const eti_shape shape = eti_shape_of(q);
  ET_TRY(eti_resize(ctx, out, &shape));
  a.out = view_as_heads(&of_out, out, heads_first);
  run_attention(ctx, &a);
  return ET_OK;
}

// llama::fallback: a copy of its argument.
et_status op_llama_fallback_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *in, *out;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &in));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &out));
  ET_TRY(eti_check_same_dtype(ctx, in, out, "input and output"));
  ET_TRY(eti_resize_like(ctx, out, in));
  return out->numel == 0 ? ET_OK : eti_copy_tensor(ctx, out, in);
}
