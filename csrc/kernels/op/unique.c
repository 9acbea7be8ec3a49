// unique.c — distinct elements, or distinct slices along dimension 0: _unique2, unique_dim,
// unique_consecutive. When the output has room for all of them, slices are sorted in its memory by
// the keys of order.h; when a smaller result was planned, each finds its place among those kept so
// far. Where each went is found by binary search. A NaN equals nothing, so that each stays. The
// exporter moves another dimension to the front. Relies on move.h, order.h.
#include "kernels/element.h"
#include "kernels/move.h"
#include "kernels/order.h"

#include <string.h>

// n slices of m elements each, in rows one after the other.
typedef struct slices {
  char *data;
  size_t n, m, bytes;
  eti_key_fn key;
  bool is_float;
} slices;

static const char *slice_at(const slices *s, size_t i) {
  return s->data + i * s->m * s->bytes;
}

// The order of all slices; NaN are alike here.
static int compare(const slices *s, const char *a, const char *b) {
  for (size_t k = 0; k < s->m; k++) {
    const uint64_t x = s->key(a + k * s->bytes), y = s->key(b + k * s->bytes);
    if (x != y) return x < y ? -1 : 1;
  }
  return 0;
}

static bool has_nan(const slices *s, const char *a) {
  for (size_t k = 0; s->is_float && k < s->m; k++) {
    if (s->key(a + k * s->bytes) == ETI_KEY_NAN(s->bytes)) return true;
  }
  return false;
}

static bool equal(const slices *s, const char *a, const char *b) {
  return compare(s, a, b) == 0 && !has_nan(s, a);
}

static void swap(char *a, char *b, size_t n) {
  char held[64];
  for (; n > 0;) {
    const size_t part = n < sizeof held ? n : sizeof held;
    memcpy(held, a, part);
    memmove(a, b, part);
    memcpy(b, held, part);
    a += part;
    b += part;
    n -= part;
  }
}

static void sift_down(const slices *s, size_t root, size_t n) {
  const size_t size = s->m * s->bytes;
  for (size_t child = 2 * root + 1; child < n; child = 2 * root + 1) {
    if (child + 1 < n && compare(s, slice_at(s, child), slice_at(s, child + 1)) < 0) child++;
    if (compare(s, slice_at(s, root), slice_at(s, child)) >= 0) return;
    swap(s->data + root * size, s->data + child * size, size);
    root = child;
  }
}

static void sort_slices(const slices *s) {
  const size_t size = s->m * s->bytes;
  for (size_t i = s->n / 2; i-- > 0;) sift_down(s, i, s->n);
  for (size_t end = s->n; end-- > 1;) {
    swap(s->data, s->data + end * size, size);
    sift_down(s, 0, end);
  }
}

// What the operator asks for, and its outputs; counts and inverse may be unwanted.
typedef struct request {
  const et_tensor *self;
  et_tensor *out, *inverse, *counts;
  bool by_slice, sorts, wants_inverse, wants_counts;
} request;

// Keeps the first of equal neighbours.
static size_t drop_repeats(const request *r, const slices *s) {
  const size_t size = s->m * s->bytes;
  size_t kept = 0;
  for (size_t i = 0; i < s->n; i++) {
    const bool repeats = kept > 0 && equal(s, slice_at(s, kept - 1), slice_at(s, i));
    if (!repeats && kept != i) memmove(s->data + kept * size, slice_at(s, i), size);
    if (!repeats) kept++;
    if (r->wants_counts) {
      int64_t *count = (int64_t *)r->counts->data + (kept - 1);
      *count = repeats ? *count + 1 : 1;
    }
  }
  return kept;
}

// Element k of slice i of the input.
static const char *input_at(const request *r, size_t i, size_t m, size_t k) {
  return eti_element(r->self, eti_offset_of(r->self, i * m + k));
}

static int compare_input(const request *r, const slices *s, size_t i, const char *b) {
  for (size_t k = 0; k < s->m; k++) {
    const uint64_t x = s->key(input_at(r, i, s->m, k)), y = s->key(b + k * s->bytes);
    if (x != y) return x < y ? -1 : 1;
  }
  return 0;
}

// Earlier slices of the input that are like slice i, NaN included.
static size_t earlier_like(const request *r, const slices *s, size_t i) {
  size_t count = 0;
  for (size_t j = 0; j < i; j++) {
    bool same = true;
    for (size_t k = 0; k < s->m && same; k++)
      same = s->key(input_at(r, i, s->m, k)) == s->key(input_at(r, j, s->m, k));
    count += same;
  }
  return count;
}

// The first of the kept slices that is not before slice i of the input.
static size_t place_of(const request *r, const slices *s, size_t i, size_t kept) {
  size_t low = 0;
  for (size_t high = kept; low < high;) {
    const size_t middle = low + (high - low) / 2;
    if (compare_input(r, s, i, slice_at(s, middle)) > 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Makes room for slice i of the input at place `at` among those kept.
static void insert(const request *r, const slices *s, size_t i, size_t at, size_t kept) {
  const size_t size = s->m * s->bytes;
  if (size > 0) memmove(s->data + (at + 1) * size, slice_at(s, at), (kept - at) * size);
  for (size_t k = 0; k < s->m; k++)
    memmove(s->data + at * size + k * s->bytes, input_at(r, i, s->m, k), s->bytes);
  if (!r->wants_counts) return;
  int64_t *counts = r->counts->data;
  memmove(counts + at + 1, counts + at, (kept - at) * sizeof *counts);
  counts[at] = 0;
}

// Takes the slices of the input one by one: into their order, or behind the last one.
static et_status collect(const et_kernel_ctx *ctx, const request *r, const slices *s,
                         size_t *n_kept) {
  size_t kept = 0;
  for (size_t i = 0; i < s->n; i++) {
    size_t at = r->sorts ? place_of(r, s, i, kept) : kept > 0 ? kept - 1 : 0;
    const bool repeats =
        at < kept && compare_input(r, s, i, slice_at(s, at)) == 0 && !has_nan(s, slice_at(s, at));
    if (!repeats) {
      if (!r->sorts) at = kept;
      ET_CHECK(
          (kept + 1) * s->m <= r->out->capacity && (!r->wants_counts || kept < r->counts->capacity),
          ctx->err, ET_NOT_SUPPORTED, "there are more than the %zu distinct ones planned", kept);
      insert(r, s, i, at, kept++);
    }
    if (r->wants_counts) ((int64_t *)r->counts->data)[at]++;
    if (r->wants_inverse && !r->sorts)
      ((int64_t *)r->inverse->data)[eti_offset_of(r->inverse, i)] = (int64_t)at;
  }
  *n_kept = kept;
  return ET_OK;
}

static void find_sources(const request *r, const slices *s, size_t kept) {
  for (size_t i = 0; i < s->n; i++) {
    size_t at = place_of(r, s, i, kept);
    if (at < kept && has_nan(s, slice_at(s, at))) at += earlier_like(r, s, i);
    ((int64_t *)r->inverse->data)[eti_offset_of(r->inverse, i)] = (int64_t)at;
  }
}

static et_status check_outputs(const et_kernel_ctx *ctx, const request *r) {
  ET_TRY(eti_check_same_dtype(ctx, r->self, r->out, "self and out0"));
  ET_CHECK(r->inverse->dtype == ET_I64 && r->counts->dtype == ET_I64, ctx->err, ET_INVALID_ARGUMENT,
           "inverse and counts are %s and %s, need i64", et_dtype_name((et_dtype)r->inverse->dtype),
           et_dtype_name((et_dtype)r->counts->dtype));
  ET_CHECK(r->out != r->self && r->inverse != r->self && r->counts != r->self &&
               r->out != r->inverse && r->out != r->counts && r->inverse != r->counts,
           ctx->err, ET_INVALID_ARGUMENT, "one tensor is used twice");
  ET_CHECK(eti_order_keys[r->self->dtype] != NULL, ctx->err, ET_NOT_SUPPORTED, "%s has no order",
           et_dtype_name((et_dtype)r->self->dtype));
  return ET_OK;
}

// The result's shape with as many slices as there are, or as there is room for.
static et_status prepare_outputs(const et_kernel_ctx *ctx, const request *r, size_t n, size_t m,
                                 eti_shape *shape) {
  const eti_shape none = {.rank = 1, .sizes = {0}}, line = {.rank = 1, .sizes = {(int32_t)n}};
  *shape = r->by_slice ? eti_shape_of(r->self) : line;
  const size_t room = m == 0 ? n : r->out->capacity / m;
  if (room < n) shape->sizes[0] = (int32_t)room;
  ET_TRY(eti_resize(ctx, r->out, shape));
  ET_CHECK(eti_is_contiguous(r->out), ctx->err, ET_NOT_SUPPORTED,
           "the result must lie in rows; export again without a memory format");
  if (!r->wants_counts) ET_TRY(eti_resize(ctx, r->counts, &none));
  if (r->wants_inverse && !r->by_slice) return eti_resize_like(ctx, r->inverse, r->self);
  return eti_resize(ctx, r->inverse, r->wants_inverse ? &line : &none);
}

static et_status unique(const et_kernel_ctx *ctx, const request *r) {
  const et_tensor *self = r->self;
  eti_shape shape;
  ET_TRY(check_outputs(ctx, r));
  const size_t n = r->by_slice ? (size_t)self->sizes[0] : self->numel;
  size_t kept = 0;
  const slices s = {.data = r->out->data,
                    .n = n,
                    .m = n == 0 ? 0 : self->numel / n,
                    .bytes = et_dtype_bytes((et_dtype)self->dtype),
                    .key = eti_order_keys[self->dtype],
                    .is_float = eti_is_float((et_dtype)self->dtype)};
  ET_TRY(prepare_outputs(ctx, r, n, s.m, &shape));
  const bool fits =
      r->out->capacity >= self->numel && (!r->wants_counts || r->counts->capacity >= n);
  if (r->sorts && fits) {
    eti_copy_in_order(r->out, self, 0);
    sort_slices(&s);
    kept = drop_repeats(r, &s);
  } else {
    ET_TRY(collect(ctx, r, &s, &kept));
  }
  if (r->sorts && r->wants_inverse) find_sources(r, &s, kept);
  shape.sizes[0] = (int32_t)kept;
  ET_TRY(eti_resize(ctx, r->out, &shape));
  const eti_shape counted = {.rank = 1, .sizes = {(int32_t)kept}};
  return r->wants_counts ? eti_resize(ctx, r->counts, &counted) : ET_OK;
}

// Reads the outputs, which begin at argument i, and the flags.
static et_status read_request(const et_kernel_ctx *ctx, et_value *const *args, size_t i_flags,
                              size_t i_out, request *r) {
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

static et_status check_dim(const et_kernel_ctx *ctx, const et_tensor *self, int64_t dim) {
  ET_CHECK(self->rank > 0 && (dim == 0 || dim == -(int64_t)self->rank), ctx->err, ET_NOT_SUPPORTED,
           "dimension %lld of a tensor of rank %d, needs 0; export again, so that the exporter "
           "moves it there",
           (long long)dim, (int)self->rank);
  return ET_OK;
}

// (self, sorted, return_inverse, return_counts, out0, out1, out2); the result is always sorted.
et_status op_unique2_out(et_kernel_ctx *ctx, et_value *const *args) {
  request r = {.sorts = true};
  ET_TRY(read_request(ctx, args, 2, 4, &r));
  return unique(ctx, &r);
}

// (self, dim, sorted, return_inverse, return_counts, out0, out1, out2)
et_status op_unique_dim_out(et_kernel_ctx *ctx, et_value *const *args) {
  request r = {.sorts = true, .by_slice = true};
  int64_t dim = 0;
  ET_TRY(read_request(ctx, args, 3, 5, &r));
  ET_TRY(eti_arg_int(ctx, args, 1, &dim));
  ET_TRY(check_dim(ctx, r.self, dim));
  return unique(ctx, &r);
}

// (self, return_inverse, return_counts, dim or None, out0, out1, out2)
et_status op_unique_consecutive_out(et_kernel_ctx *ctx, et_value *const *args) {
  request r = {.sorts = false};
  int64_t dim = 0;
  ET_TRY(read_request(ctx, args, 1, 4, &r));
  ET_TRY(eti_arg_optional_int(ctx, args, 3, &r.by_slice, &dim));
  if (r.by_slice) ET_TRY(check_dim(ctx, r.self, dim));
  return unique(ctx, &r);
}
