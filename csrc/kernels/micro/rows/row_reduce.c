// row_reduce.c — picks the variant of the reductions for this CPU; reduces rows that come in parts.
#include "kernels/micro/rows/row_reduce.h"

#include <string.h>

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

void eti_row_part(eti_row_parts *r, void *acc, const double *x, size_t n, bool is_last) {
  size_t i = 0;
  for (; i + ETI_ROW_LANES <= n; i += ETI_ROW_LANES) {
    for (size_t l = 0; l < ETI_ROW_LANES && !r->has_lanes; l++)
      memcpy(&r->lanes[l], &r->init, sizeof r->init);
    r->has_lanes = true;
    r->columns(r->lanes, x + i, 0, 1, ETI_ROW_LANES, r->centers);
  }
  if (!is_last) return;
  if (r->has_lanes) {
    for (size_t half = ETI_ROW_LANES / 2; half > 0; half /= 2)
      r->merge(r->lanes, r->lanes + half, 0, 1, half, NULL);
    r->merge(acc, r->lanes, 0, 1, 1, NULL);
  }
  if (i < n) r->rows(acc, x + i, 0, n - i, 1, r->centers);
  r->has_lanes = false;
}
