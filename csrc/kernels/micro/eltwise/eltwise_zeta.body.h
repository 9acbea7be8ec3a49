// eltwise_zeta.body.h — the loop of zeta of one type, part of eltwise.body.h. Blocks without a sum
// to compute are answered at once; other blocks use vector arithmetic, and rare pairs the general
// method. Parameters, undefined at the end: T, SUFFIX, WIDE (is it f64?).
#define BLOCK 64u  // pairs tested together

static void ETI_LOOP_NAME(zeta, SUFFIX)(void *const p[], const ptrdiff_t s[], size_t n,
                                        const void *params) {
  ET_ASSERT(ETI_HOLDS(p[0], n, T) && ETI_HOLDS(p[1], n, T) && ETI_HOLDS(p[2], n, T));
  (void)params;
  for (size_t i = 0; i < n; i += BLOCK) {
    const size_t m = n - i < BLOCK ? n - i : BLOCK;
    const char *const left = (const char *)p[1] + (ptrdiff_t)i * s[1];
    const char *const right = (const char *)p[2] + (ptrdiff_t)i * s[2];
    char *const to = (char *)p[0] + (ptrdiff_t)i * s[0];
    T x[BLOCK], q[BLOCK], y[BLOCK];
    unsigned rare = 0, sums = 0;
    for (size_t j = 0; j < m; j++) x[j] = ETI_CAT(T, left, j, s[1]);
    for (size_t j = 0; j < m; j++) q[j] = ETI_CAT(T, right, j, s[2]);
    for (size_t j = 0; j < m; j++) sums |= (unsigned)!(x[j] <= (T)1);
    for (size_t j = 0; j < m && sums != 0; j++)
      rare |= (unsigned)ETI_LOOP_NAME(eti_zeta_is_rare, SUFFIX)(x[j], q[j]);
    if (sums == 0) {
      for (size_t j = 0; j < m; j++) y[j] = x[j] == (T)1 ? (T)INFINITY : (T)NAN;
    } else {
      ETI_LOOP_NAME(eti_zeta_all, SUFFIX)(y, x, q, m);
    }
    for (size_t j = 0; j < m && rare != 0; j++) {
      if (ETI_LOOP_NAME(eti_zeta_is_rare, SUFFIX)(x[j], q[j]))
        y[j] = (T)eti_zeta((double)x[j], (double)q[j], WIDE);
    }
    for (size_t j = 0; j < m; j++) ETI_AT(T, to, j, s[0]) = y[j];
  }
}

#undef BLOCK
#undef T
#undef SUFFIX
#undef WIDE
