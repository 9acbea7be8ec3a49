// row_norm_scalar.c — the loops of row_norm.h for any machine: the specification and the fallback.
// Also chooses between the variants.
#include "kernels/micro/rows/row_norm.h"

#include "kernels/contract.h"
#include "kernels/loops/loop.h"
#include "kernels/micro/math/math_f32.h"

#include "kernels/micro/isa_select.h"
#include "runtime/et.h"

#define T float
#define SUFFIX f32__scalar
#include "kernels/micro/rows/row_norm.body.h"
#define T double
#define SUFFIX f64__scalar
#include "kernels/micro/rows/row_norm.body.h"

const eti_row_norm_micro eti_row_norm_scalar[ETI_ROW_NORM_TYPES] = {
    ETI_ROW_NORM_ENTRY(ET_F32, float, f32__scalar),
    ETI_ROW_NORM_ENTRY(ET_F64, double, f64__scalar),
};

const eti_row_norm_micro *eti_row_norm_micro_of_isa(int type, int isa) {
  static const eti_row_norm_micro *const variants[ETI_ISA_COUNT] = {
      [ETI_ISA_SCALAR] = eti_row_norm_scalar,
#if ETI_HAVE_X86
      [ETI_ISA_AVX2] = eti_row_norm_avx2,
      [ETI_ISA_AVX512] = eti_row_norm_avx512,
#endif
  };
  return isa >= 0 && isa <= (int)eti_cpu_isa() && variants[isa] != NULL ? &variants[isa][type]
                                                                        : NULL;
}

const eti_row_norm_micro *eti_row_norm_micro_best(int type) {
  for (int isa = (int)eti_cpu_isa(); isa > 0; isa--) {
    const eti_row_norm_micro *micro = eti_row_norm_micro_of_isa(type, isa);
    if (micro != NULL) return micro;
  }
  return &eti_row_norm_scalar[type];
}
