// arena.h — a bump allocator over the caller's memory, with a mode that only counts.
//
//   base (64-aligned)                                              base + size
//   | claim | pad | claim | claim | pad | claim |  … unused …        |
//                                               ^ base + used
//
// The order of the claims decides the layout. Measuring makes the same claims and gets NULL for
// each, so the total is exactly the size that filling needs. Claims are never released.
//
// An arena has three phases: eti_arena_over() or eti_arena_counting() begins it, claims follow,
// eti_arena_end() ends it. In debug and sanitizer builds, unused bytes and pads are poisoned until
// the end (poison.h); only then may the caller use the memory for something else.
#ifndef ET_ARENA_H
#define ET_ARENA_H

#include "runtime/check.h"
#include "runtime/et.h"
#include "runtime/poison.h"

typedef struct et_arena {
  uint8_t *base;
  size_t size;  // ignored while measuring
  size_t used;
  bool measuring;  // count only
  bool failed;     // a claim did not fit (or overflowed)
} et_arena;

// The part of memory that begins at a multiple of 64; empty for NULL.
et_span eti_span_aligned(et_span memory);

// An arena over the aligned part of memory.
et_arena eti_arena_over(et_span memory);
et_arena eti_arena_counting(void);

// Memory for n items of item_bytes each; align is a power of two ≤ 64. NULL while measuring and
// when the arena is full.
void *eti_arena_claim(et_arena *arena, size_t n, size_t item_bytes, size_t align);

// Status after a NULL claim: ET_OK while measuring, else ET_OUT_OF_MEMORY with both sizes.
et_status eti_arena_status(const et_arena *arena, et_error *err);

// Ends the arena: asserts that nobody wrote to unused bytes, and makes the memory usable again.
// Does nothing for a zeroed or counting arena.
static inline void eti_arena_end(const et_arena *arena) {
#if ETI_POISON
  if (arena->measuring || arena->base == NULL) return;
  if (arena->used <= arena->size)
    ET_ASSERT(eti_is_poisoned(arena->base + arena->used, arena->size - arena->used));
  eti_unpoison(arena->base, arena->size);
#else
  (void)arena;
#endif
}

#define ETI_CLAIM(arena, type, n) \
  ((type *)eti_arena_claim((arena), (n), sizeof(type), _Alignof(type)))

#endif  // ET_ARENA_H
