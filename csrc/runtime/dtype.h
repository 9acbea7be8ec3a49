// dtype.h — facts of element types that the public header does not show, and packed name lists.
#ifndef ET_DTYPE_H
#define ET_DTYPE_H

#include "runtime/et.h"

// The alignment that elements need: their size, at most 8.
size_t eti_dtype_align(et_dtype dtype);

// The i-th of several NUL-terminated texts stored one after another; the caller knows that there
// are more than i.
static inline const char *eti_nth_text(const char *texts, size_t i) {
  for (; i > 0; i--) {
    while (*texts != '\0') texts++;
    texts++;
  }
  return texts;
}

#endif  // ET_DTYPE_H
