// rowwise.c — row-wise softmax and layer norm nodes. Each is defined as XNNPACK's softmax and then
// runs the functions below, which call the kernels of rowwise.h.
#include "backends/xnnpack/tuned/rowwise/rowwise.h"

#include "backends/xnnpack/tuned/own_node.h"
#include "backends/xnnpack/tuned/tuned.h"

enum { TILE_ELEMENTS = 8192 };  // per tile: a few microseconds

// The inputs of a layer norm: x, eps and, if there are, weight and bias.
enum { EPS = 1, WEIGHT, BIAS };
_Static_assert(BIAS < XNN_MAX_INPUTS, "a node has room for the inputs");

ETI_XNN_FITS_CONTEXT(eti_xnn_rowwise);

static eti_xnn_rowwise context_of(const struct xnn_operator *op) {
  eti_xnn_rowwise rows;
  eti_xnn_get_context(op, &rows, sizeof rows);
  return rows;
}

static void set_context(struct xnn_operator *op, const eti_xnn_rowwise *rows) {
  eti_xnn_set_context(op, rows, sizeof *rows);
}

static void run_softmax(void *rows, size_t first, size_t count) {
  eti_xnn_f32_softmax__avx2(rows, first, count);
}

static void run_layer_norm(void *rows, size_t first, size_t count) {
  eti_xnn_f32_layer_norm__avx2(rows, first, count);
}

// ---- The operator

static enum xnn_status create(struct xnn_operator_data *opdata, pthreadpool_task_1d_tile_1d_t run,
                              float eps) {
  const enum xnn_status status = xnn_create_softmax_nc_f32(0, &opdata->operator_objects[0]);
  if (status != xnn_status_success) return status;
  opdata->operator_objects[0]->compute[0] = eti_xnn_over_rows(run, 0);
  set_context(opdata->operator_objects[0], &(eti_xnn_rowwise){.eps = eps});
  return xnn_status_success;
}

static enum xnn_status create_softmax(const struct xnn_node *node, const struct xnn_value *values,
                                      size_t n_values, struct xnn_operator_data *opdata,
                                      struct xnn_code_cache *code, xnn_weights_cache_t weights) {
  (void)node;
  (void)values;
  eti_xnn_unused_in_create(n_values, code, weights);
  return create(opdata, run_softmax, 0.0f);
}

static enum xnn_status create_layer_norm(const struct xnn_node *node,
                                         const struct xnn_value *values, size_t n_values,
                                         struct xnn_operator_data *opdata,
                                         struct xnn_code_cache *code, xnn_weights_cache_t weights) {
  eti_xnn_unused_in_create(n_values, code, weights);
  float eps;
  memcpy(&eps, values[node->inputs[EPS]].data, sizeof eps);
  return create(opdata, run_layer_norm, eps);
}

static enum xnn_status reshape(struct xnn_operator_data *opdata, struct xnn_value *values,
                               size_t n_values, pthreadpool_t threads) {
  struct xnn_operator *const op = opdata->operator_objects[0];
  const struct xnn_shape *const shape = &values[opdata->inputs[0]].shape;
  eti_xnn_rowwise rows = context_of(op);
  rows.n = shape->dim[shape->num_dims - 1];
  set_context(op, &rows);
  op->compute[0].range[0] = xnn_shape_multiply_non_channel_dims(shape);
  op->compute[0].tile[0] = rows.n < TILE_ELEMENTS ? TILE_ELEMENTS / rows.n : 1;
  op->state = xnn_run_state_needs_setup;
  return resize_unary_elementwise_output_tensor(opdata, values, n_values, opdata->workspace_size,
                                                threads);
}

static enum xnn_status set_up(const struct xnn_operator_data *opdata,
                              const struct xnn_value *values, size_t n_values,
                              pthreadpool_t threads) {
  eti_xnn_unused_in_setup(n_values, threads);
  struct xnn_operator *const op = opdata->operator_objects[0];
  eti_xnn_rowwise rows = context_of(op);
  rows.x = values[opdata->inputs[0]].data;
  rows.y = values[opdata->outputs[0]].data;
  rows.weight = opdata->num_inputs > WEIGHT ? values[opdata->inputs[WEIGHT]].data : NULL;
  rows.bias = opdata->num_inputs > BIAS ? values[opdata->inputs[BIAS]].data : NULL;
  set_context(op, &rows);
  op->state = xnn_run_state_ready;
  return xnn_status_success;
}

static void set_functions(struct xnn_node *node, xnn_create_operator_fn create_operator) {
  node->create = create_operator;
  node->reshape = reshape;
  node->setup = set_up;
}

// ---- The nodes

bool eti_xnn_has_layer_norm(void) {
  const struct xnn_hardware_config *const machine = xnn_init_hardware_config();
  return machine != NULL && machine->use_x86_avx2 && machine->use_x86_fma3;
}

void eti_xnn_softmax_tune(xnn_subgraph_t subgraph) {
  struct xnn_node *const node = eti_xnn_last_node(subgraph);
  if (subgraph->values[node->inputs[0]].datatype == xnn_datatype_fp32 && eti_xnn_has_layer_norm())
    set_functions(node, create_softmax);
}

enum xnn_status eti_xnn_define_layer_norm(xnn_subgraph_t subgraph,
                                          const eti_xnn_layer_norm_ids *ids) {
  const enum xnn_status status = xnn_define_softmax(subgraph, ids->input, ids->output, 0);
  if (status != xnn_status_success) return status;
  struct xnn_node *const node = eti_xnn_last_node(subgraph);
  set_functions(node, create_layer_norm);
  eti_xnn_add_input(node, ids->eps);
  if (ids->weight != XNN_INVALID_VALUE_ID) eti_xnn_add_input(node, ids->weight);
  if (ids->bias != XNN_INVALID_VALUE_ID) eti_xnn_add_input(node, ids->bias);
  return xnn_status_success;
}

const char *eti_xnn_tuned_next_name(xnn_runtime_t runtime, size_t *at) {
  while (*at < runtime->num_ops && runtime->opdata[*at].operator_objects[0] == NULL) ++*at;
  if (*at == runtime->num_ops) return NULL;
  const struct compute_parameters *const work =
      &runtime->opdata[(*at)++].operator_objects[0]->compute[0];
  if (work->type != xnn_parallelization_type_1d_tile_1d) return NULL;
  if (work->task_1d_tile_1d == run_layer_norm) return "Layer Norm (NC, F32) tuned";
  return work->task_1d_tile_1d == run_softmax ? "Softmax (NC, F32) tuned" : NULL;
}
