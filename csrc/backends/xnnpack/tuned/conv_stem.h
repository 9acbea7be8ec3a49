// conv_stem.h — int8 convolution of images with at most 4 channels, as the stem of an image network
// has it. XNNPACK pads each pixel of the window to 8 channels, of which three would do, and
// multiplies the padding too. This operator widens the image to 16 bits once, less the zero point
// and with the padding around, so that a row of the window is one piece of memory; then it
// multiplies pairs of neighbouring elements by pairs of weights (pmaddwd). Results are XNNPACK's
// bits. conv_stem.c makes the nodes; these are the kernels.
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
// kernel, aligned to 32; and how many bytes that takes.
size_t eti_xnn_qs8_conv_stem_weight_bytes(const eti_xnn_conv_stem *conv);
void eti_xnn_qs8_conv_stem_pack(const eti_xnn_conv_stem *conv, const int8_t *weights,
                                const int32_t *biases, const float *scales, void *packed);

// conv_stem.c: lets the node that was defined last, a convolution_2d, run these kernels if it can;
// and the name of what they replace, as eti_xnn_tuned_names.
struct xnn_subgraph;
void eti_xnn_conv_stem_tune(struct xnn_subgraph *subgraph);
size_t eti_xnn_conv_stem_names(const char **names, size_t n);

#endif  // ET_XNNPACK_CONV_STEM_H
