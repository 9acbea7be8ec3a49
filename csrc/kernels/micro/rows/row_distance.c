// row_distance.c — picks the variant of the distances for this CPU.
#include "kernels/micro/rows/row_distance.h"

static const eti_row_distance_micro *const variants[ETI_ISA_COUNT] = {
    [ETI_ISA_SCALAR] = &eti_row_distance_scalar,
#if ETI_HAVE_X86
    [ETI_ISA_AVX2] = &eti_row_distance_avx2,
    [ETI_ISA_AVX512] = &eti_row_distance_avx512,
#endif
    [ETI_ISA_NEON] =
        &eti_row_distance_scalar,  // the base instruction set of AArch64 has the vectors
};

const eti_row_distance_micro *eti_row_distance_micro_get(void) {
  return variants[eti_cpu_isa()];
}
