// grid_sample_kernel_blend.inc.h — weighted sums of the elements of one type. Parameters, undefined
// at the end: T, LOAD(x) to f64, SUFFIX.
#define FN(name) ETI_LOOP_NAME(name, SUFFIX)

// An element, 0 outside the plane: some element is read in any case.
ETI_INLINE double FN(pixel)(const T *plane, int64_t at) {
  const double x = LOAD(plane[at < 0 ? 0 : at]);
  return at < 0 ? 0.0 : x;
}

// Weighted sum of taps × taps elements around one position.
ETI_INLINE double FN(patch)(const T *plane, const eti_grid_sample_taps *h,
                            const eti_grid_sample_taps *w, int64_t base, const int taps, size_t i) {
  double sum = 0.0;
  for (int y = 0; y < taps; y++) {
    double row = 0.0;
    for (int x = 0; x < taps; x++) {
      const double v = FN(pixel)(plane, base + h->at[y][i] + w->at[x][i]);
      row = x == 0 ? w->weight[x][i] * v : row + w->weight[x][i] * v;
    }
    sum = y == 0 ? h->weight[y][i] * row : sum + h->weight[y][i] * row;
  }
  return sum;
}

static void FN(blend)(double *out, const void *data, const eti_grid_sample_taps *d,
                      const eti_grid_sample_taps *h, const eti_grid_sample_taps *w, int64_t mode,
                      size_t n) {
  ET_ASSERT(n <= ETI_GRID_SAMPLE_BLOCK && ETI_HOLDS(out, n, double) && ETI_HOLDS(data, 1, T));
  ET_ASSERT(h != NULL && w != NULL && (d == NULL || mode != ETI_GRID_SAMPLE_BICUBIC));
  const T *const plane = data;
  if (mode == ETI_GRID_SAMPLE_NEAREST && d == NULL) {
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) out[i] = FN(pixel)(plane, h->at[0][i] + w->at[0][i]);
  } else if (mode == ETI_GRID_SAMPLE_NEAREST) {
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++)
      out[i] = FN(pixel)(plane, d->at[0][i] + h->at[0][i] + w->at[0][i]);
  } else if (mode == ETI_GRID_SAMPLE_BICUBIC) {
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) out[i] = FN(patch)(plane, h, w, 0, 4, i);
  } else if (d == NULL) {
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) out[i] = FN(patch)(plane, h, w, 0, 2, i);
  } else {
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) {
      out[i] = d->weight[0][i] * FN(patch)(plane, h, w, d->at[0][i], 2, i) +
               d->weight[1][i] * FN(patch)(plane, h, w, d->at[1][i], 2, i);
    }
  }
}
#undef FN
#undef T
#undef LOAD
#undef SUFFIX
