// rms_norm_row.h — a row divided by its root mean square, times a weight for each element. Sums
// have the order of micro/eltwise (64 lanes), products that of micro/rows/row_norm.h, so every
// instruction set gives the same bits. A file that includes it has ETI_USES(rows,
// row_sum_square_diff).
#ifndef ET_RMS_NORM_ROW_H
#define ET_RMS_NORM_ROW_H

#include "kernels/micro/eltwise/eltwise.h"
#include "kernels/micro/rows/row_norm.h"

#include <math.h>

// out[i] = x[i] · (1 / √(Σ x² / n + eps)) · w[i] for n > 0; w may be NULL, out may be x.
static inline void eti_rms_norm_row(float *out, const float *x, const float *w, double eps,
                                    size_t n) {
  const double mean = (double)eti_eltwise_get()->row_sum_square_diff(x, n, 0.0f) / (double)n;
  eti_row_norm_micro_best(ETI_ROW_NORM_F32)
      ->normalize(out, x, 0.0, 1.0 / sqrt(mean + eps), w, NULL, n);
}

#endif  // ET_RMS_NORM_ROW_H
