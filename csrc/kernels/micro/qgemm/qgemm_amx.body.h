// qgemm_amx.body.h — the products of qgemm.h on tiles of AMX, for rows in either form. 16 quads of
// a panel are a tile of weights as they lie, 16 rows are one of rows, and 16 × 16 sums another one;
// a block is two tiles of rows by two panels. The including file gives OFFSET, which each term of a
// row has on top, and AMX_PRODUCT for such terms.
#include "kernels/micro/qgemm/qgemm_vectors_512.h"

#include "kernels/micro/qgemm/qgemm_results.body.h"

#include "kernels/micro/amx_block.body.h"

enum {
  BLOCK_ROWS = 2 * AMX_ROWS,
  BLOCK_COLUMNS = 2 * NR,
};

// How a product is cut into tiles. Tiles of rows overlap rather than differ in size, and steps have
// nearly equal numbers of quads, since sizes of tiles are set once for all.
typedef struct cut {
  size_t rows, row_tiles;
  size_t quads, steps, last;  // of each step but the last one; of that one
} cut;

static cut cut_of(const eti_qtile *t) {
  cut c;
  c.row_tiles = (t->m + AMX_ROWS - 1) / AMX_ROWS;
  c.rows = (t->m + c.row_tiles - 1) / c.row_tiles;
  c.steps = (t->quads + TILE_WORDS - 1) / TILE_WORDS;
  c.quads = (t->quads + c.steps - 1) / c.steps;
  c.last = t->quads - (c.steps - 1) * c.quads;
  return c;
}

// Rows of a block whose sums are known and whose results are not: those of the first tile, then
// those of the second one.
typedef struct pending {
  size_t first, second;  // rows of the result where the tiles begin
  size_t column;
  size_t done, rows;  // rows that are finished, two at a time, and all of them
} pending;

// Two rows that are finished together: of the result, and of the sums. An odd last row of a tile is
// written with the one before.
typedef struct two_rows_of {
  size_t row, sum;
} two_rows_of;

INLINE two_rows_of rows_at(const pending *p, size_t done, size_t tile_rows) {
  const size_t pairs = (tile_rows + 1) / 2 * 2;
  const bool is_second = done >= pairs;
  const size_t at = is_second ? done - pairs : done;
  const size_t i = at + 2 <= tile_rows ? at : tile_rows - 2;
  return (two_rows_of){(is_second ? p->second : p->first) + i, is_second ? AMX_ROWS + i : i};
}

// Writes rows of two whole panels of i8, whose sums began at start.
INLINE void finish_i8(const eti_qtile *t, size_t tile_rows, pending *p, size_t end,
                      int32_t sums[][BLOCK_COLUMNS]) {
  const limits l = limits_of(t->low, t->high, t->zero);
  const size_t step = t->out_step;
  int8_t *const out = (int8_t *)t->out + p->column;
  vf scale[2], add[2];
  for (size_t v = 0; v < 2; v++) {
    scale[v] = VF_LOAD(t->scale + p->column + v * LANES);
    add[v] = VF_LOAD(t->add + p->column + v * LANES);
  }
  for (size_t done = p->done; done < end; done += 2) {
    const two_rows_of at = rows_at(p, done, tile_rows);
    const int32_t *const from = sums[at.sum];
    vi both[2][2];
    UNROLL for (size_t j = 0; j < 4; j++) both[j / 2][j % 2] = VI_LOAD(from + j * NR);
    store_rows(out + at.row * step, out + (at.row + 1) * step,
               bytes_of_two_rows(both[0], both[1], scale, add, &l));
  }
}

// Writes rows of one panel, of a part of two, or of f32, whose sums began at 0.
INLINE void finish_any(const eti_qtile *t, size_t tile_rows, pending *p, size_t end, bool is_float,
                       int32_t sums[][BLOCK_COLUMNS]) {
  const limits l = limits_of(t->low, t->high, t->zero);
  const size_t left = t->n - p->column, width = left < BLOCK_COLUMNS ? left : BLOCK_COLUMNS;
  for (size_t done = p->done; done < end; done += 2) {
    const two_rows_of at = rows_at(p, done, tile_rows);
    for (size_t r = 0; r < 2; r++) {
      for (size_t c = 0; c < width; c += NR) {
        const size_t to = (at.row + r) * t->out_step + p->column + c;
        const vi sum[NV] = {VI_LOAD(sums[at.sum + r] + c)};
        if (is_float) {
          store_f32((float *)t->out + to, sum, t, at.row + r, p->column + c, width - c);
        } else {
          store_i8((int8_t *)t->out + to, sum, t, p->column + c, &l, width - c);
        }
      }
    }
  }
}

// Writes the results of rows up to `end`.
INLINE void finish(const eti_qtile *t, size_t tile_rows, pending *p, size_t end, bool is_float,
                   int32_t sums[][BLOCK_COLUMNS]) {
  if (p->done >= end) return;
  if (is_float || t->n - p->column < BLOCK_COLUMNS) {
    finish_any(t, tile_rows, p, end, is_float, sums);
  } else {
    finish_i8(t, tile_rows, p, end, sums);
  }
  p->done = end;
}

// Stores a tile of the sums of the block before, if there is one, and lets it begin with those of
// this block, start for i8. Tiles are free for the next product sooner if one at a time is stored.
#define TURN(tile, row, panel)                                                     \
  do {                                                                             \
    if (before->rows > 0) AMX_STORE(sums[row] + (panel) * NR, sizeof *sums, tile); \
    if (is_float) {                                                                \
      AMX_ZERO(tile);                                                              \
    } else if (two_panels || (panel) == 0) {                                       \
      AMX_LOAD(tile, t->start + column + (panel) * NR, 0);                         \
    }                                                                              \
  } while (0)

// The first step of a block.
INLINE void begin_block(const eti_qtile *t, const amx_block *b, size_t column, bool two_rows,
                        bool two_panels, bool is_float, const pending *before,
                        int32_t sums[BLOCK_ROWS][BLOCK_COLUMNS]) {
  AMX_LOAD(4, b->rows[0], b->row_step);
  AMX_LOAD_PASSING(6, b->panels[0], AMX_BYTES);
  TURN(0, 0, 0);
  AMX_PRODUCT(0, 4, 6);
  if (two_panels) AMX_LOAD_PASSING(7, b->panels[1], AMX_BYTES);
  TURN(1, 0, 1);
  if (two_panels) AMX_PRODUCT(1, 4, 7);
  if (!two_rows) return;
  AMX_LOAD(5, b->rows[1], b->row_step);
  TURN(2, AMX_ROWS, 0);
  AMX_PRODUCT(2, 5, 6);
  TURN(3, AMX_ROWS, 1);
  if (two_panels) AMX_PRODUCT(3, 5, 7);
}

// The first step where the last one has other tiles of rows and weights, which all take turns.
INLINE void begin_uneven_block(const eti_qtile *t, const amx_block *b, size_t column, bool two_rows,
                               bool two_panels, bool is_float, const pending *before,
                               int32_t sums[BLOCK_ROWS][BLOCK_COLUMNS]) {
  TURN(0, 0, 0);
  TURN(1, 0, 1);
  if (two_rows) {
    TURN(2, AMX_ROWS, 0);
    TURN(3, AMX_ROWS, 1);
  }
  add_step_by_turns(b, b->steps == 1, two_rows, two_panels);
}

// Computes the sums of a block in tiles, stores those of the block before, and makes its results
// meanwhile: tiles are multiplied while vectors are rounded.
INLINE void sum_block(const eti_qtile *t, const cut *c, amx_block b, size_t column, bool two_rows,
                      bool two_panels, bool is_float, pending *before,
                      int32_t sums[BLOCK_ROWS][BLOCK_COLUMNS]) {
  const uintptr_t later[2] = {(uintptr_t)b.panels[0] + b.ahead, (uintptr_t)b.panels[1] + b.ahead};
  const size_t each = (before->rows / 2 + b.steps - 1) / b.steps * 2;
  prefetch_step(&b, later, 0);
  if (b.last == b.words) {
    begin_block(t, &b, column, two_rows, two_panels, is_float, before, sums);
  } else {
    begin_uneven_block(t, &b, column, two_rows, two_panels, is_float, before, sums);
  }
  b = next_step(b);
  for (size_t i = 1;; i++) {
    const size_t end = before->done + each;
    finish(t, c->rows, before, end < before->rows ? end : before->rows, is_float, sums);
    if (i == b.steps) return;
    amx_add_step(&b, i, later, two_rows, two_panels);
  }
}

// Stores the sums of the last block, and makes its results.
INLINE void end_blocks(const eti_qtile *t, const cut *c, bool two_rows, bool is_float,
                       pending *last, int32_t sums[BLOCK_ROWS][BLOCK_COLUMNS]) {
  const size_t step = sizeof sums[0];
  const bool two_panels = t->n - last->column > NR;
  AMX_STORE(sums[0], step, 0);
  if (two_panels) AMX_STORE(sums[0] + NR, step, 1);
  if (two_rows) AMX_STORE(sums[AMX_ROWS], step, 2);
  if (two_rows && two_panels) AMX_STORE(sums[AMX_ROWS] + NR, step, 3);
  finish(t, c->rows, last, last->rows, is_float, sums);
}

// All columns of one or two tiles of rows.
INLINE void rows_of_tiles(const eti_qtile *t, const cut *c, size_t first, size_t second,
                          bool two_rows, bool is_float) {
  _Alignas(64) int32_t sums[BLOCK_ROWS][BLOCK_COLUMNS];
  const size_t panel = eti_qpanel_bytes(t->quads), pairs = (c->rows + 1) / 2 * 2;
  const char *const rows = t->a;
  pending before = {.first = first, .second = second};
  amx_block b = {
      .rows = {rows + first * t->a_step, rows + second * t->a_step},
      .row_step = t->a_step,
      .words = c->quads,
      .steps = c->steps,
      .last = c->last,
  };
  amx_share_ahead(&b, first / c->rows / 2, (c->row_tiles + 1) / 2, t->next, panel);
  for (size_t column = 0; column < t->n; column += BLOCK_COLUMNS) {
    const bool two_panels = t->n - column > NR;
    const char *const w = (const char *)t->w + column / NR * panel;
    b.panels[0] = w;
    b.panels[1] = two_panels ? w + panel : w;
    if (two_panels) {
      sum_block(t, c, b, column, two_rows, true, is_float, &before, sums);
    } else {
      sum_block(t, c, b, column, two_rows, false, is_float, &before, sums);
    }
    before.column = column;
    before.done = 0;
    before.rows = two_rows ? 2 * pairs : pairs;
  }
  end_blocks(t, c, two_rows, is_float, &before, sums);
}

INLINE void all_rows(const eti_qtile *t, bool is_float) {
  const cut c = cut_of(t);
  amx_begin_blocks(c.rows, c.quads, c.last);
  for (size_t i = 0; i < c.row_tiles; i += 2) {
    const size_t last = t->m - c.rows, first = i * c.rows, second = first + c.rows;
    const bool two_rows = i + 1 < c.row_tiles;
    if (two_rows) {
      rows_of_tiles(t, &c, first < last ? first : last, second < last ? second : last, true,
                    is_float);
    } else {
      rows_of_tiles(t, &c, last, last, false, is_float);
    }
  }
  amx_end();
}
