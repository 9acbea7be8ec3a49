// xnn_window.h — depthwise convolutions of two images of any type, run by XNNPACK with its own or
// with tuned kernels, for tests that compare the two; and random numbers to fill them with.
#ifndef ET_XNN_WINDOW_H
#define ET_XNN_WINDOW_H

#include "backends/xnnpack/tuned/dwconv/dwconv.h"
#include "backends/xnnpack/tuned/tuned.h"
#include "et_test.h"

#include <stdint.h>

// XNNPACK's interface for kernels.
typedef void dwconv(size_t, size_t, const void **, const void *, void *, intptr_t, size_t, size_t,
                    const void *, const void *);

static inline uint32_t random_below(uint32_t n) {
  static uint32_t seed = 1;
  seed = seed * 1664525u + 1013904223u;
  return (seed >> 8) % n;
}

typedef struct window {
  uint32_t kernel[2], stride, dilation, padding;
  bool has_scales;  // for each channel, of integers
} window;

enum { SIDE = 11, CHANNELS = 21, MAX_Y = 2 * 13 * 13 * CHANNELS };

// The sizes of the images, of the weights, of the bias and of the results.
typedef struct window_sizes {
  size_t x[4], weights[4], bias[1], y[4];
} window_sizes;

static inline size_t window_steps(const window *w, size_t axis) {
  return (SIDE + 2 * w->padding - (w->kernel[axis] - 1) * w->dilation - 1) / w->stride + 1;
}

static inline window_sizes window_sizes_of(const window *w) {
  return (window_sizes){.x = {2, SIDE, SIDE, CHANNELS},
                        .weights = {1, w->kernel[0], w->kernel[1], CHANNELS},
                        .bias = {CHANNELS},
                        .y = {2, window_steps(w, 0), window_steps(w, 1), CHANNELS}};
}

// Defines the convolution; id: of the images, the weights, the bias and the results.
static inline bool window_define(xnn_subgraph_t s, const window *w, float min, float max,
                                 const uint32_t id[4]) {
  const uint32_t pad = w->padding;
  return xnn_define_depthwise_convolution_2d(s, pad, pad, pad, pad, w->kernel[0], w->kernel[1],
                                             w->stride, w->stride, w->dilation, w->dilation, 1,
                                             CHANNELS, min, max, id[0], id[1], id[2], id[3],
                                             0) == xnn_status_success;
}

// Runs a subgraph whose external value 0 is the image and 1 the result.
static inline bool window_run(xnn_subgraph_t s, bool is_tuned, void *image, void *out) {
  xnn_runtime_t runtime = NULL;
  const struct xnn_external_value values[] = {{0, image}, {1, out}};
  bool is_fine = xnn_create_runtime_v4(s, NULL, NULL, NULL, 0, &runtime) == xnn_status_success;
  if (is_fine && is_tuned) eti_xnn_tuned_after_make(runtime);
  is_fine = is_fine && xnn_reshape_runtime(runtime) == xnn_status_success &&
            xnn_setup_runtime_v2(runtime, 2, values) == xnn_status_success &&
            xnn_invoke_runtime(runtime) == xnn_status_success;
  (void)xnn_delete_runtime(runtime);
  return is_fine;
}

static inline void window_print(const window *w) {
  printf("  window %u x %u, stride %u, dilation %u, padding %u\n", w->kernel[0], w->kernel[1],
         w->stride, w->dilation, w->padding);
}

#endif  // ET_XNN_WINDOW_H
