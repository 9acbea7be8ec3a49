// subgraph.h — from a delegate payload to an XNNPACK subgraph: the seam between reading payloads
// (payload.c, define*.c, behind this header) and running them (xnnpack_backend.c, execute.c,
// instance.c). Behind it nothing knows methods, workspaces or threads; in front of it nobody knows
// the payload's format. A payload is untrusted: whatever XNNPACK would take on faith has been
// proven before it sees it.
#ifndef ET_XNNPACK_GRAPH_H
#define ET_XNNPACK_GRAPH_H

#include "backends/xnnpack/payload/value_shape.h"
#include "runtime/et.h"

#include <xnnpack.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// One argument of the delegate call; its position there is its external id. Neither input nor
// output: the payload names no value for this position, and XNNPACK must not be told of it.
typedef struct eti_xnn_extern {
  bool is_input, is_output;  // never both
  bool is_widened;           // XNNPACK writes i32, the tensor's elements are i64: dtype is ET_I64
  et_dtype dtype;            // what the tensor must be
  eti_xnn_shape shape;  // in memory order; upper bounds where dynamic. A scalar is stored as [1]
} eti_xnn_extern;

// The node of the payload that a node of the subgraph came from; several may share one.
typedef struct eti_xnn_origin {
  uint32_t node;          // its number in the payload
  uint32_t debug_handle;  // 65535 where the exporter had none
  const char *kind;       // "Conv2d"
} eti_xnn_origin;

// What a graph is built with; borrowed during the build. `memory` and what named's ctx points at
// are kept until eti_xnn_graph_deinit.
typedef struct eti_xnn_graph_config {
  const uint8_t *payload;  // may go when the runtime has been created and the packed sources freed,
  size_t payload_bytes;    // unless eti_xnn_graph.uses_payload
  const et_named_data *named;
  const struct xnn_allocator *memory;  // the one that XNNPACK was initialised with
  // By external id, those of inputs: the shapes to define values with. NULL: the payload's.
  const eti_xnn_shape *inputs;
  // Told of the constants that a node packs, if they are named data: where XNNPACK reads filter and
  // bias (NULL without one), and a name that spells out everything packing depends on, valid during
  // the call only. For a weights cache, which is asked by address. A pair of addresses may get
  // several names. NULL: nobody wants it.
  void (*on_weights)(void *ctx, const void *filter, const void *bias, const void *name,
                     size_t name_bytes);
  void *on_weights_ctx;
  // et_xnnpack.h's.
  void (*on_spent)(void *ctx, const void *data, size_t bytes);
  void *on_spent_ctx;
} eti_xnn_graph_config;

// A built graph. The order of use: build, create the runtime from `subgraph`, then
// eti_xnn_graph_trim; deinit when the runtime is gone.
typedef struct eti_xnn_graph {
  xnn_subgraph_t subgraph;  // NULL after trim
  size_t n_externs;
  const eti_xnn_extern *externs;  // [n_externs]
  size_t n_nodes;                 // of the subgraph, in the order in which they were defined
  const eti_xnn_origin *origins;  // [n_nodes]
  size_t packed_bytes;            // of constants that XNNPACK only packs
  bool uses_payload;              // after trim: constants of the payload itself are still read
  bool keeps_shapes;              // a runtime of it may become stale: see eti_xnn_graph_take_shapes
  struct eti_xnn_built *built;    // private
} eti_xnn_graph;

// Proves what can be proven without named data: structure, ids, shapes, sizes, parameters, and that
// every node kind and type is one this build can run. Allocates and frees through `memory`; for the
// measuring step. *n_externs (NULL allowed) is the number of arguments.
et_status eti_xnn_payload_check(const uint8_t *payload, size_t payload_bytes,
                                const struct xnn_allocator *memory, size_t *n_externs,
                                et_error *err);

// The same, then builds. XNNPACK must have been initialised. On failure there is nothing to deinit.
et_status eti_xnn_graph_build(eti_xnn_graph *graph, const eti_xnn_graph_config *config,
                              et_error *err);

// Proves that every node can run when extern i of the inputs has the shape shapes[i] (outputs'
// entries are not looked at), as XNNPACK's reshape would read and write out of bounds otherwise. To
// be called before xnn_reshape_runtime whenever a shape is new, those of `externs` excepted: for
// them the build has done it. Ranks must be the externs'.
et_status eti_xnn_graph_check_shapes(const eti_xnn_graph *graph, const eti_xnn_shape *shapes,
                                     et_error *err);

// The same, where the runtime is to be given these shapes next. *is_stale: it must not be, as it
// would go on with something of the shapes it knows. A graph that is built with these for its
// config's inputs has to take its place. Needed for the payload's own shapes too if `keeps_shapes`.
et_status eti_xnn_graph_take_shapes(eti_xnn_graph *graph, const eti_xnn_shape *shapes,
                                    bool *is_stale, et_error *err);

// What lies at filter and bias (NULL allowed) has been packed, while the runtime is created.
void eti_xnn_graph_packed(void *graph, const void *filter, const void *bias);

// Deletes the subgraph and gives back the constants that XNNPACK has packed by now. To be called
// once the runtime has been created.
void eti_xnn_graph_trim(eti_xnn_graph *graph);

void eti_xnn_graph_deinit(eti_xnn_graph *graph);  // after trim, or instead of it

#endif  // ET_XNNPACK_GRAPH_H
