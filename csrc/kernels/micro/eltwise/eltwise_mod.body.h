// eltwise_mod.body.h — loops of remainders of type T, part of eltwise.body.h. Blocks with small
// quotients use exact vector arithmetic; others use libm's fmod, which is exact, too. The including
// file sets, and this file undefines: T, SUFFIX.
#define FN(name) ETI_LOOP_NAME(name, SUFFIX)
#define PAIRS 256u  // tested together

// True if a quotient reaches ETI_NEAR; pairs without a remainder do not count.
ETI_INLINE unsigned FN(is_far)(T a, T b) {
  const T x = FN(eti_abs)(a), y = FN(eti_abs)(b);
  return (unsigned)((x >= y * FN(ETI_NEAR)) & (y > 0) & (x < (T)INFINITY));
}

static bool FN(any_far)(void *const p[], const ptrdiff_t s[], size_t n) {
  unsigned far = 0;
  if (s[1] == sizeof(T) && s[2] == sizeof(T)) {
    const T *a = p[1], *b = p[2];
    for (size_t i = 0; i < n; i++) far |= FN(is_far)(a[i], b[i]);
  } else if (s[1] == sizeof(T) && s[2] == 0) {
    const T *a = p[1], b = *(const T *)p[2];
    for (size_t i = 0; i < n; i++) far |= FN(is_far)(a[i], b);
  } else {
    for (size_t i = 0; i < n; i++)
      far |= FN(is_far)(ETI_CAT(T, p[1], i, s[1]), ETI_CAT(T, p[2], i, s[2]));
  }
  return far != 0;
}

static void FN(remainders)(void *const p[], const ptrdiff_t s[], size_t n, eti_loop near,
                           eti_loop far) {
  ET_ASSERT(ETI_HOLDS(p[0], n, T) && ETI_HOLDS(p[1], n, T) && ETI_HOLDS(p[2], n, T));
  for (size_t i = 0; i < n; i += PAIRS) {
    const size_t m = n - i < PAIRS ? n - i : PAIRS;
    void *q[3];
    for (size_t k = 0; k < 3; k++) q[k] = (char *)p[k] + (ptrdiff_t)i * s[k];
    (FN(any_far)(q, s, m) ? far : near)(q, s, m, NULL);
  }
}

static void FN(fmod)(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  (void)params;
  FN(remainders)(p, s, n, FN(fmod_near), FN(fmod_far));
}
static void FN(remainder)(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  (void)params;
  FN(remainders)(p, s, n, FN(remainder_near), FN(remainder_far));
}
static void FN(div_floor)(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  (void)params;
  FN(remainders)(p, s, n, FN(div_floor_near), FN(div_floor_far));
}

#undef PAIRS
#undef FN
#undef T
#undef SUFFIX
