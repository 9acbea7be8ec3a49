// index.c — indexing by tensors: index, index_put, index_select. Work is split into chunks of index
// tuples: the addresses of a chunk are computed and checked first, then elements move, row by row
// of the dimensions not indexed. Threads share tuples. Relies on index.h for lists of index
// tensors, copy_op.h for windows and plans, accumulate.h for sums.
#include "kernels/lib/accumulate.h"
#include "kernels/lib/compact.h"
#include "kernels/lib/copy_op.h"
#include "kernels/op/index/index.h"

#include <string.h>

#define CHUNK ETI_ON_STACK(256u, 32u)  // index tuples whose addresses are kept on the stack
#define GRAIN_BYTES 65536u

// ---- Moving a chunk

typedef struct chunk {
  const eti_copy_plan *rest;  // axes of the dimensions that are not indexed, finished
  size_t row;                 // bytes moved at once
  size_t repeats;             // copies of a row of one element, side by side; else 1
  size_t n_outer;             // axes of rest around a row
  char *dst;
  const char *src;
  ptrdiff_t dst_at[CHUNK], src_at[CHUNK];  // bytes
} chunk;

static inline void move_rows_of(const chunk *c, size_t begin, size_t end, ptrdiff_t dst,
                                ptrdiff_t src, size_t bytes) {
  const char *const from = c->src + src;
  char *const to = c->dst + dst;
  for (size_t t = begin; t < end; t++) {
    char value[16];
    memcpy(value, from + c->src_at[t], bytes);
    memcpy(to + c->dst_at[t], value, bytes);
  }
}

// Fills rows that repeat one element per tuple.
static void fill_rows(const chunk *c, size_t begin, size_t end, ptrdiff_t dst, ptrdiff_t src) {
  for (size_t t = begin; t < end; t++) {
    char value[16], *to = c->dst + dst + c->dst_at[t];
    memcpy(value, c->src + src + c->src_at[t], c->row);
    if (c->row == 4) {
      uint32_t word;
      memcpy(&word, value, 4);
      for (size_t i = 0; i < c->repeats; i++) ((uint32_t *)(void *)to)[i] = word;
    } else {
      for (size_t i = 0; i < c->repeats; i++) memcpy(to + i * c->row, value, c->row);
    }
  }
}

static void move_rows(const chunk *c, size_t begin, size_t end, ptrdiff_t dst, ptrdiff_t src) {
  if (c->repeats > 1) {
    fill_rows(c, begin, end, dst, src);
    return;
  }
  switch (c->row) {
    case 1:
      move_rows_of(c, begin, end, dst, src, 1);
      break;
    case 2:
      move_rows_of(c, begin, end, dst, src, 2);
      break;
    case 4:
      move_rows_of(c, begin, end, dst, src, 4);
      break;
    case 8:
      move_rows_of(c, begin, end, dst, src, 8);
      break;
    case 16:
      move_rows_of(c, begin, end, dst, src, 16);
      break;
    default:
      for (size_t t = begin; t < end; t++) {
        eti_copy_bytes(c->dst + dst + c->dst_at[t], c->src + src + c->src_at[t], c->row);
      }
      break;
  }
}

typedef struct outer_walk {
  size_t index[ETI_PLAN_AXES];
  ptrdiff_t dst, src;
} outer_walk;

static bool outer_next(outer_walk *w, const eti_copy_plan *plan, size_t n_outer) {
  for (size_t d = n_outer; d-- > 0;) {
    const eti_axis *a = &plan->axis[d];
    w->dst += a->dst;
    w->src += a->src;
    if (++w->index[d] < a->n) return true;
    w->dst -= (ptrdiff_t)a->n * a->dst;
    w->src -= (ptrdiff_t)a->n * a->src;
    w->index[d] = 0;
  }
  return false;
}

static void move_range(void *ctx, size_t begin, size_t end) {
  const chunk *c = ctx;
  outer_walk w = {.dst = 0};
  do move_rows(c, begin, end, w.dst, w.src);
  while (outer_next(&w, c->rest, c->n_outer));
}

// Splits a finished plan into a contiguous row and the axes around it.
static void split_rest(chunk *c, const eti_copy_plan *rest) {
  const eti_axis *inner = &rest->axis[rest->rank - 1];
  const ptrdiff_t bytes = rest->dst_bytes;
  const bool contiguous = inner->dst == bytes && inner->src == bytes;
  c->rest = rest;
  c->row = contiguous ? inner->n * rest->dst_bytes : rest->dst_bytes;
  const bool fills = inner->dst == bytes && inner->src == 0 && rest->dst_bytes <= 16;
  c->repeats = fills ? inner->n : 1;
  c->n_outer = contiguous || fills ? rest->rank - 1u : rest->rank;
}

// Adds row by row; targets may repeat, so tuples keep their order.
static void add_range(const chunk *c, size_t n) {
  const eti_axis *inner = &c->rest->axis[c->rest->rank - 1];
  const size_t n_outer = c->rest->rank - 1u;
  outer_walk w = {.dst = 0};
  do {
    for (size_t t = 0; t < n; t++) {
      c->rest->cast(c->dst + w.dst + c->dst_at[t], inner->dst, c->src + w.src + c->src_at[t],
                    inner->src, inner->n);
    }
  } while (outer_next(&w, c->rest, n_outer));
}

typedef enum direction { TAKE, PUT } direction;

// Plans the dimensions that are not indexed: TAKE writes the affine side, PUT the indexed one.
static void plan_rest(const eti_indexing *x, direction way, const eti_window *affine, size_t bytes,
                      eti_accumulate_fn add, eti_copy_plan *rest) {
  eti_plan_begin(rest, bytes);
  rest->cast = add;  // a plan's row function may as well add
  for (size_t i = 0; i < x->n_rest; i++) {
    const ptrdiff_t a = affine->strides[i < x->at ? i : i + x->index.rank],
                    b = x->self.strides[x->rest[i]];
    eti_plan_axis(rest, (size_t)x->self.shape.sizes[x->rest[i]], way == TAKE ? a : b,
                  way == TAKE ? b : a);
  }
  eti_plan_finish(rest);
}

// A walk over all tuples: TAKE fills `affine` from the indexed tensor, PUT goes the other way,
// adding when `add` is given.
typedef struct tuple_run {
  direction way;
  const eti_window *affine;
  ptrdiff_t bytes;
  eti_accumulate_fn add;
  chunk c;       // without addresses
  size_t grain;  // tuples of a chunk that a thread should get
} tuple_run;

// Moves the tuples of [begin, end) that write from byte `low` on and before `high`.
static et_status run_tuples(const et_kernel_ctx *ctx, const tuple_run *r, eti_indexing *x,
                            size_t begin, size_t end, ptrdiff_t low, ptrdiff_t high) {
  eti_index_walk w;
  chunk c = r->c;
  ptrdiff_t *const indexed_at = r->way == TAKE ? c.src_at : c.dst_at;
  ptrdiff_t *const affine_at = r->way == TAKE ? c.dst_at : c.src_at;
  if (begin >= end) return ET_OK;  // a dimension of the indices may be empty
  eti_index_begin(x, r->affine, begin, &w);
  for (size_t done = begin; done < end; done += CHUNK) {
    size_t n = end - done < CHUNK ? end - done : CHUNK;
    ET_TRY(eti_index_addresses(ctx, x, &w, r->affine, r->bytes, done, n, indexed_at, affine_at));
    if (r->way == TAKE) {
      et_parallel_for(ctx->pool, move_range, &c, n, r->grain);
      continue;
    }
    size_t kept = 0;
    for (size_t t = 0; t < n; t++) {
      const ptrdiff_t to = c.dst_at[t], from = c.src_at[t];
      c.dst_at[kept] = to;
      c.src_at[kept] = from;
      kept += (to >= low) & (to < high);
    }
    if (kept == 0) continue;
    if (r->add != NULL) {
      add_range(&c, kept);
    } else {
      move_range(&c, 0, kept);  // targets may repeat: the last one wins
    }
  }
  return ET_OK;
}

// Threads share tuples by target: ranges of tuples if all targets differ, else the tuples that
// write to one part of the tensor, so that those of one target keep their order.
enum { MAX_SHARES = 16, SHARE_TUPLES = 1024 };

typedef struct tuple_shares {
  et_kernel_ctx ctx;
  const tuple_run *run;
  eti_indexing *x;   // without masks, so that no thread changes it
  size_t n, extent;  // bytes in which targets begin
  et_status status[MAX_SHARES];
} tuple_shares;

static void run_shares(void *ctx, size_t begin, size_t end) {
  tuple_shares *const s = ctx;
  for (size_t i = begin; i < end; i++) {
    const uint64_t n = s->n, tuples = s->x->n_tuples, extent = s->extent;
    if (s->run->way == TAKE) {
      s->status[i] = run_tuples(&s->ctx, s->run, s->x, (size_t)(tuples * i / n),
                                (size_t)(tuples * (i + 1) / n), 0, 0);
    } else {
      s->status[i] = run_tuples(&s->ctx, s->run, s->x, 0, s->x->n_tuples,
                                (ptrdiff_t)(extent * i / n), (ptrdiff_t)(extent * (i + 1) / n));
    }
  }
}

static et_status run_indexing(const et_kernel_ctx *ctx, eti_indexing *x, direction way,
                              void *indexed, void *affine_data, const eti_window *affine,
                              et_dtype dtype, eti_accumulate_fn add) {
  tuple_run r = {.way = way, .affine = affine, .add = add};
  r.bytes = (ptrdiff_t)et_dtype_bytes(dtype);
  eti_copy_plan rest;
  plan_rest(x, way, affine, (size_t)r.bytes, add, &rest);
  if (rest.n_units == 0) return ET_OK;  // a dimension without elements
  split_rest(&r.c, &rest);
  r.c.dst = way == TAKE ? affine_data : indexed;
  r.c.src = way == TAKE ? indexed : affine_data;
  size_t per_tuple = r.c.row * r.c.repeats;
  for (size_t i = 0; i < r.c.n_outer; i++) per_tuple *= rest.axis[i].n;
  r.grain = per_tuple < GRAIN_BYTES ? GRAIN_BYTES / per_tuple : 1;
  tuple_shares s = {.ctx = {.err = NULL}, .run = &r, .x = x, .extent = (size_t)r.bytes};
  bool has_mask = false;  // masks are walked from their beginning
  for (size_t i = 0; i < x->n_sources; i++) {
    const size_t d = x->sources[i].dim;
    has_mask |= x->sources[i].is_mask;
    if (x->self.shape.sizes[d] > 0)
      s.extent +=
          (size_t)(x->self.shape.sizes[d] - 1) * (size_t)x->self.strides[d] * (size_t)r.bytes;
  }
  s.n = ctx->pool == NULL ? 1 : ctx->pool->n_threads;
  if (s.n > MAX_SHARES) s.n = MAX_SHARES;
  if (s.n > 1 && !has_mask && x->n_tuples >= SHARE_TUPLES &&
      x->n_tuples * per_tuple >= GRAIN_BYTES / 2) {
    et_parallel_for(ctx->pool, run_shares, &s, s.n, 1);
    size_t i = 0;
    while (i < s.n && s.status[i] == ET_OK) i++;
    if (i == s.n) return ET_OK;  // else run again for the message
  }
  return run_tuples(ctx, &r, x, 0, x->n_tuples, 0, PTRDIFF_MAX);
}

// ---- Operators

// True if the list is one mask of the whole tensor.
static bool is_masked(const eti_indexing *x) {
  return x->n_sources == 1 && x->sources[0].is_mask && x->n_rest == 0;
}

// Moves the n selected elements between the masked tensor and a line of `bytes` bytes each.
static ETI_OWN_FRAME et_status move_masked(const et_kernel_ctx *ctx, const eti_indexing *x,
                                           direction way, void *data, void *line_data,
                                           const eti_window *line, size_t n, size_t bytes) {
  eti_compact m;
  eti_compact_count(ctx, x->sources[0].t, &x->self.shape, &m);
  ET_CHECK(m.first[m.n_parts] == n, ctx->err, ET_INVALID_STATE, "mask %u changed while it was read",
           x->sources[0].number);
  if (way == TAKE) {
    eti_compact_gather(&m, line_data, &x->self, data, bytes);
  } else {
    eti_compact_scatter(&m, line, line_data, &x->self, data, bytes);
  }
  return ET_OK;
}

et_status op_index_tensor_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self = NULL, *out = NULL;
  eti_indexing x;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &out));
  ET_TRY(eti_check_same_dtype(ctx, self, out, "self and out"));
  ET_TRY(eti_indexing_of_list(ctx, args, self, &x));
  ET_TRY(eti_resize(ctx, out, &x.result));
  if (is_masked(&x)) {
    return move_masked(ctx, &x, TAKE, self->data, out->data, NULL, out->numel,
                       et_dtype_bytes((et_dtype)out->dtype));
  }
  const eti_window to = eti_window_of(out);
  return run_indexing(ctx, &x, TAKE, self->data, out->data, &to, (et_dtype)out->dtype, NULL);
}

// The window on values with the result's shape: broadcast dimensions have stride 0.
static et_status spread_values(const et_kernel_ctx *ctx, const et_tensor *values,
                               const eti_shape *result, eti_window *view) {
  char found[ETI_SHAPE_TEXT], needed[ETI_SHAPE_TEXT];
  (void)found, (void)needed;
  const eti_shape own = eti_shape_of(values);
  bool fits = own.rank <= result->rank;
  *view = (eti_window){.shape = *result};
  for (size_t d = 0; d < own.rank && fits; d++) {
    const size_t at = d + result->rank - own.rank;
    fits = own.sizes[d] == 1 || own.sizes[d] == result->sizes[at];
    view->strides[at] = own.sizes[d] == 1 ? 0 : values->strides[d];
  }
  ET_CHECK(fits, ctx->err, ET_INVALID_ARGUMENT,
           "values of shape %s do not broadcast to the indexed shape %s",
           eti_shape_text(&own, found), eti_shape_text(result, needed));
  return ET_OK;
}

// Copies self to an output, which is indexed from now on.
static ETI_OWN_FRAME void copy_self(const et_kernel_ctx *ctx, et_tensor *out, const et_tensor *self,
                                    eti_indexing *x) {
  const eti_window to = eti_window_of(out);
  if (out != self) {
    eti_copy_windows(ctx->pool, out->data, &to, self->data, &x->self,
                     et_dtype_bytes((et_dtype)out->dtype));
  }
  x->self = to;
}

static et_status put_values(const et_kernel_ctx *ctx, et_value *const *args, const et_tensor *self,
                            et_tensor *out) {
  et_tensor *values = NULL;
  bool accumulate = false;
  eti_indexing x;
  eti_window from;
  ET_TRY(eti_arg_tensor(ctx, args, 2, &values));
  ET_TRY(eti_arg_bool(ctx, args, 3, &accumulate));
  ET_TRY(eti_check_same_dtype(ctx, self, out, "self and out"));
  ET_TRY(eti_check_same_dtype(ctx, self, values, "self and values"));
  const eti_accumulate_fn add = accumulate ? eti_accumulates[out->dtype] : NULL;
  ET_CHECK(!accumulate || add != NULL, ctx->err, ET_NOT_SUPPORTED, "index_put: no addition of %s",
           et_dtype_name((et_dtype)out->dtype));
  ET_TRY(eti_indexing_of_list(ctx, args, self, &x));
  ET_TRY(spread_values(ctx, values, &x.result, &from));
  ET_TRY(eti_resize(ctx, out, &x.self.shape));
  if (is_masked(&x) && values->numel == 1 && add == NULL) {
    // Writing one value wherever a mask is true is an elementwise choice.
    et_tensor *operands[4] = {out, (et_tensor *)(uintptr_t)x.sources[0].t, values,
                              (et_tensor *)(uintptr_t)self};
    const eti_map map = {.loop = eti_where_loop((et_dtype)out->dtype),
                         .types = {out->dtype, operands[1]->dtype, out->dtype, out->dtype}};
    return eti_map_run(ctx, &map, operands, 4);
  }
  copy_self(ctx, out, self, &x);
  if (is_masked(&x) && add == NULL) {
    return move_masked(ctx, &x, PUT, out->data, values->data, &from, x.n_tuples,
                       et_dtype_bytes((et_dtype)out->dtype));
  }
  return run_indexing(ctx, &x, PUT, out->data, values->data, &from, (et_dtype)out->dtype, add);
}

et_status op_index_put_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self = NULL, *out = NULL;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_tensor(ctx, args, 4, &out));
  return put_values(ctx, args, self, out);
}

et_status op_index_put_(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self = NULL;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  return put_values(ctx, args, self, self);
}

et_status op_index_select_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self = NULL, *index = NULL, *out = NULL;
  int64_t dim = 0;
  size_t d = 0;
  eti_indexing x = {.wraps = false, .index = {.rank = 0}};
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_int(ctx, args, 1, &dim));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &index));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &out));
  ET_TRY(eti_check_same_dtype(ctx, self, out, "self and out"));
  ET_TRY(eti_wrap_dim(ctx, dim, self->rank, &d));
  ET_CHECK(index->rank <= 1 && (index->dtype == ET_I64 || index->dtype == ET_I32), ctx->err,
           ET_INVALID_ARGUMENT,
           "index_select: index: expected i32 or i64 of rank 1, got %s of rank %d",
           et_dtype_name((et_dtype)index->dtype), (int)index->rank);
  ET_CHECK(self->rank > 0 || index->numel == 1, ctx->err, ET_INVALID_ARGUMENT,
           "index_select: expected 1 index into a tensor of rank 0, got %zu", index->numel);
  x.self = eti_window_of(self);
  if (self->rank == 0) eti_window_insert(&x.self, 0, 1, 1);
  ET_TRY(eti_indexing_add(ctx, &x, index, 0, d));
  if (x.index.rank == 0) x.index = (eti_shape){.rank = 1, .sizes = {1}};
  ET_TRY(eti_indexing_shape(ctx, &x));
  const eti_shape none = {.rank = 0};
  ET_TRY(eti_resize(ctx, out, self->rank == 0 ? &none : &x.result));
  eti_window to = eti_window_of(out);
  if (to.shape.rank == 0) eti_window_insert(&to, 0, 1, 1);
  return run_indexing(ctx, &x, TAKE, self->data, out->data, &to, (et_dtype)out->dtype, NULL);
}
