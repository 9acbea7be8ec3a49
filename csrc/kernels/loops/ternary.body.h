// ternary.body.h — one type's loop of ternary.inc.h.
static void ETI_LOOP_NAME(LOOP_NAME, SUFFIX)(void *const p[], const ptrdiff_t s[], size_t n,
                                             const void *params) {
  (void)params;
  for (size_t i = 0; i < n; i++) {
    const CTYPE a = ETI_CAT(CTYPE, p[1], i, s[1]), b = ETI_CAT(CTYPE, p[2], i, s[2]),
                c = ETI_CAT(CTYPE, p[3], i, s[3]);
    ETI_AT(CTYPE, p[0], i, s[0]) = (CTYPE)(LOOP_EXPR(a, b, c));
  }
}
