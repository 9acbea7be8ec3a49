// reduce.inc.h — the two functions of a reducer (reduction.h) whose elements and accumulators have
// one type. Parameters, undefined at the end: REDUCE_NAME, REDUCE_TYPE, REDUCE_EXPR(accumulator,
// element, center). One accumulator, in order: these types are rare or cheap.
static void ETI_LOOP_NAME(REDUCE_NAME, columns)(void *acc, const void *x, size_t n,
                                                const void *center) {
  REDUCE_TYPE *a = acc;
  const REDUCE_TYPE *e = x, *c = center;
  (void)c;
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) a[i] = REDUCE_EXPR(a[i], e[i], c[i]);
}

static void ETI_LOOP_NAME(REDUCE_NAME, row)(void *acc, const void *x, size_t n,
                                            const void *center) {
  const REDUCE_TYPE *e = x;
  const REDUCE_TYPE c = center == NULL ? 0 : *(const REDUCE_TYPE *)center;
  (void)c;
  REDUCE_TYPE a = *(REDUCE_TYPE *)acc;
  for (size_t i = 0; i < n; i++) a = REDUCE_EXPR(a, e[i], c);
  *(REDUCE_TYPE *)acc = a;
}
#undef REDUCE_NAME
#undef REDUCE_TYPE
#undef REDUCE_EXPR
