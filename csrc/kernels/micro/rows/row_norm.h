// row_norm.h — the inner loops of normalisation, over chunks of elements in a row. Sums use 16
// lanes (element i goes to lane i mod 16) that are added as a fixed tree, and no fused
// multiply-add, so that every instruction set gives the same bits. Relies on
// kernels/micro/isa_select.h. Knows no tensor.
#ifndef ET_MICRO_ROW_NORM_H
#define ET_MICRO_ROW_NORM_H

#include "kernels/dtype_sets.h"

#include <stddef.h>
#include <stdint.h>

// Loops of normalisation. All pointers are to elements of `dtype`; parameters are rounded to it
// once.
typedef struct eti_row_norm_micro {
  uint8_t dtype;  // et_dtype: f32 or f64
  uint8_t esize;
  // Sums of x[i] and of (x[i] − mean)². A chunk may come in pieces, all but the last with a
  // multiple of 16 elements: `lanes` are 16 zeros for the first piece, which the calls carry on;
  // the last call returns the sum of the chunk. NULL for a whole chunk.
  double (*sum)(void *lanes, const void *x, size_t n);
  double (*squares)(void *lanes, const void *x, double mean, size_t n);
  // out[i] = ((x[i] − mean) · rstd) · w[i] + b[i]; w and b may be NULL. out may be x.
  void (*normalize)(void *out, const void *x, double mean, double rstd, const void *w,
                    const void *b, size_t n);
  // out[i] = (x[i] − mean) · scale + shift; the second form has one scale and shift per element.
  void (*affine)(void *out, const void *x, double mean, double scale, double shift, size_t n);
  void (*affine_each)(void *out, const void *x, const void *mean, const void *scale,
                      const void *shift, size_t n);
} eti_row_norm_micro;

enum { ETI_ROW_NORM_F32, ETI_ROW_NORM_F64, ETI_ROW_NORM_TYPES };

// A row of a table of variants, whose loops end in `suffix`. A build without the type has no loops.
#define ETI_ROW_NORM_ENTRY(type, item, suffix) \
  {type,                                       \
   sizeof(item),                               \
   ETI_BUILT(type, sum_##suffix),              \
   ETI_BUILT(type, squares_##suffix),          \
   ETI_BUILT(type, normalize_##suffix),        \
   ETI_BUILT(type, affine_##suffix),           \
   ETI_BUILT(type, affine_each_##suffix)}

const eti_row_norm_micro *eti_row_norm_micro_best(int type);
// The row of an instruction set; NULL when the build or CPU lacks it.
const eti_row_norm_micro *eti_row_norm_micro_of_isa(int type, int isa);

extern const eti_row_norm_micro eti_row_norm_scalar[ETI_ROW_NORM_TYPES];
extern const eti_row_norm_micro eti_row_norm_avx2[ETI_ROW_NORM_TYPES];
extern const eti_row_norm_micro eti_row_norm_avx512[ETI_ROW_NORM_TYPES];

#endif  // ET_MICRO_ROW_NORM_H
