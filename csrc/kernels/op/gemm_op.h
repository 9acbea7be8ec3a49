// gemm_op.h — n_jobs products C = alpha · A·B + beta · bias, as the operators of op/matmul.c
// describe them: strided matrices of one element type, a bias that is broadcast, an order of jobs.
// Preparing claims room for the panels of a constant operand; the first run packs them, so that
// loading stays cheap and the run's threads share the work. Relies on micro/gemm/gemm.h for all
// arithmetic. Knows no arguments. Half types accumulate in f32 and are rounded once.
#ifndef ET_GEMM_OP_H
#define ET_GEMM_OP_H

#include "kernels/lib/args.h"
#include "kernels/lib/epilogue.h"
#include "kernels/micro/gemm/gemm.h"
#include "kernels/lib/shape.h"

typedef struct eti_gemm_op_panels eti_gemm_op_panels;

// A product. Steps are in elements of `dtype`; data are those of job 0.
typedef struct eti_gemm_op {
  size_t n_jobs, m, n, k;
  et_dtype dtype;
  eti_gemm_view a, b, c, bias;
  bool has_bias;
  bool b_is_stored;  // b.data are the panels of packed_weight.h, for all jobs
  bool is_dynamic;   // other runs may have fewer rows or columns
  eti_shape outer;   // sizes of the dimensions that number the jobs
  ptrdiff_t a_outer[ET_MAX_RANK], b_outer[ET_MAX_RANK], c_outer[ET_MAX_RANK],
      bias_outer[ET_MAX_RANK];
  eti_scalar alpha, beta;
  const eti_epilogue_call *epilogue;  // applied to finished parts of C; NULL: none
  const eti_gemm_op_panels *panels;   // set by eti_gemm_op_run
} eti_gemm_op;

// Both functions may turn p into the product of the transposed matrices. panels are from prepare,
// or NULL. *epilogue_done is true if the product has applied its epilogue.
void eti_gemm_op_run(et_kernel_ctx *ctx, eti_gemm_op *p, eti_gemm_op_panels *panels,
                     bool *epilogue_done);

// Claims the memory for runs of such a product; constant operands have data, others none. *panels
// stays NULL if there is nothing to pack, and while measuring.
et_status eti_gemm_op_prepare(et_prepare_ctx *ctx, eti_gemm_op *p, eti_gemm_op_panels **panels);

#endif  // ET_GEMM_OP_H
