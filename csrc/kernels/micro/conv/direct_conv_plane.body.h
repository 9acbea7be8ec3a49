// direct_conv_plane.body.h — whole planes of a depthwise convolution, read in place. Part of
// direct_conv_rows.body.h, whose macros it uses. A few output rows are computed side by side, so
// that each vector of the input is loaded once for all of them; every output still adds bias, then
// its taps in row order. Vector variants have a copy of the code for each size; the scalar variant
// must be small and has one for all.

#if LANES == 1
#define FOR_EACH_SIZE
#define UNROLL
#else
#define FOR_EACH_SIZE inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")
#endif

// Computes output rows y … y + n_rows - 1, columns i … i + n - 1. kernel, stride and n_rows are
// constants. lanes is NULL when all taps are inside the input sideways and n = LANES; else it masks
// the lanes that are, for each kx.
static FOR_EACH_SIZE void FN(plane_block)(const eti_direct_conv_plane *p, const int kernel,
                                          const int stride, const int n_rows, size_t y, size_t i,
                                          const LANES_T *lanes) {
  const ptrdiff_t left = (ptrdiff_t)i * stride - p->left;
  VEC acc[ETI_DIRECT_CONV_PLANE_ROWS];
  for (int r = 0; r < n_rows; r++) acc[r] = V_SET1(p->bias);
  UNROLL
  for (int iy = 0; iy < (n_rows - 1) * stride + kernel; iy++) {
    const ptrdiff_t row = (ptrdiff_t)y * stride + iy - p->top;
    const bool there = row >= 0 && row < p->height;
    const float *const src = p->x + (there ? row * p->x_step + left : 0);
    UNROLL
    for (int kx = 0; kx < kernel; kx++) {
      const VEC v = !there          ? V_SET1(0.0f)
                    : lanes != NULL ? V_INSIDE(src + kx, stride, lanes[kx])
                    : stride == 1   ? V_LOAD(src + kx)
                                    : V_EVEN(src + kx);
      UNROLL
      for (int r = 0; r < n_rows; r++) {
        const int ky = iy - r * stride;
        if (ky >= 0 && ky < kernel) acc[r] = V_FMA(V_SET1(p->w[ky * kernel + kx]), v, acc[r]);
      }
    }
  }
  float *out = p->out + (ptrdiff_t)y * p->out_step + (ptrdiff_t)i;
  const size_t n = p->cols - i;
  UNROLL
  for (int r = 0; r < n_rows; r++, out += p->out_step) {
    const VEC v =
        V_LIMIT(acc[r], V_SET1(p->range.low), V_SET1(p->range.high), V_SET1(p->range.plus));
    if (lanes == NULL || n >= LANES) {
      V_STORE(out, v);
    } else {
      V_STORE_N(out, v, n);
    }
  }
}

// Computes groups of rows; the last group may repeat some of the one before it.
static FOR_EACH_SIZE size_t FN(group)(const eti_direct_conv_plane *p, size_t y, const int n_rows) {
  return p->rows - y < (size_t)n_rows ? p->rows - (size_t)n_rows : y;
}

// Blocks of columns whose taps may leave the input sideways run down the plane one by one, the
// others row by row.
static FOR_EACH_SIZE void FN(plane)(const eti_direct_conv_plane *p, const int kernel,
                                    const int stride, const int n_rows) {
  ET_ASSERT(p->rows >= ETI_DIRECT_CONV_PLANE_ROWS && p->top >= 0 && p->left >= 0);
  ET_ASSERT(p->height > 0 && p->width > 0 && eti_clamp_range_is_valid(&p->range));
  ET_ASSERT(ETI_HOLDS(p->out, p->cols, float) && ETI_HOLDS(p->x, 1, float));
  ET_ASSERT(ETI_HOLDS(p->w, kernel * kernel, float));
  size_t from = p->cols, to = p->cols;
  for (size_t i = 0; i < p->cols; i += LANES) {
    const ptrdiff_t first = (ptrdiff_t)i * stride - p->left,
                    last = first + (LANES - 1) * stride + kernel - 1;
    if (first >= 0 && last < p->width && p->cols - i >= LANES) {
      if (from == p->cols) from = i;
      to = i + LANES;
      continue;
    }
    LANES_T lanes[5];
    for (int kx = 0; kx < kernel; kx++) lanes[kx] = V_LANES(-(first + kx), p->width - (first + kx));
    for (size_t y = 0; y < p->rows; y += (size_t)n_rows)
      FN(plane_block)(p, kernel, stride, n_rows, FN(group)(p, y, n_rows), i, lanes);
  }
  for (size_t y = 0; y < p->rows && from < to; y += (size_t)n_rows) {
    for (size_t i = from; i < to; i += LANES)
      FN(plane_block)(p, kernel, stride, n_rows, FN(group)(p, y, n_rows), i, NULL);
  }
}

static void FN(plane_3x3)(const eti_direct_conv_plane *p) {
  FN(plane)(p, 3, 1, 4);
}
static void FN(plane_3x3_by_2)(const eti_direct_conv_plane *p) {
  FN(plane)(p, 3, 2, 2);
}
static void FN(plane_5x5)(const eti_direct_conv_plane *p) {
  FN(plane)(p, 5, 1, 4);
}
static void FN(plane_5x5_by_2)(const eti_direct_conv_plane *p) {
  FN(plane)(p, 5, 2, 2);
}

#undef FOR_EACH_SIZE
#undef UNROLL
