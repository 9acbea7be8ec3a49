// dwconv.c — replaces the kernels of XNNPACK's depthwise convolutions by those of dwconv.h.
#include "backends/xnnpack/tuned/dwconv/dwconv.h"

#include "backends/xnnpack/tuned/xnn_private.h"

// ---- int8

typedef struct qs8_replacement {
  const char *name;
  size_t n_taps;
  bool has_channel_scales;
  eti_xnn_dwconv_fn *original, *tuned;
} qs8_replacement;

static const qs8_replacement qs8_replacements[] = {
    {"qs8_qc8w_dwconv_9p16c", 9, true, xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_9p16c__avx2_mul32,
     eti_xnn_qs8_dwconv_9__avx2},
    {"qs8_qc8w_dwconv_25p16c", 25, true, xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_25p16c__avx2_mul32,
     eti_xnn_qs8_dwconv_25__avx2},
    {"qs8_dwconv_9p16c", 9, false, xnn_qs8_dwconv_minmax_fp32_ukernel_9p16c__avx2_mul32,
     eti_xnn_qs8_dwconv_9__avx2},
    {"qs8_dwconv_25p16c", 25, false, xnn_qs8_dwconv_minmax_fp32_ukernel_25p16c__avx2_mul32,
     eti_xnn_qs8_dwconv_25__avx2},
};
enum { N_QS8 = sizeof qs8_replacements / sizeof qs8_replacements[0] };

// The kernel for an operator without a weights cache: XNNPACK's subgraph creates them so.
static const qs8_replacement *find_qs8(const struct xnn_operator *op) {
  const bool is_int8 = op->type == xnn_operator_type_convolution_nhwc_qc8 ||
                       op->type == xnn_operator_type_convolution_nhwc_qs8;
  if (!is_int8 || op->ukernel.type != xnn_microkernel_type_dwconv) return NULL;
  if (op->weights_cache != NULL || op->ukernel.dwconv.last_tile != 0) return NULL;
  for (size_t i = 0; i < N_QS8; i++)
    if (op->ukernel.dwconv.unipass_fn == qs8_replacements[i].original) return &qs8_replacements[i];
  return NULL;
}

// Without memory for other weights the operator stays as it is.
static void replace_qs8(const qs8_replacement *r, struct xnn_operator *op) {
  void *const packed =
      xnn_allocate_simd_memory(eti_xnn_qs8_dwconv_weight_bytes(r->n_taps, op->groups));
  if (packed == NULL) return;
  void *const original = op->packed_weights.pointer;
  const union xnn_qs8_conv_minmax_params params = op->params.qs8_conv_minmax;
  eti_xnn_qs8_dwconv_pack(r->n_taps, op->groups, original,
                          r->has_channel_scales ? NULL : &params.fp32_scalar.scale, packed);
  if (!r->has_channel_scales) {
    op->params.qs8_qc8w_conv_minmax.fp32_scalar.output_zero_point =
        params.fp32_scalar.output_zero_point;
    op->params.qs8_qc8w_conv_minmax.fp32_scalar.output_min = params.fp32_scalar.output_min;
    op->params.qs8_qc8w_conv_minmax.fp32_scalar.output_max = params.fp32_scalar.output_max;
  }
  op->packed_weights.pointer = packed;
  op->ukernel.dwconv.unipass_fn = r->tuned;
  xnn_release_simd_memory(original);
}

// XNNPACK chooses all four by the same condition.
bool eti_xnn_has_qs8_dwconv(void) {
  const struct xnn_dwconv_config *const config = xnn_init_qs8_qc8w_dwconv_config();
  bool is_original = false;
  for (size_t i = 0; config != NULL && i < XNN_MAX_QC8_DWCONV_UKERNELS; i++)
    is_original |= config[i].minmax.unipass == qs8_replacements[0].original;
  return is_original;
}

// ---- f32

typedef struct f32_replacement {
  const char *name;
  uint32_t side;        // of the window
  uint32_t max_stride;  // in width
  eti_xnn_dwconv_fn *original, *tuned;
} f32_replacement;

static const f32_replacement f32_replacements[] = {
    {"f32_dwconv_9p16c", 3, 1, xnn_f32_dwconv_minmax_ukernel_9p16c__fma3,
     eti_xnn_f32_dwconv_9__avx2},
    {"f32_dwconv_25p8c", 5, 2, xnn_f32_dwconv_minmax_ukernel_25p8c__fma3,
     eti_xnn_f32_dwconv_25__avx2},
};
enum { N_F32 = sizeof f32_replacements / sizeof f32_replacements[0] };

static bool is_f32_original_chosen(const f32_replacement *r) {
  const struct xnn_dwconv_config *const config = xnn_init_f32_dwconv_config();
  bool is_chosen = false;
  for (size_t i = 0; config != NULL && i < XNN_MAX_F32_DWCONV_UKERNELS; i++)
    is_chosen |= config[i].minmax.unipass == r->original;
  return is_chosen && __builtin_cpu_supports("avx2");
}

static const f32_replacement *find_f32(const struct xnn_operator *op) {
  if (op->type != xnn_operator_type_convolution_nhwc_f32 ||
      op->ukernel.type != xnn_microkernel_type_dwconv || op->ukernel.dwconv.last_tile != 0)
    return NULL;
  if (op->dilation_width > 1) return NULL;
  for (size_t i = 0; i < N_F32; i++) {
    const f32_replacement *const r = &f32_replacements[i];
    if (op->ukernel.dwconv.unipass_fn == r->original && op->kernel_width == r->side &&
        op->kernel_height == r->side && op->stride_width <= r->max_stride &&
        is_f32_original_chosen(r))
      return r;
  }
  return NULL;
}

// ---- Both

void eti_xnn_dwconv_after_make(xnn_runtime_t runtime) {
  _Static_assert(sizeof(eti_xnn_qs8_limits) ==
                     sizeof(((union xnn_qs8_qc8w_conv_minmax_params *)NULL)->fp32_scalar),
                 "the kernels read XNNPACK's parameters as eti_xnn_qs8_limits");
  for (size_t i = 0; i < runtime->num_ops; i++) {
    for (size_t k = 0; k < XNN_MAX_OPERATOR_OBJECTS; k++) {
      struct xnn_operator *const op = runtime->opdata[i].operator_objects[k];
      if (op == NULL) continue;
      const qs8_replacement *const qs8 = find_qs8(op);
      if (qs8 != NULL) replace_qs8(qs8, op);
      const f32_replacement *const f32 = find_f32(op);
      if (f32 != NULL) op->ukernel.dwconv.unipass_fn = f32->tuned;
    }
  }
}

size_t eti_xnn_dwconv_names(const char **names, size_t n) {
  size_t n_found = 0;
  if (eti_xnn_has_qs8_dwconv()) {
    for (; n_found < N_QS8; n_found++)
      if (n_found < n) names[n_found] = qs8_replacements[n_found].name;
  }
  for (size_t i = 0; i < N_F32; i++) {
    if (!is_f32_original_chosen(&f32_replacements[i])) continue;
    if (n_found < n) names[n_found] = f32_replacements[i].name;
    n_found++;
  }
  return n_found;
}
