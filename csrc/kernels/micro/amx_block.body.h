// amx_block.body.h — the products of a block on tiles of AMX: two tiles of rows by two panels of 16
// columns. A word has the four bytes of a row or of a column that are multiplied together: a quad
// of bytes, or a pair of bf16. 16 words of a panel are a tile of weights as they lie. The including
// file gives INLINE and AMX_PRODUCT(sum, rows, columns), which adds the products of two tiles to a
// tile of sums.
#include "kernels/micro/amx_tiles.h"

#include <stdbool.h>

enum { WORD_BYTES = 4, TILE_WORDS = AMX_BYTES / WORD_BYTES };

// Addresses of two tiles of rows and of two panels, and how their words are cut into steps: all of
// the same number but the last one, since sizes of tiles are set once.
typedef struct amx_block {
  const char *rows[2], *panels[2];
  size_t row_step;  // bytes from row to row
  size_t words, steps, last;
  // Memory that is prefetched meanwhile: bytes from each panel to it, bytes of it, and how many of
  // them in a step.
  size_t ahead, ahead_bytes, ahead_step;
} amx_block;

// Sets the sizes of tiles of so many rows: sums are tiles 0 to 3, rows 4 and 5, weights 6 and 7. If
// the last step is shorter, the second tiles of rows and weights are for it alone.
static void amx_begin_blocks(size_t rows, size_t words, size_t last) {
  amx_config sizes = {.palette = 1};
  for (size_t i = 0; i < 4; i++) amx_set(&sizes, i, rows, AMX_BYTES);
  amx_set(&sizes, 4, rows, words * WORD_BYTES);
  amx_set(&sizes, 5, rows, last * WORD_BYTES);
  amx_set(&sizes, 6, words, AMX_BYTES);
  amx_set(&sizes, 7, last, AMX_BYTES);
  amx_begin(&sizes);
}

INLINE amx_block next_step(amx_block b) {
  for (size_t i = 0; i < 2; i++) {
    b.rows[i] += b.words * WORD_BYTES;
    b.panels[i] += b.words * AMX_BYTES;
  }
  return b;
}

// Sets what block `which` of n blocks of rows prefetches: its share of the panels that are needed
// after theirs, `next` bytes away (0: none), and a single one the two panels after its own.
INLINE void amx_share_ahead(amx_block *b, size_t which, size_t n, size_t next, size_t panel_bytes) {
  const size_t lines = next == 0 ? 0 : ((b->steps - 1) * b->words + b->last);
  const size_t from = which * lines / n, to = (which + 1) * lines / n;
  b->ahead = (n > 1 ? next : 2 * panel_bytes) + from * AMX_BYTES;
  b->ahead_bytes = (to - from) * AMX_BYTES;
  b->ahead_step = (TILE_WORDS + n - 1) / n * AMX_BYTES;
}

// Prefetches what step i has to of two later panels, to the L2 cache. Loads of tiles do not wake
// hardware prefetchers, but these do, as they are one line after the other: so more lines can be
// under way than a core waits for by itself.
INLINE void prefetch_step(const amx_block *b, const uintptr_t *later, size_t i) {
  const size_t from = i * b->ahead_step, most = from + b->ahead_step;
  const size_t to = most < b->ahead_bytes ? most : b->ahead_bytes;
  for (size_t at = from; at < to; at += AMX_BYTES) {
    __builtin_prefetch((const void *)(later[0] + at), 0, 2);
    __builtin_prefetch((const void *)(later[1] + at), 0, 2);
  }
}

// Adds the products of a step with all four tiles.
INLINE void add_step(const amx_block *b, bool two_rows, bool two_panels) {
  AMX_LOAD(4, b->rows[0], b->row_step);
  AMX_LOAD_PASSING(6, b->panels[0], AMX_BYTES);
  AMX_PRODUCT(0, 4, 6);
  if (two_panels) {
    AMX_LOAD_PASSING(7, b->panels[1], AMX_BYTES);
    AMX_PRODUCT(1, 4, 7);
  }
  if (two_rows) {
    AMX_LOAD(5, b->rows[1], b->row_step);
    AMX_PRODUCT(2, 5, 6);
    if (two_panels) AMX_PRODUCT(3, 5, 7);
  }
}

// Loads a tile of rows or of weights, which are others in the last step.
INLINE void load_rows(const amx_block *b, size_t i, bool is_last) {
  if (is_last) {
    AMX_LOAD(5, b->rows[i], b->row_step);
  } else {
    AMX_LOAD(4, b->rows[i], b->row_step);
  }
}

INLINE void load_weights(const amx_block *b, size_t i, bool is_last) {
  if (is_last) {
    AMX_LOAD_PASSING(7, b->panels[i], AMX_BYTES);
  } else {
    AMX_LOAD_PASSING(6, b->panels[i], AMX_BYTES);
  }
}

// Adds their products to a tile of sums.
#define ADD_LOADED(sum)       \
  do {                        \
    if (is_last) {            \
      AMX_PRODUCT(sum, 5, 7); \
    } else {                  \
      AMX_PRODUCT(sum, 4, 6); \
    }                         \
  } while (0)

// Adds the products of a step with one tile for all rows and one for all weights.
INLINE void add_step_by_turns(const amx_block *b, bool is_last, bool two_rows, bool two_panels) {
  load_rows(b, 0, is_last);
  load_weights(b, 0, is_last);
  ADD_LOADED(0);
  if (two_rows) {
    load_rows(b, 1, is_last);
    ADD_LOADED(2);
  }
  if (!two_panels) return;
  load_weights(b, 1, is_last);
  if (two_rows) {
    ADD_LOADED(3);
    load_rows(b, 0, is_last);
  }
  ADD_LOADED(1);
}

// Adds the products of step i to tiles of sums, and prefetches its share of `later`: where the
// memory that is prefetched begins.
INLINE void amx_add_step(amx_block *b, size_t i, const uintptr_t *later, bool two_rows,
                         bool two_panels) {
  prefetch_step(b, later, i);
  if (b->last == b->words) {
    add_step(b, two_rows, two_panels);
  } else if (i + 1 < b->steps) {
    add_step_by_turns(b, false, two_rows, two_panels);
  } else {
    add_step_by_turns(b, true, two_rows, two_panels);
  }
  *b = next_step(*b);
}

// Adds the products of all steps.
INLINE void amx_add_products(amx_block b, bool two_rows, bool two_panels) {
  const uintptr_t later[2] = {(uintptr_t)b.panels[0] + b.ahead, (uintptr_t)b.panels[1] + b.ahead};
  for (size_t i = 0; i < b.steps; i++) amx_add_step(&b, i, later, two_rows, two_panels);
}
