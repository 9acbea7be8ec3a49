// grid_sample_kernel.c — picks the variant of grid sampling for this CPU.
#include "kernels/micro/sample/grid_sample_kernel.h"

static const eti_grid_sample_micro *const variants[ETI_ISA_COUNT] = {
    [ETI_ISA_SCALAR] = &eti_grid_sample_scalar,
#if ETI_HAVE_X86
    [ETI_ISA_AVX2] = &eti_grid_sample_avx2,
    [ETI_ISA_AVX512] = &eti_grid_sample_avx512,
#endif
    [ETI_ISA_NEON] =
        &eti_grid_sample_scalar,  // the base instruction set of AArch64 has the vectors
};

const eti_grid_sample_micro *eti_grid_sample_micro_get(void) {
  return variants[eti_cpu_isa()];
}
