// alloc_region.c — see alloc_region.h. A block is preceded by a header of 64 bytes, which links it
// into the list of its region.
#define _DEFAULT_SOURCE  // MAP_ANONYMOUS, madvise
#include "backends/xnnpack/alloc_region.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/bytes.h"
#include "runtime/et.h"

enum { HEADER_BYTES = 64 };

typedef struct eti_xnn_alloc_block {
  struct eti_xnn_alloc_block *next, **link;  // in a region's list; link is NULL outside of one
  size_t bytes;
  bool is_freed;
} eti_xnn_alloc_block;

_Static_assert(sizeof(eti_xnn_alloc_block) <= HEADER_BYTES,
               "a header has room for the record of a block");

// XNNPACK has one allocator for the process and passes it no context, so the caller's region can
// only be found by the thread.
static _Thread_local eti_xnn_alloc_region *current;

static void link_block(eti_xnn_alloc_block **list, eti_xnn_alloc_block *block) {
  block->next = *list;
  block->link = list;
  if (block->next != NULL) block->next->link = &block->next;
  *list = block;
}

static void unlink_block(eti_xnn_alloc_block *block) {
  if (block->link == NULL) return;
  *block->link = block->next;
  if (block->next != NULL) block->next->link = block->link;
  block->link = NULL;
}

// The allocation failure that a test has requested.
static _Thread_local struct {
  size_t n_left;  // allocations until the failure; 0: none is requested
  bool once, has_come;
} failure;

static bool has_to_fail(void) {
  if (failure.n_left == 0) return false;
  if (failure.n_left > 1) {
    failure.n_left--;
    return false;
  }
  if (failure.once) failure.n_left = 0;
  failure.has_come = true;
  return true;
}

void eti_xnn_alloc_fail_nth(size_t n, bool once) {
  failure.n_left = n;
  failure.once = once;
  failure.has_come = false;
}

bool eti_xnn_alloc_failure_is_due(void) {
  return failure.n_left > 0 && !failure.has_come;
}

static void *fail_alloc(eti_xnn_alloc_region *region) {
  if (region != NULL && region->jumps && !region->is_paused) longjmp(region->on_failure, 1);
  return NULL;
}

static void *alloc_block(size_t bytes) {
  eti_xnn_alloc_region *const region = current;
  size_t whole;
  if (has_to_fail()) return fail_alloc(region);
  if (!eti_add(bytes, 2 * HEADER_BYTES - 1, &whole)) return fail_alloc(region);
  whole &= ~(size_t)(HEADER_BYTES - 1);
  eti_xnn_alloc_block *const block = aligned_alloc(HEADER_BYTES, whole);
  if (block == NULL) return fail_alloc(region);
  *block = (eti_xnn_alloc_block){.bytes = bytes};
  if (region != NULL && !region->is_paused) link_block(&region->owned, block);
  return (uint8_t *)block + HEADER_BYTES;
}

static eti_xnn_alloc_block *block_of(void *data) {
  return (eti_xnn_alloc_block *)(void *)((uint8_t *)data - HEADER_BYTES);
}

static void free_block(void *data) {
  if (data == NULL) return;
  eti_xnn_alloc_block *const block = block_of(data);
  if (current == NULL || current->is_paused) {
    free(block);
  } else if (!block->is_freed) {  // an abandoned call may free a block again
    unlink_block(block);
    block->is_freed = true;
    link_block(&current->freed, block);
  }
}

static void *allocate(void *context, size_t bytes) {
  (void)context;
  return alloc_block(bytes);
}

static void *allocate_aligned(void *context, size_t alignment, size_t bytes) {
  (void)context;
  return alignment <= HEADER_BYTES ? alloc_block(bytes) : fail_alloc(current);
}

static void *reallocate(void *context, void *data, size_t bytes) {
  (void)context;
  void *const larger = alloc_block(bytes);
  if (larger == NULL || data == NULL) return larger;
  const size_t old = block_of(data)->bytes;
  memcpy(larger, data, old < bytes ? old : bytes);
  free_block(data);
  return larger;
}

static void deallocate(void *context, void *data) {
  (void)context;
  free_block(data);
}

const struct xnn_allocator eti_xnn_allocator = {
    .allocate = allocate,
    .reallocate = reallocate,
    .deallocate = deallocate,
    .aligned_allocate = allocate_aligned,
    .aligned_deallocate = deallocate,
};

void *eti_xnn_alloc(size_t bytes) {
  return alloc_block(bytes);
}

void eti_xnn_free(void *block) {
  free_block(block);
}

// ---- Pages

#define PAGE_BYTES ((size_t)64 * 1024)  // a multiple of any system's pages
#define HUGE_BYTES ((size_t)2 * 1024 * 1024)
#define FEW_BYTES ((size_t)16 * 1024 * 1024)  // too few to measure how fast huge pages are
// Clearing a huge page takes a few tenths of a millisecond if the host has free memory.
#define SLOW_NS 2000000u

// Advises the system for or against huge pages, which it may ignore.
static void advise_huge(void *pages, size_t bytes, bool huge) {
#if defined(MADV_HUGEPAGE) && defined(MADV_NOHUGEPAGE)
  if (bytes >= HUGE_BYTES)
    (void)madvise(pages, bytes - bytes % HUGE_BYTES, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#else
  (void)pages;
  (void)bytes;
  (void)huge;
#endif
}

void *eti_xnn_pages_map(size_t *bytes, eti_xnn_populated *populated) {
  size_t n, whole;
  if (has_to_fail()) return NULL;
  if (!eti_add(*bytes, PAGE_BYTES - 1, &n)) return NULL;
  n -= n % PAGE_BYTES;
  if (!eti_add(n, HUGE_BYTES, &whole)) return NULL;
  uint8_t *const pages =
      mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return NULL;
  // The mapping begins at a huge page; the pages before it and after it are unmapped.
  const size_t front = (size_t)(-(uintptr_t)pages % HUGE_BYTES);
  if (front > 0) (void)munmap(pages, front);
  (void)munmap(pages + front + n, whole - front - n);
  *bytes = n;
  *populated = (eti_xnn_populated){0, n < FEW_BYTES};
  advise_huge(pages + front, n, !populated->is_small);
  return pages + front;
}

void eti_xnn_pages_unmap(void *pages, size_t bytes) {
  (void)munmap(pages, bytes);
}

static void populate_small(uint8_t *begin, size_t needed, eti_xnn_populated *populated) {
  const size_t more = (needed - populated->bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
#ifdef MADV_POPULATE_WRITE
  // One call populates all pages, which saves a page fault for each. Without madvise the faults
  // populate them.
  (void)madvise(begin + populated->bytes, more, MADV_POPULATE_WRITE);
#else
  (void)begin;
#endif
  populated->bytes += more;
}

void eti_xnn_pages_populate(void *pages, size_t bytes, size_t needed,
                            eti_xnn_populated *populated) {
  uint8_t *const begin = pages;
  while (populated->bytes < needed && !populated->is_small) {
    const uint64_t start = et_clock_ns();
    *(volatile uint8_t *)(begin + populated->bytes) = 0;
    const bool is_slow = et_clock_ns() - start > SLOW_NS;
    populated->bytes += HUGE_BYTES;
    populated->is_small = is_slow || populated->bytes + HUGE_BYTES > bytes;
    if (is_slow && populated->bytes < bytes)
      advise_huge(begin + populated->bytes, bytes - populated->bytes, false);
  }
  if (populated->bytes < needed) populate_small(begin, needed, populated);
}

void eti_xnn_pages_finish(void *pages, size_t bytes, const eti_xnn_populated *populated) {
  if (populated->is_small) advise_huge(pages, bytes, true);
}

// ---- Regions

void eti_xnn_alloc_region_begin(eti_xnn_alloc_region *region) {
  region->owned = region->freed = NULL;
  region->jumps = region->is_paused = false;
  current = region;
}

bool eti_xnn_alloc_region_run(eti_xnn_alloc_region *region, void (*body)(void *ctx), void *ctx) {
  bool is_done = false;
  region->jumps = true;
  if (setjmp(region->on_failure) == 0) {
    body(ctx);
    is_done = true;
  }
  region->jumps = false;
  return is_done;
}

static void free_list(eti_xnn_alloc_block *block) {
  while (block != NULL) {
    eti_xnn_alloc_block *const next = block->next;
    free(block);
    block = next;
  }
}

void eti_xnn_alloc_region_end(eti_xnn_alloc_region *region, bool keep) {
  current = NULL;
  free_list(region->freed);
  if (!keep) {
    free_list(region->owned);
    return;
  }
  for (eti_xnn_alloc_block *block = region->owned; block != NULL; block = block->next)
    block->link = NULL;
}

eti_xnn_alloc_region *eti_xnn_alloc_region_pause(void) {
  if (current != NULL) current->is_paused = true;
  return current;
}

void eti_xnn_alloc_region_resume(eti_xnn_alloc_region *region) {
  if (region != NULL) region->is_paused = false;
}
