// dtype.h — facts of element types that the public header does not show, and packed name lists.
#ifndef ET_DTYPE_H
#define ET_DTYPE_H

#include "runtime/et.h"

// Alignment of an element: its size, at most 8.
size_t eti_dtype_align(et_dtype dtype);

// Text i of several NUL-terminated texts stored one after another; there must be more than i.
static inline const char *eti_nth_text(const char *texts, size_t i) {
  for (; i > 0; i--) {
    while (*texts != '\0') texts++;
    texts++;
  }
  return texts;
}

#endif  // ET_DTYPE_H
