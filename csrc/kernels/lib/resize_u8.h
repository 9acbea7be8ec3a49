// resize_u8.h — resizing of images [N, C, H, W] of bytes, by linear or by triangle filters. Bytes
// have weights of whole numbers and are rounded after the width and again after the height, as
// eager torch does, whose other types sum fractions. Knows no arguments.
#ifndef ET_BYTE_IMAGES_H
#define ET_BYTE_IMAGES_H

#include "kernels/kernel.h"

typedef struct eti_byte_resize {
  const et_tensor *x, *out;  // both u8 and not empty; any layout
  double scale[2];           // input steps per output step
  bool align_corners;        // of linear filters: the scale says so of the others
  bool antialias;            // filters as wide as the shrinking
} eti_byte_resize;

et_status eti_resize_bytes(const et_kernel_ctx *ctx, const eti_byte_resize *r);

#endif  // ET_BYTE_IMAGES_H
