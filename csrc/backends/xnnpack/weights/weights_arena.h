// weights_arena.h — an arena for packed weights, many of which are made at once and stay. It
// consists of chunks of pages that are populated many at a time, huge ones where that is quick:
// this saves most of the page faults of a load and of the TLB misses of every run. A chunk is
// unmapped with the last of its blocks; blocks may live longer than the arena. Small weights are
// allocations of their own. Relies on alloc_region.h.
#ifndef ET_XNNPACK_WEIGHTS_ARENA_H
#define ET_XNNPACK_WEIGHTS_ARENA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct eti_xnn_weights_chunk eti_xnn_weights_chunk;

// Allocation is for one thread at a time.
typedef struct eti_xnn_weights_arena {
  eti_xnn_weights_chunk *last;  // the one that may have room
  size_t expected;              // bytes that will be allocated, as far as the owner knows
} eti_xnn_weights_arena;

// Memory aligned to 64.
typedef struct eti_xnn_weights_block {
  void *data;
  eti_xnn_weights_chunk *chunk;  // NULL: an allocation of its own
} eti_xnn_weights_block;

// False without memory. Outside of any region of alloc_region.h.
bool eti_xnn_weights_arena_alloc(eti_xnn_weights_arena *arena, size_t bytes,
                                 eti_xnn_weights_block *out);
void eti_xnn_weights_arena_deinit(eti_xnn_weights_arena *arena);  // blocks stay
void eti_xnn_weights_block_free(eti_xnn_weights_block block);     // any thread

#endif  // ET_XNNPACK_WEIGHTS_ARENA_H
