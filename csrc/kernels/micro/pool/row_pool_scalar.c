// row_pool_scalar.c — the loops of row_pool.h for any machine: the specification and the fallback.
// Also chooses between the variants.
#include "kernels/micro/pool/row_pool.h"

#include <math.h>
#include <string.h>

#include "kernels/micro/isa_select.h"
#include "kernels/contract.h"
#include "kernels/is_nan.h"
#include "runtime/et.h"

#define T float
#define U float
#define SUFFIX f32__scalar
#include "kernels/micro/pool/row_pool.body.h"
#define T double
#define U double
#define SUFFIX f64__scalar
#include "kernels/micro/pool/row_pool.body.h"
#define T int64_t
#define U uint64_t
#define SUFFIX i64__scalar
#include "kernels/micro/pool/row_pool.body.h"

const eti_row_pool_micro eti_row_pool_scalar[ETI_ROW_POOL_TYPES] = {
    ETI_ROW_POOL_ENTRY(ET_F32, float, f32__scalar),
    ETI_ROW_POOL_ENTRY(ET_F64, double, f64__scalar),
    ETI_ROW_POOL_ENTRY(ET_I64, int64_t, i64__scalar),
};

const eti_row_pool_micro *eti_row_pool_micro_of_isa(int type, int isa) {
  static const eti_row_pool_micro *const variants[ETI_ISA_COUNT] = {
      [ETI_ISA_SCALAR] = eti_row_pool_scalar,
#if ETI_HAVE_X86
      [ETI_ISA_AVX2] = eti_row_pool_avx2,
      [ETI_ISA_AVX512] = eti_row_pool_avx512,
#endif
  };
  return isa >= 0 && isa <= (int)eti_cpu_isa() && variants[isa] != NULL ? &variants[isa][type]
                                                                        : NULL;
}

const eti_row_pool_micro *eti_row_pool_micro_best(int type) {
  for (int isa = (int)eti_cpu_isa(); isa > 0; isa--) {
    const eti_row_pool_micro *micro = eti_row_pool_micro_of_isa(type, isa);
    if (micro != NULL) return micro;
  }
  return &eti_row_pool_scalar[type];
}

void eti_row_pool_start_max(const eti_row_pool_micro *micro, void *best, size_t n) {
  ET_ASSERT(micro != NULL && (n == 0 || best != NULL));
  switch (micro->dtype) {
    case ET_F32:
      for (size_t i = 0; i < n; i++) ((float *)best)[i] = -INFINITY;
      break;
    case ET_F64:
      for (size_t i = 0; i < n; i++) ((double *)best)[i] = (double)-INFINITY;
      break;
    default:
      for (size_t i = 0; i < n; i++) ((int64_t *)best)[i] = INT64_MIN;
      break;
  }
}
