// searchsorted.body.h — many binary searches in the same boundaries side by side, for numbers of
// type T. The including file sets, and this file undefines: T, SUFFIX; it defines LANES.

#define CAT_(a, b) a##_##b
#define CAT(a, b) CAT_(a, b)
#define FN(name) CAT(name, SUFFIX)

// One step of every search: the middle of its range, as in the search of one value. A branch would
// be mispredicted half of the time. `ends`: some searches may have an empty range.
static inline void FN(step)(const char *bounds, ptrdiff_t stride, const T *x, size_t n,
                            size_t *restrict low, size_t *restrict left, const bool is_right,
                            const bool ends) {
  for (size_t i = 0; i < n; i++) {
    const size_t half = left[i] / 2, rest = left[i] - half - 1;
    const size_t ended = ends ? left[i] == 0 : 0;
    const size_t at =
        low[i] + half - (ended & (size_t)(low[i] > 0));  // low may be past all of them
    const T bound = *(const T *)(const void *)(bounds + (ptrdiff_t)at * stride);
    const size_t goes = ((size_t)(is_right ? bound > x[i] : bound >= x[i]) | ended) - 1;
    low[i] += (half + 1) & goes;
    left[i] = (rest & goes) | (half & ~goes);
  }
}

// After t steps a search has at least (n + 1) / 2^t - 1 and at most n / 2^t boundaries left, so
// only the last step has searches that have ended.
static inline void FN(search_side)(const char *bounds, ptrdiff_t stride, size_t n_bounds,
                                   const T *x, size_t n, const bool is_right, int64_t *found) {
  size_t low[LANES], left[LANES];
  for (size_t i = 0; i < n; i++) {
    low[i] = 0;
    left[i] = n_bounds;
  }
  for (size_t least = n_bounds + 1; least >= 2; least /= 2)
    FN(step)(bounds, stride, x, n, low, left, is_right, false);
  if (n_bounds > 0) FN(step)(bounds, stride, x, n, low, left, is_right, true);
  for (size_t i = 0; i < n; i++) found[i] = (int64_t)low[i];
}

static void FN(search)(const char *bounds, ptrdiff_t stride, size_t n_bounds, const void *values,
                       size_t n, bool is_right, int64_t *found) {
  if (is_right) {
    FN(search_side)(bounds, stride, n_bounds, values, n, true, found);
  } else {
    FN(search_side)(bounds, stride, n_bounds, values, n, false, found);
  }
}

#undef FN
#undef CAT
#undef CAT_
#undef T
#undef SUFFIX
