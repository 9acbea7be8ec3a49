// row_norm.body.h — the loops of row_norm.h for element type T, written so that compilers turn the
// 16 lanes into vectors. The including file sets, and this file undefines: T, SUFFIX.

#define CAT_(a, b) a##_##b
#define CAT(a, b) CAT_(a, b)
#define FN(name) CAT(name, SUFFIX)

ETI_INLINE void FN(halve)(T *lanes, size_t half) {
  for (size_t i = 0; i < half; i++) lanes[i] += lanes[i + half];
}

// Adds halves of a constant size, which vectorise.
static inline T FN(tree)(T lanes[16]) {
  FN(halve)(lanes, 8);
  FN(halve)(lanes, 4);
  FN(halve)(lanes, 2);
  return lanes[0] + lanes[1];
}

static double FN(sum)(void *carried, const void *src, size_t n) {
  ET_ASSERT(ETI_HOLDS_OR_NULL(carried, T) && ETI_HOLDS(src, n, T));
  const T *const x = src;
  T lanes[16] = {0};
  size_t i = 0;
  if (carried != NULL) memcpy(lanes, carried, sizeof lanes);
  for (; i + 16 <= n; i += 16) {
    for (size_t l = 0; l < 16; l++) lanes[l] += x[i + l];
  }
  for (size_t l = 0; i + l < n; l++) lanes[l] += x[i + l];
  if (carried != NULL) memcpy(carried, lanes, sizeof lanes);
  return (double)FN(tree)(lanes);
}

static double FN(squares)(void *carried, const void *src, double mean_, size_t n) {
  ET_ASSERT(ETI_HOLDS_OR_NULL(carried, T) && ETI_HOLDS(src, n, T));
  const T *const x = src;
  const T mean = (T)mean_;
  T lanes[16] = {0};
  size_t i = 0;
  if (carried != NULL) memcpy(lanes, carried, sizeof lanes);
  for (; i + 16 <= n; i += 16) {
    for (size_t l = 0; l < 16; l++) lanes[l] += (x[i + l] - mean) * (x[i + l] - mean);
  }
  for (size_t l = 0; i + l < n; l++) lanes[l] += (x[i + l] - mean) * (x[i + l] - mean);
  if (carried != NULL) memcpy(carried, lanes, sizeof lanes);
  return (double)FN(tree)(lanes);
}

static void FN(normalize)(void *dst, const void *src, double mean_, double rstd_,
                          const void *weight, const void *bias, size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, T) && ETI_HOLDS(src, n, T));
  ET_ASSERT(ETI_HOLDS_OR_NULL(weight, T) && ETI_HOLDS_OR_NULL(bias, T));
  T *const out = dst;
  const T *const x = src, *const w = weight, *const b = bias;
  const T mean = (T)mean_, rstd = (T)rstd_;
  if (w != NULL && b != NULL) {
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) out[i] = (x[i] - mean) * rstd * w[i] + b[i];
  } else if (w != NULL) {
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) out[i] = (x[i] - mean) * rstd * w[i];
  } else if (b != NULL) {
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) out[i] = (x[i] - mean) * rstd + b[i];
  } else {
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) out[i] = (x[i] - mean) * rstd;
  }
}

static void FN(affine)(void *dst, const void *src, double mean_, double scale_, double shift_,
                       size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, T) && ETI_HOLDS(src, n, T));
  T *const out = dst;
  const T *const x = src;
  const T mean = (T)mean_, scale = (T)scale_, shift = (T)shift_;
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) out[i] = (x[i] - mean) * scale + shift;
}

static void FN(affine_each)(void *dst, const void *src, const void *means, const void *scales,
                            const void *shifts, size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, T) && ETI_HOLDS(src, n, T));
  ET_ASSERT(ETI_HOLDS(means, n, T) && ETI_HOLDS(scales, n, T) && ETI_HOLDS(shifts, n, T));
  T *const out = dst;
  const T *const x = src, *const mean = means, *const scale = scales, *const shift = shifts;
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) out[i] = (x[i] - mean[i]) * scale[i] + shift[i];
}

#undef FN
#undef CAT
#undef CAT_
#undef T
#undef SUFFIX
