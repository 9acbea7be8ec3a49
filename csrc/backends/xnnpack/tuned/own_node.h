// own_node.h — common parts of this project's nodes in XNNPACK's subgraphs. Each is defined as a
// node of XNNPACK, so that XNNPACK's checks and memory plan apply. Then its functions for creating,
// reshaping and setting up the operator are replaced. The operator's context is a struct of the
// node.
#ifndef ET_XNNPACK_OWN_NODE_H
#define ET_XNNPACK_OWN_NODE_H

#include <string.h>

#include "backends/xnnpack/tuned/xnn_private.h"

// The node that was defined last.
static inline struct xnn_node *eti_xnn_last_node(xnn_subgraph_t subgraph) {
  return &subgraph->nodes[subgraph->num_nodes - 1];
}

// Adds an input after those that XNNPACK's own functions read; they ignore it.
static inline void eti_xnn_add_input(struct xnn_node *node, uint32_t id) {
  node->inputs[node->num_inputs++] = id;
}

// Asserts that a struct can be an operator's context.
#define ETI_XNN_FITS_CONTEXT(type)                                              \
  _Static_assert(sizeof(type) <= sizeof(((struct xnn_operator *)0)->context) && \
                     _Alignof(type) <= _Alignof(struct xnn_operator),           \
                 #type " lies in the operator")

static inline void eti_xnn_set_context(struct xnn_operator *op, const void *from, size_t bytes) {
  memcpy(&op->context, from, bytes);
}

static inline void eti_xnn_get_context(const struct xnn_operator *op, void *to, size_t bytes) {
  memcpy(to, &op->context, bytes);
}

// An invocation over a range of rows, `tile` of them at a time.
static inline struct compute_parameters eti_xnn_over_rows(pthreadpool_task_1d_tile_1d_t run,
                                                          size_t tile) {
  return (struct compute_parameters){
      .type = xnn_parallelization_type_1d_tile_1d, .task_1d_tile_1d = run, .tile = {tile}};
}

// Unused arguments of XNNPACK's create, reshape and setup functions.
static inline void eti_xnn_unused_in_create(size_t n_values, struct xnn_code_cache *code,
                                            xnn_weights_cache_t weights) {
  (void)n_values;
  (void)code;
  (void)weights;
}
static inline void eti_xnn_unused_in_setup(size_t n_values, pthreadpool_t threads) {
  (void)n_values;
  (void)threads;
}

#endif  // ET_XNNPACK_OWN_NODE_H
