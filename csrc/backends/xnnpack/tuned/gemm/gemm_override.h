// gemm_override.h — XNNPACK's gemm tables, whose kernels gemm_override.c replaces. gemm_tiling.c
// reads them to recognize operators by their kernel.
#ifndef ET_XNNPACK_GEMM_OVERRIDE_H
#define ET_XNNPACK_GEMM_OVERRIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/xnnpack/tuned/xnn_private.h"

typedef void (*eti_xnn_fn)(void);  // of any type: the tables' unions have several

// The greatest number of rows of a kernel, and how weights are packed for it.
typedef struct eti_xnn_gemm_layout {
  uint8_t mr, nr, log2_kr;
} eti_xnn_gemm_layout;

// A table of gemm kernels: the original kernels that it must have, and their replacements.
typedef struct eti_xnn_gemm_table {
  const char *gemm_name, *igemm_name, *pack_name;  // of replaced functions; NULL: none
  bool is_scheduled;                               // kernels read an eti_xnn_q8_params
  bool is_amx;                                     // kernels run on tiles of AMX
  bool is_f32;                                     // of f32, with the kernels for a residual
  const struct xnn_gemm_config *(*find)(void);
  eti_xnn_gemm_layout original_layout, layout;
  eti_xnn_fn original_gemm, original_igemm;  // of original_layout.mr rows
  eti_xnn_fn gemm, igemm;                    // of layout.mr rows
  eti_xnn_fn gemm_1_row, igemm_1_row;        // NULL: XNNPACK's can read this layout
  eti_xnn_fn gemm_add, igemm_add;            // with a residual; NULL: none
  eti_xnn_fn igemm_add_1_row;
  xnn_packw_gemm_goi_ukernel_fn pack_goi;  // NULL: XNNPACK's, as the next two
  xnn_pack_conv_goki_w_fn pack_goki;
  bool packs_signed;  // XNNPACK's other functions have to pack for signed rows of int8
  xnn_packw_gemm_goi_bl_ukernel_fn pack_goi_blockwise;
} eti_xnn_gemm_table;

// Tables of one type are alternatives: at most one of them has its originals.
enum {
  ETI_XNN_F32_TABLE,
  ETI_XNN_F32_AVX512_TABLE,
  ETI_XNN_QS8_TABLE,
  ETI_XNN_QD8_TABLE,
  ETI_XNN_QB4_TABLE,
  ETI_XNN_QS8_AMX_TABLE,
  ETI_XNN_QD8_AMX_TABLE,
  ETI_XNN_TABLES,
};
extern const eti_xnn_gemm_table eti_xnn_gemm_tables[ETI_XNN_TABLES];

// eti_xnn_gemm_install replaces the kernels in the tables, once. eti_xnn_f32_gemm_table: the f32
// that has the tuned ones, or NULL; eti_xnn_has_qs8_gemm_amx: whether that of int8 has those of
// AMX.
void eti_xnn_gemm_install(void);
const eti_xnn_gemm_table *eti_xnn_f32_gemm_table(void);
bool eti_xnn_has_qs8_gemm_amx(void);

// Names of the functions that are replaced, as eti_xnn_tuned_names.
size_t eti_xnn_gemm_names(const char **names, size_t n);

#endif  // ET_XNNPACK_GEMM_OVERRIDE_H
