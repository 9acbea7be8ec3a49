// winograd_scalar.c — the transforms of winograd.h in plain C: their specification and the
// fallback. Also chooses between the variants, and transforms weights.
#include "kernels/micro/conv/winograd.h"

#include <math.h>

#include "kernels/micro/isa_select.h"

#define SUFFIX f32__scalar
#define VEC float
#define LANES 1
#define V_SET1(x) (x)
#define V_LOAD(p) (*(p))
#define V_STORE(p, v) (*(p) = (v))
#define V_FMA(a, b, c) fmaf(a, b, c)
#define V_ADD(a, b) ((a) + (b))
#define V_SUB(a, b) ((a) - (b))
#define V_MUL(a, b) ((a) * (b))
#define V_LIMIT(v, low, high, plus) eti_clamp(v, low, high, plus)
#define V_LOAD_N(p, n) (*(p))
#define V_STORE_N(p, v, n) (*(p) = (v))
#include "kernels/micro/conv/winograd.body.h"

const eti_winograd_micro eti_winograd_scalar = {
    {input_2_f32__scalar, input_4_f32__scalar, input_6_f32__scalar},
    {output_2_f32__scalar, output_4_f32__scalar, output_6_f32__scalar},
};

const eti_winograd_micro *eti_winograd_micro_of_isa(int isa) {
  static const eti_winograd_micro *const variants[ETI_ISA_COUNT] = {
      [ETI_ISA_SCALAR] = &eti_winograd_scalar,
#if ETI_HAVE_X86
      [ETI_ISA_AVX2] = &eti_winograd_avx2,
      [ETI_ISA_AVX512] = &eti_winograd_avx512,
#elif ETI_HAVE_NEON
      [ETI_ISA_NEON] = &eti_winograd_neon,
#endif
  };
  return isa >= 0 && isa <= (int)eti_cpu_isa() ? variants[isa] : NULL;
}

const eti_winograd_micro *eti_winograd_micro_best(void) {
  for (int isa = (int)eti_cpu_isa(); isa > 0; isa--) {
    const eti_winograd_micro *micro = eti_winograd_micro_of_isa(isa);
    if (micro != NULL) return micro;
  }
  return &eti_winograd_scalar;
}

// ---- weights

typedef double lanes[ETI_WINOGRAD_LANES];

// G along one side: y[i·step] for the points i of the weights x0, x1, x2.
static void spread_weights(lanes *y, size_t step, const lanes *x, size_t x_step, size_t pairs) {
  static const double points[ETI_WINOGRAD_PAIRS][ETI_WINOGRAD_PAIRS] = {
      {ETI_WINOGRAD_2}, {ETI_WINOGRAD_4}, {ETI_WINOGRAD_6}};
  const double *const p = points[pairs - 1];
  double all = 1.0;  // product of differences of 0 from the other points
  for (size_t i = 0; i < pairs; i++) all *= -p[i] * p[i];
  for (size_t l = 0; l < ETI_WINOGRAD_LANES; l++) {
    y[0][l] = x[0][l] / all;
    y[(2 * pairs + 1) * step][l] = x[2 * x_step][l];
  }
  for (size_t i = 0; i < pairs; i++) {
    double rest = 2.0 * p[i] * p[i];
    for (size_t j = 0; j < pairs; j++) rest *= j == i ? 1.0 : p[i] * p[i] - p[j] * p[j];
    for (size_t l = 0; l < ETI_WINOGRAD_LANES; l++) {
      const double even = x[0][l] + p[i] * p[i] * x[2 * x_step][l], odd = p[i] * x[x_step][l];
      y[(2 * i + 1) * step][l] = (even + odd) / rest;
      y[(2 * i + 2) * step][l] = (even - odd) / rest;
    }
  }
}

void eti_winograd_weights(size_t pairs, const double weights[9][ETI_WINOGRAD_LANES],
                          float points[ETI_WINOGRAD_POINTS][ETI_WINOGRAD_LANES]) {
  const size_t side = 2 * pairs + 2;
  lanes half[3 * ETI_WINOGRAD_SIDE], row[ETI_WINOGRAD_SIDE];  // half: down the columns
  for (size_t x = 0; x < 3; x++) spread_weights(half + x, 3, weights + x, 3, pairs);
  for (size_t y = 0; y < side; y++) {
    spread_weights(row, 1, (const lanes *)half + 3 * y, 1, pairs);
    for (size_t x = 0; x < side; x++) {
      for (size_t l = 0; l < ETI_WINOGRAD_LANES; l++) points[y * side + x][l] = (float)row[x][l];
    }
  }
}
