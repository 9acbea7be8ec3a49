// custom_sdpa.c — the sdpa operators of the llama:: library: their arguments, and checks before a
// cache is written. Relies on cache_attention.h and kv_cache.h.
#include "kernels/kernel.h"
#include "kernels/lib/copy_op.h"
#include "kernels/op/attention/cache_attention.h"
#include "kernels/op/attention/kv_cache.h"
#include "kernels/ops.h"

#include <math.h>

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
static et_status check_keys(const et_kernel_ctx *ctx, eti_cache_attention *a) {
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
                                size_t i_mask, eti_cache_attention *a) {
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

static et_status read_out(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                          eti_cache_attention *a) {
  et_tensor *out;
  ET_TRY(eti_arg_tensor(ctx, args, i, &out));
  ET_TRY(eti_check_same_dtype(ctx, a->q, out, "query and out"));
  ET_CHECK(out != a->k && out != a->v && out != a->mask, ctx->err, ET_INVALID_ARGUMENT,
           "sdpa: out is also an input");
  ET_TRY(eti_resize_like(ctx, out, a->q));
  a->out = out;
  return ET_OK;
}

et_status op_llama_custom_sdpa_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *q, *k, *v;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &q));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &k));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &v));
  eti_cache_attention a = {.q = q, .k = k, .v = v};
  ET_TRY(read_attention(ctx, args, 3, 4, &a));
  ET_TRY(check_floats(ctx, q, k, v));
  ET_TRY(read_out(ctx, args, 8, &a));
  return eti_cache_attention_run(ctx, &a);
}

// For a prepare step: keys and values are arguments i and i + 1.
static et_status prepare_floats(et_prepare_ctx *ctx, et_value *const *args, size_t i) {
  const et_kernel_ctx kernel = eti_prepare_args(ctx);
  et_tensor *q, *k, *v;
  ET_TRY(eti_arg_tensor(&kernel, args, 0, &q));
  ET_TRY(eti_arg_tensor(&kernel, args, i, &k));
  ET_TRY(eti_arg_tensor(&kernel, args, i + 1, &v));
  eti_cache_attention_prepare(ctx, &(eti_cache_attention){.q = q, .k = k, .v = v});
  return ET_OK;
}

et_status prepare_llama_custom_sdpa_out(et_prepare_ctx *ctx, et_value *const *args) {
  return prepare_floats(ctx, args, 1);
}
et_status prepare_llama_sdpa_with_kv_cache_out(et_prepare_ctx *ctx, et_value *const *args) {
  return prepare_floats(ctx, args, 3);
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
  eti_cache_attention a = {.q = q, .k = k, .v = v};
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
  return eti_cache_attention_run(ctx, &a);
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
                            eti_row_numbers *numbers) {
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
    char found[ETI_TENSOR_TEXT];
    ET_CHECK(eti_dtype_in((et_dtype)n->dtype, ET_TYPES_REAL_HALF) && n->rank == 4 &&
                 n->sizes[0] == t->sizes[0] && n->sizes[1] == t->sizes[1] &&
                 n->sizes[2] == t->sizes[2] && n->sizes[3] == 1,
             ctx->err, ET_INVALID_ARGUMENT,
             "sdpa: argument %zu: %s: expected a real type and shape [%d, %d, %d, 1], one for each "
             "row, got %s",
             i, k == 0 ? "scales" : "zero points", (int)t->sizes[0], (int)t->sizes[1],
             (int)t->sizes[2], eti_tensor_text(n, found));
  }
  *numbers = (eti_row_numbers){view_as_heads(&s[1], scales, heads_first),
                               view_as_heads(&s[2], zeros, heads_first)};
  return ET_OK;
}

// (query, key, value, start_pos, attn_mask, dropout, is_causal, scale, zero points and scales of
// query, key and value, is_seq_at_dim_2, out)
et_status op_llama_custom_quantized_sdpa_out(et_kernel_ctx *ctx, et_value *const *args) {
  eti_cache_attention a = {0};
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
  return eti_cache_attention_run(ctx, &a);
}

et_status prepare_llama_custom_quantized_sdpa_out(et_prepare_ctx *ctx, et_value *const *args) {
  const et_kernel_ctx kernel = eti_prepare_args(ctx);
  eti_cache_attention a = {0};
  seen of_q[3], of_k[3], of_v[3];
  bool heads_first = false;
  if (args[14]->tag == ET_BOOL) ET_TRY(eti_arg_bool(&kernel, args, 14, &heads_first));
  ET_TRY(read_codes(&kernel, args, 0, heads_first, of_q, &a.q, &a.of_q));
  ET_TRY(read_codes(&kernel, args, 1, heads_first, of_k, &a.k, &a.of_k));
  ET_TRY(read_codes(&kernel, args, 2, heads_first, of_v, &a.v, &a.of_v));
  eti_cache_attention_prepare(ctx, &a);
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
