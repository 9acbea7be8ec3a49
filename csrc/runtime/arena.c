// arena.c — see arena.h. Also the prepare step's allocator, which is the method's arena seen by
// kernels and backends.
#include "runtime/arena.h"

#include "runtime/bytes.h"

et_arena eti_arena_over(et_span memory) {
  uint8_t *base = memory.data;
  const size_t skip = (size_t)(-(uintptr_t)base & (ET_MEMORY_ALIGN - 1));
  const size_t lost = skip < memory.size ? skip : memory.size;
  if (base != NULL) base += lost;
  const et_arena arena = {.base = base, .size = base == NULL ? 0 : memory.size - lost};
  return arena;
}

et_arena eti_arena_counting(void) {
  const et_arena arena = {.measuring = true};
  return arena;
}

void *eti_arena_claim(et_arena *arena, size_t n, size_t item_bytes, size_t align) {
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
  arena->used =
      end;  // goes on counting past the end, so that the error can tell what was needed so far
  if (arena->measuring) return NULL;
  if (end > arena->size) {
    arena->failed = true;
    return NULL;
  }
  return arena->base + begin;
}

et_status eti_arena_status(const et_arena *arena, et_error *err) {
  ET_CHECK(!arena->failed, err, ET_OUT_OF_MEMORY,
           "method memory: %zu bytes given, at least %zu needed (measure first)", arena->size,
           arena->used);
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
