// dwconv.c — replaces the kernels of XNNPACK's depthwise convolutions by those of dwconv.h.
#include "backends/xnnpack/tuned/dwconv/dwconv.h"

#include "backends/xnnpack/tuned/xnn_private.h"
#include "kernels/micro/qgemm/qgemm.h"

// ---- int8

typedef struct qs8_replacement {
  const char *name;
  size_t n_taps;
  size_t dot_tile;  // channels of a block of XNNPACK's, for products of bytes; else 0
  bool has_channel_scales;
  eti_xnn_dwconv_fn *original, *tuned;
} qs8_replacement;

static const qs8_replacement qs8_replacements[] = {
    {"qs8_qc8w_dwconv_9p16c", 9, 0, true, xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_9p16c__avx2_mul32,
     eti_xnn_qs8_dwconv_9__avx2},
    {"qs8_qc8w_dwconv_25p16c", 25, 0, true,
     xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_25p16c__avx2_mul32, eti_xnn_qs8_dwconv_25__avx2},
    {"qs8_dwconv_9p16c", 9, 0, false, xnn_qs8_dwconv_minmax_fp32_ukernel_9p16c__avx2_mul32,
     eti_xnn_qs8_dwconv_9__avx2},
    {"qs8_dwconv_25p16c", 25, 0, false, xnn_qs8_dwconv_minmax_fp32_ukernel_25p16c__avx2_mul32,
     eti_xnn_qs8_dwconv_25__avx2},
    {"qs8_qc8w_dwconv_9p32c", 9, 32, true,
     xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_9p32c__avx512skx_mul32, eti_xnn_qs8_dwconv_9__dot},
    {"qs8_qc8w_dwconv_25p32c", 25, 32, true,
     xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_25p32c__avx512skx_mul32, eti_xnn_qs8_dwconv_25__dot},
    {"qs8_dwconv_9p32c", 9, 32, false, xnn_qs8_dwconv_minmax_fp32_ukernel_9p32c__avx512skx_mul32,
     eti_xnn_qs8_dwconv_9__dot},
    {"qs8_dwconv_25p32c", 25, 32, false, xnn_qs8_dwconv_minmax_fp32_ukernel_25p32c__avx512skx_mul32,
     eti_xnn_qs8_dwconv_25__dot},
};
enum { N_QS8 = sizeof qs8_replacements / sizeof qs8_replacements[0] };

// Whether this processor runs the tuned kernel.
static bool can_run(const qs8_replacement *r) {
  return r->dot_tile == 0 || eti_qgemm_micro_best()->arrange_channels != NULL;
}

// The kernel for an operator without a weights cache: XNNPACK's subgraph creates them so.
static const qs8_replacement *find_qs8(const struct xnn_operator *op) {
  const bool is_int8 = op->type == xnn_operator_type_convolution_nhwc_qc8 ||
                       op->type == xnn_operator_type_convolution_nhwc_qs8;
  if (!is_int8 || op->ukernel.type != xnn_microkernel_type_dwconv) return NULL;
  if (op->weights_cache != NULL || op->ukernel.dwconv.last_tile != 0) return NULL;
  for (size_t i = 0; i < N_QS8; i++)
    if (op->ukernel.dwconv.unipass_fn == qs8_replacements[i].original)
      return can_run(&qs8_replacements[i]) ? &qs8_replacements[i] : NULL;
  return NULL;
}

// Without memory for other weights the operator stays as it is.
static void replace_qs8(const qs8_replacement *r, struct xnn_operator *op) {
  const size_t bytes = r->dot_tile > 0 ? eti_xnn_qs8_dwconv_dot_weight_bytes(r->n_taps, op->groups)
                                       : eti_xnn_qs8_dwconv_weight_bytes(r->n_taps, op->groups);
  void *const packed = xnn_allocate_simd_memory(bytes);
  if (packed == NULL) return;
  void *const original = op->packed_weights.pointer;
  const union xnn_qs8_conv_minmax_params params = op->params.qs8_conv_minmax;
  const float *const scale = r->has_channel_scales ? NULL : &params.fp32_scalar.scale;
  if (r->dot_tile > 0) {
    eti_xnn_qs8_dwconv_dot_pack(r->n_taps, op->groups, r->dot_tile, original, scale, packed);
  } else {
    eti_xnn_qs8_dwconv_pack(r->n_taps, op->groups, original, scale, packed);
  }
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

// The replacement of XNNPACK's first table that this processor runs, or NULL. XNNPACK chooses all
// kernels of one instruction set by the same condition.
static const qs8_replacement *first_qs8(void) {
  const struct xnn_dwconv_config *const config = xnn_init_qs8_qc8w_dwconv_config();
  for (size_t i = 0; config != NULL && i < XNN_MAX_QC8_DWCONV_UKERNELS; i++) {
    for (size_t r = 0; r < N_QS8; r++) {
      const qs8_replacement *const found = &qs8_replacements[r];
      if (config[i].minmax.unipass == found->original && can_run(found)) return found;
    }
  }
  return NULL;
}

bool eti_xnn_has_qs8_dwconv(void) {
  return first_qs8() != NULL;
}

bool eti_xnn_has_qs8_dwconv_avx2(void) {
  const qs8_replacement *const first = first_qs8();
  return first != NULL && first->dot_tile == 0;
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
    {"f32_dwconv_9p16c", 3, 1, xnn_f32_dwconv_minmax_ukernel_9p16c__avx512f,
     eti_xnn_f32_dwconv_9__avx2},
    {"f32_dwconv_25p16c", 5, 2, xnn_f32_dwconv_minmax_ukernel_25p16c__avx512f,
     eti_xnn_f32_dwconv_25p16__avx2},
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
  const qs8_replacement *const first = first_qs8();
  for (size_t i = 0; first != NULL && i < N_QS8; i++) {
    if (qs8_replacements[i].dot_tile != first->dot_tile) continue;
    if (n_found < n) names[n_found] = qs8_replacements[i].name;
    n_found++;
  }
  for (size_t i = 0; i < N_F32; i++) {
    if (!is_f32_original_chosen(&f32_replacements[i])) continue;
    if (n_found < n) names[n_found] = f32_replacements[i].name;
    n_found++;
  }
  return n_found;
}
