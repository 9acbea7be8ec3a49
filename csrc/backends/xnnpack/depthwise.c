// depthwise.c — lets XNNPACK's depthwise convolutions of int8 run kernels of our own: see
// depthwise.h. Reads XNNPACK's inner structs, as products.c and lines.c do.
#include "backends/xnnpack/depthwise.h"

#if defined(ET_XNNPACK_OWN_KERNELS)
#include <xnnpack/allocator.h>
#include <xnnpack/config.h>
#include <xnnpack/operator.h>
#include <xnnpack/subgraph.h>

// As in XNNPACK's dwconv.h, which needs more of its sources.
typedef void dwconv(size_t, size_t, const void **, const void *, void *, intptr_t, size_t, size_t,
                    const void *, const void *);
dwconv xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_9p16c__avx2_mul32;
dwconv xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_25p16c__avx2_mul32;
dwconv xnn_qs8_dwconv_minmax_fp32_ukernel_9p16c__avx2_mul32;
dwconv xnn_qs8_dwconv_minmax_fp32_ukernel_25p16c__avx2_mul32;

typedef struct replacement {
  const char *name;
  size_t n_taps;
  bool has_scales;  // for each channel
  dwconv *theirs, *ours;
} replacement;

static const replacement replacements[] = {
    {"qs8_qc8w_dwconv_9p16c", 9, true, xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_9p16c__avx2_mul32,
     eti_xnn_qs8_depthwise_9__avx2},
    {"qs8_qc8w_dwconv_25p16c", 25, true, xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_25p16c__avx2_mul32,
     eti_xnn_qs8_depthwise_25__avx2},
    {"qs8_dwconv_9p16c", 9, false, xnn_qs8_dwconv_minmax_fp32_ukernel_9p16c__avx2_mul32,
     eti_xnn_qs8_depthwise_9__avx2},
    {"qs8_dwconv_25p16c", 25, false, xnn_qs8_dwconv_minmax_fp32_ukernel_25p16c__avx2_mul32,
     eti_xnn_qs8_depthwise_25__avx2},
};
enum { N_REPLACEMENTS = sizeof replacements / sizeof replacements[0] };

// Of an operator without a cache of weights, which is how XNNPACK's subgraph makes these.
static const replacement *replacement_of(const struct xnn_operator *op) {
  const bool is_convolution = op->type == xnn_operator_type_convolution_nhwc_qc8 ||
                              op->type == xnn_operator_type_convolution_nhwc_qs8;
  if (!is_convolution || op->ukernel.type != xnn_microkernel_type_dwconv) return NULL;
  if (op->weights_cache != NULL || op->ukernel.dwconv.last_tile != 0) return NULL;
  for (size_t i = 0; i < N_REPLACEMENTS; i++)
    if (op->ukernel.dwconv.unipass_fn == replacements[i].theirs) return &replacements[i];
  return NULL;
}

static void use(const replacement *r, struct xnn_operator *op) {
  const size_t bytes = eti_xnn_qs8_depthwise_bytes(r->n_taps, op->groups);
  void *const ours = xnn_allocate_simd_memory(bytes);
  if (ours == NULL) return;  // theirs go on
  void *const theirs = op->packed_weights.pointer;
  const union xnn_qs8_conv_minmax_params shared = op->params.qs8_conv_minmax;
  eti_xnn_qs8_depthwise_pack(r->n_taps, op->groups, theirs,
                             r->has_scales ? NULL : &shared.fp32_scalar.scale, ours);
  if (!r->has_scales) {
    op->params.qs8_qc8w_conv_minmax.fp32_scalar.output_zero_point =
        shared.fp32_scalar.output_zero_point;
    op->params.qs8_qc8w_conv_minmax.fp32_scalar.output_min = shared.fp32_scalar.output_min;
    op->params.qs8_qc8w_conv_minmax.fp32_scalar.output_max = shared.fp32_scalar.output_max;
  }
  op->packed_weights.pointer = ours;
  op->ukernel.dwconv.unipass_fn = r->ours;
  xnn_release_simd_memory(theirs);
}

void eti_xnn_use_own_depthwise(xnn_runtime_t runtime) {
  _Static_assert(sizeof(eti_xnn_qs8_limits) ==
                     sizeof(((union xnn_qs8_qc8w_conv_minmax_params *)NULL)->fp32_scalar),
                 "the kernels get XNNPACK's parameters");
  for (size_t i = 0; i < runtime->num_ops; i++) {
    for (size_t k = 0; k < XNN_MAX_OPERATOR_OBJECTS; k++) {
      struct xnn_operator *const op = runtime->opdata[i].operator_objects[k];
      const replacement *const r = op == NULL ? NULL : replacement_of(op);
      if (r != NULL) use(r, op);
    }
  }
}

// Which of XNNPACK's own it would run is the same question for all four.
size_t eti_xnn_own_depthwise(const char **names, size_t n) {
  const struct xnn_dwconv_config *const config = xnn_init_qs8_qc8w_dwconv_config();
  bool is_theirs = false;
  for (size_t i = 0; config != NULL && i < XNN_MAX_QC8_DWCONV_UKERNELS; i++)
    is_theirs |= config[i].minmax.unipass == replacements[0].theirs;
  if (!is_theirs) return 0;
  for (size_t i = 0; i < n && i < N_REPLACEMENTS; i++) names[i] = replacements[i].name;
  return N_REPLACEMENTS;
}

#else
size_t eti_xnn_own_depthwise(const char **names, size_t n) {
  (void)names;
  (void)n;
  return 0;
}

void eti_xnn_use_own_depthwise(xnn_runtime_t runtime) {
  (void)runtime;
}
#endif
