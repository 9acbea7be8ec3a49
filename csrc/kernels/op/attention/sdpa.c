// sdpa.c — undecomposed scaled_dot_product_attention: query [..., heads, L, E], key and value [...,
// heads, S, E], in any layout, leading dimensions broadcast as in a matrix product; with enable_gqa
// query heads share key/value heads. Relies on kernels/lib/flash_attention.h for all computing.
// Upstream has no such operator: its programs have separate products and a softmax.
#include "kernels/lib/flash_attention.h"
#include "kernels/kernel.h"
#include "kernels/ops.h"

#include <math.h>
#include <string.h>

enum { I_DROPOUT = 4, I_CAUSAL = 5, I_SHARED = 7, I_UNSEEN = 8, ARGS = 11 };

typedef struct arguments {
  et_tensor *q, *k, *v, *mask, *out;
  bool shares_heads;
} arguments;

// The size of a dimension counted from the end: 0 is the last one. An absent dimension has size 1.
static size_t size_of(const et_tensor *t, size_t from_end) {
  return from_end < t->rank ? (size_t)t->sizes[t->rank - 1 - from_end] : 1;
}
// Step of a dimension counted from the end; absent and broadcast dimensions repeat elements with
// step 0.
static ptrdiff_t step_of(const et_tensor *t, size_t from_end) {
  return size_of(t, from_end) == 1 ? 0 : t->strides[t->rank - 1 - from_end];
}

static et_status check_types(const et_kernel_ctx *ctx, const arguments *x) {
  ET_CHECK(eti_dtype_in((et_dtype)x->q->dtype, ET_TYPES_FLOAT_HALF), ctx->err, ET_NOT_SUPPORTED,
           "scaled_dot_product_attention: query: expected a floating-point type, got %s",
           et_dtype_name((et_dtype)x->q->dtype));
  ET_CHECK(
      x->k->dtype == x->q->dtype && x->v->dtype == x->q->dtype && x->out->dtype == x->q->dtype,
      ctx->err, ET_INVALID_ARGUMENT,
      "scaled_dot_product_attention: expected one dtype, got query %s, key %s, value %s, out %s",
      et_dtype_name((et_dtype)x->q->dtype), et_dtype_name((et_dtype)x->k->dtype),
      et_dtype_name((et_dtype)x->v->dtype), et_dtype_name((et_dtype)x->out->dtype));
  ET_CHECK(x->mask == NULL || x->mask->dtype == ET_B8 || x->mask->dtype == ET_F32 ||
               x->mask->dtype == x->q->dtype,
           ctx->err, ET_INVALID_ARGUMENT,
           "scaled_dot_product_attention: attn_mask: expected b8, f32 or the query's %s, got %s",
           et_dtype_name((et_dtype)x->q->dtype), et_dtype_name((et_dtype)x->mask->dtype));
  return ET_OK;
}

static et_status shapes_differ(const et_kernel_ctx *ctx, const arguments *x, const char *expected) {
  const eti_shape sq = eti_shape_of(x->q), sk = eti_shape_of(x->k), sv = eti_shape_of(x->v);
  char tq[ETI_SHAPE_TEXT], tk[ETI_SHAPE_TEXT], tv[ETI_SHAPE_TEXT];
  return ET_FAIL(ctx->err, ET_INVALID_ARGUMENT,
                 "scaled_dot_product_attention: expected %s, got query %s, key %s, value %s",
                 expected, eti_shape_text(&sq, tq), eti_shape_text(&sk, tk),
                 eti_shape_text(&sv, tv));
}

static bool divides_evenly(size_t heads, size_t of) {
  return heads > 0 && of % heads == 0;
}

static et_status check_matrices(const et_kernel_ctx *ctx, const arguments *x) {
  if (x->q->rank < 2 || x->k->rank < 2 || x->v->rank < 2)
    return shapes_differ(ctx, x, "at least 2 dimensions each");
  if (size_of(x->q, 0) != size_of(x->k, 0))
    return shapes_differ(ctx, x, "query and key with one last dimension");
  if (size_of(x->k, 1) != size_of(x->v, 1))
    return shapes_differ(ctx, x, "key and value with one last dimension but one");
  if (!x->shares_heads) return ET_OK;
  if (x->q->rank < 3 || x->k->rank < 3 || x->v->rank < 3)
    return shapes_differ(ctx, x, "a dimension of heads for enable_gqa");
  if (!divides_evenly(size_of(x->k, 2), size_of(x->q, 2)) ||
      !divides_evenly(size_of(x->v, 2), size_of(x->q, 2)))
    return shapes_differ(ctx, x, "query heads that key and value heads divide for enable_gqa");
  return ET_OK;
}

// Sizes of the leading dimensions, from the end: [0] are the query heads.
static et_status leading_sizes(const et_kernel_ctx *ctx, const arguments *x, eti_shape *out) {
  const et_tensor *const all[3] = {x->q, x->k, x->v};
  eti_shape s = {.rank = 0};
  for (size_t t = 0; t < 3; t++) {
    if (all[t]->rank - 2u > s.rank) s.rank = all[t]->rank - 2u;
  }
  for (size_t d = 0; d < s.rank; d++) {
    size_t size = 1;
    for (size_t t = 0; t < 3; t++) {
      const size_t own = size_of(all[t], 2 + d);
      if (x->shares_heads && d == 0 && t > 0) continue;
      if (own != 1 && size != 1 && own != size)
        return shapes_differ(ctx, x, "leading dimensions that broadcast");
      if (own != 1) size = own;
    }
    s.sizes[d] = (int32_t)size;
  }
  *out = s;
  return ET_OK;
}

static et_status check_mask(const et_kernel_ctx *ctx, const arguments *x, const eti_shape *shape) {
  if (x->mask == NULL) return ET_OK;
  const eti_shape mask = eti_shape_of(x->mask);
  bool fits = mask.rank >= 2 && mask.rank <= shape->rank;
  for (size_t d = 0; d < mask.rank && fits; d++) {
    const size_t wanted = d == 0 ? size_of(x->k, 1) : (size_t)shape->sizes[shape->rank - 1 - d];
    fits = size_of(x->mask, d) == 1 || size_of(x->mask, d) == wanted;
  }
  char text[ETI_SHAPE_TEXT], scores[ETI_SHAPE_TEXT];
  eti_shape needed = *shape;
  needed.sizes[needed.rank - 1] = (int32_t)size_of(x->k, 1);
  ET_CHECK(
      fits, ctx->err, ET_INVALID_ARGUMENT,
      "scaled_dot_product_attention: attn_mask: expected a shape that broadcasts to the scores' "
      "%s, got %s",
      eti_shape_text(&needed, scores), eti_shape_text(&mask, text));
  return ET_OK;
}

// Describes the rows of t, its last dimension but one, with heads of `share` query heads each.
static void describe_rows(const et_tensor *t, size_t members, size_t share, const eti_attention *a,
                          eti_attention_rows *r) {
  *r = (eti_attention_rows){.data = t->data,
                            .dtype = t->dtype,
                            .head = step_of(t, 2) * (ptrdiff_t)members,
                            .member = step_of(t, 2),
                            .row = step_of(t, 1),
                            .item = step_of(t, 0),
                            .share = share};
  if (size_of(t, 0) == 1) r->item = 1;
  for (size_t d = 0; d < a->outer.rank; d++) r->outer[d] = step_of(t, 2 + a->outer.rank - d);
}

// Groups heads with the same keys and values as rows of one problem.
static void set_heads(const arguments *x, size_t n_heads, eti_attention *a, size_t *k_share,
                      size_t *v_share) {
  const size_t k = size_of(x->k, 2), v = size_of(x->v, 2);
  const bool is_grouped = x->shares_heads && k == v;
  a->members = is_grouped ? n_heads / k : 1;
  a->heads = is_grouped ? k : n_heads;
  *k_share = x->shares_heads && !is_grouped ? n_heads / k : 1;
  *v_share = x->shares_heads && !is_grouped ? n_heads / v : 1;
}

static et_status read_arguments(const et_kernel_ctx *ctx, et_value *const *args, arguments *x,
                                eti_attention *a) {
  double dropout;
  bool has_scale, unseen_is_nan;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x->q));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &x->k));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &x->v));
  ET_TRY(eti_arg_optional_tensor(ctx, args, 3, &x->mask));
  ET_TRY(eti_arg_double(ctx, args, 4, &dropout));
  ET_TRY(eti_arg_bool(ctx, args, 5, &a->causal));
  ET_TRY(eti_arg_optional_double(ctx, args, 6, &has_scale, &a->scale));
  ET_TRY(eti_arg_bool(ctx, args, 7, &x->shares_heads));
  ET_TRY(eti_arg_bool(ctx, args, 8, &unseen_is_nan));
  ET_TRY(eti_arg_tensor(ctx, args, 9, &x->out));
  ET_CHECK(dropout == 0.0, ctx->err, ET_NOT_SUPPORTED,
           "scaled_dot_product_attention: dropout_p: expected 0, got %g", dropout);
  ET_CHECK(x->out != x->q && x->out != x->k && x->out != x->v && x->out != x->mask, ctx->err,
           ET_INVALID_ARGUMENT, "scaled_dot_product_attention: out is also an input");
  ET_TRY(check_types(ctx, x));
  ET_TRY(check_matrices(ctx, x));
  a->unseen = unseen_is_nan ? (double)NAN : 0.0;
  if (!has_scale) a->scale = 1.0 / sqrt((double)size_of(x->q, 0));
  return ET_OK;
}

static et_status read_attention(const et_kernel_ctx *ctx, et_value *const *args, eti_attention *a) {
  arguments x;
  eti_shape leading = {.rank = 0}, shape = {.rank = 0};
  ET_TRY(read_arguments(ctx, args, &x, a));
  ET_TRY(leading_sizes(ctx, &x, &leading));
  shape.rank = leading.rank + 2;
  for (size_t d = 0; d < leading.rank; d++) shape.sizes[leading.rank - 1 - d] = leading.sizes[d];
  a->n_queries = size_of(x.q, 1);
  a->n_keys = size_of(x.k, 1);
  a->dim = size_of(x.q, 0);
  a->value_dim = size_of(x.v, 0);
  shape.sizes[shape.rank - 2] = (int32_t)a->n_queries;
  shape.sizes[shape.rank - 1] = (int32_t)a->value_dim;
  ET_TRY(check_mask(ctx, &x, &shape));
  ET_TRY(eti_resize(ctx, x.out, &shape));
  a->outer.rank = leading.rank > 1 ? leading.rank - 1 : 0;
  for (size_t d = 0; d < a->outer.rank; d++) a->outer.sizes[d] = shape.sizes[d];
  size_t k_share, v_share;
  set_heads(&x, leading.rank > 0 ? (size_t)leading.sizes[0] : 1, a, &k_share, &v_share);
  describe_rows(x.q, a->members, 1, a, &a->q);
  describe_rows(x.k, 1, k_share, a, &a->k);
  describe_rows(x.v, 1, v_share, a, &a->v);
  describe_rows(x.out, a->members, 1, a, &a->out);
  a->has_mask = x.mask != NULL;
  if (x.mask != NULL) {
    describe_rows(x.mask, a->members, 1, a, &a->mask);
    if (size_of(x.mask, 0) == 1) a->mask.item = 0;
  }
  return ET_OK;
}

et_status op_scaled_dot_product_attention_out(et_kernel_ctx *ctx, et_value *const *args) {
  eti_attention a = {.n_keys = 0};
  ET_TRY(read_attention(ctx, args, &a));
  return eti_attention_run(ctx, &a);
}

// Replaces numbers that only a run knows: none of them changes the scratch, but shared heads, which
// different numbers of heads tell.
static void fill_unknown(et_value *const *args, et_value filled[ARGS], et_value *to[ARGS]) {
  for (size_t i = 0; i < ARGS; i++) {
    to[i] = args[i];
    const bool is_flag = i == I_CAUSAL || i == I_SHARED || i == I_UNSEEN;
    if (args[i]->tag != ET_NONE || (!is_flag && i != I_DROPOUT)) continue;
    filled[i] = (et_value){.tag = is_flag ? ET_BOOL : ET_DOUBLE};
    to[i] = &filled[i];
  }
  if (to[I_SHARED] == &filled[I_SHARED] && args[0]->tag == ET_TENSOR && args[1]->tag == ET_TENSOR)
    filled[I_SHARED].as.b = size_of(args[0]->as.tensor, 2) != size_of(args[1]->as.tensor, 2);
}

et_status prepare_scaled_dot_product_attention_out(et_prepare_ctx *ctx, et_value *const *args) {
  const et_kernel_ctx k = eti_prepare_args(ctx);
  eti_attention a = {.n_keys = 0};
  et_value filled[ARGS], *known[ARGS];
  fill_unknown(args, filled, known);
  ET_TRY(read_attention(&k, ctx->is_minimal ? known : args, &a));
  eti_attention_prepare(&a, ctx);
  return ET_OK;
}
