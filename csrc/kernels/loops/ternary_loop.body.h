// ternary_loop.body.h — one type's loop of ternary_loop.inc.h: the first input contiguous and each
// of the others contiguous or repeated, any other strides.
static void ETI_LOOP_NAME(LOOP_NAME, SUFFIX)(void *const p[], const ptrdiff_t s[], size_t n,
                                             const void *params) {
  ET_ASSERT(ETI_HOLDS(p[0], n, CTYPE) && ETI_HOLDS(p[1], n, CTYPE));
  ET_ASSERT(ETI_HOLDS(p[2], n, CTYPE) && ETI_HOLDS(p[3], n, CTYPE));
  (void)params;
  const ptrdiff_t bytes = (ptrdiff_t)sizeof(CTYPE);
  CTYPE *out = p[0];
  const CTYPE *first = p[1], *second = p[2], *third = p[3];
  const bool dense = s[0] == bytes && s[1] == bytes;
  if (dense && s[2] == bytes && s[3] == bytes) {
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) {
      const CTYPE a = first[i], b = second[i], c = third[i];
      const CTYPE t = (CTYPE)(LOOP_FIRST(a, b));
      out[i] = (CTYPE)(LOOP_SECOND(t, c));
    }
  } else if (dense && s[2] == 0 && s[3] == 0) {
    const CTYPE b = *second, c = *third;
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) {
      const CTYPE a = first[i];
      const CTYPE t = (CTYPE)(LOOP_FIRST(a, b));
      out[i] = (CTYPE)(LOOP_SECOND(t, c));
    }
  } else if (dense && s[2] == bytes && s[3] == 0) {
    const CTYPE c = *third;
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) {
      const CTYPE a = first[i], b = second[i];
      const CTYPE t = (CTYPE)(LOOP_FIRST(a, b));
      out[i] = (CTYPE)(LOOP_SECOND(t, c));
    }
  } else if (dense && s[2] == 0 && s[3] == bytes) {
    const CTYPE b = *second;
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) {
      const CTYPE a = first[i], c = third[i];
      const CTYPE t = (CTYPE)(LOOP_FIRST(a, b));
      out[i] = (CTYPE)(LOOP_SECOND(t, c));
    }
  } else {
    for (size_t i = 0; i < n; i++) {
      const CTYPE a = ETI_CAT(CTYPE, p[1], i, s[1]), b = ETI_CAT(CTYPE, p[2], i, s[2]),
                  c = ETI_CAT(CTYPE, p[3], i, s[3]);
      const CTYPE t = (CTYPE)(LOOP_FIRST(a, b));
      ETI_AT(CTYPE, p[0], i, s[0]) = (CTYPE)(LOOP_SECOND(t, c));
    }
  }
}
