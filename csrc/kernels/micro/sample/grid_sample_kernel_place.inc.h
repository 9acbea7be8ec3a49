// grid_sample_kernel_place.inc.h — positions and weights along one axis from the grid's numbers, in
// arithmetic of one type. Parameters, undefined at the end: T, INDEX of positions, TAPS, OUTSIDE,
// SUFFIX, MATH(name) the C library's function of T.
#define FN(name) ETI_LOOP_NAME(name, SUFFIX)

// Rounds to f32: the result of one f32 operation on f32 numbers, computed in f64, is then the f32
// result. f32 arithmetic needs no rounding.
ETI_INLINE T FN(rounded)(bool wide, T x) {
  return wide ? x : (T)(float)x;
}

ETI_INLINE T FN(unnormalized)(const eti_grid_sample_axis *a, bool wide, T at) {
  const T shifted = FN(rounded)(wide, at + (T)1.0);
  if (a->align_corners)
    return FN(rounded)(wide, shifted * FN(rounded)(wide, (T)(a->size - 1) / (T)2.0));
  return FN(rounded)(wide,
                     FN(rounded)(wide, shifted * FN(rounded)(wide, (T)a->size / (T)2.0)) - (T)0.5);
}

static T FN(reflected)(const eti_grid_sample_axis *a, T at) {
  const T low = a->align_corners ? (T)0.0 : (T)-0.5,
          span = a->align_corners ? (T)(a->size - 1) : (T)a->size;
  if (span == (T)0.0) return (T)0.0;
  const T from = MATH(fabs)(FN(rounded)(a->wide, at - low)), extra = MATH(fmod)(from, span),
          flips = MATH(floor)(FN(rounded)(a->wide, from / span));
  return MATH(fmod)(flips, (T)2.0) == (T)0.0
             ? FN(rounded)(a->wide, extra + low)
             : FN(rounded)(a->wide, FN(rounded)(a->wide, span - extra) + low);
}

// Applies padding to positions. With border and reflection padding, a NaN position is ATen's pixel:
// the first of an image, the last of a volume.
static void FN(pad)(const eti_grid_sample_axis *a, T *at, size_t n) {
  if (a->padding == ETI_GRID_SAMPLE_ZEROS) return;
  if (a->padding == ETI_GRID_SAMPLE_REFLECTION) {
    for (size_t i = 0; i < n; i++) at[i] = FN(reflected)(a, at[i]);
  }
  const T last = (T)(a->size - 1), none = a->volume ? last : (T)0.0;
  for (size_t i = 0; i < n; i++) {
    const T x = at[i] >= (T)0.0 ? at[i] : (at[i] < (T)0.0 ? (T)0.0 : none);
    at[i] = x > last ? last : x;
  }
}

// A NaN position of a volume is outside; in an image it stays NaN, and so do its weights.
static void FN(drop)(T *at, size_t n) {
  for (size_t i = 0; i < n; i++)
    at[i] = ((at[i] > (T)-2147483648.0) & (at[i] < (T)2147483647.0)) ? at[i] : (T)-100.0;
}

// Offsets of whole positions.
static void FN(offsets)(const eti_grid_sample_axis *a, INDEX *out, const T *at, size_t n) {
  const T size = (T)a->size;
  const INDEX step = (INDEX)a->step;
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) {
    const bool inside = (at[i] >= (T)0.0) & (at[i] < size);
    const INDEX whole = (INDEX)(inside ? at[i] : (T)0.0);
    out[i] = inside ? whole * step : OUTSIDE;
  }
}

// The cubic convolution with A = -3/4 at distances t + 1, t, 1 - t, 2 - t.
ETI_INLINE T FN(cubic_near)(T d) {
  return (((T)-0.75 + (T)2.0) * d - ((T)-0.75 + (T)3.0)) * d * d + (T)1.0;
}
ETI_INLINE T FN(cubic_far)(T d) {
  return (((T)-0.75 * d - (T)5.0 * (T)-0.75) * d + (T)8.0 * (T)-0.75) * d - (T)4.0 * (T)-0.75;
}
ETI_INLINE T FN(cubic)(T d) {
  return d <= (T)1.0 ? FN(cubic_near)(d) : FN(cubic_far)(d);
}

static void FN(place)(TAPS *taps, const eti_grid_sample_axis *a, const T *grid, size_t n) {
  ET_ASSERT(taps != NULL && n <= ETI_GRID_SAMPLE_BLOCK && ETI_HOLDS(grid, n, T));
  ET_ASSERT(a != NULL && a->size >= 1);
  ET_ASSERT(a->mode >= ETI_GRID_SAMPLE_BILINEAR && a->mode <= ETI_GRID_SAMPLE_BICUBIC);
  ET_ASSERT(a->padding >= ETI_GRID_SAMPLE_ZEROS && a->padding <= ETI_GRID_SAMPLE_REFLECTION);
  T p[ETI_GRID_SAMPLE_BLOCK], whole[ETI_GRID_SAMPLE_BLOCK];
  if (a->wide) {
    for (size_t i = 0; i < n; i++) p[i] = FN(unnormalized)(a, true, grid[i]);
  } else {
    for (size_t i = 0; i < n; i++) p[i] = FN(unnormalized)(a, false, grid[i]);
  }
  if (a->mode != ETI_GRID_SAMPLE_BICUBIC) FN(pad)(a, p, n);
  if (a->volume) FN(drop)(p, n);
  if (a->mode == ETI_GRID_SAMPLE_NEAREST) {
    for (size_t i = 0; i < n; i++) whole[i] = MATH(rint)(p[i]);
    FN(offsets)(a, taps->at[0], whole, n);
    return;
  }
  for (size_t i = 0; i < n; i++) whole[i] = MATH(floor)(p[i]);
  if (a->mode == ETI_GRID_SAMPLE_BILINEAR) {
    for (size_t i = 0; i < n; i++) {
      const T after = p[i] - whole[i];
      taps->weight[0][i] = (T)1.0 - after;
      taps->weight[1][i] = after;
    }
    FN(offsets)(a, taps->at[0], whole, n);
    for (size_t i = 0; i < n; i++) whole[i] += (T)1.0;
    FN(offsets)(a, taps->at[1], whole, n);
    return;
  }
  for (size_t i = 0; i < n; i++) {
    const T t = p[i] - whole[i];
    taps->weight[0][i] = FN(cubic)(t + (T)1.0);
    taps->weight[1][i] = FN(cubic)(t);
    taps->weight[2][i] = FN(cubic)((T)1.0 - t);
    taps->weight[3][i] = FN(cubic)((T)2.0 - t);
  }
  for (int j = 0; j < 4; j++) {
    for (size_t i = 0; i < n; i++) p[i] = whole[i] + (T)(j - 1);
    FN(pad)(a, p, n);
    FN(offsets)(a, taps->at[j], p, n);
  }
}
#undef FN
#undef T
#undef INDEX
#undef TAPS
#undef OUTSIDE
#undef SUFFIX
#undef MATH
