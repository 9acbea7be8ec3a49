// build_arena.c — see build_arena.h. Blocks form a list; each begins with its link.
#include "backends/xnnpack/payload/build_arena.h"

#include "runtime/bytes.h"
#include "runtime/check.h"

#include <string.h>

#define ALIGN 64

typedef struct eti_xnn_arena_block {
  struct eti_xnn_arena_block *before;
} eti_xnn_arena_block;
_Static_assert(sizeof(eti_xnn_arena_block) <= ALIGN, "the link of a block precedes its bytes");

et_status eti_xnn_build_arena_alloc(eti_xnn_build_arena *arena, size_t n, size_t bytes, void **out,
                                    et_error *err) {
  const struct xnn_allocator *allocator = arena->allocator;
  size_t total = 0;
  eti_xnn_arena_block *block = NULL;
  if (eti_mul(n, bytes, &total) && eti_add(total, 2 * ALIGN + XNN_EXTRA_BYTES, &total)) {
    total -= total % ALIGN;
    block = allocator->aligned_allocate(allocator->context, ALIGN, total);
  }
  ET_CHECK(block != NULL, err, ET_DELEGATE_OUT_OF_MEMORY,
           "out of memory: %zu × %zu bytes for the XNNPACK graph", n, bytes);
  memset(block, 0, total);
  block->before = arena->last;
  arena->last = block;
  *out = (uint8_t *)block + ALIGN;
  return ET_OK;
}

void eti_xnn_build_arena_free(eti_xnn_build_arena *arena) {
  const struct xnn_allocator *allocator = arena->allocator;
  while (arena->last != NULL) {
    eti_xnn_arena_block *before = arena->last->before;
    allocator->aligned_deallocate(allocator->context, arena->last);
    arena->last = before;
  }
}
