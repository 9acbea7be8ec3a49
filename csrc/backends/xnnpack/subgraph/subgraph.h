// subgraph.h — builds an XNNPACK subgraph from a delegate payload. Engines and calls (engine.c,
// execute.c) use it and do not know the payload's format. payload/ and subgraph/ implement it and
// know no methods, workspaces or threads. A payload is untrusted: everything that XNNPACK does not
// check is checked before XNNPACK gets it.
#ifndef ET_XNNPACK_SUBGRAPH_H
#define ET_XNNPACK_SUBGRAPH_H

#include "backends/xnnpack/payload/value_shape.h"
#include "runtime/et.h"

#include <xnnpack.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// One argument of the delegate call. Its external id is its position in the call. If it is neither
// input nor output, the payload has no value for this position, and XNNPACK gets none.
typedef struct eti_xnn_extern {
  bool is_input, is_output;  // never both
  bool is_widened;           // XNNPACK writes i32 and the tensor has dtype ET_I64
  et_dtype dtype;            // of the tensor
  eti_xnn_shape shape;       // in memory order; upper bounds where dynamic; [1] of a scalar
} eti_xnn_extern;

// The node of the payload that a node of the subgraph was defined for; several may share one.
typedef struct eti_xnn_origin {
  uint32_t node;          // its number in the payload
  uint32_t debug_handle;  // 65535 where the exporter had none
  const char *kind;       // "Conv2d"
} eti_xnn_origin;

// The arguments of a build, borrowed for its time; `memory` and the context of `named` until
// eti_xnn_graph_deinit.
typedef struct eti_xnn_graph_config {
  const uint8_t *payload;  // needed until eti_xnn_graph_trim; longer if eti_xnn_graph.uses_payload
  size_t payload_bytes;
  const et_named_data *named;
  const struct xnn_allocator *memory;  // the one that XNNPACK was initialised with
  // The shapes of inputs, by external id, with which values are defined. NULL: the payload's.
  const eti_xnn_shape *inputs;
  // Called for the constants that a node packs, if they are named data, with the addresses at which
  // XNNPACK reads filter and bias (NULL without one), a key of everything that packing depends on,
  // valid during the call only, and the names of the data that is packed, at most 4, in the
  // payload. For a weights cache, in which XNNPACK looks weights up by address. A pair of addresses
  // may get several keys. NULL: no calls.
  void (*on_weights_key)(void *ctx, const void *filter, const void *bias, const void *key,
                         size_t key_bytes, const char *const *names, size_t n_names);
  void *on_weights_key_ctx;
  // on_spent of et_xnnpack_options.
  void (*on_discardable)(void *ctx, const void *data, size_t bytes);
  void *on_discardable_ctx;
} eti_xnn_graph_config;

// A built graph. Order of use: build, create the runtime from `subgraph`, eti_xnn_graph_trim;
// deinit after the runtime was deleted.
typedef struct eti_xnn_graph {
  xnn_subgraph_t subgraph;  // NULL after trim
  size_t n_externs;
  const eti_xnn_extern *externs;      // [n_externs]
  size_t n_nodes;                     // of the subgraph, in the order of definition
  const eti_xnn_origin *origins;      // [n_nodes]
  size_t packed_bytes;                // of constants that are only packed
  bool uses_payload;                  // constants in the payload are read after trim
  bool retains_shapes;                // a runtime may become stale: see eti_xnn_graph_set_shapes
  struct eti_xnn_graph_state *state;  // private
} eti_xnn_graph;

// Checks a payload without its named data: structure, ids, shapes, sizes, parameters, and that this
// build can run every node kind and type. Allocates and frees through `memory`. *n_externs (NULL
// allowed): the number of arguments.
et_status eti_xnn_payload_check(const uint8_t *payload, size_t payload_bytes,
                                const struct xnn_allocator *memory, size_t *n_externs,
                                et_error *err);

// Checks and builds. XNNPACK must have been initialised. On failure there is nothing to deinit.
et_status eti_xnn_graph_build(eti_xnn_graph *graph, const eti_xnn_graph_config *config,
                              et_error *err);

// Checks that every node can run when input i has the shape shapes[i] (entries of outputs are
// ignored): XNNPACK's reshape would read and write out of bounds otherwise. To be called before
// xnn_reshape_runtime for new shapes; those of `externs` were checked by the build. Ranks are those
// of `externs`.
et_status eti_xnn_graph_check_shapes(const eti_xnn_graph *graph, const eti_xnn_shape *shapes,
                                     et_error *err);

// Checks shapes that the runtime will be given next. *is_stale: the runtime must not be
// given them, as it would keep a part of the old shapes; replace the graph by one that is built
// with the new shapes as config.inputs. With `retains_shapes`, call this for the payload's own
// shapes as well.
et_status eti_xnn_graph_set_shapes(eti_xnn_graph *graph, const eti_xnn_shape *shapes,
                                   bool *is_stale, et_error *err);

// Notes, while the runtime is created, that the constants at filter and bias (NULL allowed) have
// been packed. graph: an eti_xnn_graph.
void eti_xnn_graph_on_packed(void *graph, const void *filter, const void *bias);

// Deletes the subgraph and releases the constants that XNNPACK has packed; after the runtime was
// created.
void eti_xnn_graph_trim(eti_xnn_graph *graph);

void eti_xnn_graph_deinit(eti_xnn_graph *graph);  // after trim, or instead of it

#endif  // ET_XNNPACK_SUBGRAPH_H
