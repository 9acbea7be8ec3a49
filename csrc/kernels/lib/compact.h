// compact.h — the elements that a mask selects, in logical order, on several threads. Each thread
// counts the selected elements of its part of the mask; counts of earlier parts give its place in
// the line. Relies on iter.h for strides. Knows no operator.
#ifndef ET_COMPACT_H
#define ET_COMPACT_H

#include "kernels/lib/iter.h"
#include "kernels/lib/strided_copy.h"

enum { ETI_FIND = 256 };  // elements searched at a time

// Lists the positions at[0..found) of those of n ≤ ETI_FIND elements that have some of `bits`.
// Elements have `bytes` bytes and are `stride` bytes apart.
size_t eti_find_nonzero(const char *p, ptrdiff_t stride, size_t n, size_t bytes, uint64_t bits,
                        int32_t at[ETI_FIND]);
// Counts such elements among any number n.
size_t eti_count_nonzero(const char *p, ptrdiff_t stride, size_t n, size_t bytes, uint64_t bits);

enum { ETI_MASK_PARTS = 16 };

typedef struct eti_compact {
  const et_pool *pool;
  eti_window mask;  // broadcast to the shape that is walked; bytes
  const char *mask_data;
  size_t numel, n_parts;
  size_t first[ETI_MASK_PARTS + 1];  // selected elements before each part; the last is their total
} eti_compact;

// Counts the elements that the mask selects, broadcast to `shape` and aligned at its last
// dimension; m->first[m->n_parts] is their number.
void eti_compact_count(const et_kernel_ctx *ctx, const et_tensor *mask, const eti_shape *shape,
                       eti_compact *m);

// Gather copies the selected elements of `view` (strides for the shape that was counted), of
// `bytes` bytes, to a dense line; scatter copies such a line back. If the mask changed since it was
// counted, some are not moved.
void eti_compact_gather(const eti_compact *m, char *line, const eti_window *view, const char *data,
                        size_t bytes);
void eti_compact_scatter(const eti_compact *m, const eti_window *line, const char *line_data,
                         const eti_window *view, char *data, size_t bytes);

#endif  // ET_COMPACT_H
