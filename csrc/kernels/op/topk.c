// topk.c — the k largest or smallest elements along a dimension, in order; NaN is the largest, and
// of equal elements the earlier comes first. A heap of indices, kept in the indices output, has at
// its root the worst of the k best so far. Relies on order.h and reduction.h. Takes no memory.
#include "kernels/kernel.h"
#include "kernels/order.h"
#include "kernels/ops.h"
#include "kernels/reduction.h"

typedef struct topk_line {
  const char *in;
  ptrdiff_t in_stride;
  size_t n, k;
  int64_t *indices;
  ptrdiff_t index_stride;  // in elements
  eti_key_fn key;
  uint64_t flip;  // all ones to take the largest first
} topk_line;

static int64_t get(const topk_line *t, size_t i) {
  return t->indices[(ptrdiff_t)i * t->index_stride];
}
static void put(const topk_line *t, size_t i, int64_t value) {
  t->indices[(ptrdiff_t)i * t->index_stride] = value;
}

static uint64_t key_of(const topk_line *t, size_t i) {
  return t->key(t->in + (ptrdiff_t)i * t->in_stride) ^ t->flip;
}

// Whether element a comes before element b in the result. Indices are read back from memory that a
// damaged file may share with other tensors, so they are kept inside the line.
static bool before(const topk_line *t, int64_t a, int64_t b) {
  const size_t i = (uint64_t)a < t->n ? (size_t)a : 0, j = (uint64_t)b < t->n ? (size_t)b : 0;
  const uint64_t x = key_of(t, i), y = key_of(t, j);
  return x < y || (x == y && i < j);
}

// Moves the entry at `at` down until no child is worse.
static void sift(const topk_line *t, size_t at, size_t size) {
  for (;;) {
    size_t worst = at;
    for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < size; child++) {
      if (before(t, get(t, worst), get(t, child))) worst = child;
    }
    if (worst == at) return;
    const int64_t moved = get(t, at);
    put(t, at, get(t, worst));
    put(t, worst, moved);
    at = worst;
  }
}

static size_t root_of(const topk_line *t) {
  const int64_t root = get(t, 0);
  return (uint64_t)root < t->n ? (size_t)root : 0;
}

static void topk_indices(const topk_line *t) {
  for (size_t i = 0; i < t->k; i++) put(t, i, (int64_t)i);
  for (size_t i = t->k / 2; i-- > 0;) sift(t, i, t->k);
  uint64_t worst = key_of(t, root_of(t));
  for (size_t i = t->k; i < t->n; i++) {
    if (key_of(t, i) >= worst) continue;  // a later equal one is no better
    put(t, 0, (int64_t)i);
    sift(t, 0, t->k);
    worst = key_of(t, root_of(t));
  }
  for (size_t size = t->k; size > 1; size--) {  // the worst goes to the end
    const int64_t last = get(t, size - 1);
    put(t, size - 1, get(t, 0));
    put(t, 0, last);
    sift(t, 0, size - 1);
  }
}

typedef struct topk_job {
  size_t n, k;
  ptrdiff_t in_stride, value_stride, index_stride;  // along the dimension, in bytes
  et_dtype dtype;
  bool largest;
} topk_job;

// The block's neighbours are lines; output 0 is the values' first element, 1 the indices'.
static void topk_results(void *ctx, const eti_result_block *block) {
  const topk_job *job = ctx;
  const eti_cast_fn copy = eti_casts[job->dtype][job->dtype];
  for (size_t j = 0; j < block->n; j++) {
    const topk_line line = {
        .in = block->in + (ptrdiff_t)j * block->in_stride,
        .in_stride = job->in_stride,
        .n = job->n,
        .k = job->k,
        .indices = (int64_t *)(void *)(block->out[1] + (ptrdiff_t)j * block->out_stride[1]),
        .index_stride = job->index_stride / (ptrdiff_t)sizeof(int64_t),
        .key = eti_order_keys[job->dtype],
        .flip = job->largest ? UINT64_MAX : 0};
    topk_indices(&line);
    char *value = block->out[0] + (ptrdiff_t)j * block->out_stride[0];
    for (size_t i = 0; i < job->k; i++, value += job->value_stride) {
      const uint64_t at = (uint64_t)get(&line, i);
      copy(value, 0, line.in + (ptrdiff_t)(at < line.n ? at : 0) * line.in_stride, 0, 1);
    }
  }
}

// (self, k, dim, largest, sorted, values, indices); results are sorted whether asked or not
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
  ET_CHECK(outs[1]->dtype == ET_I64, ctx->err, ET_INVALID_ARGUMENT, "indices: dtype %s, needs i64",
           et_dtype_name((et_dtype)outs[1]->dtype));
  ET_TRY(eti_wrap_dim(ctx, wanted, in->rank, &dim));
  const int64_t n = in->rank == 0 ? 1 : in->sizes[dim];
  ET_CHECK(k >= 0 && k <= n, ctx->err, ET_INVALID_ARGUMENT,
           "k is %lld, dimension %zu has %lld elements", (long long)k, dim, (long long)n);
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
  eti_reduction_run(ctx, &r, topk_results, &job);
  return ET_OK;
}
