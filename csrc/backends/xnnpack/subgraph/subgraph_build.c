// subgraph_build.c — the functions of subgraph.h: checks a payload, builds the subgraph from it,
// and frees the memory of the build.
#include "backends/xnnpack/subgraph/subgraph.h"

#include "backends/xnnpack/subgraph/fuse.h"
#include "backends/xnnpack/subgraph/subgraph_builder.h"
#include "backends/xnnpack/xnn_status.h"
#include "runtime/check.h"

#include <string.h>

// ---- Checks

// Computes the shapes of all values from those of the constants and of the inputs; the latter are
// given by external id, or the payload's (NULL).
static et_status compute_shapes(const eti_xnn_payload *payload, const eti_xnn_shape *inputs,
                                eti_xnn_build_arena *arena, eti_xnn_shape **out, et_error *err) {
  void *memory;
  ET_TRY(eti_xnn_build_arena_alloc(arena, payload->n_values, sizeof(eti_xnn_shape), &memory, err));
  eti_xnn_shape *shapes = memory;
  for (size_t i = 0; i < payload->n_values; i++) {
    const eti_xnn_value *v = &payload->values[i];
    size_t bytes;
    shapes[i] = v->is_input && inputs != NULL ? inputs[v->external_id] : v->shape;
    ET_CHECK(
        !v->is_input || (shapes[i].rank == v->shape.rank &&
                         eti_xnn_shape_bytes(v->datatype, &shapes[i], &bytes)),
        err, ET_NOT_SUPPORTED, "argument %lu: expected %lu dimensions, none of them 0, got %lu",
        (unsigned long)v->external_id, (unsigned long)v->shape.rank, (unsigned long)shapes[i].rank);
  }
  *out = shapes;
  return eti_xnn_infer_shapes(payload, shapes, err);
}

static et_status read_and_check(const uint8_t *bytes, size_t size, eti_xnn_build_arena *arena,
                                eti_xnn_payload *payload, et_error *err) {
  ET_TRY(eti_xnn_payload_read(bytes, size, arena, payload, err));
  return eti_xnn_check_types(payload, err);
}

et_status eti_xnn_payload_check(const uint8_t *payload, size_t payload_bytes,
                                const struct xnn_allocator *memory, size_t *n_externs,
                                et_error *err) {
  eti_xnn_build_arena arena = {.allocator = memory};
  eti_xnn_payload parsed = {0};
  eti_xnn_shape *shapes;
  et_status status = read_and_check(payload, payload_bytes, &arena, &parsed, err);
  if (status == ET_OK) status = compute_shapes(&parsed, NULL, &arena, &shapes, err);
  if (status == ET_OK && n_externs != NULL) *n_externs = parsed.n_externs;
  eti_xnn_build_arena_free(&arena);
  return status;
}

et_status eti_xnn_graph_check_shapes(const eti_xnn_graph *graph, const eti_xnn_shape *shapes,
                                     et_error *err) {
  eti_xnn_build_arena arena = {.allocator = graph->state->graph_arena.allocator};
  eti_xnn_shape *all;
  const et_status status = compute_shapes(&graph->state->payload, shapes, &arena, &all, err);
  eti_xnn_build_arena_free(&arena);
  return status;
}

// ---- Shapes that a runtime retains

// The part of a node's old shapes that XNNPACK keeps after a reshape.
typedef enum retained {
  RETAINS_NOTHING,
  RETAINS_BATCH,      // of dynamically quantized images: zeros for each image, of which a reshape
                      // frees as many as the new batch has
  RETAINS_WORKSPACE,  // for the sums of means, which are wider than the elements: it is planned for
                      // the first shape, and not again when it grows
  RETAINS_CHANNELS,   // in pointers to pixels, which change with the height and the width only
  RETAINS_BROADCAST,  // a result may lie where an operand of its size was; of a product and its sum
                      // that are fused no operand is broadcast
  RETAINS_ALL,        // the positions of maxima keep the size that they were defined with
} retained;

static retained retained_by(const eti_xnn_payload *payload, const eti_xnn_node *node) {
  switch (eti_xnn_kind_of(node)->family) {
    case XNN_FAMILY_CONV:
    case XNN_FAMILY_DECONV:
      return payload->values[node->inputs[0]].datatype == ETI_XNN_qdint8 ? RETAINS_BATCH
                                                                         : RETAINS_NOTHING;
    case XNN_FAMILY_MEAN:
      return payload->values[node->inputs[0]].datatype == ETI_XNN_fp32 ? RETAINS_NOTHING
                                                                       : RETAINS_WORKSPACE;
    case XNN_FAMILY_MAX_POOL:
    case XNN_FAMILY_RESIZE:
      return RETAINS_CHANNELS;
    case XNN_FAMILY_BINARY:
      return RETAINS_BROADCAST;
    case XNN_FAMILY_ARG_MAX:
      return RETAINS_ALL;
    default:
      return RETAINS_NOTHING;
  }
}

// Whether the new shapes change if operand k of a binary node is broadcast, and this matters:
// XNNPACK lets results and operands share its own memory only.
static bool changes_broadcast(const eti_xnn_graph_state *state, const eti_xnn_node *node,
                              const eti_xnn_shape *now, unsigned k) {
  const uint32_t in = node->inputs[k], out = node->outputs[0];
  const eti_xnn_value *const v = &state->payload.values[in];
  const bool is_inner = !v->is_constant && !v->is_input && !v->is_output;
  if (!state->is_fused[node->index] && !(state->is_shaped && is_inner)) return false;
  return (eti_xnn_shape_count(&state->shapes[in]) == eti_xnn_shape_count(&state->shapes[out])) !=
         (eti_xnn_shape_count(&now[in]) == eti_xnn_shape_count(&now[out]));
}

static bool is_stale(const eti_xnn_graph_state *state, const eti_xnn_shape *now) {
  for (size_t i = 0; i < state->payload.n_nodes; i++) {
    const eti_xnn_node *node = &state->payload.nodes[i];
    const size_t *const old = state->shapes[node->inputs[0]].dims;
    const size_t *const new = now[node->inputs[0]].dims;
    switch (retained_by(&state->payload, node)) {
      case RETAINS_NOTHING:
        break;
      case RETAINS_BATCH:
        if (state->is_shaped && old[0] != new[0]) return true;
        break;
      case RETAINS_WORKSPACE:
        if (state->is_shaped && old[0] * old[3] < new[0] * new[3]) return true;
        break;
      case RETAINS_CHANNELS:
        if (state->is_shaped && old[3] != new[3]) return true;
        break;
      case RETAINS_BROADCAST:
        if (changes_broadcast(state, node, now, 0) || changes_broadcast(state, node, now, 1))
          return true;
        break;
      case RETAINS_ALL:
        if (memcmp(old, new, 4 * sizeof *old) != 0) return true;
    }
  }
  return false;
}

et_status eti_xnn_graph_set_shapes(eti_xnn_graph *graph, const eti_xnn_shape *shapes, bool *stale,
                                   et_error *err) {
  eti_xnn_graph_state *state = graph->state;
  eti_xnn_build_arena arena = {.allocator = state->graph_arena.allocator};
  eti_xnn_shape *all;
  const et_status status = compute_shapes(&state->payload, shapes, &arena, &all, err);
  *stale = status == ET_OK && graph->retains_shapes && is_stale(state, all);
  if (status == ET_OK && graph->retains_shapes && !*stale) {
    memcpy(state->shapes, all, state->payload.n_values * sizeof *all);
    state->is_shaped = true;
  }
  eti_xnn_build_arena_free(&arena);
  return status;
}

// Records the shapes that the values are defined with, if a node retains any.
static et_status record_shapes(eti_xnn_builder *b, bool *retains) {
  eti_xnn_graph_state *state = b->state;
  const eti_xnn_payload *payload = &state->payload;
  void *memory;
  *retains = false;
  for (size_t i = 0; i < payload->n_nodes; i++)
    *retains = *retains || retained_by(payload, &payload->nodes[i]) != RETAINS_NOTHING;
  if (!*retains) return ET_OK;
  ET_TRY(eti_xnn_build_arena_alloc(&state->graph_arena, payload->n_values, sizeof(eti_xnn_shape),
                                   &memory, b->err));
  state->shapes = memory;
  memcpy(memory, b->shapes, payload->n_values * sizeof(eti_xnn_shape));
  state->is_shaped = b->config->inputs != NULL;
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

// Marks constants that XNNPACK reads only when it packs weights.
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

static et_status alloc_builder(eti_xnn_builder *b, eti_xnn_extern **externs) {
  const eti_xnn_payload *payload = b->payload;
  eti_xnn_graph_state *state = b->state;
  void *constants, *ids, *f32_ids, *is_packed, *is_fused, *addresses, *origins, *list;
  ET_TRY(eti_xnn_build_arena_alloc(&state->graph_arena, 2 * payload->n_values,
                                   sizeof(eti_xnn_constant), &constants, b->err));
  ET_TRY(eti_xnn_build_arena_alloc(&state->graph_arena, payload->n_externs, sizeof(eti_xnn_extern),
                                   &list, b->err));
  ET_TRY(eti_xnn_build_arena_alloc(&state->graph_arena, payload->n_nodes, 1, &is_fused, b->err));
  b->max_defined = payload->n_nodes * ETI_XNN_MAX_DEFINED;
  ET_TRY(eti_xnn_build_arena_alloc(&state->build_arena, b->max_defined, sizeof(uint32_t), &origins,
                                   b->err));
  ET_TRY(eti_xnn_build_arena_alloc(&state->build_arena, payload->n_values, sizeof(uint32_t), &ids,
                                   b->err));
  ET_TRY(eti_xnn_build_arena_alloc(&state->build_arena, payload->n_values, sizeof(uint32_t),
                                   &f32_ids, b->err));
  ET_TRY(eti_xnn_build_arena_alloc(&state->build_arena, payload->n_values, 1, &is_packed, b->err));
  ET_TRY(eti_xnn_build_arena_alloc(&state->build_arena, payload->n_values, sizeof(void *),
                                   &addresses, b->err));
  state->constants = constants;
  state->is_fused = is_fused;
  if (state->discardable.report != NULL) {
    void *extents;
    ET_TRY(eti_xnn_build_arena_alloc(&state->build_arena, 2 * payload->n_values,
                                     sizeof(eti_xnn_extent), &extents, b->err));
    state->discardable.extents = extents;
  }
  b->origins = origins;
  b->ids = ids;
  b->f32_ids = f32_ids;
  b->is_packed = is_packed;
  b->addresses = addresses;
  for (size_t i = 0; i < payload->n_values; i++) b->ids[i] = b->f32_ids[i] = ETI_XNN_NONE;
  *externs = list;
  fill_externs(payload, list);
  mark_packed(b);
  return ET_OK;
}

static bool is_used(const eti_xnn_node *node, const uint8_t *is_needed) {
  return is_needed[node->outputs[0]] || (node->n_outputs > 1 && is_needed[node->outputs[1]]);
}

// Marks the values that outputs depend on. XNNPACK aborts the process over a node that nothing
// depends on, so such nodes are not defined.
static et_status mark_needed(eti_xnn_builder *b) {
  const eti_xnn_payload *payload = b->payload;
  void *memory, *counts, *firsts;
  ET_TRY(eti_xnn_build_arena_alloc(&b->state->build_arena, payload->n_values, 1, &memory, b->err));
  ET_TRY(eti_xnn_build_arena_alloc(&b->state->build_arena, payload->n_values, sizeof(uint32_t),
                                   &counts, b->err));
  ET_TRY(eti_xnn_build_arena_alloc(&b->state->build_arena, payload->n_values, sizeof(uint32_t),
                                   &firsts, b->err));
  uint8_t *is_needed = memory;
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
  if (status != xnn_status_success) return eti_xnn_check(status, b->err, "creating the subgraph");
  uint32_t id;
  for (size_t k = 0; k < payload->n_externs; k++) {
    if (payload->externs[k] != ETI_XNN_NONE) ET_TRY(eti_xnn_value_id(b, payload->externs[k], &id));
  }
  ET_TRY(mark_needed(b));
  for (size_t i = 0, n_done; i < payload->n_nodes; i += n_done) {
    const eti_xnn_node *const node = &payload->nodes[i];
    n_done = 1;
    if (!is_used(node, b->is_needed) || b->state->is_fused[i]) continue;
    ET_TRY(eti_xnn_try_fuse(b, node, &n_done));
    if (n_done > 0) continue;
    ET_TRY(eti_xnn_define_node(b, node));
    n_done = 1;
  }
  return ET_OK;
}

static size_t count_packed_bytes(const eti_xnn_builder *b) {
  size_t bytes = 0;
  for (size_t i = 0; i < b->payload->n_values; i++)
    if (b->is_packed[i]) bytes += b->payload->values[i].constant_bytes;
  return bytes;
}

static et_status copy_origins(eti_xnn_builder *b, const eti_xnn_origin **out) {
  void *memory;
  ET_TRY(eti_xnn_build_arena_alloc(&b->state->graph_arena, b->n_defined, sizeof(eti_xnn_origin),
                                   &memory, b->err));
  eti_xnn_origin *origins = memory;
  for (size_t i = 0; i < b->n_defined; i++) {
    const eti_xnn_node *node = &b->payload->nodes[b->origins[i]];
    origins[i] = (eti_xnn_origin){node->index, node->debug_handle, eti_xnn_kind_of(node)->name};
  }
  *out = origins;
  return ET_OK;
}

static et_status build(eti_xnn_builder *b, eti_xnn_graph *graph) {
  eti_xnn_graph_state *state = b->state;
  eti_xnn_extern *externs;
  ET_TRY(read_and_check(b->config->payload, b->config->payload_bytes, &state->graph_arena,
                        &state->payload, b->err));
  ET_TRY(
      compute_shapes(&state->payload, b->config->inputs, &state->build_arena, &b->shapes, b->err));
  ET_TRY(alloc_builder(b, &externs));
  ET_TRY(define_all(b));
  eti_xnn_discardable_sort(&state->discardable);
  graph->externs = externs;
  graph->n_externs = state->payload.n_externs;
  graph->n_nodes = b->n_defined;
  graph->packed_bytes = count_packed_bytes(b);
  graph->uses_payload = b->uses_payload;
  ET_TRY(record_shapes(b, &graph->retains_shapes));
  return copy_origins(b, &graph->origins);
}

et_status eti_xnn_graph_build(eti_xnn_graph *graph, const eti_xnn_graph_config *config,
                              et_error *err) {
  eti_xnn_build_arena arena = {.allocator = config->memory};
  void *memory;
  ET_TRY(eti_xnn_build_arena_alloc(&arena, 1, sizeof(eti_xnn_graph_state), &memory, err));
  eti_xnn_graph_state *state = memory;
  *state = (eti_xnn_graph_state){
      .graph_arena = arena,
      .build_arena = {.allocator = config->memory},
      .named = *config->named,
      .discardable = {.report = config->on_discardable, .ctx = config->on_discardable_ctx}};
  eti_xnn_builder b = {.config = config, .err = err, .state = state, .payload = &state->payload};
  eti_xnn_graph made = {.state = state};
  const et_status status = build(&b, &made);
  made.subgraph = b.subgraph;
  if (status == ET_OK) {
    *graph = made;
  } else {
    eti_xnn_graph_deinit(&made);
  }
  return status;
}

// ---- Release

static void release_constants(eti_xnn_graph_state *state, bool only_packed) {
  size_t n = 0;
  for (size_t i = 0; i < state->n_constants; i++) {
    if (only_packed && !state->constants[i].is_packed) {
      state->constants[n++] = state->constants[i];
    } else if (state->named.release != NULL) {
      state->named.release(state->named.ctx, &state->constants[i].blob);
    }
  }
  state->n_constants = n;
}

void eti_xnn_graph_on_packed(void *graph, const void *filter, const void *bias) {
  eti_xnn_discardable *const d = &((eti_xnn_graph *)graph)->state->discardable;
  eti_xnn_discardable_mark_packed(d, filter);
  if (bias != NULL) eti_xnn_discardable_mark_packed(d, bias);
}

static void drop_sources(eti_xnn_graph *graph) {
  if (graph->subgraph != NULL) (void)xnn_delete_subgraph(graph->subgraph);
  graph->subgraph = NULL;
  release_constants(graph->state, true);
  graph->state->discardable = (eti_xnn_discardable){.report = NULL};
  eti_xnn_build_arena_free(&graph->state->build_arena);
}

void eti_xnn_graph_trim(eti_xnn_graph *graph) {
  eti_xnn_discardable_report_all(&graph->state->discardable);
  drop_sources(graph);
}

void eti_xnn_graph_deinit(eti_xnn_graph *graph) {
  if (graph->state == NULL) return;
  drop_sources(graph);
  release_constants(graph->state, false);
  eti_xnn_build_arena arena = graph->state->graph_arena;  // in which the state itself lies
  eti_xnn_build_arena_free(&arena);
  *graph = (eti_xnn_graph){0};
}
