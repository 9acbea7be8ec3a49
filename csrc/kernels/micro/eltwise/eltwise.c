// eltwise.c — picks the variant of the f32 loops for an instruction set.
#include "kernels/micro/eltwise/eltwise.h"

static const eti_eltwise *const variants[ETI_ISA_COUNT] = {
    [ETI_ISA_SCALAR] = &eti_eltwise_scalar,
#if ETI_HAVE_X86
    [ETI_ISA_AVX2] = &eti_eltwise_avx2,
    [ETI_ISA_AVX512] = &eti_eltwise_avx512,
#endif
    [ETI_ISA_NEON] = &eti_eltwise_scalar,  // the base instruction set of AArch64 has the vectors
};

const eti_eltwise *eti_eltwise_for(eti_isa isa) {
  return variants[isa] != NULL ? variants[isa] : &eti_eltwise_scalar;
}

const eti_eltwise *eti_eltwise_get(void) {
  return eti_eltwise_for(eti_cpu_isa());
}
