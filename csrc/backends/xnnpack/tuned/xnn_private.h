// xnn_private.h — XNNPACK's internal headers, of the release that get_xnnpack.py builds, and those
// micro-kernels that other headers of its sources declare. No other file includes or declares them,
// so this list shows which internals a new release may change.
#ifndef ET_XNNPACK_PRIVATE_H
#define ET_XNNPACK_PRIVATE_H

#include <xnnpack.h>

#include <stddef.h>
#include <stdint.h>

#include <xnnpack/allocator.h>        // aligned memory of the process's allocator
#include <xnnpack/common.h>           // XNN_ALLOCATION_ALIGNMENT
#include <xnnpack/compute.h>          // contexts of operators, the functions that run tiles
#include <xnnpack/config.h>           // tables of micro-kernels
#include <xnnpack/gemm.h>             // XNNPACK's gemm micro-kernels, by name
#include <xnnpack/hardware-config.h>  // instruction sets of this machine
#include <xnnpack/igemm.h>            // XNNPACK's igemm micro-kernels, by name
#include <xnnpack/microparams.h>      // parameters of micro-kernels
#include <xnnpack/operator.h>         // struct xnn_operator
#include <xnnpack/pack.h>             // parameters of packing functions
#include <xnnpack/requantization.h>   // xnn_qs8_quantize
#include <xnnpack/reshape-helpers.h>  // resize_unary_elementwise_output_tensor
#include <xnnpack/subgraph.h>         // struct xnn_node, xnn_value, xnn_runtime

// Declared by transpose.h, vbinary.h and dwconv.h, which need sources that are not installed.
void xnn_xx_transposev_ukernel__1x1_scalar_memcpy(const void *, void *, size_t, size_t, size_t,
                                                  size_t, size_t, size_t, size_t);
void xnn_x8_transposec_ukernel__32x32_reuse_switch_avx2(const void *, void *, size_t, size_t,
                                                        size_t, size_t);
void xnn_qs8_vmul_minmax_fp32_ukernel__avx_mul16_ld64_u16(size_t, const void *, const void *,
                                                          void *, const void *);
void xnn_qs8_vadd_minmax_ukernel__avx512skx_mul32_ld128_u16(size_t, const void *, const void *,
                                                            void *, const void *);

typedef void eti_xnn_dwconv_fn(size_t, size_t, const void **, const void *, void *, intptr_t,
                               size_t, size_t, const void *, const void *);
eti_xnn_dwconv_fn xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_9p16c__avx2_mul32;
eti_xnn_dwconv_fn xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_25p16c__avx2_mul32;
eti_xnn_dwconv_fn xnn_qs8_dwconv_minmax_fp32_ukernel_9p16c__avx2_mul32;
eti_xnn_dwconv_fn xnn_qs8_dwconv_minmax_fp32_ukernel_25p16c__avx2_mul32;
eti_xnn_dwconv_fn xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_9p32c__avx512skx_mul32;
eti_xnn_dwconv_fn xnn_qs8_qc8w_dwconv_minmax_fp32_ukernel_25p32c__avx512skx_mul32;
eti_xnn_dwconv_fn xnn_qs8_dwconv_minmax_fp32_ukernel_9p32c__avx512skx_mul32;
eti_xnn_dwconv_fn xnn_qs8_dwconv_minmax_fp32_ukernel_25p32c__avx512skx_mul32;
eti_xnn_dwconv_fn xnn_f32_dwconv_minmax_ukernel_9p16c__fma3;
eti_xnn_dwconv_fn xnn_f32_dwconv_minmax_ukernel_9p16c__avx512f;
eti_xnn_dwconv_fn xnn_f32_dwconv_minmax_ukernel_25p16c__avx512f;
eti_xnn_dwconv_fn xnn_f32_dwconv_minmax_ukernel_25p8c__fma3;

#endif  // ET_XNNPACK_PRIVATE_H
