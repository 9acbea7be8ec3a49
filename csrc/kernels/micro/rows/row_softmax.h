// row_softmax.h — one row of neighbouring columns in a softmax along them, per instruction set: the
// terms and the results. All variants come from one source (row_softmax.body.h) and give the same
// bits. Whole rows have their own kernels in eltwise.h. Relies on isa_select.h; knows no tensor.
#ifndef ET_MICRO_ROW_SOFTMAX_H
#define ET_MICRO_ROW_SOFTMAX_H

#include "kernels/micro/isa_select.h"

#include <stddef.h>

// Longest row of which many are computed at once (rows_softmax_short of eltwise.h).
#define ETI_SHORT_ROW 64u

typedef struct eti_row_softmax_micro {
  // sum[i] += e^(x[i] - high[i]); terms[i] is that term if terms is not NULL; terms may be x.
  void (*add_terms)(float *sum, float *terms, const float *x, const float *high, size_t n);
  // out[i] = e^(x[i] - high[i]) · factor[i]
  void (*scale_terms)(float *out, const float *x, const float *high, const float *factor, size_t n);
  // out[i] = x[i] - high[i] - log_sum[i]; out may be x.
  void (*logarithms)(float *out, const float *x, const float *high, const float *log_sum, size_t n);
} eti_row_softmax_micro;

extern const eti_row_softmax_micro eti_row_softmax_scalar;
#if ETI_HAVE_X86
extern const eti_row_softmax_micro eti_row_softmax_avx2;
extern const eti_row_softmax_micro eti_row_softmax_avx512;
#endif

// The variant of this CPU.
const eti_row_softmax_micro *eti_row_softmax_micro_get(void);

#endif  // ET_MICRO_ROW_SOFTMAX_H
