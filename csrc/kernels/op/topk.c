// topk.c — the k largest or smallest elements along a dimension, in order; NaN is the largest, and
// of equal elements the earlier comes first. A small k is kept in order on the stack. A larger k
// uses a heap of indices in the indices output, with the worst of the k best so far at its root.
// When k is a large part of a line, the line is sorted in scratch from prepare. Relies on
// sort_key.h and reduction.h.
#include "kernels/kernel.h"
#include "kernels/lib/sort_key.h"
#include "kernels/ops.h"
#include "kernels/lib/reduction.h"

typedef struct topk_line {
  const char *in;
  ptrdiff_t in_stride;
  size_t n, k;
  int64_t *indices;
  ptrdiff_t index_stride;  // in elements
  uint8_t dtype;
  eti_key_fn key;
  uint64_t flip;  // all ones for the largest first
} topk_line;

static int64_t get_index(const topk_line *t, size_t i) {
  return t->indices[(ptrdiff_t)i * t->index_stride];
}
static void put_index(const topk_line *t, size_t i, int64_t value) {
  t->indices[(ptrdiff_t)i * t->index_stride] = value;
}

static uint64_t key_of(const topk_line *t, size_t i) {
  return t->key(t->in + (ptrdiff_t)i * t->in_stride) ^ t->flip;
}

// True if element a comes before element b in the result. Indices are read back from memory that a
// damaged file may share with other tensors, so they are kept inside the line.
static bool is_before(const topk_line *t, int64_t a, int64_t b) {
  const size_t i = (uint64_t)a < t->n ? (size_t)a : 0, j = (uint64_t)b < t->n ? (size_t)b : 0;
  const uint64_t x = key_of(t, i), y = key_of(t, j);
  return x < y || (x == y && i < j);
}

// Moves the entry at `at` down until no child is worse.
static void sift_down(const topk_line *t, size_t at, size_t size) {
  for (;;) {
    size_t worst = at;
    for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < size; child++) {
      if (is_before(t, get_index(t, worst), get_index(t, child))) worst = child;
    }
    if (worst == at) return;
    const int64_t moved = get_index(t, at);
    put_index(t, at, get_index(t, worst));
    put_index(t, worst, moved);
    at = worst;
  }
}

static size_t root_of(const topk_line *t) {
  const int64_t root = get_index(t, 0);
  return (uint64_t)root < t->n ? (size_t)root : 0;
}

// True if some of n keys comes before `worst`.
static bool any_before(const uint64_t *keys, size_t n, uint64_t flip, uint64_t worst) {
  unsigned found = 0;
  for (size_t i = 0; i < n; i++) found |= (keys[i] ^ flip) < worst;
  return found != 0;
}

enum { BLOCK = 64, FEW = 48 };

// The best elements so far, in order, for a small k.
typedef struct best_few {
  size_t n;
  uint64_t keys[FEW];
  uint32_t at[FEW];
} best_few;

// Inserts after elements that are no worse; beyond k the last one is dropped.
static void best_insert(best_few *b, size_t k, uint64_t key, size_t at) {
  size_t i = b->n < k ? b->n++ : k - 1;
  for (; i > 0 && b->keys[i - 1] > key; i--) {
    b->keys[i] = b->keys[i - 1];
    b->at[i] = b->at[i - 1];
  }
  b->keys[i] = key;
  b->at[i] = (uint32_t)at;
}

// Keeps the best elements and their keys on the stack instead of in the indices.
static void topk_few(const topk_line *t) {
  uint64_t keys[BLOCK];
  best_few b = {.n = 0};
  for (size_t first = 0; first < t->n; first += BLOCK) {
    const size_t n = t->n - first < BLOCK ? t->n - first : BLOCK;
    eti_sort_key_rows[t->dtype](t->in + (ptrdiff_t)first * t->in_stride, t->in_stride, n, keys);
    size_t i = 0;
    for (; i < n && b.n < t->k; i++) best_insert(&b, t->k, keys[i] ^ t->flip, first + i);
    if (i == n || !any_before(keys + i, n - i, t->flip, b.keys[t->k - 1])) continue;
    for (; i < n; i++) {
      const uint64_t key = keys[i] ^ t->flip;
      if (key < b.keys[t->k - 1]) best_insert(&b, t->k, key, first + i);
    }
  }
  for (size_t i = 0; i < t->k; i++) put_index(t, i, (int64_t)b.at[i]);
}

static void topk_indices(const topk_line *t) {
  uint64_t keys[BLOCK];
  if (t->k <= FEW && t->n <= UINT32_MAX) {
    if (t->k > 0) topk_few(t);
    return;
  }
  for (size_t i = 0; i < t->k; i++) put_index(t, i, (int64_t)i);
  for (size_t i = t->k / 2; i-- > 0;) sift_down(t, i, t->k);
  uint64_t worst = key_of(t, root_of(t));
  for (size_t first = t->k; first < t->n; first += BLOCK) {
    const size_t n = t->n - first < BLOCK ? t->n - first : BLOCK;
    eti_sort_key_rows[t->dtype](t->in + (ptrdiff_t)first * t->in_stride, t->in_stride, n, keys);
    if (!any_before(keys, n, t->flip, worst)) continue;
    for (size_t i = 0; i < n; i++) {
      if ((keys[i] ^ t->flip) >= worst) continue;  // a later equal one is no better
      put_index(t, 0, (int64_t)(first + i));
      sift_down(t, 0, t->k);
      worst = key_of(t, root_of(t));
    }
  }
  for (size_t size = t->k; size > 1; size--) {  // the worst moves to the end
    const int64_t last = get_index(t, size - 1);
    put_index(t, size - 1, get_index(t, 0));
    put_index(t, 0, last);
    sift_down(t, 0, size - 1);
  }
}

static void sort_indices(const topk_line *t, size_t bytes, uint64_t *work) {
  const uint64_t flip = bytes == 8 ? t->flip : t->flip & UINT32_MAX;
  const uint64_t *const sorted =
      eti_sort_positions(t->dtype, t->in, t->in_stride, t->n, flip, work);
  for (size_t i = 0; i < t->k; i++) put_index(t, i, (int64_t)(uint32_t)sorted[i]);
}

// True if sorting, with a few passes over all n, is faster than a heap of k elements.
static bool is_worth_sorting(size_t n, size_t k) {
  return k > 32 && k > n / 16 && n <= UINT32_MAX;
}

typedef struct topk_job {
  size_t n, k;
  ptrdiff_t in_stride, value_stride, index_stride;  // along the dimension, in bytes
  et_dtype dtype;
  bool largest;
  uint64_t *work;  // per slot, to sort a line; NULL: heaps
  size_t n_slots;
  const eti_reduction *r;
} topk_job;

// Computes one line; work may be NULL.
static void topk_one(const topk_job *job, const char *in, char *value, char *index,
                     uint64_t *work) {
  const size_t bytes = et_dtype_bytes(job->dtype);
  const topk_line line = {.in = in,
                          .in_stride = job->in_stride,
                          .n = job->n,
                          .k = job->k,
                          .indices = (int64_t *)(void *)index,
                          .index_stride = job->index_stride / (ptrdiff_t)sizeof(int64_t),
                          .dtype = (uint8_t)job->dtype,
                          .key = eti_sort_keys[job->dtype],
                          .flip = job->largest ? UINT64_MAX : 0};
  if (work != NULL) {
    sort_indices(&line, bytes, work);
  } else {
    topk_indices(&line);
  }
  for (size_t i = 0; i < job->k; i++, value += job->value_stride) {
    const uint64_t at = (uint64_t)get_index(&line, i);
    eti_copy_bytes(value, line.in + (ptrdiff_t)(at < line.n ? at : 0) * line.in_stride, bytes);
  }
}

// Each neighbour in the block is a line; output 0 is the values' first element, 1 the indices'.
static void topk_results(void *ctx, const eti_result_block *block) {
  const topk_job *job = ctx;
  for (size_t j = 0; j < block->n; j++) {
    topk_one(job, block->in + (ptrdiff_t)j * block->in_stride,
             block->out[0] + (ptrdiff_t)j * block->out_stride[0],
             block->out[1] + (ptrdiff_t)j * block->out_stride[1], NULL);
  }
}

// A row of lines sorted by one slot.
typedef struct slot_row {
  const topk_job *job;
  uint64_t *work;
} slot_row;

static void sort_row(void *ctx, void *const p[], const ptrdiff_t s[], size_t n) {
  const slot_row *row = ctx;
  for (size_t j = 0; j < n; j++) {
    const ptrdiff_t i = (ptrdiff_t)j;
    topk_one(row->job, (const char *)p[0] + i * s[0], (char *)p[1] + i * s[1],
             (char *)p[2] + i * s[2], row->work);
  }
}
static void sort_slots(void *ctx, size_t begin, size_t end) {
  const topk_job *const job = ctx;
  const size_t n_lines = job->r->kept.numel;
  for (size_t slot = begin; slot < end; slot++) {
    slot_row row = {job, job->work + slot * 2 * job->n};
    eti_iter_rows(&job->r->kept, n_lines * slot / job->n_slots, n_lines * (slot + 1) / job->n_slots,
                  sort_row, &row);
  }
}

// (self, k, dim, largest, sorted, values, indices); results are always sorted
et_status op_topk_values(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *in, *outs[2];
  int64_t k = 0, wanted = 0;
  size_t dim = 0;
  bool largest = false;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &in));
  ET_TRY(eti_arg_int(ctx, args, 1, &k));
  ET_TRY(eti_arg_int(ctx, args, 2, &wanted));
  ET_TRY(eti_arg_bool(ctx, args, 3, &largest));
  ET_TRY(eti_arg_tensor(ctx, args, 5, &outs[0]));
  ET_TRY(eti_arg_tensor(ctx, args, 6, &outs[1]));
  ET_CHECK(eti_dtype_in((et_dtype)in->dtype, ET_TYPES_REAL_HALF), ctx->err, ET_NOT_SUPPORTED,
           "topk: %s has no order", et_dtype_name((et_dtype)in->dtype));
  ET_TRY(eti_check_same_dtype(ctx, in, outs[0], "values"));
  ET_CHECK(outs[1]->dtype == ET_I64, ctx->err, ET_INVALID_ARGUMENT, "indices: expected i64, got %s",
           et_dtype_name((et_dtype)outs[1]->dtype));
  ET_TRY(eti_wrap_dim(ctx, wanted, in->rank, &dim));
  const int64_t n = in->rank == 0 ? 1 : in->sizes[dim];
  ET_CHECK(k >= 0 && k <= n, ctx->err, ET_INVALID_ARGUMENT,
           "k: expected 0 to %lld, the size of dimension %zu, got %lld", (long long)n, dim,
           (long long)k);
  eti_shape shape = eti_shape_of(in);
  if (in->rank > 0) shape.sizes[dim] = (int32_t)k;
  for (size_t i = 0; i < 2; i++) ET_TRY(eti_resize(ctx, outs[i], &shape));
  if (outs[0]->numel == 0) return ET_OK;
  topk_job job = {.n = (size_t)n, .k = (size_t)k, .dtype = (et_dtype)in->dtype, .largest = largest};
  if (in->rank > 0) {
    job.in_stride = in->strides[dim] * (ptrdiff_t)et_dtype_bytes(job.dtype);
    job.value_stride = outs[0]->strides[dim] * (ptrdiff_t)et_dtype_bytes(job.dtype);
    job.index_stride = outs[1]->strides[dim] * (ptrdiff_t)sizeof(int64_t);
  }
  eti_reduction r;
  eti_reduction_init(&r, in, outs, 2, in->rank == 0 ? 0 : 1u << dim, true, true);
  const size_t room = ctx->scratch_bytes / (2 * job.n * sizeof *job.work);
  if (room == 0 || !is_worth_sorting(job.n, job.k)) {
    eti_reduction_run(ctx, &r, topk_results, &job);
    return ET_OK;
  }
  const size_t threads = ctx->pool == NULL || in->numel < 4096 ? 1 : ctx->pool->n_threads;
  job.r = &r;
  job.work = ctx->scratch;
  job.n_slots = room < threads ? room : threads;
  et_parallel_for(ctx->pool, sort_slots, &job, job.n_slots, 1);
  return ET_OK;
}

// Claims scratch to sort the lines of all threads, if sorting is faster.
et_status prepare_topk_values(et_prepare_ctx *ctx, et_value *const *args) {
  enum { MAX_SCRATCH = 64 * 1024 * 1024 };  // bytes; longer lines use heaps
  const et_kernel_ctx c = eti_prepare_args(ctx);
  et_tensor *in = NULL;
  int64_t k = 0, wanted = 0;
  size_t dim = 0;
  ET_TRY(eti_arg_tensor(&c, args, 0, &in));
  ET_TRY(eti_arg_int(&c, args, 1, &k));
  ET_TRY(eti_arg_int(&c, args, 2, &wanted));
  ET_TRY(eti_wrap_dim(&c, wanted, in->rank, &dim));
  const size_t n = in->rank == 0 ? 1 : (size_t)in->sizes[dim];
  const size_t threads = ctx->n_threads == 0 ? 1 : ctx->n_threads;
  if (k < 0 || !is_worth_sorting(n, (size_t)k) ||
      n > MAX_SCRATCH / (2 * sizeof(uint64_t)) / threads)
    return ET_OK;
  const size_t bytes = n * 2 * sizeof(uint64_t) * threads;
  if (bytes > ctx->scratch_bytes) ctx->scratch_bytes = bytes;
  return ET_OK;
}
