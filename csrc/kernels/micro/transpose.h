// transpose.h — the base of every permutation and reversal: the 2-D transpose and the reversed row,
// for elements of 1, 2, 4, 8 or 16 bytes, rows contiguous. Relies on nothing. Knows no tensor;
// callers split the work for threads.
#ifndef ET_MICRO_TRANSPOSE_H
#define ET_MICRO_TRANSPOSE_H

#include <stddef.h>

// dst[j][i] = src[i][j] for i < rows, j < cols. Row strides are in bytes and may be negative; no
// alignment is needed. When the two areas overlap, every access stays inside them but the values
// are unspecified.
void eti_transpose(void *dst, ptrdiff_t dst_stride, const void *src, ptrdiff_t src_stride,
                   size_t rows, size_t cols, size_t elem);

// dst[i] = src[n - 1 - i] for i < n, n >= 0. Overlap as above.
void eti_reverse(void *dst, const void *src, size_t n, size_t elem);

#endif  // ET_MICRO_TRANSPOSE_H
