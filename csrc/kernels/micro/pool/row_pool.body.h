// row_pool.body.h — the loops of row_pool.h for element type T, in a form that compilers vectorise;
// steps 1 and 2 are the common ones. The including file sets, and this file undefines: T, SUFFIX, U
// (unsigned twin of an integer T, T itself otherwise).

#define CAT_(a, b) a##_##b
#define CAT(a, b) CAT_(a, b)
#define FN(name) CAT(name, SUFFIX)

static inline __attribute__((always_inline)) void FN(max_step)(T *restrict best,
                                                               int32_t *restrict at, const T *x,
                                                               const size_t step, int32_t first,
                                                               size_t n) {
  for (size_t i = 0; i < n; i++) {
    const T v = x[i * step], b = best[i];
    const int take = (v > b) | ETI_IS_NAN(v);
    best[i] = take ? v : b;
    at[i] = take ? (int32_t)((uint32_t)first + (uint32_t)i * (uint32_t)step) : at[i];
  }
}

static void FN(max)(void *best, int32_t *at, const void *x, size_t step, int32_t first, size_t n) {
  ET_ASSERT(ETI_HOLDS(best, n, T) && ETI_HOLDS(at, n, int32_t) && ETI_HOLDS(x, n, T));
  if (step == 1) {
    FN(max_step)(best, at, x, 1, first, n);
  } else if (step == 2) {
    FN(max_step)(best, at, x, 2, first, n);
  } else {
    FN(max_step)(best, at, x, step, first, n);
  }
}

static inline __attribute__((always_inline)) void FN(merge_step)(T *restrict best,
                                                                 int32_t *restrict at, const T *x,
                                                                 const int32_t *x_at,
                                                                 const size_t step, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const T v = x[i * step], b = best[i];
    const int32_t v_at = x_at[i * step], b_at = at[i];
    const int take =
        (v > b) | ((v == b) & (v_at < b_at)) | (ETI_IS_NAN(v) & (!ETI_IS_NAN(b) | (v_at > b_at)));
    best[i] = take ? v : b;
    at[i] = take ? v_at : b_at;
  }
}

static void FN(merge)(void *best, int32_t *at, const void *x, const int32_t *x_at, size_t step,
                      size_t n) {
  ET_ASSERT(ETI_HOLDS(best, n, T) && ETI_HOLDS(at, n, int32_t));
  ET_ASSERT(ETI_HOLDS(x, n, T) && ETI_HOLDS(x_at, n, int32_t));
  if (step == 1) {
    FN(merge_step)(best, at, x, x_at, 1, n);
  } else if (step == 2) {
    FN(merge_step)(best, at, x, x_at, 2, n);
  } else {
    FN(merge_step)(best, at, x, x_at, step, n);
  }
}

static inline __attribute__((always_inline)) void FN(add_step)(T *restrict sum, const T *x,
                                                               const size_t step, size_t n) {
  for (size_t i = 0; i < n; i++) sum[i] = (T)((U)sum[i] + (U)x[i * step]);
}

static void FN(add)(void *sum, const void *x, size_t step, size_t n) {
  ET_ASSERT(ETI_HOLDS(sum, n, T) && ETI_HOLDS(x, n, T));
  if (step == 1) {
    FN(add_step)(sum, x, 1, n);
  } else if (step == 2) {
    FN(add_step)(sum, x, 2, n);
  } else {
    FN(add_step)(sum, x, step, n);
  }
}

static void FN(fold)(void *sum, const void *x, size_t n) {
  ET_ASSERT(ETI_HOLDS(sum, 1, T) && ETI_HOLDS(x, n, T));
  T total = *(T *)sum;
  for (size_t i = 0; i < n; i++) total = (T)((U)total + (U)((const T *)x)[i]);
  *(T *)sum = total;
}

// Lanes of windows are vectors of the compiler's own, so that sums and maxima of all taps stay in
// registers.
typedef T FN(lanes) __attribute__((vector_size(ETI_ROW_POOL_LANES * sizeof(T))));
typedef U FN(wrapping) __attribute__((vector_size(ETI_ROW_POOL_LANES * sizeof(T))));

static void FN(add_window)(void *sum, const void *x, const ptrdiff_t *offset, size_t n_taps,
                           size_t n) {
  ET_ASSERT(ETI_HOLDS(sum, n, T) && ETI_HOLDS(x, n, T) && ETI_HOLDS(offset, n_taps, ptrdiff_t));
  T *const to = sum;
  size_t i = 0;
  for (; i + ETI_ROW_POOL_LANES <= n; i += ETI_ROW_POOL_LANES) {
    FN(wrapping) total, v;
    memcpy(&total, to + i, sizeof total);
    for (size_t t = 0; t < n_taps; t++) {
      memcpy(&v, (const T *)x + offset[t] + i, sizeof v);
      total += v;
    }
    memcpy(to + i, &total, sizeof total);
  }
  for (size_t t = 0; t < n_taps && i < n; t++)
    FN(add)(to + i, (const T *)x + offset[t] + i, 1, n - i);
}

static void FN(max_window)(void *best, int32_t *at, const void *x, const ptrdiff_t *offset,
                           const int32_t *first, size_t n_taps, size_t n) {
  ET_ASSERT(ETI_HOLDS(best, n, T) && ETI_HOLDS(at, n, int32_t) && ETI_HOLDS(x, n, T));
  typedef int32_t places __attribute__((vector_size(ETI_ROW_POOL_LANES * sizeof(int32_t))));
  typedef uint32_t counts __attribute__((vector_size(ETI_ROW_POOL_LANES * sizeof(int32_t))));
  typedef __typeof__((FN(lanes)){0} > (FN(lanes)){0}) mask;
  T *const to = best;
  size_t i = 0;
  for (; i + ETI_ROW_POOL_LANES <= n; i += ETI_ROW_POOL_LANES) {
    mask b;
    memcpy(&b, to + i, sizeof b);
    places b_at;
    memcpy(&b_at, at + i, sizeof b_at);
    for (size_t t = 0; t < n_taps; t++) {
      FN(lanes) v;
      memcpy(&v, (const T *)x + offset[t] + i, sizeof v);
      const FN(lanes) same = v;
      const mask take = (v > (FN(lanes))b) | (v != same);  // or NaN
      const places take_at = __builtin_convertvector(take, places);
      const places v_at =
          (places)((uint32_t)first[t] + (uint32_t)i + (counts){0, 1, 2, 3, 4, 5, 6, 7});
      b = ((mask)v & take) | (b & ~take);
      b_at = (v_at & take_at) | (b_at & ~take_at);
    }
    memcpy(to + i, &b, sizeof b);
    memcpy(at + i, &b_at, sizeof b_at);
  }
  for (size_t t = 0; t < n_taps && i < n; t++) {
    FN(max)(to + i, at + i, (const T *)x + offset[t] + i, 1,
            (int32_t)((uint32_t)first[t] + (uint32_t)i), n - i);
  }
}

#undef FN
#undef CAT
#undef CAT_
#undef T
#undef U
#undef SUFFIX
