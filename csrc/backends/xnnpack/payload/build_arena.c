// build_arena.c — see build_arena.h. Blocks are a list; each starts with its link.
#include "backends/xnnpack/payload/build_arena.h"

#include "runtime/bytes.h"
#include "runtime/check.h"

#include <string.h>

#define ALIGN 64

typedef struct eti_xnn_block {
  struct eti_xnn_block *before;
} eti_xnn_block;
_Static_assert(sizeof(eti_xnn_block) <= ALIGN, "a block's link lies in front of its bytes");

et_status eti_xnn_take(eti_xnn_heap *heap, size_t n, size_t bytes, void **out, et_error *err) {
  const struct xnn_allocator *allocator = heap->allocator;
  size_t total = 0;
  eti_xnn_block *block = NULL;
  if (eti_mul(n, bytes, &total) && eti_add(total, 2 * ALIGN + XNN_EXTRA_BYTES, &total)) {
    total -= total % ALIGN;
    block = allocator->aligned_allocate(allocator->context, ALIGN, total);
  }
  ET_CHECK(block != NULL, err, ET_DELEGATE_OUT_OF_MEMORY,
           "no memory for %zu × %zu bytes of the XNNPACK graph", n, bytes);
  memset(block, 0, total);
  block->before = heap->last;
  heap->last = block;
  *out = (uint8_t *)block + ALIGN;
  return ET_OK;
}

void eti_xnn_release(eti_xnn_heap *heap) {
  const struct xnn_allocator *allocator = heap->allocator;
  while (heap->last != NULL) {
    eti_xnn_block *before = heap->last->before;
    allocator->aligned_deallocate(allocator->context, heap->last);
    heap->last = before;
  }
}
