// weights_arena.h — memory for packed weights, many of which are made at once and stay: taken from
// slabs of pages that are brought to memory many at once, huge ones where that is quick: this
// spares most of the faults that a load would have and of the translations that every run would. A
// slab goes when all that was taken from it has gone; others may hold it longer than the owner of
// its slabs lives. Small weights are blocks of their own. Relies on alloc_region.h.
#ifndef ET_XNNPACK_SLABS_H
#define ET_XNNPACK_SLABS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct eti_xnn_slab eti_xnn_slab;

// One owner's; taking is for one thread at a time.
typedef struct eti_xnn_slabs {
  eti_xnn_slab *last;  // where there may be room
  size_t expected;     // bytes that will be taken, as far as the owner knows
} eti_xnn_slabs;

// A 64-aligned piece.
typedef struct eti_xnn_piece {
  void *data;
  eti_xnn_slab *slab;  // NULL: a block of its own
} eti_xnn_piece;

// False without memory. Outside of any region.
bool eti_xnn_slabs_take(eti_xnn_slabs *slabs, size_t bytes, eti_xnn_piece *out);
void eti_xnn_slabs_deinit(eti_xnn_slabs *slabs);  // what was taken stays
void eti_xnn_piece_release(eti_xnn_piece piece);  // by any thread

#endif  // ET_XNNPACK_SLABS_H
