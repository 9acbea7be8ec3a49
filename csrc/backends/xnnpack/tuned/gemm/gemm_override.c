// gemm_override.c — replaces gemm, igemm and packing functions in XNNPACK's tables by tuned ones.
// gemm_kernels.h lists the replacements.
//
// XNNPACK fills a table when an operator first reads it, and returns a pointer to const. The object
// itself is not const (a static struct of src/configs/), so writing to it is defined. It is written
// once, before any operator is created: eti_xnn_gemm_install runs under pthread_once at the start
// of every call that leads to XNNPACK, which orders the writes before all reads.
#include "backends/xnnpack/tuned/gemm/gemm_override.h"

#include <pthread.h>

#include "backends/xnnpack/tuned/gemm/gemm_kernels.h"
#include "kernels/micro/isa_select.h"
#include "runtime/check.h"

enum { COLS = ETI_XNN_GEMM_COLS };

const eti_xnn_gemm_table eti_xnn_gemm_tables[ETI_XNN_TABLES] = {
    [ETI_XNN_F32_TABLE] = {.gemm_name = "f32_gemm_5x16",
                           .igemm_name = "f32_igemm_5x16",
                           .is_f32 = true,
                           .find = xnn_init_f32_gemm_config,
                           .original_layout = {5, COLS, 0},
                           .layout = {ETI_XNN_GEMM_ROWS, COLS, 0},
                           .original_gemm =
                               (eti_xnn_fn)xnn_f32_gemm_minmax_ukernel_5x16__fma3_broadcast,
                           .original_igemm =
                               (eti_xnn_fn)xnn_f32_igemm_minmax_ukernel_5x16__fma3_broadcast_prfm,
                           .gemm = (eti_xnn_fn)eti_xnn_f32_gemm_6x16__avx2,
                           .igemm = (eti_xnn_fn)eti_xnn_f32_igemm_6x16__avx2,
                           .gemm_1_row = (eti_xnn_fn)eti_xnn_f32_gemm_6x16__avx2,
                           .igemm_1_row = (eti_xnn_fn)eti_xnn_f32_igemm_1x16__avx2,
                           .gemm_add = (eti_xnn_fn)eti_xnn_f32_gemm_add_6x16__avx2,
                           .igemm_add = (eti_xnn_fn)eti_xnn_f32_igemm_add_6x16__avx2,
                           .igemm_add_1_row = (eti_xnn_fn)eti_xnn_f32_igemm_add_1x16__avx2,
                           .pack_name = "f32_conv_goki_w",
                           .pack_goki = eti_xnn_f32_pack_goki__avx2},
    [ETI_XNN_F32_AVX512_TABLE] =
        {.gemm_name = "f32_gemm_7x32",
         .igemm_name = "f32_igemm_7x32",
         .is_f32 = true,
         .find = xnn_init_f32_gemm_config,
         .original_layout = {7, ETI_XNN_AVX512_COLS, 0},
         .layout = {ETI_XNN_AVX512_ROWS, ETI_XNN_AVX512_COLS, 0},
         .original_gemm = (eti_xnn_fn)xnn_f32_gemm_minmax_ukernel_7x32__avx512f_broadcast,
         .original_igemm = (eti_xnn_fn)xnn_f32_igemm_minmax_ukernel_7x32__avx512f_broadcast,
         .gemm = (eti_xnn_fn)eti_xnn_f32_gemm_8x32__avx512,
         .igemm = (eti_xnn_fn)eti_xnn_f32_igemm_8x32__avx512,
         .gemm_1_row = (eti_xnn_fn)eti_xnn_f32_gemm_8x32__avx512,
         .igemm_1_row = (eti_xnn_fn)eti_xnn_f32_igemm_1x32__avx512,
         .gemm_add = (eti_xnn_fn)eti_xnn_f32_gemm_add_8x32__avx512,
         .igemm_add = (eti_xnn_fn)eti_xnn_f32_igemm_add_8x32__avx512,
         .igemm_add_1_row = (eti_xnn_fn)eti_xnn_f32_igemm_add_1x32__avx512,
         .pack_name = "f32_conv_goki_w",
         .pack_goki = eti_xnn_f32_pack_goki__avx2},
    [ETI_XNN_QS8_TABLE] = {.gemm_name = "qs8_qc8w_gemm_3x8c8",
                           .igemm_name = "qs8_qc8w_igemm_3x8c8",
                           .is_scheduled = true,
                           .find = xnn_init_qs8_qc8w_gemm_config,
                           .original_layout = {3, 8, 3},
                           .layout = {ETI_XNN_GEMM_ROWS, COLS, 2},
                           .original_gemm =
                               (eti_xnn_fn)xnn_qs8_qc8w_gemm_minmax_fp32_ukernel_3x8c8__avx2,
                           .original_igemm =
                               (eti_xnn_fn)xnn_qs8_qc8w_igemm_minmax_fp32_ukernel_3x8c8__avx2,
                           .gemm = (eti_xnn_fn)eti_xnn_qs8_gemm_6x16__avx2,
                           .igemm = (eti_xnn_fn)eti_xnn_qs8_igemm_6x16__avx2,
                           .gemm_1_row = (eti_xnn_fn)eti_xnn_qs8_gemm_6x16__avx2,
                           .igemm_1_row = (eti_xnn_fn)eti_xnn_qs8_igemm_1x16__avx2,
                           .pack_name = "qs8_gemm_goi_w",
                           .pack_goi = eti_xnn_q8_pack_goi__avx2,
                           .pack_goki = eti_xnn_q8_pack_goki__avx2},
    [ETI_XNN_QD8_TABLE] = {.gemm_name = "qd8_f32_qc8w_gemm_4x8c8",
                           .igemm_name = "qd8_f32_qc8w_igemm_4x8c8",
                           .is_scheduled = true,
                           .find = xnn_init_qd8_f32_qc8w_gemm_config,
                           .original_layout = {4, 8, 3},
                           .layout = {ETI_XNN_GEMM_ROWS, COLS, 2},
                           .original_gemm =
                               (eti_xnn_fn)xnn_qd8_f32_qc8w_gemm_minmax_ukernel_4x8c8__avx2,
                           .original_igemm =
                               (eti_xnn_fn)xnn_qd8_f32_qc8w_igemm_minmax_ukernel_4x8c8__avx2,
                           .gemm = (eti_xnn_fn)eti_xnn_qd8_gemm_6x16__avx2,
                           .igemm = (eti_xnn_fn)eti_xnn_qd8_igemm_6x16__avx2,
                           .gemm_1_row = (eti_xnn_fn)eti_xnn_qd8_gemm_6x16__avx2,
                           .igemm_1_row = (eti_xnn_fn)eti_xnn_qd8_igemm_1x16__avx2,
                           .pack_goi = eti_xnn_q8_pack_goi__avx2,
                           .pack_goki = eti_xnn_q8_pack_goki__avx2},
    [ETI_XNN_QB4_TABLE] = {.gemm_name = "qd8_f32_qb4w_gemm_3x8c8",
                           .find = xnn_init_qd8_f32_qb4w_gemm_config,
                           .original_layout = {3, 8, 3},
                           .layout = {ETI_XNN_GEMM_ROWS, COLS, 3},
                           .original_gemm =
                               (eti_xnn_fn)xnn_qd8_f32_qb4w_gemm_minmax_ukernel_3x8c8__avx2,
                           .gemm = (eti_xnn_fn)eti_xnn_qb4_gemm_6x16__avx2,
                           .gemm_1_row = (eti_xnn_fn)eti_xnn_qb4_gemm_6x16__avx2,
                           .pack_goi_blockwise = eti_xnn_qb4_pack_goi__avx2},
    [ETI_XNN_QS8_AMX_TABLE] =
        {.gemm_name = "qs8_qc8w_gemm_7x16c8",
         .igemm_name = "qs8_qc8w_igemm_7x16c8",
         .is_amx = true,
         .find = xnn_init_qs8_qc8w_gemm_config,
         .original_layout = {7, COLS, 3},
         .layout = {ETI_XNN_AMX_ROWS, COLS, 2},
         .original_gemm = (eti_xnn_fn)xnn_qs8_qc8w_gemm_minmax_fp32_ukernel_7x16c8__avx512vnni_prfm,
         .original_igemm =
             (eti_xnn_fn)xnn_qs8_qc8w_igemm_minmax_fp32_ukernel_7x16c8__avx512vnni_prfm,
         .gemm = (eti_xnn_fn)eti_xnn_qs8_gemm_16x16__amx,
         .igemm = (eti_xnn_fn)eti_xnn_qs8_igemm_16x16__amx,
         .gemm_1_row = (eti_xnn_fn)eti_xnn_qs8_gemm_16x16__amx,
         .igemm_1_row = (eti_xnn_fn)eti_xnn_qs8_igemm_1x16__amx,
         .pack_name = "qs8_gemm_goi_w",
         .pack_goi = eti_xnn_q8_pack_goi__avx2,
         .pack_goki = eti_xnn_q8_pack_goki__avx2,
         .packs_signed = true},
    [ETI_XNN_QD8_AMX_TABLE] =
        {.gemm_name = "qd8_f32_qc8w_gemm_10x16c8",
         .igemm_name = "qd8_f32_qc8w_igemm_10x16c8",
         .is_amx = true,
         .find = xnn_init_qd8_f32_qc8w_gemm_config,
         .original_layout = {10, COLS, 3},
         .layout = {ETI_XNN_AMX_ROWS, COLS, 2},
         .original_gemm = (eti_xnn_fn)xnn_qd8_f32_qc8w_gemm_minmax_ukernel_10x16c8__avx512vnni_prfm,
         .original_igemm =
             (eti_xnn_fn)xnn_qd8_f32_qc8w_igemm_minmax_ukernel_10x16c8__avx512vnni_prfm,
         .gemm = (eti_xnn_fn)eti_xnn_qd8_gemm_16x16__amx,
         .igemm = (eti_xnn_fn)eti_xnn_qd8_igemm_16x16__amx,
         .gemm_1_row = (eti_xnn_fn)eti_xnn_qd8_gemm_16x16__amx,
         .igemm_1_row = (eti_xnn_fn)eti_xnn_qd8_igemm_1x16__amx,
         .pack_goi = eti_xnn_q8_pack_goi__avx2,
         .pack_goki = eti_xnn_q8_pack_goki__avx2},
};

// ---- Reading a table

static eti_xnn_fn gemm_of(const struct xnn_gemm_config *config, size_t n_rows) {
  return (eti_xnn_fn)config->minmax.gemm[n_rows - 1].function[XNN_UARCH_DEFAULT];
}

static eti_xnn_fn igemm_of(const struct xnn_gemm_config *config, size_t n_rows) {
  return (eti_xnn_fn)config->minmax.igemm[n_rows - 1].function[XNN_UARCH_DEFAULT];
}

static bool holds_original(const struct xnn_gemm_config *config, const eti_xnn_gemm_table *t) {
  const eti_xnn_gemm_layout *const l = &t->original_layout;
  return config->mr == l->mr && config->nr == l->nr && config->log2_kr == l->log2_kr &&
         config->log2_sr == 0 && gemm_of(config, l->mr) == t->original_gemm &&
         igemm_of(config, l->mr) == t->original_igemm;
}

// A compiler of 2023 or later gives XNNPACK kernels for AMX too, which have a layout of their own:
// 16 rows, and 64 columns by quads.
static bool holds_amx(const struct xnn_gemm_config *config) {
  return config->mr == ETI_XNN_AMX_ROWS && config->nr == 4 * COLS && config->log2_kr == 2 &&
         config->log2_sr == 0;
}

static bool is_replaced(const struct xnn_gemm_config *config, const eti_xnn_gemm_table *t) {
  return t->is_amx
             ? eti_cpu_dot() == ETI_DOT_AMX && (holds_original(config, t) || holds_amx(config))
             : holds_original(config, t);
}

static bool holds_tuned(const eti_xnn_gemm_table *t) {
  const struct xnn_gemm_config *const config = t->find();
  return config != NULL && config->mr == t->layout.mr && gemm_of(config, t->layout.mr) == t->gemm;
}

static bool moves_tuned(void) {
  const struct xnn_transpose_config *const config = xnn_init_transpose_config();
  return config != NULL && config->xx.variable_size_ukernel == eti_xnn_xx_transpose__avx2;
}

// ---- Writing

static void set_kernels(struct xnn_gemm_config *config, size_t n_rows, eti_xnn_fn gemm,
                        eti_xnn_fn igemm) {
  for (size_t u = 0; u < XNN_MAX_UARCH_TYPES; u++) {
    config->minmax.gemm[n_rows - 1].function[u] = (xnn_gemm_ukernel_fn)gemm;
    config->minmax.igemm[n_rows - 1].function[u] = (xnn_igemm_ukernel_fn)igemm;
  }
}

static void override_table(const eti_xnn_gemm_table *t) {
  struct xnn_gemm_config *const config = (struct xnn_gemm_config *)(uintptr_t)t->find();
  if (config == NULL || !is_replaced(config, t)) return;
  set_kernels(config, config->mr, NULL, NULL);
  set_kernels(config, t->layout.mr, t->gemm, t->igemm);
  if (t->gemm_1_row != NULL) set_kernels(config, 1, t->gemm_1_row, t->igemm_1_row);
  if (t->pack_goki != NULL) config->pack_igemm_goki = t->pack_goki;
  if (t->pack_goi != NULL) {
    config->pack_gemm_goi = t->pack_goi;
    config->pack_weights_and_biases = NULL;  // with it XNNPACK would not call pack_gemm_goi
    config->packed_stride_weights_and_biases = NULL;
  }
  if (t->pack_goi_blockwise != NULL) config->pack_gemm_goi_bl = t->pack_goi_blockwise;
  if (t->packs_signed) {
    config->pack_gemm_gio = (xnn_packw_gemm_gio_ukernel_fn)xnn_pack_qs8_gemm_gio_w;
    config->pack_igemm_kgo = (xnn_pack_conv_kgo_w_fn)xnn_pack_qs8_conv_kgo_w;
    config->pack_deconv_goki = (xnn_pack_deconv_goki_w_fn)xnn_pack_qs8_deconv_goki_w;
  }
  config->mr = t->layout.mr;
  config->nr = t->layout.nr;
  config->log2_kr = t->layout.log2_kr;
  ET_ASSERT(holds_tuned(t));
}

// If the f32 table has other kernels than expected for AVX2, so have the tables of int8.
static void override_all(void) {
  for (size_t i = 0; i < ETI_XNN_TABLES; i++) {
    const eti_xnn_gemm_table *const t = &eti_xnn_gemm_tables[i];
    if (t->is_amx || t->is_f32 || holds_tuned(&eti_xnn_gemm_tables[ETI_XNN_F32_TABLE]))
      override_table(t);
  }
  if (!holds_tuned(&eti_xnn_gemm_tables[ETI_XNN_F32_TABLE])) return;
  struct xnn_transpose_config *const config =
      (struct xnn_transpose_config *)(uintptr_t)xnn_init_transpose_config();
  if (config != NULL &&
      config->xx.variable_size_ukernel == xnn_xx_transposev_ukernel__1x1_scalar_memcpy)
    config->xx.variable_size_ukernel = eti_xnn_xx_transpose__avx2;
}

void eti_xnn_gemm_install(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, override_all);
}

// ---- Names of replaced functions

const eti_xnn_gemm_table *eti_xnn_f32_gemm_table(void) {
  eti_xnn_gemm_install();
  for (size_t i = 0; i < ETI_XNN_TABLES; i++) {
    const eti_xnn_gemm_table *const t = &eti_xnn_gemm_tables[i];
    if (t->is_f32 && holds_tuned(t)) return t;
  }
  return NULL;
}

bool eti_xnn_has_qs8_gemm_amx(void) {
  eti_xnn_gemm_install();
  return holds_tuned(&eti_xnn_gemm_tables[ETI_XNN_QS8_AMX_TABLE]);
}

static void add_name(const char *name, const char **names, size_t n, size_t *count) {
  if (name == NULL) return;
  if (*count < n) names[*count] = name;
  ++*count;
}

size_t eti_xnn_gemm_names(const char **names, size_t n) {
  size_t count = 0;
  eti_xnn_gemm_install();
  for (size_t i = 0; i < ETI_XNN_TABLES; i++) {
    const eti_xnn_gemm_table *const t = &eti_xnn_gemm_tables[i];
    if (!holds_tuned(t)) continue;
    add_name(t->gemm_name, names, n, &count);
    add_name(t->igemm_name, names, n, &count);
    add_name(t->pack_name, names, n, &count);
  }
  if (moves_tuned()) add_name("xx_transposev", names, n, &count);
  return count;
}
