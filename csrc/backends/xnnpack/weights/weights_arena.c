// weights_arena.c — see weights_arena.h. A chunk begins with its record. The expected bytes are one
// chunk, so that only its last huge page is partly used.
#include "backends/xnnpack/weights/weights_arena.h"

#include <stdatomic.h>
#include <stdint.h>

#include "backends/xnnpack/alloc_region.h"
#include "runtime/bytes.h"
#include "runtime/check.h"

enum { ALIGN = 64, SMALL_BYTES = 64 * 1024, MIN_CHUNK_BYTES = 1024 * 1024 };

struct eti_xnn_weights_chunk {
  size_t bytes, used;
  eti_xnn_populated populated;
  atomic_size_t n_users;  // blocks, and the arena while it may allocate more
};
_Static_assert(sizeof(eti_xnn_weights_chunk) <= ALIGN, "the first block follows the record");

static void release_chunk(eti_xnn_weights_chunk *chunk) {
  if (chunk != NULL && atomic_fetch_sub(&chunk->n_users, 1) == 1)
    eti_xnn_pages_unmap(chunk, chunk->bytes);
}

// Releases the arena's hold on a chunk from which it will allocate nothing more.
static void close_chunk(eti_xnn_weights_chunk *chunk) {
  if (chunk != NULL) eti_xnn_pages_finish(chunk, chunk->bytes, &chunk->populated);
  release_chunk(chunk);
}

static bool add_chunk(eti_xnn_weights_arena *arena, size_t bytes) {
  size_t whole = bytes > arena->expected ? bytes : arena->expected;
  if (whole < MIN_CHUNK_BYTES) whole = MIN_CHUNK_BYTES;
  if (!eti_add(whole, ALIGN, &whole)) return false;
  eti_xnn_populated populated;
  eti_xnn_weights_chunk *const chunk = eti_xnn_pages_map(&whole, &populated);
  if (chunk == NULL) return false;
  eti_xnn_pages_populate(chunk, whole, ALIGN, &populated);
  chunk->populated = populated;
  chunk->bytes = whole;
  chunk->used = ALIGN;
  atomic_init(&chunk->n_users, 1);
  close_chunk(arena->last);
  arena->last = chunk;
  arena->expected = 0;
  return true;
}

bool eti_xnn_weights_arena_alloc(eti_xnn_weights_arena *arena, size_t bytes,
                                 eti_xnn_weights_block *out) {
  size_t room;
  if (bytes < SMALL_BYTES) {
    *out = (eti_xnn_weights_block){.data = eti_xnn_alloc(bytes)};
    return out->data != NULL;
  }
  if (!eti_add(bytes, ALIGN - 1, &room)) return false;
  room -= room % ALIGN;
  if ((arena->last == NULL || arena->last->bytes - arena->last->used < room) &&
      !add_chunk(arena, room))
    return false;
  eti_xnn_weights_chunk *const chunk = arena->last;
  ET_ASSERT(chunk->used % ALIGN == 0 && room <= chunk->bytes - chunk->used);
  *out = (eti_xnn_weights_block){.data = (uint8_t *)chunk + chunk->used, .chunk = chunk};
  chunk->used += room;
  eti_xnn_pages_populate(chunk, chunk->bytes, chunk->used, &chunk->populated);
  atomic_fetch_add(&chunk->n_users, 1);
  return true;
}

void eti_xnn_weights_arena_deinit(eti_xnn_weights_arena *arena) {
  close_chunk(arena->last);
  arena->last = NULL;
}

void eti_xnn_weights_block_free(eti_xnn_weights_block block) {
  if (block.chunk == NULL) {
    eti_xnn_free(block.data);
  } else {
    release_chunk(block.chunk);
  }
}
