// reduce_row.inc.h — the two functions of one reduction. Parameters, undefined at the end:
// REDUCE_NAME, REDUCE_TYPE, REDUCE_INIT (neutral), REDUCE_EXPR(accumulator, element, center),
// REDUCE_MERGE(accumulator, accumulator).
#define LANES (256u / sizeof(REDUCE_TYPE))

static void ETI_LOOP_NAME(REDUCE_NAME, columns)(void *acc, const void *x, size_t n,
                                                const void *center) {
  REDUCE_TYPE *a = acc;
  const REDUCE_TYPE *e = x, *c = center;
  (void)c;
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) a[i] = REDUCE_EXPR(a[i], e[i], c[i]);
}

// Element i in lane i mod LANES while whole vectors of lanes last; the others in order.
static void ETI_LOOP_NAME(REDUCE_NAME, row)(void *acc, const void *x, size_t n,
                                            const void *center) {
  const REDUCE_TYPE *e = x;
  const REDUCE_TYPE c = center == NULL ? 0 : *(const REDUCE_TYPE *)center;
  (void)c;
  REDUCE_TYPE a = *(REDUCE_TYPE *)acc;
  size_t i = 0;
  if (n >= LANES) {
    REDUCE_TYPE lane[LANES];
    for (size_t l = 0; l < LANES; l++) lane[l] = REDUCE_INIT;
    for (; i + LANES <= n; i += LANES)
      for (size_t l = 0; l < LANES; l++) lane[l] = REDUCE_EXPR(lane[l], e[i + l], c);
    for (size_t half = LANES / 2; half > 0; half /= 2)
      for (size_t l = 0; l < half; l++) lane[l] = REDUCE_MERGE(lane[l], lane[l + half]);
    a = REDUCE_MERGE(a, lane[0]);
  }
  for (; i < n; i++) a = REDUCE_EXPR(a, e[i], c);
  *(REDUCE_TYPE *)acc = a;
}
#undef LANES
#undef REDUCE_NAME
#undef REDUCE_TYPE
#undef REDUCE_INIT
#undef REDUCE_EXPR
#undef REDUCE_MERGE
