// scan_line.inc.h — running sums, products and extremes of one line of neighbours in the type they
// come and go in. Parameters, undefined at the end: SCAN_SUFFIX, SCAN_TYPE, and SCAN_ACC, the type
// that sums and products run in. Extremes are the last of equal ones, and NaN from the first on.
static void ETI_LOOP_NAME(sums, SCAN_SUFFIX)(void *to, const void *from, size_t n) {
  const SCAN_TYPE *const x = from;
  SCAN_TYPE *const out = to;
  SCAN_ACC at = 0;
  for (size_t e = 0; e < n; e++) out[e] = (SCAN_TYPE)(at += (SCAN_ACC)x[e]);
}

static void ETI_LOOP_NAME(products, SCAN_SUFFIX)(void *to, const void *from, size_t n) {
  const SCAN_TYPE *const x = from;
  SCAN_TYPE *const out = to;
  SCAN_ACC at = 1;
  for (size_t e = 0; e < n; e++) out[e] = (SCAN_TYPE)(at *= (SCAN_ACC)x[e]);
}

// Few elements are better than all before them: that is left to the prediction of branches.
static void ETI_LOOP_NAME(maxima, SCAN_SUFFIX)(void *to, int64_t *index, const void *from,
                                               size_t n) {
  const SCAN_TYPE *const x = from;
  SCAN_TYPE *const out = to;
  SCAN_TYPE best = x[0];
  int64_t at = 0;
  for (size_t e = 0; e < n; e++) {
    const SCAN_TYPE one = x[e];
    if (__builtin_expect((one >= best) | (one != one), 0)) best = one, at = (int64_t)e;
    out[e] = best;
    index[e] = at;
  }
}

static void ETI_LOOP_NAME(minima, SCAN_SUFFIX)(void *to, int64_t *index, const void *from,
                                               size_t n) {
  const SCAN_TYPE *const x = from;
  SCAN_TYPE *const out = to;
  SCAN_TYPE best = x[0];
  int64_t at = 0;
  for (size_t e = 0; e < n; e++) {
    const SCAN_TYPE one = x[e];
    if (__builtin_expect((one <= best) | (one != one), 0)) best = one, at = (int64_t)e;
    out[e] = best;
    index[e] = at;
  }
}
#undef SCAN_SUFFIX
#undef SCAN_TYPE
#undef SCAN_ACC
