// qgemm_driver.h — rows of 8-bit integers times packed weights, in panels over threads, for
// quantized convolutions and linear layers. Relies on micro/qgemm/, which defines the layout of
// weights and the arithmetic. Knows no tensor's shape.
#ifndef ET_QGEMM_DRIVER_H
#define ET_QGEMM_DRIVER_H

#include "kernels/micro/qgemm/qgemm.h"
#include "kernels/sizes.h"
#include "runtime/et.h"

// Writes rows [first, first + n) of one group, `step` bytes apart, by the micro-kernels' copy.
typedef void (*eti_qrows_fn)(const void *ctx, size_t group, size_t first, size_t n, char *to,
                             size_t step);
// Writes terms [k0, k0 + n) of one row as they are.
typedef void (*eti_qpiece_fn)(const void *ctx, size_t group, size_t row, size_t k0, size_t n,
                              int8_t *to);

typedef struct eti_qgemm_job {
  const eti_qgemm_micro *micro;
  size_t groups, m, n, k;  // rows, columns and terms of one group
  // Groups one after the other, each in whole panels.
  const int8_t *weight;
  const int32_t *starts;
  const float *scales, *adds;
  eti_qrows_fn rows;
  const int8_t *terms;  // the rows of the only group, if they follow each other in memory; or NULL
  eti_qpiece_fn piece;
  const void *ctx;
  void *out;  // i8, or f32 where row_scales is not NULL; the columns of groups side by side
  size_t out_step;
  float high;  // of i8: limit less the zero point
  int32_t low, zero;
  // Scales and zero points of f32, `row_step` (0 or 1) apart.
  const int32_t *row_zeros;
  const float *row_scales;
  size_t row_step;
} eti_qgemm_job;

// Reads packed weights at argument i, then starts, scales and addends, and checks them against
// groups, n and k, which are set. Starts are [2, columns] for a result of i8, whose second row is
// for rows in U8, and [columns] of sums for f32. Also selects the micro-kernels.
et_status eti_qgemm_job_read(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                             bool is_float, eti_qgemm_job *p);
// Reads the zero point of an i8 result at argument i, then its limits.
et_status eti_qlimits_read(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                           eti_qgemm_job *p);
// Scale and zero point of rows: tensors of one element, or of one for each row.
typedef struct eti_row_qparams {
  const et_tensor *scale, *zero;
} eti_row_qparams;

// Reads the parameters from arguments i and i + 1, checked against m rows.
et_status eti_row_qparams_read(const et_kernel_ctx *ctx, et_value *const *args, size_t i, size_t m,
                               eti_row_qparams *numbers);
// Copies scales and zero points of rows [first, first + n).
void eti_row_qparams_get(const eti_row_qparams *numbers, size_t first, size_t n, float *scales,
                         int32_t *zeros);
// Checks the minimums of groups of weights, if there are any, against the scales and zero points.
et_status eti_check_minimums(const et_kernel_ctx *ctx, const et_tensor *scales,
                             const et_tensor *zeros, const et_tensor *minimums);
// Copies rows of k values that follow one another, by the micro-kernels' copy.
void eti_qcopy_rows(const eti_qgemm_micro *micro, const int8_t *from, size_t k, size_t n, char *to,
                    size_t step);
// Bytes of scratch for a run; 0 when it would be too much. Without it a run is slow.
size_t eti_qgemm_job_scratch(const eti_qgemm_job *p, size_t n_threads);
void eti_qgemm_job_run(const et_kernel_ctx *ctx, const eti_qgemm_job *p);

#endif  // ET_QGEMM_DRIVER_H
