// row_reduce.inc.h — the two functions of one reduction (row_reduce.h). Parameters, undefined at
// the end:
//   REDUCE_NAME, REDUCE_TYPE    name, and type of elements
//   REDUCE_ACC                  type of accumulators, if another
//   REDUCE_EXPR(a, x, c)        accumulator, element, center
//   REDUCE_INIT, REDUCE_MERGE   neutral value, and merge of two accumulators; or instead
//   REDUCE_ROW(a, x, n, c)      accumulator and a row of n elements
//   REDUCE_EIGHT(a, x, s, c)    accumulator and eight elements s apart, if not in order
//   REDUCE_CENTERED             defined if the center is used
#ifdef REDUCE_CENTERED
#define REDUCE_CENTER(c, j) ((c)[j])
#define REDUCE_HAS_CENTER(c, w) ETI_HOLDS(c, w, REDUCE_TYPE)
#else
#define REDUCE_CENTER(c, j) 0
#define REDUCE_HAS_CENTER(c, w) true
#endif
#ifndef REDUCE_ACC
#define REDUCE_ACC REDUCE_TYPE
#endif

ETI_INLINE REDUCE_ACC ETI_LOOP_NAME(REDUCE_NAME, one)(REDUCE_ACC a, REDUCE_TYPE x, REDUCE_TYPE c) {
  (void)c;
  return REDUCE_EXPR(a, x, c);
}

#ifndef REDUCE_EIGHT
#define REDUCE_EIGHT(a, x, s, c) ETI_LOOP_NAME(REDUCE_NAME, eight)(a, x, s, c)
ETI_INLINE REDUCE_ACC ETI_LOOP_NAME(REDUCE_NAME, eight)(REDUCE_ACC a, const REDUCE_TYPE *x,
                                                        ptrdiff_t s, REDUCE_TYPE c) {
  a = ETI_LOOP_NAME(REDUCE_NAME, one)(a, x[0], c);
  a = ETI_LOOP_NAME(REDUCE_NAME, one)(a, x[s], c);
  a = ETI_LOOP_NAME(REDUCE_NAME, one)(a, x[2 * s], c);
  a = ETI_LOOP_NAME(REDUCE_NAME, one)(a, x[3 * s], c);
  a = ETI_LOOP_NAME(REDUCE_NAME, one)(a, x[4 * s], c);
  a = ETI_LOOP_NAME(REDUCE_NAME, one)(a, x[5 * s], c);
  a = ETI_LOOP_NAME(REDUCE_NAME, one)(a, x[6 * s], c);
  return ETI_LOOP_NAME(REDUCE_NAME, one)(a, x[7 * s], c);
}
#endif

#ifndef REDUCE_ROW
#define REDUCE_ROW(a, x, n, c) ETI_LOOP_NAME(REDUCE_NAME, row)(a, x, n, c)
#define LANES (ETI_ROW_LANES * 8u / sizeof(REDUCE_TYPE))

ETI_INLINE void ETI_LOOP_NAME(REDUCE_NAME, halve)(REDUCE_TYPE *lane, size_t half) {
  for (size_t l = 0; l < half; l++) lane[l] = REDUCE_MERGE(lane[l], lane[l + half]);
}

// Element i goes to lane i mod LANES for whole vectors of lanes; the rest are added in order.
ETI_INLINE REDUCE_TYPE ETI_LOOP_NAME(REDUCE_NAME, row)(REDUCE_TYPE a, const REDUCE_TYPE *e,
                                                       size_t n, REDUCE_TYPE c) {
  (void)c;
  size_t i = 0;
  if (n >= LANES) {
    REDUCE_TYPE lane[LANES];
    for (size_t l = 0; l < LANES; l++) lane[l] = REDUCE_INIT;
    for (; i + LANES <= n; i += LANES)
      for (size_t l = 0; l < LANES; l++) lane[l] = REDUCE_EXPR(lane[l], e[i + l], c);
    // Halves of a constant size vectorise.
    if (LANES > 128) ETI_LOOP_NAME(REDUCE_NAME, halve)(lane, 128);
    if (LANES > 64) ETI_LOOP_NAME(REDUCE_NAME, halve)(lane, 64);
    if (LANES > 32) ETI_LOOP_NAME(REDUCE_NAME, halve)(lane, 32);
    ETI_LOOP_NAME(REDUCE_NAME, halve)(lane, 16);
    ETI_LOOP_NAME(REDUCE_NAME, halve)(lane, 8);
    ETI_LOOP_NAME(REDUCE_NAME, halve)(lane, 4);
    ETI_LOOP_NAME(REDUCE_NAME, halve)(lane, 2);
    ETI_LOOP_NAME(REDUCE_NAME, halve)(lane, 1);
    a = REDUCE_MERGE(a, lane[0]);
  }
  for (; i < n; i++) a = REDUCE_EXPR(a, e[i], c);
  return a;
}
#undef LANES
#endif

static void ETI_LOOP_NAME(REDUCE_NAME, rows)(void *acc, const void *x, ptrdiff_t step, size_t n,
                                             size_t w, const void *center) {
  ET_ASSERT(n > 0 && ETI_HOLDS(acc, w, REDUCE_ACC) && ETI_HOLDS(x, w, REDUCE_TYPE));
  ET_ASSERT(REDUCE_HAS_CENTER(center, w));
  REDUCE_ACC *a = acc;
  const REDUCE_TYPE *e = x, *c = center;
  (void)c;
  for (size_t j = 0; j < w; j++, e += step) {
    a[j] = REDUCE_ROW(a[j], e, n, REDUCE_CENTER(c, j));
  }
}

static void ETI_LOOP_NAME(REDUCE_NAME, columns)(void *acc, const void *x, ptrdiff_t step, size_t n,
                                                size_t w, const void *center) {
  ET_ASSERT(n > 0 && ETI_HOLDS(acc, w, REDUCE_ACC) && ETI_HOLDS(x, w, REDUCE_TYPE));
  ET_ASSERT(REDUCE_HAS_CENTER(center, w));
  REDUCE_ACC *a = acc;
  const REDUCE_TYPE *e = x, *c = center;
  (void)c;
  size_t i = 0;
  for (; i + 8 <= n; i += 8, e += 8 * step) {
    ETI_NO_DEPENDENCES
    for (size_t j = 0; j < w; j++) a[j] = REDUCE_EIGHT(a[j], e + j, step, REDUCE_CENTER(c, j));
  }
  for (; i < n; i++, e += step) {
    ETI_NO_DEPENDENCES
    for (size_t j = 0; j < w; j++)
      a[j] = ETI_LOOP_NAME(REDUCE_NAME, one)(a[j], e[j], REDUCE_CENTER(c, j));
  }
}
#undef REDUCE_NAME
#undef REDUCE_TYPE
#undef REDUCE_ACC
#undef REDUCE_INIT
#undef REDUCE_EXPR
#undef REDUCE_MERGE
#undef REDUCE_ROW
#undef REDUCE_EIGHT
#undef REDUCE_CENTER
#undef REDUCE_HAS_CENTER
#undef REDUCE_CENTERED
