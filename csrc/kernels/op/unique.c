// unique.c — distinct elements, or distinct slices along dimension 0: _unique2, unique_dim,
// unique_consecutive. Positions are sorted in scratch that prepare asked for, by the keys of
// order.h or, for slices, by merging; a walk over them writes every output. Without scratch slices
// are sorted in the output's memory, and where a smaller result was planned, as many distinct ones
// as fit are gathered pass by pass. A NaN equals nothing, so that each stays. The exporter moves
// another dimension to the front. Relies on move.h, order.h.
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

static et_status check_room(const et_kernel_ctx *ctx, const request *r, const slices *s,
                            size_t kept) {
  ET_CHECK(kept * s->m <= r->out->capacity && (!r->wants_counts || kept <= r->counts->capacity),
           ctx->err, ET_NOT_SUPPORTED, "there are more than the %zu distinct ones planned",
           kept - 1);
  return ET_OK;
}

// Takes the slices of the input into their order, one by one.
static et_status collect(const et_kernel_ctx *ctx, const request *r, const slices *s,
                         size_t *n_kept) {
  size_t kept = 0;
  for (size_t i = 0; i < s->n; i++) {
    const size_t at = place_of(r, s, i, kept);
    const bool repeats =
        at < kept && compare_input(r, s, i, slice_at(s, at)) == 0 && !has_nan(s, slice_at(s, at));
    if (!repeats) {
      ET_TRY(check_room(ctx, r, s, kept + 1));
      insert(r, s, i, at, kept++);
    }
    if (r->wants_counts) ((int64_t *)r->counts->data)[at]++;
  }
  *n_kept = kept;
  return ET_OK;
}

// Takes the slices of the input one by one, behind the last one.
static et_status collect_neighbours(const et_kernel_ctx *ctx, const request *r, const slices *s,
                                    size_t *n_kept) {
  size_t kept = 0;
  for (size_t i = 0; i < s->n; i++) {
    const char *const last = kept > 0 ? slice_at(s, kept - 1) : NULL;
    if (last == NULL || compare_input(r, s, i, last) != 0 || has_nan(s, last)) {
      ET_TRY(check_room(ctx, r, s, kept + 1));
      insert(r, s, i, kept, kept);
      kept++;
    }
    if (r->wants_counts) ((int64_t *)r->counts->data)[kept - 1]++;
    if (r->wants_inverse)
      ((int64_t *)r->inverse->data)[eti_offset_of(r->inverse, i)] = (int64_t)kept - 1;
  }
  *n_kept = kept;
  return ET_OK;
}

static void find_sources(const request *r, const slices *s, size_t kept) {
  int64_t *const inverse = r->inverse->data;
  for (size_t i = 0; i < s->n; i++) {
    size_t at = place_of(r, s, i, kept);
    if (at < kept && has_nan(s, slice_at(s, at))) at += earlier_like(r, s, i);
    inverse[eti_offset_of(r->inverse, i)] = (int64_t)at;
  }
}

// ---- elements without scratch, into less room than there are elements

// The keys that one pass takes: above those of the passes before, and up to a limit that sinks
// whenever the room overflows.
typedef struct range {
  bool has_least, has_most;
  uint64_t least, most;  // key > least, key ≤ most
} range;

static uint64_t key_at(const slices *s, size_t i) {
  return s->key(slice_at(s, i));
}

// Sorts room [kept, *end) and drops repeats; where more than half is left, so is the upper part,
// for another pass.
static void compact(const slices *s, size_t kept, size_t limit, size_t *end, range *keys) {
  slices part = *s;
  part.data = s->data + kept * s->bytes;
  part.n = *end - kept;
  sort_slices(&part);
  size_t left = 0;
  for (size_t i = 0; i < part.n; i++) {
    if (left > 0 && key_at(&part, left - 1) == key_at(&part, i)) continue;
    if (left != i) memmove(part.data + left * s->bytes, slice_at(&part, i), s->bytes);
    left++;
  }
  const size_t half = (limit - kept + 1) / 2;
  if (left > half) {
    left = half;
    keys->has_most = true;
    keys->most = key_at(&part, left - 1);
  }
  *end = kept + left;
}

// One pass over the input: the least half of the room's worth of distinct elements, at least,
// behind those kept before. NaN stay for the end.
static et_status gather_pass(const et_kernel_ctx *ctx, const request *r, const slices *s,
                             size_t *kept, range *keys) {
  const size_t limit = r->out->capacity;
  size_t end = *kept;
  for (size_t i = 0; i < s->n; i++) {
    const char *const x = input_at(r, i, 1, 0);
    const uint64_t key = s->key(x);
    if ((s->is_float && key == ETI_KEY_NAN(s->bytes)) || (keys->has_least && key <= keys->least) ||
        (keys->has_most && key > keys->most))
      continue;
    if (end == limit) {
      ET_TRY(check_room(ctx, r, s, *kept + 1));
      compact(s, *kept, limit, &end, keys);
      if (keys->has_most && key > keys->most) continue;
      if (end == limit && key == key_at(s, end - 1)) continue;  // in a room of one
      ET_TRY(check_room(ctx, r, s, end + 1));
    }
    memmove(s->data + end++ * s->bytes, x, s->bytes);
  }
  compact(s, *kept, SIZE_MAX / 2, &end, keys);  // without a limit
  *kept = end;
  return ET_OK;
}

static et_status gather(const et_kernel_ctx *ctx, const request *r, const slices *s,
                        size_t *n_kept) {
  range keys = {false, false, 0, 0};
  size_t kept = 0;
  do {
    keys.has_most = false;
    ET_TRY(gather_pass(ctx, r, s, &kept, &keys));
    keys.has_least = true;
    keys.least = keys.most;
  } while (keys.has_most);
  for (size_t i = 0; i < s->n && s->is_float; i++) {
    if (s->key(input_at(r, i, 1, 0)) != ETI_KEY_NAN(s->bytes)) continue;
    ET_TRY(check_room(ctx, r, s, kept + 1));
    memmove(s->data + kept++ * s->bytes, input_at(r, i, 1, 0), s->bytes);
  }
  *n_kept = kept;
  return check_room(ctx, r, s, kept);
}

// Counts and places of elements among those kept; the NaN are the last ones, as they came.
static void find_elements(const request *r, const slices *s, size_t kept) {
  int64_t *const counts = r->counts->data, *const inverse = r->inverse->data;
  size_t n_nan = 0;
  for (size_t i = 0; i < kept && r->wants_counts; i++) counts[i] = 0;
  for (size_t i = 0; i < s->n; i++) {
    size_t at = place_of(r, s, i, kept);
    if (at < kept && s->is_float && key_at(s, at) == ETI_KEY_NAN(s->bytes)) at += n_nan++;
    if (at >= kept) continue;  // only when memory overlaps
    if (r->wants_counts) counts[at]++;
    if (r->wants_inverse) inverse[eti_offset_of(r->inverse, i)] = (int64_t)at;
  }
}

// ---- in the order of positions

// The slices of the input one after the other, as they lie or copied to scratch.
typedef struct source {
  slices s;
  const request *r;
  bool inverse_in_rows;
} source;

// The output may overlap the input in a damaged file.
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

// Takes slice i as the k-th, which is a new one or the last one again. Counts are the numbers of
// slices up to and with each kept one for now.
static et_status take(const et_kernel_ctx *ctx, const source *from, size_t k, size_t i, bool is_new,
                      size_t *kept) {
  const request *const r = from->r;
  const size_t bytes = from->s.m * from->s.bytes;
  if (is_new) {
    ET_TRY(check_room(ctx, r, &from->s, *kept + 1));
    copy_slice((char *)r->out->data + *kept * bytes, slice_at(&from->s, i), bytes);
    ++*kept;
  }
  if (r->wants_counts) ((int64_t *)r->counts->data)[*kept - 1] = (int64_t)k + 1;
  if (r->wants_inverse) set_inverse(from, i, *kept - 1);
  return ET_OK;
}

static void count_each(const request *r, size_t kept) {
  int64_t *const counts = r->counts->data;
  for (size_t i = kept; r->wants_counts && i-- > 1;)
    counts[i] = (int64_t)((uint64_t)counts[i] - (uint64_t)counts[i - 1]);
}

enum { BLOCK = 256 };

// Up to BLOCK elements: their positions and whether each is a new one.
typedef struct element_block {
  size_t first, n;
  uint32_t at[BLOCK];
  uint8_t is_new[BLOCK];
} element_block;

// Where there is room for all: no branch asks whether an element is new.
static inline __attribute__((always_inline)) size_t take_block(const source *from,
                                                               const element_block *b, size_t kept,
                                                               const size_t bytes) {
  const request *const r = from->r;
  // Copied, since what is written could be any of it as far as a compiler knows.
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

static et_status take_any(const et_kernel_ctx *ctx, const source *from, const element_block *b,
                          size_t *kept) {
  const request *const r = from->r;
  const bool has_room =
      *kept + b->n < r->out->capacity && (!r->wants_counts || *kept + b->n < r->counts->capacity);
  if (!has_room || (r->wants_inverse && !from->inverse_in_rows)) {
    for (size_t j = 0; j < b->n; j++)
      ET_TRY(take(ctx, from, b->first + j, b->at[j], b->is_new[j] != 0, kept));
    return ET_OK;
  }
  switch (from->s.bytes) {
    case 8:
      *kept = take_block(from, b, *kept, 8);
      break;
    case 4:
      *kept = take_block(from, b, *kept, 4);
      break;
    case 2:
      *kept = take_block(from, b, *kept, 2);
      break;
    default:
      *kept = take_block(from, b, *kept, 1);
      break;
  }
  return ET_OK;
}

// Elements whose sorted positions are given; NULL: as they come.
static et_status take_elements(const et_kernel_ctx *ctx, const source *from, const uint64_t *sorted,
                               size_t *kept) {
  const slices *const s = &from->s;
  const uint64_t nan = s->is_float ? ETI_KEY_NAN(s->bytes) : 0;
  const bool keys_at_hand = sorted != NULL && s->bytes < 8;
  uint64_t keys[BLOCK], last = 0;
  element_block b;
  for (b.first = 0; b.first < s->n; b.first += BLOCK) {
    b.n = s->n - b.first < BLOCK ? s->n - b.first : BLOCK;
    for (size_t j = 0; j < b.n; j++)
      b.at[j] = sorted == NULL ? (uint32_t)(b.first + j) : (uint32_t)sorted[b.first + j];
    if (sorted == NULL) {
      eti_order_rows[from->r->self->dtype](slice_at(s, b.first), (ptrdiff_t)s->bytes, b.n, keys);
    } else {
      for (size_t j = 0; j < b.n; j++)
        keys[j] = keys_at_hand ? sorted[b.first + j] >> 32 : s->key(slice_at(s, b.at[j]));
    }
    for (size_t j = 0; j < b.n; j++) {
      b.is_new[j] = (keys[j] != last) | (s->is_float && keys[j] == nan);
      last = keys[j];
    }
    if (b.first == 0) b.is_new[0] = 1;
    ET_TRY(take_any(ctx, from, &b, kept));
  }
  return ET_OK;
}

static et_status take_slices(const et_kernel_ctx *ctx, const source *from, const uint64_t *sorted,
                             size_t *kept) {
  const slices *const s = &from->s;
  for (size_t k = 0; k < s->n; k++) {
    const size_t i = sorted == NULL ? k : (size_t)sorted[k];
    const size_t before = k == 0 ? 0 : sorted == NULL ? k - 1 : (size_t)sorted[k - 1];
    const bool is_new = k == 0 || !equal(s, slice_at(s, before), slice_at(s, i));
    ET_TRY(take(ctx, from, k, i, is_new, kept));
  }
  return ET_OK;
}

// Positions of the slices in their order, those of equal ones ascending, by merging longer and
// longer runs; in work or work + n.
static const uint64_t *sort_positions(const slices *s, uint64_t *work) {
  uint64_t *a = work, *b = work + s->n;
  for (size_t i = 0; i < s->n; i++) a[i] = i;
  for (size_t run = 1; run < s->n; run *= 2) {
    for (size_t begin = 0; begin < s->n; begin += 2 * run) {
      const size_t middle = s->n - begin < run ? s->n : begin + run,
                   end = s->n - begin < 2 * run ? s->n : begin + 2 * run;
      size_t i = begin, j = middle;
      for (size_t k = begin; k < end; k++) {
        const bool left = j == end || (i < middle && compare(s, slice_at(s, (size_t)a[i]),
                                                             slice_at(s, (size_t)a[j])) <= 0);
        b[k] = left ? a[i++] : a[j++];
      }
    }
    uint64_t *const sorted = b;
    b = a;
    a = sorted;
  }
  return a;
}

// Scratch: two numbers for each slice, and the input once more.
static size_t sort_bytes(size_t n, size_t numel, size_t bytes) {
  return 2 * n * sizeof(uint64_t) + numel * bytes;
}

static et_status unique_through(const et_kernel_ctx *ctx, const request *r, const slices *s,
                                size_t *kept) {
  const et_tensor *const self = r->self;
  source from = {*s, r, eti_is_contiguous(r->inverse)};
  uint64_t *const work = ctx->scratch;
  from.s.data = self->data;
  if (!eti_is_contiguous(self)) {
    from.s.data = (char *)(work + 2 * s->n);
    const eti_view given = eti_view_of(self);
    eti_view rows = given;
    ptrdiff_t stride = 1;
    for (size_t d = self->rank; d-- > 0; stride *= self->sizes[d]) rows.strides[d] = stride;
    eti_copy_views(ctx->pool, from.s.data, &rows, self->data, &given, s->bytes);
  }
  const uint64_t *sorted = NULL;
  if (r->sorts)
    sorted = s->m == 1
                 ? eti_order_positions(self->dtype, from.s.data, (ptrdiff_t)s->bytes, s->n, 0, work)
                 : sort_positions(&from.s, work);
  ET_TRY(s->m == 1 ? take_elements(ctx, &from, sorted, kept)
                   : take_slices(ctx, &from, sorted, kept));
  count_each(r, *kept);
  return ET_OK;
}

// ---- operators

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
  const size_t needs = eti_is_contiguous(self) && !r->sorts ? 0  // it is read in order
                                                            : sort_bytes(n, self->numel, s.bytes);
  if (ctx->scratch_bytes >= needs && n <= UINT32_MAX) {
    ET_TRY(unique_through(ctx, r, &s, &kept));
  } else if (!r->sorts) {
    ET_TRY(collect_neighbours(ctx, r, &s, &kept));
  } else if (s.m == 1) {
    ET_TRY(gather(ctx, r, &s, &kept));
    if (r->wants_inverse || r->wants_counts) find_elements(r, &s, kept);
  } else {
    if (r->out->capacity >= self->numel && (!r->wants_counts || r->counts->capacity >= n)) {
      eti_copy_in_order(r->out, self, 0);
      sort_slices(&s);
      kept = drop_repeats(r, &s);
    } else {
      ET_TRY(collect(ctx, r, &s, &kept));
    }
    if (r->wants_inverse) find_sources(r, &s, kept);
  }
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

// Eager torch numbers and counts slices whether asked to or not, other than those of one element
// where they follow each other: what was planned says.
static void by_slice(request *r) {
  r->by_slice = true;
  r->wants_inverse = r->wants_inverse || r->inverse->capacity > 0;
  r->wants_counts = r->wants_counts || r->counts->capacity > 0;
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
  request r = {.sorts = true};
  int64_t dim = 0;
  ET_TRY(read_request(ctx, args, 3, 5, &r));
  by_slice(&r);
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
  if (r.by_slice) {
    by_slice(&r);
    ET_TRY(check_dim(ctx, r.self, dim));
  }
  return unique(ctx, &r);
}

// Scratch for positions, and for a copy where the input does not lie in rows.
static et_status prepare_unique(et_prepare_ctx *ctx, et_value *const *args, bool by_slice) {
  enum { MAX_SCRATCH = 64 * 1024 * 1024 };  // bytes; without, it takes more time
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
