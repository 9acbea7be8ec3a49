// gemm_tile.body.h — the micro-kernel of gemm.h, once, for every element type and instruction set.
// The including file sets, and this file undefines:
//   T, SUFFIX                           element type; end of the function names (f32__avx512)
//   VEC, LANES                          vector type and its elements
//   MR, ROWS_MR                         most rows of a tile, of one with A as rows
//   NV                                  vectors per row: nr = LANES · NV
//   V_SET1(x) V_LOAD(p) V_STORE(p, v)   whole vectors
//   V_FMA(a, b, c) V_ADD(a, b)          a · b + c, a + b
//   FACTOR, V_FACTOR(x)                 optional: type and value of an element of A as the a of
//                                       V_FMA; else a vector of it
//   V_LOAD_N(p, n) V_STORE_N(p, v, n)   the first n lanes, 1 ≤ n < LANES
//   B_GAPS                              defined when nr > ETI_GEMM_STORED = LANES: B may have gaps
//   B_NEAR                              optional: how many bytes ahead a tile prefetches B, which
//                                       comes from the second-level cache
//   PACK_ROWS                           defined when the including file has a pack_rows of its own
//   IN_PIECES                           defined for few sizes of tiles; the others are computed in
//                                       pieces. Each size is a copy of the loops
//   BY_VECTORS                          defined to multiply by one vector of B after the other; an
//                                       element of A of each row is then in a register
// A tile keeps m × NV accumulators in registers; each k costs NV loads of B, m broadcasts of A and
// m · NV FMAs. MR is chosen so that the accumulators, one row of B and one broadcast fill the
// register file; ROWS_MR also so that a pointer to each row stays in a register.

#ifndef FACTOR
#define FACTOR VEC
#define V_FACTOR(x) V_SET1(x)
#endif
#define CAT_(a, b) a##_##b
#define CAT(a, b) CAT_(a, b)
#define FN(name) CAT(name, SUFFIX)
#ifdef B_GAPS
_Static_assert(LANES == ETI_GEMM_STORED && NV == 2, "the gap is between two vectors");
#define B_AT(v) ((v) * LANES + ((v) == 0 ? 0 : b_gap))
#else
#define B_AT(v) ((v) * LANES)
#endif
#define LOAD_EDGE(p, v) ((whole || (v) + 1 != nv) ? V_LOAD(p) : V_LOAD_N(p, tail))
#ifdef B_NEAR
// Tiles of few rows are bound by loads already.
#define FETCH_NEAR(p) \
  if (m > 4) __builtin_prefetch((const char *)(p) + B_NEAR, 0, 3)
#else
#define FETCH_NEAR(p) ((void)0)
#endif
#define INLINE static inline __attribute__((always_inline))

#ifndef ET_GEMM_TILE_KINDS
#define ET_GEMM_TILE_KINDS
// How a tile reads A: from a panel, by rows in segments, or by rows in one go.
typedef enum tile_kind { PANELS, ROWS, ROWS_ONCE } tile_kind;
#endif

// m, nv and whole are constants at every call, so that the loops unroll and acc is in registers.
// `whole` is false when the last vector of a row has only `tail` columns.
INLINE void FN(start)(VEC (*acc)[NV], const eti_gemm_tile *t, const size_t m, const size_t nv,
                      const bool whole, const size_t tail) {
  (void)tail;
  const T *const bias = t->bias;
  const T *const c = t->c;
  switch (t->init) {
    case ETI_GEMM_ROWS:
      for (size_t i = 0; i < m; i++)
        for (size_t v = 0; v < nv; v++) acc[i][v] = V_SET1(bias[i]);
      break;
    case ETI_GEMM_COLS:
      for (size_t v = 0; v < nv; v++) {
        const VEC row = LOAD_EDGE(bias + v * LANES, v);
        for (size_t i = 0; i < m; i++) acc[i][v] = row;
      }
      break;
    case ETI_GEMM_KEEP:
      for (size_t i = 0; i < m; i++)
        for (size_t v = 0; v < nv; v++) acc[i][v] = LOAD_EDGE(c + i * t->c_step + v * LANES, v);
      break;
    case ETI_GEMM_ZERO:
    case ETI_GEMM_ADD:
    default:
      for (size_t i = 0; i < m; i++)
        for (size_t v = 0; v < nv; v++) acc[i][v] = V_SET1((T)0);
      break;
  }
}

// Writes the sums to C, or adds them to C unless they are the first, within the tile's range if
// that is asked for; acc is then zero. add and limits are constants.
INLINE void FN(write)(VEC (*acc)[NV], const eti_gemm_tile *t, const size_t m, const size_t nv,
                      const bool whole, const size_t tail, const bool add, const bool limits) {
  (void)tail;
  T *c = t->c;
#ifdef V_LIMIT
  const eti_clamp_range none = ETI_CLAMP_NONE, *const range = limits ? t->range : &none;
  const VEC low = V_SET1(range->low), high = V_SET1(range->high), plus = V_SET1(range->plus);
#else
  (void)limits;
#endif
  for (size_t i = 0; i < m; i++, c += t->c_step) {
    for (size_t v = 0; v < nv; v++) {
      T *const at = c + v * LANES;
      VEC sum = add ? V_ADD(LOAD_EDGE(at, v), acc[i][v]) : acc[i][v];
#ifdef V_LIMIT
      if (limits) sum = V_LIMIT(sum, low, high, plus);
#endif
      if (whole || v + 1 != nv) {
        V_STORE(at, sum);
      } else {
        V_STORE_N(at, sum, tail);
      }
      acc[i][v] = V_SET1((T)0);
    }
  }
}

// Ends a chunk: the first one writes C, later ones are added to it, the last one clamps it.
INLINE void FN(finish)(VEC (*acc)[NV], const eti_gemm_tile *t, const size_t m, const size_t nv,
                       const bool whole, const size_t tail, const bool add, const bool last) {
#ifdef V_LIMIT
  const bool limits = last && t->range != NULL;
#else
  const bool limits = false;
  (void)last;
#endif
  if (add && limits) {
    FN(write)(acc, t, m, nv, whole, tail, true, true);
  } else if (add) {
    FN(write)(acc, t, m, nv, whole, tail, true, false);
  } else if (limits) {
    FN(write)(acc, t, m, nv, whole, tail, false, true);
  } else {
    FN(write)(acc, t, m, nv, whole, tail, false, false);
  }
}

INLINE void FN(tile_of)(const eti_gemm_tile *t, const size_t m, const size_t nv, const bool whole,
                        const size_t tail) {
  VEC acc[MR][NV];
  FN(start)(acc, t, m, nv, whole, tail);
  const T *a = t->a;
  const T *b = t->b;
  const size_t a_step = t->a_step, b_step = t->b_step, b_gap = t->b_gap;
  (void)b_gap;
  const char *ahead = t->ahead;
  const size_t ahead_step = t->ahead_step;
  size_t left = t->k;
  bool add = t->init == ETI_GEMM_ADD;
  do {  // once even when there is nothing to add: C is then initialised
    const size_t n = left < ETI_GEMM_CHUNK ? left : ETI_GEMM_CHUNK;
    for (size_t k = n; k > 0; k--) {
      VEC bv[NV];
      __builtin_prefetch(ahead, 0, 2);
      ahead += ahead_step;
      for (size_t v = 0; v < nv; v++) {
        bv[v] = LOAD_EDGE(b + B_AT(v), v);
        FETCH_NEAR(b + B_AT(v));
      }
#ifdef BY_VECTORS
      for (size_t v = 0; v < nv; v++) {
        for (size_t i = 0; i < m; i++) acc[i][v] = V_FMA(V_FACTOR(a[i]), bv[v], acc[i][v]);
      }
#else
      for (size_t i = 0; i < m; i++) {
        const FACTOR av = V_FACTOR(a[i]);
        for (size_t v = 0; v < nv; v++) acc[i][v] = V_FMA(av, bv[v], acc[i][v]);
      }
#endif
      a += a_step;
      b += b_step;
    }
    left -= n;
    FN(finish)(acc, t, m, nv, whole, tail, add, left == 0);
    add = true;
  } while (left > 0);
}

#ifndef IN_PIECES
// Computes the sum of a tile with A as rows, if its values of k, at least one, are in one chunk and
// one segment, and C begins at the bias of columns. gcc keeps the sums in registers here.
INLINE void FN(rows_once)(const eti_gemm_tile *t, const size_t m, const size_t nv, const bool whole,
                          const size_t tail) {
  VEC acc[MR][NV];
  for (size_t v = 0; v < nv; v++) {
    const VEC row = LOAD_EDGE((const T *)t->bias + v * LANES, v);
    for (size_t i = 0; i < m; i++) acc[i][v] = row;
  }
  const T *p[MR] = {NULL}, *b = t->b;
  for (size_t i = 0; i < m; i++) p[i] = t->rows[i];
  const size_t b_step = t->b_step, b_gap = t->b_gap, n = t->k;
  (void)b_gap;
  size_t k = 0;
  do {
    VEC bv[NV];
    for (size_t v = 0; v < nv; v++) {
      bv[v] = LOAD_EDGE(b + B_AT(v), v);
      FETCH_NEAR(b + B_AT(v));
    }
#ifdef BY_VECTORS
    for (size_t v = 0; v < nv; v++) {
      for (size_t i = 0; i < m; i++) acc[i][v] = V_FMA(V_FACTOR(p[i][k]), bv[v], acc[i][v]);
    }
#else
    for (size_t i = 0; i < m; i++) {
      const FACTOR av = V_FACTOR(p[i][k]);
      for (size_t v = 0; v < nv; v++) acc[i][v] = V_FMA(av, bv[v], acc[i][v]);
    }
#endif
    b += b_step;
  } while (++k < n);
  FN(finish)(acc, t, m, nv, whole, tail, false, true);
}
#endif

// Computes the same sum with A as rows: the first m of the n_rows whose pointers are in a segment.
INLINE void FN(rows_of)(const eti_gemm_tile *t, const size_t m, const size_t nv, const bool whole,
                        const size_t tail, const size_t n_rows) {
  VEC acc[MR][NV];
  FN(start)(acc, t, m, nv, whole, tail);
  const void *const *rows = t->rows;
  const T *p[MR] = {NULL};  // the first ROWS_MR of them
  const T *b = t->b;
  const size_t b_step = t->b_step, b_gap = t->b_gap;
  (void)b_gap;
  const char *ahead = t->ahead;
  const size_t ahead_step = t->ahead_step;
  size_t left = t->k, in_segment = 0;
  bool add = t->init == ETI_GEMM_ADD;
  do {
    size_t in_chunk = left < ETI_GEMM_CHUNK ? left : ETI_GEMM_CHUNK;
    left -= in_chunk;
    while (in_chunk > 0) {
      if (in_segment == 0) {
        for (size_t i = 0; i < m; i++) p[i] = rows[i];
        rows += n_rows;
        in_segment = t->segment;
      }
      const size_t n = in_segment < in_chunk ? in_segment : in_chunk;
      for (size_t k = 0; k < n; k++) {
        VEC bv[NV];
        __builtin_prefetch(ahead, 0, 2);
        ahead += ahead_step;
        for (size_t v = 0; v < nv; v++) {
          bv[v] = LOAD_EDGE(b + B_AT(v), v);
          FETCH_NEAR(b + B_AT(v));
        }
#ifdef BY_VECTORS
        for (size_t v = 0; v < nv; v++) {
          for (size_t i = 0; i < m; i++) acc[i][v] = V_FMA(V_FACTOR(p[i][k]), bv[v], acc[i][v]);
        }
#else
        for (size_t i = 0; i < m; i++) {
          const FACTOR av = V_FACTOR(p[i][k]);
          for (size_t v = 0; v < nv; v++) acc[i][v] = V_FMA(av, bv[v], acc[i][v]);
        }
#endif
        b += b_step;
      }
      for (size_t i = 0; i < m; i++) p[i] += n;
      in_segment -= n;
      in_chunk -= n;
    }
    FN(finish)(acc, t, m, nv, whole, tail, add, left == 0);
    add = true;
  } while (left > 0);
}

// True if a tile has a destination and an initial value.
INLINE bool FN(has_c)(const eti_gemm_tile *t) {
  const bool has_bias = t->init == ETI_GEMM_ROWS || t->init == ETI_GEMM_COLS;
  return ETI_HOLDS(t->c, 1, T) && ETI_HOLDS(t->bias, has_bias ? 1 : 0, T);
}

// One row of A and several panels of B: panel p is the tile that starts at it.
INLINE eti_gemm_tile FN(panel_of)(const eti_gemm_tile *t, const size_t p) {
  eti_gemm_tile one = *t;
  const size_t columns = p * LANES * NV;
  one.c = (T *)t->c + columns;
  if (t->init == ETI_GEMM_COLS) one.bias = (const T *)t->bias + columns;
  return one;
}

// Computes panels [first, last) of a row; both are constants.
INLINE void FN(row_of)(const eti_gemm_tile *t, const size_t first, const size_t last) {
  VEC acc[ETI_GEMM_ROW_PANELS][NV];
  for (size_t p = first; p < last; p++) {
    const eti_gemm_tile one = FN(panel_of)(t, p);
    FN(start)(acc + p, &one, 1, NV, true, 0);
  }
  const T *a = t->a;
  const T *b = t->b;
  const size_t a_step = t->a_step, b_step = t->b_step, b_panel_step = t->b_panel_step;
  const size_t b_gap = t->b_gap;
  (void)b_gap;
  size_t left = t->k;
  bool add = t->init == ETI_GEMM_ADD;
  do {
    const size_t n = left < ETI_GEMM_CHUNK ? left : ETI_GEMM_CHUNK;
    for (size_t k = n; k > 0; k--) {
      const FACTOR av = V_FACTOR(*a);
      for (size_t p = first; p < last; p++) {
        for (size_t v = 0; v < NV; v++)
          acc[p][v] = V_FMA(av, V_LOAD(b + p * b_panel_step + B_AT(v)), acc[p][v]);
      }
      a += a_step;
      b += b_step;
    }
    left -= n;
    for (size_t p = first; p < last; p++) {
      const eti_gemm_tile one = FN(panel_of)(t, p);
      FN(finish)(acc + p, &one, 1, NV, true, 0, add, left == 0);
    }
    add = true;
  } while (left > 0);
}

static void FN(tile_row)(const eti_gemm_tile *t) {
  ET_ASSERT(FN(has_c)(t) && ETI_HOLDS(t->a, t->k, T) && ETI_HOLDS(t->b, t->k, T));
  ET_ASSERT(t->k == 0 || t->b_panel_step >= (size_t)LANES * NV);
#ifdef B_GAPS
  if (t->b_gap != 0) {
    // Twice as many streams of memory would be read more slowly.
    FN(row_of)(t, 0, ETI_GEMM_ROW_PANELS / 2);
    FN(row_of)(t, ETI_GEMM_ROW_PANELS / 2, ETI_GEMM_ROW_PANELS);
    return;
  }
#endif
  FN(row_of)(t, 0, ETI_GEMM_ROW_PANELS);
}

// Computes m rows and nv vectors of columns; all but the tail and n_rows are constants.
INLINE void FN(sum_of)(const eti_gemm_tile *t, const size_t m, const size_t nv, const bool whole,
                       const size_t tail, const tile_kind kind, const size_t n_rows) {
#ifndef IN_PIECES
  if (kind == ROWS_ONCE) {
    FN(rows_once)(t, m, nv, whole, tail);
    return;
  }
#endif
  if (kind == ROWS) {
    FN(rows_of)(t, m, nv, whole, tail, n_rows);
  } else {
    FN(tile_of)(t, m, nv, whole, tail);
  }
}

#ifdef IN_PIECES
// The part of a tile from row i and column j on.
INLINE eti_gemm_tile FN(part_of)(const eti_gemm_tile *t, const size_t i, const size_t j,
                                 const tile_kind kind) {
  eti_gemm_tile part = *t;
  if (kind == ROWS) {
    part.rows = t->rows + i;
  } else {
    part.a = (const T *)t->a + i;
  }
  part.b = (const T *)t->b + j;
  part.c = (T *)t->c + i * t->c_step + j;
  if (t->init == ETI_GEMM_ROWS) part.bias = (const T *)t->bias + i;
  if (t->init == ETI_GEMM_COLS) part.bias = (const T *)t->bias + j;
  return part;
}

// Computes m of the n_rows rows, from row i on; m and kind are constants.
INLINE void FN(tile_width)(const eti_gemm_tile *t, const size_t i, const size_t m, const size_t n,
                           const tile_kind kind, const size_t n_rows) {
  if (n == LANES * NV) {
    const eti_gemm_tile part = FN(part_of)(t, i, 0, kind);
    FN(sum_of)(&part, m, NV, true, 0, kind, n_rows);
    return;
  }
  size_t j = 0;
  for (; j + LANES <= n; j += LANES) {
    const eti_gemm_tile part = FN(part_of)(t, i, j, kind);
    FN(sum_of)(&part, m, 1, true, 0, kind, n_rows);
  }
  if (j < n) {
    const eti_gemm_tile part = FN(part_of)(t, i, j, kind);
    FN(sum_of)(&part, m, 1, false, n - j, kind, n_rows);
  }
}

#define HEIGHTS_4(X, f, rows) X(f, rows, 1) X(f, rows, 2) X(f, rows, 4)
#define HEIGHTS_6(X, f, rows) HEIGHTS_4(X, f, rows) X(f, rows, 6)
#define HEIGHTS_8(X, f, rows) HEIGHTS_4(X, f, rows) X(f, rows, 8)
#define HEIGHTS_14(X, f, rows) HEIGHTS_8(X, f, rows) X(f, rows, 14)
// The greatest of these heights for the rows that are left; mr is one of them.
#define HEIGHT_OF(left, mr) \
  ((left) >= (mr) ? (mr) : (left) >= 8 ? 8 : (left) >= 4 ? 4 : (left) >= 2 ? 2 : 1)
#else
// nv and kind are constants, too.
INLINE void FN(tile_vectors)(const eti_gemm_tile *t, const size_t m, const size_t nv,
                             const size_t n, const tile_kind kind) {
  const size_t tail = n - LANES * (nv - 1);
  if (tail == LANES) {
    FN(sum_of)(t, m, nv, true, 0, kind, m);
  } else {
    FN(sum_of)(t, m, nv, false, tail, kind, m);
  }
}

// Computes the tile of m = n_rows rows; i is 0.
INLINE void FN(tile_width)(const eti_gemm_tile *t, const size_t i, const size_t m, const size_t n,
                           const tile_kind kind, const size_t n_rows) {
  (void)i;
  (void)n_rows;
#if NV > 3
  if (n > 3 * LANES) {
    FN(tile_vectors)(t, m, 4, n, kind);
    return;
  }
#endif
#if NV > 2
  if (n > 2 * LANES) {
    FN(tile_vectors)(t, m, 3, n, kind);
    return;
  }
#endif
  if (n > LANES) {
    FN(tile_vectors)(t, m, 2, n, kind);
  } else {
    FN(tile_vectors)(t, m, 1, n, kind);
  }
}

#define HEIGHTS_4(X, f, rows) X(f, rows, 1) X(f, rows, 2) X(f, rows, 3) X(f, rows, 4)
#define HEIGHTS_6(X, f, rows) HEIGHTS_4(X, f, rows) X(f, rows, 5) X(f, rows, 6)
#define HEIGHTS_8(X, f, rows) HEIGHTS_6(X, f, rows) X(f, rows, 7) X(f, rows, 8)
#define HEIGHTS_14(X, f, rows) \
  HEIGHTS_8(X, f, rows)        \
  X(f, rows, 9) X(f, rows, 10) X(f, rows, 11) X(f, rows, 12) X(f, rows, 13) X(f, rows, 14)
#define HEIGHT_OF(left, mr) (left)
#endif

// Each height is a function: gcc's time grows with the square of a function's size. Sanitizer
// builds have one copy for all heights, since more would take minutes to compile.
#ifdef ET_DEBUG
#define EACH_HEIGHT(mr, X, f, rows) X(f, rows, height)
#define DEFINE(f, rows, h)
#define RUN(f, rows, h) FN(tile_width)(t, i, h, n, rows, m);
#else
#define EACH_HEIGHT(mr, X, f, rows) CAT(HEIGHTS, mr)(X, f, rows)
#define DEFINE(f, rows, h)                                                                    \
  static __attribute__((noinline)) void CAT(f, h)(const eti_gemm_tile *t, size_t i, size_t n, \
                                                  size_t n_rows) {                            \
    FN(tile_width)(t, i, h, n, rows, n_rows);                                                 \
  }
#define RUN(f, rows, h) \
  if (height == (h)) CAT(f, h)(t, i, n, m);
#endif

EACH_HEIGHT(MR, DEFINE, FN(tile), PANELS)
EACH_HEIGHT(ROWS_MR, DEFINE, FN(tile_rows), ROWS)
#ifdef IN_PIECES
#define ENDS_AT_ONCE(t) ((void)(t), false)
#define EACH_ONCE(mr, X, f, kind)
#else
// Prefetches would need a register more than there are.
#define ENDS_AT_ONCE(t)                                                \
  ((t)->k > 0 && (t)->k <= ETI_GEMM_CHUNK && (t)->k <= (t)->segment && \
   (t)->init == ETI_GEMM_COLS && (t)->ahead_step == 0)
#define EACH_ONCE EACH_HEIGHT
#endif
EACH_ONCE(ROWS_MR, DEFINE, FN(tile_rows_once), ROWS_ONCE)

static void FN(tile)(const eti_gemm_tile *t, size_t m, size_t n) {
  ET_ASSERT(m >= 1 && m <= MR && n >= 1 && n <= (size_t)LANES * NV);
  ET_ASSERT(FN(has_c)(t) && ETI_HOLDS(t->a, t->k, T) && ETI_HOLDS(t->b, t->k, T));
  ET_ASSERT(m == 1 || t->c_step >= n);
  for (size_t i = 0, height; i < m; i += height) {
    height = HEIGHT_OF(m - i, MR);
    EACH_HEIGHT(MR, RUN, FN(tile), PANELS)
  }
}

static void FN(tile_rows)(const eti_gemm_tile *t, size_t m, size_t n) {
  ET_ASSERT(m >= 1 && m <= ROWS_MR && n >= 1 && n <= (size_t)LANES * NV);
  ET_ASSERT(FN(has_c)(t) && ETI_HOLDS(t->b, 1, T) && ETI_HOLDS(t->rows, 1, void *));
  ET_ASSERT(t->segment > 0 && (m == 1 || t->c_step >= n));
  const bool is_once = ENDS_AT_ONCE(t);
  for (size_t i = 0, height; i < m; i += height) {
    height = HEIGHT_OF(m - i, ROWS_MR);
    if (is_once) {
      EACH_ONCE(ROWS_MR, RUN, FN(tile_rows_once), ROWS_ONCE)
    } else {
      EACH_HEIGHT(ROWS_MR, RUN, FN(tile_rows), ROWS)
    }
  }
}

// The tile is changed in place: a copy would be read by vectors, which wait until the elements of C
// before it are written.
static void FN(walk_rows)(eti_gemm_tile *t, size_t m, size_t n) {
  const size_t width = (size_t)LANES * NV;
  ET_ASSERT(m <= ROWS_MR || (n <= width && t->segment >= t->k));
  ET_ASSERT(n <= width || t->b_panel_step >= width || t->k == 0);
  for (size_t j = 0; j < n && m <= ROWS_MR; j += width) {
    FN(tile_rows)(t, m, n - j < width ? n - j : width);
    t->b = (const T *)t->b + t->b_panel_step;
    t->c = (T *)t->c + width;
    if (t->init == ETI_GEMM_COLS) t->bias = (const T *)t->bias + width;
  }
  for (size_t i = 0; i < m && m > ROWS_MR; i += ROWS_MR) {
    FN(tile_rows)(t, m - i < ROWS_MR ? m - i : ROWS_MR, n);
    t->rows += ROWS_MR;
    t->c = (T *)t->c + ROWS_MR * t->c_step;
    if (t->init == ETI_GEMM_ROWS) t->bias = (const T *)t->bias + ROWS_MR;
    t->ahead += t->ahead_step * t->k;
  }
}

#ifdef V_LIMIT
static void FN(limit)(T *c, size_t c_step, size_t m, size_t n, const eti_clamp_range *range) {
  ET_ASSERT(ETI_HOLDS(c, m * n, T) && (m <= 1 || c_step >= n) && eti_clamp_range_is_valid(range));
  const VEC low = V_SET1(range->low), high = V_SET1(range->high), plus = V_SET1(range->plus);
  for (; m > 0; m--, c += c_step) {
    size_t j = 0;
    for (; j + LANES <= n; j += LANES) V_STORE(c + j, V_LIMIT(V_LOAD(c + j), low, high, plus));
    if (j < n) V_STORE_N(c + j, V_LIMIT(V_LOAD_N(c + j, n - j), low, high, plus), n - j);
  }
}
#endif

#ifndef PACK_ROWS
static void FN(pack_rows)(void *dst, size_t width, const void *src, size_t row_step, size_t n,
                          size_t n_k) {
  ET_ASSERT(n <= width && ETI_HOLDS(dst, width * n_k, T) && ETI_HOLDS(src, n * n_k, T));
  T *const to = dst;
  const T *const from = src;
  for (size_t i = 0; i < n; i++) {
    for (size_t k = 0; k < n_k; k++) to[k * width + i] = from[i * row_step + k];
  }
  for (size_t k = 0; k < n_k && n < width; k++) {
    for (size_t i = n; i < width; i++) to[k * width + i] = 0;
  }
}
#endif

#undef INLINE
#undef FETCH_NEAR
#undef LOAD_EDGE
#undef B_AT
#undef FN
#undef CAT
#undef CAT_
#undef T
#undef SUFFIX
#undef VEC
#undef LANES
#undef MR
#undef ROWS_MR
#undef NV
#undef V_SET1
#undef FACTOR
#undef BY_VECTORS
#undef V_FACTOR
#undef V_LOAD
#undef V_STORE
#undef V_FMA
#undef V_ADD
#undef V_LOAD_N
#undef V_STORE_N
#undef PACK_ROWS
#undef IN_PIECES
#undef HEIGHTS_4
#undef HEIGHTS_6
#undef HEIGHTS_8
#undef HEIGHTS_14
#undef HEIGHT_OF
#undef EACH_HEIGHT
#undef EACH_ONCE
#undef ENDS_AT_ONCE
#undef DEFINE
#undef RUN
#undef B_GAPS
#undef B_NEAR
#undef V_LIMIT
