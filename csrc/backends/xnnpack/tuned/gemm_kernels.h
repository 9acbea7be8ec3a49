// gemm_kernels.h — kernels of our own inside XNNPACK's operators, and the rules for when they run.
//
// XNNPACK chooses a micro-kernel by the processor's instruction sets and by a table for each kind
// of operator. Where a table names one of the left column, gemm_override.c puts ours in its place,
// once in the process, before any operator is made:
//
//   f32_gemm_minmax 5x16 fma3_broadcast          f32_gemm_6x16    products, 1x1 convolutions
//   f32_igemm_minmax 5x16 fma3_broadcast_prfm    f32_igemm_6x16   other convolutions,
//   pack_f32_conv_goki_w                         f32_pack_goki    which have their weights packed
//   qs8_qc8w_(i)gemm_minmax_fp32 3x8c8 avx2      qs8_(i)gemm_6x16 products of int8
//   qd8_f32_qc8w_(i)gemm_minmax 4x8c8 avx2       qd8_(i)gemm_6x16 the same, scales of run time
//   qd8_f32_qb4w_gemm_minmax 3x8c8 avx2          qb4_gemm_6x16    the same, groups of 4 bits
//   pack_qs8_(gemm|conv)_go(ki|i)_w              q8_pack_go(ki|i) which have their weights packed
//   pack_qs8_qb4w_gemm_goi_w                     qb4_pack_goi     the same, groups of 4 bits
//   xx_transposev 1x1_scalar_memcpy              xx_transpose     transpositions of whole lines
//
// (machines with AVX2 and FMA, without AVX-512: compilers keep a sum of XNNPACK's in memory.)
// Nothing else is asked: not the sizes, not the load of the machine. Results of f32 may differ from
// those of XNNPACK's in rounding, those of int8 are the same bits. Weights are packed the same way,
// those of int8 with nr = 16 and kr = 4; those of 4 bits in an order of our own, as nr = 16 and
// kr = 8, by which a cache of packed weights tells it from others.
#ifndef ET_XNNPACK_KERNELS_H
#define ET_XNNPACK_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <xnnpack.h>

enum { ETI_XNN_GEMM_ROWS = 6, ETI_XNN_GEMM_COLS = 16 };

// XNNPACK's interface for products: n_rows x n_cols sums over k_bytes / 4 elements of the rows at
// `a`, a_bytes apart. Rows of c are row_bytes apart, its panels of 16 columns panel_bytes. `limits`
// are two floats, the least and the greatest result. There may be any number of rows.
void eti_xnn_f32_gemm_6x16__avx2(size_t n_rows, size_t n_cols, size_t k_bytes, const void *a,
                                 size_t a_bytes, const void *w, void *c, size_t row_bytes,
                                 size_t panel_bytes, const void *limits);

// The same for rows in pieces: for each 6 rows, pieces_bytes of pointers, of which [6 s + i] points
// to piece s of row i, before offset_bytes are added unless it is `zero`. Pieces that are `zero`
// for all rows computed together are left out, weights that are no numbers as well.
void eti_xnn_f32_igemm_6x16__avx2(size_t n_rows, size_t n_cols, size_t k_bytes, size_t pieces_bytes,
                                  const void **a, const void *w, void *c, size_t row_bytes,
                                  size_t panel_bytes, size_t offset_bytes, const void *zero,
                                  const void *limits);

// The same, each with elements of a residual added to the sums before these are limited: what they
// get in place of two floats. Of a row in pieces that stands alone, [s] points to piece s.
typedef struct eti_xnn_f32_residual {
  float limits[2];
  ptrdiff_t bytes;  // from c to the residual, which lies as c does
} eti_xnn_f32_residual;

void eti_xnn_f32_gemm_add_6x16__avx2(size_t n_rows, size_t n_cols, size_t k_bytes, const void *a,
                                     size_t a_bytes, const void *w, void *c, size_t row_bytes,
                                     size_t panel_bytes, const void *residual);
void eti_xnn_f32_igemm_add_6x16__avx2(size_t n_rows, size_t n_cols, size_t k_bytes,
                                      size_t pieces_bytes, const void **a, const void *w, void *c,
                                      size_t row_bytes, size_t panel_bytes, size_t offset_bytes,
                                      const void *zero, const void *residual);
void eti_xnn_f32_igemm_add_1x16__avx2(size_t n_rows, size_t n_cols, size_t k_bytes,
                                      size_t pieces_bytes, const void **a, const void *w, void *c,
                                      size_t row_bytes, size_t panel_bytes, size_t offset_bytes,
                                      const void *zero, const void *residual);

// The same for int8, by XNNPACK's interfaces: qs8 gives int8 by the scales of columns, qd8 floats
// by those of rows (one for all in igemm), columns, and biases. Pieces that point to `zero` are
// read from `zero_data`. `limits` are an eti_xnn_q8_params of gemm_q8_schedule.h.
struct xnn_qd8_quantization_params;
void eti_xnn_qs8_gemm_6x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, const void *a,
                                 size_t a_bytes, const void *w, void *c, size_t row_bytes,
                                 size_t panel_bytes, const void *limits);
void eti_xnn_qs8_igemm_6x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, size_t pieces_bytes,
                                  const void **a, const void *w, void *c, size_t row_bytes,
                                  size_t panel_bytes, size_t offset_bytes, const void *zero,
                                  const void *limits);
void eti_xnn_qs8_igemm_1x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, size_t pieces_bytes,
                                  const void **a, const void *w, void *c, size_t row_bytes,
                                  size_t panel_bytes, size_t offset_bytes, const void *zero,
                                  const void *limits);
void eti_xnn_qd8_gemm_6x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, const void *a,
                                 size_t a_bytes, const void *w, void *c, size_t row_bytes,
                                 size_t panel_bytes, const void *limits,
                                 const struct xnn_qd8_quantization_params *scales);
void eti_xnn_qd8_igemm_6x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, size_t pieces_bytes,
                                  const void **a, const void *w, void *c, size_t row_bytes,
                                  size_t panel_bytes, size_t offset_bytes, const void *zero,
                                  const void *zero_data, const void *limits,
                                  const struct xnn_qd8_quantization_params *scales);
void eti_xnn_qd8_igemm_1x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, size_t pieces_bytes,
                                  const void **a, const void *w, void *c, size_t row_bytes,
                                  size_t panel_bytes, size_t offset_bytes, const void *zero,
                                  const void *zero_data, const void *limits,
                                  const struct xnn_qd8_quantization_params *scales);

// The same for weights of 4 bits with scales of groups, of which n_k is a multiple.
void eti_xnn_qb4_gemm_6x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, const void *a,
                                 size_t a_bytes, const void *w, void *c, size_t row_bytes,
                                 size_t panel_bytes, const void *limits,
                                 const struct xnn_qd8_quantization_params *scales);

// Packs the weights [group][column][piece][k] of a convolution for the latter, by XNNPACK's
// interface: nr is 16, kr and sr are 1. What is behind the last column keeps what it held, and so
// do biases without `bias`.
void eti_xnn_f32_pack_goki__avx2(size_t n_groups, size_t n_cols, size_t n_pieces, size_t n_k,
                                 size_t nr, size_t kr, size_t sr, const void *weights,
                                 const void *bias, const void *scale, void *packed,
                                 size_t extra_bytes, const void *params);

// The same for int8, nr 16 and kr 4: biases are int32, less what the zero point in XNNPACK's
// packing `params` adds to a column's sum. goi is of one piece.
void eti_xnn_q8_pack_goki__avx2(size_t n_groups, size_t n_cols, size_t n_pieces, size_t n_k,
                                size_t nr, size_t kr, size_t sr, const void *weights,
                                const void *bias, const void *scale, void *packed,
                                size_t extra_bytes, const void *params);
void eti_xnn_q8_pack_goi__avx2(size_t n_groups, size_t n_cols, size_t n_k, size_t nr, size_t kr,
                               size_t sr, const void *weights, const void *bias, const void *scale,
                               void *packed, size_t extra_bytes, const void *params);

// The same for weights of 4 bits with scales of groups, nr 16 and kr 8: their zero point is 8.
// Scales and biases in what is packed are the caller's to write.
void eti_xnn_qb4_pack_goi__avx2(size_t n_groups, size_t n_cols, size_t n_k, size_t nr, size_t kr,
                                size_t sr, size_t group, const void *weights, const void *bias,
                                const void *scales, void *packed, size_t extra_group_bytes,
                                size_t extra_bytes, const void *params);

// Moves width x height elements by XNNPACK's interface: element (i, j) from
// i * from_element_bytes + j * from_row_bytes to i * to_row_bytes + j * to_element_bytes.
void eti_xnn_xx_transpose__avx2(const void *from, void *to, size_t from_row_bytes,
                                size_t to_row_bytes, size_t from_element_bytes,
                                size_t to_element_bytes, size_t element_bytes, size_t width,
                                size_t height);

// Puts our kernels into XNNPACK's tables, whoever comes first; any thread, after xnn_initialize.
void eti_xnn_use_own_kernels(void);

// Whether f32 products run ours. After the former.
bool eti_xnn_has_own_f32(void);

// How many rows and columns one call of a kernel of ours computes.
typedef struct eti_xnn_tile {
  size_t rows, cols;
} eti_xnn_tile;

// The rule for that. All rows and columns in one call, so that each weight comes from afar once. Of
// weights that stay in a second-level cache this is no matter: then as many rows as fit in it with
// them. For threads to share, columns are cut into panels and, where these are too few, rows into
// blocks.
eti_xnn_tile eti_xnn_tile_for(size_t n_rows, size_t n_cols, size_t row_bytes, size_t weight_bytes,
                              size_t n_threads);

// The rule for integers, whose kernels take a block of rows through all columns of a call: as many
// columns as have their weights in a second-level cache. For threads to share, rows are cut into
// blocks and, where these are too few, columns into panels.
eti_xnn_tile eti_xnn_tile_for_bytes(size_t n_rows, size_t n_cols, size_t weight_bytes,
                                    size_t n_threads);

// Cuts the operators that run our kernels into tiles by that rule; after each reshape of `runtime`,
// which will run with n_threads.
void eti_xnn_tile_products(xnn_runtime_t runtime, size_t n_threads);

// Tells the kernels for int8 of an operator's weights what gemm_q8_schedule.h is about; after each
// reshape of `runtime`, in a region of alloc_region.h. What has been found out is kept in `known`,
// NULL at first, which outlives the runtime.
struct eti_xnn_quads;
void eti_xnn_order_quads(xnn_runtime_t runtime, struct eti_xnn_quads **known);
void eti_xnn_release_quads(struct eti_xnn_quads *known);

#endif  // ET_XNNPACK_KERNELS_H
