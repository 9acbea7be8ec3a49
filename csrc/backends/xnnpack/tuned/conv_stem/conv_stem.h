// conv_stem.h — stem convolution: int8 convolution of images with at most 4 channels, the first
// layer of image networks. XNNPACK pads each pixel of the window to 8 channels and multiplies the
// padding too, although most images have three channels. This operator first copies the image with
// its padding, so that a row of the window is contiguous in memory. Results are XNNPACK's bits.
// This header declares the kernels; conv_stem.c makes the nodes.
//
// avx2: the copy is widened to 16 bits without the zero point, and pairs of neighbouring elements
// are multiplied by pairs of weights (pmaddwd). amx: windows are copied to rows of a matrix.
#ifndef ET_XNNPACK_CONV_STEM_H
#define ET_XNNPACK_CONV_STEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/xnnpack/tuned/qs8_channels.h"

enum { ETI_XNN_STEM_CHANNELS = 4 };  // of an image, at most

typedef struct eti_xnn_conv_stem {
  const struct eti_xnn_conv_stem_kernels *kernels;
  size_t n_channels, height, width;       // of each image
  size_t n_filters, y_height, y_width;    // of each result
  size_t kernel[2], stride[2], dilation;  // rows and columns; dilation of rows
  size_t padding[4];                      // top, right, bottom, left
  int16_t zero_point;                     // of the images
  eti_xnn_qs8_limits limits;
  const void *weights;  // packed
  const int8_t *x;
  int8_t *y;
  void *wide;  // the padded images, `padded_bytes` each
} eti_xnn_conv_stem;

// The rows of an image with its padding.
static inline size_t eti_xnn_qs8_conv_stem_rows(const eti_xnn_conv_stem *conv) {
  return conv->padding[0] + conv->height + conv->padding[2];
}

// The kernels of an instruction set.
typedef struct eti_xnn_conv_stem_kernels {
  size_t results_of_a_tile;  // that a call should compute; 0: a row
  // Whether they can run such windows. NULL: all.
  bool (*fits)(const eti_xnn_conv_stem *conv);
  size_t (*padded_bytes)(const eti_xnn_conv_stem *conv);  // of an image in `wide`
  // Packs weights [filter][row][column][channel], biases (NULL: 0) and scales of the filters to
  // weight_bytes, aligned to 64.
  size_t (*weight_bytes)(const eti_xnn_conv_stem *conv);
  void (*pack)(const eti_xnn_conv_stem *conv, const int8_t *weights, const int32_t *biases,
               const float *scales, void *packed);
  // Copies rows first … first + count - 1 of all images with their padding.
  void (*pad)(const eti_xnn_conv_stem *conv, size_t first, size_t count);
  // Computes rows first … first + count - 1 of all results from the copies.
  void (*convolve)(const eti_xnn_conv_stem *conv, size_t first, size_t count);
} eti_xnn_conv_stem_kernels;

extern const eti_xnn_conv_stem_kernels eti_xnn_qs8_conv_stem__avx2, eti_xnn_qs8_conv_stem__amx;

// conv_stem.c: the node that was defined last, a convolution_2d, will run these kernels if it can.
// eti_xnn_conv_stem_names: the kernel that they replace, as eti_xnn_tuned_names.
struct xnn_subgraph;
void eti_xnn_conv_stem_tune(struct xnn_subgraph *subgraph);
size_t eti_xnn_conv_stem_names(const char **names, size_t n);

#endif  // ET_XNNPACK_CONV_STEM_H
