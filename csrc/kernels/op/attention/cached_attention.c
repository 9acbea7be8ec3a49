// cached_attention.c — executorch_py::cached_attention: rotary embedding of queries and keys,
// append to a key/value cache in panels, and attention over it. All checks come before the first
// write. Relies on lib/panel_cache.h and lib/panel_attention.h.
// Upstream has no such operator: its programs rotate, update caches and attend in several calls.
#include "kernels/kernel.h"
#include "kernels/lib/panel_attention.h"
#include "kernels/ops.h"

#define OP "cached_attention"

enum {
  I_COS = 3,
  I_START = 5,
  I_CACHE = 6,
  I_CAPACITY = 11,
  I_WINDOW,
  I_SCALE,
  I_SOFTCAP,
  I_INTERLEAVED,
  I_SINKS,
  I_OUT,
  MAX_DIM = 65536,
};

typedef struct arguments {
  et_tensor *q, *k, *v, *cos, *sin, *out;
  et_tensor *cache[5];  // keys, values, scales and sums of keys, scales of values
  int64_t start, capacity, window, sinks;
  eti_panel_attention attention;
} arguments;

static const char *const cache_names[5] = {"key_cache", "value_cache", "key_scales", "key_sums",
                                           "value_scales"};

static et_status read_tensors(const et_kernel_ctx *ctx, et_value *const *args, arguments *x) {
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x->q));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &x->k));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &x->v));
  ET_TRY(eti_arg_optional_tensor(ctx, args, I_COS, &x->cos));
  ET_TRY(eti_arg_optional_tensor(ctx, args, I_COS + 1, &x->sin));
  for (size_t i = 0; i < 2; i++) ET_TRY(eti_arg_tensor(ctx, args, I_CACHE + i, &x->cache[i]));
  for (size_t i = 2; i < 5; i++)
    ET_TRY(eti_arg_optional_tensor(ctx, args, I_CACHE + i, &x->cache[i]));
  return eti_arg_tensor(ctx, args, I_OUT, &x->out);
}

static et_status read_numbers(const et_kernel_ctx *ctx, et_value *const *args, arguments *x) {
  double scale, softcap;
  eti_panel_attention *const a = &x->attention;
  ET_TRY(eti_arg_int(ctx, args, I_START, &x->start));
  ET_TRY(eti_arg_int(ctx, args, I_CAPACITY, &x->capacity));
  ET_TRY(eti_arg_int(ctx, args, I_WINDOW, &x->window));
  ET_TRY(eti_arg_int(ctx, args, I_SINKS, &x->sinks));
  ET_TRY(eti_arg_double(ctx, args, I_SCALE, &scale));
  ET_TRY(eti_arg_double(ctx, args, I_SOFTCAP, &softcap));
  ET_TRY(eti_arg_bool(ctx, args, I_INTERLEAVED, &a->rotation.interleaved));
  a->scale = (float)scale;
  a->softcap = (float)softcap;
  return ET_OK;
}

// ---- checks

static et_status check_rows(const et_kernel_ctx *ctx, const arguments *x) {
  const et_tensor *const rows[3] = {x->q, x->k, x->v};
  static const char *const names[3] = {"query", "key", "value"};
  for (size_t i = 0; i < 3; i++) {
    char found[ETI_TENSOR_TEXT];
    ET_CHECK(rows[i]->rank == 4 && rows[i]->dtype == ET_F32, ctx->err, ET_INVALID_ARGUMENT,
             OP ": %s: expected f32 [batch, position, head, dim], got %s", names[i],
             eti_tensor_text(rows[i], found));
    ET_CHECK(rows[i]->sizes[0] == x->q->sizes[0] && rows[i]->sizes[1] == x->q->sizes[1], ctx->err,
             ET_INVALID_ARGUMENT, OP ": %s: expected the query's batch %d and %d positions, got %s",
             names[i], (int)x->q->sizes[0], (int)x->q->sizes[1], eti_tensor_text(rows[i], found));
    ET_CHECK(rows[i]->sizes[3] >= 1 && rows[i]->sizes[3] <= MAX_DIM, ctx->err, ET_INVALID_ARGUMENT,
             OP ": %s: expected a head size of 1 to %d, got %d", names[i], (int)MAX_DIM,
             (int)rows[i]->sizes[3]);
  }
  ET_CHECK(x->k->sizes[3] == x->q->sizes[3] && x->k->sizes[2] == x->v->sizes[2], ctx->err,
           ET_INVALID_ARGUMENT,
           OP
           ": key: expected head size %d of the query and the %d heads of the value, got %d and "
           "%d",
           (int)x->q->sizes[3], (int)x->v->sizes[2], (int)x->k->sizes[3], (int)x->k->sizes[2]);
  ET_CHECK(x->k->sizes[2] > 0 && x->q->sizes[2] % x->k->sizes[2] == 0, ctx->err,
           ET_INVALID_ARGUMENT, OP ": query: expected heads in a multiple of the key's %d, got %d",
           (int)x->k->sizes[2], (int)x->q->sizes[2]);
  return ET_OK;
}

static et_status check_rotation(const et_kernel_ctx *ctx, const arguments *x) {
  ET_CHECK((x->cos == NULL) == (x->sin == NULL), ctx->err, ET_INVALID_ARGUMENT,
           OP ": expected both cos and sin or neither, got one");
  const et_tensor *const tables[2] = {x->cos, x->sin};
  const int64_t n = (int64_t)x->q->sizes[1] + (x->sinks > 0 ? 1 : 0);
  for (size_t i = 0; i < 2 && x->cos != NULL; i++) {
    const et_tensor *const t = tables[i];
    char found[ETI_TENSOR_TEXT];
    ET_CHECK(t->dtype == ET_F32 && t->rank == 2 && t->sizes[0] == n &&
                 t->sizes[1] == x->cos->sizes[1] && t->sizes[1] % 2 == 0 &&
                 t->sizes[1] <= x->q->sizes[3] && eti_is_contiguous(t),
             ctx->err, ET_INVALID_ARGUMENT,
             OP ": %s: expected contiguous f32 [%lld positions, an even size up to %d], got %s",
             i == 0 ? "cos" : "sin", (long long)n, (int)x->q->sizes[3], eti_tensor_text(t, found));
  }
  return ET_OK;
}

static et_status check_positions(const et_kernel_ctx *ctx, const arguments *x) {
  const int64_t n = x->q->sizes[1];
  ET_CHECK(x->capacity >= 1 && x->capacity <= INT32_MAX - ETI_GEMM_STORED, ctx->err,
           ET_INVALID_ARGUMENT, OP ": capacity: expected 1 or more, got %lld",
           (long long)x->capacity);
  ET_CHECK(x->window >= 0 && x->window <= x->capacity, ctx->err, ET_INVALID_ARGUMENT,
           OP ": window: expected 0 to the capacity %lld, got %lld", (long long)x->capacity,
           (long long)x->window);
  ET_CHECK(x->sinks >= 0 && x->sinks <= x->capacity - x->window && (x->sinks == 0 || x->window > 0),
           ctx->err, ET_INVALID_ARGUMENT,
           OP ": sinks: expected 0, or a window and at most %lld beside it, got %lld",
           (long long)(x->capacity - x->window), (long long)x->sinks);
  ET_CHECK(x->start >= 0 && x->start <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT,
           OP ": start_pos: expected 0 to %d, got %lld", (int)INT32_MAX, (long long)x->start);
  if (n <= x->capacity - x->start) return ET_OK;
  ET_CHECK(x->window > 0, ctx->err, ET_INVALID_ARGUMENT,
           OP ": expected positions below the capacity %lld, got start_pos %lld and %lld positions",
           (long long)x->capacity, (long long)x->start, (long long)n);
  // New positions must not take the slots of those that the first one sees.
  const int64_t most = x->capacity - x->sinks - x->window + 1;
  ET_CHECK(n <= most, ctx->err, ET_INVALID_ARGUMENT,
           OP
           ": expected at most %lld positions at once, the capacity %lld less %lld sinks and the "
           "window %lld and 1 more, got %lld",
           (long long)most, (long long)x->capacity, (long long)x->sinks, (long long)x->window,
           (long long)n);
  return ET_OK;
}

static et_status check_shape(const et_kernel_ctx *ctx, const arguments *x, size_t i, et_dtype dtype,
                             const eti_shape *wanted) {
  const et_tensor *const t = x->cache[i];
  char expected[ETI_SHAPE_TEXT], found[ETI_TENSOR_TEXT];
  ET_CHECK(t != NULL, ctx->err, ET_INVALID_ARGUMENT,
           OP ": %s: expected a tensor for caches of i8, got None", cache_names[i]);
  bool same = t->dtype == dtype && t->rank == wanted->rank && eti_is_contiguous(t);
  for (size_t d = 0; same && d < wanted->rank; d++) same = t->sizes[d] == wanted->sizes[d];
  ET_CHECK(same, ctx->err, ET_INVALID_ARGUMENT, OP ": %s: expected contiguous %s%s, got %s",
           cache_names[i], et_dtype_name(dtype), eti_shape_text(wanted, expected),
           eti_tensor_text(t, found));
  return ET_OK;
}

static et_status check_cache(const et_kernel_ctx *ctx, const arguments *x) {
  const et_dtype dtype = (et_dtype)x->cache[0]->dtype;
  ET_CHECK(dtype == ET_F32 || dtype == ET_F16 || dtype == ET_I8, ctx->err, ET_INVALID_ARGUMENT,
           OP ": key_cache: expected f32, f16 or i8, got %s", et_dtype_name(dtype));
  const int32_t batch = x->k->sizes[0], heads = x->k->sizes[2], dim = x->k->sizes[3],
                width = ETI_GEMM_STORED,
                panels = (int32_t)((x->capacity + ETI_GEMM_STORED - 1) / ETI_GEMM_STORED);
  eti_shape keys = {.rank = 5, .sizes = {batch, heads, panels, dim, width}};
  if (dtype == ET_I8) {
    keys = (eti_shape){.rank = 6, .sizes = {batch, heads, panels, (dim + 3) / 4, width, 4}};
  }
  const eti_shape values = {
      .rank = 5,
      .sizes = {batch, heads, (x->v->sizes[3] + width - 1) / width, panels * width, width}};
  const eti_shape of_panels = {.rank = 4, .sizes = {batch, heads, panels, width}};
  const eti_shape of_slots = {.rank = 3, .sizes = {batch, heads, panels * width}};
  ET_TRY(check_shape(ctx, x, 0, dtype, &keys));
  ET_TRY(check_shape(ctx, x, 1, dtype, &values));
  for (size_t i = 2; i < 5 && dtype != ET_I8; i++)
    ET_CHECK(x->cache[i] == NULL, ctx->err, ET_INVALID_ARGUMENT,
             OP ": %s: expected None for caches of %s, got a tensor", cache_names[i],
             et_dtype_name(dtype));
  if (dtype != ET_I8) return ET_OK;
  ET_TRY(check_shape(ctx, x, 2, ET_F32, &of_panels));
  ET_TRY(check_shape(ctx, x, 3, ET_I32, &of_panels));
  return check_shape(ctx, x, 4, ET_F32, &of_slots);
}

static et_status check_out(const et_kernel_ctx *ctx, const arguments *x) {
  ET_CHECK(x->out->dtype == ET_F32, ctx->err, ET_INVALID_ARGUMENT, OP ": out: expected f32, got %s",
           et_dtype_name((et_dtype)x->out->dtype));
  const et_tensor *const others[10] = {x->q,        x->k,        x->v,        x->cos,
                                       x->sin,      x->cache[0], x->cache[1], x->cache[2],
                                       x->cache[3], x->cache[4]};
  for (size_t i = 0; i < 10; i++)
    ET_CHECK(others[i] != x->out, ctx->err, ET_INVALID_ARGUMENT, OP ": out is also an input");
  const eti_shape shape = {
      .rank = 4, .sizes = {x->q->sizes[0], x->q->sizes[1], x->q->sizes[2], x->v->sizes[3]}};
  return eti_resize(ctx, x->out, &shape);
}

// ---- run

static eti_head_rows rows_of(const et_tensor *t) {
  return (eti_head_rows){.data = t->data,
                         .batch = t->strides[0],
                         .position = t->strides[1],
                         .head = t->strides[2],
                         .item = t->strides[3]};
}

static void describe(arguments *x) {
  eti_panel_attention *const a = &x->attention;
  a->cache = (eti_panel_cache){.dtype = x->cache[0]->dtype,
                               .batch = (size_t)x->k->sizes[0],
                               .heads = (size_t)x->k->sizes[2],
                               .dim = (size_t)x->k->sizes[3],
                               .value_dim = (size_t)x->v->sizes[3],
                               .capacity = (size_t)x->capacity,
                               .sinks = (size_t)x->sinks,
                               .keys = x->cache[0]->data,
                               .values = x->cache[1]->data};
  if (x->cache[0]->dtype == ET_I8) {
    a->cache.key_scales = x->cache[2]->data;
    a->cache.key_sums = x->cache[3]->data;
    a->cache.value_scales = x->cache[4]->data;
  }
  a->n_queries = (size_t)x->q->sizes[1];
  a->group = (size_t)(x->q->sizes[2] / x->k->sizes[2]);
  a->start = (size_t)x->start;
  a->window = (size_t)x->window;
  a->query = rows_of(x->q);
  if (x->cos == NULL) return;
  a->rotation.cos = x->cos->data;
  a->rotation.sin = x->sin->data;
  a->rotation.dims = (size_t)x->cos->sizes[1];
}

// (query, key, value, cos, sin, start_pos, key_cache, value_cache, key_scales, key_sums,
// value_scales, capacity, window, scale, softcap, interleaved, sinks, out)
et_status op_cached_attention_out(et_kernel_ctx *ctx, et_value *const *args) {
  arguments x = {.q = NULL};
  ET_TRY(read_tensors(ctx, args, &x));
  ET_TRY(read_numbers(ctx, args, &x));
  ET_TRY(check_rows(ctx, &x));
  ET_TRY(check_rotation(ctx, &x));
  ET_TRY(check_positions(ctx, &x));
  ET_TRY(check_cache(ctx, &x));
  ET_TRY(check_out(ctx, &x));
  describe(&x);
  x.attention.out = rows_of(x.out);
  if (x.out->numel == 0) return ET_OK;
  const eti_panel_attention *const a = &x.attention;
  const size_t n_slots =
      eti_at_most(ctx->pool == NULL ? 1 : ctx->pool->n_threads,
                  ctx->scratch_bytes / eti_at_least(eti_panel_attention_scratch(a, 1), 1));
  ET_CHECK(n_slots > 0, ctx->err, ET_OUT_OF_RESOURCES,
           OP ": expected %zu bytes of scratch, got %zu; prepare requests them",
           eti_panel_attention_scratch(a, 1), ctx->scratch_bytes);
  const eti_cache_append append = {.cache = &a->cache,
                                   .keys = rows_of(x.k),
                                   .values = rows_of(x.v),
                                   .rotation = a->rotation,
                                   .start = a->start,
                                   .n = a->n_queries,
                                   .room = ctx->scratch,
                                   .n_slots = n_slots};
  eti_cache_append_run(ctx->pool, &append);
  eti_panel_attention_run(ctx, a);
  return ET_OK;
}

et_status prepare_cached_attention_out(et_prepare_ctx *ctx, et_value *const *args) {
  const et_kernel_ctx kernel = eti_prepare_args(ctx);
  arguments x = {.capacity = 1};
  // Whether there are sinks decides the memory; a number that is not known yet may be one.
  if (args[I_SINKS]->tag != ET_INT || args[I_SINKS]->as.i != 0) x.sinks = 1;
  ET_TRY(read_tensors(&kernel, args, &x));
  ET_TRY(check_rows(&kernel, &x));
  if (x.cache[0]->dtype == ET_I8)
    for (size_t i = 2; i < 5; i++)
      if (x.cache[i] == NULL) return ET_OK;  // run refuses that
  x.cos = NULL;
  describe(&x);
  const size_t bytes = eti_panel_attention_scratch(&x.attention, ctx->n_threads);
  if (bytes > ctx->scratch_bytes) ctx->scratch_bytes = bytes;
  return ET_OK;
}
