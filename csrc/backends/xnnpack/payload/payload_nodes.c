// payload_nodes.c — reads the nodes of a payload and checks that every value is written before it
// is read. The nodes' tables have few layouts, described as data: the slots of inputs, outputs and
// flags. The other fields are read by layout.
#include "backends/xnnpack/payload/payload_parts.h"
#include "runtime/bytes.h"
#include "runtime/check.h"
#include "runtime/half.h"

#include <math.h>
#include <string.h>

enum {
  XNN_LAYOUT_UNARY,
  XNN_LAYOUT_BINARY,
  XNN_LAYOUT_CAT2,
  XNN_LAYOUT_CAT3,
  XNN_LAYOUT_CAT4,
  XNN_LAYOUT_CAT5,
  XNN_LAYOUT_CONV,
  XNN_LAYOUT_POOL,
  XNN_LAYOUT_LINEAR,
  XNN_LAYOUT_DIMS,
  XNN_LAYOUT_RESIZE,
  XNN_LAYOUT_PAD,
  XNN_LAYOUT_SLICE,
  XNN_LAYOUT_ARG_POOL,
  XNN_LAYOUT_SLOPE,
};

typedef struct layout {
  uint8_t n_slots, n_inputs, n_outputs;
  uint8_t inputs[ETI_XNN_MAX_INPUTS], outputs[2], flags;
  uint8_t lists;  // a bit for each slot that is a vector of u32
} layout;

static const layout layouts[] = {
    [XNN_LAYOUT_UNARY] = {3, 1, 1, {0}, {1}, 2, 0},
    [XNN_LAYOUT_BINARY] = {4, 2, 1, {0, 1}, {2}, 3, 0},
    [XNN_LAYOUT_CAT2] = {8, 2, 1, {1, 2}, {5}, 6, 0},
    [XNN_LAYOUT_CAT3] = {8, 3, 1, {1, 2, 3}, {5}, 6, 0},
    [XNN_LAYOUT_CAT4] = {8, 4, 1, {1, 2, 3, 4}, {5}, 6, 0},
    [XNN_LAYOUT_CAT5] = {8, 5, 1, {1, 2, 3, 4, 7}, {5}, 6, 0},
    [XNN_LAYOUT_CONV] = {20, 3, 1, {15, 16, 17}, {18}, 19, 0},
    [XNN_LAYOUT_POOL] = {13, 1, 1, {10}, {11}, 12, 0},
    [XNN_LAYOUT_LINEAR] = {5, 3, 1, {0, 1, 2}, {3}, 4, 0},
    [XNN_LAYOUT_DIMS] = {5, 1, 1, {2}, {3}, 4, 1u << 1},
    [XNN_LAYOUT_RESIZE] = {5, 1, 1, {2}, {3}, 4, 0},
    [XNN_LAYOUT_PAD] = {6, 1, 1, {3}, {4}, 5, 1u << 0 | 1u << 1},
    [XNN_LAYOUT_SLICE] = {6, 1, 1, {3}, {4}, 5, 1u << 1 | 1u << 2},
    [XNN_LAYOUT_ARG_POOL] = {10, 1, 2, {6}, {7, 8}, 9, 0},
    [XNN_LAYOUT_SLOPE] = {4, 1, 1, {1}, {2}, 3, 0},
};

const eti_xnn_kind eti_xnn_kinds[ETI_XNN_KINDS] = {
#define XNN_NODE(code, name, layout, family, operator) \
  [code] = {#name, XNN_FAMILY_##family, XNN_LAYOUT_##layout, operator},
#include "backends/xnnpack/payload/nodes.inc.h"
#undef XNN_NODE
};

// The input that may be missing, of families with a bias.
#define BIAS 2

et_status eti_xnn_at_node(const eti_xnn_node *node, et_status status, et_error *err) {
  if (status != ET_OK)
    ET_CONTEXT(err, "node %lu (%s, debug handle %lu): ", (unsigned long)node->index,
               eti_xnn_kind_of(node)->name, (unsigned long)node->debug_handle);
  return status;
}

// ---- One node's table

static bool is_list(const eti_xnn_parts *parts, size_t field) {
  const uint32_t offset = eti_u32(parts->graph + field);
  const size_t at =
      field + offset;  // a flatbuffer is below 4 GiB, as its header says it in 32 bits
  return offset != 0 && at % 4 == 0 && eti_inside(at, 4, parts->graph_bytes) &&
         eti_inside(at + 4, (uint64_t)eti_u32(parts->graph + at) * 4, parts->graph_bytes);
}

// Verifies that the fields of a table, all of four bytes, and its lists lie in the flatbuffer.
static bool is_node_table(const eti_xnn_parts *parts, size_t at, const layout *l) {
  const uint8_t *base = parts->graph;
  if (at % 4 != 0 || !eti_inside(at, 4, parts->graph_bytes)) return false;
  const int64_t vtable_at = (int64_t)at - eti_i32(base + at);
  if (vtable_at < 0 || vtable_at % 2 != 0 ||
      !eti_inside((uint64_t)vtable_at, 4, parts->graph_bytes))
    return false;
  const uint8_t *vtable = base + vtable_at;
  const size_t vtable_bytes = eti_u16(vtable);
  if (vtable_bytes < 4 || !eti_inside((uint64_t)vtable_at, vtable_bytes, parts->graph_bytes))
    return false;
  for (unsigned slot = 0; slot < l->n_slots && 4 + 2 * slot + 2 <= vtable_bytes; slot++) {
    const unsigned offset = eti_u16(vtable + 4 + 2 * (size_t)slot);
    if (offset == 0) continue;
    const size_t field = at + offset;
    if (field % 4 != 0 || !eti_inside(field, 4, parts->graph_bytes)) return false;
    if ((l->lists >> slot & 1u) != 0 && !is_list(parts, field)) return false;
  }
  return true;
}

static float read_f32(const uint8_t *table, unsigned slot) {
  return eti_f32_from_bits(eti_fb_u32(table, slot));
}

static et_status read_list(const uint8_t *table, unsigned slot, size_t *list, size_t *n,
                           et_error *err) {
  const eti_vector given = eti_fb_vector(table, slot);
  ET_CHECK(given.n <= XNN_MAX_TENSOR_DIMS, err, ET_INVALID_PROGRAM,
           "a list: expected at most %d numbers, got %zu", XNN_MAX_TENSOR_DIMS, given.n);
  *n = given.n;
  for (size_t d = 0; d < given.n; d++) list[d] = eti_u32(given.data + 4 * d);
  return ET_OK;
}

// ---- Fields of a layout beside inputs, outputs and flags

static et_status check_window(const eti_xnn_window *w, et_error *err) {
  // Beyond any real network, and small enough that sums and products stay within 32 bits.
  const uint32_t limit = 1u << 20;
  for (unsigned k = 0; k < 4; k++)
    ET_CHECK(w->padding[k] < limit, err, ET_INVALID_PROGRAM,
             "padding: expected less than %lu, got %lu", (unsigned long)limit,
             (unsigned long)w->padding[k]);
  for (unsigned k = 0; k < 2; k++)
    ET_CHECK(
        w->kernel[k] >= 1 && w->kernel[k] < limit && w->stride[k] >= 1 && w->stride[k] < limit &&
            w->dilation[k] >= 1 && w->dilation[k] < limit && w->adjustment[k] < limit,
        err, ET_INVALID_PROGRAM,
        "a window: expected size, stride and dilation of at least 1, and these and the adjustment "
        "less than %lu, got size %lu, stride %lu, dilation %lu, adjustment %lu",
        (unsigned long)limit, (unsigned long)w->kernel[k], (unsigned long)w->stride[k],
        (unsigned long)w->dilation[k], (unsigned long)w->adjustment[k]);
  ET_CHECK((uint64_t)w->kernel[0] * w->kernel[1] < limit, err, ET_INVALID_PROGRAM,
           "a window: expected fewer than %lu elements, got %lu × %lu", (unsigned long)limit,
           (unsigned long)w->kernel[0], (unsigned long)w->kernel[1]);
  return ET_OK;
}

static et_status read_conv(const uint8_t *table, eti_xnn_window *w, et_error *err) {
  for (unsigned k = 0; k < 4; k++) w->padding[k] = eti_fb_u32(table, k);
  for (unsigned k = 0; k < 2; k++) {
    w->kernel[k] = eti_fb_u32(table, 4 + k);
    w->stride[k] = eti_fb_u32(table, 6 + k);
    w->dilation[k] = eti_fb_u32(table, 8 + k);
    w->adjustment[k] = eti_fb_u32(table, 13 + k);
  }
  w->group_inputs = eti_fb_u32(table, 10);
  w->group_outputs = eti_fb_u32(table, 11);
  w->groups = eti_fb_u32(table, 12);
  ET_CHECK(
      w->group_inputs >= 1 && w->group_outputs >= 1 && w->groups >= 1 &&
          (uint64_t)w->groups * w->group_inputs <= INT32_MAX &&
          (uint64_t)w->groups * w->group_outputs <= INT32_MAX,
      err, ET_INVALID_PROGRAM,
      "expected at least 1 group, input and output channel and products of 31 bits, got %lu groups "
      "of %lu input and %lu output channels",
      (unsigned long)w->groups, (unsigned long)w->group_inputs, (unsigned long)w->group_outputs);
  return check_window(w, err);
}

static et_status read_pool(const uint8_t *table, bool is_average, eti_xnn_window *w,
                           et_error *err) {
  for (unsigned k = 0; k < 4; k++) w->padding[k] = eti_fb_u32(table, k);
  for (unsigned k = 0; k < 2; k++) {
    w->kernel[k] = eti_fb_u32(table, 4 + k);
    w->stride[k] = eti_fb_u32(table, 6 + k);
    w->dilation[k] = is_average ? 1 : eti_fb_u32(table, 8 + k);  // average pools are stored with 0
  }
  return check_window(w, err);
}

static et_status read_arg_pool(const uint8_t *table, eti_xnn_window *w, et_error *err) {
  for (unsigned k = 0; k < 4; k++) w->padding[k] = eti_fb_u32(table, k);
  for (unsigned k = 0; k < 2; k++) {
    w->kernel[k] = w->stride[k] = eti_fb_u32(table, 4 + k);
    w->dilation[k] = 1;
  }
  return check_window(w, err);
}

static et_status read_dims(const uint8_t *table, eti_xnn_node *node, et_error *err) {
  const uint32_t n = eti_fb_u32(table, 0);
  ET_TRY(read_list(table, 1, node->p.dims.list, &node->p.dims.n, err));
  if (eti_xnn_kind_of(node)->layout == XNN_LAYOUT_SLICE)
    ET_TRY(read_list(table, 2, node->p.dims.more, &node->p.dims.n_more, err));
  ET_CHECK(node->p.dims.n == n, err, ET_INVALID_PROGRAM, "expected a list of %lu numbers, got %zu",
           (unsigned long)n, node->p.dims.n);
  return ET_OK;
}

static et_status read_own_fields(const uint8_t *table, eti_xnn_node *node, et_error *err) {
  switch (eti_xnn_kind_of(node)->layout) {
    case XNN_LAYOUT_CAT2:
    case XNN_LAYOUT_CAT3:
    case XNN_LAYOUT_CAT4:
    case XNN_LAYOUT_CAT5:
      node->p.axis = eti_fb_u32(table, 0);
      return ET_OK;
    case XNN_LAYOUT_CONV:
      return read_conv(table, &node->p.window, err);
    case XNN_LAYOUT_POOL:
      return read_pool(table, eti_xnn_kind_of(node)->family == XNN_FAMILY_AVG_POOL, &node->p.window,
                       err);
    case XNN_LAYOUT_ARG_POOL:
      return read_arg_pool(table, &node->p.window, err);
    case XNN_LAYOUT_DIMS:
    case XNN_LAYOUT_SLICE:
      return read_dims(table, node, err);
    case XNN_LAYOUT_PAD:
      node->p.dims.value = read_f32(table, 2);
      ET_TRY(read_list(table, 0, node->p.dims.list, &node->p.dims.n, err));
      return read_list(table, 1, node->p.dims.more, &node->p.dims.n_more, err);
    case XNN_LAYOUT_RESIZE:
      node->p.size[0] = eti_fb_u32(table, 0);
      node->p.size[1] = eti_fb_u32(table, 1);
      return ET_OK;
    case XNN_LAYOUT_SLOPE:
      node->p.slope = read_f32(table, 0);
      return ET_OK;
    default:
      return ET_OK;
  }
}

static et_status read_min_max(const uint8_t *entry, eti_xnn_node *node, et_error *err) {
  const uint8_t *bounds = eti_fb_table(entry, NODE_MIN_MAX);
  node->output_min = bounds == NULL ? -INFINITY : read_f32(bounds, MIN_MAX_MIN);
  node->output_max = bounds == NULL ? INFINITY : read_f32(bounds, MIN_MAX_MAX);
  ET_CHECK(node->output_min <= node->output_max, err, ET_INVALID_PROGRAM,
           "the output's bounds: expected a lower one of at most the upper one, got %g and %g",
           (double)node->output_min, (double)node->output_max);
  return ET_OK;
}

static et_status read_operands(const uint8_t *table, const layout *l, const eti_xnn_ids *ids,
                               eti_xnn_node *node, et_error *err) {
  const uint8_t family = eti_xnn_kind_of(node)->family;
  const bool has_bias = family == XNN_FAMILY_LINEAR || family == XNN_FAMILY_CONV ||
                        family == XNN_FAMILY_DEPTHWISE || family == XNN_FAMILY_DECONV;
  node->n_inputs = l->n_inputs;
  node->n_outputs = l->n_outputs;
  for (unsigned k = 0; k < l->n_inputs; k++) {
    const uint32_t id = eti_fb_u32(table, l->inputs[k]);
    node->inputs[k] = ETI_XNN_NONE;
    if (has_bias && k == BIAS && id == XNN_NO_ID) {
      node->n_inputs--;
      continue;
    }
    ET_CHECK(eti_xnn_find_id(ids, id, &node->inputs[k]), err, ET_INVALID_PROGRAM,
             "input %u: value id %lu does not exist", k, (unsigned long)id);
  }
  for (unsigned k = 0; k < l->n_outputs; k++) {
    const uint32_t id = eti_fb_u32(table, l->outputs[k]);
    ET_CHECK(eti_xnn_find_id(ids, id, &node->outputs[k]), err, ET_INVALID_PROGRAM,
             "output %u: value id %lu does not exist", k, (unsigned long)id);
  }
  node->flags = eti_fb_u32(table, l->flags);
  return ET_OK;
}

static et_status read_node(const eti_xnn_parts *parts, const eti_xnn_ids *ids, size_t i,
                           eti_xnn_node *node, et_error *err) {
  const uint8_t *entry = eti_fb_at(parts->nodes, i);
  const unsigned code = eti_fb_u8(entry, NODE_KIND);
  const uint8_t *field = eti_fb_field(entry, NODE_UNION);
  node->index = (uint32_t)i;
  node->debug_handle = eti_fb_u32(entry, NODE_DEBUG_HANDLE);
  ET_CHECK(code < ETI_XNN_KINDS && eti_xnn_kinds[code].name != NULL, err, ET_NOT_IMPLEMENTED,
           "node %zu (debug handle %lu): kind %u is unknown to this runtime", i,
           (unsigned long)node->debug_handle, code);
  node->kind = (uint8_t)code;
  const layout *l = &layouts[eti_xnn_kinds[code].layout];
  const size_t at = field == NULL ? 0 : (size_t)(field - parts->graph) + eti_u32(field);
  ET_CHECK(field != NULL && is_node_table(parts, at, l), err, ET_DELEGATE_INCOMPATIBLE,
           "node %zu (%s): its table is damaged", i, eti_xnn_kinds[code].name);
  const uint8_t *table = parts->graph + at;
  et_status status = read_min_max(entry, node, err);
  if (status == ET_OK) status = read_operands(table, l, ids, node, err);
  if (status == ET_OK) status = read_own_fields(table, node, err);
  return eti_xnn_at_node(node, status, err);
}

// ---- The order of nodes

static bool moves_elements(uint8_t family) {
  return family == XNN_FAMILY_TRANSPOSE || family == XNN_FAMILY_RESHAPE ||
         family == XNN_FAMILY_COPY || family == XNN_FAMILY_SLICE || family == XNN_FAMILY_CAT;
}

static et_status check_operands(const eti_xnn_payload *payload, const eti_xnn_node *node,
                                uint8_t *is_written, et_error *err) {
  bool is_index = moves_elements(eti_xnn_kind_of(node)->family);
  for (unsigned k = 0; k < node->n_inputs; k++) {
    const uint32_t v = node->inputs[k];
    ET_CHECK(is_written[v], err, ET_INVALID_PROGRAM,
             "input %u: value %lu is read before it is written", k, (unsigned long)v);
    is_index = is_index && payload->values[v].is_index;
  }
  for (unsigned k = 0; k < node->n_outputs; k++) {
    const uint32_t v = node->outputs[k];
    ET_CHECK(!is_written[v], err, ET_INVALID_PROGRAM,
             "output %u: value %lu is an input, a constant, or written twice", k, (unsigned long)v);
    is_written[v] = 1;
    payload->values[v].is_index =
        is_index || (eti_xnn_kind_of(node)->family == XNN_FAMILY_ARG_MAX && k == 1);
  }
  return ET_OK;
}

static et_status check_order(const eti_xnn_payload *payload, uint8_t *is_written, et_error *err) {
  for (size_t i = 0; i < payload->n_values; i++)
    is_written[i] = payload->values[i].is_input || payload->values[i].is_constant;
  for (size_t i = 0; i < payload->n_nodes; i++) {
    const eti_xnn_node *node = &payload->nodes[i];
    const et_status status = check_operands(payload, node, is_written, err);
    if (status != ET_OK) return eti_xnn_at_node(node, status, err);
  }
  for (size_t i = 0; i < payload->n_values; i++)
    ET_CHECK(!payload->values[i].is_output || is_written[i], err, ET_INVALID_PROGRAM,
             "value %zu (argument %lu) is an output that no node writes", i,
             (unsigned long)payload->values[i].external_id);
  return ET_OK;
}

et_status eti_xnn_read_nodes(const eti_xnn_parts *parts, const eti_xnn_ids *ids,
                             eti_xnn_build_arena *arena, eti_xnn_payload *out, et_error *err) {
  void *is_written;
  ET_TRY(eti_xnn_build_arena_alloc(arena, out->n_values, 1, &is_written, err));
  for (size_t i = 0; i < parts->nodes.n; i++)
    ET_TRY(read_node(parts, ids, i, &out->nodes[out->n_nodes++], err));
  return check_order(out, is_written, err);
}
