// index_list.c — the list of index tensors of index and index_put: the selected dimensions, the
// result's shape, and the addresses of tuples of indices, with each index checked. Index tensors
// are integers or masks. A mask selects the positions of its true elements, found by walking it, so
// no memory is needed. Relies on compact.h. Moves nothing.
#include "kernels/lib/args.h"
#include "kernels/lib/compact.h"
#include "kernels/op/index/index.h"

// ---- Masks

static bool mask_is_true(const et_tensor *t, ptrdiff_t offset) {
  return ((const uint8_t *)t->data)[offset] != 0;
}

static void mask_step(eti_indexing *x, eti_index_source *s) {
  s->position++;
  for (size_t d = (size_t)s->dim + s->n_dims; d-- > s->dim;) {
    const ptrdiff_t stride = s->t->strides[d - s->dim];
    s->at_mask += stride;
    s->at_self += x->self.strides[d];
    if (++x->mask_index[d] < x->self.shape.sizes[d]) return;
    s->at_mask -= x->mask_index[d] * stride;
    s->at_self -= x->mask_index[d] * x->self.strides[d];
    x->mask_index[d] = 0;
  }
}

static void mask_rewind(eti_indexing *x, eti_index_source *s) {
  s->started = false;
  s->position = 0;
  s->k = 0;
  s->at_mask = 0;
  s->at_self = 0;
  for (size_t d = 0; d < s->n_dims; d++) x->mask_index[s->dim + d] = 0;
}

// Moves to the k-th true element. False if there is none, which happens only when the memory
// changes meanwhile.
static bool mask_seek(eti_indexing *x, eti_index_source *s, int32_t k) {
  if (s->started && k < s->k) mask_rewind(x, s);
  if (s->started && k == s->k) return true;
  if (s->started) {
    mask_step(x, s);
    s->k++;
  }
  s->started = true;
  for (; s->position < s->t->numel; mask_step(x, s)) {
    if (!mask_is_true(s->t, s->at_mask)) continue;
    if (s->k == k) return true;
    s->k++;
  }
  return false;
}

static et_status mask_begin(const et_kernel_ctx *ctx, eti_indexing *x, eti_index_source *s) {
  for (size_t d = 0; d < s->n_dims; d++) {
    ET_CHECK(s->t->sizes[d] == x->self.shape.sizes[s->dim + d], ctx->err, ET_INVALID_ARGUMENT,
             "mask %u: dimension %zu: expected size %d, as the tensor, got %d", s->number, d,
             (int)x->self.shape.sizes[s->dim + d], (int)s->t->sizes[d]);
  }
  mask_rewind(x, s);
  eti_compact counted;
  const eti_shape shape = eti_shape_of(s->t);
  eti_compact_count(ctx, s->t, &shape, &counted);
  const size_t n_true = counted.first[counted.n_parts];
  ET_CHECK(n_true <= INT32_MAX, ctx->err, ET_INVALID_ARGUMENT, "mask %u selects too many elements",
           s->number);
  s->n_true = (int32_t)n_true;
  return ET_OK;
}

// ---- Reading the index list

et_status eti_indexing_add(const et_kernel_ctx *ctx, eti_indexing *x, const et_tensor *t,
                           size_t number, size_t dim) {
  ET_CHECK(t->dtype == ET_I64 || t->dtype == ET_I32 || t->dtype == ET_B8 || t->dtype == ET_U8,
           ctx->err, ET_INVALID_ARGUMENT, "index tensor %zu: expected i32, i64 or bool, got %s",
           number, et_dtype_name((et_dtype)t->dtype));
  const bool is_mask = t->dtype == ET_B8 || t->dtype == ET_U8;
  const size_t n_dims = is_mask ? t->rank : 1;
  ET_CHECK(n_dims > 0, ctx->err, ET_NOT_SUPPORTED,
           "index tensor %zu: expected a mask of rank 1 or more, got rank 0", number);
  ET_CHECK(dim + n_dims <= x->self.shape.rank, ctx->err, ET_INVALID_ARGUMENT,
           "index tensor %zu: the indices cover more than the %zu dimensions of the tensor", number,
           x->self.shape.rank);
  eti_index_source *s = &x->sources[x->n_sources];
  *s = (eti_index_source){.t = t,
                          .number = (uint8_t)number,
                          .dim = (uint8_t)dim,
                          .n_dims = (uint8_t)n_dims,
                          .is_mask = is_mask};
  eti_shape own = eti_shape_of(t);
  if (is_mask) {
    ET_TRY(mask_begin(ctx, x, s));
    own = (eti_shape){.rank = 1, .sizes = {s->n_true}};
  }
  x->n_sources++;
  const eti_shape before = x->index;
  return eti_broadcast(ctx, &before, &own, &x->index);
}

// Stride of a source along a dimension of the common index shape; of a mask, over the count of true
// elements.
static ptrdiff_t stride_of(const eti_indexing *x, const eti_index_source *s, size_t d) {
  const size_t rank = s->is_mask ? 1 : s->t->rank;
  if (d + rank < x->index.rank) return 0;
  const size_t own = d + rank - x->index.rank;
  const int32_t size = s->is_mask ? s->n_true : s->t->sizes[own];
  if (size == 1) return 0;
  return s->is_mask ? 1 : s->t->strides[own];
}

// Shape of the result: the index dimensions replace the indexed ones if these are neighbours, else
// they come first.
et_status eti_indexing_shape(const et_kernel_ctx *ctx, eti_indexing *x) {
  bool indexed[ET_MAX_RANK] = {false};
  bool adjacent = true;
  for (size_t i = 0; i < x->n_sources; i++) {
    const eti_index_source *s = &x->sources[i];
    for (size_t d = 0; d < s->n_dims; d++) indexed[s->dim + d] = true;
    if (i > 0) adjacent &= s[-1].dim + s[-1].n_dims == s->dim;
  }
  x->n_rest = 0;
  for (size_t d = 0; d < x->self.shape.rank; d++) {
    if (!indexed[d]) x->rest[x->n_rest++] = (uint8_t)d;
  }
  x->at = adjacent && x->n_sources > 0 ? x->sources[0].dim : 0;
  x->result.rank = x->n_rest + x->index.rank;
  ET_CHECK(x->result.rank <= ET_MAX_RANK, ctx->err, ET_INVALID_ARGUMENT,
           "expected a result of at most %d dimensions, got %zu", ET_MAX_RANK, x->result.rank);
  for (size_t d = 0; d < x->index.rank; d++) x->result.sizes[x->at + d] = x->index.sizes[d];
  for (size_t i = 0; i < x->n_rest; i++) {
    x->result.sizes[i < x->at ? i : i + x->index.rank] = x->self.shape.sizes[x->rest[i]];
  }
  x->n_tuples = 1;
  for (size_t d = 0; d < x->index.rank; d++) {
    const size_t size = (size_t)x->index.sizes[d];
    ET_CHECK(size == 0 || x->n_tuples <= SIZE_MAX / size, ctx->err, ET_INVALID_ARGUMENT,
             "the index tensors broadcast to too many positions");
    x->n_tuples *= size;
  }
  for (size_t i = 0; i < x->n_sources; i++) {
    for (size_t k = 0; k < ETI_INDEX_STEPS && k < x->index.rank; k++)
      x->sources[i].steps[k] = stride_of(x, &x->sources[i], x->index.rank - 1 - k);
  }
  return ET_OK;
}

et_status eti_indexing_of_list(const et_kernel_ctx *ctx, et_value *const *args,
                               const et_tensor *self, eti_indexing *x) {
  et_value *const *list = NULL;
  size_t n = 0, dim = 0;
  ET_TRY(eti_arg_tensors(ctx, args, 1, &list, &n));
  x->self = eti_window_of(self);
  x->n_sources = 0;
  x->wraps = true;
  x->index = (eti_shape){.rank = 0};
  for (size_t i = 0; i < n; i++) {
    const et_tensor *t = eti_list_tensor(list, i);
    if (t == NULL) {
      dim++;
      continue;
    }
    ET_TRY(eti_indexing_add(ctx, x, t, i, dim));
    dim += x->sources[x->n_sources - 1].n_dims;
  }
  ET_CHECK(dim <= self->rank, ctx->err, ET_INVALID_ARGUMENT,
           "expected at most %d indices, the rank of the tensor, got %zu", (int)self->rank, dim);
  ET_CHECK(x->n_sources > 0, ctx->err, ET_INVALID_ARGUMENT,
           "expected 1 index tensor or more, got none");
  return eti_indexing_shape(ctx, x);
}

// ---- Walking the index tuples

static void tuple_next(eti_index_walk *w, const eti_indexing *x, const ptrdiff_t *affine) {
  for (size_t d = x->index.rank; d-- > 0;) {
    const bool carries = ++w->index[d] == x->index.sizes[d];
    const ptrdiff_t steps = carries ? 1 - (ptrdiff_t)w->index[d] : 1;
    w->affine += steps * affine[d];
    const size_t k = x->index.rank - 1 - d;
    for (size_t i = 0; i < x->n_sources; i++) {
      const eti_index_source *s = &x->sources[i];
      w->sources[i] += steps * (k < ETI_INDEX_STEPS ? s->steps[k] : stride_of(x, s, d));
    }
    if (!carries) return;
    w->index[d] = 0;
  }
}

static et_status source_offset(const et_kernel_ctx *ctx, eti_indexing *x, size_t i, size_t tuple,
                               ptrdiff_t at, ptrdiff_t *offset) {
  eti_index_source *s = &x->sources[i];
  (void)tuple;
  if (s->is_mask) {
    ET_CHECK(mask_seek(x, s, (int32_t)at), ctx->err, ET_INVALID_STATE,
             "mask %u changed while it was read", s->number);
    *offset += s->at_self;
    return ET_OK;
  }
  const int64_t size = x->self.shape.sizes[s->dim];
  const int64_t given =
      s->t->dtype == ET_I64 ? ((const int64_t *)s->t->data)[at] : ((const int32_t *)s->t->data)[at];
  const int64_t index = given < 0 && x->wraps ? given + size : given;
  ET_CHECK(index >= 0 && index < size, ctx->err, ET_INVALID_ARGUMENT,
           "index %lld at position %zu of index tensor %u is out of bounds for dimension %u with "
           "size %lld",
           (long long)given, tuple, s->number, s->dim, (long long)size);
  *offset += (ptrdiff_t)index * x->self.strides[s->dim];
  return ET_OK;
}

void eti_index_begin(const eti_indexing *x, const eti_window *affine, size_t tuple,
                     eti_index_walk *w) {
  *w = (eti_index_walk){.affine = affine->offset};
  for (size_t d = x->index.rank; d-- > 0; tuple /= (size_t)x->index.sizes[d]) {
    w->index[d] = (int32_t)(tuple % (size_t)x->index.sizes[d]);
    w->affine += w->index[d] * affine->strides[x->at + d];
    for (size_t i = 0; i < x->n_sources; i++)
      w->sources[i] += w->index[d] * stride_of(x, &x->sources[i], d);
  }
}

et_status eti_index_addresses(const et_kernel_ctx *ctx, eti_indexing *x, eti_index_walk *w,
                              const eti_window *affine, ptrdiff_t bytes, size_t first, size_t n,
                              ptrdiff_t *indexed_at, ptrdiff_t *affine_at) {
  for (size_t t = 0; t < n; t++) {
    ptrdiff_t offset = 0;
    for (size_t i = 0; i < x->n_sources; i++)
      ET_TRY(source_offset(ctx, x, i, first + t, w->sources[i], &offset));
    indexed_at[t] = offset * bytes;
    affine_at[t] = w->affine * bytes;
    tuple_next(w, x, affine->strides + x->at);
  }
  return ET_OK;
}
