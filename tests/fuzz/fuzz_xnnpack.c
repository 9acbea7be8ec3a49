// fuzz_xnnpack.c — feeds arbitrary bytes to all stages of a delegate payload: check, build the
// subgraph, create XNNPACK's runtime, run it, run it again with other shapes. For any bytes the
// outcome is a status or a correct run. All keys of constants have the same data. Memory is limited
// and large graphs are not run: the test is for memory safety, not for endurance.
#include "runtime/et.h"

#include "fuzz.h"
#include "payloads.h"

fuzz_reach reach;
fuzz_companion companion;

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t room, unsigned seed) {
  (void)room;
  fuzz_change_payload(bytes, size, seed);
  return size;
}

#ifndef ET_HAVE_XNNPACK

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  (void)bytes;
  (void)size;
  reach.inputs++;
  return 0;
}

#else

#include "backends/xnnpack/subgraph/subgraph.h"

#include "../c/xnn_named.h"

#include <stdlib.h>
#include <string.h>

#define MAX_BLOCK_BYTES ((size_t)8 << 20)

static void *allocate_aligned(void *ctx, size_t align, size_t bytes) {
  (void)ctx;
  if (bytes > MAX_BLOCK_BYTES) return NULL;
  return aligned_alloc(align, (bytes + align) / align * align);
}

static void *allocate(void *ctx, size_t bytes) {
  return allocate_aligned(ctx, 16, bytes);
}

static void *reallocate(void *ctx, void *at, size_t bytes) {
  (void)ctx;
  return bytes > MAX_BLOCK_BYTES ? NULL : realloc(at, bytes + 1);
}

static void deallocate(void *ctx, void *at) {
  (void)ctx;
  free(at);
}

static const struct xnn_allocator allocator = {NULL,       allocate,         reallocate,
                                               deallocate, allocate_aligned, deallocate};

// ---- One input

static size_t bytes_of(const eti_xnn_extern *e, const eti_xnn_shape *shape) {
  size_t n = e->is_widened ? 4 : et_dtype_bytes(e->dtype);
  for (uint32_t d = 0; d < shape->rank; d++) n *= shape->dims[d];
  return n;
}

// Sets up and invokes a reshaped runtime.
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
    void *block = is_done && bytes <= MAX_BLOCK_BYTES ? malloc(bytes) : NULL;
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

// Runs the graph with other shapes, if eti_xnn_graph_set_shapes accepts them.
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
  bool is_sound = eti_xnn_graph_set_shapes(graph, shapes, &is_stale, &err) == ET_OK && !is_stale;
  for (uint32_t i = 0; is_sound && i < graph->n_externs; i++) {
    if (graph->externs[i].is_input)
      is_sound = xnn_reshape_external_value(runtime, i, shapes[i].rank, shapes[i].dims) ==
                 xnn_status_success;
  }
  if (is_sound && xnn_reshape_runtime(runtime) == xnn_status_success) (void)invoke(runtime, graph);
  free(shapes);
}

static void run_graph(eti_xnn_graph *graph) {
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
    if (!fuzz_is_too_much(copy, size, &allocator)) run_graph(&graph);
    eti_xnn_graph_deinit(&graph);
  }
  if (x_n_held != 0) abort();
  free(copy);
  return 0;
}

#endif
