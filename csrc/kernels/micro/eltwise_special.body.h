// eltwise_special.body.h — the loops of a special function, part of eltwise.body.h: f32 by blocks,
// straight-line arithmetic for all and the long way for operands that are rare; f64 one by one.
// Parameters, undefined at the end: LOOP_NAME, and SPECIAL(x, wide) of special.h.
#define FN(suffix) ETI_LOOP_NAME(LOOP_NAME, suffix)
#define STEP(suffix) ETI_LOOP_NAME(ETI_LOOP_NAME(eti, LOOP_NAME), suffix)
#define BLOCK 256u  // elements looked at together

static void FN(f32)(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  (void)params;
  for (size_t i = 0; i < n; i += BLOCK) {
    const size_t m = n - i < BLOCK ? n - i : BLOCK;
    const char *const from = (const char *)p[1] + (ptrdiff_t)i * s[1];
    char *const to = (char *)p[0] + (ptrdiff_t)i * s[0];
    float x[BLOCK], y[BLOCK];
    unsigned rare = 0;
    if (s[1] == sizeof *x) {
      memcpy(x, from, m * sizeof *x);
    } else {
      for (size_t j = 0; j < m; j++) x[j] = ETI_CAT(float, from, j, s[1]);
    }
    for (size_t j = 0; j < m; j++) y[j] = STEP(common_f32)(x[j]);
    for (size_t j = 0; j < m; j++) rare |= (unsigned)STEP(is_rare_f32)(x[j]);
    for (size_t j = 0; j < m && rare != 0; j++) {
      if (STEP(is_rare_f32)(x[j])) y[j] = (float)SPECIAL((double)x[j], false);
    }
    if (s[0] == sizeof *y) {
      memcpy(to, y, m * sizeof *y);
    } else {
      for (size_t j = 0; j < m; j++) ETI_AT(float, to, j, s[0]) = y[j];
    }
  }
}

#define LOOP_EXPR(x) SPECIAL(x, true)
#define LOOP_TYPES ET_TYPES_F64
#define LOOP_NO_TABLE
#include "kernels/loops/unary.inc.h"

#undef BLOCK
#undef FN
#undef STEP
#undef SPECIAL
