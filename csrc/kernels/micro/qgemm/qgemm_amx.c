// qgemm_amx.c — the products of qgemm.h with TDPBUSD on tiles of AMX. 16 quads of a panel are a
// tile of weights as they lie, 16 rows in U8 are one of rows, and 16 × 16 sums another one; a block
// is two tiles of rows by two panels. Few rows, depthwise taps and copies are those of AVX-512
// VNNI. Needs AMX-TILE, AMX-INT8, AVX-512 F, BW, VL.
#include "kernels/micro/qgemm/qgemm_vectors_512.h"

#define OFFSET 128  // in each term of a row
#include "kernels/micro/qgemm/qgemm_results.body.h"

#define AMX_PRODUCT(sum, rows, columns) AMX_DOT_U8_I8(sum, rows, columns)
#include "kernels/micro/amx_block.body.h"

enum {
  BLOCK_ROWS = 2 * AMX_ROWS,
  BLOCK_COLUMNS = 2 * NR,
  LEAST_ROWS = 5,  // that are worth a tile
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

// Computes the sums of a block, without starts: 32 columns of each row.
INLINE void sum_block(const amx_block *b, bool two_rows, bool two_panels,
                      int32_t sums[BLOCK_ROWS][BLOCK_COLUMNS]) {
  AMX_ZERO(0);
  AMX_ZERO(1);
  AMX_ZERO(2);
  AMX_ZERO(3);
  amx_add_products(*b, two_rows, two_panels);
  const size_t step = sizeof sums[0];
  AMX_STORE(sums[0], step, 0);
  if (two_panels) AMX_STORE(sums[0] + NR, step, 1);
  if (two_rows) AMX_STORE(sums[AMX_ROWS], step, 2);
  if (two_rows && two_panels) AMX_STORE(sums[AMX_ROWS] + NR, step, 3);
}

// Writes the results of n rows from `row` on, of two whole panels of i8. An odd last row is written
// twice.
INLINE void finish_i8(const eti_qtile *t, size_t row, size_t n, size_t column,
                      int32_t sums[][BLOCK_COLUMNS]) {
  const limits l = limits_of(t->low, t->high, t->zero);
  const size_t step = t->out_step;
  int8_t *const out = (int8_t *)t->out + row * step + column;
  vi start[2];
  vf scale[2], add[2];
  for (size_t v = 0; v < 2; v++) {
    start[v] = VI_LOAD(t->start + column + v * LANES);
    scale[v] = VF_LOAD(t->scale + column + v * LANES);
    add[v] = VF_LOAD(t->add + column + v * LANES);
  }
  for (size_t i = 0; i < n; i += 2) {
    const size_t r = i + 2 <= n ? i : n - 2;
    vi both[2][2];
    UNROLL for (size_t j = 0; j < 4; j++) {
      both[j / 2][j % 2] = VI_ADD(VI_LOAD(sums[r] + j * NR), start[j % 2]);
    }
    store_rows(out + r * step, out + (r + 1) * step,
               bytes_of_two_rows(both[0], both[1], scale, add, &l));
  }
}

// Writes the results of n rows from `row` on, of one panel, of a part of two, or of f32.
INLINE void finish_any(const eti_qtile *given, size_t row, size_t n, size_t column, bool is_float,
                       int32_t sums[][BLOCK_COLUMNS]) {
  const eti_qtile t = *given;
  const limits l = limits_of(t.low, t.high, t.zero);
  const size_t left = t.n - column, width = left < BLOCK_COLUMNS ? left : BLOCK_COLUMNS;
  for (size_t r = 0; r < n; r++) {
    for (size_t c = 0; c < width; c += NR) {
      const size_t at = (row + r) * t.out_step + column + c;
      const vi start = is_float ? VI_SET1(0) : VI_LOAD(t.start + column + c);
      const vi sum[NV] = {VI_ADD(VI_LOAD(sums[r] + c), start)};
      if (is_float) {
        store_f32((float *)t.out + at, sum, &t, row + r, column + c, width - c);
      } else {
        store_i8((int8_t *)t.out + at, sum, &t, column + c, &l, width - c);
      }
    }
  }
}

INLINE void finish(const eti_qtile *t, size_t row, size_t n, size_t column, bool is_float,
                   int32_t sums[][BLOCK_COLUMNS]) {
  if (is_float) {
    finish_any(t, row, n, column, true, sums);
  } else if (t->n - column < BLOCK_COLUMNS) {
    finish_any(t, row, n, column, false, sums);
  } else {
    finish_i8(t, row, n, column, sums);
  }
}

// All columns of one or two tiles of rows.
INLINE void rows_of_tiles(const eti_qtile *t, const cut *c, size_t first, size_t second,
                          bool two_rows, bool is_float) {
  _Alignas(64) int32_t sums[BLOCK_ROWS][BLOCK_COLUMNS];
  const size_t panel = eti_qpanel_bytes(t->quads);
  const char *const rows = t->a;
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
      sum_block(&b, two_rows, true, sums);
    } else {
      sum_block(&b, two_rows, false, sums);
    }
    finish(t, first, c->rows, column, is_float, sums);
    if (two_rows) finish(t, second, c->rows, column, is_float, sums + AMX_ROWS);
  }
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

static void tile_i8(const eti_qtile *given) {
  ET_ASSERT(eti_qtile_is_valid(given, false));
  if (given->m < LEAST_ROWS || given->quads == 0) {
    eti_qgemm_avx512vnni.tile_i8(given);
    return;
  }
  const eti_qtile t = *given;
  all_rows(&t, false);
}

static void tile_f32(const eti_qtile *given) {
  ET_ASSERT(eti_qtile_is_valid(given, true));
  if (given->m < LEAST_ROWS || given->quads == 0) {
    eti_qgemm_avx512vnni.tile_f32(given);
    return;
  }
  const eti_qtile t = *given;
  all_rows(&t, true);
}

// ---- as AVX-512 VNNI does it

static void depthwise(const eti_qdepthwise *d) {
  eti_qgemm_avx512vnni.depthwise(d);
}

static size_t arranged_bytes(size_t channels, size_t n_taps) {
  return eti_qgemm_avx512vnni.arranged_bytes(channels, n_taps);
}

static void arrange_channels(const eti_qdepthwise *d, void *to) {
  eti_qgemm_avx512vnni.arrange_channels(d, to);
}

static void copy(void *dst, const int8_t *src, size_t n) {
  eti_qgemm_avx512vnni.copy(dst, src, n);
}

static void copy_windows(const eti_qwindows *w) {
  eti_qgemm_avx512vnni.copy_windows(w);
}

const eti_qgemm_micro eti_qgemm_amx = {
    .form = ETI_QROWS_U8,
    .rows_of_a_tile = BLOCK_ROWS,
    .rows_of_a_block = 7 * BLOCK_ROWS,
    .tile_i8 = tile_i8,
    .tile_f32 = tile_f32,
    .depthwise = depthwise,
    .arranged_bytes = arranged_bytes,
    .arrange_channels = arrange_channels,
    .copy = copy,
    .copy_windows = copy_windows,
};
