// bgemm_amx.c — the products of bgemm.h with TDPBF16PS on tiles of AMX. 16 pairs of a panel are a
// tile of weights as they lie, 16 rows of bf16 are one of rows, and 16 × 16 sums another one; a
// block is two tiles of rows by two panels. Needs AMX-TILE, AMX-BF16, AVX-512 F, BW, VL, BF16.
#include "kernels/micro/amx_tiles.h"
#include "kernels/micro/bgemm/bgemm.h"

#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum {
  NR = ETI_BGEMM_NR,
  PAIR = ETI_BGEMM_PAIR,
  TILE_PAIRS = ETI_BGEMM_TILE_TERMS / PAIR,
  PAIR_BYTES = PAIR * sizeof(uint16_t),  // of a row
  STEP_BYTES = NR * PAIR_BYTES,          // of a panel, for a pair
  BLOCK_ROWS = 2 * AMX_ROWS,
  BLOCK_COLUMNS = 2 * NR,
};

_Static_assert(TILE_PAIRS *PAIR_BYTES == AMX_BYTES && NR * sizeof(float) == AMX_BYTES,
               "a group of terms and a panel's columns are rows of tiles");

// Sums are tiles 0 to 3, rows 4 and 5, weights 6 and 7. If the last group of terms is shorter, the
// second tiles of rows and weights are for it alone.
static void begin_tiles(size_t rows, size_t last) {
  amx_config sizes = {.palette = 1};
  for (size_t i = 0; i < 4; i++) amx_set(&sizes, i, rows, AMX_BYTES);
  amx_set(&sizes, 4, rows, AMX_BYTES);
  amx_set(&sizes, 5, rows, last * PAIR_BYTES);
  amx_set(&sizes, 6, TILE_PAIRS, STEP_BYTES);
  amx_set(&sizes, 7, last, STEP_BYTES);
  amx_begin(&sizes);
}

// Addresses of a block: of two tiles of rows, and of two panels.
typedef struct block {
  const char *rows[2];
  const uint16_t *panels[2];
  size_t row_step, pairs;
  size_t ahead;  // bytes from a panel to the one that is prefetched meanwhile; or 0
} block;

INLINE block next_group(block b) {
  for (size_t i = 0; i < 2; i++) {
    b.rows[i] += AMX_BYTES;
    b.panels[i] += TILE_PAIRS * NR * PAIR;
  }
  return b;
}

// Prefetches a tile of weights to the L2 cache: loads of tiles do not wake hardware prefetchers.
INLINE void prefetch(const uint16_t *panel, size_t ahead) {
  const char *const at = (const char *)((uintptr_t)panel + ahead);
  for (size_t i = 0; i < TILE_PAIRS; i++) __builtin_prefetch(at + i * STEP_BYTES, 0, 2);
}

// Adds the products of a whole group with all four tiles.
INLINE void add_group(const block *b, bool two_rows, bool two_panels) {
  AMX_LOAD(4, b->rows[0], b->row_step);
  AMX_LOAD(6, b->panels[0], STEP_BYTES);
  AMX_DOT_BF16(0, 4, 6);
  if (two_panels) {
    AMX_LOAD(7, b->panels[1], STEP_BYTES);
    AMX_DOT_BF16(1, 4, 7);
  }
  if (two_rows) {
    AMX_LOAD(5, b->rows[1], b->row_step);
    AMX_DOT_BF16(2, 5, 6);
    if (two_panels) AMX_DOT_BF16(3, 5, 7);
  }
}

// Adds them with one tile of rows and one of weights, 4 and 6, since 5 and 7 have other sizes.
INLINE void add_group_by_turns(const block *b, bool two_rows, bool two_panels) {
  AMX_LOAD(4, b->rows[0], b->row_step);
  AMX_LOAD(6, b->panels[0], STEP_BYTES);
  AMX_DOT_BF16(0, 4, 6);
  if (two_rows) {
    AMX_LOAD(4, b->rows[1], b->row_step);
    AMX_DOT_BF16(2, 4, 6);
  }
  if (!two_panels) return;
  AMX_LOAD(6, b->panels[1], STEP_BYTES);
  if (two_rows) {
    AMX_DOT_BF16(3, 4, 6);
    AMX_LOAD(4, b->rows[0], b->row_step);
  }
  AMX_DOT_BF16(1, 4, 6);
}

// Adds the products of the last group, which is shorter.
INLINE void add_rest(const block *b, bool two_rows, bool two_panels) {
  AMX_LOAD(5, b->rows[0], b->row_step);
  AMX_LOAD(7, b->panels[0], STEP_BYTES);
  AMX_DOT_BF16(0, 5, 7);
  if (two_rows) {
    AMX_LOAD(5, b->rows[1], b->row_step);
    AMX_DOT_BF16(2, 5, 7);
  }
  if (!two_panels) return;
  AMX_LOAD(7, b->panels[1], STEP_BYTES);
  if (two_rows) {
    AMX_DOT_BF16(3, 5, 7);
    AMX_LOAD(5, b->rows[0], b->row_step);
  }
  AMX_DOT_BF16(1, 5, 7);
}

INLINE void add_products(block b, bool two_rows, bool two_panels) {
  const bool has_rest = b.pairs % TILE_PAIRS != 0;
  for (size_t i = b.pairs / TILE_PAIRS; i > 0; i--) {
    for (size_t p = 0; p < 2 && b.ahead > 0; p++) prefetch(b.panels[p], b.ahead);
    if (has_rest) {
      add_group_by_turns(&b, two_rows, two_panels);
    } else {
      add_group(&b, two_rows, two_panels);
    }
    b = next_group(b);
  }
  if (has_rest) add_rest(&b, two_rows, two_panels);
}

// Computes a block from the sums at `from`, whose rows are from_step bytes apart (0: all the same),
// to those at `to`.
INLINE void compute_block(const block *b, const float *from, size_t from_step, float *to,
                          size_t to_step, bool two_rows, bool two_panels) {
  const char *const lower = (const char *)from + AMX_ROWS * from_step;
  AMX_LOAD(0, from, from_step);
  if (two_panels) AMX_LOAD(1, from + NR, from_step);
  if (two_rows) AMX_LOAD(2, lower, from_step);
  if (two_rows && two_panels) AMX_LOAD(3, lower + AMX_BYTES, from_step);
  add_products(*b, two_rows, two_panels);
  char *const below = (char *)to + AMX_ROWS * to_step;
  AMX_STORE(to, to_step, 0);
  if (two_panels) AMX_STORE(to + NR, to_step, 1);
  if (two_rows) AMX_STORE(below, to_step, 2);
  if (two_rows && two_panels) AMX_STORE(below + AMX_BYTES, to_step, 3);
}

static void compute(const block *b, const float *from, size_t from_step, float *to, size_t to_step,
                    bool two_rows, bool two_panels) {
  if (two_rows && two_panels) {
    compute_block(b, from, from_step, to, to_step, true, true);
  } else if (two_panels) {
    compute_block(b, from, from_step, to, to_step, false, true);
  } else if (two_rows) {
    compute_block(b, from, from_step, to, to_step, true, false);
  } else {
    compute_block(b, from, from_step, to, to_step, false, false);
  }
}

// Copies m rows of n floats.
static void copy_rows(float *to, size_t to_step, const float *from, size_t from_step, size_t m,
                      size_t n) {
  for (size_t r = 0; r < m; r++) memcpy(to + r * to_step, from + r * from_step, n * sizeof *to);
}

// All columns of m rows from `row` on, in one or two tiles.
static void columns(const eti_btile *t, size_t row, size_t m, bool two_rows) {
  static const float zeros[BLOCK_COLUMNS];
  const size_t out_bytes = t->out_step * sizeof(float);
  const char *const a = (const char *)t->a + row * t->a_step;
  for (size_t c = 0; c < t->n; c += BLOCK_COLUMNS) {
    const size_t left = t->n - c, n = left < BLOCK_COLUMNS ? left : BLOCK_COLUMNS;
    const bool two_panels = n > NR;
    const uint16_t *const w = t->w + c / NR * t->w_step;
    const block b = {
        .rows = {a, a + AMX_ROWS * t->a_step},
        .panels = {w, two_panels ? w + t->w_step : w},
        .row_step = t->a_step,
        .pairs = t->pairs,
        // The first rows read weights from memory, the others from the L2 cache.
        .ahead = row == 0 && t->next > 0 ? 2 * t->w_step * sizeof *w : 0,
    };
    const float *const start = t->bias == NULL ? zeros : t->bias + c;
    float *const out = t->out + row * t->out_step + c;
    if (n % NR == 0) {
      compute(&b, t->adds ? out : start, t->adds ? out_bytes : 0, out, out_bytes, two_rows,
              two_panels);
    } else {
      _Alignas(64) float sums[BLOCK_ROWS * BLOCK_COLUMNS];
      const size_t step = BLOCK_COLUMNS * sizeof(float);
      if (t->adds) copy_rows(sums, BLOCK_COLUMNS, out, t->out_step, m, n);
      compute(&b, t->adds ? sums : start, t->adds ? step : 0, sums, step, two_rows, two_panels);
      copy_rows(out, t->out_step, sums, BLOCK_COLUMNS, m, n);
    }
  }
}

static void tile(const eti_btile *given) {
  ET_ASSERT(eti_btile_is_valid(given));
  const eti_btile t = *given;
  const size_t last = t.pairs % TILE_PAIRS == 0 ? TILE_PAIRS : t.pairs % TILE_PAIRS;
  const size_t whole = t.m / AMX_ROWS * AMX_ROWS;
  if (whole > 0) begin_tiles(AMX_ROWS, last);
  for (size_t row = 0; row < whole; row += BLOCK_ROWS) {
    const bool two_rows = whole - row > AMX_ROWS;
    columns(&t, row, two_rows ? BLOCK_ROWS : AMX_ROWS, two_rows);
  }
  if (whole < t.m) {
    begin_tiles(t.m - whole, last);
    columns(&t, whole, t.m - whole, false);
  }
  if (t.m > 0) amx_end();
}

static void copy(void *dst, const float *src, size_t n) {
  eti_bgemm_avx512bf16.copy(dst, src, n);
}

const eti_bgemm_micro eti_bgemm_amx = {
    .term_bytes = sizeof(uint16_t),
    .rows_of_a_tile = BLOCK_ROWS,
    .rows_of_a_block = 7 * BLOCK_ROWS,
    .tile = tile,
    .copy = copy,
};
