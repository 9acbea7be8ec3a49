// unique.c — distinct elements, or distinct slices along dimension 0: _unique2, unique_dim,
// unique_consecutive. Positions are sorted in scratch from prepare, by the keys of sort_key.h or,
// for slices, by merging; a walk over them writes every output. Without scratch unique_in_place.c
// works in the output's memory. A NaN equals nothing, so each is distinct. The exporter moves
// another dimension to the front. Relies on copy_op.h, sort_key.h.
#include "kernels/lib/element.h"
#include "kernels/lib/copy_op.h"
#include "kernels/op/unique/unique.h"

#include <string.h>

// ---- in the order of positions

// The slices of the input one after the other, in place or copied to scratch.
typedef struct source {
  eti_slices s;
  const eti_distinct *r;
  bool inverse_in_rows;
} source;

// Copies a slice; in a damaged file the output may overlap the input.
static inline void copy_slice(char *to, const char *from, size_t bytes) {
  uint64_t element;
  switch (bytes) {  // a call costs more than the rest
    case 8:
      memcpy(&element, from, 8);
      memcpy(to, &element, 8);
      break;
    case 4:
      memcpy(&element, from, 4);
      memcpy(to, &element, 4);
      break;
    case 2:
      memcpy(&element, from, 2);
      memcpy(to, &element, 2);
      break;
    case 1:
      *to = *from;
      break;
    case 0:  // empty slices have no memory
      break;
    default:
      eti_copy_bytes(to, from, bytes);
      break;
  }
}

static void set_inverse(const source *from, size_t i, size_t at) {
  const et_tensor *const t = from->r->inverse;
  ((int64_t *)t->data)[from->inverse_in_rows ? (ptrdiff_t)i : eti_offset_of(t, i)] = (int64_t)at;
}

// Processes slice i as the k-th; it is new or repeats the last one. Counts are cumulative for now:
// the number of slices up to and including each kept one.
static et_status add_slice(const et_kernel_ctx *ctx, const source *from, size_t k, size_t i,
                           bool is_new, size_t *kept) {
  const eti_distinct *const r = from->r;
  const size_t bytes = from->s.m * from->s.bytes;
  if (is_new) {
    ET_TRY(eti_distinct_room(ctx, r, &from->s, *kept + 1));
    copy_slice((char *)r->out->data + *kept * bytes, eti_slice_at(&from->s, i), bytes);
    ++*kept;
  }
  if (r->wants_counts) ((int64_t *)r->counts->data)[*kept - 1] = (int64_t)k + 1;
  if (r->wants_inverse) set_inverse(from, i, *kept - 1);
  return ET_OK;
}

static void count_each(const eti_distinct *r, size_t kept) {
  int64_t *const counts = r->counts->data;
  for (size_t i = kept; r->wants_counts && i-- > 1;)
    counts[i] = (int64_t)((uint64_t)counts[i] - (uint64_t)counts[i - 1]);
}

enum { BLOCK = ETI_ON_STACK(256, 64) };

// Up to BLOCK elements: their positions and whether each is a new one.
typedef struct element_block {
  size_t first, n;
  uint32_t at[BLOCK];
  uint8_t is_new[BLOCK];
} element_block;

// Processes a block if there is room for all of it: no branch tests whether an element is new.
static inline __attribute__((always_inline)) size_t add_block(const source *from,
                                                              const element_block *b, size_t kept,
                                                              const size_t bytes) {
  const eti_distinct *const r = from->r;
  // Local copies, since a compiler must assume that any store changes the structures.
  const char *const in = from->s.data;
  char *const out = r->out->data;
  int64_t *const counts = r->counts->data, *const inverse = r->inverse->data;
  const bool wants_counts = r->wants_counts, wants_inverse = r->wants_inverse;
  const size_t n = b->n, first = b->first;
  for (size_t j = 0; j < n; j++) {
    const size_t at = b->at[j];
    copy_slice(out + kept * bytes, in + at * bytes, bytes);
    kept += b->is_new[j];
    if (wants_counts) counts[kept - 1] = (int64_t)(first + j) + 1;
    if (wants_inverse) inverse[at] = (int64_t)kept - 1;
  }
  return kept;
}

static et_status add_block_of_any(const et_kernel_ctx *ctx, const source *from,
                                  const element_block *b, size_t *kept) {
  const eti_distinct *const r = from->r;
  const bool has_room =
      *kept + b->n < r->out->capacity && (!r->wants_counts || *kept + b->n < r->counts->capacity);
  if (!has_room || (r->wants_inverse && !from->inverse_in_rows)) {
    for (size_t j = 0; j < b->n; j++)
      ET_TRY(add_slice(ctx, from, b->first + j, b->at[j], b->is_new[j] != 0, kept));
    return ET_OK;
  }
  switch (from->s.bytes) {
    case 8:
      *kept = add_block(from, b, *kept, 8);
      break;
    case 4:
      *kept = add_block(from, b, *kept, 4);
      break;
    case 2:
      *kept = add_block(from, b, *kept, 2);
      break;
    default:
      *kept = add_block(from, b, *kept, 1);
      break;
  }
  return ET_OK;
}

// Processes elements in the order of sorted positions; NULL: in their own order.
static et_status add_elements(const et_kernel_ctx *ctx, const source *from, const uint64_t *sorted,
                              size_t *kept) {
  const eti_slices *const s = &from->s;
  const uint64_t nan = s->is_float ? ETI_KEY_NAN(s->bytes) : 0;
  const bool keys_at_hand = sorted != NULL && s->bytes < 8;
  uint64_t keys[BLOCK], last = 0;
  element_block b;
  for (b.first = 0; b.first < s->n; b.first += BLOCK) {
    b.n = s->n - b.first < BLOCK ? s->n - b.first : BLOCK;
    for (size_t j = 0; j < b.n; j++)
      b.at[j] = sorted == NULL ? (uint32_t)(b.first + j) : (uint32_t)sorted[b.first + j];
    if (sorted == NULL) {
      eti_sort_key_rows[from->r->self->dtype](eti_slice_at(s, b.first), (ptrdiff_t)s->bytes, b.n,
                                              keys);
    } else {
      for (size_t j = 0; j < b.n; j++)
        keys[j] = keys_at_hand ? sorted[b.first + j] >> 32 : s->key(eti_slice_at(s, b.at[j]));
    }
    for (size_t j = 0; j < b.n; j++) {
      b.is_new[j] = (keys[j] != last) | (s->is_float && keys[j] == nan);
      last = keys[j];
    }
    if (b.first == 0) b.is_new[0] = 1;
    ET_TRY(add_block_of_any(ctx, from, &b, kept));
  }
  return ET_OK;
}

static et_status add_slices(const et_kernel_ctx *ctx, const source *from, const uint64_t *sorted,
                            size_t *kept) {
  const eti_slices *const s = &from->s;
  for (size_t k = 0; k < s->n; k++) {
    const size_t i = sorted == NULL ? k : (size_t)sorted[k];
    const size_t before = k == 0 ? 0 : sorted == NULL ? k - 1 : (size_t)sorted[k - 1];
    const bool is_new = k == 0 || !eti_slices_equal(s, eti_slice_at(s, before), eti_slice_at(s, i));
    ET_TRY(add_slice(ctx, from, k, i, is_new, kept));
  }
  return ET_OK;
}

// Sorts the positions of the slices, those of equal ones ascending, by merging longer and longer
// runs; the result is in work or work + n.
static const uint64_t *sort_positions(const eti_slices *s, uint64_t *work) {
  uint64_t *a = work, *b = work + s->n;
  for (size_t i = 0; i < s->n; i++) a[i] = i;
  for (size_t run = 1; run < s->n; run *= 2) {
    for (size_t begin = 0; begin < s->n; begin += 2 * run) {
      const size_t middle = s->n - begin < run ? s->n : begin + run,
                   end = s->n - begin < 2 * run ? s->n : begin + 2 * run;
      size_t i = begin, j = middle;
      for (size_t k = begin; k < end; k++) {
        const bool left =
            j == end || (i < middle && eti_slices_compare(s, eti_slice_at(s, (size_t)a[i]),
                                                          eti_slice_at(s, (size_t)a[j])) <= 0);
        b[k] = left ? a[i++] : a[j++];
      }
    }
    uint64_t *const sorted = b;
    b = a;
    a = sorted;
  }
  return a;
}

// Scratch for two numbers per slice, and a copy of the input.
static size_t sort_bytes(size_t n, size_t numel, size_t bytes) {
  return 2 * n * sizeof(uint64_t) + numel * bytes;
}

static et_status unique_through(const et_kernel_ctx *ctx, const eti_distinct *r,
                                const eti_slices *s, size_t *kept) {
  const et_tensor *const self = r->self;
  source from = {*s, r, eti_is_contiguous(r->inverse)};
  uint64_t *const work = ctx->scratch;
  from.s.data = self->data;
  if (!eti_is_contiguous(self)) {
    from.s.data = (char *)(work + 2 * s->n);
    const eti_window given = eti_window_of(self);
    eti_window rows = given;
    ptrdiff_t stride = 1;
    for (size_t d = self->rank; d-- > 0; stride *= self->sizes[d]) rows.strides[d] = stride;
    eti_copy_windows(ctx->pool, from.s.data, &rows, self->data, &given, s->bytes);
  }
  const uint64_t *sorted = NULL;
  if (r->sorts)
    sorted = s->m == 1
                 ? eti_sort_positions(self->dtype, from.s.data, (ptrdiff_t)s->bytes, s->n, 0, work)
                 : sort_positions(&from.s, work);
  ET_TRY(s->m == 1 ? add_elements(ctx, &from, sorted, kept) : add_slices(ctx, &from, sorted, kept));
  count_each(r, *kept);
  return ET_OK;
}

// ---- operators

static et_status check_outputs(const et_kernel_ctx *ctx, const eti_distinct *r) {
  ET_TRY(eti_check_same_dtype(ctx, r->self, r->out, "self and out0"));
  ET_CHECK(r->inverse->dtype == ET_I64 && r->counts->dtype == ET_I64, ctx->err, ET_INVALID_ARGUMENT,
           "inverse and counts: expected i64, got %s and %s",
           et_dtype_name((et_dtype)r->inverse->dtype), et_dtype_name((et_dtype)r->counts->dtype));
  ET_CHECK(r->out != r->self && r->inverse != r->self && r->counts != r->self &&
               r->out != r->inverse && r->out != r->counts && r->inverse != r->counts,
           ctx->err, ET_INVALID_ARGUMENT, "expected four different tensors, got one twice");
  ET_CHECK(eti_sort_keys[r->self->dtype] != NULL, ctx->err, ET_NOT_SUPPORTED, "%s has no order",
           et_dtype_name((et_dtype)r->self->dtype));
  return ET_OK;
}

// Resizes the result to as many slices as there are, or as fit.
static et_status prepare_outputs(const et_kernel_ctx *ctx, const eti_distinct *r, size_t n,
                                 size_t m, eti_shape *shape) {
  const eti_shape none = {.rank = 1, .sizes = {0}}, line = {.rank = 1, .sizes = {(int32_t)n}};
  *shape = r->by_slice ? eti_shape_of(r->self) : line;
  const size_t room = m == 0 ? n : r->out->capacity / m;
  if (room < n) shape->sizes[0] = (int32_t)room;
  ET_TRY(eti_resize(ctx, r->out, shape));
  ET_CHECK(
      eti_is_contiguous(r->out), ctx->err, ET_NOT_SUPPORTED,
      "result: expected the contiguous dim order, got %s; export again without a memory format",
      eti_dim_order_text(r->out->dim_order, r->out->rank).text);
  if (!r->wants_counts) ET_TRY(eti_resize(ctx, r->counts, &none));
  if (r->wants_inverse && !r->by_slice) return eti_resize_like(ctx, r->inverse, r->self);
  return eti_resize(ctx, r->inverse, r->wants_inverse ? &line : &none);
}

static et_status run_unique(const et_kernel_ctx *ctx, const eti_distinct *r) {
  const et_tensor *self = r->self;
  eti_shape shape;
  ET_TRY(check_outputs(ctx, r));
  const size_t n = r->by_slice ? (size_t)self->sizes[0] : self->numel;
  size_t kept = 0;
  const eti_slices s = {.data = r->out->data,
                        .n = n,
                        .m = n == 0 ? 0 : self->numel / n,
                        .bytes = et_dtype_bytes((et_dtype)self->dtype),
                        .key = eti_sort_keys[self->dtype],
                        .is_float = eti_is_float((et_dtype)self->dtype)};
  ET_TRY(prepare_outputs(ctx, r, n, s.m, &shape));
  const size_t needs = eti_is_contiguous(self) && !r->sorts ? 0  // read in order
                                                            : sort_bytes(n, self->numel, s.bytes);
  if (ctx->scratch_bytes >= needs && n <= UINT32_MAX) {
    ET_TRY(unique_through(ctx, r, &s, &kept));
  } else {
    ET_TRY(eti_distinct_in_place(ctx, r, &s, &kept));
  }
  shape.sizes[0] = (int32_t)kept;
  ET_TRY(eti_resize(ctx, r->out, &shape));
  const eti_shape counted = {.rank = 1, .sizes = {(int32_t)kept}};
  return r->wants_counts ? eti_resize(ctx, r->counts, &counted) : ET_OK;
}

// Reads the outputs, which begin at argument i, and the flags.
static et_status read_request(const et_kernel_ctx *ctx, et_value *const *args, size_t i_flags,
                              size_t i_out, eti_distinct *r) {
  et_tensor *self = NULL;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_bool(ctx, args, i_flags, &r->wants_inverse));
  ET_TRY(eti_arg_bool(ctx, args, i_flags + 1, &r->wants_counts));
  ET_TRY(eti_arg_tensor(ctx, args, i_out, &r->out));
  ET_TRY(eti_arg_tensor(ctx, args, i_out + 1, &r->inverse));
  ET_TRY(eti_arg_tensor(ctx, args, i_out + 2, &r->counts));
  r->self = self;
  return ET_OK;
}

// Eager torch numbers and counts slices even if not requested, except those of one element in
// unique_consecutive. The planned capacities tell which outputs exist.
static void by_slice(eti_distinct *r) {
  r->by_slice = true;
  r->wants_inverse = r->wants_inverse || r->inverse->capacity > 0;
  r->wants_counts = r->wants_counts || r->counts->capacity > 0;
}

static et_status check_dim(const et_kernel_ctx *ctx, const et_tensor *self, int64_t dim) {
  ET_CHECK(self->rank > 0 && (dim == 0 || dim == -(int64_t)self->rank), ctx->err, ET_NOT_SUPPORTED,
           "expected dimension 0, got %lld of a tensor of rank %d; export again, so that the "
           "exporter moves it there",
           (long long)dim, (int)self->rank);
  return ET_OK;
}

// (self, sorted, return_inverse, return_counts, out0, out1, out2); the result is always sorted.
et_status op_unique2_out(et_kernel_ctx *ctx, et_value *const *args) {
  eti_distinct r = {.sorts = true};
  ET_TRY(read_request(ctx, args, 2, 4, &r));
  return run_unique(ctx, &r);
}

// (self, dim, sorted, return_inverse, return_counts, out0, out1, out2)
et_status op_unique_dim_out(et_kernel_ctx *ctx, et_value *const *args) {
  eti_distinct r = {.sorts = true};
  int64_t dim = 0;
  ET_TRY(read_request(ctx, args, 3, 5, &r));
  by_slice(&r);
  ET_TRY(eti_arg_int(ctx, args, 1, &dim));
  ET_TRY(check_dim(ctx, r.self, dim));
  return run_unique(ctx, &r);
}

// (self, return_inverse, return_counts, dim or None, out0, out1, out2)
et_status op_unique_consecutive_out(et_kernel_ctx *ctx, et_value *const *args) {
  eti_distinct r = {.sorts = false};
  int64_t dim = 0;
  ET_TRY(read_request(ctx, args, 1, 4, &r));
  ET_TRY(eti_arg_optional_int(ctx, args, 3, &r.by_slice, &dim));
  if (r.by_slice) {
    by_slice(&r);
    ET_TRY(check_dim(ctx, r.self, dim));
  }
  return run_unique(ctx, &r);
}

// Claims scratch for positions, and for a copy of an input that is not stored in rows.
static et_status prepare_unique(et_prepare_ctx *ctx, et_value *const *args, bool by_slice) {
  enum { MAX_SCRATCH = 64 * 1024 * 1024 };  // bytes; slower without
  const et_kernel_ctx k = eti_prepare_args(ctx);
  et_tensor *self = NULL;
  ET_TRY(eti_arg_tensor(&k, args, 0, &self));
  const size_t n = by_slice && self->rank > 0 ? (size_t)self->sizes[0] : self->numel;
  const size_t bytes = et_dtype_bytes((et_dtype)self->dtype);
  if (n > MAX_SCRATCH / 16 || self->numel > MAX_SCRATCH / bytes) return ET_OK;
  const size_t needs = sort_bytes(n, self->numel, bytes);
  if (needs <= MAX_SCRATCH && needs > ctx->scratch_bytes) ctx->scratch_bytes = needs;
  return ET_OK;
}

et_status prepare_unique2_out(et_prepare_ctx *ctx, et_value *const *args) {
  return prepare_unique(ctx, args, false);
}
et_status prepare_unique_dim_out(et_prepare_ctx *ctx, et_value *const *args) {
  return prepare_unique(ctx, args, true);
}
