// rowwise.h — softmax and layer norm over rows, the last dimension of f32 values, as nodes.
//
// XNNPACK has no layer norm. As five to eight nodes it would read and write its operand five to
// eight times. A softmax is replaced wherever the kernel runs. Both are exact to
// a few roundings in f32. This header declares the kernels; rowwise.c makes the nodes.
#ifndef ET_XNNPACK_ROWWISE_H
#define ET_XNNPACK_ROWWISE_H

#include <stddef.h>

// Rows of n elements, one after the other. y may be x.
typedef struct eti_xnn_rowwise {
  size_t n;
  const float *x;
  float *y;
  const float *weight, *bias;  // [n], of a layer norm; NULL: 1 and 0
  float eps;                   // of a layer norm, added to the variance
} eti_xnn_rowwise;

// Rows first … first + count - 1. A term of a softmax below 2^-126 of the greatest is 0.
void eti_xnn_f32_softmax__avx2(const eti_xnn_rowwise *rows, size_t first, size_t count);
void eti_xnn_f32_layer_norm__avx2(const eti_xnn_rowwise *rows, size_t first, size_t count);

// rowwise.c: the node that was defined last, a softmax, will run the kernel if it can.
struct xnn_subgraph;
void eti_xnn_softmax_tune(struct xnn_subgraph *subgraph);

#endif  // ET_XNNPACK_ROWWISE_H
