// linalg.c — picks the variant of linear algebra for this CPU.
#include "kernels/micro/linalg/linalg.h"

static const eti_linalg *const variants[ETI_ISA_COUNT] = {
    [ETI_ISA_SCALAR] = &eti_linalg_scalar,
#if ETI_HAVE_X86
    [ETI_ISA_AVX2] = &eti_linalg_avx2,
    [ETI_ISA_AVX512] = &eti_linalg_avx512,
#endif
    [ETI_ISA_NEON] = &eti_linalg_scalar,  // the base instruction set of AArch64 has the vectors
};

const eti_linalg *eti_linalg_get(void) {
  return variants[eti_cpu_isa()];
}
