// row_reduce.c — picks the variant of the reductions for this CPU.
#include "kernels/micro/rows/row_reduce.h"

static const eti_row_reduce_micro *const variants[ETI_ISA_COUNT] = {
    [ETI_ISA_SCALAR] = &eti_row_reduce_scalar,
#if ETI_HAVE_X86
    [ETI_ISA_AVX2] = &eti_row_reduce_avx2,
    [ETI_ISA_AVX512] = &eti_row_reduce_avx512,
#endif
    [ETI_ISA_NEON] = &eti_row_reduce_scalar,  // the base instruction set of AArch64 has the vectors
};

const eti_row_reduce_micro *eti_row_reduce_micro_get(void) {
  return variants[eti_cpu_isa()];
}
