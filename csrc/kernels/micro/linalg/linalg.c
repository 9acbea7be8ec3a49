// linalg.c — picks the variant of linear algebra for this CPU.
#include "kernels/micro/linalg/linalg.h"

static const eti_dense *const variants[ETI_ISA_COUNT] = {
    [ETI_ISA_SCALAR] = &eti_dense_scalar,
#if ETI_HAVE_X86
    [ETI_ISA_AVX2] = &eti_dense_avx2,
    [ETI_ISA_AVX512] = &eti_dense_avx512,
#endif
    [ETI_ISA_NEON] = &eti_dense_scalar,  // the base instruction set of AArch64 has the vectors
};

const eti_dense *eti_dense_get(void) {
  return variants[eti_cpu_isa()];
}
