// subgraph_nodes.c — defines nodes of the subgraph, one function per family. If the linked XNNPACK
// has no kernel, conversions are added around the node. bf16 operands are converted to fp32, as are
// quantized operands of nodes that XNNPACK computes in floats only, and fp16 that is quantized.
// Bounds that XNNPACK's node does not support become a clamp. Nodes that only move bytes get their
// input in the output's scale.
#include "backends/xnnpack/subgraph/subgraph_builder.h"
#include "backends/xnnpack/tuned/tuned.h"
#include "runtime/check.h"

#include <math.h>

// The ids of a node's operands in the subgraph.
typedef struct operand_ids {
  uint32_t in[ETI_XNN_MAX_INPUTS], out[2];
} operand_ids;

typedef enum xnn_status (*define_fn)(xnn_subgraph_t s, const eti_xnn_node *n, const operand_ids *w);

// ---- One function per family

bool eti_xnn_unary_params(const eti_xnn_node *node, union xnn_unary_params *params) {
  const enum xnn_unary_operator type = (enum xnn_unary_operator)eti_xnn_kind_of(node)->operator;
  *params = (union xnn_unary_params){.clamp = {node->output_min, node->output_max}};
  if (type == xnn_unary_leaky_relu) params->leaky_relu.negative_slope = node->p.slope;
  if (type == xnn_unary_elu) params->elu.alpha = node->p.slope;
  return type == xnn_unary_clamp || type == xnn_unary_leaky_relu || type == xnn_unary_elu;
}

static enum xnn_status define_unary(xnn_subgraph_t s, const eti_xnn_node *n, const operand_ids *w) {
  const enum xnn_unary_operator type = (enum xnn_unary_operator)eti_xnn_kind_of(n)->operator;
  union xnn_unary_params params;
  const bool has_params = eti_xnn_unary_params(n, &params);
  return xnn_define_unary(s, type, has_params ? &params : NULL, w->in[0], w->out[0], 0);
}

static enum xnn_status define_clamp(xnn_subgraph_t s, const eti_xnn_node *n, uint32_t from,
                                    uint32_t to) {
  const union xnn_unary_params params = {.clamp = {n->output_min, n->output_max}};
  return xnn_define_unary(s, xnn_unary_clamp, &params, from, to, 0);
}

static enum xnn_status define_binary(xnn_subgraph_t s, const eti_xnn_node *n,
                                     const operand_ids *w) {
  const enum xnn_binary_operator type = (enum xnn_binary_operator)eti_xnn_kind_of(n)->operator;
  return xnn_define_binary(s, type, NULL, w->in[0], w->in[1], w->out[0], 0);
}

static enum xnn_status define_linear(xnn_subgraph_t s, const eti_xnn_node *n,
                                     const operand_ids *w) {
  return xnn_define_fully_connected(s, n->output_min, n->output_max, w->in[0], w->in[1], w->in[2],
                                    w->out[0], n->flags);
}

static enum xnn_status define_softmax(xnn_subgraph_t s, const eti_xnn_node *n,
                                      const operand_ids *w) {
  (void)n;
  return xnn_define_softmax(s, w->in[0], w->out[0], 0);
}

static enum xnn_status define_conv(xnn_subgraph_t s, const eti_xnn_node *n, const operand_ids *w) {
  const eti_xnn_window *p = &n->p.window;
  return xnn_define_convolution_2d(
      s, p->padding[0], p->padding[1], p->padding[2], p->padding[3], p->kernel[0], p->kernel[1],
      p->stride[0], p->stride[1], p->dilation[0], p->dilation[1], p->groups, p->group_inputs,
      p->group_outputs, n->output_min, n->output_max, w->in[0], w->in[1], w->in[2], w->out[0], 0);
}

static enum xnn_status define_depthwise(xnn_subgraph_t s, const eti_xnn_node *n,
                                        const operand_ids *w) {
  const eti_xnn_window *p = &n->p.window;
  return xnn_define_depthwise_convolution_2d(
      s, p->padding[0], p->padding[1], p->padding[2], p->padding[3], p->kernel[0], p->kernel[1],
      p->stride[0], p->stride[1], p->dilation[0], p->dilation[1],
      p->group_outputs / p->group_inputs, p->groups, n->output_min, n->output_max, w->in[0],
      w->in[1], w->in[2], w->out[0], 0);
}

static enum xnn_status define_deconv(xnn_subgraph_t s, const eti_xnn_node *n,
                                     const operand_ids *w) {
  const eti_xnn_window *p = &n->p.window;
  return xnn_define_deconvolution_2d(s, p->padding[0], p->padding[1], p->padding[2], p->padding[3],
                                     p->adjustment[0], p->adjustment[1], p->kernel[0], p->kernel[1],
                                     p->stride[0], p->stride[1], p->dilation[0], p->dilation[1],
                                     p->groups, p->group_inputs, p->group_outputs, n->output_min,
                                     n->output_max, w->in[0], w->in[1], w->in[2], w->out[0], 0);
}

// Whether a window is one element. XNNPACK has no pool for it, and it does not change the image.
static bool is_one_element(const eti_xnn_window *p) {
  return p->kernel[0] * p->kernel[1] == 1 && p->stride[0] * p->stride[1] == 1 &&
         (p->padding[0] | p->padding[1] | p->padding[2] | p->padding[3]) == 0;
}

static enum xnn_status define_avg_pool(xnn_subgraph_t s, const eti_xnn_node *n,
                                       const operand_ids *w) {
  const eti_xnn_window *p = &n->p.window;
  if (is_one_element(p)) return define_clamp(s, n, w->in[0], w->out[0]);
  return xnn_define_average_pooling_2d(
      s, p->padding[0], p->padding[1], p->padding[2], p->padding[3], p->kernel[0], p->kernel[1],
      p->stride[0], p->stride[1], n->output_min, n->output_max, w->in[0], w->out[0], n->flags);
}

static enum xnn_status define_max_pool(xnn_subgraph_t s, const eti_xnn_node *n,
                                       const operand_ids *w) {
  const eti_xnn_window *p = &n->p.window;
  if (is_one_element(p)) return define_clamp(s, n, w->in[0], w->out[0]);
  return xnn_define_max_pooling_2d(s, p->padding[0], p->padding[1], p->padding[2], p->padding[3],
                                   p->kernel[0], p->kernel[1], p->stride[0], p->stride[1],
                                   p->dilation[0], p->dilation[1], n->output_min, n->output_max,
                                   w->in[0], w->out[0], n->flags);
}

static enum xnn_status define_arg_max(xnn_subgraph_t s, const eti_xnn_node *n,
                                      const operand_ids *w) {
  const eti_xnn_window *p = &n->p.window;
  return xnn_define_argmax_pooling_2d(s, p->padding[0], p->padding[1], p->padding[2], p->padding[3],
                                      p->kernel[0], p->kernel[1], w->in[0], w->out[0], w->out[1],
                                      n->flags);
}

static enum xnn_status define_mean(xnn_subgraph_t s, const eti_xnn_node *n, const operand_ids *w) {
  static const size_t axes[] = {1, 2};
  return xnn_define_static_reduce(s, xnn_reduce_mean, 2, axes, w->in[0], w->out[0], n->flags);
}

static enum xnn_status define_resize(xnn_subgraph_t s, const eti_xnn_node *n,
                                     const operand_ids *w) {
  return xnn_define_static_resize_bilinear_2d(s, n->p.size[0], n->p.size[1], w->in[0], w->out[0],
                                              n->flags);
}

static enum xnn_status define_transpose(xnn_subgraph_t s, const eti_xnn_node *n,
                                        const operand_ids *w) {
  return xnn_define_static_transpose(s, n->p.dims.n, n->p.dims.list, w->in[0], w->out[0], n->flags);
}

static enum xnn_status define_reshape(xnn_subgraph_t s, const eti_xnn_node *n,
                                      const operand_ids *w) {
  return xnn_define_static_reshape(s, n->p.dims.n, n->p.dims.list, w->in[0], w->out[0], n->flags);
}

static enum xnn_status define_slice(xnn_subgraph_t s, const eti_xnn_node *n, const operand_ids *w) {
  return xnn_define_static_slice(s, n->p.dims.n, n->p.dims.list, n->p.dims.more, w->in[0],
                                 w->out[0], n->flags);
}

static enum xnn_status define_pad(xnn_subgraph_t s, const eti_xnn_node *n, const operand_ids *w) {
  return xnn_define_static_constant_pad(s, n->p.dims.list, n->p.dims.more, n->p.dims.value,
                                        w->in[0], w->out[0], n->flags);
}

static enum xnn_status define_copy(xnn_subgraph_t s, const eti_xnn_node *n, const operand_ids *w) {
  return xnn_define_copy(s, w->in[0], w->out[0], n->flags);
}

static enum xnn_status define_cat(xnn_subgraph_t s, const eti_xnn_node *n, const operand_ids *w) {
  const int32_t axis = (int32_t)n->p.axis;
  const uint32_t *in = w->in;
  switch (n->n_inputs) {
    case 2:
      return xnn_define_concatenate2(s, axis, in[0], in[1], w->out[0], n->flags);
    case 3:
      return xnn_define_concatenate3(s, axis, in[0], in[1], in[2], w->out[0], n->flags);
    case 4:
      return xnn_define_concatenate4(s, axis, in[0], in[1], in[2], in[3], w->out[0], n->flags);
    default:
      return xnn_define_concatenate5(s, axis, in[0], in[1], in[2], in[3], in[4], w->out[0],
                                     n->flags);
  }
}

static enum xnn_status define_matmul(xnn_subgraph_t s, const eti_xnn_node *n,
                                     const operand_ids *w) {
  return xnn_define_batch_matrix_multiply(s, w->in[0], w->in[1], w->out[0], n->flags);
}

typedef struct family {
  define_fn define;
  bool is_clamped;   // XNNPACK's node takes no bounds
  bool moves;        // only moves bytes: input and output must have one scale
  bool needs_float;  // XNNPACK computes it in floats only
  bool has_weights;  // inputs 1 and 2 are filter and bias
} family;

static const family families[XNN_FAMILY_COUNT] = {
    [XNN_FAMILY_UNARY] = {.define = define_unary},
    [XNN_FAMILY_BINARY] = {.define = define_binary, .is_clamped = true},
    [XNN_FAMILY_LINEAR] = {.define = define_linear, .has_weights = true},
    [XNN_FAMILY_SOFTMAX] = {.define = define_softmax, .needs_float = true},
    [XNN_FAMILY_TRANSPOSE] = {.define = define_transpose, .moves = true},
    [XNN_FAMILY_CONV] = {.define = define_conv, .has_weights = true},
    [XNN_FAMILY_DEPTHWISE] = {.define = define_depthwise, .has_weights = true},
    [XNN_FAMILY_DECONV] = {.define = define_deconv, .has_weights = true},
    [XNN_FAMILY_RESIZE] = {.define = define_resize, .moves = true},
    [XNN_FAMILY_PAD] = {.define = define_pad, .moves = true},
    [XNN_FAMILY_AVG_POOL] = {.define = define_avg_pool, .needs_float = true},
    [XNN_FAMILY_MAX_POOL] = {.define = define_max_pool, .moves = true},
    [XNN_FAMILY_ARG_MAX] = {.define = define_arg_max},
    [XNN_FAMILY_CONVERT] = {.define = define_unary},
    [XNN_FAMILY_MEAN] = {.define = define_mean, .is_clamped = true},
    [XNN_FAMILY_RESHAPE] = {.define = define_reshape, .moves = true},
    [XNN_FAMILY_CAT] = {.define = define_cat, .moves = true},
    [XNN_FAMILY_SLICE] = {.define = define_slice, .moves = true},
    [XNN_FAMILY_MATMUL] = {.define = define_matmul},
    [XNN_FAMILY_COPY] = {.define = define_copy, .moves = true},
};

// ---- Conversions and clamps around a node

// Whether a node has bounds and upstream's runtime applies them; other binary kinds ignore theirs.
static bool uses_bounds(const eti_xnn_node *node) {
  switch (eti_xnn_kind_of(node)->operator) {
    case xnn_binary_add:
    case xnn_binary_subtract:
    case xnn_binary_multiply:
    case xnn_binary_divide:
      break;
    default:
      if (eti_xnn_kind_of(node)->family == XNN_FAMILY_BINARY) return false;
  }
  return eti_xnn_has_bounds(node);
}

static bool is_quantized(const eti_xnn_value *v) {
  return v->datatype == ETI_XNN_qint8 || v->datatype == ETI_XNN_quint8;
}

// Whether a node is computed in fp32 though its operands have another type.
static bool is_computed_in_float(const eti_xnn_builder *b, const eti_xnn_node *node) {
  const family *f = &families[eti_xnn_kind_of(node)->family];
  const eti_xnn_value *in = &b->payload->values[node->inputs[0]];
  const eti_xnn_value *out = &b->payload->values[node->outputs[0]];
  if (eti_xnn_kind_of(node)->family == XNN_FAMILY_CONVERT) {
    // XNNPACK rounds 1 / scale to fp16 if it quantizes fp16: up to an eighth of a step for a code.
    const bool is_half = in->datatype == ETI_XNN_bf16 || in->datatype == ETI_XNN_fp16;
    return is_half && (out->datatype == ETI_XNN_qdint8 || is_quantized(out));
  }
  bool is_bf16 = out->datatype == ETI_XNN_bf16;
  for (unsigned k = 0; k < node->n_inputs && !f->has_weights; k++)
    is_bf16 = is_bf16 || b->payload->values[node->inputs[k]].datatype == ETI_XNN_bf16;
  return is_bf16 || in->datatype == ETI_XNN_bf16 || (f->needs_float && is_quantized(in));
}

// Whether all operands are fp16. Only then a filter is packed as fp16.
static bool is_all_fp16(const eti_xnn_builder *b, const eti_xnn_node *node) {
  bool is_fp16 = eti_xnn_kind_of(node)->family == XNN_FAMILY_LINEAR &&
                 b->payload->values[node->outputs[0]].datatype == ETI_XNN_fp16;
  for (unsigned k = 0; k < node->n_inputs; k++)
    is_fp16 = is_fp16 && b->payload->values[node->inputs[k]].datatype == ETI_XNN_fp16;
  return is_fp16;
}

static et_status define_input(eti_xnn_builder *b, const eti_xnn_node *node, unsigned k, bool in_f32,
                              uint32_t *id) {
  const family *f = &families[eti_xnn_kind_of(node)->family];
  const uint32_t value = node->inputs[k];
  const eti_xnn_value *v = &b->payload->values[value];
  const eti_xnn_value *out = &b->payload->values[node->outputs[0]];
  if (f->has_weights && k > 0) {
    const bool is_wide =
        v->datatype == ETI_XNN_bf16 || (v->datatype == ETI_XNN_fp16 && !is_all_fp16(b, node));
    return is_wide ? eti_xnn_f32_id(b, node, value, id) : eti_xnn_value_id(b, value, id);
  }
  if (in_f32 && v->datatype != ETI_XNN_qdint8) return eti_xnn_f32_id(b, node, value, id);
  if (!f->moves || !is_quantized(v) || (v->scale == out->scale && v->zero_point == out->zero_point))
    return eti_xnn_value_id(b, value, id);
  uint32_t given;
  ET_TRY(eti_xnn_value_id(b, value, &given));
  ET_TRY(eti_xnn_internal_value(b, value, node->outputs[0], id));
  return eti_xnn_convert(b, node, given, *id);
}

static et_status define_converted(eti_xnn_builder *b, const eti_xnn_node *node) {
  const family *f = &families[eti_xnn_kind_of(node)->family];
  const bool in_f32 = is_computed_in_float(b, node);
  const uint32_t value = node->outputs[0];
  const bool is_narrowed = in_f32 && eti_xnn_is_activation(b->payload->values[value].datatype) &&
                           b->payload->values[value].datatype != ETI_XNN_fp32;
  const bool is_clamped = f->is_clamped && uses_bounds(node);
  operand_ids w = {.in = {XNN_INVALID_VALUE_ID, XNN_INVALID_VALUE_ID, XNN_INVALID_VALUE_ID,
                          XNN_INVALID_VALUE_ID, XNN_INVALID_VALUE_ID}};
  uint32_t wide, target;
  for (unsigned k = 0; k < node->n_inputs; k++) ET_TRY(define_input(b, node, k, in_f32, &w.in[k]));
  for (unsigned k = 0; k < node->n_outputs; k++)
    ET_TRY(eti_xnn_value_id(b, node->outputs[k], &w.out[k]));
  const uint32_t given = w.out[0];
  if (is_narrowed) ET_TRY(eti_xnn_internal_f32(b, value, &w.out[0]));
  wide = target = w.out[0];
  if (is_clamped) {
    ET_TRY(is_narrowed ? eti_xnn_internal_f32(b, value, &wide)
                       : eti_xnn_internal_value(b, value, value, &wide));
    w.out[0] = wide;
  }
  ET_TRY(eti_xnn_note_node(b, node, f->define(b->subgraph, node, &w)));
  eti_xnn_tune_node(b->subgraph);
  eti_xnn_report_weights_key(b, node);
  if (is_clamped) ET_TRY(eti_xnn_note_node(b, node, define_clamp(b->subgraph, node, wide, target)));
  return is_narrowed ? eti_xnn_convert(b, node, target, given) : ET_OK;
}

et_status eti_xnn_define_node(eti_xnn_builder *b, const eti_xnn_node *node) {
  return eti_xnn_at_node(node, define_converted(b, node), b->err);
}
