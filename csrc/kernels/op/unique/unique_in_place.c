// unique_in_place.c — distinct elements or slices without scratch. Slices are sorted in the
// output's memory, or inserted one by one if it is too small for all; of elements, as many distinct
// ones as fit are collected in each pass. Counts and inverse follow by searching. A NaN equals
// nothing, so each is distinct. Relies on element.h, copy_op.h and sort_key.h.
#include "kernels/lib/element.h"
#include "kernels/lib/copy_op.h"
#include "kernels/op/unique/unique.h"

#include <string.h>

static void swap_bytes(char *a, char *b, size_t n) {
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

static void sift_down(const eti_slices *s, size_t root, size_t n) {
  const size_t size = s->m * s->bytes;
  for (size_t child = 2 * root + 1; child < n; child = 2 * root + 1) {
    if (child + 1 < n &&
        eti_slices_compare(s, eti_slice_at(s, child), eti_slice_at(s, child + 1)) < 0)
      child++;
    if (eti_slices_compare(s, eti_slice_at(s, root), eti_slice_at(s, child)) >= 0) return;
    swap_bytes(s->data + root * size, s->data + child * size, size);
    root = child;
  }
}

static void sort_slices(const eti_slices *s) {
  const size_t size = s->m * s->bytes;
  for (size_t i = s->n / 2; i-- > 0;) sift_down(s, i, s->n);
  for (size_t end = s->n; end-- > 1;) {
    swap_bytes(s->data, s->data + end * size, size);
    sift_down(s, 0, end);
  }
}

// Keeps the first of equal neighbours.
static size_t drop_repeats(const eti_distinct *r, const eti_slices *s) {
  const size_t size = s->m * s->bytes;
  size_t kept = 0;
  for (size_t i = 0; i < s->n; i++) {
    const bool repeats =
        kept > 0 && eti_slices_equal(s, eti_slice_at(s, kept - 1), eti_slice_at(s, i));
    if (!repeats && kept != i) memmove(s->data + kept * size, eti_slice_at(s, i), size);
    if (!repeats) kept++;
    if (r->wants_counts) {
      int64_t *count = (int64_t *)r->counts->data + (kept - 1);
      *count = repeats ? *count + 1 : 1;
    }
  }
  return kept;
}

// Element k of slice i of the input.
static const char *input_at(const eti_distinct *r, size_t i, size_t m, size_t k) {
  return eti_element(r->self, eti_offset_of(r->self, i * m + k));
}

static int compare_input(const eti_distinct *r, const eti_slices *s, size_t i, const char *b) {
  for (size_t k = 0; k < s->m; k++) {
    const uint64_t x = s->key(input_at(r, i, s->m, k)), y = s->key(b + k * s->bytes);
    if (x != y) return x < y ? -1 : 1;
  }
  return 0;
}

// Counts earlier slices of the input that equal slice i, NaN included.
static size_t earlier_like(const eti_distinct *r, const eti_slices *s, size_t i) {
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
static size_t place_of(const eti_distinct *r, const eti_slices *s, size_t i, size_t kept) {
  size_t low = 0;
  for (size_t high = kept; low < high;) {
    const size_t middle = low + (high - low) / 2;
    if (compare_input(r, s, i, eti_slice_at(s, middle)) > 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Inserts slice i of the input at position `at` among those kept.
static void insert_slice(const eti_distinct *r, const eti_slices *s, size_t i, size_t at,
                         size_t kept) {
  const size_t size = s->m * s->bytes;
  if (size > 0) memmove(s->data + (at + 1) * size, eti_slice_at(s, at), (kept - at) * size);
  for (size_t k = 0; k < s->m; k++)
    memmove(s->data + at * size + k * s->bytes, input_at(r, i, s->m, k), s->bytes);
  if (!r->wants_counts) return;
  int64_t *counts = r->counts->data;
  memmove(counts + at + 1, counts + at, (kept - at) * sizeof *counts);
  counts[at] = 0;
}

// Inserts the slices of the input into sorted order, one by one.
static et_status collect_slices(const et_kernel_ctx *ctx, const eti_distinct *r,
                                const eti_slices *s, size_t *n_kept) {
  size_t kept = 0;
  for (size_t i = 0; i < s->n; i++) {
    const size_t at = place_of(r, s, i, kept);
    const bool repeats = at < kept && compare_input(r, s, i, eti_slice_at(s, at)) == 0 &&
                         !eti_slice_has_nan(s, eti_slice_at(s, at));
    if (!repeats) {
      ET_TRY(eti_distinct_room(ctx, r, s, kept + 1));
      insert_slice(r, s, i, at, kept++);
    }
    if (r->wants_counts) ((int64_t *)r->counts->data)[at]++;
  }
  *n_kept = kept;
  return ET_OK;
}

// Appends the slices of the input one by one.
static et_status collect_neighbours(const et_kernel_ctx *ctx, const eti_distinct *r,
                                    const eti_slices *s, size_t *n_kept) {
  size_t kept = 0;
  for (size_t i = 0; i < s->n; i++) {
    const char *const last = kept > 0 ? eti_slice_at(s, kept - 1) : NULL;
    if (last == NULL || compare_input(r, s, i, last) != 0 || eti_slice_has_nan(s, last)) {
      ET_TRY(eti_distinct_room(ctx, r, s, kept + 1));
      insert_slice(r, s, i, kept, kept);
      kept++;
    }
    if (r->wants_counts) ((int64_t *)r->counts->data)[kept - 1]++;
    if (r->wants_inverse)
      ((int64_t *)r->inverse->data)[eti_offset_of(r->inverse, i)] = (int64_t)kept - 1;
  }
  *n_kept = kept;
  return ET_OK;
}

static void find_sources(const eti_distinct *r, const eti_slices *s, size_t kept) {
  int64_t *const inverse = r->inverse->data;
  for (size_t i = 0; i < s->n; i++) {
    size_t at = place_of(r, s, i, kept);
    if (at < kept && eti_slice_has_nan(s, eti_slice_at(s, at))) at += earlier_like(r, s, i);
    inverse[eti_offset_of(r->inverse, i)] = (int64_t)at;
  }
}

// ---- elements without scratch, in less room than there are elements

// The keys of one pass: above those of earlier passes, and up to a limit that sinks whenever the
// room overflows.
typedef struct range {
  bool has_least, has_most;
  uint64_t least, most;  // key > least, key ≤ most
} range;

static uint64_t key_at(const eti_slices *s, size_t i) {
  return s->key(eti_slice_at(s, i));
}

// Sorts room [kept, *end) and drops repeats; if more than half is left, the upper part is left for
// another pass.
static void compact_room(const eti_slices *s, size_t kept, size_t limit, size_t *end, range *keys) {
  eti_slices part = *s;
  part.data = s->data + kept * s->bytes;
  part.n = *end - kept;
  sort_slices(&part);
  size_t left = 0;
  for (size_t i = 0; i < part.n; i++) {
    if (left > 0 && key_at(&part, left - 1) == key_at(&part, i)) continue;
    if (left != i) memmove(part.data + left * s->bytes, eti_slice_at(&part, i), s->bytes);
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

// One pass over the input: collects at least half of the room's worth of distinct elements, the
// smallest ones, after those kept before. NaN come last.
static et_status gather_pass(const et_kernel_ctx *ctx, const eti_distinct *r, const eti_slices *s,
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
      ET_TRY(eti_distinct_room(ctx, r, s, *kept + 1));
      compact_room(s, *kept, limit, &end, keys);
      if (keys->has_most && key > keys->most) continue;
      if (end == limit && key == key_at(s, end - 1)) continue;  // in a room of one
      ET_TRY(eti_distinct_room(ctx, r, s, end + 1));
    }
    memmove(s->data + end++ * s->bytes, x, s->bytes);
  }
  compact_room(s, *kept, SIZE_MAX / 2, &end, keys);  // without a limit
  *kept = end;
  return ET_OK;
}

static et_status gather_elements(const et_kernel_ctx *ctx, const eti_distinct *r,
                                 const eti_slices *s, size_t *n_kept) {
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
    ET_TRY(eti_distinct_room(ctx, r, s, kept + 1));
    memmove(s->data + kept++ * s->bytes, input_at(r, i, 1, 0), s->bytes);
  }
  *n_kept = kept;
  return eti_distinct_room(ctx, r, s, kept);
}

// Finds counts and positions of elements among those kept; the NaN are the last ones, in their own
// order.
static void find_elements(const eti_distinct *r, const eti_slices *s, size_t kept) {
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

// ---- choice of the method

et_status eti_distinct_in_place(const et_kernel_ctx *ctx, const eti_distinct *r,
                                const eti_slices *s, size_t *n_kept) {
  if (!r->sorts) return collect_neighbours(ctx, r, s, n_kept);
  if (s->m == 1) {
    ET_TRY(gather_elements(ctx, r, s, n_kept));
    if (r->wants_inverse || r->wants_counts) find_elements(r, s, *n_kept);
    return ET_OK;
  }
  const size_t numel = s->n * s->m;
  if (r->out->capacity >= numel && (!r->wants_counts || r->counts->capacity >= s->n)) {
    eti_copy_in_order(r->out, r->self, 0);
    sort_slices(s);
    *n_kept = drop_repeats(r, s);
  } else {
    ET_TRY(collect_slices(ctx, r, s, n_kept));
  }
  if (r->wants_inverse) find_sources(r, s, *n_kept);
  return ET_OK;
}
