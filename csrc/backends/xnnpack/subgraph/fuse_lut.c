// fuse_lut.c — replaces a dequantize → element-wise → quantize chain of int8 values by one lookup
// table. A quantized hardswish or gelu is such a chain. The table is computed by the kernels of
// XNNPACK that would have run, so results are the same bits. Operands of the chain's nodes are its
// own values and constant scalars.
#include <string.h>

#include "backends/xnnpack/subgraph/fuse.h"
#include "backends/xnnpack/tuned/tuned.h"
#include "backends/xnnpack/xnn_status.h"
#include "runtime/check.h"

enum { N = ETI_XNN_LUT_BYTES, MAX_VALUES = 8, EXTRA = XNN_EXTRA_BYTES / sizeof(float) };

// A value of the chain, in fp32, for each byte of the chain's input.
typedef struct column {
  uint32_t value, n_readers;  // readers that have not matched yet
  float numbers[N + EXTRA];
} column;

// A match in progress: the nodes from `first` on.
typedef struct chain {
  eti_xnn_builder *b;
  const eti_xnn_node *first;
  size_t n_left, n_found, n_columns;
  column columns[MAX_VALUES];
  uint8_t table[N + XNN_EXTRA_BYTES];
} chain;

static const eti_xnn_value *value_of(const chain *c, uint32_t value) {
  return &c->b->payload->values[value];
}

static bool is_byte(const chain *c, uint32_t value) {
  const eti_xnn_value *const v = value_of(c, value);
  return (v->datatype == ETI_XNN_qint8 || v->datatype == ETI_XNN_quint8) &&
         v->quantization == QUANT_TENSOR && !v->is_constant;
}

static bool is_inner(const chain *c, uint32_t value) {
  const eti_xnn_value *const v = value_of(c, value);
  return v->datatype == ETI_XNN_fp32 && v->quantization == QUANT_NONE && !v->is_input &&
         !v->is_output && c->b->n_readers[value] > 0;
}

static bool has_shape_of(const chain *c, uint32_t value, uint32_t other) {
  return eti_xnn_same_shape(&c->b->shapes[value], &c->b->shapes[other]);
}

static struct xnn_quantization_params params_of(const chain *c, uint32_t value) {
  const eti_xnn_value *const v = value_of(c, value);
  if (v->quantization != QUANT_TENSOR)
    return (struct xnn_quantization_params){.zero_point = 0, .scale = 1.0f};
  return (struct xnn_quantization_params){.zero_point = v->zero_point, .scale = v->scale};
}

// Runs one unary node over 256 elements; false: XNNPACK refused.
static bool run_unary(const chain *c, const eti_xnn_node *node, const void *in, void *out) {
  union xnn_unary_params params;
  const bool has_params = eti_xnn_unary_params(node, &params);
  const enum xnn_unary_operator type = (enum xnn_unary_operator)eti_xnn_kind_of(node)->operator;
  const enum xnn_datatype x = (enum xnn_datatype)value_of(c, node->inputs[0])->datatype;
  const enum xnn_datatype y = (enum xnn_datatype)value_of(c, node->outputs[0])->datatype;
  const struct xnn_quantization_params from = params_of(c, node->inputs[0]);
  const struct xnn_quantization_params to = params_of(c, node->outputs[0]);
  return xnn_run_unary_elementwise_nc(type, x, y, has_params ? &params : NULL, &from, &to, 0, 1, N,
                                      N, N, NULL, in, out) == xnn_status_success;
}

// An operand of a node: a column, or a constant scalar.
typedef struct operand {
  const float *numbers;  // NULL: neither
  size_t n;
} operand;

static et_status find_operand(chain *c, uint32_t value, operand *out) {
  *out = (operand){NULL, 0};
  for (size_t i = 0; i < c->n_columns; i++) {
    column *const known = &c->columns[i];
    if (known->value != value) continue;
    known->n_readers--;
    *out = (operand){known->numbers, N};
    return ET_OK;
  }
  const eti_xnn_value *const v = value_of(c, value);
  const bool is_float = v->datatype == ETI_XNN_fp32 && v->quantization == QUANT_NONE;
  if (!v->is_constant || !is_float || v->constant_bytes != sizeof(float)) return ET_OK;
  const void *bytes = c->b->addresses[value];  // each is loaded once: there is room for one
  if (bytes == NULL) ET_TRY(eti_xnn_constant_bytes(c->b, value, &bytes));
  *out = (operand){bytes, 1};
  return ET_OK;
}

// A new column for the next node's result; NULL where it can have none.
static column *new_column(chain *c, uint32_t value) {
  if (c->n_columns == MAX_VALUES || !is_inner(c, value) ||
      !has_shape_of(c, value, c->first->inputs[0]))
    return NULL;
  column *const made = &c->columns[c->n_columns];
  made->value = value;
  made->n_readers = c->b->n_readers[value];
  return made;
}

static bool run_binary(const eti_xnn_node *node, const operand *in, float *out) {
  const struct xnn_quantization_params none = {.zero_point = 0, .scale = 1.0f};
  return xnn_run_binary_elementwise_nd((enum xnn_binary_operator)eti_xnn_kind_of(node)->operator,
                                       xnn_datatype_fp32, &none, &none, &none, 0, 1, &in[0].n, 1,
                                       &in[1].n, in[0].numbers, in[1].numbers, out,
                                       NULL) == xnn_status_success;
}

// Matches a node that computes a value of the chain from earlier ones.
static et_status match_step(chain *c, const eti_xnn_node *node, bool *is_step) {
  const eti_xnn_kind *const kind = eti_xnn_kind_of(node);
  const bool is_unary = kind->family == XNN_FAMILY_UNARY;
  const bool is_binary = kind->family == XNN_FAMILY_BINARY && !eti_xnn_has_bounds(node);
  *is_step = false;
  if (node->flags != 0 || !(is_unary || is_binary)) return ET_OK;
  column *const made = new_column(c, node->outputs[0]);
  if (made == NULL) return ET_OK;
  operand in[2] = {{NULL, 0}, {NULL, 0}};
  for (size_t k = 0; k < (is_unary ? 1 : 2); k++) {
    ET_TRY(find_operand(c, node->inputs[k], &in[k]));
    if (in[k].numbers == NULL) return ET_OK;
  }
  if (in[0].n != N && in[1].n != N) return ET_OK;
  *is_step = is_unary ? run_unary(c, node, in[0].numbers, made->numbers)
                      : run_binary(node, in, made->numbers);
  c->n_columns += *is_step;
  return ET_OK;
}

// Matches the first node, which dequantizes.
static bool match_dequantize(chain *c) {
  const eti_xnn_node *const node = c->first;
  if (eti_xnn_kind_of(node)->family != XNN_FAMILY_CONVERT || !is_byte(c, node->inputs[0]))
    return false;
  column *const made = new_column(c, node->outputs[0]);
  uint8_t bytes[N + XNN_EXTRA_BYTES] = {0};
  for (size_t i = 0; i < N; i++) bytes[i] = (uint8_t)i;
  if (made == NULL || !run_unary(c, node, bytes, made->numbers)) return false;
  c->n_columns = c->n_found = 1;
  return true;
}

// Matches the last node, which quantizes the only value of the chain that has not been read.
static et_status match_quantize(chain *c, const eti_xnn_node *node, bool *is_end) {
  const uint32_t out = node->outputs[0];
  operand in;
  *is_end = false;
  if (eti_xnn_kind_of(node)->family != XNN_FAMILY_CONVERT || !is_byte(c, out) ||
      value_of(c, out)->datatype != value_of(c, c->first->inputs[0])->datatype ||
      !has_shape_of(c, out, c->first->inputs[0]))
    return ET_OK;
  ET_TRY(find_operand(c, node->inputs[0], &in));
  if (in.n != N) return ET_OK;
  for (size_t i = 0; i < c->n_columns; i++) {
    if (c->columns[i].n_readers != 0) return ET_OK;
  }
  *is_end = run_unary(c, node, in.numbers, c->table);
  return ET_OK;
}

// Defines the table as a constant of the subgraph.
static et_status table_id(chain *c, uint32_t *id) {
  static const size_t dims[] = {N};
  void *table;
  ET_TRY(eti_xnn_build_arena_alloc(&c->b->state->build_arena, 1, N, &table, c->b->err));
  memcpy(table, c->table, N);
  return eti_xnn_check(
      xnn_define_quantized_tensor_value(c->b->subgraph, xnn_datatype_quint8, 0, 1.0f, 1, dims,
                                        table, XNN_INVALID_VALUE_ID, 0, id),
      c->b->err, "defining a lookup table");
}

static et_status define(chain *c, const eti_xnn_node *last) {
  uint32_t input, table, output;
  ET_TRY(table_id(c, &table));
  ET_TRY(eti_xnn_value_id(c->b, c->first->inputs[0], &input));
  ET_TRY(eti_xnn_value_id(c->b, last->outputs[0], &output));
  return eti_xnn_note_node(c->b, c->first + 1,
                           eti_xnn_define_lut(c->b->subgraph, input, table, output));
}

et_status eti_xnn_fuse_lut(eti_xnn_builder *b, const eti_xnn_node *node, size_t *n_nodes) {
  *n_nodes = 0;
  if (!eti_xnn_has_lut() || eti_xnn_kind_of(node)->family != XNN_FAMILY_CONVERT) return ET_OK;
  const eti_xnn_payload *const payload = b->payload;
  chain c = {.b = b, .first = node, .n_left = payload->n_nodes - (size_t)(node - payload->nodes)};
  bool is_step = match_dequantize(&c), is_end = false;
  while (is_step && c.n_found < c.n_left) {
    const eti_xnn_node *const next = node + c.n_found;
    if (c.n_found > 1) ET_TRY(match_quantize(&c, next, &is_end));
    if (is_end) {
      ET_TRY(define(&c, next));
      *n_nodes = c.n_found + 1;
      return ET_OK;
    }
    ET_TRY(match_step(&c, next, &is_step));
    c.n_found++;
  }
  return ET_OK;
}
