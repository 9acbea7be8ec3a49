// dwconv.c — lets XNNPACK's depthwise convolutions run kernels of our own: see dwconv.h.
// Reads XNNPACK's inner structs, as gemm_override.c and rowwise.c do.
#include "backends/xnnpack/tuned/dwconv.h"

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
dwconv xnn_f32_dwconv_minmax_ukernel_9p16c__fma3;
dwconv xnn_f32_dwconv_minmax_ukernel_25p8c__fma3;

// ---- int8

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

// Which of XNNPACK's own it would run is the same question for all four.
bool eti_xnn_has_own_qs8_depthwise(void) {
  const struct xnn_dwconv_config *const config = xnn_init_qs8_qc8w_dwconv_config();
  bool is_theirs = false;
  for (size_t i = 0; config != NULL && i < XNN_MAX_QC8_DWCONV_UKERNELS; i++)
    is_theirs |= config[i].minmax.unipass == replacements[0].theirs;
  return is_theirs;
}

// ---- f32

typedef struct f32_replacement {
  const char *name;
  uint32_t side;             // of the window
  uint32_t greatest_stride;  // in width
  dwconv *theirs, *ours;
} f32_replacement;

static const f32_replacement f32_replacements[] = {
    {"f32_dwconv_9p16c", 3, 1, xnn_f32_dwconv_minmax_ukernel_9p16c__fma3,
     eti_xnn_f32_depthwise_9__avx2},
    {"f32_dwconv_25p8c", 5, 2, xnn_f32_dwconv_minmax_ukernel_25p8c__fma3,
     eti_xnn_f32_depthwise_25__avx2},
};
enum { N_F32_REPLACEMENTS = sizeof f32_replacements / sizeof f32_replacements[0] };

static bool would_run(const f32_replacement *r) {
  const struct xnn_dwconv_config *const config = xnn_init_f32_dwconv_config();
  bool is_theirs = false;
  for (size_t i = 0; config != NULL && i < XNN_MAX_F32_DWCONV_UKERNELS; i++)
    is_theirs |= config[i].minmax.unipass == r->theirs;
  return is_theirs && __builtin_cpu_supports("avx2");
}

static const f32_replacement *f32_replacement_of(const struct xnn_operator *op) {
  if (op->type != xnn_operator_type_convolution_nhwc_f32 ||
      op->ukernel.type != xnn_microkernel_type_dwconv || op->ukernel.dwconv.last_tile != 0)
    return NULL;
  if (op->dilation_width > 1) return NULL;
  for (size_t i = 0; i < N_F32_REPLACEMENTS; i++) {
    const f32_replacement *const r = &f32_replacements[i];
    if (op->ukernel.dwconv.unipass_fn == r->theirs && op->kernel_width == r->side &&
        op->kernel_height == r->side && op->stride_width <= r->greatest_stride && would_run(r))
      return r;
  }
  return NULL;
}

// ---- All

void eti_xnn_use_own_depthwise(xnn_runtime_t runtime) {
  _Static_assert(sizeof(eti_xnn_qs8_limits) ==
                     sizeof(((union xnn_qs8_qc8w_conv_minmax_params *)NULL)->fp32_scalar),
                 "the kernels get XNNPACK's parameters");
  for (size_t i = 0; i < runtime->num_ops; i++) {
    for (size_t k = 0; k < XNN_MAX_OPERATOR_OBJECTS; k++) {
      struct xnn_operator *const op = runtime->opdata[i].operator_objects[k];
      if (op == NULL) continue;
      const replacement *const r = replacement_of(op);
      if (r != NULL) use(r, op);
      const f32_replacement *const f = f32_replacement_of(op);
      if (f != NULL) op->ukernel.dwconv.unipass_fn = f->ours;
    }
  }
}

size_t eti_xnn_own_depthwise(const char **names, size_t n) {
  size_t n_found = 0;
  if (eti_xnn_has_own_qs8_depthwise()) {
    for (; n_found < N_REPLACEMENTS; n_found++)
      if (n_found < n) names[n_found] = replacements[n_found].name;
  }
  for (size_t i = 0; i < N_F32_REPLACEMENTS; i++) {
    if (!would_run(&f32_replacements[i])) continue;
    if (n_found < n) names[n_found] = f32_replacements[i].name;
    n_found++;
  }
  return n_found;
}

#else
bool eti_xnn_has_own_qs8_depthwise(void) {
  return false;
}

size_t eti_xnn_own_depthwise(const char **names, size_t n) {
  (void)names;
  (void)n;
  return 0;
}

void eti_xnn_use_own_depthwise(xnn_runtime_t runtime) {
  (void)runtime;
}
#endif
