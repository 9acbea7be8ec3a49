// lut.c — lookup table nodes. Each is XNNPACK's int8 hardswish, which is a table lookup, with
// another table. XNNPACK's kernel runs it.
#include "backends/xnnpack/tuned/own_node.h"
#include "backends/xnnpack/tuned/tuned.h"

enum { TABLE = 1 };  // the input that XNNPACK's own functions do not read
_Static_assert(TABLE < XNN_MAX_INPUTS, "a node has room for the table");

bool eti_xnn_has_lut(void) {
  return true;
}

static enum xnn_status create(const struct xnn_node *node, const struct xnn_value *values,
                              size_t n_values, struct xnn_operator_data *opdata,
                              struct xnn_code_cache *code, xnn_weights_cache_t weights) {
  eti_xnn_unused_in_create(n_values, code, weights);
  const struct xnn_quantization_params any = {.zero_point = 0, .scale = 1.0f};
  const enum xnn_datatype type = values[node->inputs[0]].datatype;
  const enum xnn_status status = xnn_create_unary_elementwise_nc(
      xnn_unary_hardswish, type, type, NULL, &any, &any, 0, &opdata->operator_objects[0]);
  if (status != xnn_status_success) return status;
  memcpy(opdata->operator_objects[0]->lookup_table, values[node->inputs[TABLE]].data,
         ETI_XNN_LUT_BYTES);
  return status;
}

enum xnn_status eti_xnn_define_lut(xnn_subgraph_t subgraph, uint32_t input, uint32_t table,
                                   uint32_t output) {
  const enum xnn_status status =
      xnn_define_unary(subgraph, xnn_unary_hardswish, NULL, input, output, 0);
  if (status != xnn_status_success) return status;
  struct xnn_node *const node = eti_xnn_last_node(subgraph);
  eti_xnn_add_input(node, table);
  node->create = create;
  return status;
}
