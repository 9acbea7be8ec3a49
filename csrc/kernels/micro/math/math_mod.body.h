// math_mod.body.h — remainders and rounded quotients of two floats of type T. fmod is exact, so any
// method gives the same bits: if the quotient is below ETI_NEAR, its nearest integer is at most one
// off, and a fused multiply-add subtracts that many b from a without rounding. The including file
// sets, and this file undefines: T, SUFFIX.
#define FN_(name, suffix) name##_##suffix
#define FN2(name, suffix) FN_(name, suffix)
#define FN(name) FN2(name, SUFFIX)

// |a| modulo |b| with the sign of a, where |a| < ETI_NEAR · |b| or the result is NaN.
ETI_INLINE T FN(eti_near_mod)(T a, T b) {
  const T x = FN(eti_abs)(a), y = FN(eti_abs)(b);
  const T q = (x / y + FN(ETI_ROUND)) - FN(ETI_ROUND);
  T r = FN(eti_fma)(-q, y, x);
  r = r < 0 ? r + y : r;
  r = x < y ? x : r;  // also where b is infinite
  return FN(eti_copysign)(r, a);
}

ETI_INLINE T FN(eti_mod_positive)(T mod, T b) {
  return ((mod != 0) & ((b < 0) != (mod < 0))) ? mod + b : mod;
}

// Python's floor division, as ATen does it: the remainder decides, not the rounded quotient.
ETI_INLINE T FN(eti_div_floor)(T a, T b, T mod) {
  const T plain = a / b;
  T q = (a - mod) / b;
  q = ((mod != 0) & ((b < 0) != (mod < 0))) ? q - 1 : q;
  const T whole = FN(eti_floor)(q);
  T y = q - whole > (T)0.5 ? whole + 1 : whole;
  y = q == 0 ? FN(eti_copysign)(0, plain) : y;
  return b == 0 ? plain : y;
}

#undef FN
#undef FN2
#undef FN_
#undef T
#undef SUFFIX
