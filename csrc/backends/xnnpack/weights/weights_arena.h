// weights_arena.h — an arena for packed weights, which are made together and live long. It consists
// of chunks of pages. Many pages are populated at a time, as huge pages if these are fast. This
// saves most of the page faults of a load and of the TLB misses of every run. A chunk is unmapped
// with the last of its blocks; blocks may live longer than the arena. Small weights are separate
// allocations. Relies on alloc_region.h.
#ifndef ET_XNNPACK_WEIGHTS_ARENA_H
#define ET_XNNPACK_WEIGHTS_ARENA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct eti_xnn_weights_chunk eti_xnn_weights_chunk;

// Allocation is for one thread at a time.
typedef struct eti_xnn_weights_arena {
  eti_xnn_weights_chunk *last;  // the only one that may have room
  size_t expected;              // bytes that the owner expects to allocate
} eti_xnn_weights_arena;

// Memory aligned to 64.
typedef struct eti_xnn_weights_block {
  void *data;
  eti_xnn_weights_chunk *chunk;  // NULL: a separate allocation
} eti_xnn_weights_block;

// False without memory. Outside of any region of alloc_region.h.
bool eti_xnn_weights_arena_alloc(eti_xnn_weights_arena *arena, size_t bytes,
                                 eti_xnn_weights_block *out);
void eti_xnn_weights_arena_deinit(eti_xnn_weights_arena *arena);  // blocks stay
void eti_xnn_weights_block_free(eti_xnn_weights_block block);     // any thread

#endif  // ET_XNNPACK_WEIGHTS_ARENA_H
