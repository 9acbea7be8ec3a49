// row_softmax.c — picks the variant of the loops of softmax for this CPU.
#include "kernels/micro/rows/row_softmax.h"

static const eti_row_softmax_micro *const variants[ETI_ISA_COUNT] = {
    [ETI_ISA_SCALAR] = &eti_row_softmax_scalar,
#if ETI_HAVE_X86
    [ETI_ISA_AVX2] = &eti_row_softmax_avx2,
    [ETI_ISA_AVX512] = &eti_row_softmax_avx512,
#endif
    [ETI_ISA_NEON] =
        &eti_row_softmax_scalar,  // the base instruction set of AArch64 has the vectors
};

const eti_row_softmax_micro *eti_row_softmax_micro_get(void) {
  return variants[eti_cpu_isa()];
}
