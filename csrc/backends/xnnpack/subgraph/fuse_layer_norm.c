// fuse_layer_norm.c — fuses layer norms, for which payloads have no node: a mean, the differences
// from it, the mean of their squares, its reciprocal root, and products and sums with these.
#include <math.h>
#include <string.h>

#include "backends/xnnpack/subgraph/fuse.h"
#include "backends/xnnpack/tuned/tuned.h"
#include "backends/xnnpack/xnn_status.h"
#include "runtime/check.h"

// A match in progress: the nodes from `first` on.
typedef struct match {
  eti_xnn_builder *b;
  const eti_xnn_node *first;
  size_t n_left, n_found;                // nodes of the payload from `first` on; nodes that matched
  uint32_t input, output, weight, bias;  // values
  float eps;
} match;

static const eti_xnn_value *value_of(const match *c, uint32_t value) {
  return &c->b->payload->values[value];
}

static bool is_f32(const match *c, uint32_t value) {
  const eti_xnn_value *const v = value_of(c, value);
  return v->datatype == ETI_XNN_fp32 && v->quantization == QUANT_NONE;
}

// Whether a value is internal and only n_readers nodes read it.
static bool is_inner(const match *c, uint32_t value, uint32_t n_readers) {
  const eti_xnn_value *const v = value_of(c, value);
  return is_f32(c, value) && !v->is_input && !v->is_output && c->b->n_readers[value] == n_readers;
}

// The next node, if it is one of the family and operator and has no bounds.
static const eti_xnn_node *next_node(const match *c, uint8_t family, int operator) {
  if (c->n_found == c->n_left) return NULL;
  const eti_xnn_node *const node = c->first + c->n_found;
  const eti_xnn_kind *const kind = eti_xnn_kind_of(node);
  const bool is_wanted = kind->family == family && kind->operator== operator&& node->flags == 0;
  return is_wanted && !eti_xnn_has_bounds(node) && is_f32(c, node->outputs[0]) ? node : NULL;
}

static size_t last_dim(const match *c, uint32_t value) {
  const eti_xnn_shape *const shape = &c->b->shapes[value];
  return shape->rank == 0 ? 0 : shape->dims[shape->rank - 1];
}

// The elements of a constant [n]; NULL: the value is none.
static et_status read_row(const match *c, uint32_t value, size_t n, const float **row) {
  const eti_xnn_value *const v = value_of(c, value);
  *row = NULL;
  if (!v->is_constant || !is_f32(c, value) || last_dim(c, value) != n) return ET_OK;
  if (v->constant_bytes != n * sizeof(float)) return ET_OK;
  const void *bytes;
  ET_TRY(eti_xnn_constant_bytes(c->b, value, &bytes));
  *row = bytes;
  return ET_OK;
}

// Matches the mean of `of` along the last dimension plus a number: a product with a column of
// 1 / n, and a bias.
static et_status match_mean(match *c, uint32_t of, const eti_xnn_node **out, float *plus) {
  *out = NULL;
  *plus = 0.0f;
  const eti_xnn_node *const node = next_node(c, XNN_FAMILY_LINEAR, 0);
  const size_t n = last_dim(c, of);
  if (node == NULL || node->inputs[0] != of || c->b->shapes[node->inputs[1]].dims[0] != 1)
    return ET_OK;
  const float *column, *bias = plus;
  ET_TRY(read_row(c, node->inputs[1], n, &column));
  if (node->n_inputs > 2) ET_TRY(read_row(c, node->inputs[2], 1, &bias));
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

// Matches a binary node of these operands, in this order or, if it commutes, in any.
static const eti_xnn_node *match_binary(match *c, int operator, uint32_t left, uint32_t right,
                                        bool commutes) {
  const eti_xnn_node *const node = next_node(c, XNN_FAMILY_BINARY, operator);
  if (node == NULL) return NULL;
  const uint32_t *const in = node->inputs;
  const bool is_match =
      (in[0] == left && in[1] == right) || (commutes && in[0] == right && in[1] == left);
  if (is_match) c->n_found++;
  return is_match ? node : NULL;
}

static const eti_xnn_node *match_unary(match *c, int operator, uint32_t of) {
  const eti_xnn_node *const node = next_node(c, XNN_FAMILY_UNARY, operator);
  if (node == NULL || node->inputs[0] != of) return NULL;
  c->n_found++;
  return node;
}

// Matches a layer norm without its weight and bias.
static et_status match_core(match *c, bool *is_norm) {
  const eti_xnn_node *mean, *centered, *squares, *variance, *factor, *result;
  float plus;
  *is_norm = false;
  c->input = c->first->inputs[0];
  if (!is_f32(c, c->input)) return ET_OK;
  ET_TRY(match_mean(c, c->input, &mean, &plus));
  if (mean == NULL || plus != 0.0f || !is_inner(c, mean->outputs[0], 1)) return ET_OK;
  centered = match_binary(c, xnn_binary_subtract, c->input, mean->outputs[0], false);
  if (centered == NULL || !is_inner(c, centered->outputs[0], 2)) return ET_OK;
  squares = match_unary(c, xnn_unary_square, centered->outputs[0]);
  if (squares == NULL || !is_inner(c, squares->outputs[0], 1)) return ET_OK;
  ET_TRY(match_mean(c, squares->outputs[0], &variance, &c->eps));
  if (variance == NULL || !is_inner(c, variance->outputs[0], 1)) return ET_OK;
  factor = match_unary(c, xnn_unary_reciprocal_square_root, variance->outputs[0]);
  if (factor == NULL || !is_inner(c, factor->outputs[0], 1)) return ET_OK;
  result = match_binary(c, xnn_binary_multiply, centered->outputs[0], factor->outputs[0], true);
  if (result == NULL) return ET_OK;
  c->output = result->outputs[0];
  *is_norm = true;
  return ET_OK;
}

// Matches the product or the sum of the result so far and a constant row.
static et_status match_row(match *c, int operator, uint32_t * row) {
  const eti_xnn_node *const node = next_node(c, XNN_FAMILY_BINARY, operator);
  if (node == NULL || !is_inner(c, c->output, 1)) return ET_OK;
  // A row of more dimensions would give them to the result.
  if (c->b->shapes[node->outputs[0]].rank != c->b->shapes[c->input].rank) return ET_OK;
  const uint32_t other = node->inputs[node->inputs[0] == c->output];
  if (node->inputs[0] != c->output && node->inputs[1] != c->output) return ET_OK;
  const float *elements;
  ET_TRY(read_row(c, other, last_dim(c, c->input), &elements));
  if (elements == NULL) return ET_OK;
  *row = other;
  c->output = node->outputs[0];
  c->n_found++;
  return ET_OK;
}

static et_status row_id(match *c, uint32_t value, uint32_t *id) {
  *id = XNN_INVALID_VALUE_ID;
  return value == ETI_XNN_NONE ? ET_OK : eti_xnn_value_id(c->b, value, id);
}

// Defines eps as a constant of the subgraph.
static et_status eps_id(match *c, uint32_t *id) {
  static const size_t dims[] = {1};
  void *eps;
  ET_TRY(eti_xnn_build_arena_alloc(&c->b->state->build_arena, 1, sizeof c->eps, &eps, c->b->err));
  memcpy(eps, &c->eps, sizeof c->eps);
  return eti_xnn_check(xnn_define_tensor_value(c->b->subgraph, xnn_datatype_fp32, 1, dims, eps,
                                               XNN_INVALID_VALUE_ID, 0, id),
                       c->b->err, "defining the epsilon of a layer norm");
}

static et_status define(match *c) {
  eti_xnn_layer_norm_ids ids;
  ET_TRY(eti_xnn_value_id(c->b, c->input, &ids.input));
  ET_TRY(row_id(c, c->weight, &ids.weight));
  ET_TRY(row_id(c, c->bias, &ids.bias));
  ET_TRY(eps_id(c, &ids.eps));
  ET_TRY(eti_xnn_value_id(c->b, c->output, &ids.output));
  return eti_xnn_note_node(c->b, c->first, eti_xnn_define_layer_norm(c->b->subgraph, &ids));
}

et_status eti_xnn_fuse_layer_norm(eti_xnn_builder *b, const eti_xnn_node *node, size_t *n_nodes) {
  const eti_xnn_payload *const payload = b->payload;
  match c = {.b = b,
             .first = node,
             .n_left = payload->n_nodes - (size_t)(node - payload->nodes),
             .weight = ETI_XNN_NONE,
             .bias = ETI_XNN_NONE};
  bool is_norm = false;
  *n_nodes = 0;
  if (eti_xnn_kind_of(node)->family != XNN_FAMILY_LINEAR || !eti_xnn_has_layer_norm()) return ET_OK;
  ET_TRY(match_core(&c, &is_norm));
  if (!is_norm) return ET_OK;
  ET_TRY(match_row(&c, xnn_binary_multiply, &c.weight));
  if (c.weight != ETI_XNN_NONE) ET_TRY(match_row(&c, xnn_binary_add, &c.bias));
  ET_TRY(define(&c));
  *n_nodes = c.n_found;
  return ET_OK;
}
