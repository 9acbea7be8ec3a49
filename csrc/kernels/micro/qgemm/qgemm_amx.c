// qgemm_amx.c — the products of qgemm.h with TDPBUSD on tiles of AMX. 16 quads of a panel are a
// tile of weights as they lie, 16 rows in U8 are one of rows, and 16 × 16 sums another one; a block
// is two tiles of rows by two panels. Few rows, depthwise taps and copies are those of AVX-512
// VNNI. Needs AMX-TILE, AMX-INT8, AVX-512 F, BW, VL.
#include "kernels/micro/amx_tiles.h"
#include "kernels/micro/qgemm/qgemm_vectors_512.h"

#define OFFSET 128  // in each term of a row
#include "kernels/micro/qgemm/qgemm_results.body.h"

enum {
  QUAD_BYTES = NR * QUAD,  // of a panel
  TILE_QUADS = AMX_BYTES / QUAD,
  BLOCK_ROWS = 2 * AMX_ROWS,
  BLOCK_COLUMNS = 2 * NR,
  LEAST_ROWS = 5,  // that are worth a tile
};

// How a product is cut into tiles. Tiles of rows overlap rather than differ in size, and steps have
// nearly equal numbers of quads, since sizes of tiles are set once for all.
typedef struct cut {
  size_t rows, row_tiles;
  size_t quads, steps;  // of each step but the last one
  size_t last;          // quads of the last step
} cut;

static cut cut_of(const eti_qtile *t) {
  cut c;
  c.row_tiles = (t->m + AMX_ROWS - 1) / AMX_ROWS;
  c.rows = (t->m + c.row_tiles - 1) / c.row_tiles;
  c.steps = (t->quads + TILE_QUADS - 1) / TILE_QUADS;
  c.quads = (t->quads + c.steps - 1) / c.steps;
  c.last = t->quads - (c.steps - 1) * c.quads;
  return c;
}

// Sums are tiles 0 to 3, rows 4 and 5, weights 6 and 7. If the last step is shorter, the second
// tiles of rows and weights are for it alone.
static void begin_tiles(const cut *c) {
  amx_config sizes = {.palette = 1};
  for (size_t i = 0; i < 4; i++) amx_set(&sizes, i, c->rows, NR * sizeof(int32_t));
  amx_set(&sizes, 4, c->rows, c->quads * QUAD);
  amx_set(&sizes, 5, c->rows, c->last * QUAD);
  amx_set(&sizes, 6, c->quads, QUAD_BYTES);
  amx_set(&sizes, 7, c->last, QUAD_BYTES);
  amx_begin(&sizes);
}

// Addresses of a block: of two tiles of rows, and of two panels.
typedef struct block {
  const char *rows[2];
  const int8_t *panels[2];
  size_t row_step;
  size_t ahead;  // bytes from a panel to the one that is prefetched meanwhile; or 0
} block;

// Prefetches a tile of weights to the L2 cache: loads of tiles do not wake hardware prefetchers.
INLINE void prefetch(const int8_t *panel, size_t ahead) {
  const char *const at = (const char *)((uintptr_t)panel + ahead);
  UNROLL for (size_t i = 0; i < TILE_QUADS; i++) __builtin_prefetch(at + i * QUAD_BYTES, 0, 2);
}

INLINE block block_after(block b, size_t quads) {
  for (size_t i = 0; i < 2; i++) {
    b.rows[i] += quads * QUAD;
    b.panels[i] += quads * QUAD_BYTES;
  }
  return b;
}

// Adds the products of steps whose four tiles are all loaded.
INLINE void add_whole_steps(block b, size_t quads, size_t steps, bool two_rows, bool two_panels) {
  for (size_t i = 0; i < steps; i++) {
    for (size_t p = 0; p < 2 && b.ahead > 0; p++) prefetch(b.panels[p], b.ahead);
    AMX_LOAD(4, b.rows[0], b.row_step);
    AMX_LOAD(6, b.panels[0], QUAD_BYTES);
    AMX_DOT_U8_I8(0, 4, 6);
    if (two_panels) {
      AMX_LOAD(7, b.panels[1], QUAD_BYTES);
      AMX_DOT_U8_I8(1, 4, 7);
    }
    if (two_rows) {
      AMX_LOAD(5, b.rows[1], b.row_step);
      AMX_DOT_U8_I8(2, 5, 6);
      if (two_panels) AMX_DOT_U8_I8(3, 5, 7);
    }
    b = block_after(b, quads);
  }
}

// A tile of rows and one of weights, which are others in the last step.
INLINE void load_rows(const block *b, size_t i, bool is_last) {
  if (is_last) {
    AMX_LOAD(5, b->rows[i], b->row_step);
  } else {
    AMX_LOAD(4, b->rows[i], b->row_step);
  }
}

INLINE void load_weights(const block *b, size_t i, bool is_last) {
  if (is_last) {
    AMX_LOAD(7, b->panels[i], QUAD_BYTES);
  } else {
    AMX_LOAD(6, b->panels[i], QUAD_BYTES);
  }
}

// Adds their products to a tile of sums.
#define ADD_PRODUCTS(sum)       \
  do {                          \
    if (is_last) {              \
      AMX_DOT_U8_I8(sum, 5, 7); \
    } else {                    \
      AMX_DOT_U8_I8(sum, 4, 6); \
    }                           \
  } while (0)

// Adds the products of one step, with one tile for all rows and one for all weights.
INLINE void add_step(const block *b, bool is_last, bool two_rows, bool two_panels) {
  load_rows(b, 0, is_last);
  load_weights(b, 0, is_last);
  ADD_PRODUCTS(0);
  if (two_rows) {
    load_rows(b, 1, is_last);
    ADD_PRODUCTS(2);
  }
  if (!two_panels) return;
  load_weights(b, 1, is_last);
  if (two_rows) {
    ADD_PRODUCTS(3);
    load_rows(b, 0, is_last);
  }
  ADD_PRODUCTS(1);
}

INLINE void add_uneven_steps(block b, const cut *c, bool two_rows, bool two_panels) {
  for (size_t i = 1; i < c->steps; i++) {
    add_step(&b, false, two_rows, two_panels);
    b = block_after(b, c->quads);
  }
  add_step(&b, true, two_rows, two_panels);
}

// Computes the sums of a block, without starts: 32 columns of each row.
INLINE void sum_block(const block *b, const cut *c, bool two_rows, bool two_panels,
                      int32_t sums[BLOCK_ROWS][BLOCK_COLUMNS]) {
  AMX_ZERO(0);
  AMX_ZERO(1);
  AMX_ZERO(2);
  AMX_ZERO(3);
  if (c->last == c->quads) {
    add_whole_steps(*b, c->quads, c->steps, two_rows, two_panels);
  } else {
    add_uneven_steps(*b, c, two_rows, two_panels);
  }
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
  block b = {{rows + first * t->a_step, rows + second * t->a_step}, {NULL, NULL}, t->a_step, 0};
  // The first tiles of rows read weights from memory, the others from the L2 cache.
  if (first == 0 && t->next > 0) b.ahead = 2 * panel;
  for (size_t column = 0; column < t->n; column += BLOCK_COLUMNS) {
    const bool two_panels = t->n - column > NR;
    b.panels[0] = t->w + column / NR * panel;
    b.panels[1] = two_panels ? b.panels[0] + panel : b.panels[0];
    if (two_panels) {
      sum_block(&b, c, two_rows, true, sums);
    } else {
      sum_block(&b, c, two_rows, false, sums);
    }
    finish(t, first, c->rows, column, is_float, sums);
    if (two_rows) finish(t, second, c->rows, column, is_float, sums + AMX_ROWS);
  }
}

INLINE void all_rows(const eti_qtile *t, bool is_float) {
  const cut c = cut_of(t);
  begin_tiles(&c);
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
