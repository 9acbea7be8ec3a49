// sample.body.h — the source of every variant of sample.h; the including file says what its table
// is called, ETI_SAMPLE_TABLE.
#include "kernels/micro/sample.h"

#include "kernels/loops/loop.h"
#include "kernels/micro/math_f32.h"

// ---- positions

// A result of one f32 operation on f32 numbers, computed in f64, is the f32 result after this
// rounding.
ETI_INLINE double rounded(bool wide, double x) {
  return wide ? x : (double)(float)x;
}

ETI_INLINE double unnormalized(const eti_sample_axis *a, bool wide, double at) {
  const double shifted = rounded(wide, at + 1.0);
  if (a->align_corners) return rounded(wide, shifted * rounded(wide, (double)(a->size - 1) / 2.0));
  return rounded(wide, rounded(wide, shifted * rounded(wide, (double)a->size / 2.0)) - 0.5);
}

static double reflected(const eti_sample_axis *a, double at) {
  const double low = a->align_corners ? 0.0 : -0.5,
               span = a->align_corners ? (double)(a->size - 1) : (double)a->size;
  if (span == 0.0) return 0.0;
  const double from = fabs(rounded(a->wide, at - low)), extra = fmod(from, span),
               flips = floor(rounded(a->wide, from / span));
  return fmod(flips, 2.0) == 0.0 ? rounded(a->wide, extra + low)
                                 : rounded(a->wide, rounded(a->wide, span - extra) + low);
}

// The positions that padding makes of some; -100, outside of every image, where one is no number
// or too large.
static void pad(const eti_sample_axis *a, double *at, size_t n) {
  if (a->padding == ETI_SAMPLE_REFLECTION) {
    for (size_t i = 0; i < n; i++) at[i] = reflected(a, at[i]);
  }
  if (a->padding != ETI_SAMPLE_ZEROS) {
    const double last = (double)(a->size - 1);
    for (size_t i = 0; i < n; i++) {
      const double x = at[i] < 0.0 ? 0.0 : at[i];
      at[i] = x > last ? last : x;
    }
  }
  for (size_t i = 0; i < n; i++)
    at[i] = ((at[i] > -2147483648.0) & (at[i] < 2147483647.0)) ? at[i] : -100.0;
}

// Offsets of whole positions.
static void offsets(const eti_sample_axis *a, int64_t *out, const double *at, size_t n) {
  const double size = (double)a->size;
  const int64_t step = a->step;
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) {
    const bool inside = (at[i] >= 0.0) & (at[i] < size);
    const int64_t whole = (int64_t)(inside ? at[i] : 0.0);
    out[i] = inside ? whole * step : ETI_SAMPLE_OUTSIDE;
  }
}

// The cubic convolution with A = -3/4 at distances t + 1, t, 1 - t, 2 - t.
ETI_INLINE double cubic_near(double d) {
  return ((-0.75 + 2.0) * d - (-0.75 + 3.0)) * d * d + 1.0;
}
ETI_INLINE double cubic_far(double d) {
  return ((-0.75 * d - 5.0 * -0.75) * d + 8.0 * -0.75) * d - 4.0 * -0.75;
}
ETI_INLINE double cubic(double d) {
  return d <= 1.0 ? cubic_near(d) : cubic_far(d);
}

static void place(eti_sample_taps *taps, const eti_sample_axis *a, const double *grid, size_t n) {
  double p[ETI_SAMPLE_BLOCK], whole[ETI_SAMPLE_BLOCK];
  if (a->wide) {
    for (size_t i = 0; i < n; i++) p[i] = unnormalized(a, true, grid[i]);
  } else {
    for (size_t i = 0; i < n; i++) p[i] = unnormalized(a, false, grid[i]);
  }
  if (a->mode != ETI_SAMPLE_BICUBIC) pad(a, p, n);
  if (a->mode == ETI_SAMPLE_NEAREST) {
    for (size_t i = 0; i < n; i++) whole[i] = rint(p[i]);
    offsets(a, taps->at[0], whole, n);
    return;
  }
  for (size_t i = 0; i < n; i++) whole[i] = floor(p[i]);
  if (a->mode == ETI_SAMPLE_BILINEAR) {
    for (size_t i = 0; i < n; i++) {
      const double after = p[i] - whole[i];
      taps->weight[0][i] = 1.0 - after;
      taps->weight[1][i] = after;
    }
    offsets(a, taps->at[0], whole, n);
    for (size_t i = 0; i < n; i++) whole[i] += 1.0;
    offsets(a, taps->at[1], whole, n);
    return;
  }
  for (size_t i = 0; i < n; i++) {
    const double t = p[i] - whole[i];
    taps->weight[0][i] = cubic(t + 1.0);
    taps->weight[1][i] = cubic(t);
    taps->weight[2][i] = cubic(1.0 - t);
    taps->weight[3][i] = cubic(2.0 - t);
  }
  for (int j = 0; j < 4; j++) {
    for (size_t i = 0; i < n; i++) p[i] = whole[i] - 1.0 + j;
    pad(a, p, n);
    offsets(a, taps->at[j], p, n);
  }
}

// ---- sums

#define T float
#define LOAD(x) (double)(x)
#define SUFFIX f32
#include "kernels/micro/sample_blend.inc.h"
#define T double
#define LOAD(x) (x)
#define SUFFIX f64
#include "kernels/micro/sample_blend.inc.h"
#define T uint16_t
#define LOAD(x) (double)eti_f16_to_f32(x)
#define SUFFIX f16
#include "kernels/micro/sample_blend.inc.h"
#define T uint16_t
#define LOAD(x) (double)eti_bf16_to_f32(x)
#define SUFFIX bf16
#include "kernels/micro/sample_blend.inc.h"

const eti_sample_micro ETI_SAMPLE_TABLE = {.place = place,
                                           .blend = {blend_f32, blend_f64, blend_f16, blend_bf16}};
