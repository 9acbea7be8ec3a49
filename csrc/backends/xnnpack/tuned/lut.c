// lut.c — see lut.h. Each node is defined as one of XNNPACK's that has a table for int8, made
// by XNNPACK, and then given another table. Reads XNNPACK's inner structs, as rowwise.c does.
#include "backends/xnnpack/tuned/lut.h"

#if defined(ET_XNNPACK_OWN_KERNELS)
#include <string.h>
#include <xnnpack/operator.h>
#include <xnnpack/subgraph.h>

bool eti_xnn_has_tables(void) {
  return true;
}

static enum xnn_status create(const struct xnn_node *node, const struct xnn_value *values,
                              size_t n_values, struct xnn_operator_data *opdata,
                              struct xnn_code_cache *code, xnn_weights_cache_t weights) {
  (void)n_values;
  (void)code;
  (void)weights;
  const struct xnn_quantization_params any = {.zero_point = 0, .scale = 1.0f};
  const enum xnn_datatype type = values[node->inputs[0]].datatype;
  const enum xnn_status status = xnn_create_unary_elementwise_nc(
      xnn_unary_hardswish, type, type, NULL, &any, &any, 0, &opdata->operator_objects[0]);
  if (status != xnn_status_success) return status;
  const void *table;
  memcpy(&table, &node->params, sizeof table);
  memcpy(opdata->operator_objects[0]->lookup_table, table, ETI_XNN_TABLE_BYTES);
  return status;
}

enum xnn_status eti_xnn_define_table(xnn_subgraph_t subgraph, uint32_t input, uint32_t output,
                                     const uint8_t *table) {
  const enum xnn_status status =
      xnn_define_unary(subgraph, xnn_unary_hardswish, NULL, input, output, 0);
  if (status != xnn_status_success) return status;
  struct xnn_node *const node = &subgraph->nodes[subgraph->num_nodes - 1];
  const void *const kept = table;
  memcpy(&node->params, &kept, sizeof kept);
  node->create = create;
  return status;
}

#else
bool eti_xnn_has_tables(void) {
  return false;
}

enum xnn_status eti_xnn_define_table(xnn_subgraph_t subgraph, uint32_t input, uint32_t output,
                                     const uint8_t *table) {
  (void)subgraph;
  (void)input;
  (void)output;
  (void)table;
  return xnn_status_unsupported_parameter;
}
#endif
