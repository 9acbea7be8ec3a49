// sort.c — sorting along one dimension. Elements compare by their sort keys (sort_key.h), ties by
// position, so the result is the stable one for every algorithm: radix sort in scratch from
// prepare, else heapsort in the outputs' own memory, with insertion sort for short lines. Relies on
// copy_op.h and sort_key.h.
#include "kernels/kernel.h"
#include "kernels/lib/copy_op.h"
#include "kernels/lib/sort_key.h"

#include <string.h>

#define SHORT_LANE 16u

// One line: n elements of the input, and the outputs of their values and positions.
typedef struct lane {
  const char *source;
  ptrdiff_t source_stride;  // bytes
  char *values;
  int64_t *indices;
  ptrdiff_t value_stride;  // bytes
  ptrdiff_t index_stride;  // elements
  size_t n, bytes;
  uint8_t dtype;
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

static item load_item(const lane *l, size_t i) {
  item it = {.key = l->key(value_at(l, i)) ^ l->flip, .index = *index_at(l, i)};
  memcpy(it.value, value_at(l, i), l->bytes);
  return it;
}

static void store_item(const lane *l, size_t i, const item *it) {
  memcpy(value_at(l, i), it->value, l->bytes);
  *index_at(l, i) = it->index;
}

static bool is_before(const item *a, const item *b) {
  return a->key < b->key || (a->key == b->key && a->index < b->index);
}

static void sort_short(const lane *l) {
  for (size_t i = 1; i < l->n; i++) {
    const item moved = load_item(l, i);
    size_t at = i;
    for (; at > 0; at--) {
      const item left = load_item(l, at - 1);
      if (!is_before(&moved, &left)) break;
      store_item(l, at, &left);
    }
    store_item(l, at, &moved);
  }
}

static void sift_down(const lane *l, size_t root, size_t n) {
  const item moved = load_item(l, root);
  for (size_t child = 2 * root + 1; child < n; child = 2 * root + 1) {
    item larger = load_item(l, child);
    if (child + 1 < n) {
      const item right = load_item(l, child + 1);
      if (is_before(&larger, &right)) {
        larger = right;
        child++;
      }
    }
    if (!is_before(&moved, &larger)) break;
    store_item(l, root, &larger);
    root = child;
  }
  store_item(l, root, &moved);
}

// Sorts in place: values must already be in the line, with their positions.
static void sort_in_place(const lane *l) {
  for (size_t i = 0; i < l->n; i++) *index_at(l, i) = (int64_t)i;
  if (l->n <= SHORT_LANE) {
    sort_short(l);
    return;
  }
  for (size_t i = l->n / 2; i-- > 0;) sift_down(l, i, l->n);
  for (size_t end = l->n - 1; end > 0; end--) {
    const item first = load_item(l, 0), last = load_item(l, end);
    store_item(l, 0, &last);
    store_item(l, end, &first);
    sift_down(l, 0, end);
  }
}

// ---- with scratch

// Sorts through scratch; work has 2n numbers.
static void sort_through(const lane *l, uint64_t *work) {
  const uint64_t *const sorted =
      eti_sort_positions(l->dtype, l->source, l->source_stride, l->n, l->flip, work);
  for (size_t i = 0; i < l->n; i++) {
    const size_t from = (uint32_t)sorted[i];
    memcpy(value_at(l, i), l->source + (ptrdiff_t)from * l->source_stride, l->bytes);
    *index_at(l, i) = (int64_t)from;
  }
}

// ---- all lines

enum { MAX_SCRATCH = 64 * 1024 * 1024 };  // bytes; longer lines are sorted in place

typedef struct sorting {
  eti_shape shape;  // rank ≥ 1
  size_t dim;
  lane first;                                                         // the line at the origin
  ptrdiff_t source_strides[ET_MAX_RANK], value_strides[ET_MAX_RANK];  // bytes
  ptrdiff_t index_strides[ET_MAX_RANK];                               // elements
  uint64_t *work;                                                     // per slot; NULL: in place
  size_t n_slots, n_lanes;
} sorting;

static lane lane_at(const sorting *s, size_t k) {
  lane l = s->first;
  for (size_t d = s->shape.rank; d-- > 0;) {
    if (d == s->dim) continue;
    const ptrdiff_t i = (ptrdiff_t)(k % (size_t)s->shape.sizes[d]);
    k /= (size_t)s->shape.sizes[d];
    l.source += i * s->source_strides[d];
    l.values += i * s->value_strides[d];
    l.indices += i * s->index_strides[d];
  }
  return l;
}

static void sort_range(void *ctx, size_t begin, size_t end) {
  const sorting *s = ctx;
  for (size_t k = begin; k < end; k++) {
    const lane l = lane_at(s, k);
    sort_in_place(&l);
  }
}

// Slot i sorts every n_slots-th part of the lines in its own part of the scratch.
static void sort_slots(void *ctx, size_t begin, size_t end) {
  const sorting *s = ctx;
  for (size_t slot = begin; slot < end; slot++) {
    const size_t stop = s->n_lanes * (slot + 1) / s->n_slots;
    for (size_t k = s->n_lanes * slot / s->n_slots; k < stop; k++) {
      const lane l = lane_at(s, k);
      sort_through(&l, s->work + slot * 2 * l.n);
    }
  }
}

static void describe_lanes(sorting *s, const et_tensor *self, const et_tensor *values,
                           const et_tensor *indices, bool descending) {
  const ptrdiff_t bytes = (ptrdiff_t)et_dtype_bytes((et_dtype)values->dtype);
  s->shape = eti_shape_of(values);
  for (size_t d = 0; d < s->shape.rank; d++) {
    s->source_strides[d] = self->strides[d] * bytes;
    s->value_strides[d] = values->strides[d] * bytes;
    s->index_strides[d] = indices->strides[d];
  }
  if (s->shape.rank == 0) s->shape = (eti_shape){.rank = 1, .sizes = {1}};
  const uint64_t ones = bytes == 8 ? UINT64_MAX : UINT32_MAX;
  s->first = (lane){.source = self->data,
                    .source_stride = s->source_strides[s->dim],
                    .values = values->data,
                    .indices = indices->data,
                    .value_stride = s->value_strides[s->dim],
                    .index_stride = s->index_strides[s->dim],
                    .n = (size_t)s->shape.sizes[s->dim],
                    .bytes = (size_t)bytes,
                    .dtype = values->dtype,
                    .key = eti_sort_keys[values->dtype],
                    .flip = descending ? ones : 0};
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
           "sort: indices: expected i64, got %s", et_dtype_name((et_dtype)indices->dtype));
  ET_CHECK(eti_sort_keys[values->dtype] != NULL, ctx->err, ET_NOT_SUPPORTED,
           "sort: %s has no order", et_dtype_name((et_dtype)values->dtype));
  ET_TRY(eti_wrap_dim(ctx, dim, self->rank, &s.dim));
  const eti_window from = eti_window_of(self);
  ET_TRY(eti_resize(ctx, values, &from.shape));
  ET_TRY(eti_resize(ctx, indices, &from.shape));
  if (values->numel == 0) return ET_OK;
  describe_lanes(&s, self, values, indices, descending);
  s.n_lanes = values->numel / s.first.n;
  const size_t each = 2 * s.first.n * sizeof *s.work, room = ctx->scratch_bytes / each;
  if (room == 0) {
    const eti_window to = eti_window_of(values);
    eti_copy_windows(ctx->pool, values->data, &to, self->data, &from, s.first.bytes);
    const size_t grain = s.first.n < 4096 ? 4096 / s.first.n : 1;
    et_parallel_for(ctx->pool, sort_range, &s, s.n_lanes, grain);
    return ET_OK;
  }
  const size_t threads = ctx->pool == NULL || values->numel < 4096 ? 1 : ctx->pool->n_threads;
  s.work = ctx->scratch;
  s.n_slots = room < threads ? room : threads;
  if (s.n_slots > s.n_lanes) s.n_slots = s.n_lanes;
  et_parallel_for(ctx->pool, sort_slots, &s, s.n_slots, 1);
  return ET_OK;
}

static et_status prepare_sort(et_prepare_ctx *ctx, et_value *const *args, size_t i_dim) {
  const et_kernel_ctx k = eti_prepare_args(ctx);
  et_tensor *self = NULL;
  int64_t wanted = 0;
  size_t dim = 0;
  ET_TRY(eti_arg_tensor(&k, args, 0, &self));
  ET_TRY(eti_arg_int(&k, args, i_dim, &wanted));
  ET_TRY(eti_wrap_dim(&k, wanted, self->rank, &dim));
  const size_t n = self->rank == 0 ? 1 : (size_t)self->sizes[dim];
  const size_t threads = ctx->n_threads == 0 ? 1 : ctx->n_threads;
  if (n < 2 || n > MAX_SCRATCH / (2 * sizeof(uint64_t)) / threads) return ET_OK;
  const size_t bytes = n * 2 * sizeof(uint64_t) * threads;
  if (bytes > ctx->scratch_bytes) ctx->scratch_bytes = bytes;
  return ET_OK;
}

et_status op_sort_values(et_kernel_ctx *ctx, et_value *const *args) {
  return sort_dim(ctx, args, 1);
}
et_status prepare_sort_values(et_prepare_ctx *ctx, et_value *const *args) {
  return prepare_sort(ctx, args, 1);
}
// Sorts; always stable, so `stable` (argument 1) is not read.
et_status op_sort_values_stable(et_kernel_ctx *ctx, et_value *const *args) {
  return sort_dim(ctx, args, 2);
}
et_status prepare_sort_values_stable(et_prepare_ctx *ctx, et_value *const *args) {
  return prepare_sort(ctx, args, 2);
}
