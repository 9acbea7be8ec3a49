// rowwise.c — nodes of our own in XNNPACK's subgraphs: each is defined as XNNPACK's softmax, so
// that its checks and its planning of memory hold, and then given functions of ours for making,
// reshaping and setting up its operator. Reads XNNPACK's inner structs, as gemm_override.c does.
#include "backends/xnnpack/tuned/rowwise.h"

#if defined(ET_XNNPACK_OWN_KERNELS)
#include <string.h>
#include <xnnpack/compute.h>
#include <xnnpack/config.h>
#include <xnnpack/hardware-config.h>
#include <xnnpack/operator.h>
#include <xnnpack/raddstoreexpminusmax.h>
#include <xnnpack/reshape-helpers.h>
#include <xnnpack/subgraph.h>

enum { ELEMENTS_A_TILE = 8192 };  // what a thread takes at once: some microseconds

bool eti_xnn_has_layer_norm(void) {
  const struct xnn_hardware_config *const machine = xnn_init_hardware_config();
  return machine != NULL && machine->use_x86_avx2 && machine->use_x86_fma3;
}

// XNNPACK's own is as fast with AVX-512.
static bool softmax_is_ours(void) {
  const struct xnn_raddstoreexpminusmax_config *const config =
      xnn_init_f32_raddstoreexpminusmax_config();
  return eti_xnn_has_layer_norm() && config != NULL &&
         config->ukernel == (xnn_raddstoreexpminusmax_ukernel_fn)
                                xnn_f32_raddstoreexpminusmax_ukernel__avx2_rr2_p5_u32_acc2;
}

// ---- The operator: eti_xnn_lines is its context

static void run_softmax(void *lines, size_t first, size_t count) {
  eti_xnn_f32_softmax__avx2(lines, first, count);
}

static void run_layer_norm(void *lines, size_t first, size_t count) {
  eti_xnn_f32_layer_norm__avx2(lines, first, count);
}

static void put_context(struct xnn_operator *op, const eti_xnn_lines *lines) {
  _Static_assert(sizeof *lines <= sizeof op->context, "it lies in the operator");
  memcpy(&op->context, lines, sizeof *lines);
}

static eti_xnn_lines context_of(const struct xnn_operator *op) {
  eti_xnn_lines lines;
  memcpy(&lines, &op->context, sizeof lines);
  return lines;
}

static enum xnn_status create(const struct xnn_node *node, struct xnn_operator_data *opdata,
                              pthreadpool_task_1d_tile_1d_t run) {
  const enum xnn_status status = xnn_create_softmax_nc_f32(0, &opdata->operator_objects[0]);
  if (status != xnn_status_success) return status;
  struct xnn_operator *const op = opdata->operator_objects[0];
  op->compute[0] = (struct compute_parameters){.type = xnn_parallelization_type_1d_tile_1d,
                                               .task_1d_tile_1d = run};
  put_context(op, &(eti_xnn_lines){.eps = node->activation.output_min});
  return xnn_status_success;
}

static enum xnn_status create_softmax(const struct xnn_node *node, const struct xnn_value *values,
                                      size_t n_values, struct xnn_operator_data *opdata,
                                      struct xnn_code_cache *code, xnn_weights_cache_t weights) {
  (void)values;
  (void)n_values;
  (void)code;
  (void)weights;
  return create(node, opdata, run_softmax);
}

static enum xnn_status create_norm(const struct xnn_node *node, const struct xnn_value *values,
                                   size_t n_values, struct xnn_operator_data *opdata,
                                   struct xnn_code_cache *code, xnn_weights_cache_t weights) {
  (void)values;
  (void)n_values;
  (void)code;
  (void)weights;
  return create(node, opdata, run_layer_norm);
}

static enum xnn_status reshape(struct xnn_operator_data *opdata, struct xnn_value *values,
                               size_t n_values, pthreadpool_t threads) {
  struct xnn_operator *const op = opdata->operator_objects[0];
  const struct xnn_shape *const shape = &values[opdata->inputs[0]].shape;
  eti_xnn_lines lines = context_of(op);
  lines.n = shape->dim[shape->num_dims - 1];
  put_context(op, &lines);
  op->compute[0].range[0] = xnn_shape_multiply_non_channel_dims(shape);
  op->compute[0].tile[0] = lines.n < ELEMENTS_A_TILE ? ELEMENTS_A_TILE / lines.n : 1;
  op->state = xnn_run_state_needs_setup;
  return resize_unary_elementwise_output_tensor(opdata, values, n_values, opdata->workspace_size,
                                                threads);
}

static enum xnn_status set_up(const struct xnn_operator_data *opdata,
                              const struct xnn_value *values, size_t n_values,
                              pthreadpool_t threads) {
  (void)n_values;
  (void)threads;
  struct xnn_operator *const op = opdata->operator_objects[0];
  eti_xnn_lines lines = context_of(op);
  lines.x = values[opdata->inputs[0]].data;
  lines.y = values[opdata->outputs[0]].data;
  lines.weight = opdata->num_inputs > 1 ? values[opdata->inputs[1]].data : NULL;
  lines.bias = opdata->num_inputs > 2 ? values[opdata->inputs[2]].data : NULL;
  put_context(op, &lines);
  op->state = xnn_run_state_ready;
  return xnn_status_success;
}

// ---- The nodes

static enum xnn_status define(xnn_subgraph_t subgraph, uint32_t input, uint32_t output,
                              struct xnn_node **node) {
  const enum xnn_status status = xnn_define_softmax(subgraph, input, output, 0);
  if (status != xnn_status_success) return status;
  *node = &subgraph->nodes[subgraph->num_nodes - 1];
  (*node)->reshape = reshape;
  (*node)->setup = set_up;
  return xnn_status_success;
}

enum xnn_status eti_xnn_define_softmax(xnn_subgraph_t subgraph, uint32_t input, uint32_t output) {
  const bool is_f32 =
      input < subgraph->num_values && subgraph->values[input].datatype == xnn_datatype_fp32;
  if (!is_f32 || !softmax_is_ours()) return xnn_define_softmax(subgraph, input, output, 0);
  struct xnn_node *node;
  const enum xnn_status status = define(subgraph, input, output, &node);
  if (status == xnn_status_success) node->create = create_softmax;
  return status;
}

enum xnn_status eti_xnn_define_layer_norm(xnn_subgraph_t subgraph, const eti_xnn_norm_ids *norm) {
  struct xnn_node *node;
  const enum xnn_status status = define(subgraph, norm->input, norm->output, &node);
  if (status != xnn_status_success) return status;
  node->create = create_norm;
  node->activation.output_min = norm->eps;  // a softmax has no bounds
  if (norm->weight != XNN_INVALID_VALUE_ID) node->inputs[node->num_inputs++] = norm->weight;
  if (norm->bias != XNN_INVALID_VALUE_ID) node->inputs[node->num_inputs++] = norm->bias;
  return xnn_status_success;
}

const char *eti_xnn_next_own_name(xnn_runtime_t runtime, size_t *at) {
  while (*at < runtime->num_ops && runtime->opdata[*at].operator_objects[0] == NULL) ++*at;
  if (*at == runtime->num_ops) return NULL;
  const struct compute_parameters *const work =
      &runtime->opdata[(*at)++].operator_objects[0]->compute[0];
  if (work->type != xnn_parallelization_type_1d_tile_1d) return NULL;
  if (work->task_1d_tile_1d == run_layer_norm) return "Layer Norm (NC, F32) ours";
  return work->task_1d_tile_1d == run_softmax ? "Softmax (NC, F32) ours" : NULL;
}

#else
bool eti_xnn_has_layer_norm(void) {
  return false;
}

enum xnn_status eti_xnn_define_layer_norm(xnn_subgraph_t subgraph, const eti_xnn_norm_ids *norm) {
  (void)subgraph;
  (void)norm;
  return xnn_status_unsupported_parameter;
}

enum xnn_status eti_xnn_define_softmax(xnn_subgraph_t subgraph, uint32_t input, uint32_t output) {
  return xnn_define_softmax(subgraph, input, output, 0);
}

const char *eti_xnn_next_own_name(xnn_runtime_t runtime, size_t *at) {
  (void)runtime;
  (void)at;
  return NULL;
}
#endif
