// eltwise_special.body.h — the loop of a special function of one type, part of eltwise.body.h:
// straight-line arithmetic for whole blocks, and the general method for rare operands. Parameters:
// T and SUFFIX, WIDE (is it f64?), and, undefined by special_float.inc.h, LOOP_NAME and SPECIAL(x,
// wide) of special_functions.h.
#define STEP(part) ETI_LOOP_NAME(ETI_LOOP_NAME(ETI_LOOP_NAME(eti, LOOP_NAME), part), SUFFIX)
#define FN(name) ETI_LOOP_NAME(name, SUFFIX)
#define BLOCK 64u  // elements tested together

static void ETI_LOOP_NAME(LOOP_NAME, SUFFIX)(void *const p[], const ptrdiff_t s[], size_t n,
                                             const void *params) {
  ET_ASSERT(ETI_HOLDS(p[0], n, T) && ETI_HOLDS(p[1], n, T));
  (void)params;
  for (size_t i = 0; i < n; i += BLOCK) {
    const size_t m = n - i < BLOCK ? n - i : BLOCK;
    const size_t whole = ETI_WHOLE_VECTORS(T, m + ETI_LANES(T) - 1);
    T x[BLOCK], y[BLOCK];
    unsigned rare = 0;
    FN(fill_vectors)(x, (const char *)p[1] + (ptrdiff_t)i * s[1], s[1], m);
    for (size_t j = 0; j != whole; j++) y[j] = STEP(common)(x[j]);
    for (size_t j = 0; j != whole; j++) rare |= (unsigned)STEP(is_rare)(x[j]);
    for (size_t j = 0; j < m && rare != 0; j++) {
      if (STEP(is_rare)(x[j])) y[j] = (T)SPECIAL((double)x[j], WIDE);
    }
    FN(store_elements)((char *)p[0] + (ptrdiff_t)i * s[0], s[0], y, m);
  }
}

#undef FN
#undef BLOCK
#undef STEP
