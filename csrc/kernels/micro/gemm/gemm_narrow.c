// gemm_narrow.c — whole products on the stack, in less than 1.5 KiB, for threads with less work
// memory than a panel takes: tiles of ROWS × COLUMNS elements, with operands packed LANE_BYTES of k
// at a time. A chunk longer than such a piece continues its sum in memory, so every element is
// added as gemm.h says.
#include "kernels/micro/gemm/gemm.h"

#include "kernels/sizes.h"
#include "runtime/check.h"

enum {
  ROWS = 4,
  COLUMNS = 4,
  LANE_BYTES = 64,  // of the piece of one row or column
  TILE_BYTES = ROWS * COLUMNS * 8,
};

typedef struct room {
  union {
    _Alignas(64) char panels[(ROWS + COLUMNS) * LANE_BYTES];
    const void *rows[ETI_GEMM_MAX_SEGMENTS];
  } of;
  _Alignas(64) char c[TILE_BYTES];    // when C is not in place
  _Alignas(64) char sum[TILE_BYTES];  // of a chunk after the first
} room;
_Static_assert(sizeof(room) < 1536, "the stack that the head of this file names");

// Elements from `first` to the end of a panel, at most n.
static size_t within_panel(const eti_gemm_operand *o, size_t first, size_t n) {
  const size_t width = eti_gemm_panel_width(o);
  return o->data == NULL ? n : eti_at_most(n, width - first % width);
}

// Sets the operand of a tile: in place, or n lanes packed at `dst`.
static const void *lanes_of(const eti_gemm *g, const eti_gemm_operand *o, char *dst, size_t first,
                            size_t n, size_t k0, size_t n_k, size_t *step) {
  if (o->data == NULL) {
    *step = n;
    o->pack(g, dst, n, first, n, k0, n_k);
    return dst;
  }
  const size_t width = eti_gemm_panel_width(o);
  const size_t at = first / width * o->panel_step + k0 * o->k_step + first % width;
  *step = o->k_step;
  return (const char *)o->data + at * g->kernel->esize;
}

// Computes c += sum for an m × n tile whose sum has rows of COLUMNS elements.
static void add_sum(const eti_gemm *g, char *c, size_t c_step, const char *sum, size_t m,
                    size_t n) {
  const size_t es = g->kernel->esize;
  for (size_t i = 0; i < m; i++) {
    void *const to = c + i * c_step * es;
    const void *const from = sum + i * COLUMNS * es;
    for (size_t j = 0; j < n; j++) {
      switch (g->kernel->dtype) {
        case ET_F32:
          ((float *)to)[j] += ((const float *)from)[j];
          break;
        case ET_F64:
          ((double *)to)[j] += ((const double *)from)[j];
          break;
        case ET_I32:
          ((uint32_t *)to)[j] += ((const uint32_t *)from)[j];
          break;
        default:
          ((uint64_t *)to)[j] += ((const uint64_t *)from)[j];
          break;
      }
    }
  }
}

// True if rows of A are read where they lie: there is no room for copies of them.
static bool reads_rows(const eti_gemm *g) {
  return g->a.point != NULL && g->a.row_room == 0;
}

// The tile at (i, j): tile.c, its step and its bias are set.
static void run_packed(const eti_gemm *g, room *r, eti_gemm_tile tile, size_t i, size_t m, size_t j,
                       size_t n) {
  const bool packs = g->a.data == NULL || g->b.data == NULL;
  const size_t piece = packs ? LANE_BYTES / g->kernel->esize : g->k;
  const eti_gemm_tile whole = tile;
  size_t k0 = 0;
  do {
    const size_t in_chunk = packs ? k0 % ETI_GEMM_CHUNK : 0;
    const bool is_later = packs && k0 >= ETI_GEMM_CHUNK;
    tile.k = eti_at_most(piece, eti_at_most(g->k - k0, packs ? ETI_GEMM_CHUNK - in_chunk : g->k));
    tile.init = in_chunk > 0 ? ETI_GEMM_KEEP : is_later ? ETI_GEMM_ZERO : g->init;
    tile.c = is_later ? r->sum : whole.c;
    tile.c_step = is_later ? COLUMNS : whole.c_step;
    tile.a = lanes_of(g, &g->a, r->of.panels, i, m, k0, tile.k, &tile.a_step);
    tile.b = lanes_of(g, &g->b, r->of.panels + ROWS * LANE_BYTES, j, n, k0, tile.k, &tile.b_step);
    g->kernel->tile(&tile, m, n);
    k0 += tile.k;
    if (is_later && (k0 == g->k || k0 % ETI_GEMM_CHUNK == 0))
      add_sum(g, whole.c, whole.c_step, r->sum, m, n);
  } while (k0 < g->k);
}

static void run_tile(const eti_gemm *g, room *r, size_t i, size_t m, size_t j, size_t n) {
  const size_t es = g->kernel->esize;
  const bool buffers_c = g->c == NULL;
  eti_gemm_tile tile = {
      .c = buffers_c ? r->c : (char *)g->c + (i * g->c_step + j) * es,
      .c_step = buffers_c ? COLUMNS : g->c_step,
      .init = g->init,
      .bias =
          g->bias == NULL ? NULL : (const char *)g->bias + (g->init == ETI_GEMM_ROWS ? i : j) * es,
  };
  if (buffers_c && g->init == ETI_GEMM_KEEP) g->load(g, tile.c, tile.c_step, i, m, j, n);
  if (reads_rows(g)) {
    ET_ASSERT((g->k + g->a.segment - 1) / g->a.segment <= ETI_GEMM_MAX_SEGMENTS);
    g->a.point(g, r->of.rows, NULL, i, m);
    tile.k = g->k;
    tile.rows = r->of.rows;
    tile.segment = g->a.segment;
    tile.b = lanes_of(g, &g->b, NULL, j, n, 0, g->k, &tile.b_step);
    g->kernel->tile_rows(&tile, m, n);
  } else {
    run_packed(g, r, tile, i, m, j, n);
  }
  if (g->range != NULL) g->kernel->limit(tile.c, tile.c_step, m, n, g->range);
  if (g->finish != NULL) g->finish(g, tile.c, tile.c_step, i, m, j, n);
  if (buffers_c) g->store(g, tile.c, tile.c_step, i, m, j, n);
}

void eti_gemm_run_narrow(const eti_gemm *g, const eti_gemm_part *p) {
  room r;
  const size_t rows = reads_rows(g) ? 1 : eti_at_most(ROWS, g->kernel->mr);
  const size_t columns = eti_at_most(COLUMNS, g->kernel->nr);
  for (size_t i = p->m0, m; i < p->m1; i += m) {
    m = eti_at_most(p->m1 - i, rows);
    if (!reads_rows(g)) m = within_panel(&g->a, i, m);
    for (size_t j = p->n0, n; j < p->n1; j += n) {
      n = within_panel(&g->b, j, eti_at_most(p->n1 - j, columns));
      run_tile(g, &r, i, m, j, n);
    }
  }
}
