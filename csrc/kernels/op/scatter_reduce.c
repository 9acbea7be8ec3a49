// scatter_reduce.c — operators that combine elements at the targets of an index: scatter_reduce (an
// index for each element) and index_reduce (one for each slice), by sum, product, maximum and
// minimum. Elements combine one after the other, in f64 or i64, and round every time. Threads share
// a dimension other than the indexed one. Means would need memory for counts: the exporter writes
// them as a sum and a division.
#include "kernels/kernel.h"
#include "kernels/lib/accumulate.h"
#include "kernels/lib/copy_op.h"

#include <math.h>
#include <string.h>

typedef enum combining { BY_SUM, BY_PRODUCT, BY_MAX, BY_MIN } combining;

typedef union number {
  double d;
  int64_t i;
} number;

typedef struct reducing {
  combining way;
  et_dtype dtype, wide;
  eti_cast_fn load, store;
  eti_accumulate_fn add;
  ptrdiff_t bytes;
} reducing;

static double combine_float(combining way, double a, double b) {
  if (way == BY_PRODUCT) return a * b;
  if (a != a) return a;
  if (b != b) return b;
  return way == BY_MAX ? (a > b ? a : b) : (a < b ? a : b);
}

static int64_t combine_integer(combining way, int64_t a, int64_t b) {
  if (way == BY_PRODUCT) return (int64_t)((uint64_t)a * (uint64_t)b);
  return way == BY_MAX ? (a > b ? a : b) : (a < b ? a : b);
}

// Selects one of two numbers without a branch, which random ones would mispredict.
static inline float pick_f32(bool first, float a, float b) {
  uint32_t x, y;
  memcpy(&x, &a, sizeof x);
  memcpy(&y, &b, sizeof y);
  const uint32_t mask = 0u - (uint32_t)first, bits = (x & mask) | (y & ~mask);
  float picked;
  memcpy(&picked, &bits, sizeof picked);
  return picked;
}

// Combines f32 directly: one f32 operation computed in f64, then rounded, gives the same bits.
static inline float combine_two_f32(combining way, float a, float b) {
  switch (way) {
    case BY_SUM:
      return a + b;
    case BY_PRODUCT:
      return a * b;
    case BY_MAX:
      return pick_f32((a > b) | (a != a), a, b);
    default:
      return pick_f32((a < b) | (a != a), a, b);
  }
}

// Combines dst ∘= src, n times in order; strides in bytes.
static inline void combine_each_f32(const combining way, char *dst, ptrdiff_t dst_step,
                                    const char *src, ptrdiff_t src_step, size_t n) {
  for (size_t i = 0; i < n; i++, dst += dst_step, src += src_step) {
    float *const to = (float *)(void *)dst;
    *to = combine_two_f32(way, *to, *(const float *)(const void *)src);
  }
}

static inline void combine_way_f32(const combining way, char *dst, ptrdiff_t dst_step,
                                   const char *src, ptrdiff_t src_step, size_t n) {
  const ptrdiff_t bytes = sizeof(float);
  if (dst_step == bytes && src_step == bytes) {
    combine_each_f32(way, dst, bytes, src, bytes, n);
  } else {
    combine_each_f32(way, dst, dst_step, src, src_step, n);
  }
}

static void combine_f32(combining way, char *dst, ptrdiff_t dst_step, const char *src,
                        ptrdiff_t src_step, size_t n) {
  switch (way) {
    case BY_SUM:
      combine_way_f32(BY_SUM, dst, dst_step, src, src_step, n);
      break;
    case BY_PRODUCT:
      combine_way_f32(BY_PRODUCT, dst, dst_step, src, src_step, n);
      break;
    case BY_MAX:
      combine_way_f32(BY_MAX, dst, dst_step, src, src_step, n);
      break;
    default:
      combine_way_f32(BY_MIN, dst, dst_step, src, src_step, n);
      break;
  }
}

static void combine_elements(const reducing *r, char *dst, ptrdiff_t dst_step, const char *src,
                             ptrdiff_t src_step, size_t n) {
  if (r->dtype == ET_F32) {
    combine_f32(r->way, dst, dst_step, src, src_step, n);
    return;
  }
  if (r->way == BY_SUM) {
    r->add(dst, dst_step, src, src_step, n);
    return;
  }
  for (size_t i = 0; i < n; i++, dst += dst_step, src += src_step) {
    number a, b;
    r->load(&a, 0, dst, 0, 1);
    r->load(&b, 0, src, 0, 1);
    if (r->wide == ET_F64) {
      a.d = combine_float(r->way, a.d, b.d);
    } else {
      a.i = combine_integer(r->way, a.i, b.i);
    }
    r->store(dst, 0, &a, 0, 1);
  }
}

// Sets the neutral element, the start of combining if self's own element does not count.
static void set_identity(const reducing *r, char *element) {
  static const double ends[] = {[BY_SUM] = 0.0,
                                [BY_PRODUCT] = 1.0,
                                [BY_MAX] = -(double)INFINITY,
                                [BY_MIN] = (double)INFINITY};
  const int64_t bits = r->dtype == ET_B8 ? 1 : (int64_t)r->bytes * 8;
  const bool is_signed = r->dtype != ET_U8 && r->dtype != ET_B8;
  const int64_t highest = bits == 64 ? INT64_MAX : (INT64_C(1) << (bits - (is_signed ? 1 : 0))) - 1;
  number x = {.d = ends[r->way]};
  if (r->wide == ET_I64) {
    x.i = r->way == BY_PRODUCT ? 1 : 0;
    if (r->way == BY_MAX && is_signed) x.i = -highest - 1;
    if (r->way == BY_MIN) x.i = highest;
  }
  r->store(element, 0, &x, 0, 1);
}

static et_status reducing_of(const et_kernel_ctx *ctx, et_value *const *args, et_dtype dtype,
                             reducing *r) {
  static const struct {
    const char *name;
    combining way;
  } names[] = {{"sum", BY_SUM}, {"prod", BY_PRODUCT}, {"amax", BY_MAX}, {"amin", BY_MIN}};
  const char *name = NULL;
  ET_TRY(eti_arg_string(ctx, args, 4, &name));
  ET_CHECK(name != NULL && eti_dtype_in(dtype, ET_TYPES_REAL_HALF_BOOL), ctx->err, ET_NOT_SUPPORTED,
           "not defined for dtype %s", et_dtype_name(dtype));
  size_t i = 0;
  while (i < 4 && strcmp(names[i].name, name) != 0) i++;
  ET_CHECK(i < 4, ctx->err, ET_NOT_SUPPORTED,
           "reduce: expected \"sum\", \"prod\", \"amax\" or \"amin\", got \"%s\"; export again, so "
           "that the exporter writes a mean as a sum and a division",
           name);
  const et_dtype wide = eti_is_float(dtype) ? ET_F64 : ET_I64;
  *r = (reducing){.way = names[i].way,
                  .dtype = dtype,
                  .wide = wide,
                  .load = eti_casts[dtype][wide],
                  .store = eti_casts[wide][dtype],
                  .add = eti_accumulates[dtype],
                  .bytes = (ptrdiff_t)et_dtype_bytes(dtype)};
  return ET_OK;
}

// ---- The walk over src: every element has one target

typedef struct walk {
  const et_tensor *index, *src, *out;
  size_t dim;
  size_t rank;           // of src and out, at least 1
  int64_t size;          // of out in dim
  bool index_is_shared;  // one index for each slice: index has one dimension, along dim
  int32_t first[ET_MAX_RANK], shape[ET_MAX_RANK];  // range of src
} walk;

static ptrdiff_t stride_of(const et_tensor *t, size_t d) {
  return t->rank == 0 ? 0 : t->strides[d];
}

typedef void (*visit_fn)(const reducing *r, char *target, ptrdiff_t target_step, const char *src,
                         ptrdiff_t src_step, size_t n);

static void visit_clear(const reducing *r, char *target, ptrdiff_t target_step, const char *src,
                        ptrdiff_t src_step, size_t n) {
  (void)src, (void)src_step;
  for (size_t i = 0; i < n; i++, target += target_step) set_identity(r, target);
}

static inline et_status place_at(const et_kernel_ctx *ctx, const walk *w, ptrdiff_t at,
                                 int64_t *place) {
  *place = w->index->dtype == ET_I64 ? ((const int64_t *)w->index->data)[at]
                                     : ((const int32_t *)w->index->data)[at];
  ET_CHECK((uint64_t)*place < (uint64_t)w->size, ctx->err, ET_INVALID_ARGUMENT,
           "index %lld is out of bounds for dimension %zu with size %lld", (long long)*place,
           w->dim, (long long)w->size);
  return ET_OK;
}

// A row of f32 with a target for each element; steps in elements.
typedef struct lane_f32 {
  float *out;
  const float *src;
  ptrdiff_t out_step, src_step, along;
} lane_f32;

static inline et_status row_way_f32(const et_kernel_ctx *ctx, const walk *w, const combining way,
                                    const lane_f32 *l, ptrdiff_t index_at, ptrdiff_t index_step,
                                    size_t n) {
  for (size_t i = 0; i < n; i++) {
    int64_t place;
    ET_TRY(place_at(ctx, w, index_at + (ptrdiff_t)i * index_step, &place));
    float *const out = l->out + (ptrdiff_t)i * l->out_step + (ptrdiff_t)place * l->along;
    *out = combine_two_f32(way, *out, l->src[(ptrdiff_t)i * l->src_step]);
  }
  return ET_OK;
}

static et_status row_f32(const et_kernel_ctx *ctx, const walk *w, combining way, const lane_f32 *l,
                         ptrdiff_t index_at, ptrdiff_t index_step, size_t n) {
  switch (way) {
    case BY_SUM:
      return row_way_f32(ctx, w, BY_SUM, l, index_at, index_step, n);
    case BY_PRODUCT:
      return row_way_f32(ctx, w, BY_PRODUCT, l, index_at, index_step, n);
    case BY_MAX:
      return row_way_f32(ctx, w, BY_MAX, l, index_at, index_step, n);
    default:
      return row_way_f32(ctx, w, BY_MIN, l, index_at, index_step, n);
  }
}

// Combines the elements along the last dimension from `at` on.
static et_status walk_row(const et_kernel_ctx *ctx, const walk *w, const reducing *r,
                          visit_fn visit, const int32_t *at) {
  const size_t last = w->rank - 1, n = (size_t)(w->shape[last] - w->first[last]);
  ptrdiff_t index_at = 0, src_at = 0, out_at = 0;
  for (size_t d = 0; d < w->rank; d++) {
    const ptrdiff_t i = at[d];
    src_at += i * stride_of(w->src, d);
    if (!w->index_is_shared) index_at += i * stride_of(w->index, d);
    if (d != w->dim) out_at += i * stride_of(w->out, d);
  }
  const ptrdiff_t src_step = stride_of(w->src, last) * r->bytes;
  const ptrdiff_t along = stride_of(w->out, w->dim);
  const ptrdiff_t out_step = w->dim == last ? 0 : stride_of(w->out, last);
  const char *const src = (const char *)w->src->data + src_at * r->bytes;
  char *const out = w->out->data;
  int64_t place;
  if (w->index_is_shared && w->dim != last) {  // one target for the row
    ET_TRY(place_at(ctx, w, at[w->dim] * stride_of(w->index, 0), &place));
    visit(r, out + (out_at + (ptrdiff_t)place * along) * r->bytes, out_step * r->bytes, src,
          src_step, n);
    return ET_OK;
  }
  const ptrdiff_t index_step = stride_of(w->index, w->index_is_shared ? 0 : last);
  if (r->dtype == ET_F32 && visit == combine_elements) {
    const lane_f32 lane = {.out = (float *)w->out->data + out_at,
                           .src = (const float *)w->src->data + src_at,
                           .out_step = out_step,
                           .src_step = stride_of(w->src, last),
                           .along = along};
    return row_f32(ctx, w, r->way, &lane, index_at, index_step, n);
  }
  for (size_t i = 0; i < n; i++) {
    ET_TRY(place_at(ctx, w, index_at + (ptrdiff_t)i * index_step, &place));
    visit(r, out + (out_at + (ptrdiff_t)i * out_step + (ptrdiff_t)place * along) * r->bytes, 0,
          src + (ptrdiff_t)i * src_step, 0, 1);
  }
  return ET_OK;
}

static et_status walk_all(const et_kernel_ctx *ctx, const walk *w, const reducing *r,
                          visit_fn visit) {
  int32_t at[ET_MAX_RANK];
  for (size_t d = 0; d < w->rank; d++) {
    if (w->shape[d] == w->first[d]) return ET_OK;
    at[d] = w->first[d];
  }
  for (;;) {
    ET_TRY(walk_row(ctx, w, r, visit, at));
    size_t d = w->rank - 1;
    while (d-- > 0) {
      if (++at[d] < w->shape[d]) break;
      at[d] = w->first[d];
    }
    if (d == SIZE_MAX) return ET_OK;
  }
}

// Threads share a dimension other than w->dim, so that no two write to one target and the elements
// of one target keep their order.
enum { MAX_SHARES = 16, SHARE_GRAIN = 16384 };

typedef struct shares {
  et_kernel_ctx ctx;
  const walk *w;
  const reducing *r;
  bool clears;
  size_t dim, n;
  et_status status[MAX_SHARES];
} shares;

static et_status reduce_share(const shares *s, const walk *w) {
  if (s->clears) ET_TRY(walk_all(&s->ctx, w, s->r, visit_clear));
  return walk_all(&s->ctx, w, s->r, combine_elements);
}

static void reduce_shares(void *ctx, size_t begin, size_t end) {
  shares *const s = ctx;
  for (size_t i = begin; i < end; i++) {
    walk w = *s->w;
    const size_t size = (size_t)w.shape[s->dim];
    w.first[s->dim] = (int32_t)(size * i / s->n);
    w.shape[s->dim] = (int32_t)(size * (i + 1) / s->n);
    s->status[i] = reduce_share(s, &w);
  }
}

static et_status reduce_all(const et_kernel_ctx *ctx, const walk *w, const reducing *r,
                            bool clears) {
  shares s = {.ctx = {.err = NULL}, .w = w, .r = r, .clears = clears};
  size_t largest = 1, numel = 1;
  for (size_t d = 0; d < w->rank; d++) {
    const size_t size = (size_t)w->shape[d];
    numel *= size;
    if (d == w->dim || size <= largest) continue;
    largest = size;
    s.dim = d;
  }
  s.n = ctx->pool == NULL ? 1 : ctx->pool->n_threads;
  if (s.n > MAX_SHARES) s.n = MAX_SHARES;
  if (s.n > largest) s.n = largest;
  if (s.n > 1 && numel >= SHARE_GRAIN) {
    et_parallel_for(ctx->pool, reduce_shares, &s, s.n, 1);
    size_t i = 0;
    while (i < s.n && s.status[i] == ET_OK) i++;
    if (i == s.n) return ET_OK;  // else again, for the message
  }
  s.ctx = *ctx;
  return reduce_share(&s, w);
}

// Sets the range of src: in scatter the index limits it, otherwise it is all of src.
static et_status walk_shape(const et_kernel_ctx *ctx, walk *w) {
  const et_tensor *index = w->index, *src = w->src, *out = w->out;
  const et_tensor *extent = w->index_is_shared ? src : index;
  const size_t src_rank = src->rank == 0 ? 1 : src->rank;
  const size_t extent_rank = extent->rank == 0 ? 1 : extent->rank;
  w->rank = out->rank == 0 ? 1 : out->rank;
  w->size = out->rank == 0 ? 1 : out->sizes[w->dim];
  bool fits = index->numel == 0 || (src_rank == w->rank && extent_rank == w->rank);
  for (size_t d = 0; d < w->rank; d++) {
    w->shape[d] = index->numel == 0 ? 0 : extent->rank == 0 ? 1 : extent->sizes[d];
    if (index->numel == 0 || !fits) continue;
    const int32_t src_size = src->rank == 0 ? 1 : src->sizes[d];
    const int32_t out_size = out->rank == 0 ? 1 : out->sizes[d];
    fits = w->shape[d] <= src_size && (d == w->dim || w->shape[d] <= out_size);
    if (w->index_is_shared && d != w->dim) fits = fits && src_size == out_size;
  }
  if (w->index_is_shared && fits && src->numel > 0)
    fits = index->rank <= 1 && (size_t)w->shape[w->dim] == index->numel;
  ET_CHECK(fits, ctx->err, ET_INVALID_ARGUMENT,
           "dimension %zu: the sizes of index, source and self do not match", w->dim);
  return ET_OK;
}

// (self, dim, index, source, reduce, include_self, out)
static et_status reduce_at(const et_kernel_ctx *ctx, et_value *const *args, bool index_is_shared) {
  et_tensor *self = NULL, *index = NULL, *src = NULL, *out = NULL;
  int64_t dim = 0;
  bool include_self = true;
  walk w = {.index_is_shared = index_is_shared};
  reducing r;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_int(ctx, args, 1, &dim));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &index));
  ET_TRY(eti_arg_tensor(ctx, args, 3, &src));
  ET_TRY(eti_arg_bool(ctx, args, 5, &include_self));
  ET_TRY(eti_arg_tensor(ctx, args, 6, &out));
  ET_TRY(eti_check_same_dtype(ctx, self, out, "self and out"));
  ET_TRY(eti_check_same_dtype(ctx, self, src, "self and source"));
  ET_CHECK(index->dtype == ET_I64 || index->dtype == ET_I32, ctx->err, ET_INVALID_ARGUMENT,
           "index: expected i32 or i64, got %s", et_dtype_name((et_dtype)index->dtype));
  ET_TRY(eti_wrap_dim(ctx, dim, self->rank, &w.dim));
  ET_TRY(reducing_of(ctx, args, (et_dtype)self->dtype, &r));
  const eti_window from = eti_window_of(self);
  ET_TRY(eti_resize(ctx, out, &from.shape));
  w.index = index;
  w.src = src;
  w.out = out;
  ET_TRY(walk_shape(ctx, &w));
  const eti_window to = eti_window_of(out);
  eti_copy_windows(ctx->pool, out->data, &to, self->data, &from, (size_t)r.bytes);
  return reduce_all(ctx, &w, &r, !include_self);
}

et_status op_scatter_reduce_two_out(et_kernel_ctx *ctx, et_value *const *args) {
  return reduce_at(ctx, args, false);
}
et_status op_index_reduce_out(et_kernel_ctx *ctx, et_value *const *args) {
  return reduce_at(ctx, args, true);
}
