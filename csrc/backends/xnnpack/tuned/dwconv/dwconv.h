// dwconv.h — depthwise convolution kernels that replace XNNPACK's. XNNPACK loads all elements and
// weights again for each result. These kernels load each element of a row once for several results.
//
// int8 with AVX-512 VNNI: quads of taps are multiplied and added in one instruction (vpdpbusd), by
// the kernel of quantized convolutions that are not delegated. Used where XNNPACK would run its
// AVX-512 kernels of 4 to 9 and of 10 to 25 taps. Results are the same bits.
//
// int8: pairs of taps are multiplied in 16 bits and added in one instruction (pmaddwd), where
// XNNPACK's kernels multiply in 32. Results are the same bits. Used where XNNPACK would run its
// AVX2 kernels of 4 to 9 and of 10 to 25 taps. Weights are packed again after the runtime was
// created.
//
// f32: the products of a result are added row by row; XNNPACK adds them column by column. So
// results differ in rounding. They depend on nothing but the window and its elements. Used where
// XNNPACK would run its FMA3 or AVX-512 kernels, for windows of 3 x 3 with stride 1 and of 5 x 5
// with stride 1 or 2 in width, and no dilation in width. Neighbouring 3 x 3 windows with stride 2
// share a third of their elements only; XNNPACK's order is faster there when the elements come from
// a cache that all cores share. Weights stay as XNNPACK packs them.
#ifndef ET_XNNPACK_DWCONV_H
#define ET_XNNPACK_DWCONV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <xnnpack.h>

#include "backends/xnnpack/tuned/qs8_channels.h"

// XNNPACK's interface of dwconv micro-kernels: for each of n_pixels results of n_channels, 9 or 25
// pointers to elements of that many channels, of which 16 at a time are read; offset_bytes are
// added to pointers other than `zero`. The pointers of the next pixel are stride_bytes further;
// gap_bytes lie between its results and the previous ones. weights: of eti_xnn_qs8_dwconv_pack.
// limits: an eti_xnn_qs8_limits.
void eti_xnn_qs8_dwconv_9__avx2(size_t n_channels, size_t n_pixels, const void **taps,
                                const void *weights, void *y, intptr_t stride_bytes,
                                size_t gap_bytes, size_t offset_bytes, const void *zero,
                                const void *limits);
void eti_xnn_qs8_dwconv_25__avx2(size_t n_channels, size_t n_pixels, const void **taps,
                                 const void *weights, void *y, intptr_t stride_bytes,
                                 size_t gap_bytes, size_t offset_bytes, const void *zero,
                                 const void *limits);

// Kernels of products of bytes, which run eti_qgemm_micro_best(). weights: of
// eti_xnn_qs8_dwconv_dot_pack. No more than n_channels of an element are read.
void eti_xnn_qs8_dwconv_9__dot(size_t n_channels, size_t n_pixels, const void **taps,
                               const void *weights, void *y, intptr_t stride_bytes,
                               size_t gap_bytes, size_t offset_bytes, const void *zero,
                               const void *limits);
void eti_xnn_qs8_dwconv_25__dot(size_t n_channels, size_t n_pixels, const void **taps,
                                const void *weights, void *y, intptr_t stride_bytes,
                                size_t gap_bytes, size_t offset_bytes, const void *zero,
                                const void *limits);

// The f32 kernels. No more than n_channels of an element are read. stride_bytes: those of one
// column of pointers; of 5 x 5 windows also of two. limits: two floats, the least and the greatest
// result.
void eti_xnn_f32_dwconv_9__avx2(size_t n_channels, size_t n_pixels, const void **taps,
                                const void *weights, void *y, intptr_t stride_bytes,
                                size_t gap_bytes, size_t offset_bytes, const void *zero,
                                const void *limits);
void eti_xnn_f32_dwconv_25__avx2(size_t n_channels, size_t n_pixels, const void **taps,
                                 const void *weights, void *y, intptr_t stride_bytes,
                                 size_t gap_bytes, size_t offset_bytes, const void *zero,
                                 const void *limits);

// Weights of 16 channels lie together, as for XNNPACK's AVX-512 kernels.
void eti_xnn_f32_dwconv_25p16__avx2(size_t n_channels, size_t n_pixels, const void **taps,
                                    const void *weights, void *y, intptr_t stride_bytes,
                                    size_t gap_bytes, size_t offset_bytes, const void *zero,
                                    const void *limits);

// The bytes of packed int8 weights of 9 or 25 taps.
size_t eti_xnn_qs8_dwconv_weight_bytes(size_t n_taps, size_t n_channels);

// Packs int8 weights for these kernels, from XNNPACK's order: for each 16 channels 16 biases,
// n_taps times 16 weights, and 16 scales unless `scale`, one for all channels, is given. The result
// is aligned to 32.
void eti_xnn_qs8_dwconv_pack(size_t n_taps, size_t n_channels, const void *from, const float *scale,
                             void *to);

// Bytes of packed weights for the kernels of products of bytes, and packing from XNNPACK's order in
// blocks of `tile` channels.
size_t eti_xnn_qs8_dwconv_dot_weight_bytes(size_t n_taps, size_t n_channels);
void eti_xnn_qs8_dwconv_dot_pack(size_t n_taps, size_t n_channels, size_t tile, const void *from,
                                 const float *scale, void *to);

// ---- dwconv.c

// Lets the operators of a new runtime run these kernels; in a region of alloc_region.h.
void eti_xnn_dwconv_after_make(xnn_runtime_t runtime);

// Whether int8 operators run them, which is true where XNNPACK would run its AVX2 kernels for int8,
// or its AVX-512 kernels on a processor with AVX-512 VNNI.
// Any thread, after xnn_initialize.
bool eti_xnn_has_qs8_dwconv(void);
// Whether those are the kernels for AVX2.
bool eti_xnn_has_qs8_dwconv_avx2(void);

// Names of the kernels that these replace, as eti_xnn_tuned_names.
size_t eti_xnn_dwconv_names(const char **names, size_t n);

#endif  // ET_XNNPACK_DWCONV_H
