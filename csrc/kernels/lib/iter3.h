// iter3.h — a walk over three strided views of one shape, row by row in logical order. Relies on
// shapes. Knows neither element types nor the operation on a row.
#ifndef ET_ITER3_H
#define ET_ITER3_H

#include "kernels/lib/shape.h"

#include <string.h>

typedef struct eti_iter3 {
  eti_shape shape;  // rank ≥ 1
  ptrdiff_t strides[3][ET_MAX_RANK];
  ptrdiff_t at[3];  // of the current row
  int32_t index[ET_MAX_RANK];
} eti_iter3;

static inline void eti_iter3_begin(eti_iter3 *l, const eti_shape *shape) {
  memset(l, 0, sizeof *l);
  l->shape = *shape;
  if (l->shape.rank == 0) l->shape = (eti_shape){.rank = 1, .sizes = {1}};
}

// Strides of a tensor broadcast to the shape, aligned at the last dimension.
static inline void eti_iter3_set(eti_iter3 *l, size_t i, const et_tensor *t) {
  for (size_t d = 0; d < t->rank; d++) {
    l->strides[i][d + l->shape.rank - t->rank] = t->sizes[d] == 1 ? 0 : t->strides[d];
  }
}

static inline bool eti_iter3_empty(const eti_iter3 *l) {
  for (size_t d = 0; d < l->shape.rank; d++) {
    if (l->shape.sizes[d] == 0) return true;
  }
  return false;
}

static inline bool eti_iter3_next(eti_iter3 *l) {
  for (size_t d = l->shape.rank - 1; d-- > 0;) {
    const bool carries = ++l->index[d] == l->shape.sizes[d];
    const ptrdiff_t steps = carries ? 1 - (ptrdiff_t)l->index[d] : 1;
    for (size_t i = 0; i < 3; i++) l->at[i] += steps * l->strides[i][d];
    if (!carries) return true;
    l->index[d] = 0;
  }
  return false;
}

// Copies one element of up to 16 bytes.
static inline void eti_copy_one(char *dst, const char *src, size_t bytes) {
  char value[16];
  memcpy(value, src, bytes);
  memcpy(dst, value, bytes);
}

#endif  // ET_ITER3_H
