// binary_loop.body.h — one type's loop of binary_loop.inc.h: contiguous, one input repeated, any
// other strides.

// Each operand is contiguous or one repeated element; callers pass which one as a constant.
ETI_LOOP_INLINE void ETI_LOOP_NAME(ETI_LOOP_NAME(LOOP_NAME, dense),
                                   SUFFIX)(LOOP_OUT *out, const CTYPE *left, const CTYPE *right,
                                           size_t n, const CTYPE *k, const bool repeats_left,
                                           const bool repeats_right) {
  (void)k;
  const CTYPE one_left = repeats_left ? *left : 0, one_right = repeats_right ? *right : 0;
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) {
    const CTYPE a = repeats_left ? one_left : left[i], b = repeats_right ? one_right : right[i];
    out[i] = (LOOP_OUT)(LOOP_EXPR(a, b));
  }
}

static void ETI_LOOP_NAME(LOOP_NAME, SUFFIX)(void *const p[], const ptrdiff_t s[], size_t n,
                                             const void *params) {
  ET_ASSERT(ETI_HOLDS(p[0], n, LOOP_OUT) && ETI_HOLDS_OR_NULL(params, CTYPE));
  ET_ASSERT(ETI_HOLDS(p[1], n, CTYPE) && ETI_HOLDS(p[2], n, CTYPE));
  // A local copy, because the compiler must assume that the output overlaps the parameters.
  CTYPE k[3] = {0};
  if (params != NULL) memcpy(k, params, sizeof k);
  const ptrdiff_t bytes = (ptrdiff_t)sizeof(CTYPE);
  const bool fills = s[0] == (ptrdiff_t)sizeof(LOOP_OUT);
#define DENSE ETI_LOOP_NAME(ETI_LOOP_NAME(LOOP_NAME, dense), SUFFIX)
  if (fills && s[1] == bytes && s[2] == bytes) {
    DENSE(p[0], p[1], p[2], n, k, false, false);
    return;
  }
  if (fills && s[1] == bytes && s[2] == 0) {
    DENSE(p[0], p[1], p[2], n, k, false, true);
    return;
  }
  if (fills && s[1] == 0 && s[2] == bytes) {
    DENSE(p[0], p[1], p[2], n, k, true, false);
    return;
  }
#undef DENSE
  for (size_t i = 0; i < n; i++) {
    const CTYPE a = ETI_CAT(CTYPE, p[1], i, s[1]), b = ETI_CAT(CTYPE, p[2], i, s[2]);
    ETI_AT(LOOP_OUT, p[0], i, s[0]) = (LOOP_OUT)(LOOP_EXPR(a, b));
  }
}
