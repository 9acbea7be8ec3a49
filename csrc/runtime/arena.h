// arena.h — a bump allocator over the caller's memory, with a mode that only counts.
// The layout of everything in an arena is decided by the order of the claims; measuring makes the
// same claims and gets NULL for each, so that the figure it arrives at is what filling will need.
// It never gives memory back.
//
//   base (64-aligned)                                              base + size
//   | claim | pad | claim | claim | pad | claim |  … unused …        |
//                                               ^ base + used
#ifndef ET_ARENA_H
#define ET_ARENA_H

#include "runtime/check.h"
#include "runtime/et.h"

typedef struct et_arena {
  uint8_t *base;
  size_t size;  // ignored while measuring
  size_t used;
  bool measuring;  // count only
  bool failed;     // a claim did not fit (or overflowed)
} et_arena;

// An arena over memory; a base that is not 64-aligned loses the bytes before the first aligned one.
et_arena eti_arena_over(et_span memory);
et_arena eti_arena_counting(void);

// bytes for n items of one size; align is a power of two ≤ 64. NULL while measuring and when there
// is no room.
void *eti_arena_claim(et_arena *arena, size_t n, size_t item_bytes, size_t align);

// What a NULL claim means: ET_OK while measuring, else ET_OUT_OF_MEMORY with the figures.
et_status eti_arena_status(const et_arena *arena, et_error *err);

#define ETI_CLAIM(arena, type, n) \
  ((type *)eti_arena_claim((arena), (n), sizeof(type), _Alignof(type)))

#endif  // ET_ARENA_H
