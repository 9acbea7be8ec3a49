// unique.h — slices and their order, the request, and the method without scratch: shared by the
// files of distinct elements. Internal to op/unique/. Relies on sort_key.h.
#ifndef ET_OP_UNIQUE_H
#define ET_OP_UNIQUE_H

#include "kernels/kernel.h"
#include "kernels/lib/sort_key.h"

// n slices of m elements each, in rows one after the other.
typedef struct eti_slices {
  char *data;
  size_t n, m, bytes;
  eti_key_fn key;
  bool is_float;
} eti_slices;

static inline const char *eti_slice_at(const eti_slices *s, size_t i) {
  return s->data + i * s->m * s->bytes;
}
// Compares two slices: negative, 0 or positive. All NaN are equal here.
int eti_slices_compare(const eti_slices *s, const char *a, const char *b);
bool eti_slice_has_nan(const eti_slices *s, const char *a);
// True if b repeats a. A slice with a NaN equals nothing.
bool eti_slices_equal(const eti_slices *s, const char *a, const char *b);

// The request of a call and its outputs; counts and inverse are optional.
typedef struct eti_distinct {
  const et_tensor *self;
  et_tensor *out, *inverse, *counts;
  bool by_slice, sorts, wants_inverse, wants_counts;
} eti_distinct;

// Refuses more slices than the planned outputs hold.
et_status eti_distinct_room(const et_kernel_ctx *ctx, const eti_distinct *r, const eti_slices *s,
                            size_t kept);

// Writes all outputs, with *n_kept slices, in their own memory: s->data is that of the first one,
// resized to as many slices as fit.
et_status eti_distinct_in_place(const et_kernel_ctx *ctx, const eti_distinct *r,
                                const eti_slices *s, size_t *n_kept);

#endif  // ET_OP_UNIQUE_H
