// grid_sample_kernel.h — the arithmetic of grid sampling, per instruction set: positions and
// weights along each axis from the grid's numbers, and weighted sums of the elements there. All
// variants come from one source (grid_sample_kernel.body.h) and give the same bits. Relies on
// isa_select.h; knows no tensor.
#ifndef ET_MICRO_GRID_SAMPLE_H
#define ET_MICRO_GRID_SAMPLE_H

#include "kernels/micro/isa_select.h"
#include "kernels/stack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ETI_GRID_SAMPLE_BILINEAR, ETI_GRID_SAMPLE_NEAREST, ETI_GRID_SAMPLE_BICUBIC };
enum { ETI_GRID_SAMPLE_ZEROS, ETI_GRID_SAMPLE_BORDER, ETI_GRID_SAMPLE_REFLECTION };

#define ETI_GRID_SAMPLE_BLOCK ETI_ON_STACK(64u, 4u)    // positions at a time
#define ETI_GRID_SAMPLE_OUTSIDE (-(INT64_C(1) << 56))  // any position plus this is negative

// One axis of the image.
typedef struct eti_grid_sample_axis {
  int64_t size;
  int64_t step;  // elements between neighbours
  int64_t mode, padding;
  bool align_corners, wide;  // wide: positions are f64, else rounded to f32 as torch's are
  bool volume;               // one of three axes
} eti_grid_sample_axis;

// Taps of a block of positions along one axis: one tap (nearest), two or four (cubic), each an
// offset in elements, or ETI_GRID_SAMPLE_OUTSIDE, and a weight (none for a nearest tap).
typedef struct eti_grid_sample_taps {
  int64_t at[4][ETI_GRID_SAMPLE_BLOCK];
  double weight[4][ETI_GRID_SAMPLE_BLOCK];
} eti_grid_sample_taps;

// Taps in f32, for images of fewer than 2^29 elements.
#define ETI_GRID_SAMPLE_OUTSIDE_F32 (-(INT32_C(1) << 29))
#define ETI_GRID_SAMPLE_SPAN_F32 (INT64_C(1) << 29)

typedef struct eti_grid_sample_taps_f32 {
  int32_t at[4][ETI_GRID_SAMPLE_BLOCK];
  float weight[4][ETI_GRID_SAMPLE_BLOCK];
} eti_grid_sample_taps_f32;

// The combined taps of all axes: elements of a plane, negative outside, and their weights.
typedef struct eti_grid_sample_corners {
  int32_t at[16][ETI_GRID_SAMPLE_BLOCK];
  float weight[16][ETI_GRID_SAMPLE_BLOCK];
} eti_grid_sample_corners;

// Types of elements.
enum {
  ETI_GRID_SAMPLE_F32,
  ETI_GRID_SAMPLE_F64,
  ETI_GRID_SAMPLE_F16,
  ETI_GRID_SAMPLE_BF16,
  ETI_GRID_SAMPLE_TYPES
};

typedef struct eti_grid_sample_micro {
  // grid: n ≤ ETI_GRID_SAMPLE_BLOCK numbers
  void (*place)(eti_grid_sample_taps *taps, const eti_grid_sample_axis *axis, const double *grid,
                size_t n);
  // out[i] = Σ over the taps of depth (NULL: one plane), height and width; sums are f64, the
  // innermost is over width.
  void (*blend[ETI_GRID_SAMPLE_TYPES])(double *out, const void *plane,
                                       const eti_grid_sample_taps *depth,
                                       const eti_grid_sample_taps *height,
                                       const eti_grid_sample_taps *width, int64_t mode, size_t n);
  // Functions in f32, for f32 images that are not too large. Numbers of the grid are `step` apart;
  // join gives the number of corners, 1, 4, 8 or 16, depth first (cubic taps: for images only);
  // blend sums over them in that order, fused.
  void (*place_f32)(eti_grid_sample_taps_f32 *taps, const eti_grid_sample_axis *axis,
                    const float *grid, ptrdiff_t step, size_t n);
  size_t (*join_f32)(eti_grid_sample_corners *corners, const eti_grid_sample_taps_f32 *depth,
                     const eti_grid_sample_taps_f32 *height, const eti_grid_sample_taps_f32 *width,
                     int64_t mode, size_t n);
  void (*blend_f32)(float *out, const float *plane, const eti_grid_sample_corners *corners,
                    size_t count, size_t n);
} eti_grid_sample_micro;

extern const eti_grid_sample_micro eti_grid_sample_scalar;
#if ETI_HAVE_X86
extern const eti_grid_sample_micro eti_grid_sample_avx2;
extern const eti_grid_sample_micro eti_grid_sample_avx512;
#endif

// The variant of this CPU.
const eti_grid_sample_micro *eti_grid_sample_micro_get(void);

#endif  // ET_MICRO_GRID_SAMPLE_H
