// convert.c — picks the variant of the conversions for an instruction set.
#include "kernels/micro/convert/convert.h"

static const eti_convert *const variants[ETI_ISA_COUNT] = {
    [ETI_ISA_SCALAR] = &eti_convert_scalar,
#if ETI_HAVE_X86
    [ETI_ISA_AVX2] = &eti_convert_avx2,
    [ETI_ISA_AVX512] = &eti_convert_avx512,
#endif
    [ETI_ISA_NEON] = &eti_convert_scalar,  // the base instruction set of AArch64 has the vectors
};

const eti_convert *eti_convert_for(eti_isa isa) {
  return variants[isa] != NULL ? variants[isa] : &eti_convert_scalar;
}

const eti_convert *eti_convert_get(void) {
  return eti_convert_for(eti_cpu_isa());
}
