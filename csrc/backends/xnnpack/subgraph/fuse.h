// fuse.h — patterns of payload nodes that run as one node of the subgraph. A pattern is fused only
// whole: no other node reads a value between its nodes, and none of these has bounds.
#ifndef ET_XNNPACK_FUSE_H
#define ET_XNNPACK_FUSE_H

#include "backends/xnnpack/subgraph/subgraph_builder.h"

// Defines one node for the pattern that begins at `node`. *n_nodes: how many nodes from `node` on
// it covers; 0, and nothing is defined, if no pattern begins there.
et_status eti_xnn_try_fuse(eti_xnn_builder *b, const eti_xnn_node *node, size_t *n_nodes);

// The patterns, each by the same convention.
//   layer norm: a mean, the differences from it, the mean of their squares, its reciprocal root,
//   and products and sums with these
et_status eti_xnn_fuse_layer_norm(eti_xnn_builder *b, const eti_xnn_node *node, size_t *n_nodes);
//   lookup table: dequantize → element-wise functions → quantize
et_status eti_xnn_fuse_lut(eti_xnn_builder *b, const eti_xnn_node *node, size_t *n_nodes);
//   residual: a product and the sum that reads it; the sum, which may come later, is marked fused
et_status eti_xnn_fuse_residual(eti_xnn_builder *b, const eti_xnn_node *node, size_t *n_nodes);

#endif  // ET_XNNPACK_FUSE_H
