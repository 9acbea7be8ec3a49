// conv_depthwise.h — shared parts of depthwise convolution: its methods, weights and biases as f32,
// and rows of the input and of the result copied between memory and scratch. Half types are widened
// there and rounded once, when a row of the result is done. Relies on conv.h and
// micro/conv/direct_conv.h. Internal to op/conv_depthwise*.c.
#ifndef ET_OP_CONV_DEPTHWISE_H
#define ET_OP_CONV_DEPTHWISE_H

#include "kernels/micro/conv/direct_conv.h"
#include "kernels/op/conv/conv.h"

enum {
  ETI_DW_TAPS = 128,                // one chunk of a product
  ETI_DW_REACH = 4096,              // largest dilated kernel
  ETI_DW_FLOATS = 64 * 1024,        // size that a part of the work should fit in
  ETI_DW_MAX_FLOATS = 1024 * 1024,  // larger parts use the product
  ETI_DW_SMALL_RUN = 64 * 1024,     // multiply-adds that are not worth a second thread
};

// Bytes of scratch of one thread, for `n` floats of a part of the work.
static inline size_t eti_dw_slot_bytes(size_t n) {
  return (n * sizeof(float) + 63) / 64 * 64;
}

// Reads the taps of one channel, and its bias (0: none).
void eti_dw_weights(const eti_conv *c, size_t channel, float *w);
// True if the weights are f32 in the order [taps × channels], which the method of pixels reads.
bool eti_dw_is_taps_first(const eti_conv *c);
float eti_dw_bias(const eti_conv *c, size_t channel);

// Finds the first and one-past-last index i, 0 ≤ i < n, with 0 ≤ i·step + shift < size.
void eti_dw_range(int64_t step, int64_t shift, int64_t size, size_t n, size_t *from, size_t *to);

// Reads n elements from element `at` of the input on, as f32; elements of dst are adjacent.
void eti_dw_read(const eti_conv *c, float *dst, ptrdiff_t at, size_t n);
// Writes n adjacent floats from element `at` of the result on, `step` elements apart.
void eti_dw_write(const eti_conv *c, ptrdiff_t at, ptrdiff_t step, const float *src, size_t n);

// Applies the epilogue to finished rows of an f32 result from element `at` on: n elements each,
// `step` apart.
void eti_dw_epilogue(const eti_conv *c, ptrdiff_t at, ptrdiff_t step, size_t n_rows, size_t n);

// Number of parts of the scratch, of `each` bytes, that threads share for n multiply-adds: 0 if not
// even one fits.
size_t eti_dw_n_slots(const et_kernel_ctx *ctx, size_t each, size_t n);

// The method of rows (conv_depthwise_rows.c): channels of planes copied apart by phases of the
// stride, and small groups of them. Bytes of scratch per thread; 0 if it would be too much.
size_t eti_dw_rows_bytes(const eti_conv *c);
bool eti_dw_takes_groups(const eti_conv *c);
bool eti_dw_rows_run(const et_kernel_ctx *ctx, const eti_conv *c);

// The method of pixels (conv_depthwise_pixels.c): channels-last images, with vectors over the
// channels. f32 of two dimensions is read in place, other images through padded rows in scratch.
void eti_dw_pixels_run(const et_kernel_ctx *ctx, const eti_conv *c);
size_t eti_dw_staged_bytes(const eti_conv *c);  // per thread
bool eti_dw_staged_run(const et_kernel_ctx *ctx, const eti_conv *c);

#endif  // ET_OP_CONV_DEPTHWISE_H
