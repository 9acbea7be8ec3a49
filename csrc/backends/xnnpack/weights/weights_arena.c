// weights_arena.c — see weights_arena.h. A slab begins with its record; what was expected is one
// slab, so that no more than its last huge page is half used.
#include "backends/xnnpack/weights/weights_arena.h"

#include <stdatomic.h>
#include <stdint.h>

#include "backends/xnnpack/alloc_region.h"
#include "runtime/bytes.h"

enum { ALIGN = 64, SMALL_BYTES = 64 * 1024, LEAST_BYTES = 1024 * 1024 };

struct eti_xnn_slab {
  size_t bytes, used;
  eti_xnn_filling filling;
  atomic_size_t n_users;  // pieces, and the owner while it may take more
};
_Static_assert(sizeof(eti_xnn_slab) <= ALIGN, "the first piece lies behind the record");

static void leave(eti_xnn_slab *slab) {
  if (slab != NULL && atomic_fetch_sub(&slab->n_users, 1) == 1)
    eti_xnn_memory_unmap(slab, slab->bytes);
}

// Nothing more will be taken from it.
static void leave_full(eti_xnn_slab *slab) {
  if (slab != NULL) eti_xnn_memory_filled(slab, slab->bytes, &slab->filling);
  leave(slab);
}

static bool add_slab(eti_xnn_slabs *slabs, size_t bytes) {
  size_t whole = bytes > slabs->expected ? bytes : slabs->expected;
  if (whole < LEAST_BYTES) whole = LEAST_BYTES;
  if (!eti_add(whole, ALIGN, &whole)) return false;
  eti_xnn_filling filling;
  eti_xnn_slab *const slab = eti_xnn_memory_map(&whole, &filling);
  if (slab == NULL) return false;
  eti_xnn_memory_fill(slab, whole, ALIGN, &filling);
  slab->filling = filling;
  slab->bytes = whole;
  slab->used = ALIGN;
  atomic_init(&slab->n_users, 1);
  leave_full(slabs->last);
  slabs->last = slab;
  slabs->expected = 0;
  return true;
}

bool eti_xnn_slabs_take(eti_xnn_slabs *slabs, size_t bytes, eti_xnn_piece *out) {
  size_t room;
  if (bytes < SMALL_BYTES) {
    *out = (eti_xnn_piece){.data = eti_xnn_memory_claim(bytes)};
    return out->data != NULL;
  }
  if (!eti_add(bytes, ALIGN - 1, &room)) return false;
  room -= room % ALIGN;
  if ((slabs->last == NULL || slabs->last->bytes - slabs->last->used < room) &&
      !add_slab(slabs, room))
    return false;
  eti_xnn_slab *const slab = slabs->last;
  *out = (eti_xnn_piece){.data = (uint8_t *)slab + slab->used, .slab = slab};
  slab->used += room;
  eti_xnn_memory_fill(slab, slab->bytes, slab->used, &slab->filling);
  atomic_fetch_add(&slab->n_users, 1);
  return true;
}

void eti_xnn_slabs_deinit(eti_xnn_slabs *slabs) {
  leave_full(slabs->last);
  slabs->last = NULL;
}

void eti_xnn_piece_release(eti_xnn_piece piece) {
  if (piece.slab == NULL) {
    eti_xnn_memory_release(piece.data);
  } else {
    leave(piece.slab);
  }
}
