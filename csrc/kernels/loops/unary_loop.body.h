// unary_loop.body.h — one type's loop of unary_loop.inc.h: contiguous, or any strides.
static void ETI_LOOP_NAME(LOOP_NAME, SUFFIX)(void *const p[], const ptrdiff_t s[], size_t n,
                                             const void *params) {
  ET_ASSERT(ETI_HOLDS(p[0], n, LOOP_OUT) && ETI_HOLDS(p[1], n, CTYPE));
  ET_ASSERT(ETI_HOLDS_OR_NULL(params, CTYPE));
  CTYPE k[3] = {
      0};  // a copy, because the output might overlap the parameters for all the compiler knows
  if (params != NULL) memcpy(k, params, sizeof k);
  (void)k;
  if (s[0] == (ptrdiff_t)sizeof(LOOP_OUT) && s[1] == (ptrdiff_t)sizeof(CTYPE)) {
    LOOP_OUT *out = p[0];
    const CTYPE *in = p[1];
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) {
      const CTYPE x = in[i];
      out[i] = (LOOP_OUT)(LOOP_EXPR(x));
    }
    return;
  }
  for (size_t i = 0; i < n; i++) {
    const CTYPE x = ETI_CAT(CTYPE, p[1], i, s[1]);
    ETI_AT(LOOP_OUT, p[0], i, s[0]) = (LOOP_OUT)(LOOP_EXPR(x));
  }
}
