// fuse_residual.c — fuses an f32 product and the sum that adds a residual to it. Only the sum reads
// the product's result; the residual has the same shape and is computed before the product.
#include "backends/xnnpack/subgraph/fuse.h"
#include "backends/xnnpack/tuned/tuned.h"
#include "runtime/check.h"

static bool is_f32(const eti_xnn_builder *b, uint32_t value) {
  const eti_xnn_value *const v = &b->payload->values[value];
  return v->datatype == ETI_XNN_fp32 && v->quantization == QUANT_NONE;
}

static bool is_product(const eti_xnn_builder *b, const eti_xnn_node *node) {
  const uint8_t family = eti_xnn_kind_of(node)->family;
  const bool is_gemm =
      family == XNN_FAMILY_LINEAR || (family == XNN_FAMILY_CONV && node->p.window.groups == 1);
  if (!is_gemm || node->n_inputs != 3) return false;
  const eti_xnn_shape *const shape = &b->shapes[node->outputs[0]];
  if (shape->rank == 0) return false;
  for (unsigned k = 0; k < 3; k++) {
    const bool is_constant = b->payload->values[node->inputs[k]].is_constant;
    if (!is_f32(b, node->inputs[k]) || is_constant != (k > 0)) return false;
  }
  return !eti_xnn_has_bounds(node) && is_f32(b, node->outputs[0]) &&
         eti_xnn_has_gemm_residual(shape->dims[shape->rank - 1]);
}

// The only reader of a product's result, if it is a sum; `other`: its other operand.
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

// Whether a value is computed before the next node. Outputs have ids from the start.
static bool is_computed(const eti_xnn_builder *b, uint32_t value) {
  const eti_xnn_value *const v = &b->payload->values[value];
  return v->is_constant || v->is_input || (b->ids[value] != ETI_XNN_NONE && !v->is_output);
}

et_status eti_xnn_fuse_residual(eti_xnn_builder *b, const eti_xnn_node *node, size_t *n_nodes) {
  uint32_t other, id;
  *n_nodes = 0;
  if (!is_product(b, node)) return ET_OK;
  const eti_xnn_node *const sum = sum_of(b, node, &other);
  if (sum == NULL || !is_f32(b, other) || !is_f32(b, sum->outputs[0]) || !is_computed(b, other) ||
      !eti_xnn_same_shape(&b->shapes[other], &b->shapes[node->outputs[0]]))
    return ET_OK;
  eti_xnn_node fused = *node;
  fused.outputs[0] = sum->outputs[0];
  fused.output_min = sum->output_min;
  fused.output_max = sum->output_max;
  ET_TRY(eti_xnn_value_id(b, other, &id));
  ET_TRY(eti_xnn_define_node(b, &fused));
  eti_xnn_add_residual(b->subgraph, id);
  b->state->is_fused[sum->index] = 1;
  *n_nodes = 1;
  return ET_OK;
}
