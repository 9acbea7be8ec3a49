// value_shape.h — the shape of a value: an argument of the delegate call or an operand of a node.
// Sizes are in memory order.
#ifndef ET_XNNPACK_VALUE_SHAPE_H
#define ET_XNNPACK_VALUE_SHAPE_H

#include <xnnpack.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct eti_xnn_shape {
  uint32_t rank;
  size_t dims[XNN_MAX_TENSOR_DIMS];  // those at and after rank are 0
} eti_xnn_shape;

static inline bool eti_xnn_same_shape(const eti_xnn_shape *a, const eti_xnn_shape *b) {
  return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof a->dims[0]) == 0;
}

#endif  // ET_XNNPACK_VALUE_SHAPE_H
