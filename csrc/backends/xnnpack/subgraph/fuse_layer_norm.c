// fuse_layer_norm.c — finds layer norms in a payload, which has no node for them: a mean, the
// differences from it, their squares' mean, its root's reciprocal, and products and sums with
// these. Where the machine has a layer norm (rowwise.h), one node takes their place. Nodes are
// taken only whole: what lies between them is read by nobody else, and no bounds are put on it.
#include <math.h>

#include "backends/xnnpack/subgraph/subgraph_builder.h"
#include "backends/xnnpack/tuned/rowwise.h"
#include "runtime/check.h"

// The nodes from `first` on, and what has been found of them.
typedef struct candidate {
  eti_xnn_builder *b;
  const eti_xnn_node *first;
  size_t n_left, n_found;  // nodes of the payload from `first` on; those that belong to the norm
  uint32_t input, output, weight, bias;  // values
  float eps;
} candidate;

static const eti_xnn_value *value_of(const candidate *c, uint32_t value) {
  return &c->b->payload->values[value];
}

static bool is_f32(const candidate *c, uint32_t value) {
  const eti_xnn_value *const v = value_of(c, value);
  return v->datatype == ETI_XNN_fp32 && v->quantization == QUANT_NONE;
}

// Whether only n_readers of the nodes have to do with a result.
static bool is_inner(const candidate *c, uint32_t value, uint32_t n_readers) {
  const eti_xnn_value *const v = value_of(c, value);
  return is_f32(c, value) && !v->is_input && !v->is_output && c->b->n_readers[value] == n_readers;
}

// The node after those found, if it is one of the family and operator, and has no bounds.
static const eti_xnn_node *next_is(const candidate *c, uint8_t family, int operator) {
  if (c->n_found == c->n_left) return NULL;
  const eti_xnn_node *const node = c->first + c->n_found;
  const eti_xnn_kind *const kind = eti_xnn_kind_of(node);
  const bool is_free = !(node->output_min > -INFINITY) && !(node->output_max < INFINITY);
  const bool is_it = kind->family == family && kind->operator== operator&& node->flags == 0;
  return is_it && is_free && is_f32(c, node->outputs[0]) ? node : NULL;
}

static size_t last_dim(const candidate *c, uint32_t value) {
  const eti_xnn_shape *const shape = &c->b->shapes[value];
  return shape->rank == 0 ? 0 : shape->dims[shape->rank - 1];
}

// Whether it is a constant of n elements along the last dimension, and where they are.
static et_status read_line(const candidate *c, uint32_t value, size_t n, const float **line) {
  const eti_xnn_value *const v = value_of(c, value);
  *line = NULL;
  if (!v->is_constant || !is_f32(c, value) || last_dim(c, value) != n) return ET_OK;
  if (v->constant_bytes != n * sizeof(float)) return ET_OK;
  const void *bytes;
  ET_TRY(eti_xnn_constant_bytes(c->b, value, &bytes));
  *line = bytes;
  return ET_OK;
}

// The next node, if it is the mean of `of` along the last dimension plus a number: a product with
// a column of 1 / n, and a bias.
static et_status find_mean(candidate *c, uint32_t of, const eti_xnn_node **out, float *plus) {
  *out = NULL;
  *plus = 0.0f;
  const eti_xnn_node *const node = next_is(c, XNN_FAMILY_LINEAR, 0);
  const size_t n = last_dim(c, of);
  if (node == NULL || node->inputs[0] != of || c->b->shapes[node->inputs[1]].dims[0] != 1)
    return ET_OK;
  const float *column, *bias = plus;
  ET_TRY(read_line(c, node->inputs[1], n, &column));
  if (node->n_inputs > 2) ET_TRY(read_line(c, node->inputs[2], 1, &bias));
  if (column == NULL || bias == NULL) return ET_OK;
  const float part = (float)(1.0 / (double)n);
  for (size_t i = 0; i < n; i++) {
    if (column[i] != part) return ET_OK;
  }
  *plus = *bias;
  *out = node;
  c->n_found++;
  return ET_OK;
}

// The next node, if it has these operands, in this order or, of `either_way`, in any.
static const eti_xnn_node *find_binary(candidate *c, int operator, uint32_t left, uint32_t right,
                                       bool either_way) {
  const eti_xnn_node *const node = next_is(c, XNN_FAMILY_BINARY, operator);
  if (node == NULL) return NULL;
  const uint32_t *const in = node->inputs;
  const bool is_it =
      (in[0] == left && in[1] == right) || (either_way && in[0] == right && in[1] == left);
  if (is_it) c->n_found++;
  return is_it ? node : NULL;
}

static const eti_xnn_node *find_unary(candidate *c, int operator, uint32_t of) {
  const eti_xnn_node *const node = next_is(c, XNN_FAMILY_UNARY, operator);
  if (node == NULL || node->inputs[0] != of) return NULL;
  c->n_found++;
  return node;
}

// … without weights. False: it is none.
static et_status find_core(candidate *c, bool *is_norm) {
  const eti_xnn_node *mean, *centered, *squares, *variance, *factor, *result;
  float plus;
  *is_norm = false;
  c->input = c->first->inputs[0];
  if (!is_f32(c, c->input)) return ET_OK;
  ET_TRY(find_mean(c, c->input, &mean, &plus));
  if (mean == NULL || plus != 0.0f || !is_inner(c, mean->outputs[0], 1)) return ET_OK;
  centered = find_binary(c, xnn_binary_subtract, c->input, mean->outputs[0], false);
  if (centered == NULL || !is_inner(c, centered->outputs[0], 2)) return ET_OK;
  squares = find_unary(c, xnn_unary_square, centered->outputs[0]);
  if (squares == NULL || !is_inner(c, squares->outputs[0], 1)) return ET_OK;
  ET_TRY(find_mean(c, squares->outputs[0], &variance, &c->eps));
  if (variance == NULL || !is_inner(c, variance->outputs[0], 1)) return ET_OK;
  factor = find_unary(c, xnn_unary_reciprocal_square_root, variance->outputs[0]);
  if (factor == NULL || !is_inner(c, factor->outputs[0], 1)) return ET_OK;
  result = find_binary(c, xnn_binary_multiply, centered->outputs[0], factor->outputs[0], true);
  if (result == NULL) return ET_OK;
  c->output = result->outputs[0];
  *is_norm = true;
  return ET_OK;
}

// The product or the sum of what has been found and a constant line, if it comes next.
static et_status find_line(candidate *c, int operator, uint32_t * line) {
  const eti_xnn_node *const node = next_is(c, XNN_FAMILY_BINARY, operator);
  if (node == NULL || !is_inner(c, c->output, 1)) return ET_OK;
  // A line of more dimensions would give its own to the result.
  if (c->b->shapes[node->outputs[0]].rank != c->b->shapes[c->input].rank) return ET_OK;
  const uint32_t other = node->inputs[node->inputs[0] == c->output];
  if (node->inputs[0] != c->output && node->inputs[1] != c->output) return ET_OK;
  const float *elements;
  ET_TRY(read_line(c, other, last_dim(c, c->input), &elements));
  if (elements == NULL) return ET_OK;
  *line = other;
  c->output = node->outputs[0];
  c->n_found++;
  return ET_OK;
}

static et_status line_id(candidate *c, uint32_t value, uint32_t *id) {
  *id = XNN_INVALID_VALUE_ID;
  return value == ETI_XNN_NONE ? ET_OK : eti_xnn_value_id(c->b, value, id);
}

static et_status define(candidate *c) {
  eti_xnn_norm_ids ids = {.eps = c->eps};
  ET_TRY(eti_xnn_value_id(c->b, c->input, &ids.input));
  ET_TRY(line_id(c, c->weight, &ids.weight));
  ET_TRY(line_id(c, c->bias, &ids.bias));
  ET_TRY(eti_xnn_value_id(c->b, c->output, &ids.output));
  return eti_xnn_defined(c->b, c->first, eti_xnn_define_layer_norm(c->b->subgraph, &ids));
}

et_status eti_xnn_define_norm(eti_xnn_builder *b, const eti_xnn_node *node, size_t *n_nodes) {
  const eti_xnn_payload *const payload = b->payload;
  candidate c = {.b = b,
                 .first = node,
                 .n_left = payload->n_nodes - (size_t)(node - payload->nodes),
                 .weight = ETI_XNN_NONE,
                 .bias = ETI_XNN_NONE};
  bool is_norm = false;
  *n_nodes = 0;
  if (eti_xnn_kind_of(node)->family != XNN_FAMILY_LINEAR || !eti_xnn_has_layer_norm()) return ET_OK;
  ET_TRY(find_core(&c, &is_norm));
  if (!is_norm) return ET_OK;
  ET_TRY(find_line(&c, xnn_binary_multiply, &c.weight));
  if (c.weight != ETI_XNN_NONE) ET_TRY(find_line(&c, xnn_binary_add, &c.bias));
  ET_TRY(define(&c));
  *n_nodes = c.n_found;
  return ET_OK;
}
