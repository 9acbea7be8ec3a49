// alloc_region.h — XNNPACK's allocator, and regions that recover when it runs out of memory.
// XNNPACK does not check all of its allocations, and after a failure it does not always free
// earlier blocks. So calls that may allocate run inside a region. When an allocation fails there,
// the region leaves XNNPACK by longjmp, and its end frees every block that was allocated since it
// began. Blocks that XNNPACK frees inside a region stay until the end, because an abandoned call
// may still point at them (and frees some of them twice). Knows nothing of delegates. One region
// per thread at a time; XNNPACK allocates only from the thread that called it.
#ifndef ET_XNNPACK_ALLOC_REGION_H
#define ET_XNNPACK_ALLOC_REGION_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <xnnpack.h>

// For xnn_initialize. Every block is aligned to 64.
extern const struct xnn_allocator eti_xnn_allocator;

typedef struct eti_xnn_alloc_region {
  struct eti_xnn_alloc_block *owned;  // allocated in the region
  struct eti_xnn_alloc_block *freed;  // freed in it, in memory until it ends
  bool jumps;                         // a failure jumps to `on_failure`; else it returns NULL
  bool is_paused;                     // allocations are the caller's; a failure returns NULL
  jmp_buf on_failure;
} eti_xnn_alloc_region;

void eti_xnn_alloc_region_begin(eti_xnn_alloc_region *region);

// Calls body, which may call XNNPACK and may own memory through ctx only. False: memory ran out,
// and body was abandoned.
bool eti_xnn_alloc_region_run(eti_xnn_alloc_region *region, void (*body)(void *ctx), void *ctx);

// keep: allocations stay, and are freed as usual. Otherwise all of them are freed; before that the
// caller frees, inside the region, the objects of the abandoned call.
void eti_xnn_alloc_region_end(eti_xnn_alloc_region *region, bool keep);

// Pauses the region of this thread, for memory that XNNPACK does not get from its allocator.
// Allocations do not belong to a paused region. Returns NULL outside of a region; resume allows
// NULL.
eti_xnn_alloc_region *eti_xnn_alloc_region_pause(void);
void eti_xnn_alloc_region_resume(eti_xnn_alloc_region *region);

// Allocates from the same allocator for the delegate itself.
void *eti_xnn_alloc(size_t bytes);  // NULL without memory
void eti_xnn_free(void *block);     // NULL allowed

// For tests: the n-th allocation of this thread from now on fails, and all later ones unless
// `once`; 0: none fails. eti_xnn_alloc_failure_is_due: whether that failure is still to come.
void eti_xnn_alloc_fail_nth(size_t n, bool once);
bool eti_xnn_alloc_failure_is_due(void);

// The populated part of mapped pages.
typedef struct eti_xnn_populated {
  size_t bytes;   // from the first page on
  bool is_small;  // later pages are populated as small ones
} eti_xnn_populated;

// Maps zeroed pages for large allocations that stay; none is populated. *bytes is rounded up.
// Outside of any region; NULL without memory.
void *eti_xnn_pages_map(size_t *bytes, eti_xnn_populated *populated);
void eti_xnn_pages_unmap(void *pages, size_t bytes);

// Populates the first `needed` of `bytes` of mapped pages, with huge pages as long as these are
// fast. On a virtual machine the host may have to find memory for each huge page at its first
// access; small pages that it has already found are available at once. Call this before anything is
// written after the populated part.
void eti_xnn_pages_populate(void *pages, size_t bytes, size_t needed, eti_xnn_populated *populated);
// Ends populating: the system may replace small pages by huge ones in its own time.
void eti_xnn_pages_finish(void *pages, size_t bytes, const eti_xnn_populated *populated);

#endif  // ET_XNNPACK_ALLOC_REGION_H
