// half_panels.c — chooses the variant of half_panels.h.
#include "kernels/micro/gemm/half_panels.h"

#include "kernels/dtype_sets.h"
#include "kernels/micro/isa_select.h"
#include "runtime/et.h"

eti_half_panels_fn eti_half_panels_of_isa(int isa) {
  static const eti_half_panels_fn variants[ETI_ISA_COUNT] = {
#if ETI_HAVE_X86
      [ETI_ISA_AVX2] = ETI_BUILT(ET_F16, eti_half_panels_avx2),
      [ETI_ISA_AVX512] = ETI_BUILT(ET_F16, eti_half_panels_avx512),
#endif
#if ETI_HAVE_NEON
      [ETI_ISA_NEON] = ETI_BUILT(ET_F16, eti_half_panels_neon),
#endif
  };
  return isa >= 0 && isa < ETI_ISA_COUNT && isa <= (int)eti_cpu_isa() ? variants[isa] : NULL;
}

eti_half_panels_fn eti_half_panels_best(void) {
  for (int isa = (int)eti_cpu_isa(); isa > 0; isa--) {
    if (eti_half_panels_of_isa(isa) != NULL) return eti_half_panels_of_isa(isa);
  }
  return NULL;
}
