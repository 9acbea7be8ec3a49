// fuzz_xnnpack.c — feeds arbitrary bytes to the whole path of a delegate payload: check, build the
// subgraph, create XNNPACK's runtime, run it, run it again with other shapes. Whatever the bytes
// are, the outcome is a status or a correct run. Every name of a constant leads to the same bytes.
// Memory is limited, and large graphs are not run, because the question is safety, not endurance.
#include "runtime/et.h"

#include "fuzz.h"

fuzz_reach reach;
fuzz_companion companion;

#ifndef ET_HAVE_XNNPACK

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  (void)bytes;
  (void)size;
  reach.inputs++;
  return 0;
}

#else

#include "backends/xnnpack/graph.h"
#include "backends/xnnpack/payload.h"

#include "../c/xnn_named.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BYTES ((size_t)8 << 20)  // of one block
#define MOST_WORK 2e7                 // multiplications, about

static void *take_aligned(void *ctx, size_t align, size_t bytes) {
  (void)ctx;
  if (bytes > MOST_BYTES) return NULL;
  return aligned_alloc(align, (bytes + align) / align * align);
}

static void *take(void *ctx, size_t bytes) {
  return take_aligned(ctx, 16, bytes);
}

static void *take_again(void *ctx, void *at, size_t bytes) {
  (void)ctx;
  return bytes > MOST_BYTES ? NULL : realloc(at, bytes + 1);
}

static void give(void *ctx, void *at) {
  (void)ctx;
  free(at);
}

static const struct xnn_allocator allocator = {NULL, take, take_again, give, take_aligned, give};

// ---- One input

// Whether a run would take long.
static bool is_too_much(const uint8_t *bytes, size_t size) {
  eti_xnn_heap heap = {.allocator = &allocator};
  eti_xnn_payload payload;
  et_error err;
  double work = 0;
  if (eti_xnn_payload_read(bytes, size, &heap, &payload, &err) == ET_OK) {
    eti_xnn_shape *shapes = calloc(payload.n_values + 1, sizeof *shapes);
    if (shapes == NULL) abort();
    for (size_t i = 0; i < payload.n_values; i++) shapes[i] = payload.values[i].shape;
    if (eti_xnn_infer_shapes(&payload, shapes, &err) != ET_OK) work = 2 * MOST_WORK;
    for (size_t i = 0; i < payload.n_nodes; i++) {
      const eti_xnn_node *node = &payload.nodes[i];
      double one = 1, filter = 1;
      const eti_xnn_shape *out = &shapes[node->outputs[0]], *in = &shapes[node->inputs[0]];
      for (uint32_t d = 0; d < out->rank; d++) one *= (double)out->dims[d];
      for (uint32_t d = 0; d < in->rank; d++) filter *= d > 0 ? (double)in->dims[d] : 1;
      const eti_xnn_family family = (eti_xnn_family)eti_xnn_kind_of(node)->family;
      if (family == XNN_FAMILY_LINEAR || family == XNN_FAMILY_MATMUL)
        filter = in->rank > 0 ? (double)in->dims[in->rank - 1] : 1;
      if (family == XNN_FAMILY_CONV || family == XNN_FAMILY_DECONV)
        filter = (double)node->p.window.kernel[0] * node->p.window.kernel[1] *
                 node->p.window.group_inputs;
      if (family == XNN_FAMILY_DEPTHWISE || family == XNN_FAMILY_AVG_POOL ||
          family == XNN_FAMILY_MAX_POOL || family == XNN_FAMILY_ARG_MAX)
        filter = (double)node->p.window.kernel[0] * node->p.window.kernel[1];
      work += one * (family == XNN_FAMILY_MEAN || node->n_inputs > 1 || filter > 0 ? filter : 1);
    }
    free(shapes);
  }
  eti_xnn_release(&heap);
  return work > MOST_WORK;
}

static size_t bytes_of(const eti_xnn_extern *e, const eti_xnn_shape *shape) {
  size_t n = e->is_widened ? 4 : et_dtype_bytes(e->dtype);
  for (uint32_t d = 0; d < shape->rank; d++) n *= shape->dims[d];
  return n;
}

// Sets up and invokes with shapes that the runtime has been given.
static bool invoke(xnn_runtime_t runtime, const eti_xnn_graph *graph) {
  struct xnn_external_value *values = calloc(graph->n_externs + 1, sizeof *values);
  size_t n = 0;
  bool is_done = values != NULL;
  for (uint32_t i = 0; is_done && i < graph->n_externs; i++) {
    const eti_xnn_extern *e = &graph->externs[i];
    eti_xnn_shape shape = {0};
    size_t rank = 0;
    if (!e->is_input && !e->is_output) continue;
    is_done = xnn_get_external_value_shape(runtime, i, &rank, shape.dims) == xnn_status_success;
    shape.rank = (uint32_t)rank;
    const size_t bytes = bytes_of(e, &shape) + XNN_EXTRA_BYTES;  // softmax reads its output again
    void *block = is_done && bytes <= MOST_BYTES ? malloc(bytes) : NULL;
    is_done = block != NULL;
    if (is_done) memset(block, 0x3c, bytes);
    values[n++] = (struct xnn_external_value){i, block};
  }
  is_done = is_done && xnn_setup_runtime_v2(runtime, n, values) == xnn_status_success &&
            xnn_invoke_runtime(runtime) == xnn_status_success;
  for (size_t i = 0; values != NULL && i < n; i++) free(values[i].data);
  free(values);
  return is_done;
}

// The same with other shapes, which the graph must find sound first.
static void run_again(xnn_runtime_t runtime, eti_xnn_graph *graph, size_t divisor) {
  et_error err;
  eti_xnn_shape *shapes = calloc(graph->n_externs + 1, sizeof *shapes);
  if (shapes == NULL) abort();
  for (size_t i = 0; i < graph->n_externs; i++) {
    shapes[i] = graph->externs[i].shape;
    for (uint32_t d = 0; d < shapes[i].rank; d++)
      shapes[i].dims[d] =
          d == 0 || divisor > 2 ? (shapes[i].dims[d] + 1) / divisor : shapes[i].dims[d];
  }
  bool is_stale;
  bool is_sound = eti_xnn_graph_take_shapes(graph, shapes, &is_stale, &err) == ET_OK && !is_stale;
  for (uint32_t i = 0; is_sound && i < graph->n_externs; i++) {
    if (graph->externs[i].is_input)
      is_sound = xnn_reshape_external_value(runtime, i, shapes[i].rank, shapes[i].dims) ==
                 xnn_status_success;
  }
  if (is_sound && xnn_reshape_runtime(runtime) == xnn_status_success) (void)invoke(runtime, graph);
  free(shapes);
}

static void run(eti_xnn_graph *graph) {
  xnn_workspace_t workspace = NULL;
  xnn_runtime_t runtime = NULL;
  if (xnn_create_workspace(&workspace) != xnn_status_success) abort();
  enum xnn_status status =
      xnn_create_runtime_v4(graph->subgraph, NULL, workspace, NULL, 0, &runtime);
  eti_xnn_graph_trim(graph);
  if (status == xnn_status_success) status = xnn_reshape_runtime(runtime);
  reach.started += status == xnn_status_success;
  if (status == xnn_status_success && invoke(runtime, graph) && ++reach.finished > 0) {
    run_again(runtime, graph, 2);
    run_again(runtime, graph, 3);
  }
  if (runtime != NULL) (void)xnn_delete_runtime(runtime);
  (void)xnn_release_workspace(workspace);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  if (x_block == NULL && xnn_initialize(&allocator) != xnn_status_success) abort();
  x_make_block();
  uint8_t *copy = aligned_alloc(16, (size + 16) / 16 * 16);
  if (copy == NULL) abort();
  if (size > 0) memcpy(copy, bytes, size);
  reach.inputs++;
  et_error err;
  const bool is_checked = eti_xnn_payload_check(copy, size, &allocator, NULL, &err) == ET_OK;
  reach.opened += is_checked;
  const eti_xnn_graph_config config = {
      .payload = copy, .payload_bytes = size, .named = &x_named, .memory = &allocator};
  eti_xnn_graph graph;
  if (eti_xnn_graph_build(&graph, &config, &err) == ET_OK) {
    if (!is_checked) abort();  // one check decides both
    reach.loaded++;
    if (!is_too_much(copy, size)) run(&graph);
    eti_xnn_graph_deinit(&graph);
  }
  if (x_n_held != 0) abort();
  free(copy);
  return 0;
}

#endif
