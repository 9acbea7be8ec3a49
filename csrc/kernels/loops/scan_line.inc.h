// scan_line.inc.h — cumulative sums, products and extremes of one contiguous line. Parameters,
// undefined at the end: SCAN_SUFFIX, SCAN_TYPE of elements, and SCAN_ACC, the type that sums and
// products accumulate in. Extremes are the last of equal ones, and NaN from the first on.
static void ETI_LOOP_NAME(sums, SCAN_SUFFIX)(void *to, const void *from, size_t n) {
  ET_ASSERT(ETI_HOLDS(to, n, SCAN_TYPE) && ETI_HOLDS(from, n, SCAN_TYPE));
  const SCAN_TYPE *const x = from;
  SCAN_TYPE *const out = to;
  SCAN_ACC at = 0;
  for (size_t e = 0; e < n; e++) out[e] = (SCAN_TYPE)(at += (SCAN_ACC)x[e]);
}

static void ETI_LOOP_NAME(products, SCAN_SUFFIX)(void *to, const void *from, size_t n) {
  ET_ASSERT(ETI_HOLDS(to, n, SCAN_TYPE) && ETI_HOLDS(from, n, SCAN_TYPE));
  const SCAN_TYPE *const x = from;
  SCAN_TYPE *const out = to;
  SCAN_ACC at = 1;
  for (size_t e = 0; e < n; e++) out[e] = (SCAN_TYPE)(at *= (SCAN_ACC)x[e]);
}

// New extremes are rare, so the branch is predicted well.
static void ETI_LOOP_NAME(maxima, SCAN_SUFFIX)(void *to, int64_t *index, const void *from,
                                               size_t n) {
  ET_ASSERT(n > 0 && ETI_HOLDS(to, n, SCAN_TYPE) && ETI_HOLDS(from, n, SCAN_TYPE));
  ET_ASSERT(ETI_HOLDS(index, n, int64_t));
  const SCAN_TYPE *const x = from;
  SCAN_TYPE *const out = to;
  SCAN_TYPE best = x[0];
  int64_t at = 0;
  for (size_t e = 0; e < n; e++) {
    const SCAN_TYPE one = x[e];
    if (__builtin_expect((one >= best) | ETI_IS_NAN(one), 0)) best = one, at = (int64_t)e;
    out[e] = best;
    index[e] = at;
  }
}

static void ETI_LOOP_NAME(minima, SCAN_SUFFIX)(void *to, int64_t *index, const void *from,
                                               size_t n) {
  ET_ASSERT(n > 0 && ETI_HOLDS(to, n, SCAN_TYPE) && ETI_HOLDS(from, n, SCAN_TYPE));
  ET_ASSERT(ETI_HOLDS(index, n, int64_t));
  const SCAN_TYPE *const x = from;
  SCAN_TYPE *const out = to;
  SCAN_TYPE best = x[0];
  int64_t at = 0;
  for (size_t e = 0; e < n; e++) {
    const SCAN_TYPE one = x[e];
    if (__builtin_expect((one <= best) | ETI_IS_NAN(one), 0)) best = one, at = (int64_t)e;
    out[e] = best;
    index[e] = at;
  }
}
#undef SCAN_SUFFIX
#undef SCAN_TYPE
#undef SCAN_ACC
