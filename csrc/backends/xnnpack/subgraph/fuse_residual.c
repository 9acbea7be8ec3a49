// fuse_residual.c — finds sums of a payload that the product before them can compute with it: see
// gemm_residual.h. The product must not have bounds and nobody else read its result; the other
// operand, of the same shape, must be there by then.
#include <math.h>
#include <string.h>

#include "backends/xnnpack/subgraph/subgraph_builder.h"
#include "backends/xnnpack/tuned/gemm_kernels.h"
#include "backends/xnnpack/tuned/gemm_residual.h"
#include "runtime/check.h"

static bool is_f32(const eti_xnn_builder *b, uint32_t value) {
  const eti_xnn_value *const v = &b->payload->values[value];
  return v->datatype == ETI_XNN_fp32 && v->quantization == QUANT_NONE;
}

// For fewer columns than our kernels have XNNPACK takes other ones.
static bool is_product(const eti_xnn_builder *b, const eti_xnn_node *node) {
  const uint8_t family = eti_xnn_kind_of(node)->family;
  const bool is_it =
      family == XNN_FAMILY_LINEAR || (family == XNN_FAMILY_CONV && node->p.window.groups == 1);
  if (!is_it || node->n_inputs != 3) return false;
  const eti_xnn_shape *const shape = &b->shapes[node->outputs[0]];
  if (shape->rank == 0 || shape->dims[shape->rank - 1] < ETI_XNN_GEMM_COLS) return false;
  for (unsigned k = 0; k < 3; k++) {
    const bool is_constant = b->payload->values[node->inputs[k]].is_constant;
    if (!is_f32(b, node->inputs[k]) || is_constant != (k > 0)) return false;
  }
  const bool is_free = !(node->output_min > -INFINITY) && !(node->output_max < INFINITY);
  return is_free && is_f32(b, node->outputs[0]);
}

// The only reader of what the product gives, if that is a sum; `other` is its other operand.
static const eti_xnn_node *sum_of(const eti_xnn_builder *b, const eti_xnn_node *product,
                                  uint32_t *other) {
  const uint32_t value = product->outputs[0];
  const eti_xnn_value *const v = &b->payload->values[value];
  if (v->is_output || b->n_readers[value] != 1) return NULL;
  const eti_xnn_node *const node = &b->payload->nodes[b->readers[value]];
  const eti_xnn_kind *const kind = eti_xnn_kind_of(node);
  if (kind->family != XNN_FAMILY_BINARY || kind->operator!= xnn_binary_add || node->flags != 0)
    return NULL;
  *other = node->inputs[node->inputs[0] == value];
  return node;
}

// Outputs are defined before anything is computed.
static bool is_there(const eti_xnn_builder *b, uint32_t value) {
  const eti_xnn_value *const v = &b->payload->values[value];
  return v->is_constant || v->is_input || (b->ids[value] != ETI_XNN_NONE && !v->is_output);
}

et_status eti_xnn_define_join(eti_xnn_builder *b, const eti_xnn_node *node, bool *is_done) {
  uint32_t other, id;
  *is_done = false;
  if (!is_product(b, node) || !eti_xnn_has_own_f32()) return ET_OK;
  const eti_xnn_node *const sum = sum_of(b, node, &other);
  if (sum == NULL || !is_f32(b, other) || !is_f32(b, sum->outputs[0]) || !is_there(b, other) ||
      !eti_xnn_same_shape(&b->shapes[other], &b->shapes[node->outputs[0]]))
    return ET_OK;
  eti_xnn_node joined = *node;
  joined.outputs[0] = sum->outputs[0];
  joined.output_min = sum->output_min;
  joined.output_max = sum->output_max;
  ET_TRY(eti_xnn_value_id(b, other, &id));
  ET_TRY(eti_xnn_define_node(b, &joined));
  eti_xnn_add_residual(b->subgraph, id);
  b->built->is_joined[sum->index] = 1;
  *is_done = true;
  return ET_OK;
}
