// dwconv.h — depthwise convolutions in place of XNNPACK's, which reads all elements and weights
// anew for each result. Ours read each element of a row once for several results.
//
// Of int8 ours multiply pairs of taps in 16 bits and add them at once, where XNNPACK's multiply in
// 32. Results are the same to the bit. Used where XNNPACK would run its AVX2 kernels for windows of
// 4 to 9 and of 10 to 25 taps. When its operators have been made, their packed weights are put in
// our order.
//
// Of f32 the products of a result are added row by row, those of XNNPACK column by column: results
// differ by rounding, and depend on nothing but the window and its elements. Used where XNNPACK
// would run its FMA3 kernels, for windows of 3 x 3 that move by one column and of 5 x 5 that move
// by one or two, if not dilated in width. 3 x 3 windows that move by two share a third of what they
// read, which in its order comes faster from a cache that all cores share. Weights stay as XNNPACK
// packs them.
#ifndef ET_XNNPACK_DEPTHWISE_H
#define ET_XNNPACK_DEPTHWISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <xnnpack.h>

#include "backends/xnnpack/tuned/qs8_channels.h"

// XNNPACK's interface: for each of n_pixels results of n_channels, 9 or 25 pointers to elements of
// that many channels, to be read by 16, which are moved by offset_bytes unless they are `zero`. The
// pointers of the next pixel are stride_bytes further, its results gap_bytes behind. `limits` are
// an eti_xnn_qs8_limits.
void eti_xnn_qs8_depthwise_9__avx2(size_t n_channels, size_t n_pixels, const void **taps,
                                   const void *weights, void *y, intptr_t stride_bytes,
                                   size_t gap_bytes, size_t offset_bytes, const void *zero,
                                   const void *limits);
void eti_xnn_qs8_depthwise_25__avx2(size_t n_channels, size_t n_pixels, const void **taps,
                                    const void *weights, void *y, intptr_t stride_bytes,
                                    size_t gap_bytes, size_t offset_bytes, const void *zero,
                                    const void *limits);

// The same for f32, which read no more than n_channels of an element. stride_bytes are those of one
// column of pointers, of 5 also of two. `limits` are two floats, the least and the greatest result.
void eti_xnn_f32_depthwise_9__avx2(size_t n_channels, size_t n_pixels, const void **taps,
                                   const void *weights, void *y, intptr_t stride_bytes,
                                   size_t gap_bytes, size_t offset_bytes, const void *zero,
                                   const void *limits);
void eti_xnn_f32_depthwise_25__avx2(size_t n_channels, size_t n_pixels, const void **taps,
                                    const void *weights, void *y, intptr_t stride_bytes,
                                    size_t gap_bytes, size_t offset_bytes, const void *zero,
                                    const void *limits);

// How many bytes the weights of 9 or 25 taps take for these kernels.
size_t eti_xnn_qs8_depthwise_bytes(size_t n_taps, size_t n_channels);

// Puts weights in our order. XNNPACK's are for each 16 channels: 16 biases, n_taps times 16
// weights, and 16 scales unless `scale`, that of all channels, is given. Ours are aligned to 32.
void eti_xnn_qs8_depthwise_pack(size_t n_taps, size_t n_channels, const void *theirs,
                                const float *scale, void *ours);

// Lets the operators of a new runtime run our kernels; in a region of alloc_region.h.
void eti_xnn_use_own_depthwise(xnn_runtime_t runtime);

// Whether those of int8 run ours, which says the same of other kernels for AVX2. Any thread, after
// xnn_initialize.
bool eti_xnn_has_own_qs8_depthwise(void);

// Names of the kernels that ours take the place of on this machine: writes at most n of them and
// returns how many there are. Any thread, after xnn_initialize.
size_t eti_xnn_own_depthwise(const char **names, size_t n);

#endif  // ET_XNNPACK_DEPTHWISE_H
