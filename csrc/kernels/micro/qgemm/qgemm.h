// qgemm.h — products of 8-bit integers, summed exactly in 32 bits and scaled once at the end. Every
// instruction set gives the same bits: the sums are exact, and each sum goes through a few f32
// operations in a fixed order. Relies on kernels/micro/isa_select.h. Knows no tensor.
//
// Weights are in panels of ETI_QGEMM_NR columns: [panel][k / 2][column][2], with both values of a
// pair of terms side by side and zeros for missing terms or columns. Data per column are padded to
// whole panels as well.
//
//   sum    = start[column] + Σ a[row][k] · w[k][column]                      i32, wraps
//   i8     = clamp(round(f32(sum) · scale[column] + add[column]) + zero, low, high)
//            halves round to even
//   f32    = f32(sum - row_zero[row] · start[column]) · (row_scale[row] · scale[column]) +
//            add[column]         with sum starting at 0
#ifndef ET_MICRO_QGEMM_H
#define ET_MICRO_QGEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/contract.h"

enum {
  ETI_QGEMM_NR = 16,
  ETI_QGEMM_ROWS = 12,      // blocks of a multiple of so many rows fill all tiles
  ETI_QGEMM_MAX_TAPS = 64,  // of a depthwise kernel
};

// Any number of rows of a, n columns of one panel.
typedef struct eti_qtile {
  const int16_t *a;  // rows of 2 · pairs values, a_step apart
  size_t a_step;
  const int8_t *w;  // a panel
  size_t pairs;
  const int32_t *start;  // of ETI_QGEMM_NR columns each
  const float *scale, *add;
  size_t m, n;  // 1 ≤ n ≤ ETI_QGEMM_NR
  void *out;    // i8 or f32
  size_t out_step;
  float high;               // of i8: limit less the zero point
  int32_t low, zero;        // numbers of i8
  const int32_t *row_zero;  // of f32, row_step (0 or 1) apart
  const float *row_scale;
  size_t row_step;
} eti_qtile;

// One panel of channels of a depthwise convolution, at n pixels that are adjacent in the result.
typedef struct eti_qdepthwise {
  const int8_t *const *taps;  // n_taps addresses for each pixel
  size_t offset;              // from those to the panel's first channel
  size_t n_taps;              // ≤ ETI_QGEMM_MAX_TAPS
  const int8_t *w;            // a panel
  const int32_t *start;
  const float *scale, *add;
  size_t n, channels;  // 1 ≤ channels ≤ ETI_QGEMM_NR
  int8_t *out;
  size_t out_step;  // from pixel to pixel
  float high;       // limit less the zero point
  int32_t low, zero;
} eti_qdepthwise;

// True if pointers and sizes of a tile of i8 or of f32 keep the contract above.
static inline bool eti_qtile_is_valid(const eti_qtile *t, bool is_float) {
  const bool has_columns = ETI_HOLDS(t->start, 1, int32_t) && ETI_HOLDS(t->scale, 1, float) &&
                           ETI_HOLDS(t->add, 1, float) && t->n >= 1 && t->n <= ETI_QGEMM_NR;
  const bool has_rows = ETI_HOLDS(t->a, t->m * t->pairs, int16_t) &&
                        (t->m <= 1 || t->a_step >= 2 * t->pairs) &&
                        ETI_HOLDS(t->w, t->pairs, int8_t);
  const bool has_limits = t->low >= INT8_MIN && t->low <= INT8_MAX && t->zero >= INT8_MIN &&
                          t->zero <= INT8_MAX && t->high == t->high;
  const bool has_scales = ETI_HOLDS(t->row_zero, t->m, int32_t) &&
                          ETI_HOLDS(t->row_scale, t->m, float) && t->row_step <= 1;
  return has_columns && has_rows && (t->m <= 1 || t->out_step >= t->n) &&
         (is_float ? has_scales && ETI_HOLDS(t->out, t->m, float)
                   : has_limits && ETI_HOLDS(t->out, t->m, int8_t));
}

// The contract of a panel of channels.
static inline bool eti_qdepthwise_is_valid(const eti_qdepthwise *d) {
  return ETI_HOLDS(d->taps, d->n * d->n_taps, int8_t *) && d->n_taps <= ETI_QGEMM_MAX_TAPS &&
         ETI_HOLDS(d->w, d->n_taps, int8_t) && ETI_HOLDS(d->start, 1, int32_t) &&
         ETI_HOLDS(d->scale, 1, float) && ETI_HOLDS(d->add, 1, float) && d->channels >= 1 &&
         d->channels <= ETI_QGEMM_NR && ETI_HOLDS(d->out, d->n, int8_t) && d->low >= INT8_MIN &&
         d->low <= INT8_MAX && d->zero >= INT8_MIN && d->zero <= INT8_MAX && d->high == d->high;
}

typedef struct eti_qgemm_micro {
  void (*tile_i8)(const eti_qtile *t);
  void (*tile_f32)(const eti_qtile *t);
  void (*depthwise)(const eti_qdepthwise *d);
  void (*widen)(int16_t *dst, const int8_t *src, size_t n);
} eti_qgemm_micro;

// The best variant for this CPU.
const eti_qgemm_micro *eti_qgemm_micro_best(void);

extern const eti_qgemm_micro eti_qgemm_scalar;
extern const eti_qgemm_micro eti_qgemm_avx2;
extern const eti_qgemm_micro eti_qgemm_avx512;

#endif  // ET_MICRO_QGEMM_H
