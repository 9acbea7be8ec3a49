// value_shape.h — the shape of a value of a payload, an argument or an operand: sizes in memory
// order. Shared by the payload's reader, the subgraph's builder and the runs.
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
