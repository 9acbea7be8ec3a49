// build_arena.h — memory of a graph, taken through XNNPACK's allocator and given back all at once.
// No single block is freed: a heap lives as long as what it is for (the build, or the graph).
#ifndef ET_XNNPACK_HEAP_H
#define ET_XNNPACK_HEAP_H

#include "runtime/et.h"

#include <xnnpack.h>

#include <stddef.h>

typedef struct eti_xnn_heap {
  const struct xnn_allocator *allocator;
  struct eti_xnn_block *last;
} eti_xnn_heap;

// n × bytes zeroed bytes at a multiple of 64, with XNN_EXTRA_BYTES more behind them that may be
// read; at least one byte. ET_DELEGATE_OUT_OF_MEMORY when there are none.
et_status eti_xnn_take(eti_xnn_heap *heap, size_t n, size_t bytes, void **out, et_error *err);
void eti_xnn_release(eti_xnn_heap *heap);

#endif  // ET_XNNPACK_HEAP_H
