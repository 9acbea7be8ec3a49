// eltwise_special.body.h — the loop of a special function of one type, part of eltwise.body.h:
// straight-line arithmetic for whole blocks, and the general method for rare operands. Parameters:
// T and SUFFIX, WIDE (is it f64?), and, undefined by special_float.inc.h, LOOP_NAME and SPECIAL(x,
// wide) of special_functions.h.
#define STEP(part) ETI_LOOP_NAME(ETI_LOOP_NAME(ETI_LOOP_NAME(eti, LOOP_NAME), part), SUFFIX)
#define BLOCK 64u  // elements tested together

static void ETI_LOOP_NAME(LOOP_NAME, SUFFIX)(void *const p[], const ptrdiff_t s[], size_t n,
                                             const void *params) {
  ET_ASSERT(ETI_HOLDS(p[0], n, T) && ETI_HOLDS(p[1], n, T));
  (void)params;
  for (size_t i = 0; i < n; i += BLOCK) {
    const size_t m = n - i < BLOCK ? n - i : BLOCK;
    const char *const from = (const char *)p[1] + (ptrdiff_t)i * s[1];
    char *const to = (char *)p[0] + (ptrdiff_t)i * s[0];
    T x[BLOCK], y[BLOCK];
    unsigned rare = 0;
    if (s[1] == sizeof *x) {
      memcpy(x, from, m * sizeof *x);
    } else {
      for (size_t j = 0; j < m; j++) x[j] = ETI_CAT(T, from, j, s[1]);
    }
    for (size_t j = 0; j < m; j++) y[j] = STEP(common)(x[j]);
    for (size_t j = 0; j < m; j++) rare |= (unsigned)STEP(is_rare)(x[j]);
    for (size_t j = 0; j < m && rare != 0; j++) {
      if (STEP(is_rare)(x[j])) y[j] = (T)SPECIAL((double)x[j], WIDE);
    }
    if (s[0] == sizeof *y) {
      memcpy(to, y, m * sizeof *y);
    } else {
      for (size_t j = 0; j < m; j++) ETI_AT(T, to, j, s[0]) = y[j];
    }
  }
}

#undef BLOCK
#undef STEP
