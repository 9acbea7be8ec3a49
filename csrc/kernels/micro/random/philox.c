// philox.c — picks the variant of random numbers for this CPU.
#include "kernels/micro/random/philox.h"

static const eti_philox_micro *const variants[ETI_ISA_COUNT] = {
    [ETI_ISA_SCALAR] = &eti_philox_scalar,
#if ETI_HAVE_X86
    [ETI_ISA_AVX2] = &eti_philox_avx2,
    [ETI_ISA_AVX512] = &eti_philox_avx512,
#endif
    [ETI_ISA_NEON] = &eti_philox_scalar,  // the base instruction set of AArch64 has the vectors
};

const eti_philox_micro *eti_philox_micro_get(void) {
  return variants[eti_cpu_isa()];
}
