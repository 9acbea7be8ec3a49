// tuned.c — functions of tuned.h that apply to more than one family of kernels.
#include "backends/xnnpack/tuned/tuned.h"

#include "backends/xnnpack/tuned/conv_stem/conv_stem.h"
#include "backends/xnnpack/tuned/dwconv/dwconv.h"
#include "backends/xnnpack/tuned/gemm/gemm_override.h"
#include "backends/xnnpack/tuned/gemm/gemm_tiling.h"
#include "backends/xnnpack/tuned/memory_bound/memory_bound.h"
#include "backends/xnnpack/tuned/own_node.h"
#include "backends/xnnpack/tuned/rowwise/rowwise.h"

void eti_xnn_tuned_install(void) {
  eti_xnn_gemm_install();
}

size_t eti_xnn_tuned_names(const char **names, size_t n) {
  static size_t (*const families[])(const char **, size_t) = {
      eti_xnn_gemm_names, eti_xnn_dwconv_names, eti_xnn_conv_stem_names,
      eti_xnn_memory_bound_names};
  size_t count = 0;
  for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
    count += count < n ? families[i](names + count, n - count) : families[i](NULL, 0);
  return count;
}

void eti_xnn_tune_node(xnn_subgraph_t subgraph) {
  switch (eti_xnn_last_node(subgraph)->type) {
    case xnn_node_type_softmax:
      eti_xnn_softmax_tune(subgraph);
      return;
    case xnn_node_type_convolution_2d:
      eti_xnn_conv_stem_tune(subgraph);
      return;
    default:
      return;
  }
}

void eti_xnn_tuned_after_make(xnn_runtime_t runtime) {
  eti_xnn_dwconv_after_make(runtime);
}

void eti_xnn_tuned_after_reshape(xnn_runtime_t runtime, size_t n_threads,
                                 eti_xnn_q8_schedule **schedules) {
  eti_xnn_memory_bound_after_reshape(runtime);
  eti_xnn_gemm_after_reshape(runtime, n_threads, schedules);
}
