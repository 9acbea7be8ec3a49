// eltwise_zeta.body.h — the loop of zeta of one type, part of eltwise.body.h. Blocks without a sum
// to compute are answered at once; other blocks use vector arithmetic, and rare pairs the general
// method. Parameters, undefined at the end: T, SUFFIX, WIDE (is it f64?).
#define FN(name) ETI_LOOP_NAME(name, SUFFIX)
#define BLOCK 64u  // pairs tested together

static void ETI_LOOP_NAME(zeta, SUFFIX)(void *const p[], const ptrdiff_t s[], size_t n,
                                        const void *params) {
  ET_ASSERT(ETI_HOLDS(p[0], n, T) && ETI_HOLDS(p[1], n, T) && ETI_HOLDS(p[2], n, T));
  (void)params;
  for (size_t i = 0; i < n; i += BLOCK) {
    const size_t m = n - i < BLOCK ? n - i : BLOCK;
    const size_t whole = ETI_WHOLE_VECTORS(T, m + ETI_LANES(T) - 1);
    T x[BLOCK], q[BLOCK], y[BLOCK];
    unsigned rare = 0, sums = 0;
    FN(fill_vectors)(x, (const char *)p[1] + (ptrdiff_t)i * s[1], s[1], m);
    FN(fill_vectors)(q, (const char *)p[2] + (ptrdiff_t)i * s[2], s[2], m);
    for (size_t j = 0; j != whole; j++) sums |= (unsigned)!(x[j] <= (T)1);
    for (size_t j = 0; j != whole && sums != 0; j++)
      rare |= (unsigned)FN(eti_zeta_is_rare)(x[j], q[j]);
    if (sums == 0) {
      for (size_t j = 0; j != whole; j++) y[j] = x[j] == (T)1 ? (T)INFINITY : (T)NAN;
    } else {
      FN(eti_zeta_all)(y, x, q, whole);
    }
    for (size_t j = 0; j < m && rare != 0; j++) {
      if (FN(eti_zeta_is_rare)(x[j], q[j])) y[j] = (T)eti_zeta((double)x[j], (double)q[j], WIDE);
    }
    FN(store_elements)((char *)p[0] + (ptrdiff_t)i * s[0], s[0], y, m);
  }
}

#undef FN
#undef BLOCK
#undef T
#undef SUFFIX
#undef WIDE
