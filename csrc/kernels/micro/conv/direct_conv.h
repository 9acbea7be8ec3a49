// direct_conv.h — the inner loops of convolution that are not matrix products: copies of image
// rows, and depthwise rows. Every output element of a depthwise row is bias, then one fused
// multiply-add per tap in the given order, in all variants: the result of a product of at most
// ETI_GEMM_CHUNK. Relies on kernels/micro/isa_select.h. Knows no tensor. f32 only.
#ifndef ET_MICRO_DIRECT_CONV_H
#define ET_MICRO_DIRECT_CONV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/micro/clamp_range.h"

// One channel of an image and a square kernel, with taps in w row by row. Elements outside the
// input are zeros, which are multiplied like other values.
typedef struct eti_direct_conv_plane {
  float *out;
  const float *x;
  ptrdiff_t out_step, x_step;  // from row to row
  size_t rows, cols;           // of the output; rows ≥ ETI_DIRECT_CONV_PLANE_ROWS
  ptrdiff_t height, width;     // of the input, each at least 1
  ptrdiff_t top, left;         // padding
  const float *w;
  float bias;
  eti_clamp_range range;  // of the output
} eti_direct_conv_plane;

typedef void (*eti_direct_conv_plane_fn)(const eti_direct_conv_plane *p);

enum { ETI_DIRECT_CONV_PLANE_ROWS = 4, ETI_DIRECT_CONV_ROWS = 4 };

typedef struct eti_direct_conv_micro {
  // dst[r·dst_step + i] = src[r·src_step + i·step], r < rows, i < n: `step` is 1 for plain rows,
  // the stride of a convolution else.
  void (*copy_rows)(float *dst, size_t dst_step, const float *src, ptrdiff_t src_step, size_t step,
                    size_t rows, size_t n);
  // out[i] = bias + Σt w[t] · taps[t][i], kept within range, i < n: one row of one channel.
  void (*row)(float *out, size_t n, const float *const *taps, const float *w, size_t n_taps,
              float bias, const eti_clamp_range *range);
  // out[r·out_step + i] = bias[r] + Σt w[t·ETI_DIRECT_CONV_ROWS + r] · taps[t][i], kept within
  // range, i < n, r < ETI_DIRECT_CONV_ROWS: one row of channels that read the same taps.
  void (*rows)(float *out, size_t out_step, size_t n, const float *const *taps, const float *w,
               size_t n_taps, const float *bias, const eti_clamp_range *range);
  // out[i·out_step + c] = bias[c] + Σt w[t·w_step + c] · taps[t][i·tap_step + c], c < n,
  // kept within range: n_pixels pixels of n channels; bias may be NULL.
  void (*pixels)(float *out, ptrdiff_t out_step, size_t n_pixels, size_t n,
                 const float *const *taps, ptrdiff_t tap_step, const float *w, size_t w_step,
                 size_t n_taps, const float *bias, const eti_clamp_range *range);
  // out[c] = bias[c] + Σt w[which[t]·w_step + c] · taps[t][c], c < n, kept within range: a pixel
  // with some of the taps.
  void (*pixel)(float *out, size_t n, const float *const *taps, const uint8_t *which,
                const float *w, size_t w_step, size_t n_taps, const float *bias,
                const eti_clamp_range *range);
  // Whole planes: kernels of 3 × 3 and 5 × 5 (first index), strides 1 and 2 (second).
  eti_direct_conv_plane_fn planes[2][2];
} eti_direct_conv_micro;

// The fastest variant for this CPU, and that of one instruction set (NULL when the build or CPU
// lacks it).
const eti_direct_conv_micro *eti_direct_conv_micro_best(void);
const eti_direct_conv_micro *eti_direct_conv_micro_of_isa(int isa);

extern const eti_direct_conv_micro eti_direct_conv_scalar;
extern const eti_direct_conv_micro eti_direct_conv_avx2;
extern const eti_direct_conv_micro eti_direct_conv_avx512;
extern const eti_direct_conv_micro eti_direct_conv_neon;

#endif  // ET_MICRO_DIRECT_CONV_H
