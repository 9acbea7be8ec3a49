// winograd.h — the transforms of Winograd convolution F(m × m, 3 × 3), m = 2, 4 or 6: a tile of m ×
// m outputs from n × n inputs, n = m + 2, by n² products instead of 9·m². Along each side (Lavin
// and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015):
//
//   y = Aᵀ · ((G·g) ⊙ (Bᵀ·d))      d: n inputs, g: 3 weights, y: m outputs
//
// Rows of these matrices belong to points: 0, the pairs ±p, and infinity. With t = x² and the
// product Q over pairs, the rows of Bᵀ are coefficients of Q(t) (point 0, even inputs), x·Q(t)
// (infinity, odd inputs) and x·(x ± p)·Q(t)/(t − p²) (point ±p); a row of Aᵀ has powers of the
// points; a row of G is (1, p, p²) over the product of differences from the other points.
//
// Points have few bits, so that all coefficients of Bᵀ and Aᵀ are exact in f32. Those for m = 4
// have half the error of the usual ±1, ±2; those for m = 6 are the usual ones, which are among the
// best.
//
// Every element is computed in one order, with fused multiply-adds, in all variants. Weights are
// transformed in f64 and rounded once. f32 only. Relies on micro/clamp_range.h and
// micro/isa_select.h. Knows no tensor, and not the products between the transforms.
#ifndef ET_MICRO_WINOGRAD_H
#define ET_MICRO_WINOGRAD_H

#include <stddef.h>

#include "kernels/micro/clamp_range.h"
#include "kernels/stack.h"

enum {
  ETI_WINOGRAD_PAIRS = 3,    // most pairs of points: m = 2 · pairs
  ETI_WINOGRAD_SIDE = 8,     // most inputs of a side
  ETI_WINOGRAD_POINTS = 64,  // and their square
  ETI_WINOGRAD_LANES =
      ETI_ON_STACK(16, 2),  // output channels whose weights are transformed at once
};

// The positive points of each pair.
#define ETI_WINOGRAD_2 1.0
#define ETI_WINOGRAD_4 0.6875, 1.5
#define ETI_WINOGRAD_6 0.5, 1.0, 2.0

// Part of a tile of outputs that is inside the image.
typedef struct eti_winograd_out {
  float *data;  // channels of the first pixel
  ptrdiff_t row_step, col_step;
  size_t rows, cols;      // 1 … m each
  const float *bias;      // or NULL
  eti_clamp_range range;  // of the results
} eti_winograd_out;

// Bᵀ·d·B of n channels: dst[i·dst_step + c] for the points i of a tile. pixels[i] holds the
// channels of input i, row by row.
typedef void (*eti_winograd_input_fn)(float *dst, size_t dst_step, const float *const *pixels,
                                      size_t n);
// Aᵀ·s·A of n channels, then the bias, kept within range; src[i·src_step + c] has the products.
typedef void (*eti_winograd_output_fn)(const eti_winograd_out *out, const float *src,
                                       size_t src_step, size_t n);

// Index: number of pairs − 1.
typedef struct eti_winograd_micro {
  eti_winograd_input_fn input[ETI_WINOGRAD_PAIRS];
  eti_winograd_output_fn output[ETI_WINOGRAD_PAIRS];
} eti_winograd_micro;

// The fastest variant for this CPU, and that of one instruction set (NULL when the build or CPU
// lacks it).
const eti_winograd_micro *eti_winograd_micro_best(void);
const eti_winograd_micro *eti_winograd_micro_of_isa(int isa);

extern const eti_winograd_micro eti_winograd_scalar;
extern const eti_winograd_micro eti_winograd_avx2;
extern const eti_winograd_micro eti_winograd_avx512;
extern const eti_winograd_micro eti_winograd_neon;

// G·g·Gᵀ of ETI_WINOGRAD_LANES kernels side by side: weights[t][l] has the nine taps row by row,
// points[i][l] receives the points of a tile.
void eti_winograd_weights(size_t pairs, const double weights[9][ETI_WINOGRAD_LANES],
                          float points[ETI_WINOGRAD_POINTS][ETI_WINOGRAD_LANES]);

#endif  // ET_MICRO_WINOGRAD_H
