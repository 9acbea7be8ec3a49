// bgemm.body.h — the products of bgemm.h over vectors. The including file sets:
//   ISA(name)                        end of the function names
//   vf, LANES                        vector of f32 and its elements
//   MR                               most rows of a tile
//   VECTORS(m)                       vectors of columns of a tile of m rows, 1 ≤ m ≤ MR
//   VF_ZERO VF_LOAD(p) VF_ADD(a, b)  whole vectors
//   vp, VP_LOAD(p)                   vector of LANES pairs of bf16
//   load_row(p, v, tv, n)            loads the first n columns of tv vectors
//   store_row(p, v, tv, n)           stores them
// and either
//   VF_DOT(sum, x, w), vx, VX_PAIR(p)   both steps of a pair for rows of bf16; vx is a pair of a
//                                       row for all columns
// or, for rows of f32,
//   VF_EVEN(w) VF_ODD(w)             first and second terms of pairs, in f32
//   VX_SET1(p) VF_FMA(x, b, sum)     one term of a row for all columns; x · b + sum
// or, for instructions that take a term of a row from a lane,
//   TERM_BYTES, vx, VX_PAIRS         of a term of a row; vector of so many pairs of a row
//   VX_LOAD(p) VX_PAIR(p)            loads all of them, or the first one
//   vw, VW_TERMS(w, odd)             the first or second terms of pairs, as VF_LANE needs them
//   VP_KEEP(w)                       w, loaded before what follows
//   VF_LANE(sum, x, w, i)            the product of term i of x, added to sum
// WAS_FLUSHED(sums, n) is optional: true if the processor has flushed a result of these n sums that
// others may round up to a normal number; compute_exactly(t, row, column, m, n) then computes them.
// The caller makes the processor flush denormals where its instructions do not.

#define INLINE static inline __attribute__((always_inline))
// Unrolls loops over registers.
#define UNROLL _Pragma("GCC unroll 32")

enum {
  NR = ETI_BGEMM_NR,
  PAIR = ETI_BGEMM_PAIR,
  NV = NR / LANES,            // vectors of a panel
  PAIR_ELEMENTS = NR * PAIR,  // of a panel
#if defined(VF_LANE)
  TERM = TERM_BYTES,
#elif defined(VF_DOT)
  TERM = 2,  // bytes of a term of a row
#else
  TERM = 4,
#endif
  HALF = 6,
  MOST = 32,  // sums of a tile
};

INLINE vp load_w(const uint16_t *w, size_t w_step, size_t v) {
  return VP_LOAD(w + v / NV * w_step + v % NV * LANES * PAIR);
}

// Addresses of a pair: of the first row and of the one HALF rows after it. Addresses of the others
// are sums of one of them and five registers.
typedef struct pair {
  const char *first, *second;
} pair;

INLINE const char *row_at(pair a, size_t a_step, size_t r) {
  return (r < HALF ? a.first : a.second) + r % HALF * a_step;
}

INLINE pair pair_after(pair a, size_t pairs) {
  return (pair){a.first + pairs * PAIR * TERM, a.second + pairs * PAIR * TERM};
}

#ifdef VF_LANE
// Adds the products of `pairs` pairs of x to all columns by turns, since an addition waits for the
// one before. The weights are loaded and widened ahead.
INLINE void add_by_turns(const vx x[MR], const uint16_t *w, size_t w_step, size_t pairs, size_t m,
                         size_t tv, vf sums[MOST]) {
  UNROLL for (size_t p = 0; p < pairs; p++, w += PAIR_ELEMENTS) {
    vp both[MOST];
    UNROLL for (size_t v = 0; v < tv; v++) both[v] = VP_KEEP(load_w(w, w_step, v));
    UNROLL for (size_t odd = 2; odd-- > 0;) {
      UNROLL for (size_t v = 0; v < tv; v += NV) {
        vw b[NV];
        UNROLL for (size_t i = 0; i < NV; i++) b[i] = VW_TERMS(both[v + i], odd);
        UNROLL for (size_t i = 0; i < m * NV; i++) {
          vf *const sum = &sums[i % m * tv + v + i / m];
          *sum = VF_LANE(*sum, x[i % m], b[i / m], 2 * p + odd);
        }
      }
    }
  }
}

// Adds them column after column, which needs fewer registers.
INLINE void add_to_columns(const vx x[MR], const uint16_t *w, size_t w_step, size_t pairs, size_t m,
                           size_t tv, vf sums[MOST]) {
  vp next = load_w(w, w_step, 0);
  UNROLL for (size_t i = 0; i < pairs * tv; i++) {
    const size_t p = i / tv, v = i % tv;
    const vp both = next;
    if (i + 1 < pairs * tv) {
      next = VP_KEEP(load_w(w + (i + 1) / tv * PAIR_ELEMENTS, w_step, (i + 1) % tv));
    }
    UNROLL for (size_t odd = 2; odd-- > 0;) {
      UNROLL for (size_t r = 0; r < m; r++) {
        sums[r * tv + v] = VF_LANE(sums[r * tv + v], x[r], VW_TERMS(both, odd), 2 * p + odd);
      }
    }
  }
}

// Adds the products of one pair or VX_PAIRS pairs of m rows and tv vectors of columns; pairs, m and
// tv are constants where this is called.
INLINE void add_pairs(pair a, size_t a_step, const uint16_t *w, size_t w_step, size_t pairs,
                      size_t m, size_t tv, vf sums[MOST]) {
  vx x[MR];
  UNROLL for (size_t r = 0; r < m; r++) {
    const char *const at = row_at(a, a_step, r);
    x[r] = pairs == 1 ? VX_PAIR(at) : VX_LOAD(at);
  }
  if (m <= 2) {
    add_by_turns(x, w, w_step, pairs, m, tv, sums);
  } else {
    add_to_columns(x, w, w_step, pairs, m, tv, sums);
  }
}
#endif

// Adds the products of a pair of m rows and tv vectors of columns; m and tv are constants where
// this is called.
INLINE void add_pair(pair a, size_t a_step, const uint16_t *w, size_t w_step, size_t m, size_t tv,
                     vf sums[MOST]) {
#if defined(VF_LANE)
  add_pairs(a, a_step, w, w_step, 1, m, tv, sums);
#elif defined(VF_DOT)
  vp b[MOST];
  UNROLL for (size_t v = 0; v < tv; v++) b[v] = load_w(w, w_step, v);
  UNROLL for (size_t r = 0; r < m; r++) {
    const vx x = VX_PAIR(row_at(a, a_step, r));
    UNROLL for (size_t v = 0; v < tv; v++) sums[r * tv + v] = VF_DOT(sums[r * tv + v], x, b[v]);
  }
#else
  UNROLL for (size_t odd = 2; odd-- > 0;) {
    vf b[MOST];
    UNROLL for (size_t v = 0; v < tv; v++) {
      const vp both = load_w(w, w_step, v);
      b[v] = odd != 0 ? VF_ODD(both) : VF_EVEN(both);
    }
    UNROLL for (size_t r = 0; r < m; r++) {
      const vf x = VX_SET1((const float *)(const void *)(row_at(a, a_step, r) + odd * TERM));
      UNROLL for (size_t v = 0; v < tv; v++) {
        sums[r * tv + v] = VF_FMA(x, b[v], sums[r * tv + v]);
      }
    }
  }
#endif
}

// Prefetches the weights of a pair.
INLINE void prefetch(const uint16_t *w, size_t w_step, size_t ahead, size_t tv) {
  UNROLL for (size_t p = 0; p < tv / NV; p++) {
    __builtin_prefetch((const char *)(w + p * w_step) + ahead, 0, 2);
  }
}

// Adds the products of the pairs [first, first + n).
INLINE void multiply(const eti_btile *t, size_t row, const uint16_t *w, size_t first, size_t n,
                     size_t ahead, size_t m, size_t tv, vf sums[MOST]) {
  const size_t w_step = t->w_step, a_step = t->a_step;
  const char *const rows = (const char *)t->a + row * a_step + first * PAIR * TERM;
  pair a = {rows, m > HALF ? rows + HALF * a_step : rows};
  w += first * PAIR_ELEMENTS;
#ifdef VF_LANE
  for (; n >= VX_PAIRS; n -= VX_PAIRS, a = pair_after(a, VX_PAIRS), w += VX_PAIRS * PAIR_ELEMENTS) {
    UNROLL for (size_t i = 0; i < VX_PAIRS; i++) {
      prefetch(w + i * PAIR_ELEMENTS, w_step, ahead, tv);
    }
    add_pairs(a, a_step, w, w_step, VX_PAIRS, m, tv, sums);
  }
#endif
  for (; n > 0; n--, a = pair_after(a, 1), w += PAIR_ELEMENTS) {
    prefetch(w, w_step, ahead, tv);
    add_pair(a, a_step, w, w_step, m, tv, sums);
  }
}

// Computes m rows and n columns, which tv vectors hold, chunk by chunk.
INLINE void columns_of_rows(const eti_btile *t, size_t row, size_t column, size_t ahead, size_t m,
                            size_t tv) {
  const uint16_t *const w = t->w + column / NR * t->w_step;
  const size_t n = t->n - column < tv * LANES ? t->n - column : tv * LANES;
  float *const out = t->out + row * t->out_step + column;
  vf sums[MOST], totals[MOST];
  UNROLL for (size_t v = 0; v < tv; v++) {
    const vf start = t->bias == NULL ? VF_ZERO : VF_LOAD(t->bias + column + v * LANES);
    UNROLL for (size_t r = 0; r < m; r++) sums[r * tv + v] = totals[r * tv + v] = start;
  }
  if (t->adds) {
    UNROLL for (size_t r = 0; r < m; r++) load_row(out + r * t->out_step, totals + r * tv, tv, n);
  }
  bool adds = t->adds;
  for (size_t first = 0;;) {
    const size_t left = t->pairs - first;
    const size_t some = left < ETI_BGEMM_CHUNK_PAIRS ? left : ETI_BGEMM_CHUNK_PAIRS;
    multiply(t, row, w, first, some, ahead, m, tv, sums);
    if (some == left) break;
    UNROLL for (size_t i = 0; i < m * tv; i++) {
      totals[i] = adds ? VF_ADD(totals[i], sums[i]) : sums[i];
      sums[i] = VF_ZERO;
    }
    adds = true;
    first += some;
  }
  if (adds) {
    UNROLL for (size_t i = 0; i < m * tv; i++) sums[i] = VF_ADD(totals[i], sums[i]);
  }
#ifdef WAS_FLUSHED
  if (WAS_FLUSHED(sums, m * tv)) {
    compute_exactly(t, row, column, m, n);
    return;
  }
#endif
  UNROLL for (size_t r = 0; r < m; r++) {
    vf found[MOST];  // its address is taken, so that `sums` may stay in registers
    UNROLL for (size_t v = 0; v < tv; v++) found[v] = sums[r * tv + v];
    store_row(out + r * t->out_step, found, tv, n);
  }
}

// Tile i of all: the tiles after the first one share the prefetching of the next panels.
INLINE void rows(const eti_btile *t, size_t row, size_t m, size_t i, size_t tiles) {
  const size_t tv = VECTORS(m), width = tv * LANES;
  size_t c = 0;
  for (; c < t->n && t->n - c > width - NR; c += width) {
    const size_t ahead = i > 0 && c * (tiles - 1) / t->n == i - 1 ? t->next : 0;
    columns_of_rows(t, row, c, ahead, m, tv);
  }
  for (; tv > NV && c < t->n; c += NR) columns_of_rows(t, row, c, 0, m, NV);
}

#define ROWS(count)                \
  case count:                      \
    rows(t, row, count, i, tiles); \
    break

// Divides the rows into tiles of nearly equal numbers of rows. A tile meets all columns before the
// next one: its rows stay in the L1 cache.
static __attribute__((noinline)) void all_rows(const eti_btile *t) {
  const size_t tiles = (t->m + MR - 1) / MR;
  for (size_t i = 0; i < tiles; i++) {
    const size_t row = i * t->m / tiles;
    switch ((i + 1) * t->m / tiles - row) {
      ROWS(1);
      ROWS(2);
      ROWS(3);
      ROWS(4);
      ROWS(5);
#if MR > 5
      ROWS(6);
#endif
#if MR > 6
      ROWS(7);
      ROWS(8);
      ROWS(9);
      ROWS(10);
      ROWS(11);
      ROWS(12);
#endif
      default:
        break;
    }
  }
}
