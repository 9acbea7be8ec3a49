// xnn_graph_rig.h — builds and runs the graph of a payload without a delegate, for tests: with an
// allocator that can fail and with named data, and three small payloads to begin with.
#ifndef ET_XNN_GRAPH_RIG_H
#define ET_XNN_GRAPH_RIG_H

#include "et_test.h"
#include "runtime/et.h"

#include "backends/xnnpack/subgraph/subgraph.h"
#include "xnn_writer.h"

// ---- An allocator that counts blocks and can fail

// Live blocks, allocations, and the first allocation that fails (0: none does).
static size_t n_live, n_asked, fails_at;

static inline bool is_refused(void) {
  return fails_at != 0 && ++n_asked >= fails_at;
}

static inline void *allocate(void *ctx, size_t bytes) {
  (void)ctx;
  if (is_refused()) return NULL;
  n_live++;
  return malloc(bytes == 0 ? 1 : bytes);
}

static inline void deallocate(void *ctx, void *at) {
  (void)ctx;
  n_live -= at != NULL;
  free(at);
}

static inline void *reallocate(void *ctx, void *at, size_t bytes) {
  if (at == NULL) return allocate(ctx, bytes);
  return is_refused() ? NULL : realloc(at, bytes);
}

static inline void *allocate_aligned(void *ctx, size_t align, size_t bytes) {
  (void)ctx;
  void *at = NULL;
  if (is_refused() || bytes > (size_t)1 << 30) return NULL;
  at = aligned_alloc(align, (bytes + align - 1) / align * align);
  n_live += at != NULL;
  return at;
}

static const struct xnn_allocator allocator = {NULL,       allocate,         reallocate,
                                               deallocate, allocate_aligned, deallocate};

// ---- Named data

static const x_constant *named;
static size_t n_named, n_held;

static inline et_status get_named(const void *ctx, const char *key, et_blob *out, et_error *err) {
  (void)ctx;
  for (size_t i = 0; i < n_named; i++) {
    if (strcmp(named[i].key, key) != 0) continue;
    *out = (et_blob){.data = named[i].data, .size = named[i].size};
    n_held++;
    return ET_OK;
  }
  if (err != NULL) {
    err->status = ET_NOT_FOUND;
    snprintf(err->message, sizeof err->message, "no data '%s'", key);
  }
  return ET_NOT_FOUND;
}

static inline void release_named(const void *ctx, et_blob *blob) {
  (void)ctx;
  (void)blob;
  n_held--;
}

static const et_named_data data = {NULL, get_named, release_named};

// ---- Building and running

static inline et_status build_bytes(const uint8_t *bytes, size_t size, eti_xnn_graph *graph,
                                    et_error *err) {
  const eti_xnn_graph_config config = {
      .payload = bytes, .payload_bytes = size, .named = &data, .memory = &allocator};
  if (xnn_initialize(&allocator) != xnn_status_success) return ET_INTERNAL;
  return eti_xnn_graph_build(graph, &config, err);
}

// The error of building a graph.
static inline et_error refusal(const x_graph *g) {
  et_error err = {.status = ET_OK};
  eti_xnn_graph graph = {0};
  writer w = x_write(g);
  if (build_bytes(w.bytes, w.size, &graph, &err) == ET_OK) {
    eti_xnn_graph_deinit(&graph);
    err.status = ET_OK;
  }
  free(w.bytes);
  return err;
}

// Runs a built graph; args[i]: the data of argument i.
static inline enum xnn_status run_graph(eti_xnn_graph *graph, void *const *args) {
  xnn_runtime_t runtime = NULL;
  xnn_workspace_t workspace =
      NULL;  // without one XNNPACK makes its own, and loses it when it fails
  struct xnn_external_value values[X_MAX];
  size_t n = 0;
  enum xnn_status status = xnn_create_workspace(&workspace);
  if (status == xnn_status_success)
    status = xnn_create_runtime_v4(graph->subgraph, NULL, workspace, NULL, 0, &runtime);
  eti_xnn_graph_trim(graph);
  if (status == xnn_status_success) status = xnn_reshape_runtime(runtime);
  for (uint32_t i = 0; i < graph->n_externs; i++) {
    if (graph->externs[i].is_input || graph->externs[i].is_output)
      values[n++] = (struct xnn_external_value){i, args[i]};
  }
  if (status == xnn_status_success) status = xnn_setup_runtime_v2(runtime, n, values);
  if (status == xnn_status_success) status = xnn_invoke_runtime(runtime);
  if (runtime != NULL) (void)xnn_delete_runtime(runtime);
  if (workspace != NULL) (void)xnn_release_workspace(workspace);
  return status;
}

static inline bool runs(const x_graph *g, void *const *args) {
  et_error err = {.status = ET_OK};
  eti_xnn_graph graph = {0};
  writer w = x_write(g);
  bool is_done = build_bytes(w.bytes, w.size, &graph, &err) == ET_OK;
  if (!is_done) printf("  %s\n", err.message);
  if (is_done) {
    is_done = run_graph(&graph, args) == xnn_status_success;
    eti_xnn_graph_deinit(&graph);
  }
  free(w.bytes);
  return is_done && n_held == 0;
}

// ---- Graphs

#define TENSOR(type, flag, ext, ...) \
  {.datatype = ETI_##type, .flags = flag, .external = ext, __VA_ARGS__}
enum {
  ETI_fp32 = 1,
  ETI_fp16 = 2,
  ETI_qint8 = 3,
  ETI_qcint8 = 6,
  ETI_qdint8 = 9,
  ETI_qbint4 = 10,
  ETI_bf16 = 14
};
#define NONE 0xffffffffu

static inline x_graph sum_of_two(void) {
  return (x_graph){
      .values = {TENSOR(fp32, 1, 0, .rank = 2, .dims = {2, 3}),
                 TENSOR(fp32, 1, 1, .rank = 1, .dims = {3}),
                 TENSOR(fp32, 2, 2, .rank = 2, .dims = {2, 3})},
      .nodes = {{.code = 1, .n_slots = 4, .slots = {0, 1, 2}}},
      .constants = {{.key = ""}},
      .n_values = 3,
      .n_nodes = 1,
      .n_constants = 1,
      .n_externs = 3,
  };
}

static const float weights[2 * 3] = {1, 2, 3, 4, 5, 6}, bias[2] = {10, 20};

// y = x W^T + b
static inline x_graph one_linear(void) {
  return (x_graph){
      .values = {TENSOR(fp32, 1, 0, .rank = 2, .dims = {1, 3}),
                 TENSOR(fp32, 0, 0, .rank = 2, .dims = {2, 3}, .constant = 1),
                 TENSOR(fp32, 0, 0, .rank = 1, .dims = {2}, .constant = 2),
                 TENSOR(fp32, 2, 1, .rank = 2, .dims = {1, 2})},
      .nodes = {{.code = 2, .n_slots = 5, .slots = {0, 1, 2, 3}}},
      .constants = {{.key = ""}, {NULL, weights, sizeof weights}, {NULL, bias, sizeof bias}},
      .n_values = 4,
      .n_nodes = 1,
      .n_constants = 3,
      .n_externs = 2,
  };
}

// A 3×3 convolution of one channel over 4×4, padded by 1.
static inline x_graph one_conv(void) {
  static const float ones[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  return (x_graph){
      .values = {TENSOR(fp32, 1, 0, .rank = 4, .dims = {1, 4, 4, 1}),
                 TENSOR(fp32, 0, 0, .rank = 4, .dims = {1, 3, 3, 1}, .constant = 1),
                 TENSOR(fp32, 2, 1, .rank = 4, .dims = {1, 4, 4, 1})},
      .nodes = {{.code = 7, .n_slots = 20, .slots = {1, 1, 1, 1, 3, 3, 1, 1,    1, 1,
                                                     1, 1, 1, 0, 0, 0, 1, NONE, 2, 0}}},
      .constants = {{.key = ""}, {NULL, ones, sizeof ones}},
      .n_values = 3,
      .n_nodes = 1,
      .n_constants = 2,
      .n_externs = 2,
  };
}

#endif  // ET_XNN_GRAPH_RIG_H
