// bgemm_amx.c — the products of bgemm.h with TDPBF16PS on tiles of AMX. 16 pairs of a panel are a
// tile of weights as they lie, 16 rows of bf16 are one of rows, and 16 × 16 sums another one; a
// block is two tiles of rows by two panels. Needs AMX-TILE, AMX-BF16, AVX-512 F, BW, VL, BF16.
#include "kernels/micro/bgemm/bgemm.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define AMX_PRODUCT(sum, rows, columns) AMX_DOT_BF16(sum, rows, columns)
#include "kernels/micro/amx_block.body.h"

enum { NR = ETI_BGEMM_NR, BLOCK_ROWS = 2 * AMX_ROWS, BLOCK_COLUMNS = 2 * NR };

_Static_assert(TILE_WORDS *ETI_BGEMM_PAIR == ETI_BGEMM_TILE_TERMS &&
                   ETI_BGEMM_PAIR * sizeof(uint16_t) == WORD_BYTES &&
                   NR * sizeof(float) == AMX_BYTES,
               "a group of terms and a panel's columns are rows of tiles");

// Pairs of the last group of terms.
static size_t last_of(const eti_btile *t) {
  return t->pairs % TILE_WORDS == 0 ? TILE_WORDS : t->pairs % TILE_WORDS;
}

// Computes a block from the sums at `from`, whose rows are from_step bytes apart (0: all the same),
// to those at `to`.
INLINE void compute_block(const amx_block *b, const float *from, size_t from_step, float *to,
                          size_t to_step, bool two_rows, bool two_panels) {
  const char *const lower = (const char *)from + AMX_ROWS * from_step;
  AMX_LOAD(0, from, from_step);
  if (two_panels) AMX_LOAD(1, from + NR, from_step);
  if (two_rows) AMX_LOAD(2, lower, from_step);
  if (two_rows && two_panels) AMX_LOAD(3, lower + AMX_BYTES, from_step);
  amx_add_products(*b, two_rows, two_panels);
  char *const below = (char *)to + AMX_ROWS * to_step;
  AMX_STORE(to, to_step, 0);
  if (two_panels) AMX_STORE(to + NR, to_step, 1);
  if (two_rows) AMX_STORE(below, to_step, 2);
  if (two_rows && two_panels) AMX_STORE(below + AMX_BYTES, to_step, 3);
}

static void compute(const amx_block *b, const float *from, size_t from_step, float *to,
                    size_t to_step, bool two_rows, bool two_panels) {
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
    amx_block b = {
        .rows = {a, a + AMX_ROWS * t->a_step},
        .panels = {(const char *)w, (const char *)(two_panels ? w + t->w_step : w)},
        .row_step = t->a_step,
        .words = TILE_WORDS,
        .steps = (t->pairs + TILE_WORDS - 1) / TILE_WORDS,
        .last = last_of(t),
    };
    amx_share_ahead(&b, row / BLOCK_ROWS, (t->m + BLOCK_ROWS - 1) / BLOCK_ROWS, t->next,
                    t->w_step * sizeof *w);
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
  const size_t whole = t.m / AMX_ROWS * AMX_ROWS;
  if (whole > 0) amx_begin_blocks(AMX_ROWS, TILE_WORDS, last_of(&t));
  for (size_t row = 0; row < whole; row += BLOCK_ROWS) {
    const bool two_rows = whole - row > AMX_ROWS;
    columns(&t, row, two_rows ? BLOCK_ROWS : AMX_ROWS, two_rows);
  }
  if (whole < t.m) {
    amx_begin_blocks(t.m - whole, TILE_WORDS, last_of(&t));
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
