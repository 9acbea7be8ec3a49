// row_softmax.body.h — the source of every variant of row_softmax.h; the including file names its
// table, ETI_ROW_SOFTMAX_TABLE.
#include "kernels/contract.h"
#include "kernels/loops/loop.h"
#include "kernels/micro/math/math_f32.h"
#include "kernels/micro/rows/row_softmax.h"

static void add_terms(float *sum, float *terms, const float *x, const float *high, size_t n) {
  ET_ASSERT(ETI_HOLDS(sum, n, float) && ETI_HOLDS_OR_NULL(terms, float));
  ET_ASSERT(ETI_HOLDS(x, n, float) && ETI_HOLDS(high, n, float));
  if (terms == NULL) {
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) sum[i] += eti_exp_term_f32(x[i] - high[i]);
    return;
  }
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) {
    const float term = eti_exp_term_f32(x[i] - high[i]);
    terms[i] = term;
    sum[i] += term;
  }
}

static void scale_terms(float *out, const float *x, const float *high, const float *factor,
                        size_t n) {
  ET_ASSERT(ETI_HOLDS(out, n, float) && ETI_HOLDS(x, n, float));
  ET_ASSERT(ETI_HOLDS(high, n, float) && ETI_HOLDS(factor, n, float));
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) out[i] = eti_exp_term_f32(x[i] - high[i]) * factor[i];
}

static void logarithms(float *out, const float *x, const float *high, const float *log_sum,
                       size_t n) {
  ET_ASSERT(ETI_HOLDS(out, n, float) && ETI_HOLDS(x, n, float));
  ET_ASSERT(ETI_HOLDS(high, n, float) && ETI_HOLDS(log_sum, n, float));
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) out[i] = x[i] - high[i] - log_sum[i];
}

const eti_row_softmax_micro ETI_ROW_SOFTMAX_TABLE = {
    .add_terms = add_terms, .scale_terms = scale_terms, .logarithms = logarithms};
