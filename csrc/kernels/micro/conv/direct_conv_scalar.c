// direct_conv_scalar.c — the loops of direct_conv.h in plain C: their specification and the
// fallback. Also chooses between the variants.
#include "kernels/micro/conv/direct_conv.h"

#include <math.h>

#include "kernels/micro/isa_select.h"

#define SUFFIX f32__scalar
#define VEC float
#define LANES 1
#define V_SET1(x) (x)
#define V_LOAD(p) (*(p))
#define V_STORE(p, v) (*(p) = (v))
#define V_FMA(a, b, c) fmaf(a, b, c)
#define V_LIMIT(v, low, high, plus) eti_clamp(v, low, high, plus)
#define V_LOAD_N(p, n) (*(p))
#define V_STORE_N(p, v, n) (*(p) = (v))
#define V_EVEN(p) (*(p))
#define LANES_T bool
#define V_LANES(from, to) ((from) <= 0 && 0 < (to))
#define V_INSIDE(p, step, there) ((there) ? *(p) : 0.0f)
#include "kernels/micro/conv/direct_conv_rows.body.h"

const eti_direct_conv_micro eti_direct_conv_scalar = {
    copy_rows_f32__scalar,
    row_f32__scalar,
    rows_f32__scalar,
    pixels_f32__scalar,
    pixel_f32__scalar,
    {{plane_3x3_f32__scalar, plane_3x3_by_2_f32__scalar},
     {plane_5x5_f32__scalar, plane_5x5_by_2_f32__scalar}},
};

const eti_direct_conv_micro *eti_direct_conv_micro_of_isa(int isa) {
  static const eti_direct_conv_micro *const variants[ETI_ISA_COUNT] = {
      [ETI_ISA_SCALAR] = &eti_direct_conv_scalar,
#if ETI_HAVE_X86
      [ETI_ISA_AVX2] = &eti_direct_conv_avx2,
      [ETI_ISA_AVX512] = &eti_direct_conv_avx512,
#elif ETI_HAVE_NEON
      [ETI_ISA_NEON] = &eti_direct_conv_neon,
#endif
  };
  return isa >= 0 && isa <= (int)eti_cpu_isa() ? variants[isa] : NULL;
}

const eti_direct_conv_micro *eti_direct_conv_micro_best(void) {
  for (int isa = (int)eti_cpu_isa(); isa > 0; isa--) {
    const eti_direct_conv_micro *micro = eti_direct_conv_micro_of_isa(isa);
    if (micro != NULL) return micro;
  }
  return &eti_direct_conv_scalar;
}
