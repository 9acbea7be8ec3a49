// conv_stem.c — stem convolution nodes. Each is defined as XNNPACK's convolution_2d and then runs
// the functions below, which call the kernels of conv_stem.h.
#include "backends/xnnpack/tuned/conv_stem/conv_stem.h"

#include "backends/xnnpack/tuned/dwconv/dwconv.h"
#include "backends/xnnpack/tuned/gemm/gemm_override.h"
#include "backends/xnnpack/tuned/own_node.h"
#include "runtime/bytes.h"

enum { PAD_ROWS = 16 };  // of the image per tile: a few microseconds

ETI_XNN_FITS_CONTEXT(eti_xnn_conv_stem);

static eti_xnn_conv_stem context_of(const struct xnn_operator *op) {
  eti_xnn_conv_stem conv;
  eti_xnn_get_context(op, &conv, sizeof conv);
  return conv;
}

static void set_context(struct xnn_operator *op, const eti_xnn_conv_stem *conv) {
  eti_xnn_set_context(op, conv, sizeof *conv);
}

// The kernels of this processor; NULL: XNNPACK's.
static const eti_xnn_conv_stem_kernels *kernels_here(void) {
  if (eti_xnn_has_qs8_dwconv_avx2()) return &eti_xnn_qs8_conv_stem__avx2;
  return eti_xnn_has_qs8_gemm_amx() ? &eti_xnn_qs8_conv_stem__amx : NULL;
}

static void run_pad(void *context, size_t first, size_t count) {
  const eti_xnn_conv_stem *const conv = context;
  conv->kernels->pad(conv, first, count);
}

static void run_conv(void *context, size_t first, size_t count) {
  const eti_xnn_conv_stem *const conv = context;
  conv->kernels->convolve(conv, first, count);
}

// ---- Creation

static eti_xnn_conv_stem conv_of_node(const struct xnn_node *node, const struct xnn_value *input,
                                      const struct xnn_value *output) {
  const float scale = output->quantization.scale;
  const int32_t zero_point = output->quantization.zero_point;
  return (eti_xnn_conv_stem){
      .kernels = kernels_here(),
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
}

// The scale of each filter's sums; false for those that XNNPACK refuses too.
static bool fill_scales(const struct xnn_value *input, const struct xnn_value *filter,
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

static enum xnn_status pack_weights(const struct xnn_node *node, const struct xnn_value *values,
                                    eti_xnn_conv_stem *conv) {
  const struct xnn_value *const filter = &values[node->inputs[1]];
  float *const scales = xnn_allocate_simd_memory(conv->n_filters * sizeof *scales);
  if (scales == NULL) return xnn_status_out_of_memory;
  enum xnn_status status = xnn_status_unsupported_parameter;
  if (fill_scales(&values[node->inputs[0]], filter, &values[node->outputs[0]], conv->n_filters,
                  scales)) {
    void *const packed = xnn_allocate_simd_memory(conv->kernels->weight_bytes(conv));
    status = packed == NULL ? xnn_status_out_of_memory : xnn_status_success;
    if (packed != NULL)
      conv->kernels->pack(conv, filter->data,
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
  eti_xnn_unused_in_create(n_values, code, weights);
  eti_xnn_conv_stem conv = conv_of_node(node, &values[node->inputs[0]], &values[node->outputs[0]]);
  struct xnn_operator *const op = xnn_allocate_zero_simd_memory(sizeof *op);
  if (op == NULL) return xnn_status_out_of_memory;
  const enum xnn_status status = pack_weights(node, values, &conv);
  if (status != xnn_status_success) {
    xnn_release_simd_memory(op);
    return status;
  }
  op->type = values[node->inputs[1]].datatype == xnn_datatype_qcint8
                 ? xnn_operator_type_convolution_nhwc_qc8
                 : xnn_operator_type_convolution_nhwc_qs8;
  op->ukernel.type = xnn_microkernel_type_igemm;
  op->packed_weights.pointer = (void *)(uintptr_t)conv.weights;
  op->compute[0] = eti_xnn_over_rows(run_pad, PAD_ROWS);
  op->compute[1] = eti_xnn_over_rows(run_conv, 1);
  set_context(op, &conv);
  opdata->operator_objects[0] = op;
  return xnn_status_success;
}

// ---- Reshape and setup

static size_t output_size(size_t padded, size_t kernel, size_t dilation, size_t stride) {
  const size_t reach = (kernel - 1) * dilation + 1;
  return padded < reach ? 1 : (padded - reach) / stride + 1;
}

// Whether the size of the padded images fits. No side is longer than the image and two windows.
static bool fits_padded(const eti_xnn_conv_stem *conv, size_t n_images) {
  const size_t row_elements = conv->padding[3] + conv->width + conv->padding[1];
  size_t n;
  return eti_mul(row_elements, conv->n_channels, &n) &&
         eti_mul(n, eti_xnn_qs8_conv_stem_rows(conv), &n) && eti_mul(n, n_images, &n) &&
         n <= SIZE_MAX / 64;
}

static enum xnn_status reshape(struct xnn_operator_data *opdata, struct xnn_value *values,
                               size_t n_values, pthreadpool_t threads) {
  eti_xnn_unused_in_setup(n_values, threads);
  struct xnn_operator *const op = opdata->operator_objects[0];
  const struct xnn_shape *const shape = &values[opdata->inputs[0]].shape;
  struct xnn_value *const output = &values[opdata->outputs[0]];
  const size_t old_workspace_size = opdata->workspace_size, n_images = shape->dim[0];
  eti_xnn_conv_stem conv = context_of(op);
  conv.height = shape->dim[1];
  conv.width = shape->dim[2];
  conv.y_height =
      output_size(eti_xnn_qs8_conv_stem_rows(&conv), conv.kernel[0], conv.dilation, conv.stride[0]);
  conv.y_width = output_size(conv.width + conv.padding[1] + conv.padding[3], conv.kernel[1], 1,
                             conv.stride[1]);
  set_context(op, &conv);
  if (!fits_padded(&conv, n_images)) return xnn_status_out_of_memory;
  op->compute[0].range[0] = n_images * eti_xnn_qs8_conv_stem_rows(&conv);
  op->compute[1].range[0] = n_images * conv.y_height;
  const size_t rows = conv.kernels->results_of_a_tile / conv.y_width;
  op->compute[1].tile[0] = rows > 0 ? rows : 1;
  op->state = xnn_run_state_needs_setup;
  opdata->workspace_size = n_images * conv.kernels->padded_bytes(&conv);
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
  eti_xnn_unused_in_setup(n_values, threads);
  struct xnn_operator *const op = opdata->operator_objects[0];
  eti_xnn_conv_stem conv = context_of(op);
  conv.x = values[opdata->inputs[0]].data;
  conv.y = values[opdata->outputs[0]].data;
  conv.wide = opdata->workspace;
  set_context(op, &conv);
  op->state = xnn_run_state_ready;
  return xnn_status_success;
}

// ---- The node

static bool is_int8(const struct xnn_value *values, const struct xnn_node *node) {
  const struct xnn_value *const filter = &values[node->inputs[1]];
  const bool has_bias = node->num_inputs > 2;
  const enum xnn_datatype bias = has_bias ? values[node->inputs[2]].datatype : xnn_datatype_qint32;
  return values[node->inputs[0]].datatype == xnn_datatype_qint8 &&
         values[node->outputs[0]].datatype == xnn_datatype_qint8 &&
         (filter->datatype == xnn_datatype_qcint8 ||
          (filter->datatype == xnn_datatype_qint8 && filter->quantization.zero_point == 0)) &&
         (bias == xnn_datatype_qint32 || bias == xnn_datatype_qcint32);
}

// Padding beyond the window would only need memory for zeros.
static bool has_small_padding(const struct xnn_node *node) {
  const uint32_t height = node->params.convolution_2d.kernel_height,
                 width = node->params.convolution_2d.kernel_width;
  return node->params.convolution_2d.input_padding_top < height &&
         node->params.convolution_2d.input_padding_bottom < height &&
         node->params.convolution_2d.input_padding_right < width &&
         node->params.convolution_2d.input_padding_left < width;
}

void eti_xnn_conv_stem_tune(xnn_subgraph_t subgraph) {
  struct xnn_node *const node = eti_xnn_last_node(subgraph);
  if (!is_int8(subgraph->values, node) || subgraph->values[node->inputs[1]].data == NULL ||
      node->params.convolution_2d.groups != 1 || node->params.convolution_2d.dilation_width != 1 ||
      node->params.convolution_2d.group_input_channels > ETI_XNN_STEM_CHANNELS ||
      !has_small_padding(node) || kernels_here() == NULL)
    return;
  const eti_xnn_conv_stem conv =
      conv_of_node(node, &subgraph->values[node->inputs[0]], &subgraph->values[node->outputs[0]]);
  if (conv.kernels->fits != NULL && !conv.kernels->fits(&conv)) return;
  node->create = create;
  node->reshape = reshape;
  node->setup = set_up;
}

size_t eti_xnn_conv_stem_names(const char **names, size_t n) {
  if (kernels_here() == NULL) return 0;
  if (n > 0) names[0] = "qs8_igemm_of_few_channels";
  return 1;
}
