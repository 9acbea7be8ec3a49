// eltwise_angle.body.h — the loop of a circular function whose large arguments need another
// reduction, part of eltwise.body.h. The including file sets, and this file undefines: T, SUFFIX,
// and UINT, the unsigned integer as wide as T.
#define FN(name) ETI_LOOP_NAME(name, SUFFIX)
#define ANGLES 64u  // tested together

// True if some |x| is ETI_LARGE_ANGLE or more. Also true for a NaN, as maxima of bit patterns
// vectorise.
static bool FN(any_large)(const void *x, ptrdiff_t stride, size_t n) {
  UINT most = 0;
  if (stride == sizeof(T)) {
    const T *dense = x;
    for (size_t i = 0; i < n; i++) {
      const UINT bits = FN(eti_bits)(FN(eti_abs)(dense[i]));
      most = bits > most ? bits : most;
    }
  } else {
    for (size_t i = 0; i < n; i++) {
      const UINT bits = FN(eti_bits)(FN(eti_abs)(ETI_CAT(T, x, i, stride)));
      most = bits > most ? bits : most;
    }
  }
  return most >= FN(eti_bits)(FN(ETI_LARGE_ANGLE));
}

typedef struct FN(angle_loops) {
  eti_loop small, wide;
  T (*huge)(T x);
} FN(angle_loops);

// Computes at most ANGLES elements, each by the method for its own size, whatever its neighbours
// are.
static void FN(mixed_angles)(void *const p[], const ptrdiff_t s[], size_t n,
                             const FN(angle_loops) * f) {
  static const ptrdiff_t dense[2] = {sizeof(T), sizeof(T)};
  T x[ANGLES], small[ANGLES], wide[ANGLES];
  for (size_t i = 0; i < n; i++) x[i] = ETI_CAT(T, p[1], i, s[1]);
  f->small((void *[]){small, x}, dense, n, NULL);
  f->wide((void *[]){wide, x}, dense, n, NULL);
  for (size_t i = 0; i < n; i++) {
    const T a = FN(eti_abs)(x[i]);
    ETI_AT(T, p[0], i, s[0]) = a >= FN(ETI_HUGE_ANGLE)    ? f->huge(x[i])
                               : a >= FN(ETI_LARGE_ANGLE) ? wide[i]
                                                          : small[i];
  }
}

static void FN(angles)(void *const p[], const ptrdiff_t s[], size_t n, const FN(angle_loops) * f) {
  ET_ASSERT(ETI_HOLDS(p[0], n, T) && ETI_HOLDS(p[1], n, T));
  for (size_t i = 0; i < n; i += ANGLES) {
    const size_t m = n - i < ANGLES ? n - i : ANGLES;
    void *const q[2] = {(char *)p[0] + (ptrdiff_t)i * s[0], (char *)p[1] + (ptrdiff_t)i * s[1]};
    if (FN(any_large)(q[1], s[1], m)) {
      FN(mixed_angles)(q, s, m, f);
    } else {
      f->small(q, s, m, NULL);
    }
  }
}

#undef ANGLES
#undef FN
#undef T
#undef UINT
#undef SUFFIX
