// qgroups_job.h — rows times one or more weights that are packed in groups, over threads, and what
// is merged with these products: the root mean square norm before the rows are quantized, a
// residual behind one product, element-wise steps on the results of two. Relies on
// micro/qgemm/qgemm_groups.h, which defines the layout of weights and the arithmetic.
#ifndef ET_QGROUPS_JOB_H
#define ET_QGROUPS_JOB_H

#include "kernels/lib/epilogue.h"
#include "kernels/lib/qgemm_driver.h"
#include "kernels/micro/qgemm/qgemm_groups.h"

enum { ETI_QGROUPS_MAX_PRODUCTS = 8 };

// The tensors of a weight, in the order of arguments.
typedef enum eti_qgroups_operand {
  ETI_QGROUPS_WEIGHT,
  ETI_QGROUPS_SCALES,
  ETI_QGROUPS_ZEROS,     // or NULL
  ETI_QGROUPS_MINIMUMS,  // or NULL
  ETI_QGROUPS_SUMS,
  ETI_QGROUPS_ADDENDS,
  ETI_QGROUPS_OPERANDS,
} eti_qgroups_operand;

// A weight and its result.
typedef struct eti_qgroups_product {
  size_t n;  // columns
  const et_tensor *operands[ETI_QGROUPS_OPERANDS];
  float *out;  // m rows of n elements
} eti_qgroups_product;

typedef struct eti_qgroups_job {
  const eti_qgroups_micro *micro;
  const et_tensor *in;
  bool is_float;             // rows of f32, which are quantized here
  eti_row_qparams numbers;   // of rows of i8
  bool is_normalized;        // rows of f32 are divided by their root mean square first
  const float *norm_weight;  // or NULL
  double norm_eps;
  size_t m, n_terms, group, n_groups;
  size_t n_products;
  eti_qgroups_product products[ETI_QGROUPS_MAX_PRODUCTS];
  const float *residual;      // added to the only result; or NULL
  bool is_gated;              // `steps` on the first of two results, with the second as their
  const eti_epilogue *steps;  // tensor, give the only result, in the first one's `out`
} eti_qgroups_job;

// Begins a job with rows of i8 or f32 and a number of terms of a group, both checked.
et_status eti_qgroups_read_rows(const et_kernel_ctx *ctx, const et_tensor *in, int64_t group,
                                eti_qgroups_job *job);
// Adds a product with n columns, whose operands are checked.
et_status eti_qgroups_add_product(const et_kernel_ctx *ctx,
                                  const et_tensor *const operands[ETI_QGROUPS_OPERANDS], int64_t n,
                                  eti_qgroups_job *job);
// Gives `out` the sizes of the rows' product with n columns.
et_status eti_qgroups_resize(const et_kernel_ctx *ctx, const eti_qgroups_job *job, size_t n,
                             et_tensor *out);
// Asks for scratch, without which rows of i8 are slow and others are refused.
void eti_qgroups_prepare(et_prepare_ctx *ctx, const eti_qgroups_job *job);
et_status eti_qgroups_run(const et_kernel_ctx *ctx, const eti_qgroups_job *job);

#endif  // ET_QGROUPS_JOB_H
