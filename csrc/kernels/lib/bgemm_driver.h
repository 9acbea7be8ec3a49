// bgemm_driver.h — rows of f32, rounded to bf16, times packed bf16 weights, in panels over threads,
// for linear layers and convolutions of precision bf16. Relies on micro/bgemm/, which defines the
// layout of weights and the arithmetic. Knows no tensor's shape.
#ifndef ET_BGEMM_DRIVER_H
#define ET_BGEMM_DRIVER_H

#include "kernels/lib/epilogue.h"
#include "kernels/micro/bgemm/bgemm.h"
#include "runtime/et.h"

// Writes rows [first, first + n), `step` bytes apart, by the micro-kernels' copy.
typedef void (*eti_brows_fn)(const void *ctx, size_t first, size_t n, char *to, size_t step);
// Writes terms [k0, k0 + n) of one row as they are.
typedef void (*eti_bpiece_fn)(const void *ctx, size_t row, size_t k0, size_t n, float *to);

typedef struct eti_bgemm_job {
  const eti_bgemm_micro *micro;
  size_t m, n, k;
  const uint16_t *weight;  // whole panels
  const float *bias;       // padded to whole panels, or NULL
  eti_brows_fn rows;
  eti_bpiece_fn piece;
  const void *ctx;
  float *out;                         // rows n apart
  const eti_epilogue_call *epilogue;  // applied to finished parts of the result; NULL: none
} eti_bgemm_job;

// Reads packed weights at argument i and the bias after it, and checks them against n and k, which
// are set. Also selects the micro-kernels.
et_status eti_bgemm_job_read(const et_kernel_ctx *ctx, et_value *const *args, size_t i,
                             eti_bgemm_job *p);
// Bytes of scratch for a run; 0 when it would be too much. Without it a run is slow.
size_t eti_bgemm_job_scratch(const eti_bgemm_job *p, size_t n_threads);
void eti_bgemm_job_run(const et_kernel_ctx *ctx, const eti_bgemm_job *p);

#endif  // ET_BGEMM_DRIVER_H
