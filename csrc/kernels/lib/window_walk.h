// window_walk.h — windows of convolutions over channels-last images, pixel after pixel of the
// result: geometry from the arguments, and the position of each window's first tap. For kernels
// that copy windows into rows. Knows no element type but its size.
#ifndef ET_WINDOW_WALK_H
#define ET_WINDOW_WALK_H

#include "kernels/lib/args.h"

typedef struct eti_windows {
  const char *images;
  size_t channels, pixel_bytes;          // of the input
  int64_t height, width, rows, columns;  // of an input image; of a result's
  int64_t kernel[2], stride[2], padding[2], dilation[2];
} eti_windows;

// Reads kernel, stride, padding and dilation at arguments i to i + 3, and computes rows and
// columns; height and width are set. `op` is for messages.
et_status eti_windows_read(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                           const char *op, eti_windows *w);

// Position of the first tap of a pixel of the result, which may be outside of the image.
typedef struct eti_corner {
  const char *image;
  int64_t y, x;
  size_t line, column;  // of the result; lines of all images
} eti_corner;

eti_corner eti_corner_of(const eti_windows *w, size_t pixel);
// Goes on by n pixels, all of which are in the corner's line.
void eti_corner_skip(const eti_windows *w, eti_corner *at, size_t n);
// Pixels from this one on, at most n of its line, whose windows are inside the image.
size_t eti_corner_inner(const eti_windows *w, const eti_corner *at, size_t n);

static inline bool eti_windows_has(const eti_windows *w, int64_t y, int64_t x) {
  return y >= 0 && y < w->height && x >= 0 && x < w->width;
}

// Address of a pixel of the corner's image, which is inside.
static inline const char *eti_corner_pixel(const eti_windows *w, const eti_corner *at, int64_t y,
                                           int64_t x) {
  return at->image + (size_t)(y * w->width + x) * w->pixel_bytes;
}

// True if one tap of all pixels in order is the whole input.
static inline bool eti_windows_are_pixels(const eti_windows *w) {
  return w->kernel[0] == 1 && w->kernel[1] == 1 && w->padding[0] == 0 && w->padding[1] == 0 &&
         w->rows == w->height && w->columns == w->width;
}

#endif  // ET_WINDOW_WALK_H
