// conv_stem.c — convolutions of our own in XNNPACK's subgraphs: see conv_stem.h. Each is defined as
// XNNPACK's, so that its checks hold, and then given functions of ours for making, reshaping and
// setting up its operator. Reads XNNPACK's inner structs, as rowwise.c does.
#include "backends/xnnpack/tuned/conv_stem.h"

static enum xnn_status define(xnn_subgraph_t subgraph, const eti_xnn_shallow_node *n) {
  return xnn_define_convolution_2d(subgraph, n->padding[0], n->padding[1], n->padding[2],
                                   n->padding[3], n->kernel[0], n->kernel[1], n->stride[0],
                                   n->stride[1], n->dilation[0], n->dilation[1], n->groups,
                                   n->group_inputs, n->group_outputs, n->min, n->max, n->input,
                                   n->filter, n->bias, n->output, 0);
}

#if defined(ET_XNNPACK_OWN_KERNELS)
#include <string.h>
#include <xnnpack/allocator.h>
#include <xnnpack/common.h>
#include <xnnpack/compute.h>
#include <xnnpack/operator.h>
#include <xnnpack/requantization.h>
#include <xnnpack/subgraph.h>

#include "backends/xnnpack/tuned/dwconv.h"
#include "runtime/bytes.h"

enum { ROWS_A_TILE = 16 };  // of the image: as little as some microseconds

// ---- The operator: eti_xnn_shallow is its context

static void widen(void *conv, size_t first, size_t count) {
  eti_xnn_qs8_shallow_widen__avx2(conv, first, count);
}

static void convolve(void *conv, size_t first, size_t count) {
  eti_xnn_qs8_shallow__avx2(conv, first, count);
}

static void put_context(struct xnn_operator *op, const eti_xnn_shallow *conv) {
  _Static_assert(sizeof *conv <= sizeof op->context, "it lies in the operator");
  memcpy(&op->context, conv, sizeof *conv);
}

static eti_xnn_shallow context_of(const struct xnn_operator *op) {
  eti_xnn_shallow conv;
  memcpy(&conv, &op->context, sizeof conv);
  return conv;
}

static eti_xnn_shallow of_node(const struct xnn_node *node, const struct xnn_value *input,
                               const struct xnn_value *output) {
  const float scale = output->quantization.scale;
  const int32_t zero_point = output->quantization.zero_point;
  eti_xnn_shallow conv = {
      .n_channels = node->params.convolution_2d.group_input_channels,
      .n_filters = node->params.convolution_2d.group_output_channels,
      .kernel = {node->params.convolution_2d.kernel_height,
                 node->params.convolution_2d.kernel_width},
      .stride = {node->params.convolution_2d.subsampling_height,
                 node->params.convolution_2d.subsampling_width},
      .dilation = node->params.convolution_2d.dilation_height,
      .padding = {node->params.convolution_2d.input_padding_top,
                  node->params.convolution_2d.input_padding_right,
                  node->params.convolution_2d.input_padding_bottom,
                  node->params.convolution_2d.input_padding_left},
      .zero_point = (int16_t)input->quantization.zero_point,
      .limits = {.zero_point = (int16_t)zero_point,
                 .min = xnn_qs8_quantize(node->activation.output_min, scale, zero_point),
                 .max = xnn_qs8_quantize(node->activation.output_max, scale, zero_point)}};
  return conv;
}

// XNNPACK refuses the same scales.
static bool find_scales(const struct xnn_value *input, const struct xnn_value *filter,
                        const struct xnn_value *output, size_t n, float *scales) {
  for (size_t i = 0; i < n; i++) {
    const float scale = filter->datatype == xnn_datatype_qcint8
                            ? filter->quantization.channelwise_scale[i]
                            : filter->quantization.scale;
    scales[i] = input->quantization.scale * scale / output->quantization.scale;
    if (!(scales[i] < 256.0f)) return false;
  }
  return true;
}

static enum xnn_status pack(const struct xnn_node *node, const struct xnn_value *values,
                            eti_xnn_shallow *conv) {
  const struct xnn_value *const filter = &values[node->inputs[1]];
  float *const scales = xnn_allocate_simd_memory(conv->n_filters * sizeof *scales);
  if (scales == NULL) return xnn_status_out_of_memory;
  enum xnn_status status = xnn_status_unsupported_parameter;
  if (find_scales(&values[node->inputs[0]], filter, &values[node->outputs[0]], conv->n_filters,
                  scales)) {
    void *const packed = xnn_allocate_simd_memory(eti_xnn_qs8_shallow_weight_bytes(conv));
    status = packed == NULL ? xnn_status_out_of_memory : xnn_status_success;
    if (packed != NULL)
      eti_xnn_qs8_shallow_pack(conv, filter->data,
                               node->num_inputs > 2 ? values[node->inputs[2]].data : NULL, scales,
                               packed);
    conv->weights = packed;
  }
  xnn_release_simd_memory(scales);
  return status;
}

static enum xnn_status create(const struct xnn_node *node, const struct xnn_value *values,
                              size_t n_values, struct xnn_operator_data *opdata,
                              struct xnn_code_cache *code, xnn_weights_cache_t weights) {
  (void)n_values;
  (void)code;
  (void)weights;
  eti_xnn_shallow conv = of_node(node, &values[node->inputs[0]], &values[node->outputs[0]]);
  struct xnn_operator *const op = xnn_allocate_zero_simd_memory(sizeof *op);
  if (op == NULL) return xnn_status_out_of_memory;
  const enum xnn_status status = pack(node, values, &conv);
  if (status != xnn_status_success) {
    xnn_release_simd_memory(op);
    return status;
  }
  op->type = values[node->inputs[1]].datatype == xnn_datatype_qcint8
                 ? xnn_operator_type_convolution_nhwc_qc8
                 : xnn_operator_type_convolution_nhwc_qs8;
  op->ukernel.type = xnn_microkernel_type_igemm;
  op->packed_weights.pointer = (void *)(uintptr_t)conv.weights;
  op->compute[0] = (struct compute_parameters){
      .type = xnn_parallelization_type_1d_tile_1d, .task_1d_tile_1d = widen, .tile = {ROWS_A_TILE}};
  op->compute[1] = (struct compute_parameters){
      .type = xnn_parallelization_type_1d_tile_1d, .task_1d_tile_1d = convolve, .tile = {1}};
  put_context(op, &conv);
  opdata->operator_objects[0] = op;
  return xnn_status_success;
}

static size_t n_results(size_t padded, size_t kernel, size_t dilation, size_t stride) {
  const size_t reach = (kernel - 1) * dilation + 1;
  return padded < reach ? 1 : (padded - reach) / stride + 1;
}

// Whether widened images have a size at all. Neither side is longer than the image and two windows.
static bool can_be_widened(const eti_xnn_shallow *conv, size_t n_images) {
  const size_t row_elements = conv->padding[3] + conv->width + conv->padding[1];
  size_t n;
  return eti_mul(row_elements, conv->n_channels, &n) &&
         eti_mul(n, eti_xnn_qs8_shallow_rows(conv), &n) && eti_mul(n, n_images, &n) &&
         n <= SIZE_MAX / 64;
}

static enum xnn_status reshape(struct xnn_operator_data *opdata, struct xnn_value *values,
                               size_t n_values, pthreadpool_t threads) {
  (void)n_values;
  (void)threads;
  struct xnn_operator *const op = opdata->operator_objects[0];
  const struct xnn_shape *const shape = &values[opdata->inputs[0]].shape;
  struct xnn_value *const output = &values[opdata->outputs[0]];
  const size_t old_workspace_size = opdata->workspace_size, n_images = shape->dim[0];
  eti_xnn_shallow conv = context_of(op);
  conv.height = shape->dim[1];
  conv.width = shape->dim[2];
  conv.y_height =
      n_results(eti_xnn_qs8_shallow_rows(&conv), conv.kernel[0], conv.dilation, conv.stride[0]);
  conv.y_width =
      n_results(conv.width + conv.padding[1] + conv.padding[3], conv.kernel[1], 1, conv.stride[1]);
  put_context(op, &conv);
  if (!can_be_widened(&conv, n_images)) return xnn_status_out_of_memory;
  op->compute[0].range[0] = n_images * eti_xnn_qs8_shallow_rows(&conv);
  op->compute[1].range[0] = n_images * conv.y_height;
  op->state = xnn_run_state_needs_setup;
  opdata->workspace_size = n_images * eti_xnn_qs8_shallow_wide_bytes(&conv);
  opdata->workspace_alignment = XNN_ALLOCATION_ALIGNMENT;
  output->shape = (struct xnn_shape){
      .num_dims = 4, .dim = {n_images, conv.y_height, conv.y_width, conv.n_filters}};
  const size_t bytes = n_images * conv.y_height * conv.y_width * conv.n_filters;
  if (bytes <= output->size && opdata->workspace_size <= old_workspace_size)
    return xnn_status_success;
  output->size = bytes;
  return xnn_status_reallocation_required;
}

static enum xnn_status set_up(const struct xnn_operator_data *opdata,
                              const struct xnn_value *values, size_t n_values,
                              pthreadpool_t threads) {
  (void)n_values;
  (void)threads;
  struct xnn_operator *const op = opdata->operator_objects[0];
  eti_xnn_shallow conv = context_of(op);
  conv.x = values[opdata->inputs[0]].data;
  conv.y = values[opdata->outputs[0]].data;
  conv.wide = opdata->workspace;
  put_context(op, &conv);
  op->state = xnn_run_state_ready;
  return xnn_status_success;
}

// ---- The node

// Padding that reaches beyond the window would be memory for zeros alone.
static bool is_padded_little(const eti_xnn_shallow_node *n) {
  return n->padding[0] < n->kernel[0] && n->padding[2] < n->kernel[0] &&
         n->padding[1] < n->kernel[1] && n->padding[3] < n->kernel[1];
}

static bool is_ours(xnn_subgraph_t subgraph, const eti_xnn_shallow_node *n) {
  const struct xnn_value *const values = subgraph->values;
  const struct xnn_value *const filter = &values[n->filter];
  const bool is_int8 =
      values[n->input].datatype == xnn_datatype_qint8 &&
      values[n->output].datatype == xnn_datatype_qint8 &&
      (filter->datatype == xnn_datatype_qcint8 ||
       (filter->datatype == xnn_datatype_qint8 && filter->quantization.zero_point == 0)) &&
      (n->bias == XNN_INVALID_VALUE_ID || values[n->bias].datatype == xnn_datatype_qint32 ||
       values[n->bias].datatype == xnn_datatype_qcint32);
  return is_int8 && filter->data != NULL && n->groups == 1 && n->dilation[1] == 1 &&
         is_padded_little(n) && n->group_inputs <= ETI_XNN_SHALLOW_CHANNELS &&
         eti_xnn_has_own_qs8_depthwise();
}

enum xnn_status eti_xnn_define_convolution(xnn_subgraph_t subgraph, const eti_xnn_shallow_node *n) {
  const enum xnn_status status = define(subgraph, n);
  if (status != xnn_status_success || !is_ours(subgraph, n)) return status;
  struct xnn_node *const node = &subgraph->nodes[subgraph->num_nodes - 1];
  node->create = create;
  node->reshape = reshape;
  node->setup = set_up;
  return status;
}

size_t eti_xnn_own_convolutions(const char **names, size_t n) {
  if (!eti_xnn_has_own_qs8_depthwise()) return 0;
  if (n > 0) names[0] = "qs8_igemm_of_few_channels";
  return 1;
}

#else
size_t eti_xnn_own_convolutions(const char **names, size_t n) {
  (void)names;
  (void)n;
  return 0;
}

enum xnn_status eti_xnn_define_convolution(xnn_subgraph_t subgraph, const eti_xnn_shallow_node *n) {
  return define(subgraph, n);
}
#endif
