// compact.h — the elements that a mask selects, in logical order, on several threads: each counts
// those of its part of the mask, and moves them from where the parts before it end. Relies on
// iter.h for strides. Knows no operator.
#ifndef ET_MASKED_H
#define ET_MASKED_H

#include "kernels/lib/iter.h"
#include "kernels/lib/strided_copy.h"

enum { ETI_FIND = 256 };  // elements searched at a time

// at[0..found): the positions of the n ≤ ETI_FIND elements, of `bytes` bytes and `stride` bytes
// apart, that have some of `bits`.
size_t eti_find_nonzero(const char *p, ptrdiff_t stride, size_t n, size_t bytes, uint64_t bits,
                        int32_t at[ETI_FIND]);
// How many of n elements, any number of them, have.
size_t eti_count_nonzero(const char *p, ptrdiff_t stride, size_t n, size_t bytes, uint64_t bits);

enum { ETI_MASK_PARTS = 16 };

typedef struct eti_masked {
  const et_pool *pool;
  eti_view mask;  // broadcast to the shape that is walked; bytes
  const char *mask_data;
  size_t numel, n_parts;
  size_t first[ETI_MASK_PARTS + 1];  // selected elements before each part, and all of them
} eti_masked;

// Counts what the mask, broadcast to `shape` and aligned at its last dimension, selects: all of it
// is m->first[m->n_parts].
void eti_masked_count(const et_kernel_ctx *ctx, const et_tensor *mask, const eti_shape *shape,
                      eti_masked *m);

// The selected elements, of `bytes` bytes, of `view` (strides for the shape that was counted) and a
// line of as many elements. Should the mask have changed since, some are not moved.
void eti_masked_take(const eti_masked *m, char *line, const eti_view *view, const char *data,
                     size_t bytes);
void eti_masked_put(const eti_masked *m, const eti_view *line, const char *line_data,
                    const eti_view *view, char *data, size_t bytes);

#endif  // ET_MASKED_H
