// gated_delta_rule.c — linear attention by the gated delta rule: a state of [key, value] numbers
// for each head that every step decays, corrects towards the step's value, and reads with its
// query.
//   state = decay · state;  state += k ⊗ beta·(v − kᵀ·state);  out = qᵀ·state
// The queries of a group of heads read one state. Columns of the state are independent, so they are
// walked in blocks whose sums fit the stack. Computes in f32. Threads split the states' heads.
#include "kernels/kernel.h"
#include "kernels/lib/copy_op.h"

#include <string.h>

enum { COLUMNS = 64 };

typedef struct delta_rule {
  const et_tensor *q, *k, *v, *decay, *beta, *out, *state;
} delta_rule;

static const float *row_at(const et_tensor *t, size_t batch, size_t head, size_t step) {
  return (const float *)t->data + (ptrdiff_t)batch * t->strides[0] +
         (ptrdiff_t)head * t->strides[1] + (ptrdiff_t)step * t->strides[2];
}

// The heads of queries that read one state.
static size_t heads_of_state(const delta_rule *r) {
  return r->k->sizes[1] > 0 ? (size_t)(r->q->sizes[1] / r->k->sizes[1]) : 0;
}

static void store_row(const et_tensor *out, float *row, size_t column, size_t n,
                      const float *result) {
  for (size_t j = 0; j < n; j++) row[(ptrdiff_t)(column + j) * out->strides[3]] = result[j];
}

// Multiplies a query by n columns of the state of its step.
static void read_state(const delta_rule *r, size_t batch, size_t q_head, size_t t,
                       const float *state, size_t column, size_t n) {
  const float *const q = row_at(r->q, batch, q_head, t);
  const size_t n_keys = (size_t)r->k->sizes[3], step = (size_t)r->v->sizes[3];
  float result[COLUMNS] = {0};
  for (size_t i = 0; i < n_keys; i++) {
    const float qi = q[(ptrdiff_t)i * r->q->strides[3]];
    const float *const row = state + i * step;
    for (size_t j = 0; j < n; j++) result[j] += row[j] * qi;
  }
  store_row(r->out, (float *)(uintptr_t)row_at(r->out, batch, q_head, t), column, n, result);
}

// Runs one step over n columns; state is the first column, its rows `step` apart. The first query
// of the group is multiplied while the state is updated.
static void advance_state(const delta_rule *r, size_t batch, size_t head, size_t t, float *state,
                          size_t column, size_t n) {
  const size_t group = heads_of_state(r), q_head = head * group;
  const float *const q = row_at(r->q, batch, q_head, t), *const k = row_at(r->k, batch, head, t),
                     *const v = row_at(r->v, batch, head, t),
                     *const decay = row_at(r->decay, batch, head, t);
  const float beta = *row_at(r->beta, batch, head, t);
  float *const out = (float *)(uintptr_t)row_at(r->out, batch, q_head, t);
  const size_t n_keys = (size_t)r->k->sizes[3], step = (size_t)r->v->sizes[3];
  const ptrdiff_t each = r->decay->rank == 4 ? r->decay->strides[3] : 0;
  float sum[COLUMNS] = {0}, result[COLUMNS] = {0};
  for (size_t i = 0; i < n_keys; i++) {
    const float g = decay[(ptrdiff_t)i * each], ki = k[(ptrdiff_t)i * r->k->strides[3]];
    float *const row = state + i * step;
    for (size_t j = 0; j < n; j++) {
      row[j] *= g;
      sum[j] += row[j] * ki;
    }
  }
  for (size_t j = 0; j < n; j++)
    sum[j] = (v[(ptrdiff_t)(column + j) * r->v->strides[3]] - sum[j]) * beta;
  for (size_t i = 0; i < n_keys; i++) {
    const float ki = k[(ptrdiff_t)i * r->k->strides[3]], qi = q[(ptrdiff_t)i * r->q->strides[3]];
    float *const row = state + i * step;
    for (size_t j = 0; j < n; j++) {
      row[j] += ki * sum[j];
      result[j] += row[j] * qi;
    }
  }
  store_row(r->out, out, column, n, result);
  for (size_t g = 1; g < group; g++) read_state(r, batch, q_head + g, t, state, column, n);
}

// Each item is a head of keys, values and states of a batch.
static void run_heads(void *ctx, size_t begin, size_t end) {
  const delta_rule *const r = ctx;
  const size_t heads = (size_t)r->k->sizes[1], width = (size_t)r->v->sizes[3],
               steps = (size_t)r->q->sizes[2], size = (size_t)r->k->sizes[3] * width;
  for (size_t i = begin; i < end; i++) {
    float *const state = (float *)r->state->data + i * size;
    for (size_t column = 0; column < width; column += COLUMNS) {
      const size_t n = width - column < COLUMNS ? width - column : COLUMNS;
      for (size_t t = 0; t < steps; t++)
        advance_state(r, i / heads, i % heads, t, state + column, column, n);
    }
  }
}

// Checks that `t` is f32 and has the first `rank` of the given sizes.
static et_status check_tensor(const et_kernel_ctx *ctx, const char *name, const et_tensor *t,
                              size_t rank, const int32_t sizes[4]) {
  bool fits = t->rank == rank;
  for (size_t d = 0; fits && d < rank; d++) fits = t->sizes[d] == sizes[d];
  char found[ETI_SHAPE_TEXT], needed[ETI_SHAPE_TEXT];
  eti_shape wanted = {.rank = rank};
  memcpy(wanted.sizes, sizes, rank * sizeof *sizes);
  const eti_shape shape = eti_shape_of(t);
  ET_CHECK(fits, ctx->err, ET_INVALID_ARGUMENT, "gated_delta_rule: %s: expected %s, got %s", name,
           eti_shape_text(&wanted, needed), eti_shape_text(&shape, found));
  ET_CHECK(t->dtype == ET_F32, ctx->err, ET_NOT_SUPPORTED,
           "gated_delta_rule: %s: expected f32, got %s", name, et_dtype_name((et_dtype)t->dtype));
  return ET_OK;
}

// True if two dense tensors have bytes in common.
static bool overlaps(const et_tensor *a, const et_tensor *b) {
  const uintptr_t p = (uintptr_t)a->data, q = (uintptr_t)b->data;
  const size_t n = et_tensor_bytes(a), m = et_tensor_bytes(b);
  return n > 0 && m > 0 && p < q + m && q < p + n;
}

// (query, key, value, decay, beta, initial_state, out, final_state_out); query and out may have
// more heads than the others, a multiple.
et_status op_llama_gated_delta_rule_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *t[8];
  for (size_t i = 0; i < 8; i++) ET_TRY(eti_arg_tensor(ctx, args, i, &t[i]));
  ET_CHECK(t[0]->rank == 4 && t[1]->rank == 4 && t[2]->rank == 4, ctx->err, ET_INVALID_ARGUMENT,
           "gated_delta_rule: expected query, key and value of rank 4, [batch, head, step, dim], "
           "got ranks %d, %d and %d",
           (int)t[0]->rank, (int)t[1]->rank, (int)t[2]->rank);
  const int32_t *const s = t[1]->sizes, width = t[2]->sizes[3], q_heads = t[0]->sizes[1];
  const int32_t of_value[4] = {s[0], s[1], s[2], width}, of_state[4] = {s[0], s[1], s[3], width},
                of_query[4] = {s[0], q_heads, s[2], s[3]};
  ET_CHECK(s[1] > 0 ? q_heads % s[1] == 0 : q_heads == 0, ctx->err, ET_INVALID_ARGUMENT,
           "gated_delta_rule: query: expected a multiple of the %d heads of key, got %d", (int)s[1],
           (int)q_heads);
  ET_TRY(check_tensor(ctx, "query", t[0], 4, of_query));
  ET_TRY(check_tensor(ctx, "key", t[1], 4, s));
  ET_TRY(check_tensor(ctx, "value", t[2], 4, of_value));
  ET_TRY(check_tensor(ctx, "decay", t[3], t[3]->rank == 4 ? 4 : 3, s));
  ET_TRY(check_tensor(ctx, "beta", t[4], 3, s));
  ET_TRY(check_tensor(ctx, "initial_state", t[5], 4, of_state));
  ET_CHECK(t[6]->dtype == ET_F32 && t[7]->dtype == ET_F32, ctx->err, ET_NOT_SUPPORTED,
           "gated_delta_rule: expected results of f32, got %s and %s",
           et_dtype_name((et_dtype)t[6]->dtype), et_dtype_name((et_dtype)t[7]->dtype));
  for (size_t i = 0; i < 6; i++)
    ET_CHECK(t[i] != t[6] && t[i] != t[7] && t[6] != t[7], ctx->err, ET_INVALID_ARGUMENT,
             "gated_delta_rule: expected results apart from operands, got one that is an operand");
  const eti_shape of_out = {.rank = 4, .sizes = {s[0], q_heads, s[2], width}};
  ET_TRY(eti_resize(ctx, t[6], &of_out));
  ET_TRY(eti_resize_like(ctx, t[7], t[5]));
  ET_CHECK(!overlaps(t[7], t[5]), ctx->err, ET_INVALID_ARGUMENT,
           "gated_delta_rule: final_state_out: expected memory apart from initial_state, got "
           "memory that overlaps it");
  ET_TRY(eti_check_contiguous(ctx, t[7], ET_NOT_SUPPORTED, "gated_delta_rule: final_state_out"));
  if (t[7]->numel > 0) ET_TRY(eti_copy_tensor(ctx, t[7], t[5]));
  if (t[6]->numel == 0) return ET_OK;
  delta_rule r = {t[0], t[1], t[2], t[3], t[4], t[6], t[7]};
  et_parallel_for(ctx->pool, run_heads, &r, (size_t)s[0] * (size_t)s[1], 1);
  return ET_OK;
}
