// conv_stem.h — stem convolution: int8 convolution of images with at most 4 channels, the first
// layer of image networks. XNNPACK pads each pixel of the window to 8 channels and multiplies the
// padding too, although most images have three channels. This operator first widens the image to 16
// bits, subtracts the zero point and adds the padding, so that a row of the window is contiguous in
// memory. Then it multiplies pairs of neighbouring elements by pairs of weights (pmaddwd). Results
// are XNNPACK's bits. This header declares the kernels; conv_stem.c makes the nodes.
#ifndef ET_XNNPACK_CONV_STEM_H
#define ET_XNNPACK_CONV_STEM_H

#include <stddef.h>
#include <stdint.h>

#include "backends/xnnpack/tuned/qs8_channels.h"

enum { ETI_XNN_STEM_CHANNELS = 4 };  // of an image, at most

typedef struct eti_xnn_conv_stem {
  size_t n_channels, height, width;       // of each image
  size_t n_filters, y_height, y_width;    // of each result
  size_t kernel[2], stride[2], dilation;  // rows and columns; dilation of rows
  size_t padding[4];                      // top, right, bottom, left
  int16_t zero_point;                     // of the images
  eti_xnn_qs8_limits limits;
  const void *weights;  // packed
  const int8_t *x;
  int8_t *y;
  int16_t *wide;  // the widened images, eti_xnn_qs8_conv_stem_wide_bytes each
} eti_xnn_conv_stem;

// The rows of an image with its padding, and the bytes of the widened image.
size_t eti_xnn_qs8_conv_stem_rows(const eti_xnn_conv_stem *conv);
size_t eti_xnn_qs8_conv_stem_wide_bytes(const eti_xnn_conv_stem *conv);

// Widens rows first … first + count - 1 of all images with their padding.
void eti_xnn_qs8_conv_stem_widen__avx2(const eti_xnn_conv_stem *conv, size_t first, size_t count);
// Computes rows first … first + count - 1 of all results from widened images.
void eti_xnn_qs8_conv_stem__avx2(const eti_xnn_conv_stem *conv, size_t first, size_t count);

// Packs weights [filter][row][column][channel], biases (NULL: 0) and scales of the filters for the
// kernel, aligned to 32. weight_bytes: the size of the packed weights.
size_t eti_xnn_qs8_conv_stem_weight_bytes(const eti_xnn_conv_stem *conv);
void eti_xnn_qs8_conv_stem_pack(const eti_xnn_conv_stem *conv, const int8_t *weights,
                                const int32_t *biases, const float *scales, void *packed);

// conv_stem.c: the node that was defined last, a convolution_2d, will run these kernels if it can.
// eti_xnn_conv_stem_names: the kernel that they replace, as eti_xnn_tuned_names.
struct xnn_subgraph;
void eti_xnn_conv_stem_tune(struct xnn_subgraph *subgraph);
size_t eti_xnn_conv_stem_names(const char **names, size_t n);

#endif  // ET_XNNPACK_CONV_STEM_H
