// packed_weight.h — f32 weights that a file holds in the panels of micro/gemm/gemm.h: a tensor
// [groups, panels, k, ETI_GEMM_STORED], which kernels of all instruction sets read in place, so
// that no run packs them and processes share the pages of the file. Columns after the last are 0.
// Weights of depthwise convolutions, one column for each group, are [1, 1, taps, channels] instead.
// Reading proves the sizes, so that a damaged file is refused. Knows no operator.
#ifndef ET_PACKED_WEIGHT_H
#define ET_PACKED_WEIGHT_H

#include "kernels/lib/args.h"
#include "kernels/micro/gemm/gemm.h"

// A weight before it was packed, as a tensor without data: the operators' usual readers then check
// it. `value` points to `tensor`, and that to the arrays: it must not be copied.
typedef struct eti_unpacked_weight {
  et_value value;
  et_tensor tensor;
  int32_t sizes[5];
  ptrdiff_t strides[5];
} eti_unpacked_weight;

// Describes a contiguous weight of `rank` ≤ 5 sizes whose data are those of the panels. Fails for
// sizes out of range and for more elements than the panels have.
et_status eti_unpacked_weight_init(const et_kernel_ctx *ctx, const char *op, const int64_t *sizes,
                                   size_t rank, const et_tensor *panels, eti_unpacked_weight *out);

// Makes the weight [channels, 1, …] one whose panels are [1, 1, taps, channels], after proving
// that.
et_status eti_unpacked_weight_taps_first(const et_kernel_ctx *ctx, const char *op,
                                         const et_tensor *panels, eti_unpacked_weight *weight);

// Proves that `panels` are those of `groups` matrices [k × n].
et_status eti_packed_weight_check(const et_kernel_ctx *ctx, const char *op, const et_tensor *panels,
                                  size_t groups, size_t n, size_t k);

// The operand B of group `group`.
eti_gemm_operand eti_packed_weight_operand(const eti_gemm_kernel *kernel, const void *panels,
                                           size_t group, size_t n, size_t k);

#endif  // ET_PACKED_WEIGHT_H
