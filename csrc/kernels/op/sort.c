// sort.c — sorting along one dimension, in the output's own memory. Elements compare by the keys of
// order.h, ties by position, so the result is the stable one whatever the algorithm. Relies on
// move.h. Takes no memory: heapsort, with insertion for short lanes.
#include "kernels/move.h"
#include "kernels/order.h"

#include <string.h>

#define SHORT_LANE 16u

// One lane: n values and, beside them, their positions in the input.
typedef struct lane {
  char *values;
  int64_t *indices;
  ptrdiff_t value_stride;  // bytes
  ptrdiff_t index_stride;  // elements
  size_t n, bytes;
  eti_key_fn key;
  uint64_t flip;  // all ones to sort descending
} lane;

typedef struct item {
  uint64_t key;
  int64_t index;
  char value[8];
} item;

static char *value_at(const lane *l, size_t i) {
  return l->values + (ptrdiff_t)i * l->value_stride;
}
static int64_t *index_at(const lane *l, size_t i) {
  return l->indices + (ptrdiff_t)i * l->index_stride;
}

static item load(const lane *l, size_t i) {
  item it = {.key = l->key(value_at(l, i)) ^ l->flip, .index = *index_at(l, i)};
  memcpy(it.value, value_at(l, i), l->bytes);
  return it;
}

static void store(const lane *l, size_t i, const item *it) {
  memcpy(value_at(l, i), it->value, l->bytes);
  *index_at(l, i) = it->index;
}

static bool before(const item *a, const item *b) {
  return a->key < b->key || (a->key == b->key && a->index < b->index);
}

static void sort_short(const lane *l) {
  for (size_t i = 1; i < l->n; i++) {
    const item moved = load(l, i);
    size_t at = i;
    for (; at > 0; at--) {
      const item left = load(l, at - 1);
      if (!before(&moved, &left)) break;
      store(l, at, &left);
    }
    store(l, at, &moved);
  }
}

static void sift_down(const lane *l, size_t root, size_t n) {
  const item moved = load(l, root);
  for (size_t child = 2 * root + 1; child < n; child = 2 * root + 1) {
    item larger = load(l, child);
    if (child + 1 < n) {
      const item right = load(l, child + 1);
      if (before(&larger, &right)) {
        larger = right;
        child++;
      }
    }
    if (!before(&moved, &larger)) break;
    store(l, root, &larger);
    root = child;
  }
  store(l, root, &moved);
}

static void sort_lane(const lane *l) {
  if (l->n <= SHORT_LANE) {
    sort_short(l);
    return;
  }
  for (size_t i = l->n / 2; i-- > 0;) sift_down(l, i, l->n);
  for (size_t end = l->n - 1; end > 0; end--) {
    const item first = load(l, 0), last = load(l, end);
    store(l, 0, &last);
    store(l, end, &first);
    sift_down(l, 0, end);
  }
}

// ---- All lanes

typedef struct sorting {
  eti_shape shape;  // rank ≥ 1
  size_t dim;
  lane first;                                                        // the lane at the origin
  ptrdiff_t value_strides[ET_MAX_RANK], index_strides[ET_MAX_RANK];  // bytes, elements
} sorting;

static void sort_range(void *ctx, size_t begin, size_t end) {
  const sorting *s = ctx;
  for (size_t k = begin; k < end; k++) {
    lane l = s->first;
    size_t rest = k;
    for (size_t d = s->shape.rank; d-- > 0;) {
      if (d == s->dim) continue;
      const ptrdiff_t i = (ptrdiff_t)(rest % (size_t)s->shape.sizes[d]);
      rest /= (size_t)s->shape.sizes[d];
      l.values += i * s->value_strides[d];
      l.indices += i * s->index_strides[d];
    }
    for (size_t i = 0; i < l.n; i++) *index_at(&l, i) = (int64_t)i;
    sort_lane(&l);
  }
}

static et_status sort_dim(const et_kernel_ctx *ctx, et_value *const *args, size_t i_dim) {
  et_tensor *self = NULL, *values = NULL, *indices = NULL;
  int64_t dim = 0;
  bool descending = false;
  sorting s = {.dim = 0};
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_int(ctx, args, i_dim, &dim));
  ET_TRY(eti_arg_bool(ctx, args, i_dim + 1, &descending));
  ET_TRY(eti_arg_tensor(ctx, args, i_dim + 2, &values));
  ET_TRY(eti_arg_tensor(ctx, args, i_dim + 3, &indices));
  ET_TRY(eti_check_same_dtype(ctx, self, values, "self and values"));
  ET_CHECK(indices->dtype == ET_I64 && values != indices, ctx->err, ET_INVALID_ARGUMENT,
           "sort: indices are %s, need i64", et_dtype_name((et_dtype)indices->dtype));
  ET_CHECK(eti_order_keys[values->dtype] != NULL, ctx->err, ET_NOT_SUPPORTED,
           "sort: %s has no order", et_dtype_name((et_dtype)values->dtype));
  ET_TRY(eti_wrap_dim(ctx, dim, self->rank, &s.dim));
  const eti_view from = eti_view_of(self);
  ET_TRY(eti_resize(ctx, values, &from.shape));
  ET_TRY(eti_resize(ctx, indices, &from.shape));
  if (values->numel == 0) return ET_OK;
  const size_t bytes = et_dtype_bytes((et_dtype)values->dtype);
  const eti_view to = eti_view_of(values);
  eti_copy_views(ctx->pool, values->data, &to, self->data, &from, bytes);

  s.shape = to.shape;
  for (size_t d = 0; d < to.shape.rank; d++) {
    s.value_strides[d] = values->strides[d] * (ptrdiff_t)bytes;
    s.index_strides[d] = indices->strides[d];
  }
  if (s.shape.rank == 0) s.shape = (eti_shape){.rank = 1, .sizes = {1}};
  s.first = (lane){.values = values->data,
                   .indices = indices->data,
                   .value_stride = s.value_strides[s.dim],
                   .index_stride = s.index_strides[s.dim],
                   .n = (size_t)s.shape.sizes[s.dim],
                   .bytes = bytes,
                   .key = eti_order_keys[values->dtype],
                   .flip = descending ? UINT64_MAX : 0};
  const size_t grain = s.first.n < 4096 ? 4096 / s.first.n : 1;
  et_parallel_for(ctx->pool, sort_range, &s, values->numel / s.first.n, grain);
  return ET_OK;
}

et_status op_sort_values(et_kernel_ctx *ctx, et_value *const *args) {
  return sort_dim(ctx, args, 1);
}
// The sort is stable in any case, so `stable` (argument 1) is not read.
et_status op_sort_values_stable(et_kernel_ctx *ctx, et_value *const *args) {
  return sort_dim(ctx, args, 2);
}
