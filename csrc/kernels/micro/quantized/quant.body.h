// quant.body.h — the loops of quant.h for integers of type T, as straight-line arithmetic that
// compilers vectorise. Adding and subtracting 1.5·2^23 (2^52 in f64) rounds a smaller number to an
// integer, halves to even. Larger numbers are limited first, since they saturate anyway. The
// including file sets, and this file undefines: T, SUFFIX. It may set QUANTIZE_TOKEN_GROUPS, which
// quantizes whole groups of a row and returns the number of elements done.

#define CAT_(a, b) a##_##b
#define CAT(a, b) CAT_(a, b)
#define FN(name) CAT(name, SUFFIX)

// Limits are whole numbers of T's range, so that the conversion to T is exact.
static inline bool FN(has_limits)(const eti_quant_row *r) {
  return r != NULL && r->low >= -ETI_QUANT_LIMIT && r->low <= r->high && r->high <= ETI_QUANT_LIMIT;
}

// NaN passes the comparisons and becomes 0.
static inline __attribute__((always_inline)) T FN(limited)(float q, float low, float high) {
  q = q < low ? low : q;
  q = q > high ? high : q;
  q = q == q ? q : 0.0f;
  return (T)(int32_t)q;
}

static inline __attribute__((always_inline)) T FN(one)(float x, float inverse, float zero,
                                                       float low, float high) {
  float s = x * inverse;
  s = s > 0x1p22f ? 0x1p22f : s;
  s = s < -0x1p22f ? -0x1p22f : s;
  return FN(limited)(((s + 0x1.8p23f) - 0x1.8p23f) + zero, low, high);
}

static void FN(quantize)(void *dst, const float *x, const eti_quant_row *r, size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, T) && ETI_HOLDS(x, n, float));
  ET_ASSERT(FN(has_limits)(r) && ETI_HOLDS(r->inverse, 1, float) && ETI_HOLDS(r->zero, 1, float));
  T *restrict const q = dst;
  const float inverse = r->inverse[0], zero = r->zero[0], low = r->low, high = r->high;
  for (size_t i = 0; i < n; i++) q[i] = FN(one)(x[i], inverse, zero, low, high);
}

static void FN(quantize_each)(void *dst, const float *x, const eti_quant_row *r, size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, T) && ETI_HOLDS(x, n, float));
  ET_ASSERT(FN(has_limits)(r) && ETI_HOLDS(r->inverse, n, float) && ETI_HOLDS(r->zero, n, float));
  T *restrict const q = dst;
  const float *restrict const inverse = r->inverse, *restrict const zero = r->zero;
  const float low = r->low, high = r->high;
  for (size_t i = 0; i < n; i++) q[i] = FN(one)(x[i], inverse[i], zero[i], low, high);
}

static void FN(quantize_token)(void *dst, const float *x, double inverse, double zero,
                               const eti_quant_row *r, size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, T) && ETI_HOLDS(x, n, float) && FN(has_limits)(r));
  T *restrict const q = dst;
  const float low = r->low, high = r->high;
  size_t i = 0;
#ifdef QUANTIZE_TOKEN_GROUPS
  i = QUANTIZE_TOKEN_GROUPS(q, sizeof(T), x, inverse, zero, low, high, n);
#endif
  for (; i < n; i++) {
    double s = (double)x[i] * inverse + zero;
    s = s > 0x1p40 ? 0x1p40 : s;
    s = s < -0x1p40 ? -0x1p40 : s;
    q[i] = FN(limited)((float)((s + 0x1.8p52) - 0x1.8p52), low, high);
  }
}

static void FN(dequantize)(float *y, const void *src, const eti_quant_row *r, size_t n) {
  ET_ASSERT(ETI_HOLDS(y, n, float) && ETI_HOLDS(src, n, T));
  ET_ASSERT(r != NULL && ETI_HOLDS(r->scale, 1, float) && ETI_HOLDS(r->zero, 1, float));
  const T *restrict const q = src;
  const float scale = r->scale[0], zero = r->zero[0];
  for (size_t i = 0; i < n; i++) y[i] = ((float)(int32_t)q[i] - zero) * scale;
}

static void FN(dequantize_each)(float *y, const void *src, const eti_quant_row *r, size_t n) {
  ET_ASSERT(ETI_HOLDS(y, n, float) && ETI_HOLDS(src, n, T));
  ET_ASSERT(r != NULL && ETI_HOLDS(r->scale, n, float) && ETI_HOLDS(r->zero, n, float));
  const T *restrict const q = src;
  const float *restrict const scale = r->scale, *restrict const zero = r->zero;
  for (size_t i = 0; i < n; i++) y[i] = ((float)(int32_t)q[i] - zero[i]) * scale[i];
}

static void FN(dequantize_token)(float *y, const void *src, double scale, double zero, size_t n) {
  ET_ASSERT(ETI_HOLDS(y, n, float) && ETI_HOLDS(src, n, T));
  const T *restrict const q = src;
  for (size_t i = 0; i < n; i++) y[i] = (float)(((double)(int32_t)q[i] - zero) * scale);
}

#undef FN
#undef CAT
#undef CAT_
#undef T
#undef SUFFIX
