// tensor.h — arithmetic on shapes, shared by loading, resizing and setting inputs. Knows no file
// format.
#ifndef ET_TENSOR_H
#define ET_TENSOR_H

#include "runtime/et.h"

// Number of elements of a shape. False when a size is negative or the array (a size of 0 counting
// as 1) would have more than PTRDIFF_MAX bytes. After true, strides and byte offsets of any element
// are exact.
bool eti_shape_numel(const int32_t *sizes, size_t rank, size_t element_bytes, size_t *numel);

// Dense strides for sizes in a dim order, in elements.
void eti_fill_strides(const int32_t *sizes, const uint8_t *dim_order, size_t rank,
                      ptrdiff_t *strides);

bool eti_is_permutation(const uint8_t *dim_order, size_t rank);

// True if two dim orders give the same bytes for these sizes: dimensions of size 1 do not count.
// NULL means 0, 1, 2, …
bool eti_same_order(const int32_t *sizes, const uint8_t *a, const uint8_t *b, size_t rank);

#endif  // ET_TENSOR_H
