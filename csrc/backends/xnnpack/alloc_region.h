// alloc_region.h — the memory that XNNPACK gets, and how a call of it that ran out of memory is
// undone. XNNPACK does not check all of its allocations, and where it does, it does not always
// release what it had; so calls that may allocate run inside a region. When an allocation fails
// there, the region leaves XNNPACK by longjmp, and ending it releases every block that was claimed
// since it began. Blocks that XNNPACK releases inside a region stay until it ends, because an
// undone call may still point at them (and releases some of them twice). Knows nothing of
// delegates. One region at a time and thread; XNNPACK allocates from the thread that called it
// only.
#ifndef ET_XNNPACK_MEMORY_H
#define ET_XNNPACK_MEMORY_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <xnnpack.h>

// What XNNPACK is initialised with. Every block is 64-aligned.
extern const struct xnn_allocator eti_xnn_allocator;

typedef struct eti_xnn_region {
  struct eti_xnn_chunk *owned;  // claimed in the region
  struct eti_xnn_chunk *gone;   // released in it, in memory until it ends
  bool leaves;                  // a failure jumps to `back`; else it returns NULL
  bool is_paused;               // claims are the caller's own, and a failure returns NULL
  jmp_buf back;
} eti_xnn_region;

void eti_xnn_region_begin(eti_xnn_region *region);

// Calls body, which may call XNNPACK and must own nothing but through what ctx points at. False:
// memory ran out, and body was left in the middle.
bool eti_xnn_region_run(eti_xnn_region *region, void (*body)(void *ctx), void *ctx);

// keep: what was claimed stays, and is released as usual. Otherwise nothing of it remains; to be
// asked for after releasing, inside the region, what the undone call was about.
void eti_xnn_region_end(eti_xnn_region *region, bool keep);

// The region of this thread, for memory that XNNPACK asks us for by other ways than its allocator:
// while paused, claims do not belong to the region. NULL allowed and returned outside of one.
eti_xnn_region *eti_xnn_region_pause(void);
void eti_xnn_region_resume(eti_xnn_region *region);

// The same memory for our own use beside XNNPACK.
void *eti_xnn_memory_claim(size_t bytes);  // NULL when there is none
void eti_xnn_memory_release(void *block);  // NULL allowed

// For tests: the n-th of this thread's allocations from now on finds no memory, and all after it
// unless `once`; 0: all find some. The other one says whether the n-th is still to come.
void eti_xnn_memory_run_out(size_t n, bool once);
bool eti_xnn_memory_will_run_out(void);

// How much of mapped pages is in memory, from their begin on.
typedef struct eti_xnn_filling {
  size_t bytes;
  bool is_small;  // pages come one by one from here on
} eti_xnn_filling;

// Zeroed pages for much that stays, none of which is in memory yet; *bytes is rounded up. Outside
// of any region: a failure returns NULL.
void *eti_xnn_memory_map(size_t *bytes, eti_xnn_filling *filling);
void eti_xnn_memory_unmap(void *pages, size_t bytes);

// Brings the first `needed` of `bytes` of mapped pages to memory, in huge pages as long as the
// system gives them quickly: the host of a virtual machine may have to find each when it is first
// touched, and small pages that it has found before are had at once. To be called before anything
// is written behind what is filled.
void eti_xnn_memory_fill(void *pages, size_t bytes, size_t needed, eti_xnn_filling *filling);
// No more will be filled: the system may put huge pages in the place of small ones in its own time.
void eti_xnn_memory_filled(void *pages, size_t bytes, const eti_xnn_filling *filling);

#endif  // ET_XNNPACK_MEMORY_H
