// subgraph_builder.h — the state of a graph and of its build, shared by the files that define a
// subgraph: subgraph_constants.c loads bytes and scales, subgraph_values.c defines values,
// subgraph_nodes.c nodes, fuse*.c fused nodes.
#ifndef ET_XNNPACK_SUBGRAPH_BUILDER_H
#define ET_XNNPACK_SUBGRAPH_BUILDER_H

#include "backends/xnnpack/subgraph/subgraph.h"
#include "backends/xnnpack/payload/payload.h"
#include "backends/xnnpack/subgraph/discardable.h"

// A blob of named data that a graph holds.
typedef struct eti_xnn_constant {
  et_blob blob;
  bool is_packed;  // only packed: not needed after the runtime was created
} eti_xnn_constant;

typedef struct eti_xnn_graph_state {
  eti_xnn_build_arena graph_arena;  // for the graph's life; this struct lies in it
  eti_xnn_build_arena build_arena;  // until the runtime is created
  eti_xnn_payload payload;
  et_named_data named;
  size_t n_constants;
  eti_xnn_constant *constants;      // room for each value and its scales
  eti_xnn_shape *shapes;            // [n_values] of the runtime; NULL unless retains_shapes
  bool is_shaped;                   // the runtime was reshaped to `shapes`
  uint8_t *is_fused;                // [payload.n_nodes] sums that a product before them computes
  eti_xnn_discardable discardable;  // constants, until the runtime is created
} eti_xnn_graph_state;

typedef struct eti_xnn_builder {
  const eti_xnn_graph_config *config;
  et_error *err;
  eti_xnn_graph_state *state;
  const eti_xnn_payload *payload;
  eti_xnn_shape *shapes;      // [n_values]
  uint32_t *ids;              // [n_values] XNNPACK's; ETI_XNN_NONE until defined
  uint32_t *f32_ids;          // [n_values] of the same values in fp32
  uint8_t *is_packed;         // [n_values] constants that are only packed
  const uint8_t *is_needed;   // [n_values] an output depends on it; NULL: not known yet
  const uint32_t *n_readers;  // [n_values] needed nodes that read it
  const uint32_t *readers;    // [n_values] the first of these
  const void **addresses;     // [n_values] of a constant, as stored or in fp32; NULL: none so far
  xnn_subgraph_t subgraph;
  uint32_t *origins;  // [n_defined] for each node of the subgraph the payload's node
  size_t n_defined, max_defined;
  bool uses_payload;
} eti_xnn_builder;

// ---- subgraph_constants.c
// The bytes of a constant, aligned to its elements and readable XNN_EXTRA_BYTES beyond their end.
et_status eti_xnn_constant_bytes(eti_xnn_builder *b, uint32_t value, const void **out);
// The bytes of a constant with bf16 or fp16 elements widened to fp32.
et_status eti_xnn_constant_f32(eti_xnn_builder *b, uint32_t value, const void **out);
// The scales of a value, checked to be normal and positive: floats per channel, bf16 per group.
et_status eti_xnn_constant_scales(eti_xnn_builder *b, uint32_t value, const void **out);

// ---- weights_key.c
// Reports the key under which the weights of a node can be cached packed (on_weights_key). Weights
// outside of named data have none.
void eti_xnn_report_weights_key(const eti_xnn_builder *b, const eti_xnn_node *node);

// ---- subgraph_values.c
// The id of a value in the subgraph. Defines the value at the first call.
et_status eti_xnn_value_id(eti_xnn_builder *b, uint32_t value, uint32_t *id);
// The id of the value in fp32: the value itself, a widened constant, or the result of a conversion.
et_status eti_xnn_f32_id(eti_xnn_builder *b, const eti_xnn_node *node, uint32_t value,
                         uint32_t *id);
// Defines an internal value with the shape of one value and the type and parameters of another.
et_status eti_xnn_internal_value(eti_xnn_builder *b, uint32_t shape_of, uint32_t type_of,
                                 uint32_t *id);
et_status eti_xnn_internal_f32(eti_xnn_builder *b, uint32_t shape_of, uint32_t *id);
// Records a node that XNNPACK has defined, or fails with the status of its definition.
et_status eti_xnn_note_node(eti_xnn_builder *b, const eti_xnn_node *node, enum xnn_status status);
et_status eti_xnn_convert(eti_xnn_builder *b, const eti_xnn_node *node, uint32_t from, uint32_t to);

// ---- subgraph_nodes.c
// The parameters of a unary node; false: it has none.
bool eti_xnn_unary_params(const eti_xnn_node *node, union xnn_unary_params *params);
#define ETI_XNN_MAX_DEFINED 10  // nodes of the subgraph per node of the payload
// Defines a node, and conversions and a clamp around it where these are needed.
et_status eti_xnn_define_node(eti_xnn_builder *b, const eti_xnn_node *node);

#endif  // ET_XNNPACK_SUBGRAPH_BUILDER_H
