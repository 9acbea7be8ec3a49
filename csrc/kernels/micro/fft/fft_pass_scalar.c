// fft_pass_scalar.c — the loops of fft_pass.h for any machine: the specification and the fallback.
// Also chooses between the variants.
#include "kernels/micro/fft/fft_pass.h"
#include "kernels/stack.h"

#include "kernels/micro/isa_select.h"
#include "runtime/et.h"

#include <string.h>

#define T float
#define FFT_IS_F64 0
#define SUFFIX f32__scalar
#include "kernels/micro/fft/fft_pass.body.h"
#define T double
#define FFT_IS_F64 1
#define SUFFIX f64__scalar
#include "kernels/micro/fft/fft_pass.body.h"

const eti_fft_micro eti_fft_scalar[ETI_FFT_TYPES] = {
    ETI_FFT_ROW(ET_F32, float, f32__scalar),
    ETI_FFT_ROW(ET_F64, double, f64__scalar),
};

const eti_fft_micro *eti_fft_micro_of_isa(int type, int isa) {
  static const eti_fft_micro *const variants[ETI_ISA_COUNT] = {
      [ETI_ISA_SCALAR] = eti_fft_scalar,
#if ETI_HAVE_X86
      [ETI_ISA_AVX2] = eti_fft_avx2,
      [ETI_ISA_AVX512] = eti_fft_avx512,
#endif
  };
  return isa >= 0 && isa <= (int)eti_cpu_isa() && variants[isa] != NULL ? &variants[isa][type]
                                                                        : NULL;
}

const eti_fft_micro *eti_fft_micro_best(int type) {
  for (int isa = (int)eti_cpu_isa(); isa > 0; isa--) {
    const eti_fft_micro *const micro = eti_fft_micro_of_isa(type, isa);
    if (micro != NULL) return micro;
  }
  return &eti_fft_scalar[type];
}
