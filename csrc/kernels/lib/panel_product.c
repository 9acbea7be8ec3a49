// panel_product.c — see panel_product.h.
#include "kernels/lib/panel_product.h"

#include <string.h>

#include "kernels/micro/convert/cast.h"
#include "kernels/micro/gemm/half_panels.h"
#include "kernels/micro/transpose.h"
#include "runtime/check.h"

enum {
  WIDTH = ETI_GEMM_STORED,
  QUAD = ETI_QGEMM_QUAD,
  COLUMNS = ETI_QGEMM_NR,
  MAX_ROWS = 14,                         // of a tile, on every instruction set
  HALF_ROWS = 2 * ETI_HALF_PANELS_ROWS,  // most rows for which panels of f16 are read twice
};

// Describes the tile of one row and of the columns from `column` on; memory that is read later is
// prefetched in steps of `ahead_step` bytes.
static eti_gemm_tile tile_of(const eti_panel_product *p, size_t nr, size_t column,
                             size_t ahead_step) {
  const size_t step = p->panel_bytes / sizeof(float);
  const float *const first = (const float *)(const void *)p->panels;
  const float *const b = first + column / WIDTH * step + column % WIDTH;
  const bool is_last = column + nr >= p->n;
  const uintptr_t ahead = is_last ? (uintptr_t)p->next : (uintptr_t)b + p->panel_bytes;
  return (eti_gemm_tile){.k = p->k,
                         .segment = p->k,
                         .b = b,
                         .b_step = WIDTH,
                         .b_gap = nr > WIDTH ? step - WIDTH : 0,
                         .c = p->c + column,
                         .c_step = p->c_step,
                         .init = p->init,
                         .ahead = (const char *)ahead,
                         .ahead_step = ahead_step};
}

static void multiply(const eti_gemm_kernel *kernel, const eti_panel_product *p, size_t ahead_step) {
  const size_t nr = kernel->nr, height = eti_gemm_rows_height(kernel, p->m);
  ET_ASSERT(height <= MAX_ROWS);
  size_t j = 0;
  for (; p->m == 1 && nr >= WIDTH && j + nr * ETI_GEMM_ROW_PANELS <= p->n;
       j += nr * ETI_GEMM_ROW_PANELS) {
    eti_gemm_tile t = tile_of(p, nr, j, ahead_step);
    t.a = p->a;
    t.a_step = 1;
    t.b_panel_step = nr / WIDTH * (p->panel_bytes / sizeof(float));
    kernel->tile_row(&t);
  }
  for (; j < p->n; j += nr) {
    eti_gemm_tile t = tile_of(p, nr, j, ahead_step);
    for (size_t i = 0; i < p->m; i += height) {
      const void *rows[MAX_ROWS];
      const size_t m = eti_at_most(p->m - i, height);
      for (size_t r = 0; r < m; r++) rows[r] = p->a + (i + r) * p->a_step;
      t.rows = rows;
      t.c = p->c + i * p->c_step + j;
      kernel->tile_rows(&t, m, eti_at_most(p->n - j, nr));
    }
  }
}

// Converts n elements of a panel, and prefetches as many of the one that is converted after the
// next product: a page each, at whose end processors stop to prefetch.
static void convert_panel(eti_cast_fn convert, float *to, const char *from, ptrdiff_t item,
                          size_t n, uintptr_t ahead) {
  enum { PIECE = 256, LINE = 64 };
  for (size_t i = 0; i < n; i += PIECE) {
    const size_t count = eti_at_most(n - i, PIECE), at = i * (size_t)item;
    for (size_t b = 0; b < count * (size_t)item; b += LINE)
      __builtin_prefetch((const void *)(ahead + at + b), 0, 2);
    convert(to + i, (ptrdiff_t)sizeof(float), from + at, item, count);
  }
}

// Multiplies panels of f16 that are converted in registers, in equal tiles of rows. Returns false
// if there is no tile for these sizes.
static bool multiply_half(const eti_panel_product *p) {
  const eti_half_panels_fn tile = p->dtype == ET_F16 ? eti_half_panels_best() : NULL;
  const bool keeps = p->init == ETI_GEMM_KEEP;
  if (tile == NULL || p->m > HALF_ROWS || p->k > ETI_GEMM_CHUNK ||
      !(keeps || p->init == ETI_GEMM_ZERO))
    return false;
  const size_t height = eti_div_up(p->m, eti_div_up(p->m, ETI_HALF_PANELS_ROWS));
  for (size_t i = 0; i < p->m; i += height) {
    const eti_half_panels rows = {.a = p->a + i * p->a_step,
                                  .a_step = p->a_step,
                                  .k = p->k,
                                  .b = (const uint16_t *)(const void *)p->panels,
                                  .b_panel_step = p->panel_bytes / sizeof(uint16_t),
                                  .n_panels = p->n / WIDTH,
                                  .c = p->c + i * p->c_step,
                                  .c_step = p->c_step,
                                  .keeps = keeps,
                                  .next = (uintptr_t)p->next,
                                  .next_step = p->next_bytes};
    tile(&rows, eti_at_most(p->m - i, height));
  }
  return true;
}

void eti_panel_multiply(const eti_gemm_kernel *kernel, const eti_panel_product *p, float *room) {
  ET_ASSERT(p->n % WIDTH == 0);
  if (multiply_half(p)) return;
  if (p->dtype == ET_F32) {
    multiply(kernel, p, WIDTH * sizeof(float));
    return;
  }
  const eti_cast_fn convert = eti_casts[p->dtype][ET_F32];
  const ptrdiff_t item = (ptrdiff_t)et_dtype_bytes((et_dtype)p->dtype);
  const size_t step = eti_panel_columns(kernel), n = p->k * WIDTH;
  eti_panel_product piece = *p;
  piece.panels = piece.next = (const char *)room;  // read by no prefetch
  piece.panel_bytes = n * sizeof(float);
  for (size_t j = 0; j < p->n; j += step) {
    piece.n = eti_at_most(p->n - j, step);
    for (size_t i = 0; i < piece.n / WIDTH; i++) {
      const size_t panel = j / WIDTH + i, after = panel + step / WIDTH;
      const uintptr_t ahead = after < p->n / WIDTH ? (uintptr_t)p->panels + after * p->panel_bytes
                                                   : (uintptr_t)p->next + i * p->next_bytes;
      convert_panel(convert, room + i * n, p->panels + panel * p->panel_bytes, item, n, ahead);
    }
    piece.c = p->c + j;
    multiply(kernel, &piece, 0);
  }
}

// ---- codes

void eti_code_row_copy(const eti_qgemm_micro *micro, void *to, int8_t *codes, size_t dim) {
  const size_t padded = eti_round_up(dim, QUAD);
  memset(codes + dim, 0, padded - dim);
  micro->copy(to, codes, padded);
  if (micro->arrange != NULL) micro->arrange(to, padded / QUAD);
}

// Adds the codes of each column of a panel: the codes plus 128 of a quad are four bytes without
// sign, added in pairs of 16 bits, which hold the sums of MOST_QUADS.
static void sum_columns(const int8_t *panel, size_t quads, int32_t sums[COLUMNS]) {
  enum { MOST_QUADS = 128 };
  uint32_t total[COLUMNS] = {0};
  for (size_t q = 0; q < quads; q += MOST_QUADS) {
    const size_t end = eti_at_most(quads, q + MOST_QUADS);
    uint32_t pairs[COLUMNS] = {0};
    for (size_t i = q; i < end; i++) {
      uint32_t words[COLUMNS];
      memcpy(words, panel + i * sizeof words, sizeof words);
      for (size_t c = 0; c < COLUMNS; c++) {
        const uint32_t bytes = words[c] ^ 0x80808080u;
        pairs[c] += (bytes & 0x00FF00FFu) + (bytes >> 8 & 0x00FF00FFu);
      }
    }
    for (size_t c = 0; c < COLUMNS; c++) total[c] += (pairs[c] & 0xFFFFu) + (pairs[c] >> 16);
  }
  for (size_t c = 0; c < COLUMNS; c++)
    sums[c] = (int32_t)(total[c] - (uint32_t)(quads * QUAD * 128));
}

void eti_code_columns_pack(const eti_code_columns *c, int8_t *panels, int32_t *sums) {
  const size_t quads = eti_div_up(c->dim, QUAD), bytes = eti_qpanel_bytes(quads);
  const size_t whole = c->item == 1 ? c->dim / QUAD : 0;  // quads that are moved at once
  for (size_t first = 0; first < c->n; first += COLUMNS, panels += bytes, sums += COLUMNS) {
    const int8_t *const rows = c->rows + (ptrdiff_t)first * c->row_step;
    const size_t n = eti_at_most(c->n - first, COLUMNS);
    if (n < COLUMNS || whole < quads) memset(panels, 0, bytes);
    eti_transpose(panels, COLUMNS * QUAD, rows, c->row_step, n, whole, QUAD);
    for (size_t i = 0; i < n; i++) {
      for (size_t d = whole * QUAD; d < c->dim; d++)
        panels[d / QUAD * (COLUMNS * QUAD) + i * QUAD + d % QUAD] =
            rows[(ptrdiff_t)i * c->row_step + (ptrdiff_t)d * c->item];
    }
    sum_columns(panels, quads, sums);
  }
}
