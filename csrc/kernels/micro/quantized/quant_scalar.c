// quant_scalar.c — the loops of quant.h for any machine: the specification and the fallback. Also
// chooses between the variants.
#include "kernels/micro/quantized/quant.h"

#include "kernels/micro/isa_select.h"
#include "kernels/contract.h"
#include "runtime/et.h"

#define T uint8_t
#define SUFFIX u8__scalar
#include "kernels/micro/quantized/quant.body.h"
#define T int8_t
#define SUFFIX i8__scalar
#include "kernels/micro/quantized/quant.body.h"
#define T int16_t
#define SUFFIX i16__scalar
#include "kernels/micro/quantized/quant.body.h"
#define T uint16_t
#define SUFFIX u16__scalar
#include "kernels/micro/quantized/quant.body.h"

const eti_quant_micro eti_quant_scalar[ETI_QUANT_TYPES] = {
    ETI_QUANT_ROW(ET_U8, u8__scalar),
    ETI_QUANT_ROW(ET_I8, i8__scalar),
    ETI_QUANT_ROW(ET_I16, i16__scalar),
    ETI_QUANT_ROW(ET_U16, u16__scalar),
};

const eti_quant_micro *eti_quant_micro_of_isa(int dtype, int isa) {
  static const eti_quant_micro *const variants[ETI_ISA_COUNT] = {
      [ETI_ISA_SCALAR] = eti_quant_scalar,
#if ETI_HAVE_X86
      [ETI_ISA_AVX2] = eti_quant_avx2,
      [ETI_ISA_AVX512] = eti_quant_avx512,
#endif
  };
  if (isa < 0 || isa > (int)eti_cpu_isa() || variants[isa] == NULL) return NULL;
  for (int i = 0; i < ETI_QUANT_TYPES; i++) {
    if (variants[isa][i].dtype == dtype) return &variants[isa][i];
  }
  return NULL;
}

const eti_quant_micro *eti_quant_micro_best(int dtype) {
  for (int isa = (int)eti_cpu_isa(); isa > 0; isa--) {
    const eti_quant_micro *const micro = eti_quant_micro_of_isa(dtype, isa);
    if (micro != NULL) return micro;
  }
  return eti_quant_micro_of_isa(dtype, ETI_ISA_SCALAR);
}
