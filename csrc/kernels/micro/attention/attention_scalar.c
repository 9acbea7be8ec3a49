// attention_scalar.c — the loops of attention.h for any machine: the specification and the
// fallback. Also chooses between the variants.
#include "kernels/micro/attention/attention.h"

#include "kernels/contract.h"
#include "kernels/loops/loop.h"
#include "kernels/stack.h"
#include "kernels/micro/math/math_f32.h"
#include "kernels/micro/math/math_f64.h"
#include "kernels/micro/isa_select.h"
#include "runtime/et.h"

#define T float
#define SUFFIX f32__scalar
#define MATH f32
#define WIDTH_0 16
#define WIDTH_1 ETI_ATTENTION_QUERIES
#include "kernels/micro/attention/attention.body.h"
#define T double
#define SUFFIX f64__scalar
#define MATH f64
#define WIDTH_0 8
#define WIDTH_1 (ETI_ATTENTION_QUERIES / 2)
#include "kernels/micro/attention/attention.body.h"

const eti_attention_micro eti_attention_scalar[ETI_ATTENTION_TYPES] = {
    ETI_ATTENTION_ROW(ET_F32, float, 16, 32, f32__scalar),
    ETI_ATTENTION_ROW(ET_F64, double, 8, 16, f64__scalar),
};

const eti_attention_micro *eti_attention_micro_of_isa(int type, int isa) {
  static const eti_attention_micro *const variants[ETI_ISA_COUNT] = {
      [ETI_ISA_SCALAR] = eti_attention_scalar,
#if ETI_HAVE_X86
      [ETI_ISA_AVX2] = eti_attention_avx2,
      [ETI_ISA_AVX512] = eti_attention_avx512,
#endif
  };
  return isa >= 0 && isa <= (int)eti_cpu_isa() && variants[isa] != NULL ? &variants[isa][type]
                                                                        : NULL;
}

const eti_attention_micro *eti_attention_micro_best(int type) {
  for (int isa = (int)eti_cpu_isa(); isa > 0; isa--) {
    const eti_attention_micro *micro = eti_attention_micro_of_isa(type, isa);
    if (micro != NULL) return micro;
  }
  return &eti_attention_scalar[type];
}
