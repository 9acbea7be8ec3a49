// element.h — single elements of real tensors as f64 or i64, for kernels with an access pattern of
// their own: one load, some arithmetic, one store. Offsets count elements. Relies on the cast
// table; bulk work casts rows instead.
#ifndef ET_ELEMENT_H
#define ET_ELEMENT_H

#include "kernels/micro/convert/cast.h"
#include "runtime/et.h"

static inline char *eti_element(const et_tensor *t, ptrdiff_t at) {
  return (char *)t->data + at * (ptrdiff_t)et_dtype_bytes((et_dtype)t->dtype);
}

static inline double eti_load_f64(const et_tensor *t, ptrdiff_t at) {
  double value;
  switch (t->dtype) {
    case ET_F32:
      return (double)((const float *)t->data)[at];
    case ET_F64:
      return ((const double *)t->data)[at];
    default:
      eti_casts[t->dtype][ET_F64](&value, 0, eti_element(t, at), 0, 1);
      return value;
  }
}

// Stores a value, rounded once; integers saturate or wrap as casts do.
static inline void eti_store_f64(const et_tensor *t, ptrdiff_t at, double value) {
  eti_casts[ET_F64][t->dtype](eti_element(t, at), 0, &value, 0, 1);
}

// An element of an index tensor, i32 or i64.
static inline int64_t eti_load_index(const et_tensor *t, ptrdiff_t at) {
  return t->dtype == ET_I64 ? ((const int64_t *)t->data)[at] : ((const int32_t *)t->data)[at];
}

// Offset of logical element k of a tensor that has elements.
static inline ptrdiff_t eti_offset_of(const et_tensor *t, size_t k) {
  ptrdiff_t offset = 0;
  for (size_t d = t->rank; d-- > 0;) {
    offset += (ptrdiff_t)(k % (size_t)t->sizes[d]) * t->strides[d];
    k /= (size_t)t->sizes[d];
  }
  return offset;
}

#endif  // ET_ELEMENT_H
