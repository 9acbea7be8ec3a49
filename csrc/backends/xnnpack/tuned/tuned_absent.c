// tuned_absent.c — tuned.h for builds without tuned kernels: another processor than x86-64, or
// another release of XNNPACK than the one that get_xnnpack.py builds. CMake compiles either this
// file or the rest of the folder.
#include "backends/xnnpack/tuned/tuned.h"

void eti_xnn_tuned_install(void) {}

size_t eti_xnn_tuned_names(const char **names, size_t n) {
  (void)names;
  (void)n;
  return 0;
}

bool eti_xnn_has_layer_norm(void) {
  return false;
}

enum xnn_status eti_xnn_define_layer_norm(xnn_subgraph_t subgraph,
                                          const eti_xnn_layer_norm_ids *ids) {
  (void)subgraph;
  (void)ids;
  return xnn_status_unsupported_parameter;
}

bool eti_xnn_has_lut(void) {
  return false;
}

enum xnn_status eti_xnn_define_lut(xnn_subgraph_t subgraph, uint32_t input, uint32_t table,
                                   uint32_t output) {
  (void)subgraph;
  (void)input;
  (void)table;
  (void)output;
  return xnn_status_unsupported_parameter;
}

void eti_xnn_tune_node(xnn_subgraph_t subgraph) {
  (void)subgraph;
}

bool eti_xnn_has_gemm_residual(size_t n_cols) {
  (void)n_cols;
  return false;
}

void eti_xnn_add_residual(xnn_subgraph_t subgraph, uint32_t residual) {
  (void)subgraph;
  (void)residual;
}

void eti_xnn_tuned_after_make(xnn_runtime_t runtime) {
  (void)runtime;
}

void eti_xnn_tuned_after_reshape(xnn_runtime_t runtime, size_t n_threads,
                                 eti_xnn_q8_schedule **schedules) {
  (void)runtime;
  (void)n_threads;
  (void)schedules;
}

void eti_xnn_tuned_free_schedules(eti_xnn_q8_schedule *schedules) {
  (void)schedules;
}

const char *eti_xnn_tuned_next_name(xnn_runtime_t runtime, size_t *at) {
  (void)runtime;
  (void)at;
  return NULL;
}
