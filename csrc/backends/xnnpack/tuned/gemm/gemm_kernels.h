// gemm_kernels.h — gemm and igemm micro-kernels that XNNPACK's operators call, and the functions
// that pack their weights.
//
// XNNPACK chooses a micro-kernel by the processor's instruction sets and by a table for each kind
// of operator. If a table names a kernel of the left column, gemm_override.c replaces it by the
// kernel of the right column. It does so once per process, before any operator is created:
//
//   f32_gemm_minmax 5x16 fma3_broadcast          f32_gemm_6x16    linear layers, 1x1 convolutions
//   f32_igemm_minmax 5x16 fma3_broadcast_prfm    f32_igemm_6x16   other convolutions,
//   pack_f32_conv_goki_w                         f32_pack_goki    and the packing of their weights
//   qs8_qc8w_(i)gemm_minmax_fp32 3x8c8 avx2      qs8_(i)gemm_6x16 int8
//   qd8_f32_qc8w_(i)gemm_minmax 4x8c8 avx2       qd8_(i)gemm_6x16 int8, quantized at run time
//   qd8_f32_qb4w_gemm_minmax 3x8c8 avx2          qb4_gemm_6x16    int8 by groups of 4-bit weights
//   pack_qs8_(gemm|conv)_go(ki|i)_w              q8_pack_go(ki|i) the packing of int8 weights
//   pack_qs8_qb4w_gemm_goi_w                     qb4_pack_goi     the packing of 4-bit weights
//   xx_transposev 1x1_scalar_memcpy              xx_transpose     transposition of whole rows
//
// These are the tables of machines with AVX2 and FMA and without AVX-512. (XNNPACK's f32 kernels
// are slow there, since compilers keep a sum in memory.) On machines with AVX-512 those of f32 are
// replaced: XNNPACK's kernels read all weights again for every 7 rows, which takes longer than the
// products if the weights do not fit the second-level cache.
//
//   f32_(i)gemm_minmax 7x32 avx512f_broadcast    f32_(i)gemm_8x32 as above
//   pack_f32_conv_goki_w                         f32_pack_goki
//
// On machines with AMX that the system lends (isa_select.h) those of int8 are replaced, too;
// XNNPACK has kernels for AMX itself only if its compiler is newer than gcc 12, and those are
// replaced as well:
//
//   qs8_qc8w_(i)gemm_minmax_fp32 7x16c8 vnni      qs8_(i)gemm_16x16 int8
//   qd8_f32_qc8w_(i)gemm_minmax 10x16c8 vnni      qd8_(i)gemm_16x16 int8, quantized at run time
//   pack_qs8_(gemm|conv)_go(ki|i)_w               q8_pack_go(ki|i)
//
// The choice does not depend on sizes or on the load of the machine. f32 results may differ from
// XNNPACK's in rounding; int8 results are the same bits. f32 weights are packed as for XNNPACK's
// kernels, int8 weights with nr = 16 and kr = 4; 4-bit weights have their own layout, which is
// declared as nr = 16, kr = 8, because a cache of packed weights distinguishes layouts by these
// numbers.
#ifndef ET_XNNPACK_GEMM_KERNELS_H
#define ET_XNNPACK_GEMM_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <xnnpack.h>

enum { ETI_XNN_GEMM_ROWS = 6, ETI_XNN_GEMM_COLS = 16, ETI_XNN_AMX_ROWS = 16 };
enum { ETI_XNN_AVX512_ROWS = 8, ETI_XNN_AVX512_COLS = 32 };

// XNNPACK's interface of gemm micro-kernels: n_rows x n_cols sums over k_bytes / 4 elements of the
// rows at `a`, a_bytes apart. Rows of c are row_bytes apart, its panels of 16 columns panel_bytes.
// w: packed weights, aligned to 32. limits: two floats, the least and the greatest result. Unlike
// XNNPACK's kernels, these accept any number of rows.
void eti_xnn_f32_gemm_6x16__avx2(size_t n_rows, size_t n_cols, size_t k_bytes, const void *a,
                                 size_t a_bytes, const void *w, void *c, size_t row_bytes,
                                 size_t panel_bytes, const void *limits);

// XNNPACK's interface of igemm micro-kernels, for rows whose taps are not contiguous. The
// indirection buffer has taps_bytes for each 6 rows; its entry [6 s + i] points to tap s of row i.
// offset_bytes are added to pointers other than `zero`. Taps that are `zero` in all rows computed
// together are skipped, even if their weights are infinite or NaN. The indirection buffer of
// igemm_1x16 has taps_bytes for each row, whose entry [s] points to tap s.
void eti_xnn_f32_igemm_6x16__avx2(size_t n_rows, size_t n_cols, size_t k_bytes, size_t taps_bytes,
                                  const void **a, const void *w, void *c, size_t row_bytes,
                                  size_t panel_bytes, size_t offset_bytes, const void *zero,
                                  const void *limits);
void eti_xnn_f32_igemm_1x16__avx2(size_t n_rows, size_t n_cols, size_t k_bytes, size_t taps_bytes,
                                  const void **a, const void *w, void *c, size_t row_bytes,
                                  size_t panel_bytes, size_t offset_bytes, const void *zero,
                                  const void *limits);

// Kernels with a residual, which is added to the sums before they are limited. Its parameters
// replace the two floats.
typedef struct eti_xnn_f32_residual {
  float limits[2];
  ptrdiff_t bytes;  // from c to the residual, which has the layout of c
} eti_xnn_f32_residual;

void eti_xnn_f32_gemm_add_6x16__avx2(size_t n_rows, size_t n_cols, size_t k_bytes, const void *a,
                                     size_t a_bytes, const void *w, void *c, size_t row_bytes,
                                     size_t panel_bytes, const void *residual);
void eti_xnn_f32_igemm_add_6x16__avx2(size_t n_rows, size_t n_cols, size_t k_bytes,
                                      size_t taps_bytes, const void **a, const void *w, void *c,
                                      size_t row_bytes, size_t panel_bytes, size_t offset_bytes,
                                      const void *zero, const void *residual);
void eti_xnn_f32_igemm_add_1x16__avx2(size_t n_rows, size_t n_cols, size_t k_bytes,
                                      size_t taps_bytes, const void **a, const void *w, void *c,
                                      size_t row_bytes, size_t panel_bytes, size_t offset_bytes,
                                      const void *zero, const void *residual);

// The same kernels on 512-bit vectors: panels of 32 columns, and an indirection buffer for each 8
// rows.
void eti_xnn_f32_gemm_8x32__avx512(size_t n_rows, size_t n_cols, size_t k_bytes, const void *a,
                                   size_t a_bytes, const void *w, void *c, size_t row_bytes,
                                   size_t panel_bytes, const void *limits);
void eti_xnn_f32_igemm_8x32__avx512(size_t n_rows, size_t n_cols, size_t k_bytes, size_t taps_bytes,
                                    const void **a, const void *w, void *c, size_t row_bytes,
                                    size_t panel_bytes, size_t offset_bytes, const void *zero,
                                    const void *limits);
void eti_xnn_f32_igemm_1x32__avx512(size_t n_rows, size_t n_cols, size_t k_bytes, size_t taps_bytes,
                                    const void **a, const void *w, void *c, size_t row_bytes,
                                    size_t panel_bytes, size_t offset_bytes, const void *zero,
                                    const void *limits);
void eti_xnn_f32_gemm_add_8x32__avx512(size_t n_rows, size_t n_cols, size_t k_bytes, const void *a,
                                       size_t a_bytes, const void *w, void *c, size_t row_bytes,
                                       size_t panel_bytes, const void *residual);
void eti_xnn_f32_igemm_add_8x32__avx512(size_t n_rows, size_t n_cols, size_t k_bytes,
                                        size_t taps_bytes, const void **a, const void *w, void *c,
                                        size_t row_bytes, size_t panel_bytes, size_t offset_bytes,
                                        const void *zero, const void *residual);
void eti_xnn_f32_igemm_add_1x32__avx512(size_t n_rows, size_t n_cols, size_t k_bytes,
                                        size_t taps_bytes, const void **a, const void *w, void *c,
                                        size_t row_bytes, size_t panel_bytes, size_t offset_bytes,
                                        const void *zero, const void *residual);

// The int8 kernels, by XNNPACK's interfaces. qs8 results are int8: sums times the scales of
// columns. qd8 results are f32: sums times the scales of rows (one for all in igemm) and columns,
// plus biases. Taps that point to `zero` are read from zero_data. limits: an eti_xnn_q8_params of
// gemm_q8_schedule.h.
struct xnn_qd8_quantization_params;
void eti_xnn_qs8_gemm_6x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, const void *a,
                                 size_t a_bytes, const void *w, void *c, size_t row_bytes,
                                 size_t panel_bytes, const void *limits);
void eti_xnn_qs8_igemm_6x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, size_t taps_bytes,
                                  const void **a, const void *w, void *c, size_t row_bytes,
                                  size_t panel_bytes, size_t offset_bytes, const void *zero,
                                  const void *limits);
void eti_xnn_qs8_igemm_1x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, size_t taps_bytes,
                                  const void **a, const void *w, void *c, size_t row_bytes,
                                  size_t panel_bytes, size_t offset_bytes, const void *zero,
                                  const void *limits);
void eti_xnn_qd8_gemm_6x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, const void *a,
                                 size_t a_bytes, const void *w, void *c, size_t row_bytes,
                                 size_t panel_bytes, const void *limits,
                                 const struct xnn_qd8_quantization_params *scales);
void eti_xnn_qd8_igemm_6x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, size_t taps_bytes,
                                  const void **a, const void *w, void *c, size_t row_bytes,
                                  size_t panel_bytes, size_t offset_bytes, const void *zero,
                                  const void *zero_data, const void *limits,
                                  const struct xnn_qd8_quantization_params *scales);
void eti_xnn_qd8_igemm_1x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, size_t taps_bytes,
                                  const void **a, const void *w, void *c, size_t row_bytes,
                                  size_t panel_bytes, size_t offset_bytes, const void *zero,
                                  const void *zero_data, const void *limits,
                                  const struct xnn_qd8_quantization_params *scales);

// The int8 kernels on tiles of AMX, by the same interfaces and with the same packed weights,
// aligned to 64. They read no schedule. The indirection buffer of igemm_16x16 has taps_bytes for
// each 16 rows.
void eti_xnn_qs8_gemm_16x16__amx(size_t n_rows, size_t n_cols, size_t n_k, const void *a,
                                 size_t a_bytes, const void *w, void *c, size_t row_bytes,
                                 size_t panel_bytes, const void *limits);
void eti_xnn_qs8_igemm_16x16__amx(size_t n_rows, size_t n_cols, size_t n_k, size_t taps_bytes,
                                  const void **a, const void *w, void *c, size_t row_bytes,
                                  size_t panel_bytes, size_t offset_bytes, const void *zero,
                                  const void *limits);
void eti_xnn_qs8_igemm_1x16__amx(size_t n_rows, size_t n_cols, size_t n_k, size_t taps_bytes,
                                 const void **a, const void *w, void *c, size_t row_bytes,
                                 size_t panel_bytes, size_t offset_bytes, const void *zero,
                                 const void *limits);
void eti_xnn_qd8_gemm_16x16__amx(size_t n_rows, size_t n_cols, size_t n_k, const void *a,
                                 size_t a_bytes, const void *w, void *c, size_t row_bytes,
                                 size_t panel_bytes, const void *limits,
                                 const struct xnn_qd8_quantization_params *scales);
void eti_xnn_qd8_igemm_16x16__amx(size_t n_rows, size_t n_cols, size_t n_k, size_t taps_bytes,
                                  const void **a, const void *w, void *c, size_t row_bytes,
                                  size_t panel_bytes, size_t offset_bytes, const void *zero,
                                  const void *zero_data, const void *limits,
                                  const struct xnn_qd8_quantization_params *scales);
void eti_xnn_qd8_igemm_1x16__amx(size_t n_rows, size_t n_cols, size_t n_k, size_t taps_bytes,
                                 const void **a, const void *w, void *c, size_t row_bytes,
                                 size_t panel_bytes, size_t offset_bytes, const void *zero,
                                 const void *zero_data, const void *limits,
                                 const struct xnn_qd8_quantization_params *scales);

// The qd8 kernels for 4-bit weights with a scale per group of k. n_k is a multiple of the group.
void eti_xnn_qb4_gemm_6x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, const void *a,
                                 size_t a_bytes, const void *w, void *c, size_t row_bytes,
                                 size_t panel_bytes, const void *limits,
                                 const struct xnn_qd8_quantization_params *scales);

// Packs f32 weights [group][column][tap][k] of a convolution, by XNNPACK's interface: nr is 16 or
// 32, kr and sr are 1. Memory of columns past the last one is not written, nor that of biases
// without `bias`.
void eti_xnn_f32_pack_goki__avx2(size_t n_groups, size_t n_cols, size_t n_taps, size_t n_k,
                                 size_t nr, size_t kr, size_t sr, const void *weights,
                                 const void *bias, const void *scale, void *packed,
                                 size_t extra_bytes, const void *params);

// Packing of int8 weights, with nr 16 and kr 4. Biases are int32; the contribution of the input's
// zero point (in XNNPACK's packing `params`) to a column's sum is subtracted. goi has one tap.
void eti_xnn_q8_pack_goki__avx2(size_t n_groups, size_t n_cols, size_t n_taps, size_t n_k,
                                size_t nr, size_t kr, size_t sr, const void *weights,
                                const void *bias, const void *scale, void *packed,
                                size_t extra_bytes, const void *params);
void eti_xnn_q8_pack_goi__avx2(size_t n_groups, size_t n_cols, size_t n_k, size_t nr, size_t kr,
                               size_t sr, const void *weights, const void *bias, const void *scale,
                               void *packed, size_t extra_bytes, const void *params);

// Packing of 4-bit weights with a scale per group, with nr 16 and kr 8. Their zero point is 8.
// The caller writes scales and biases into the packed weights.
void eti_xnn_qb4_pack_goi__avx2(size_t n_groups, size_t n_cols, size_t n_k, size_t nr, size_t kr,
                                size_t sr, size_t group, const void *weights, const void *bias,
                                const void *scales, void *packed, size_t extra_group_bytes,
                                size_t extra_bytes, const void *params);

// Transposes width x height elements by XNNPACK's interface: element (i, j) is moved from
// i * from_element_bytes + j * from_row_bytes to i * to_row_bytes + j * to_element_bytes.
void eti_xnn_xx_transpose__avx2(const void *from, void *to, size_t from_row_bytes,
                                size_t to_row_bytes, size_t from_element_bytes,
                                size_t to_element_bytes, size_t element_bytes, size_t width,
                                size_t height);

#endif  // ET_XNNPACK_GEMM_KERNELS_H
