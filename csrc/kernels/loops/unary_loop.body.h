// unary_loop.body.h — one type's loop of unary_loop.inc.h: contiguous, or not. With LOOP_PACKS the
// latter is packed in pieces, so that it is vectorised as well.
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
#ifdef LOOP_PACKS
  if (n >= ETI_LOOP_FEW) {
    static const ptrdiff_t packed[2] = {(ptrdiff_t)sizeof(LOOP_OUT), (ptrdiff_t)sizeof(CTYPE)};
    LOOP_OUT out[ETI_LOOP_PIECE];
    CTYPE in[ETI_LOOP_PIECE];
    void *const q[2] = {out, in};
    for (size_t i = 0; i < n; i += ETI_LOOP_PIECE) {
      const size_t m = n - i < ETI_LOOP_PIECE ? n - i : ETI_LOOP_PIECE;
      for (size_t j = 0; j < m; j++) in[j] = ETI_CAT(CTYPE, p[1], i + j, s[1]);
      ETI_LOOP_NAME(LOOP_NAME, SUFFIX)(q, packed, m, params);
      for (size_t j = 0; j < m; j++) ETI_AT(LOOP_OUT, p[0], i + j, s[0]) = out[j];
    }
    return;
  }
#endif
  for (size_t i = 0; i < n; i++) {
    const CTYPE x = ETI_CAT(CTYPE, p[1], i, s[1]);
    ETI_AT(LOOP_OUT, p[0], i, s[0]) = (LOOP_OUT)(LOOP_EXPR(x));
  }
}
