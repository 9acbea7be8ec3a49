// resize_u8.h — resizing of u8 images [N, C, H, W] by linear or triangle filters. Weights are
// integers; sums are rounded after the width and again after the height, as in eager torch. Other
// types sum floats. Knows no arguments.
#ifndef ET_RESIZE_U8_H
#define ET_RESIZE_U8_H

#include "runtime/et.h"

typedef struct eti_resize_u8 {
  const et_tensor *x, *out;  // both u8 and not empty; any layout
  double scale[2];           // input steps per output step
  bool align_corners;        // of linear filters; triangle filters have it in the scale
  bool antialias;            // filters widen with the scale
} eti_resize_u8;

void eti_resize_u8_run(const et_kernel_ctx *ctx, const eti_resize_u8 *r);

#endif  // ET_RESIZE_U8_H
