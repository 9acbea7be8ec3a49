// accumulate.h — in-place addition of elements, one after the other, for operators with repeated
// targets (scatter_add, index_put). Relies on et_dtype alone. Halves add in f32 and round after
// every addition; bool is a logical or.
#ifndef ET_ACCUMULATE_H
#define ET_ACCUMULATE_H

#include "runtime/et.h"

// dst[i] += src[i], i ascending. Strides in bytes, any sign or 0.
typedef void (*eti_accumulate_fn)(void *dst, ptrdiff_t dst_stride, const void *src,
                                  ptrdiff_t src_stride, size_t n);

extern const eti_accumulate_fn eti_accumulates[ET_DTYPE_COUNT];  // NULL where there is no addition

#endif  // ET_ACCUMULATE_H
