// conv_stem.h — convolutions of int8 over images of few channels, as the first one of a network of
// images. XNNPACK fills each element of the window up to 8 channels, of which three would do, and
// multiplies these. Ours widens the image once, with the zero point taken away and the padding
// around, where a row of the window is one piece of memory; 16 bits of two neighbours are then
// multiplied by those of two weights and added at once. Results are those of XNNPACK to the bit.
#ifndef ET_XNNPACK_SHALLOW_H
#define ET_XNNPACK_SHALLOW_H

#include <stddef.h>
#include <stdint.h>
#include <xnnpack.h>

#include "backends/xnnpack/tuned/qs8_channels.h"

enum { ETI_XNN_SHALLOW_CHANNELS = 4 };  // of an image, at most

typedef struct eti_xnn_shallow {
  size_t n_channels, height, width;       // of each image
  size_t n_filters, y_height, y_width;    // of each result
  size_t kernel[2], stride[2], dilation;  // rows and columns; dilation of rows
  size_t padding[4];                      // top, right, bottom, left
  int16_t zero_point;                     // of the images
  eti_xnn_qs8_limits limits;
  const void *weights;  // packed
  const int8_t *x;
  int8_t *y;
  int16_t *wide;  // eti_xnn_qs8_shallow_wide_bytes for each image
} eti_xnn_shallow;

// How many rows an image has with its padding, and how many bytes it then takes, widened.
size_t eti_xnn_qs8_shallow_rows(const eti_xnn_shallow *conv);
size_t eti_xnn_qs8_shallow_wide_bytes(const eti_xnn_shallow *conv);

// Widens rows first … first + count - 1 of all images with their padding, then computes as many
// rows of results.
void eti_xnn_qs8_shallow_widen__avx2(const eti_xnn_shallow *conv, size_t first, size_t count);
void eti_xnn_qs8_shallow__avx2(const eti_xnn_shallow *conv, size_t first, size_t count);

// The weights [filter][row][column][channel] with biases (NULL: 0) and scales for each filter, in
// the order of the kernel: bytes of them, aligned to 32.
size_t eti_xnn_qs8_shallow_weight_bytes(const eti_xnn_shallow *conv);
void eti_xnn_qs8_shallow_pack(const eti_xnn_shallow *conv, const int8_t *weights,
                              const int32_t *biases, const float *scales, void *packed);

// As xnn_define_convolution_2d without flags; the node is ours where it is about int8, few channels
// and one group, without dilation of columns, and XNNPACK would run its AVX2 kernels.
typedef struct eti_xnn_shallow_node {
  uint32_t padding[4], kernel[2], stride[2], dilation[2], groups;
  size_t group_inputs, group_outputs;
  float min, max;
  uint32_t input, filter, bias, output;
} eti_xnn_shallow_node;

enum xnn_status eti_xnn_define_convolution(xnn_subgraph_t subgraph,
                                           const eti_xnn_shallow_node *node);

// Names of the kernels that these nodes do without: as eti_xnn_own_depthwise.
size_t eti_xnn_own_convolutions(const char **names, size_t n);

#endif  // ET_XNNPACK_SHALLOW_H
