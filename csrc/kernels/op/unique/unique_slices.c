// unique_slices.c — the order of slices, see unique.h.
#include "kernels/op/unique/unique.h"

#include "kernels/kernel.h"

int eti_slices_compare(const eti_slices *s, const char *a, const char *b) {
  for (size_t k = 0; k < s->m; k++) {
    const uint64_t x = s->key(a + k * s->bytes), y = s->key(b + k * s->bytes);
    if (x != y) return x < y ? -1 : 1;
  }
  return 0;
}

bool eti_slice_has_nan(const eti_slices *s, const char *a) {
  for (size_t k = 0; s->is_float && k < s->m; k++) {
    if (s->key(a + k * s->bytes) == ETI_KEY_NAN(s->bytes)) return true;
  }
  return false;
}

bool eti_slices_equal(const eti_slices *s, const char *a, const char *b) {
  return eti_slices_compare(s, a, b) == 0 && !eti_slice_has_nan(s, a);
}

et_status eti_distinct_room(const et_kernel_ctx *ctx, const eti_distinct *r, const eti_slices *s,
                            size_t kept) {
  ET_CHECK(kept * s->m <= r->out->capacity && (!r->wants_counts || kept <= r->counts->capacity),
           ctx->err, ET_NOT_SUPPORTED,
           "expected at most %zu distinct elements, as planned, got more", kept - 1);
  return ET_OK;
}
