// ternary.body.h — one type's loop of ternary.inc.h: contiguous, the last two inputs repeated,
// anything else.
static void ETI_LOOP_NAME(LOOP_NAME, SUFFIX)(void *const p[], const ptrdiff_t s[], size_t n,
                                             const void *params) {
  (void)params;
  const ptrdiff_t bytes = (ptrdiff_t)sizeof(CTYPE);
  CTYPE *out = p[0];
  const CTYPE *first = p[1], *second = p[2], *third = p[3];
  const bool dense = s[0] == bytes && s[1] == bytes;
  if (dense && s[2] == bytes && s[3] == bytes) {
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) {
      const CTYPE a = first[i], b = second[i], c = third[i];
      out[i] = (CTYPE)(LOOP_EXPR(a, b, c));
    }
    return;
  }
  if (dense && s[2] == 0 && s[3] == 0) {
    const CTYPE b = *second, c = *third;
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) {
      const CTYPE a = first[i];
      out[i] = (CTYPE)(LOOP_EXPR(a, b, c));
    }
    return;
  }
  for (size_t i = 0; i < n; i++) {
    const CTYPE a = ETI_CAT(CTYPE, p[1], i, s[1]), b = ETI_CAT(CTYPE, p[2], i, s[2]),
                c = ETI_CAT(CTYPE, p[3], i, s[3]);
    ETI_AT(CTYPE, p[0], i, s[0]) = (CTYPE)(LOOP_EXPR(a, b, c));
  }
}
