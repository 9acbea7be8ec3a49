// quant.h — the inner loops of affine quantization: rows of f32 to integers of 8 or 16 bits and
// back. Halves round to even and the limits apply before the conversion, in every instruction set
// with the same bits. Relies on kernels/micro/isa_select.h. Knows no tensor.
#ifndef ET_MICRO_QUANT_H
#define ET_MICRO_QUANT_H

#include "kernels/dtype_sets.h"

#include <stddef.h>
#include <stdint.h>

// Upper bound of limits and zero points, so that these are exact in f32.
#define ETI_QUANT_LIMIT 65536

typedef struct eti_quant_row {
  float low, high;       // limits of the integers: low ≤ high
  const float *inverse;  // 1 / scale, to quantize
  const float *scale;    // to dequantize
  const float *zero;     // zero points
} eti_quant_row;

// One value of inverse, scale and zero serves the row; in the forms named each, every element has
// its own. NaN becomes 0.
typedef struct eti_quant_micro {
  uint8_t dtype;  // et_dtype of q
  void (*quantize)(void *q, const float *x, const eti_quant_row *r, size_t n);
  void (*quantize_each)(void *q, const float *x, const eti_quant_row *r, size_t n);
  // Quantizes in f64 with the zero point added before rounding, as per-token quantization is
  // defined.
  void (*quantize_token)(void *q, const float *x, double inverse, double zero,
                         const eti_quant_row *r, size_t n);
  void (*dequantize)(float *y, const void *q, const eti_quant_row *r, size_t n);
  void (*dequantize_each)(float *y, const void *q, const eti_quant_row *r, size_t n);
  void (*dequantize_token)(float *y, const void *q, double scale, double zero, size_t n);
} eti_quant_micro;

enum { ETI_QUANT_U8, ETI_QUANT_I8, ETI_QUANT_I16, ETI_QUANT_U16, ETI_QUANT_TYPES };

// A row of a table of variants, whose loops end in `suffix`. A build without the type has no loops.
#define ETI_QUANT_ROW(type, suffix)           \
  {type,                                      \
   ETI_BUILT(type, quantize_##suffix),        \
   ETI_BUILT(type, quantize_each_##suffix),   \
   ETI_BUILT(type, quantize_token_##suffix),  \
   ETI_BUILT(type, dequantize_##suffix),      \
   ETI_BUILT(type, dequantize_each_##suffix), \
   ETI_BUILT(type, dequantize_token_##suffix)}

// The loops for integers of a dtype: the best variant for this CPU, and that of one instruction
// set. NULL when there are none.
const eti_quant_micro *eti_quant_micro_best(int dtype);
const eti_quant_micro *eti_quant_micro_of_isa(int dtype, int isa);

extern const eti_quant_micro eti_quant_scalar[ETI_QUANT_TYPES];
extern const eti_quant_micro eti_quant_avx2[ETI_QUANT_TYPES];
extern const eti_quant_micro eti_quant_avx512[ETI_QUANT_TYPES];

#endif  // ET_MICRO_QUANT_H
