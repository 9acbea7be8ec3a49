// qgemm.body.h — the products of qgemm.h over the vectors of a file qgemm_vectors_*.h, included
// before. The including file gives ISA(name), the rows MR and the vectors TV of a tile, and VI_DOT
// if rows are in U8 instead of words.
#ifdef VI_DOT
#define OFFSET 128  // in each term of a row
#else
#define OFFSET 0
#endif
#include "kernels/micro/qgemm/qgemm_results.body.h"

enum {
  QUAD_BYTES = NR * QUAD,  // of a panel
  PANELS = TV / NV,        // of a tile
#ifdef VI_DOT
  ROW_QUAD = QUAD,  // bytes of a quad of a row
#else
  ROW_QUAD = 2 * QUAD,
#endif
};

// ---- products

INLINE vi four_bytes(const char *p) {
  int32_t word;
  memcpy(&word, p, sizeof word);
  return VI_SET1(word);
}

INLINE vi load_w(const int8_t *w, size_t panel, size_t v) {
  return VI_LOAD(w + v / NV * panel + v % NV * LANES * QUAD);
}

// Addresses of a quad: of the first row and of the one HALF rows after it. Addresses of the others
// are sums of one of them and five registers.
typedef struct quad {
  const char *first, *second;
} quad;

enum { HALF = 6 };

INLINE const char *row_at(quad a, size_t a_step, size_t r) {
  return (r < HALF ? a.first : a.second) + r % HALF * a_step;
}

INLINE quad quad_at(quad a, size_t i) {
  return (quad){a.first + i * ROW_QUAD, a.second + i * ROW_QUAD};
}

// Adds the products of a quad of m rows and tv vectors of columns; m and tv are constants where
// this is called.
INLINE void add_quad(quad a, size_t a_step, const int8_t *w, size_t panel, size_t m, size_t tv,
                     vi sums[][TV]) {
  vi b[TV];
#ifdef VI_DOT
  UNROLL for (size_t v = 0; v < tv; v++) b[v] = load_w(w, panel, v);
  UNROLL for (size_t r = 0; r < m; r++) {
    const vi x = four_bytes(row_at(a, a_step, r));
    UNROLL for (size_t v = 0; v < tv; v++) sums[r][v] = VI_DOT(sums[r][v], x, b[v]);
  }
#else
  UNROLL for (size_t odd = 0; odd < 2; odd++) {
    UNROLL for (size_t v = 0; v < tv; v++) {
      const vi both = load_w(w, panel, v);
      b[v] = odd != 0 ? VI_ODD(both) : VI_EVEN(both);
    }
    UNROLL for (size_t r = 0; r < m; r++) {
      const vi x = four_bytes(row_at(a, a_step, r) + odd * QUAD);
      UNROLL for (size_t v = 0; v < tv; v++) {
        sums[r][v] = VI_ADD(sums[r][v], VI_PAIRS(x, b[v]));
        // Keeps the order: otherwise gcc adds products to each other, and runs out of registers.
        __asm__("" : "+v"(sums[r][v]));
      }
    }
  }
#endif
}

// Adds the products of all quads. One or two rows have several sums for each result, since an
// addition waits for the one before.
INLINE void multiply(const eti_qtile *t, size_t row, const int8_t *w, size_t ahead, size_t m,
                     size_t tv, vi sums[MR][TV]) {
  const size_t panel = eti_qpanel_bytes(t->quads), a_step = t->a_step;
  const char *const first = (const char *)t->a + row * a_step;
  quad a = {first, m > HALF ? first + HALF * a_step : first};
  size_t q = t->quads;
  if (m <= 2) {
    const size_t chains = m == 1 ? 4 : 2;
    vi more[4][2][TV];
    UNROLL for (size_t i = 0; i < chains * m * tv; i++) {
      more[i / m / tv][i / tv % m][i % tv] = VI_SET1(0);
    }
    for (; q >= chains; q -= chains, a = quad_at(a, chains), w += chains * QUAD_BYTES) {
      UNROLL for (size_t i = 0; i < chains; i++) {
        add_quad(quad_at(a, i), a_step, w + i * QUAD_BYTES, panel, m, tv, more[i]);
      }
    }
    UNROLL for (size_t i = 0; i < chains * m * tv; i++) {
      vi *const sum = &sums[i / tv % m][i % tv];
      *sum = VI_ADD(*sum, more[i / m / tv][i / tv % m][i % tv]);
    }
  }
  for (; q > 0; q--, a = quad_at(a, 1), w += QUAD_BYTES) {
    // Products of words take too long to wait for memory.
    for (size_t p = 0; OFFSET != 0 && p < tv / NV; p++) {
      __builtin_prefetch(w + ahead + p * panel, 0, 2);
    }
    add_quad(a, a_step, w, panel, m, tv, sums);
  }
}

#if TV == 2
// Writes the results of an even number of rows and whole panels.
INLINE void finish_pairs(const eti_qtile *t, size_t row, size_t column, size_t m,
                         const vi sums[MR][TV]) {
  const limits l = limits_of(t->low, t->high, t->zero);
  int8_t *const out = (int8_t *)t->out + row * t->out_step + column;
  UNROLL for (size_t r = 0; r < m; r += 2) {
    store_two_rows(out + r * t->out_step, t->out_step, sums[r], sums[r + 1], t, column, &l);
  }
}
#endif

// Writes the results of m rows and tv vectors.
INLINE void finish_rows(const eti_qtile *t, size_t row, size_t column, size_t m, size_t tv,
                        const vi sums[MR][TV], bool is_float) {
  const limits l = limits_of(t->low, t->high, t->zero);
  size_t r = 0;
#if TV == 2
  if (!is_float && tv == TV && t->n - column >= PANELS * NR) {
    for (; r + 2 <= m; r += 2) finish_pairs(t, row + r, column, 2, sums + r);
  }
#endif
  for (; r < m; r++) {
    UNROLL for (size_t p = 0; p < tv / NV; p++) {
      const size_t at = column + p * NR, first = (row + r) * t->out_step + at;
      if (is_float) {
        store_f32((float *)t->out + first, sums[r] + p * NV, t, row + r, at, t->n - at);
      } else {
        store_i8((int8_t *)t->out + first, sums[r] + p * NV, t, at, &l, t->n - at);
      }
    }
  }
}

// Writes the results of one part of a tile, or of floats: code that all of them share.
static __attribute__((noinline)) void finish_some(const eti_qtile *t, size_t row, size_t column,
                                                  size_t m, size_t tv, const vi sums[MR][TV],
                                                  bool is_float) {
  if (tv == TV && is_float) {
    finish_rows(t, row, column, m, TV, sums, true);
  } else if (tv == TV) {
    finish_rows(t, row, column, m, TV, sums, false);
  } else if (is_float) {
    finish_rows(t, row, column, m, NV, sums, true);
  } else {
    finish_rows(t, row, column, m, NV, sums, false);
  }
}

INLINE void columns_of_rows(const eti_qtile *t, size_t row, size_t column, size_t ahead, size_t m,
                            size_t tv, bool is_float) {
  vi sums[MR][TV];
  UNROLL for (size_t r = 0; r < m; r++) {
    UNROLL for (size_t v = 0; v < tv; v++) {
      sums[r][v] = is_float ? VI_SET1(0) : VI_LOAD(t->start + column + v * LANES);
    }
  }
  multiply(t, row, t->w + column / NR * eti_qpanel_bytes(t->quads), ahead, m, tv, sums);
#if TV == 2
  if (m == MR && tv == TV && !is_float && t->n - column >= PANELS * NR) {
    finish_pairs(t, row, column, m, (const vi(*)[TV])sums);
    return;
  }
#endif
  vi found[MR][TV];  // its address is taken, so that `sums` may stay in registers
  UNROLL for (size_t i = 0; i < m * tv; i++) found[i / tv][i % tv] = sums[i / tv][i % tv];
  finish_some(t, row, column, m, tv, (const vi(*)[TV])found, is_float);
}

// Tile i of all: the tiles after the first one share the prefetching of the next panels.
INLINE void rows(const eti_qtile *t, size_t row, size_t m, size_t i, size_t tiles, bool is_float) {
  size_t c = 0;
  for (; c < t->n && t->n - c > (PANELS - 1) * NR; c += PANELS * NR) {
    const size_t ahead = i > 0 && c * (tiles - 1) / t->n == i - 1 ? t->next : 0;
    columns_of_rows(t, row, c, ahead, m, TV, is_float);
  }
  if (PANELS > 1 && c < t->n) columns_of_rows(t, row, c, 0, m, NV, is_float);
}

#define ROWS(count)                          \
  case count:                                \
    rows(t, row, count, i, tiles, is_float); \
    break

// Divides the rows into tiles of nearly equal numbers of rows. A tile meets all columns before the
// next one: its rows stay in the L1 cache.
INLINE void all_rows(const eti_qtile *t, bool is_float) {
  const size_t tiles = (t->m + MR - 1) / MR;
  for (size_t i = 0; i < tiles; i++) {
    const size_t row = i * t->m / tiles;
    switch ((i + 1) * t->m / tiles - row) {
      ROWS(1);
      ROWS(2);
      ROWS(3);
      ROWS(4);
      ROWS(5);
      ROWS(6);
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

static void ISA(tile_i8)(const eti_qtile *given) {
  ET_ASSERT(eti_qtile_is_valid(given, false));
  const eti_qtile t = *given;
  all_rows(&t, false);
}

static void ISA(tile_f32)(const eti_qtile *given) {
  ET_ASSERT(eti_qtile_is_valid(given, true));
  const eti_qtile t = *given;
  all_rows(&t, true);
}

// ---- parts of vectors

// Loads n ≤ 16 values, and zeros.
static inline __m128i load_part(const int8_t *p, size_t n) {
  uint64_t low = 0, high = 0;
  if (n >= NR) return _mm_loadu_si128((const __m128i *)(const void *)p);
  if (n >= 8) {
    memcpy(&low, p, 8);
    if (n > 8) memcpy(&high, p + n - 8, 8);
    high = n > 8 ? high >> (8 * (16 - n)) : 0;
  } else {
    for (size_t i = 0; i < n; i++) low |= (uint64_t)(uint8_t)p[i] << (8 * i);
  }
  return _mm_set_epi64x((long long)high, (long long)low);
}
