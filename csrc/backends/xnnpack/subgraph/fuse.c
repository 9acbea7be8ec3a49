// fuse.c — the table of fusions, in the order in which they are tried.
#include "backends/xnnpack/subgraph/fuse.h"

#include "runtime/check.h"

typedef et_status fuse_fn(eti_xnn_builder *b, const eti_xnn_node *node, size_t *n_nodes);

static fuse_fn *const fusions[] = {eti_xnn_fuse_layer_norm, eti_xnn_fuse_lut,
                                   eti_xnn_fuse_residual};

et_status eti_xnn_try_fuse(eti_xnn_builder *b, const eti_xnn_node *node, size_t *n_nodes) {
  *n_nodes = 0;
  for (size_t i = 0; i < sizeof fusions / sizeof fusions[0] && *n_nodes == 0; i++)
    ET_TRY(fusions[i](b, node, n_nodes));
  ET_ASSERT(*n_nodes <= (size_t)(b->payload->nodes + b->payload->n_nodes - node));
  return ET_OK;
}
