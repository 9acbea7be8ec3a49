// kernels.h — micro-kernels of our own in place of XNNPACK's.
//
// XNNPACK names a micro-kernel for each kind of operator by the processor's instruction sets, in
// tables of its own. Some of those are written in C that compilers translate badly; ours have the
// same names, so that the linker takes them and the archive's are left where they are. Thus the
// rule for which one runs: wherever XNNPACK's tables name a micro-kernel of this list, ours runs.
// What it computes is the same, in another order of instructions; weights are packed as before.
//
//   xnn_f32_gemm_minmax_ukernel_5x16__fma3_broadcast          products and 1x1 convolutions in
//   f32 xnn_f32_igemm_minmax_ukernel_5x16__fma3_broadcast_prfm     other convolutions
//
// They are of the XNNPACK that get_xnnpack.py builds; another one may name others in its tables.
#ifndef ET_XNNPACK_KERNELS_H
#define ET_XNNPACK_KERNELS_H

#include <stddef.h>

// XNNPACK's interface for products: n_rows x n_cols sums over k_bytes / 4 elements of the rows at
// `a`, a_bytes apart. Rows of c are row_bytes apart, its panels of 16 columns panel_bytes. `limits`
// are two floats, the least and the greatest result.
typedef void eti_xnn_gemm(size_t n_rows, size_t n_cols, size_t k_bytes, const void *a,
                          size_t a_bytes, const void *w, void *c, size_t row_bytes,
                          size_t panel_bytes, const void *limits);

// The same for rows in pieces: a[5 s + i] points to piece s of row i, before offset_bytes are added
// unless it is `zero`.
typedef void eti_xnn_igemm(size_t n_rows, size_t n_cols, size_t k_bytes, size_t pieces_bytes,
                           const void **a, const void *w, void *c, size_t row_bytes,
                           size_t panel_bytes, size_t offset_bytes, const void *zero,
                           const void *limits);

eti_xnn_gemm xnn_f32_gemm_minmax_ukernel_5x16__fma3_broadcast;
eti_xnn_igemm xnn_f32_igemm_minmax_ukernel_5x16__fma3_broadcast_prfm;

#endif  // ET_XNNPACK_KERNELS_H
