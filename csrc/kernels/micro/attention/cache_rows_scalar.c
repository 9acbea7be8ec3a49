// cache_rows_scalar.c — the loops of cache_rows.h for any machine: the specification and the
// fallback. Also chooses between the variants.
#define SUFFIX scalar
#include "kernels/micro/attention/cache_rows.body.h"

#include "kernels/micro/isa_select.h"

const eti_cache_rows_micro *eti_cache_rows_of_isa(int isa) {
  static const eti_cache_rows_micro *const variants[ETI_ISA_COUNT] = {
      [ETI_ISA_SCALAR] = &eti_cache_rows_scalar,
#if ETI_HAVE_X86
      [ETI_ISA_AVX2] = &eti_cache_rows_avx2,
      [ETI_ISA_AVX512] = &eti_cache_rows_avx512,
#endif
  };
  return isa >= 0 && isa < ETI_ISA_COUNT && isa <= (int)eti_cpu_isa() ? variants[isa] : NULL;
}

const eti_cache_rows_micro *eti_cache_rows_best(void) {
  for (int isa = (int)eti_cpu_isa(); isa > 0; isa--) {
    if (eti_cache_rows_of_isa(isa) != NULL) return eti_cache_rows_of_isa(isa);
  }
  return &eti_cache_rows_scalar;
}
