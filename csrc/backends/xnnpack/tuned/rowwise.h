// rowwise.h — operators of our own in XNNPACK's graphs, over lines: the last dimension of f32
// values.
//
// XNNPACK has no layer norm; as five to eight nodes it reads and writes its operand as often.
// Where this machine has AVX2 and FMA, and the payload holds those nodes (fuse_layer_norm.c finds
// them), one node of ours takes their place. Softmax is ours where XNNPACK would choose its AVX2
// kernels. Both are exact to a few roundings in f32: see the kernels.
#ifndef ET_XNNPACK_LINES_H
#define ET_XNNPACK_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <xnnpack.h>

// Lines of n elements, one after the other. y may be x.
typedef struct eti_xnn_lines {
  size_t n;
  const float *x;
  float *y;
  const float *weight, *bias;  // [n], of a layer norm; NULL: 1 and 0
  float eps;                   // … added to the variance
} eti_xnn_lines;

// Lines first … first + count - 1. A term of a softmax below 2^-126 of the greatest is 0.
void eti_xnn_f32_softmax__avx2(const eti_xnn_lines *lines, size_t first, size_t count);
void eti_xnn_f32_layer_norm__avx2(const eti_xnn_lines *lines, size_t first, size_t count);

// Whether this machine and build have a layer norm. Any thread, after xnn_initialize.
bool eti_xnn_has_layer_norm(void);

// A layer norm over the last dimension: ids of f32 values of the subgraph, weight and bias
// constants [n] or XNN_INVALID_VALUE_ID, bias not without weight.
typedef struct eti_xnn_norm_ids {
  uint32_t input, weight, bias, output;
  float eps;
} eti_xnn_norm_ids;

enum xnn_status eti_xnn_define_layer_norm(xnn_subgraph_t subgraph, const eti_xnn_norm_ids *norm);
// As xnn_define_softmax without flags.
enum xnn_status eti_xnn_define_softmax(xnn_subgraph_t subgraph, uint32_t input, uint32_t output);

// The name of a runtime's next operator, in the order of its profile, if it is ours; or NULL. *at
// begins with 0 and is moved on.
const char *eti_xnn_next_own_name(xnn_runtime_t runtime, size_t *at);

#endif  // ET_XNNPACK_LINES_H
