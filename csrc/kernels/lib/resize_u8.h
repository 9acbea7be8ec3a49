// resize_u8.h — resizing of images [N, C, H, W] of bytes, by linear or by triangle filters. Weights
// of bytes are integers, and sums are rounded after the width and again after the height, as in
// eager torch. Other types sum fractions. Knows no arguments.
#ifndef ET_RESIZE_U8_H
#define ET_RESIZE_U8_H

#include "kernels/kernel.h"

typedef struct eti_resize_u8 {
  const et_tensor *x, *out;  // both u8 and not empty; any layout
  double scale[2];           // input steps per output step
  bool align_corners;        // of linear filters; the others have it in the scale
  bool antialias;            // filters as wide as the shrinking
} eti_resize_u8;

et_status eti_resize_u8_run(const et_kernel_ctx *ctx, const eti_resize_u8 *r);

#endif  // ET_RESIZE_U8_H
