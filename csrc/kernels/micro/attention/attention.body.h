// attention.body.h — the loops of attention.h for element type T, written so that compilers turn
// the lanes into vectors. The including file sets, and this file undefines: T, SUFFIX (end of the
// function names), MATH (f32 or f64: which functions of math_*.h), WIDTH_0, WIDTH_1.

#define CAT_(a, b) a##_##b
#define CAT(a, b) CAT_(a, b)
#define FN(name) CAT(name, SUFFIX)
#define F(name) CAT(eti_##name, MATH)
// GCC must not unroll a loop over 16 lanes early: it would stay scalar.
#if defined(__GNUC__) && !defined(__clang__)
#define ROLLED _Pragma("GCC unroll 1") _Pragma("GCC ivdep")
#else
#define ROLLED
#endif
#define LANES_AT_ONCE ETI_ON_STACK(WIDTH_1, 8)
#define LARGER(a, b) ((((a) > (b)) | ((a) != (a))) ? (a) : (b))

static void FN(tree)(T *lanes, size_t width) {
  for (size_t half = 8; half > 0; half /= 2) {
    for (size_t i = 0; i < half * width; i++) lanes[i] += lanes[i + half * width];
  }
}

// Computes the shift of the exponents, and the factor of earlier sums.
ETI_INLINE T FN(shift)(T high, T before, T *factor) {
  const T shift = high == -(T)INFINITY ? (T)0 : high;
  *factor = F(exp)(before - shift);
  return shift;
}

// One query: lanes are columns.
static void FN(dots)(void *scores, const void *keys, size_t step, size_t n, const void *query_,
                     size_t dim, bool add) {
  ET_ASSERT(ETI_HOLDS(scores, n, T) && ETI_HOLDS(keys, n, T) && ETI_HOLDS(query_, n, T));
  T *const x = scores;
  const T *row = keys;
  const T *const query = query_;
  for (size_t k = 0; k < n; k++, row += step) {
    T lanes[16] = {0};
    size_t i = 0;
    for (; i + 16 <= dim; i += 16) {
      ROLLED
      for (size_t l = 0; l < 16; l++) lanes[l] = F(fma)(query[i + l], row[i + l], lanes[l]);
    }
    for (size_t l = 0; i + l < dim; l++) lanes[l] = F(fma)(query[i + l], row[i + l], lanes[l]);
    for (size_t l = 0; l < 8; l++) lanes[l] += lanes[l + 8];
    for (size_t l = 0; l < 4; l++) lanes[l] += lanes[l + 4];
    const T sum = (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
    x[k] = add ? x[k] + sum : sum;
  }
}

// One query: lanes are keys.
static void FN(soften_one)(T *x, size_t keys, T *high, T *sum, T *factor) {
  T lanes[16];
  for (size_t l = 0; l < 16; l++) lanes[l] = *high;
  size_t k = 0;
  for (; k + 16 <= keys; k += 16) {
    ROLLED
    for (size_t l = 0; l < 16; l++) lanes[l] = LARGER(x[k + l], lanes[l]);
  }
  for (size_t l = 0; k + l < keys; l++) lanes[l] = LARGER(x[k + l], lanes[l]);
  for (size_t l = 0; l < 8; l++) lanes[l] = LARGER(lanes[l + 8], lanes[l]);
  for (size_t l = 0; l < 4; l++) lanes[l] = LARGER(lanes[l + 4], lanes[l]);
  for (size_t l = 0; l < 2; l++) lanes[l] = LARGER(lanes[l + 2], lanes[l]);
  const T m = LARGER(lanes[1], lanes[0]);
  const T shift = FN(shift)(m, *high, factor);
  *high = m;
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < keys; i++) x[i] = F(exp_term)(x[i] - shift);
  for (size_t l = 0; l < 16; l++) lanes[l] = 0;
  for (k = 0; k + 16 <= keys; k += 16) {
    ROLLED
    for (size_t l = 0; l < 16; l++) lanes[l] += x[k + l];
  }
  for (size_t l = 0; k + l < keys; l++) lanes[l] += x[k + l];
  for (size_t l = 0; l < 8; l++) lanes[l] += lanes[l + 8];
  for (size_t l = 0; l < 4; l++) lanes[l] += lanes[l + 4];
  *sum = *sum * *factor + ((lanes[0] + lanes[2]) + (lanes[1] + lanes[3]));
}

// Lanes are `width` neighbouring queries of rows of `row`; both are constants at every call.
ETI_INLINE void FN(soften_lanes)(T *x, size_t keys, const size_t row, const size_t width, T *high,
                                 T *sum, T *factor) {
  T m[LANES_AT_ONCE], shift[LANES_AT_ONCE], lanes[16 * LANES_AT_ONCE];
  for (size_t j = 0; j < width; j++) m[j] = high[j];
  for (size_t k = 0; k < keys; k++) {
    for (size_t j = 0; j < width; j++) m[j] = LARGER(x[k * row + j], m[j]);
  }
  for (size_t j = 0; j < width; j++) {
    shift[j] = FN(shift)(m[j], high[j], &factor[j]);
    high[j] = m[j];
  }
  for (size_t l = 0; l < 16; l++) {
    T total[LANES_AT_ONCE];
    for (size_t j = 0; j < width; j++) total[j] = 0;
    for (size_t k = l; k < keys; k += 16) {
      ETI_NO_DEPENDENCES
      for (size_t j = 0; j < width; j++) {
        const T weight = F(exp_term)(x[k * row + j] - shift[j]);
        x[k * row + j] = weight;
        total[j] += weight;
      }
    }
    for (size_t j = 0; j < width; j++) lanes[l * width + j] = total[j];
  }
  FN(tree)(lanes, width);
  for (size_t j = 0; j < width; j++) sum[j] = sum[j] * factor[j] + lanes[j];
}

ETI_INLINE void FN(soften_tile)(T *x, size_t keys, const size_t width, T *high, T *sum, T *factor) {
  const size_t most = width < LANES_AT_ONCE ? width : LANES_AT_ONCE;
  for (size_t j = 0; j < width; j += most)
    FN(soften_lanes)(x + j, keys, width, most, high + j, sum + j, factor + j);
}

static void FN(soften)(void *x, size_t keys, size_t width, void *high, void *sum, void *factor) {
  ET_ASSERT(width == 1 || width == WIDTH_0 || width == WIDTH_1);
  ET_ASSERT(ETI_HOLDS(x, keys, T));
  ET_ASSERT(ETI_HOLDS(high, width, T) && ETI_HOLDS(sum, width, T) && ETI_HOLDS(factor, width, T));
  if (width == 1) {
    FN(soften_one)(x, keys, high, sum, factor);
  } else if (width == WIDTH_0) {
    FN(soften_tile)(x, keys, WIDTH_0, high, sum, factor);
  } else {
    FN(soften_tile)(x, keys, WIDTH_1, high, sum, factor);
  }
}

static void FN(add)(void *dst, const void *src, size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, T) && ETI_HOLDS(src, n, T));
  T *const x = dst;
  const T *const y = src;
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) x[i] += y[i];
}

static void FN(add_keys)(void *dst, const void *src, size_t keys, size_t width) {
  ET_ASSERT(width == 1 || width == WIDTH_0 || width == WIDTH_1);
  ET_ASSERT(ETI_HOLDS(dst, keys, T) && ETI_HOLDS(src, keys, T));
  T *const x = dst;
  const T *const y = src;
  if (width == 1) {
    FN(add)(x, y, keys);
    return;
  }
  for (size_t k = 0; k < keys; k++) {
    ETI_NO_DEPENDENCES
    for (size_t j = 0; j < width; j++) x[k * width + j] += y[k];
  }
}

static void FN(limit)(void *dst, const int32_t *seen, size_t keys, size_t width) {
  ET_ASSERT(width == 1 || width == WIDTH_0 || width == WIDTH_1);
  ET_ASSERT(ETI_HOLDS(dst, keys, T) && ETI_HOLDS(seen, width, int32_t) && keys <= INT32_MAX);
  T *const x = dst;
  for (size_t k = 0; k < keys; k++) {
    ETI_NO_DEPENDENCES
    for (size_t j = 0; j < width; j++) {
      const T score = x[k * width + j];
      x[k * width + j] = (int32_t)k < seen[j] ? score : -(T)INFINITY;
    }
  }
}

static void FN(scale)(void *dst, const void *src, double factor_, size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, T) && ETI_HOLDS(src, n, T));
  T *const out = dst;
  const T *const x = src;
  const T factor = (T)factor_;
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) out[i] = x[i] * factor;
}

#undef LARGER
#undef LANES_AT_ONCE
#undef ROLLED
#undef F
#undef FN
#undef CAT
#undef CAT_
#undef T
#undef SUFFIX
#undef MATH
#undef WIDTH_0
#undef WIDTH_1
