// bgemm.c — the choice between the variants of bgemm.h.
#include "kernels/micro/bgemm/bgemm.h"

#include "kernels/micro/isa_select.h"

const eti_bgemm_micro *eti_bgemm_micro_best(void) {
  static const eti_bgemm_micro *const variants[ETI_ISA_COUNT] = {
      [ETI_ISA_SCALAR] = &eti_bgemm_scalar,
#if ETI_HAVE_X86
      [ETI_ISA_AVX2] = &eti_bgemm_avx2,
      [ETI_ISA_AVX512] = &eti_bgemm_avx512,
#elif ETI_HAVE_NEON
      [ETI_ISA_NEON] = &eti_bgemm_neon,
#endif
  };
#if ETI_HAVE_X86
  if (eti_cpu_bf16() == ETI_BF16_AMX) return &eti_bgemm_amx;
  if (eti_cpu_bf16() == ETI_BF16_AVX512) return &eti_bgemm_avx512bf16;
#elif ETI_HAVE_NEON
  if (eti_cpu_bf16() == ETI_BF16_NEON) return &eti_bgemm_neonbf16;
#endif
  const eti_bgemm_micro *const best = variants[eti_cpu_isa()];
  return best != NULL ? best : &eti_bgemm_scalar;
}
