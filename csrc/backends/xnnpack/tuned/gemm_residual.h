// gemm_residual.h — f32 products that add a residual to their sums: the last node of a branch and
// the sum that ends it, as networks with skip connections have them, in one pass over the result.
// For a sum of its own the result is written, read, written and, where the sum has bounds, read and
// written once more. Numbers are the same bits: each sum is rounded before the residual is added.
//
// Where the f32 kernels of gemm_kernels.h run, fuse_residual.c finds such pairs in a payload. The
// product is defined as XNNPACK's, and then given the residual as an input and a function of ours
// for setting up its operator.
#ifndef ET_XNNPACK_RESIDUALS_H
#define ET_XNNPACK_RESIDUALS_H

#include <stdint.h>
#include <xnnpack.h>

// Lets the last node of the subgraph, a fully connected one or a convolution with a bias that
// XNNPACK computes by gemm or igemm kernels of 16 columns, add the f32 value `residual` of its
// result's shape.
void eti_xnn_add_residual(xnn_subgraph_t subgraph, uint32_t residual);

#endif  // ET_XNNPACK_RESIDUALS_H
