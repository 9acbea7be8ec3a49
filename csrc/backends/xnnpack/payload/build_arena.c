// build_arena.c — see build_arena.h. Blocks form a list; each begins with its record. The pad
// behind the record and that at the end of a block are poisoned (poison.h) until it is freed, the
// whole block from then on.
#include "backends/xnnpack/payload/build_arena.h"

#include "runtime/bytes.h"
#include "runtime/check.h"
#include "runtime/poison.h"

#include <string.h>

#define ALIGN 64

// Layout: record | pad to ALIGN | bytes | XNN_EXTRA_BYTES of zeros | pad to ALIGN
typedef struct eti_xnn_arena_block {
  struct eti_xnn_arena_block *before;
  size_t bytes, total;
} eti_xnn_arena_block;
_Static_assert(sizeof(eti_xnn_arena_block) <= ALIGN, "the record of a block precedes its bytes");

#if ETI_POISON
static uint8_t *end_of(eti_xnn_arena_block *block) {
  return (uint8_t *)block + ALIGN + block->bytes + XNN_EXTRA_BYTES;
}

static size_t pad_at_end(eti_xnn_arena_block *block) {
  return block->total - ALIGN - block->bytes - XNN_EXTRA_BYTES;
}

static void poison_pads(eti_xnn_arena_block *block) {
  eti_poison(block + 1, ALIGN - sizeof *block);
  eti_poison(end_of(block), pad_at_end(block));
}

// Poisons a block that is freed. Its pads and the zeros behind its bytes are as they were, else
// somebody wrote past the end of a block.
static void poison_freed(eti_xnn_arena_block *block) {
  static const uint8_t zeros[XNN_EXTRA_BYTES];
  ET_ASSERT(eti_is_poisoned(block + 1, ALIGN - sizeof *block) &&
            eti_is_poisoned(end_of(block), pad_at_end(block)));
  ET_ASSERT(memcmp(end_of(block) - XNN_EXTRA_BYTES, zeros, XNN_EXTRA_BYTES) == 0);
  (void)zeros;
  eti_poison(block, block->total);
}
#endif

et_status eti_xnn_build_arena_alloc(eti_xnn_build_arena *arena, size_t n, size_t bytes, void **out,
                                    et_error *err) {
  ET_ASSERT(arena->allocator != NULL && out != NULL);
  const struct xnn_allocator *allocator = arena->allocator;
  size_t used = 0, total = 0;
  eti_xnn_arena_block *block = NULL;
  if (eti_mul(n, bytes, &used) && eti_add(used, 2 * ALIGN + XNN_EXTRA_BYTES, &total)) {
    total -= total % ALIGN;
    block = allocator->aligned_allocate(allocator->context, ALIGN, total);
  }
  ET_CHECK(block != NULL, err, ET_DELEGATE_OUT_OF_MEMORY,
           "out of memory: %zu × %zu bytes for the XNNPACK graph", n, bytes);
  ET_ASSERT(eti_is_aligned(block, ALIGN));
  memset(block, 0, total);
  *block = (eti_xnn_arena_block){.before = arena->last, .bytes = used, .total = total};
#if ETI_POISON
  poison_pads(block);
#endif
  arena->last = block;
  *out = (uint8_t *)block + ALIGN;
  return ET_OK;
}

void eti_xnn_build_arena_free(eti_xnn_build_arena *arena) {
  ET_ASSERT(arena->last == NULL || arena->allocator != NULL);
  const struct xnn_allocator *allocator = arena->allocator;
  while (arena->last != NULL) {
    eti_xnn_arena_block *const block = arena->last;
    ET_ASSERT(eti_is_aligned(block, ALIGN) && block->total % ALIGN == 0);
    arena->last = block->before;
#if ETI_POISON
    poison_freed(block);
#endif
    allocator->aligned_deallocate(allocator->context, block);
  }
}
