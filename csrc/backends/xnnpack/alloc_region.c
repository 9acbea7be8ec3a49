// alloc_region.c — see alloc_region.h. A block is preceded by a header of 64 bytes, by which the
// region that claimed it knows it.
#define _DEFAULT_SOURCE  // MAP_ANONYMOUS, madvise
#include "backends/xnnpack/alloc_region.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/bytes.h"
#include "runtime/et.h"

enum { HEADER_BYTES = 64 };

typedef struct eti_xnn_chunk {
  struct eti_xnn_chunk *next, **link;  // in a region's list; link is NULL outside of one
  size_t bytes;
  bool is_gone;
} eti_xnn_chunk;

_Static_assert(sizeof(eti_xnn_chunk) <= HEADER_BYTES, "the header holds a block's facts");

// XNNPACK's allocator is one for the process and is not told who is asking, so the region of the
// caller can only be found by the thread.
static _Thread_local eti_xnn_region *current;

static void put(eti_xnn_chunk **list, eti_xnn_chunk *block) {
  block->next = *list;
  block->link = list;
  if (block->next != NULL) block->next->link = &block->next;
  *list = block;
}

static void take(eti_xnn_chunk *block) {
  if (block->link == NULL) return;
  *block->link = block->next;
  if (block->next != NULL) block->next->link = block->link;
  block->link = NULL;
}

// What a test has asked for.
static _Thread_local struct {
  size_t n_left;  // 0: nothing
  bool once, has_begun;
} shortage;

static bool is_refused(void) {
  if (shortage.n_left == 0) return false;
  if (shortage.n_left > 1) {
    shortage.n_left--;
    return false;
  }
  if (shortage.once) shortage.n_left = 0;
  shortage.has_begun = true;
  return true;
}

void eti_xnn_memory_run_out(size_t n, bool once) {
  shortage.n_left = n;
  shortage.once = once;
  shortage.has_begun = false;
}

bool eti_xnn_memory_will_run_out(void) {
  return shortage.n_left > 0 && !shortage.has_begun;
}

static void *fail(eti_xnn_region *region) {
  if (region != NULL && region->leaves && !region->is_paused) longjmp(region->back, 1);
  return NULL;
}

static void *claim(size_t bytes) {
  eti_xnn_region *const region = current;
  size_t whole;
  if (is_refused()) return fail(region);
  if (!eti_add(bytes, 2 * HEADER_BYTES - 1, &whole)) return fail(region);
  whole &= ~(size_t)(HEADER_BYTES - 1);
  eti_xnn_chunk *const block = aligned_alloc(HEADER_BYTES, whole);
  if (block == NULL) return fail(region);
  *block = (eti_xnn_chunk){.bytes = bytes};
  if (region != NULL && !region->is_paused) put(&region->owned, block);
  return (uint8_t *)block + HEADER_BYTES;
}

static eti_xnn_chunk *block_of(void *data) {
  return (eti_xnn_chunk *)(void *)((uint8_t *)data - HEADER_BYTES);
}

static void release(void *data) {
  if (data == NULL) return;
  eti_xnn_chunk *const block = block_of(data);
  if (current == NULL || current->is_paused) {
    free(block);
  } else if (!block->is_gone) {  // an undone call may release a block again
    take(block);
    block->is_gone = true;
    put(&current->gone, block);
  }
}

static void *allocate(void *context, size_t bytes) {
  (void)context;
  return claim(bytes);
}

static void *allocate_aligned(void *context, size_t alignment, size_t bytes) {
  (void)context;
  return alignment <= HEADER_BYTES ? claim(bytes) : fail(current);
}

static void *reallocate(void *context, void *data, size_t bytes) {
  (void)context;
  void *const larger = claim(bytes);
  if (larger == NULL || data == NULL) return larger;
  const size_t old = block_of(data)->bytes;
  memcpy(larger, data, old < bytes ? old : bytes);
  release(data);
  return larger;
}

static void deallocate(void *context, void *data) {
  (void)context;
  release(data);
}

const struct xnn_allocator eti_xnn_allocator = {
    .allocate = allocate,
    .reallocate = reallocate,
    .deallocate = deallocate,
    .aligned_allocate = allocate_aligned,
    .aligned_deallocate = deallocate,
};

void *eti_xnn_memory_claim(size_t bytes) {
  return claim(bytes);
}

void eti_xnn_memory_release(void *block) {
  release(block);
}

// ---- Pages

#define PAGE_BYTES ((size_t)64 * 1024)  // of any system, or several of its pages
#define HUGE_BYTES ((size_t)2 * 1024 * 1024)
#define FEW_BYTES ((size_t)16 * 1024 * 1024)  // trying whether huge pages come quickly costs more
// A host that has the memory clears a huge page in some tenths of a millisecond.
#define SLOW_NS 2000000u

// Only a wish for whole huge pages, which the system may decline.
static void wish(void *pages, size_t bytes, bool huge) {
#if defined(MADV_HUGEPAGE) && defined(MADV_NOHUGEPAGE)
  if (bytes >= HUGE_BYTES)
    (void)madvise(pages, bytes - bytes % HUGE_BYTES, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#else
  (void)pages;
  (void)bytes;
  (void)huge;
#endif
}

void *eti_xnn_memory_map(size_t *bytes, eti_xnn_filling *filling) {
  size_t n, whole;
  if (is_refused()) return NULL;
  if (!eti_add(*bytes, PAGE_BYTES - 1, &n)) return NULL;
  n -= n % PAGE_BYTES;
  if (!eti_add(n, HUGE_BYTES, &whole)) return NULL;
  uint8_t *const pages =
      mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return NULL;
  // It begins at a huge page; what lies in front of it and behind it goes back.
  const size_t front = (size_t)(-(uintptr_t)pages % HUGE_BYTES);
  if (front > 0) (void)munmap(pages, front);
  (void)munmap(pages + front + n, whole - front - n);
  *bytes = n;
  *filling = (eti_xnn_filling){0, n < FEW_BYTES};
  wish(pages + front, n, !filling->is_small);
  return pages + front;
}

void eti_xnn_memory_unmap(void *pages, size_t bytes) {
  (void)munmap(pages, bytes);
}

static void fill_small(uint8_t *begin, size_t needed, eti_xnn_filling *filling) {
  const size_t more = (needed - filling->bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
#ifdef MADV_POPULATE_WRITE
  // All at once, which spares a fault each. Where that is not known, faults bring them.
  (void)madvise(begin + filling->bytes, more, MADV_POPULATE_WRITE);
#else
  (void)begin;
#endif
  filling->bytes += more;
}

void eti_xnn_memory_fill(void *pages, size_t bytes, size_t needed, eti_xnn_filling *filling) {
  uint8_t *const begin = pages;
  while (filling->bytes < needed && !filling->is_small) {
    const uint64_t start = et_clock_ns();
    *(volatile uint8_t *)(begin + filling->bytes) = 0;
    const bool is_slow = et_clock_ns() - start > SLOW_NS;
    filling->bytes += HUGE_BYTES;
    filling->is_small = is_slow || filling->bytes + HUGE_BYTES > bytes;
    if (is_slow && filling->bytes < bytes)
      wish(begin + filling->bytes, bytes - filling->bytes, false);
  }
  if (filling->bytes < needed) fill_small(begin, needed, filling);
}

void eti_xnn_memory_filled(void *pages, size_t bytes, const eti_xnn_filling *filling) {
  if (filling->is_small) wish(pages, bytes, true);
}

// ---- Regions

void eti_xnn_region_begin(eti_xnn_region *region) {
  region->owned = region->gone = NULL;
  region->leaves = region->is_paused = false;
  current = region;
}

bool eti_xnn_region_run(eti_xnn_region *region, void (*body)(void *ctx), void *ctx) {
  bool is_done = false;
  region->leaves = true;
  if (setjmp(region->back) == 0) {
    body(ctx);
    is_done = true;
  }
  region->leaves = false;
  return is_done;
}

static void free_all(eti_xnn_chunk *block) {
  while (block != NULL) {
    eti_xnn_chunk *const next = block->next;
    free(block);
    block = next;
  }
}

void eti_xnn_region_end(eti_xnn_region *region, bool keep) {
  current = NULL;
  free_all(region->gone);
  if (!keep) {
    free_all(region->owned);
    return;
  }
  for (eti_xnn_chunk *block = region->owned; block != NULL; block = block->next) block->link = NULL;
}

eti_xnn_region *eti_xnn_region_pause(void) {
  if (current != NULL) current->is_paused = true;
  return current;
}

void eti_xnn_region_resume(eti_xnn_region *region) {
  if (region != NULL) region->is_paused = false;
}
