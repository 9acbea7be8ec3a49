// arena.c — see arena.h. Also the allocator of prepare steps: the method's arena as kernels and
// backends see it.
#include "runtime/arena.h"

#include "runtime/bytes.h"

et_span eti_span_aligned(et_span memory) {
  uint8_t *base = memory.data;
  const size_t skip = (size_t)(-(uintptr_t)base & (ET_MEMORY_ALIGN - 1));
  const size_t lost = skip < memory.size ? skip : memory.size;
  if (base != NULL) base += lost;
  return (et_span){base, base == NULL ? 0 : memory.size - lost};
}

et_arena eti_arena_over(et_span memory) {
  const et_span aligned = eti_span_aligned(memory);
  const et_arena arena = {.base = aligned.data, .size = aligned.size};
  ET_ASSERT(arena.size == 0 || eti_is_aligned(arena.base, ET_MEMORY_ALIGN));
#if ETI_POISON
  eti_poison(arena.base, arena.size);
#endif
  return arena;
}

et_arena eti_arena_counting(void) {
  const et_arena arena = {.measuring = true};
  return arena;
}

void *eti_arena_claim(et_arena *arena, size_t n, size_t item_bytes, size_t align) {
  ET_ASSERT(align > 0 && (align & (align - 1)) == 0);
  ET_ASSERT(arena->measuring || align <= ET_MEMORY_ALIGN);  // the base's alignment
  ET_ASSERT(arena->measuring || arena->failed || arena->used <= arena->size);
  size_t begin, bytes, end;
  if (!eti_add(arena->used, align - 1, &begin) || !eti_mul(n, item_bytes, &bytes)) {
    arena->failed = true;
    return NULL;
  }
  begin &= ~(align - 1);
  if (!eti_add(begin, bytes, &end)) {
    arena->failed = true;
    return NULL;
  }
#if ETI_POISON
  const size_t used = arena->used;
#endif
  arena->used = end;  // keeps counting past the end: the error tells the size needed so far
  if (arena->measuring) return NULL;
  if (end > arena->size) {
    arena->failed = true;
    return NULL;
  }
  void *const claim = arena->base + begin;
#if ETI_POISON
  ET_ASSERT(eti_is_poisoned(arena->base + used, end - used));  // else an earlier claim was overrun
  eti_unpoison(claim, bytes);
#endif
  ET_ASSERT(eti_is_aligned(claim, align));
  return claim;
}

et_status eti_arena_status(const et_arena *arena, et_error *err) {
  ET_CHECK(!arena->failed, err, ET_OUT_OF_MEMORY,
           "method memory: expected at least %zu bytes (measure first), got %zu", arena->used,
           arena->size);
  return ET_OK;
}

void *et_prepare_alloc(et_prepare_ctx *ctx, size_t bytes, size_t align) {
  void *p = eti_arena_claim(ctx->arena, 1, bytes, align);
  if (p == NULL) ctx->status = eti_arena_status(ctx->arena, ctx->err);
  return p;
}

et_status et_prepare_status(const et_prepare_ctx *ctx) {
  return ctx->status;
}
