// subgraph_build.c — the seam's functions: reads and proves a payload, builds the subgraph from it,
// gives back what is not needed any longer.
#include "backends/xnnpack/subgraph/subgraph.h"

#include "backends/xnnpack/subgraph/fuse.h"
#include "backends/xnnpack/subgraph/subgraph_builder.h"
#include "backends/xnnpack/xnn_status.h"
#include "runtime/check.h"

#include <string.h>

// ---- Proving

// The shapes that follow from those of the constants and of the inputs, which are the payload's or,
// by external id, given.
static et_status find_shapes(const eti_xnn_payload *payload, const eti_xnn_shape *inputs,
                             eti_xnn_heap *heap, eti_xnn_shape **out, et_error *err) {
  void *room;
  ET_TRY(eti_xnn_take(heap, payload->n_values, sizeof(eti_xnn_shape), &room, err));
  eti_xnn_shape *shapes = room;
  for (size_t i = 0; i < payload->n_values; i++) {
    const eti_xnn_value *v = &payload->values[i];
    size_t bytes;
    shapes[i] = v->is_input && inputs != NULL ? inputs[v->external_id] : v->shape;
    ET_CHECK(!v->is_input || (shapes[i].rank == v->shape.rank &&
                              eti_xnn_shape_bytes(v->datatype, &shapes[i], &bytes)),
             err, ET_NOT_SUPPORTED, "argument %lu: %lu dimensions, needs %lu, none of them 0",
             (unsigned long)v->external_id, (unsigned long)shapes[i].rank,
             (unsigned long)v->shape.rank);
  }
  *out = shapes;
  return eti_xnn_infer_shapes(payload, shapes, err);
}

static et_status prove(const uint8_t *bytes, size_t size, eti_xnn_heap *heap,
                       eti_xnn_payload *payload, et_error *err) {
  ET_TRY(eti_xnn_payload_read(bytes, size, heap, payload, err));
  return eti_xnn_check_types(payload, err);
}

et_status eti_xnn_payload_check(const uint8_t *payload, size_t payload_bytes,
                                const struct xnn_allocator *memory, size_t *n_externs,
                                et_error *err) {
  eti_xnn_heap heap = {.allocator = memory};
  eti_xnn_payload parsed = {0};
  eti_xnn_shape *shapes;
  et_status status = prove(payload, payload_bytes, &heap, &parsed, err);
  if (status == ET_OK) status = find_shapes(&parsed, NULL, &heap, &shapes, err);
  if (status == ET_OK && n_externs != NULL) *n_externs = parsed.n_externs;
  eti_xnn_release(&heap);
  return status;
}

et_status eti_xnn_graph_check_shapes(const eti_xnn_graph *graph, const eti_xnn_shape *shapes,
                                     et_error *err) {
  eti_xnn_heap heap = {.allocator = graph->built->kept.allocator};
  eti_xnn_shape *all;
  const et_status status = find_shapes(&graph->built->payload, shapes, &heap, &all, err);
  eti_xnn_release(&heap);
  return status;
}

// ---- What XNNPACK keeps of shapes

typedef enum memory_of_shapes {
  FORGETS,
  KEEPS_BATCH,  // of dynamically quantized images: zeros for each image, of which a reshape frees
                // as many as the new batch has
  KEEPS_ROOM,   // for the sums of means, which are wider than the elements: it is planned for the
                // first shape, and not again when it grows
  KEEPS_CHANNELS,   // in pointers to pixels, which are made anew for other heights and widths only
  KEEPS_BROADCAST,  // a result may lie where an operand of its size was; of a product and its sum,
                    // which are one node, no operand is broadcast
  KEEPS_ALL,        // the positions of maxima stay of the size that they were defined with
} memory_of_shapes;

static memory_of_shapes memory_of(const eti_xnn_payload *payload, const eti_xnn_node *node) {
  switch (eti_xnn_kind_of(node)->family) {
    case XNN_FAMILY_CONV:
    case XNN_FAMILY_DECONV:
      return payload->values[node->inputs[0]].datatype == ETI_XNN_qdint8 ? KEEPS_BATCH : FORGETS;
    case XNN_FAMILY_MEAN:
      return payload->values[node->inputs[0]].datatype == ETI_XNN_fp32 ? FORGETS : KEEPS_ROOM;
    case XNN_FAMILY_MAX_POOL:
    case XNN_FAMILY_RESIZE:
      return KEEPS_CHANNELS;
    case XNN_FAMILY_BINARY:
      return KEEPS_BROADCAST;
    case XNN_FAMILY_ARG_MAX:
      return KEEPS_ALL;
    default:
      return FORGETS;
  }
}

// Whether operand k of a sum or the like has begun or ceased to be of the result's size, and that
// matters: XNNPACK lays results over operands of its own memory only.
static bool broadcasts_anew(const eti_xnn_built *built, const eti_xnn_node *node,
                            const eti_xnn_shape *now, unsigned k) {
  const uint32_t in = node->inputs[k], out = node->outputs[0];
  const eti_xnn_value *const v = &built->payload.values[in];
  const bool is_inner = !v->is_constant && !v->is_input && !v->is_output;
  if (!built->is_fused[node->index] && !(built->is_shaped && is_inner)) return false;
  return (eti_xnn_shape_count(&built->shapes[in]) == eti_xnn_shape_count(&built->shapes[out])) !=
         (eti_xnn_shape_count(&now[in]) == eti_xnn_shape_count(&now[out]));
}

static bool is_stale(const eti_xnn_built *built, const eti_xnn_shape *now) {
  for (size_t i = 0; i < built->payload.n_nodes; i++) {
    const eti_xnn_node *node = &built->payload.nodes[i];
    const size_t *const old = built->shapes[node->inputs[0]].dims;
    const size_t *const new = now[node->inputs[0]].dims;
    switch (memory_of(&built->payload, node)) {
      case FORGETS:
        break;
      case KEEPS_BATCH:
        if (built->is_shaped && old[0] != new[0]) return true;
        break;
      case KEEPS_ROOM:
        if (built->is_shaped && old[0] * old[3] < new[0] * new[3]) return true;
        break;
      case KEEPS_CHANNELS:
        if (built->is_shaped && old[3] != new[3]) return true;
        break;
      case KEEPS_BROADCAST:
        if (broadcasts_anew(built, node, now, 0) || broadcasts_anew(built, node, now, 1))
          return true;
        break;
      case KEEPS_ALL:
        if (memcmp(old, new, 4 * sizeof *old) != 0) return true;
    }
  }
  return false;
}

et_status eti_xnn_graph_take_shapes(eti_xnn_graph *graph, const eti_xnn_shape *shapes, bool *stale,
                                    et_error *err) {
  eti_xnn_built *built = graph->built;
  eti_xnn_heap heap = {.allocator = built->kept.allocator};
  eti_xnn_shape *all;
  const et_status status = find_shapes(&built->payload, shapes, &heap, &all, err);
  *stale = status == ET_OK && graph->keeps_shapes && is_stale(built, all);
  if (status == ET_OK && graph->keeps_shapes && !*stale) {
    memcpy(built->shapes, all, built->payload.n_values * sizeof *all);
    built->is_shaped = true;
  }
  eti_xnn_release(&heap);
  return status;
}

// Notes the shapes that the values are defined with, where that matters.
static et_status keep_shapes(eti_xnn_builder *b, bool *keeps) {
  eti_xnn_built *built = b->built;
  const eti_xnn_payload *payload = &built->payload;
  void *room;
  *keeps = false;
  for (size_t i = 0; i < payload->n_nodes; i++)
    *keeps = *keeps || memory_of(payload, &payload->nodes[i]) != FORGETS;
  if (!*keeps) return ET_OK;
  ET_TRY(eti_xnn_take(&built->kept, payload->n_values, sizeof(eti_xnn_shape), &room, b->err));
  built->shapes = room;
  memcpy(room, b->shapes, payload->n_values * sizeof(eti_xnn_shape));
  built->is_shaped = b->config->inputs != NULL;
  return ET_OK;
}

// ---- Building

static void fill_externs(const eti_xnn_payload *payload, eti_xnn_extern *out) {
  for (size_t k = 0; k < payload->n_externs; k++) {
    const uint32_t i = payload->externs[k];
    if (i == ETI_XNN_NONE) continue;
    const eti_xnn_value *v = &payload->values[i];
    out[k] = (eti_xnn_extern){.is_input = v->is_input,
                              .is_output = v->is_output,
                              .is_widened = v->is_index,
                              .dtype = v->is_index ? ET_I64 : eti_xnn_scalar_type(v->datatype),
                              .shape = v->shape};
  }
}

// Marks constants that are read only when weights are packed.
static void mark_packed(eti_xnn_builder *b) {
  const eti_xnn_payload *payload = b->payload;
  for (unsigned pass = 0; pass < 2; pass++) {
    for (size_t i = 0; i < payload->n_nodes; i++) {
      const eti_xnn_node *node = &payload->nodes[i];
      const uint8_t family = eti_xnn_kind_of(node)->family;
      bool is_packing = family == XNN_FAMILY_LINEAR || family == XNN_FAMILY_CONV ||
                        family == XNN_FAMILY_DEPTHWISE || family == XNN_FAMILY_DECONV;
      for (unsigned k = 1; k < node->n_inputs; k++)
        is_packing = is_packing && payload->values[node->inputs[k]].is_constant;
      for (unsigned k = 0; k < node->n_inputs; k++) {
        const bool is_weight = is_packing && k > 0;
        if (is_weight == (pass == 0)) b->is_packed[node->inputs[k]] = is_weight;
      }
    }
  }
}

static et_status claim(eti_xnn_builder *b, eti_xnn_extern **externs) {
  const eti_xnn_payload *payload = b->payload;
  eti_xnn_built *built = b->built;
  void *constants, *ids, *float_ids, *is_packed, *is_fused, *addresses, *origins, *list;
  ET_TRY(eti_xnn_take(&built->kept, 2 * payload->n_values, sizeof(eti_xnn_constant), &constants,
                      b->err));
  ET_TRY(eti_xnn_take(&built->kept, payload->n_externs, sizeof(eti_xnn_extern), &list, b->err));
  ET_TRY(eti_xnn_take(&built->kept, payload->n_nodes, 1, &is_fused, b->err));
  b->room = payload->n_nodes * ETI_XNN_MOST_DEFINED;
  ET_TRY(eti_xnn_take(&built->temporary, b->room, sizeof(uint32_t), &origins, b->err));
  ET_TRY(eti_xnn_take(&built->temporary, payload->n_values, sizeof(uint32_t), &ids, b->err));
  ET_TRY(eti_xnn_take(&built->temporary, payload->n_values, sizeof(uint32_t), &float_ids, b->err));
  ET_TRY(eti_xnn_take(&built->temporary, payload->n_values, 1, &is_packed, b->err));
  ET_TRY(eti_xnn_take(&built->temporary, payload->n_values, sizeof(void *), &addresses, b->err));
  built->constants = constants;
  built->is_fused = is_fused;
  if (built->spent.tell != NULL) {
    void *extents;
    ET_TRY(eti_xnn_take(&built->temporary, 2 * payload->n_values, sizeof(eti_xnn_extent), &extents,
                        b->err));
    built->spent.extents = extents;
  }
  b->origins = origins;
  b->ids = ids;
  b->float_ids = float_ids;
  b->is_packed = is_packed;
  b->addresses = addresses;
  for (size_t i = 0; i < payload->n_values; i++) b->ids[i] = b->float_ids[i] = ETI_XNN_NONE;
  *externs = list;
  fill_externs(payload, list);
  mark_packed(b);
  return ET_OK;
}

static bool is_used(const eti_xnn_node *node, const uint8_t *is_needed) {
  return is_needed[node->outputs[0]] || (node->n_outputs > 1 && is_needed[node->outputs[1]]);
}

// Marks the values that outputs are computed from. XNNPACK ends the process over a node that has
// no use, so such nodes are left out.
static et_status find_needed(eti_xnn_builder *b) {
  const eti_xnn_payload *payload = b->payload;
  void *room, *counts, *firsts;
  ET_TRY(eti_xnn_take(&b->built->temporary, payload->n_values, 1, &room, b->err));
  ET_TRY(eti_xnn_take(&b->built->temporary, payload->n_values, sizeof(uint32_t), &counts, b->err));
  ET_TRY(eti_xnn_take(&b->built->temporary, payload->n_values, sizeof(uint32_t), &firsts, b->err));
  uint8_t *is_needed = room;
  uint32_t *n_readers = counts, *readers = firsts;
  for (size_t i = 0; i < payload->n_values; i++) is_needed[i] = payload->values[i].is_output;
  for (size_t i = payload->n_nodes; i-- > 0;) {
    const eti_xnn_node *node = &payload->nodes[i];
    if (!is_used(node, is_needed)) continue;
    for (unsigned k = 0; k < node->n_inputs; k++) {
      is_needed[node->inputs[k]] = 1;
      n_readers[node->inputs[k]]++;
      readers[node->inputs[k]] = node->index;
    }
  }
  b->is_needed = is_needed;
  b->n_readers = n_readers;
  b->readers = readers;
  return ET_OK;
}

static et_status define_all(eti_xnn_builder *b) {
  const eti_xnn_payload *payload = b->payload;
  const enum xnn_status status = xnn_create_subgraph((uint32_t)payload->n_externs, 0, &b->subgraph);
  if (status != xnn_status_success) return eti_xnn_fail(status, b->err, "creating the subgraph");
  uint32_t id;
  for (size_t k = 0; k < payload->n_externs; k++) {
    if (payload->externs[k] != ETI_XNN_NONE) ET_TRY(eti_xnn_value_id(b, payload->externs[k], &id));
  }
  ET_TRY(find_needed(b));
  for (size_t i = 0, n_done; i < payload->n_nodes; i += n_done) {
    const eti_xnn_node *const node = &payload->nodes[i];
    n_done = 1;
    if (!is_used(node, b->is_needed) || b->built->is_fused[i]) continue;
    ET_TRY(eti_xnn_try_fuse(b, node, &n_done));
    if (n_done > 0) continue;
    ET_TRY(eti_xnn_define_node(b, node));
    n_done = 1;
  }
  return ET_OK;
}

static size_t packed_bytes(const eti_xnn_builder *b) {
  size_t bytes = 0;
  for (size_t i = 0; i < b->payload->n_values; i++)
    if (b->is_packed[i]) bytes += b->payload->values[i].constant_bytes;
  return bytes;
}

static et_status keep_origins(eti_xnn_builder *b, const eti_xnn_origin **out) {
  void *room;
  ET_TRY(eti_xnn_take(&b->built->kept, b->n_defined, sizeof(eti_xnn_origin), &room, b->err));
  eti_xnn_origin *origins = room;
  for (size_t i = 0; i < b->n_defined; i++) {
    const eti_xnn_node *node = &b->payload->nodes[b->origins[i]];
    origins[i] = (eti_xnn_origin){node->index, node->debug_handle, eti_xnn_kind_of(node)->name};
  }
  *out = origins;
  return ET_OK;
}

static et_status build(eti_xnn_builder *b, eti_xnn_graph *graph) {
  eti_xnn_built *built = b->built;
  eti_xnn_extern *externs;
  ET_TRY(
      prove(b->config->payload, b->config->payload_bytes, &built->kept, &built->payload, b->err));
  ET_TRY(find_shapes(&built->payload, b->config->inputs, &built->temporary, &b->shapes, b->err));
  ET_TRY(claim(b, &externs));
  ET_TRY(define_all(b));
  eti_xnn_spent_sort(&built->spent);
  graph->externs = externs;
  graph->n_externs = built->payload.n_externs;
  graph->n_nodes = b->n_defined;
  graph->packed_bytes = packed_bytes(b);
  graph->uses_payload = b->uses_payload;
  ET_TRY(keep_shapes(b, &graph->keeps_shapes));
  return keep_origins(b, &graph->origins);
}

et_status eti_xnn_graph_build(eti_xnn_graph *graph, const eti_xnn_graph_config *config,
                              et_error *err) {
  eti_xnn_heap kept = {.allocator = config->memory};
  void *room;
  ET_TRY(eti_xnn_take(&kept, 1, sizeof(eti_xnn_built), &room, err));
  eti_xnn_built *built = room;
  *built = (eti_xnn_built){.kept = kept,
                           .temporary = {.allocator = config->memory},
                           .named = *config->named,
                           .spent = {.tell = config->on_spent, .ctx = config->on_spent_ctx}};
  eti_xnn_builder b = {.config = config, .err = err, .built = built, .payload = &built->payload};
  eti_xnn_graph made = {.built = built};
  const et_status status = build(&b, &made);
  made.subgraph = b.subgraph;
  if (status == ET_OK) {
    *graph = made;
  } else {
    eti_xnn_graph_deinit(&made);
  }
  return status;
}

// ---- Giving back

static void release_constants(eti_xnn_built *built, bool only_packed) {
  size_t n = 0;
  for (size_t i = 0; i < built->n_constants; i++) {
    if (only_packed && !built->constants[i].is_packed) {
      built->constants[n++] = built->constants[i];
    } else if (built->named.release != NULL) {
      built->named.release(built->named.ctx, &built->constants[i].blob);
    }
  }
  built->n_constants = n;
}

void eti_xnn_graph_packed(void *graph, const void *filter, const void *bias) {
  eti_xnn_spent *const spent = &((eti_xnn_graph *)graph)->built->spent;
  eti_xnn_spent_packed(spent, filter);
  if (bias != NULL) eti_xnn_spent_packed(spent, bias);
}

static void drop_sources(eti_xnn_graph *graph) {
  if (graph->subgraph != NULL) (void)xnn_delete_subgraph(graph->subgraph);
  graph->subgraph = NULL;
  release_constants(graph->built, true);
  graph->built->spent = (eti_xnn_spent){.tell = NULL};
  eti_xnn_release(&graph->built->temporary);
}

void eti_xnn_graph_trim(eti_xnn_graph *graph) {
  eti_xnn_spent_all(&graph->built->spent);
  drop_sources(graph);
}

void eti_xnn_graph_deinit(eti_xnn_graph *graph) {
  if (graph->built == NULL) return;
  drop_sources(graph);
  release_constants(graph->built, false);
  eti_xnn_heap kept = graph->built->kept;  // which holds `built` itself
  eti_xnn_release(&kept);
  *graph = (eti_xnn_graph){0};
}
