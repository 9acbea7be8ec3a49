// gemm_f32.body.h — f32 gemm and igemm for XNNPACK's operators, once for each vector width. The
// including file sets, and this file undefines:
//   VEC, LANES                       vector type and its elements; a panel has 2 LANES columns
//   ROWS                             most rows of a tile; 2 ROWS sums fit the registers
//   KERNEL(name) KERNEL_1_ROW(name)  names of exported kernels, of ROWS rows and of one row
//   V_LOAD(p) V_STORE(p, v)          whole vectors, of weights and of results
//   V_ZERO() V_SET1(x) V_BROADCAST(p) V_ADD(a, b) V_FMA(a, b, c) V_MIN(a, b) V_MAX(a, b)
//   V_LOAD_SOME(p, n) V_STORE_SOME(p, v, n)  the first n elements; all of them if n is greater
//   HEIGHTS(X, ...)                  X(n, ...) for each number of rows of a tile below ROWS
//   PREFETCHES_PANELS                defined when there are loads to spare for the whole of a k of
//                                    a panel, and for the next panel
//
// A tile of ROWS rows x 2 vectors keeps its sums in registers, with two vectors of weights and one
// element of a row; there are tiles of fewer rows. If a panel has at most LANES columns, the other
// LANES are not computed: their registers hold the sums of odd k, and the first those of even k.
// All rows of a call are multiplied by one panel before the next, so that each weight is loaded
// from memory once and then from a cache. Weights are packed as by XNNPACK: for every panel the
// biases of its columns, then for each k their weights, aligned to a vector of 32 bytes.
#define INLINE static inline __attribute__((always_inline))

enum { COLS = 2 * LANES };

// How many k ahead of their use weights are prefetched.
enum { K_AHEAD = 16 };

typedef struct tile {
  VEC sums[ROWS][2];
} tile;

typedef struct target {
  float *c;
  size_t row_bytes;
  size_t n_cols;  // columns left; a panel of COLS is written whole
  VEC min, max;
  const float *residual;  // added to the sums, laid out as c; or NULL
} target;

static const void *add_bytes(const void *p, size_t n) {
  return (const uint8_t *)p + n;
}

INLINE void start(tile *b, size_t n_rows, bool is_half, const float *bias) {
  for (size_t i = 0; i < n_rows; i++) {
    b->sums[i][0] = V_LOAD(bias);
    b->sums[i][1] = is_half ? V_ZERO() : V_LOAD(bias + LANES);
  }
}

// Prefetches a tile's part of the residual, whose rows lie far from each other, while sums are
// computed.
INLINE void prefetch_residual(size_t n_rows, const target *t) {
  if (t->residual == NULL) return;
  for (size_t i = 0; i < n_rows; i++)
    for (size_t j = 0; j < COLS; j += 16)  // a cache line
      _mm_prefetch(add_bytes(t->residual + j, i * t->row_bytes), _MM_HINT_T0);
}

// A part of the next panel of weights, which a tile prefetches from memory, some bytes for each k.
typedef struct next_part {
  const char *at;
  size_t step;
} next_part;

INLINE void prefetch(next_part *f, const float *weights) {
  _mm_prefetch((const char *)(weights + K_AHEAD * COLS), _MM_HINT_T0);
#ifdef PREFETCHES_PANELS
  _mm_prefetch((const char *)(weights + K_AHEAD * COLS + LANES), _MM_HINT_T0);
  _mm_prefetch(f->at, _MM_HINT_T1);
  f->at += f->step;
#else
  (void)f;
#endif
}

// Adds n products to each sum: rows[i][k] times the weights of k.
INLINE void accumulate(tile *b, size_t n_rows, const float *const *rows, const float *weights,
                       size_t n, next_part *f) {
  for (size_t k = 0; k < n; k++) {
    prefetch(f, weights + k * COLS);
    const VEC w0 = V_LOAD(weights + k * COLS);
    const VEC w1 = V_LOAD(weights + k * COLS + LANES);
    for (size_t i = 0; i < n_rows; i++) {
      const VEC a = V_BROADCAST(rows[i] + k);
      b->sums[i][0] = V_FMA(a, w0, b->sums[i][0]);
      b->sums[i][1] = V_FMA(a, w1, b->sums[i][1]);
    }
  }
}

// Products of a half panel: two k at once, as the sums of one k would wait for those before.
INLINE void accumulate_half(tile *b, size_t n_rows, const float *const *rows, const float *weights,
                            size_t n) {
  size_t k = 0;
  for (; k + 2 <= n; k += 2) {
    const VEC even = V_LOAD(weights + k * COLS);
    const VEC odd = V_LOAD(weights + (k + 1) * COLS);
    for (size_t i = 0; i < n_rows; i++) {
      const VEC a0 = V_BROADCAST(rows[i] + k);
      const VEC a1 = V_BROADCAST(rows[i] + k + 1);
      b->sums[i][0] = V_FMA(a0, even, b->sums[i][0]);
      b->sums[i][1] = V_FMA(a1, odd, b->sums[i][1]);
    }
  }
  if (k == n) return;
  const VEC last = V_LOAD(weights + k * COLS);
  for (size_t i = 0; i < n_rows; i++)
    b->sums[i][0] = V_FMA(V_BROADCAST(rows[i] + k), last, b->sums[i][0]);
}

INLINE void add_residual(tile *b, size_t n_rows, bool is_half, const target *t) {
  const float *at = t->residual;
  for (size_t i = 0; i < n_rows; i++) {
    b->sums[i][0] = V_ADD(b->sums[i][0], V_LOAD_SOME(at, t->n_cols));
    if (!is_half) b->sums[i][1] = V_ADD(b->sums[i][1], V_LOAD_SOME(at + LANES, t->n_cols - LANES));
    at = add_bytes(at, t->row_bytes);
  }
}

// Whole panels are stored by separate statements: otherwise gcc keeps the sums in memory.
INLINE void finish(tile *b, size_t n_rows, bool is_half, const target *t) {
  float *at = t->c;
  for (size_t i = 0; is_half && i < n_rows; i++)
    b->sums[i][0] = V_ADD(b->sums[i][0], b->sums[i][1]);
  if (t->residual != NULL) add_residual(b, n_rows, is_half, t);
  for (size_t i = 0; i < n_rows; i++) {
    const VEC v0 = V_MIN(t->max, V_MAX(t->min, b->sums[i][0]));
    const VEC v1 = V_MIN(t->max, V_MAX(t->min, b->sums[i][1]));
    if (is_half) {
      V_STORE_SOME(at, v0, t->n_cols);
    } else {
      V_STORE(at, v0);
      if (t->n_cols >= COLS) {
        V_STORE(at + LANES, v1);
      } else {
        V_STORE_SOME(at + LANES, v1, t->n_cols - LANES);
      }
    }
    at = (float *)(void *)((uint8_t *)at + t->row_bytes);
  }
}

static target target_of(void *c, size_t row_bytes, size_t n_cols, const float *limits) {
  return (target){.c = c,
                  .row_bytes = row_bytes,
                  .n_cols = n_cols,
                  .min = V_SET1(limits[0]),
                  .max = V_SET1(limits[1])};
}

static target with_residual(target t, const eti_xnn_f32_residual *r) {
  t.residual = (const float *)(const void *)((const uint8_t *)t.c + r->bytes);
  return t;
}

static target moved(target t, size_t bytes) {
  t.c = (float *)(void *)((uint8_t *)t.c + bytes);
  if (t.residual != NULL) t.residual = add_bytes(t.residual, bytes);
  return t;
}

static target next_panel(target t, size_t panel_bytes) {
  t.n_cols -= COLS;
  return moved(t, panel_bytes);
}

static target next_rows(target t, size_t n_rows) {
  return moved(t, n_rows * t.row_bytes);
}

// The rows of the next tile, if n_left rows are left. Tiles have ROWS rows; the last three share
// the rest evenly. A tile of three rows or fewer waits for its sums, so it takes as long as one of
// four.
static size_t tile_rows(size_t n_left) {
  if (n_left >= 3 * ROWS) return ROWS;
  const size_t n_blocks = (n_left + ROWS - 1) / ROWS;
  return (n_left + n_blocks - 1) / n_blocks;
}

// Bytes of the next panel of weights that the tiles of one panel prefetch for each k.
static size_t share_of_panel(size_t n_rows) {
  const size_t n_tiles = (n_rows + ROWS - 1) / ROWS;
  return (COLS * sizeof(float) + n_tiles - 1) / n_tiles;
}

// Calls body(n_rows, is_half, …) with constant arguments.
#define CASE_OF_ROWS(n, body, is_half, ...)                               \
  case n:                                                                 \
    (is_half) ? body(n, true, __VA_ARGS__) : body(n, false, __VA_ARGS__); \
    break;
#define FOR_ROWS(body, n_rows, is_half, ...)                                      \
  switch (n_rows) {                                                               \
    HEIGHTS(CASE_OF_ROWS, body, is_half, __VA_ARGS__)                             \
    default:                                                                      \
      (is_half) ? body(ROWS, true, __VA_ARGS__) : body(ROWS, false, __VA_ARGS__); \
  }

// ---- gemm: rows of one matrix

INLINE void rows_of_matrix(size_t n_rows, bool is_half, size_t n, const float *a, size_t a_bytes,
                           const float *w, const target *t, next_part f) {
  const float *rows[ROWS];
  for (size_t i = 0; i < n_rows; i++) rows[i] = add_bytes(a, i * a_bytes);
  tile b;
  prefetch_residual(n_rows, t);
  start(&b, n_rows, is_half, w);
  if (is_half)
    accumulate_half(&b, n_rows, rows, w + COLS, n);
  else
    accumulate(&b, n_rows, rows, w + COLS, n, &f);
  finish(&b, n_rows, is_half, t);
}

static void multiply(size_t n_rows, size_t n, const float *a, size_t a_bytes, const float *panel,
                     target t, size_t panel_bytes) {
  ET_ASSERT(n_rows > 0 && n > 0 && t.n_cols > 0 && a != NULL && t.c != NULL);
  ET_ASSERT(panel != NULL && eti_is_aligned(panel, 32));
  const size_t step = share_of_panel(n_rows);
  for (;;) {
    target rows = t;
    next_part f = {(const char *)(panel + (n + 1) * COLS), t.n_cols > COLS ? step : 0};
    for (size_t i = 0, m; i < n_rows; i += m, rows = next_rows(rows, m)) {
      const float *const at = add_bytes(a, i * a_bytes);
      m = tile_rows(n_rows - i);
      FOR_ROWS(rows_of_matrix, m, t.n_cols <= LANES, n, at, a_bytes, panel, &rows, f)
      f.at += f.step * n;
    }
    if (t.n_cols <= COLS) return;
    t = next_panel(t, panel_bytes);
    panel += (n + 1) * COLS;
  }
}

void KERNEL(gemm)(size_t n_rows, size_t n_cols, size_t k_bytes, const void *a, size_t a_bytes,
                  const void *w, void *c, size_t row_bytes, size_t panel_bytes,
                  const void *limits) {
  ET_ASSERT(limits != NULL && k_bytes % sizeof(float) == 0);
  multiply(n_rows, k_bytes / sizeof(float), a, a_bytes, w, target_of(c, row_bytes, n_cols, limits),
           panel_bytes);
}

void KERNEL(gemm_add)(size_t n_rows, size_t n_cols, size_t k_bytes, const void *a, size_t a_bytes,
                      const void *w, void *c, size_t row_bytes, size_t panel_bytes,
                      const void *residual) {
  ET_ASSERT(residual != NULL && k_bytes % sizeof(float) == 0);
  const eti_xnn_f32_residual *const r = residual;
  multiply(n_rows, k_bytes / sizeof(float), a, a_bytes, w,
           with_residual(target_of(c, row_bytes, n_cols, r->limits), r), panel_bytes);
}

// ---- igemm: rows of taps, one for each element of a convolution's window

typedef struct taps {
  const void *const
      *at[ROWS];        // tap s of row i is at[i][s * step]; with ROWS rows, at[0][ROWS s + i]
  size_t step;          // ROWS, or 1: the taps of a row follow each other
  size_t n, elements;   // the number of taps and the elements of each
  size_t offset_bytes;  // added to pointers other than `zero`
  const void *zero;
} taps;

INLINE void rows_of_taps(size_t n_rows, bool is_half, const taps *p, const float *w,
                         const target *t, next_part f) {
  tile b;
  prefetch_residual(n_rows, t);
  start(&b, n_rows, is_half, w);
  const float *weights = w + COLS;
  for (size_t s = 0; s < p->n; s++, weights += p->elements * COLS) {
    const float *rows[ROWS];
    bool is_zero = true;
    for (size_t i = 0; i < n_rows; i++) {
      const void *const row = n_rows == ROWS ? p->at[0][s * ROWS + i] : p->at[i][s * p->step];
      rows[i] = row == p->zero ? row : add_bytes(row, p->offset_bytes);
      is_zero = is_zero && row == p->zero;
    }
    if (is_zero) continue;  // at the upper and the lower edge of an image
    if (is_half)
      accumulate_half(&b, n_rows, rows, weights, p->elements);
    else
      accumulate(&b, n_rows, rows, weights, p->elements, &f);
  }
  finish(&b, n_rows, is_half, t);
}

// `p`: all members but `at`.
static void convolve(size_t n_rows, const void *const *a, taps p, const float *panel, target t,
                     size_t panel_bytes) {
  ET_ASSERT(n_rows > 0 && p.n > 0 && p.elements > 0 && t.n_cols > 0 && a != NULL && t.c != NULL);
  ET_ASSERT(panel != NULL && eti_is_aligned(panel, 32));
  const size_t n = p.n * p.elements, step = share_of_panel(n_rows);
  for (;;) {
    target rows = t;
    next_part f = {(const char *)(panel + (n + 1) * COLS), t.n_cols > COLS ? step : 0};
    for (size_t i = 0, m; i < n_rows; i += m, rows = next_rows(rows, m)) {
      m = p.step == 1 ? 1 : tile_rows(n_rows - i);
      if (p.step == 1) p.at[0] = a + i * p.n;
      for (size_t k = 0; k < m && p.step == ROWS; k++)
        p.at[k] = a + (i + k) / ROWS * p.n * ROWS + (i + k) % ROWS;
      FOR_ROWS(rows_of_taps, m, t.n_cols <= LANES, &p, panel, &rows, f)
      f.at += f.step * n;
    }
    if (t.n_cols <= COLS) return;
    t = next_panel(t, panel_bytes);
    panel += (n + 1) * COLS;
  }
}

static taps taps_of(size_t step, size_t taps_bytes, size_t k_bytes, size_t offset_bytes,
                    const void *zero) {
  return (taps){.step = step,
                .n = taps_bytes / sizeof(void *) / step,
                .elements = k_bytes / sizeof(float),
                .offset_bytes = offset_bytes,
                .zero = zero};
}

void KERNEL(igemm)(size_t n_rows, size_t n_cols, size_t k_bytes, size_t taps_bytes, const void **a,
                   const void *w, void *c, size_t row_bytes, size_t panel_bytes,
                   size_t offset_bytes, const void *zero, const void *limits) {
  ET_ASSERT(limits != NULL && k_bytes % sizeof(float) == 0 && taps_bytes > 0 &&
            taps_bytes % (ROWS * sizeof *a) == 0);
  convolve(n_rows, a, taps_of(ROWS, taps_bytes, k_bytes, offset_bytes, zero), w,
           target_of(c, row_bytes, n_cols, limits), panel_bytes);
}

void KERNEL(igemm_add)(size_t n_rows, size_t n_cols, size_t k_bytes, size_t taps_bytes,
                       const void **a, const void *w, void *c, size_t row_bytes, size_t panel_bytes,
                       size_t offset_bytes, const void *zero, const void *residual) {
  ET_ASSERT(residual != NULL && k_bytes % sizeof(float) == 0 && taps_bytes > 0 &&
            taps_bytes % (ROWS * sizeof *a) == 0);
  const eti_xnn_f32_residual *const r = residual;
  convolve(n_rows, a, taps_of(ROWS, taps_bytes, k_bytes, offset_bytes, zero), w,
           with_residual(target_of(c, row_bytes, n_cols, r->limits), r), panel_bytes);
}

void KERNEL_1_ROW(igemm)(size_t n_rows, size_t n_cols, size_t k_bytes, size_t taps_bytes,
                         const void **a, const void *w, void *c, size_t row_bytes,
                         size_t panel_bytes, size_t offset_bytes, const void *zero,
                         const void *limits) {
  ET_ASSERT(limits != NULL && k_bytes % sizeof(float) == 0 && taps_bytes > 0 &&
            taps_bytes % sizeof *a == 0);
  convolve(n_rows, a, taps_of(1, taps_bytes, k_bytes, offset_bytes, zero), w,
           target_of(c, row_bytes, n_cols, limits), panel_bytes);
}

void KERNEL_1_ROW(igemm_add)(size_t n_rows, size_t n_cols, size_t k_bytes, size_t taps_bytes,
                             const void **a, const void *w, void *c, size_t row_bytes,
                             size_t panel_bytes, size_t offset_bytes, const void *zero,
                             const void *residual) {
  ET_ASSERT(residual != NULL && k_bytes % sizeof(float) == 0 && taps_bytes > 0 &&
            taps_bytes % sizeof *a == 0);
  const eti_xnn_f32_residual *const r = residual;
  convolve(n_rows, a, taps_of(1, taps_bytes, k_bytes, offset_bytes, zero), w,
           with_residual(target_of(c, row_bytes, n_cols, r->limits), r), panel_bytes);
}

#undef INLINE
#undef CASE_OF_ROWS
#undef FOR_ROWS
#undef KERNEL
#undef KERNEL_1_ROW
#undef VEC
#undef LANES
#undef ROWS
#undef HEIGHTS
#undef V_LOAD
#undef V_STORE
#undef V_ZERO
#undef V_SET1
#undef V_BROADCAST
#undef V_ADD
#undef V_FMA
#undef V_MIN
#undef V_MAX
#undef V_LOAD_SOME
#undef V_STORE_SOME
