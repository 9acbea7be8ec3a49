// clamp_range.h — bounds of finished f32 results: the clamp or relu that follows a product or a
// convolution, done while its results are in registers or in the cache. The arithmetic is that of
// the operators clamp and relu (eltwise/eltwise_unary.body.h), bit for bit. Knows no tensor.
#ifndef ET_CLAMP_RANGE_H
#define ET_CLAMP_RANGE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

// Bounds are numbers, or infinite if there is none. `plus` is added at the end: -0 changes nothing,
// +0 makes a zero of relu positive, NaN marks a NaN bound.
typedef struct eti_clamp_range {
  float low, high, plus;
} eti_clamp_range;

#define ETI_CLAMP_NONE ((eti_clamp_range){-INFINITY, INFINITY, -0.0f})
#define ETI_CLAMP_RELU ((eti_clamp_range){0.0f, INFINITY, 0.0f})

// True if the bounds are numbers: instruction sets disagree on NaN.
static inline bool eti_clamp_range_is_valid(const eti_clamp_range *range) {
  return range != NULL && range->low == range->low && range->high == range->high;
}

// Clamps x; NaN stays NaN.
static inline float eti_clamp(float x, float low, float high, float plus) {
  const float risen = x < low ? low : x;
  return (risen > high ? high : risen) + plus;
}

#endif  // ET_CLAMP_RANGE_H
