// subgraph_builder.h — the state of a graph while it is built, shared by the files that define it:
// subgraph_constants.c brings bytes and scales to memory, subgraph_values.c defines values,
// subgraph_nodes.c nodes.
#ifndef ET_XNNPACK_BUILDER_H
#define ET_XNNPACK_BUILDER_H

#include "backends/xnnpack/subgraph/subgraph.h"
#include "backends/xnnpack/payload/payload.h"
#include "backends/xnnpack/subgraph/discardable.h"

// A blob that is held.
typedef struct eti_xnn_constant {
  et_blob blob;
  bool is_packed;  // XNNPACK has a copy of its own as soon as the runtime is created
} eti_xnn_constant;

// What a graph keeps.
typedef struct eti_xnn_built {
  eti_xnn_heap kept;       // this struct among it
  eti_xnn_heap temporary;  // until the runtime is created
  eti_xnn_payload payload;
  et_named_data named;
  size_t n_constants;
  eti_xnn_constant *constants;  // room for each value and its scales
  eti_xnn_shape *shapes;        // [n_values] that XNNPACK knows; NULL where nobody asks
  bool is_shaped;               // … and has made its operators for
  uint8_t *is_fused;            // [payload.n_nodes] sums that a product before them computes
  eti_xnn_spent spent;          // of what it read, until the runtime is created
} eti_xnn_built;

typedef struct eti_xnn_builder {
  const eti_xnn_graph_config *config;
  et_error *err;
  eti_xnn_built *built;
  const eti_xnn_payload *payload;
  eti_xnn_shape *shapes;      // [n_values]
  uint32_t *ids;              // [n_values] XNNPACK's; ETI_XNN_NONE until defined
  uint32_t *float_ids;        // [n_values] of the same in fp32
  uint8_t *is_packed;         // [n_values] constants that are only packed
  const uint8_t *is_needed;   // [n_values] outputs are computed from it; NULL: not known yet
  const uint32_t *n_readers;  // [n_values] of it, among the nodes that are needed
  const uint32_t *readers;    // [n_values] the first of these
  const void *
      *addresses;  // [n_values] where XNNPACK reads a constant, in fp32 or as it is; or NULL
  xnn_subgraph_t subgraph;
  uint32_t *origins;  // [n_defined] the node that each defined one came from
  size_t n_defined, room;
  bool uses_payload;
} eti_xnn_builder;

// ---- subgraph_constants.c
// A constant's bytes, aligned to its elements and readable XNN_EXTRA_BYTES beyond their end.
et_status eti_xnn_constant_bytes(eti_xnn_builder *b, uint32_t value, const void **out);
// The same, elements of 16 bits widened to fp32.
et_status eti_xnn_constant_floats(eti_xnn_builder *b, uint32_t value, const void **out);
// A value's scales, proven normal and positive: floats by channel, the high halves of floats by
// group.
et_status eti_xnn_constant_scales(eti_xnn_builder *b, uint32_t value, const void **out);

// ---- weights_key.c
// Tells who wants to know under which name the weights of a defined node can be kept packed. Those
// without a key in named data have none.
void eti_xnn_tell_weights(const eti_xnn_builder *b, const eti_xnn_node *node);

// ---- subgraph_values.c
// XNNPACK's id of a value, which is defined when it has none.
et_status eti_xnn_value_id(eti_xnn_builder *b, uint32_t value, uint32_t *id);
// The id of the value in fp32: itself, an expanded constant, or the result of a conversion.
et_status eti_xnn_float_id(eti_xnn_builder *b, const eti_xnn_node *node, uint32_t value,
                           uint32_t *id);
// A new internal value with the shape of one value and the type and parameters of another.
et_status eti_xnn_temporary(eti_xnn_builder *b, uint32_t shape_of, uint32_t type_of, uint32_t *id);
et_status eti_xnn_float_temporary(eti_xnn_builder *b, uint32_t shape_of, uint32_t *id);
// Notes a node that XNNPACK has accepted, or fails with what it said.
et_status eti_xnn_defined(eti_xnn_builder *b, const eti_xnn_node *node, enum xnn_status status);
et_status eti_xnn_convert(eti_xnn_builder *b, const eti_xnn_node *node, uint32_t from, uint32_t to);

// ---- subgraph_nodes.c
// The parameters of a unary node; false: it has none.
bool eti_xnn_unary_params(const eti_xnn_node *node, union xnn_unary_params *params);
#define ETI_XNN_MOST_DEFINED 10  // nodes of the subgraph for one of the payload
et_status eti_xnn_define_node(eti_xnn_builder *b, const eti_xnn_node *node);

#endif  // ET_XNNPACK_BUILDER_H
