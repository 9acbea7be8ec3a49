// build_arena.h — an arena over XNNPACK's allocator: blocks are freed all at once. A graph has one
// for the time of its build and one for its own life.
#ifndef ET_XNNPACK_BUILD_ARENA_H
#define ET_XNNPACK_BUILD_ARENA_H

#include <xnnpack.h>

#include <stddef.h>

#include "runtime/et.h"

typedef struct eti_xnn_build_arena {
  const struct xnn_allocator *allocator;
  struct eti_xnn_arena_block *last;
} eti_xnn_build_arena;

// Allocates n × bytes zeroed bytes, aligned to 64, followed by XNN_EXTRA_BYTES that may be read;
// *out is never NULL. ET_DELEGATE_OUT_OF_MEMORY without memory.
et_status eti_xnn_build_arena_alloc(eti_xnn_build_arena *arena, size_t n, size_t bytes, void **out,
                                    et_error *err);
void eti_xnn_build_arena_free(eti_xnn_build_arena *arena);

#endif  // ET_XNNPACK_BUILD_ARENA_H
