// eltwise_elu.body.h — the loop of elu of type T, part of eltwise.body.h: blocks that need no
// exponential, as after most normalisations, are only multiplied. The including file sets, and this
// file undefines: T, SUFFIX.
#define FN(name) ETI_LOOP_NAME(name, SUFFIX)
#define BLOCK 64u  // elements tested together

static bool FN(all_positive)(const void *x, ptrdiff_t stride, size_t n) {
  unsigned other = 0;
  if (stride == sizeof(T)) {
    const T *dense = x;
    for (size_t i = 0; i < n; i++) other |= (unsigned)!(dense[i] > 0);
  } else {
    for (size_t i = 0; i < n; i++) other |= (unsigned)!(ETI_CAT(T, x, i, stride) > 0);
  }
  return other == 0;
}

static void FN(elu)(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  ET_ASSERT(ETI_HOLDS(p[0], n, T) && ETI_HOLDS(p[1], n, T) && ETI_HOLDS(params, 3, T));
  for (size_t i = 0; i < n; i += BLOCK) {
    const size_t m = n - i < BLOCK ? n - i : BLOCK;
    void *const q[2] = {(char *)p[0] + (ptrdiff_t)i * s[0], (char *)p[1] + (ptrdiff_t)i * s[1]};
    (FN(all_positive)(q[1], s[1], m) ? FN(elu_positive) : FN(elu_mixed))(q, s, m, params);
  }
}

#undef BLOCK
#undef FN
#undef T
#undef SUFFIX
