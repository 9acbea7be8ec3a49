// binary.body.h — one type's loop of binary.inc.h: contiguous, one input repeated, anything else.
// With LOOP_PACKS the latter is packed in pieces, so that it is computed as vectors, too.
static void ETI_LOOP_NAME(LOOP_NAME, SUFFIX)(void *const p[], const ptrdiff_t s[], size_t n,
                                             const void *params) {
  ET_ASSERT(ETI_HOLDS(p[0], n, LOOP_OUT) && ETI_HOLDS_OR_NULL(params, CTYPE));
  ET_ASSERT(ETI_HOLDS(p[1], n, CTYPE) && ETI_HOLDS(p[2], n, CTYPE));
  CTYPE k[3] = {
      0};  // a copy, because the output might overlap the parameters for all the compiler knows
  if (params != NULL) memcpy(k, params, sizeof k);
  (void)k;
  const bool dense = s[0] == (ptrdiff_t)sizeof(LOOP_OUT) && s[1] == (ptrdiff_t)sizeof(CTYPE);
  const bool repeats_left = s[0] == (ptrdiff_t)sizeof(LOOP_OUT) && s[1] == 0;
  if (dense && s[2] == (ptrdiff_t)sizeof(CTYPE)) {
    LOOP_OUT *out = p[0];
    const CTYPE *left = p[1], *right = p[2];
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) {
      const CTYPE a = left[i], b = right[i];
      out[i] = (LOOP_OUT)(LOOP_EXPR(a, b));
    }
    return;
  }
  if (dense && s[2] == 0) {
    LOOP_OUT *out = p[0];
    const CTYPE *left = p[1];
    const CTYPE b = *(const CTYPE *)p[2];
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) {
      const CTYPE a = left[i];
      out[i] = (LOOP_OUT)(LOOP_EXPR(a, b));
    }
    return;
  }
  if (repeats_left && s[2] == (ptrdiff_t)sizeof(CTYPE)) {
    LOOP_OUT *out = p[0];
    const CTYPE *right = p[2];
    const CTYPE a = *(const CTYPE *)p[1];
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) {
      const CTYPE b = right[i];
      out[i] = (LOOP_OUT)(LOOP_EXPR(a, b));
    }
    return;
  }
#ifdef LOOP_PACKS
  if (n >= ETI_LOOP_FEW) {
    static const ptrdiff_t packed[3] = {(ptrdiff_t)sizeof(LOOP_OUT), (ptrdiff_t)sizeof(CTYPE),
                                        (ptrdiff_t)sizeof(CTYPE)};
    LOOP_OUT out[ETI_LOOP_PIECE];
    CTYPE left[ETI_LOOP_PIECE], right[ETI_LOOP_PIECE];
    void *const q[3] = {out, left, right};
    for (size_t i = 0; i < n; i += ETI_LOOP_PIECE) {
      const size_t m = n - i < ETI_LOOP_PIECE ? n - i : ETI_LOOP_PIECE;
      for (size_t j = 0; j < m; j++) left[j] = ETI_CAT(CTYPE, p[1], i + j, s[1]);
      for (size_t j = 0; j < m; j++) right[j] = ETI_CAT(CTYPE, p[2], i + j, s[2]);
      ETI_LOOP_NAME(LOOP_NAME, SUFFIX)(q, packed, m, params);
      for (size_t j = 0; j < m; j++) ETI_AT(LOOP_OUT, p[0], i + j, s[0]) = out[j];
    }
    return;
  }
#endif
  for (size_t i = 0; i < n; i++) {
    const CTYPE a = ETI_CAT(CTYPE, p[1], i, s[1]), b = ETI_CAT(CTYPE, p[2], i, s[2]);
    ETI_AT(LOOP_OUT, p[0], i, s[0]) = (LOOP_OUT)(LOOP_EXPR(a, b));
  }
}
