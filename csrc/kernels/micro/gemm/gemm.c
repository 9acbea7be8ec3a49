// gemm.c — runs whole products with the micro-kernels: cuts C into blocks that fit the caches, lets
// gemm_pack.c pack operands that are not in panels yet, and splits the work between threads. No
// element is read or written here.
//
//   for n blocks            B block: nb columns      ┐ packed into the thread's own work memory
//     for m blocks          A block: mb rows         ┘ unless the operand is in panels already
//       for k blocks        kb values of k, whole chunks; C holds the partial sums in between
//         for panels        a panel of the smaller block stays in the first-level cache
//           tile
#include "kernels/micro/gemm/gemm.h"

#include "kernels/micro/isa_select.h"
#include "kernels/sizes.h"
#include "runtime/check.h"

// ---- choice of the kernel

static const eti_gemm_kernel *const isa_tables[ETI_ISA_COUNT] = {
    [ETI_ISA_SCALAR] = eti_gemm_scalar,
#if ETI_HAVE_X86
    [ETI_ISA_AVX2] = eti_gemm_avx2,
    [ETI_ISA_AVX512] = eti_gemm_avx512,
#elif ETI_HAVE_NEON
    [ETI_ISA_NEON] = eti_gemm_neon,
#endif
};

const eti_gemm_kernel *eti_gemm_kernel_of_isa(eti_acc acc, int isa) {
  if (isa < 0 || isa >= ETI_ISA_COUNT || isa > (int)eti_cpu_isa() || isa_tables[isa] == NULL)
    return NULL;
  const eti_gemm_kernel *kernel = &isa_tables[isa][acc];
  return kernel->tile != NULL ? kernel : NULL;
}

const eti_gemm_kernel *eti_gemm_kernel_for(eti_acc acc) {
  for (int isa = (int)eti_cpu_isa(); isa > 0; isa--) {
    const eti_gemm_kernel *kernel = eti_gemm_kernel_of_isa(acc, isa);
    if (kernel != NULL) return kernel;
  }
  return &eti_gemm_scalar[acc];
}

// ---- blocks

typedef struct blocks {
  size_t mb, nb, kb;  // mb and nb are whole panels
} blocks;

// Figures measured with tests/bench/bench_kernels.py: a k block of 512 keeps a panel of each
// operand near the L1 cache, and a block of 192 K elements stays in the L2 cache. In a model,
// weights come from memory, and the values written by the kernel before from a cache.
enum {
  K_BLOCK = 512,
  K_AT_ONCE = 4096,
  M_BLOCK = 266,
  N_BLOCK = 4096,
  BUFFER_COLUMNS = 512,  // when C is computed in a buffer
  FINISH_COLUMNS = 512,
  BLOCK_ELEMENTS = 192 * 1024,
  B_NEAR_ELEMENTS = 256 * 1024,  // largest B with which A is read once, from memory
  B_TINY_ELEMENTS = 32 * 1024,
  WORK_ALIGN = 64,
};
_Static_assert(K_BLOCK % ETI_GEMM_CHUNK == 0 && K_AT_ONCE % ETI_GEMM_CHUNK == 0, "whole chunks");

// Parts of work memory that a run needs.
typedef struct uses {
  bool packs_a, packs_b, buffers_c;
} uses;

static uses uses_of(const eti_gemm *g) {
  const bool packs_a = g->a.data == NULL && g->a.point == NULL;
  return (uses){.packs_a = packs_a, .packs_b = g->b.data == NULL, .buffers_c = g->c == NULL};
}

static size_t work_of(const eti_gemm_kernel *kernel, const blocks *b, const uses *u) {
  const size_t es = kernel->esize;
  return (u->packs_a ? eti_round_up(b->mb * b->kb * es, WORK_ALIGN) : 0) +
         (u->packs_b ? eti_round_up(b->nb * b->kb * es, WORK_ALIGN) : 0) +
         (u->buffers_c ? eti_round_up(b->mb * b->nb * es, WORK_ALIGN) : 0);
}

static blocks best_blocks(const eti_gemm *g, size_t m, size_t n, const uses *u) {
  const bool packs_a = u->packs_a, packs_b = u->packs_b, buffers_c = u->buffers_c;
  const size_t mr = g->a.height, nr = g->kernel->nr, k = g->k;
  const size_t all_m = eti_round_up(m, mr), all_n = eti_round_up(n, nr);
  const size_t parts = (k + K_BLOCK - 1) / K_BLOCK;
  blocks b = {.kb = parts == 0 ? 0 : eti_round_up((k + parts - 1) / parts, ETI_GEMM_CHUNK)};
  // A single pass over k needs no reloads; a few rows of A always fit.
  if (buffers_c || (m <= mr && !packs_b)) b.kb = K_AT_ONCE;
  b.kb = eti_at_most(b.kb, k);
  const size_t per_k = b.kb == 0 ? BLOCK_ELEMENTS : BLOCK_ELEMENTS / b.kb;
  // Blocks have equal numbers of rows: a short last one would read all of B for little work.
  const size_t most = eti_at_most(M_BLOCK, per_k), m_blocks = (m + most - 1) / most;
  b.mb =
      packs_a || buffers_c
          ? eti_at_most(all_m, eti_round_up(m_blocks == 0 ? 1 : (m + m_blocks - 1) / m_blocks, mr))
          : all_m;
  b.nb = packs_b || buffers_c ? eti_at_most(all_n, eti_round_up(eti_at_most(per_k, N_BLOCK), nr))
                              : all_n;
  if (buffers_c) b.nb = eti_at_most(b.nb, eti_round_up(BUFFER_COLUMNS, nr));
  return b;
}

// Shrinks the blocks until they fit; the bytes of least_bytes always do. k blocks stay whole
// chunks.
static blocks fit_blocks(const eti_gemm *g, size_t m, size_t n, const uses *u, size_t bytes) {
  const eti_gemm_kernel *kernel = g->kernel;
  const size_t mr = g->a.height, nr = kernel->nr;
  const bool cuts_n = u->packs_b || u->buffers_c, cuts_m = u->packs_a || u->buffers_c;
  blocks b = best_blocks(g, m, n, u);
  while (work_of(kernel, &b, u) > bytes) {
    if (cuts_n && b.nb > nr && b.nb * (u->buffers_c ? 1 : 2) >= b.mb) {
      b.nb = eti_round_up(b.nb / 2, nr);
    } else if (b.kb > ETI_GEMM_CHUNK && (b.mb <= 4 * mr || !cuts_m)) {
      b.kb = eti_round_up(b.kb / 2, ETI_GEMM_CHUNK);
    } else if (cuts_m && b.mb > mr) {
      b.mb = eti_round_up(b.mb / 2, mr);
    } else if (cuts_n && b.nb > nr) {
      b.nb = eti_round_up(b.nb / 2, nr);
    } else {
      ET_ASSERT(b.kb > ETI_GEMM_CHUNK);
      b.kb = eti_round_up(b.kb / 2, ETI_GEMM_CHUNK);
    }
  }
  return b;
}

// ---- one thread's part

typedef eti_gemm_part part;

// An operand whose current block is in panels: in place, or packed in work memory.
typedef struct panels {
  const char *base;
  size_t height;  // of a tile
  size_t width;   // of a panel in memory
  size_t first;   // row or column of the first panel, counted from base
  size_t panel_bytes, k_step;
} panels;

static panels ready(const eti_gemm_operand *o, size_t esize, size_t first, size_t k0) {
  const size_t width = eti_gemm_panel_width(o), panel = first / width;
  return (panels){
      .base = (const char *)o->data + (panel * o->panel_step + k0 * o->k_step) * esize,
      .height = o->height,
      .width = width,
      .first = first % width,
      .panel_bytes = o->panel_step * esize,
      .k_step = o->k_step,
  };
}

// The operand of tile p, and the elements that a tile of several panels skips between them.
static const char *panel_at(const panels *o, size_t p, size_t esize) {
  const size_t at = o->first + p * o->height;
  return o->width == o->height ? o->base + p * o->panel_bytes
                               : o->base + at / o->width * o->panel_bytes + at % o->width * esize;
}

static size_t gap_of(const panels *o, size_t esize) {
  return o->width < o->height ? o->panel_bytes / esize - o->width : 0;
}

// Byte `at` of the panels of a tile, read one after another, n_k deep. False if no panel is whole.
static bool is_streamed(const panels *o) {
  return o->k_step == o->width && o->width <= o->height;
}

static size_t streamed(const panels *o, size_t at, size_t n_k, size_t esize) {
  const size_t whole = o->width * n_k * esize;
  return o->width == o->height || whole == 0 ? at : at / whole * o->panel_bytes + at % whole;
}

static panels packed(const eti_gemm *g, const eti_gemm_operand *o, char *dst, size_t first,
                     size_t n, size_t k0, size_t n_k) {
  const size_t esize = g->kernel->esize, panel_bytes = o->height * n_k * esize;
  for (size_t i = 0; i < n; i += o->height) {
    o->pack(g, dst + i / o->height * panel_bytes, o->height, first + i,
            eti_at_most(n - i, o->height), k0, n_k);
  }
  return (panels){.base = dst,
                  .height = o->height,
                  .width = o->height,
                  .panel_bytes = panel_bytes,
                  .k_step = o->height};
}

typedef struct block {
  size_t i, m, j, n, n_k;  // position and size within C
  panels a, b;
  char *c;  // of element (i, j)
  size_t c_step;
  eti_gemm_init init;
  const eti_clamp_range *range;  // set with the last values of k
} block;

// Computes a single row: panels of B side by side while there are enough whole ones. Returns the
// number of panels done.
static size_t run_row(const eti_gemm *g, const block *k) {
  const size_t es = g->kernel->esize, whole = k->n / k->b.height, width = k->b.width;
  const size_t columns = ETI_GEMM_ROW_PANELS * k->b.height, step = k->b.panel_bytes / es;
  size_t jp = 0;
  for (; jp + ETI_GEMM_ROW_PANELS <= whole; jp += ETI_GEMM_ROW_PANELS) {
    const size_t j = jp * k->b.height, at = k->init == ETI_GEMM_ROWS ? k->i : k->j + j;
    const bool within = width > k->b.height;  // several tiles are in one panel
    if (within && (k->b.first + j) % width + columns > width) break;
    g->kernel->tile_row(&(eti_gemm_tile){
        .k = k->n_k,
        .a = k->a.base,
        .a_step = k->a.k_step,
        .b = panel_at(&k->b, jp, es),
        .b_step = k->b.k_step,
        .b_gap = gap_of(&k->b, es),
        .b_panel_step = within ? k->b.height : k->b.height / width * step,
        .c = k->c + j * es,
        .c_step = k->c_step,
        .init = k->init,
        .bias = g->bias == NULL ? NULL : (const char *)g->bias + at * es,
        .range = k->range,
    });
  }
  return jp;
}

// Runs one tile; for ahead and ahead_step see eti_gemm_tile.
static void run_tile(const eti_gemm *g, const block *k, size_t ip, size_t jp, const char *ahead,
                     size_t ahead_step) {
  const size_t es = g->kernel->esize, i = ip * k->a.height, j = jp * k->b.height;
  const size_t at = k->init == ETI_GEMM_ROWS ? k->i + i : k->j + j;
  const eti_gemm_tile tile = {
      .k = k->n_k,
      .a = k->a.base + ip * k->a.panel_bytes,
      .a_step = k->a.k_step,
      .b = panel_at(&k->b, jp, es),
      .b_step = k->b.k_step,
      .b_gap = gap_of(&k->b, es),
      .c = k->c + (i * k->c_step + j) * es,
      .c_step = k->c_step,
      .init = k->init,
      .bias = g->bias == NULL ? NULL : (const char *)g->bias + at * es,
      .range = k->range,
      .ahead = ahead,
      .ahead_step = ahead_step,
  };
  const size_t m = eti_at_most(k->m - i, k->a.height), n = eti_at_most(k->n - j, k->b.height);
  g->kernel->tile(&tile, m, n);
}

// Runs the tiles of a block. The operand from memory is walked once, in the outer loop; the block
// of the other one stays in the cache. While the tiles of one outer panel run, each prefetches its
// share of the next outer panel.
static void run_block(const eti_gemm *g, const block *k, bool a_outside) {
  const size_t m_panels = (k->m + k->a.height - 1) / k->a.height;
  const size_t n_panels = (k->n + k->b.height - 1) / k->b.height;
  const size_t n_outer = a_outside ? m_panels : n_panels, n_inner = a_outside ? n_panels : m_panels;
  const panels *const far = a_outside ? &k->a : &k->b;
  const size_t es = g->kernel->esize, step = far->height * es / n_inner;
  if (k->m == 1) {
    for (size_t jp = run_row(g, k); jp < n_panels; jp++) run_tile(g, k, 0, jp, NULL, 0);
    return;
  }
  for (size_t outer = 0; outer < n_outer; outer++) {
    const bool fetch = outer + 1 < n_outer && is_streamed(far);
    const char *const next = fetch ? panel_at(far, outer + 1, es) : far->base;
    for (size_t inner = 0; inner < n_inner; inner++) {
      run_tile(g, k, a_outside ? outer : inner, a_outside ? inner : outer,
               next + (fetch ? streamed(far, inner * step * k->n_k, k->n_k, es) : 0),
               fetch ? step : 0);
    }
  }
}

// A block with A as rows: all of k at once, so a tile is finished after one visit.
typedef struct rows_block {
  const void *const *rows;  // of all panels, `each` per panel
  size_t each;
  size_t head, n_k;  // values of k before those of the tiles, and theirs
  block k;
} rows_block;

// Values of k that tiles may leave out at the beginning: whole segments, and whole chunks unless
// all the rest is in one chunk. So sums are those of all k.
static size_t rows_head(const eti_gemm *g) {
  const size_t segment = g->a.segment, end = g->k - g->a.tail;
  size_t head = g->a.head / segment * segment;
  if (head >= end) return end;
  while (head % ETI_GEMM_CHUNK != 0 && head / ETI_GEMM_CHUNK != (end - 1) / ETI_GEMM_CHUNK)
    head -= segment;
  return head;
}

// Runs tiles of up to m rows and n columns; for ahead and ahead_step see eti_gemm_tile.
static void run_rows_tiles(const eti_gemm *g, const rows_block *r, size_t i, size_t m, size_t j,
                           size_t n, const char *ahead, size_t ahead_step) {
  const panels *const b = &r->k.b;
  const size_t es = g->kernel->esize;
  const size_t at = r->k.init == ETI_GEMM_ROWS ? r->k.i + i : r->k.j + j;
  m = eti_at_most(r->k.m - i, m);
  n = eti_at_most(r->k.n - j, n);
  eti_gemm_tile tile = {
      .k = r->n_k,
      .rows = r->rows + i / g->a.height * r->each + r->head / g->a.segment * m,
      .segment = g->a.segment,
      .b = panel_at(b, j / b->height, es) + r->head * b->k_step * es,
      .b_step = b->k_step,
      .b_gap = gap_of(b, es),
      .b_panel_step = n > b->height ? b->height / b->width * (b->panel_bytes / es) : 0,
      .c = r->k.c + (i * r->k.c_step + j) * es,
      .c_step = r->k.c_step,
      .init = r->k.init,
      .bias = g->bias == NULL ? NULL : (const char *)g->bias + at * es,
      .range = r->k.range,
      .ahead = ahead,
      .ahead_step = ahead_step,
  };
  if (r->head >= ETI_GEMM_CHUNK && r->n_k > 0) {  // the first chunk is the initial value alone
    eti_gemm_tile start = tile;
    start.k = start.ahead_step = 0;
    start.range = NULL;
    if (tile.init != ETI_GEMM_KEEP && tile.init != ETI_GEMM_ADD) g->kernel->walk_rows(&start, m, n);
    tile.init = ETI_GEMM_ADD;
  }
  g->kernel->walk_rows(&tile, m, n);
}

// With a tiny B, a panel of rows is read once; else one of B is, and its tiles prefetch the next
// one. A B that continues is never tiny: it is read once. The kernel walks the other operand if its
// panels are at equal distances.
static void run_rows_block(const eti_gemm *g, const rows_block *r) {
  const panels *const b = &r->k.b;
  const size_t h = g->a.height, m_panels = (r->k.m + h - 1) / h;
  const size_t n_panels = (r->k.n + b->height - 1) / b->height, n_k = r->n_k;
  const bool a_outside = !g->b.continues && n_k * g->n <= B_TINY_ELEMENTS;
  const bool walks = a_outside ? b->width <= b->height && b->first == 0
                               : g->a.segment >= g->k && h == g->kernel->rows_mr;
  const size_t n_outer = a_outside ? m_panels : n_panels, n_inner = a_outside ? n_panels : m_panels;
  const size_t es = g->kernel->esize, step = b->height * es / n_inner;
  const size_t head_bytes = r->head * b->k_step * es, at_once = walks ? n_inner : 1;
  for (size_t outer = 0; outer < n_outer; outer++) {
    const bool fetch = !a_outside && (outer + 1 < n_outer || g->b.continues) && is_streamed(b);
    const char *const next = fetch ? panel_at(b, outer + 1, es) + head_bytes : b->base;
    for (size_t inner = 0; inner < n_inner; inner += at_once) {
      const size_t i = a_outside ? outer : inner, j = a_outside ? inner : outer;
      run_rows_tiles(g, r, i * h, a_outside ? h : at_once * h, j * b->height,
                     a_outside ? at_once * b->height : b->height,
                     next + (fetch ? streamed(b, inner * step * n_k, n_k, es) : 0),
                     fetch ? step : 0);
    }
  }
}

enum { ROWS_PANELS = 32, ROWS_COLUMNS = 512 };  // in a block of its own, at most

// Pointers to the rows of one panel.
static size_t pointers_of(const eti_gemm *g) {
  return (g->k + g->a.segment - 1) / g->a.segment * g->a.height;
}

// Bytes of the copies of rows of n panels.
static size_t room_bytes(const eti_gemm *g, size_t n_panels) {
  return eti_round_up(n_panels * g->a.height * g->a.row_room * g->kernel->esize, WORK_ALIGN);
}

static size_t rows_bytes(const eti_gemm *g, size_t n_panels, size_t n_columns) {
  return n_panels * (pointers_of(g) * sizeof(void *) + g->a.height * n_columns * g->kernel->esize) +
         room_bytes(g, n_panels) + WORK_ALIGN;
}

static void run_rows(const eti_gemm *g, const part *p, char *work, size_t bytes) {
  const size_t es = g->kernel->esize, h = g->a.height, nr = g->kernel->nr, m = p->m1 - p->m0;
  const bool buffers_c = g->c == NULL;
  const size_t each = pointers_of(g), room_each = h * g->a.row_room * es;
  size_t nb = buffers_c ? eti_round_up(eti_at_most(p->n1 - p->n0, ROWS_COLUMNS), nr) : 0;
  size_t panels_at_once = eti_at_most((m + h - 1) / h, ROWS_PANELS);
  while (rows_bytes(g, panels_at_once, nb) > bytes) {
    if (panels_at_once == 1) nb = eti_round_up(nb / 2, nr);
    panels_at_once = (panels_at_once + 1) / 2;
  }
  const void **const rows = (const void **)(void *)work;
  char *const room = work + eti_round_up(panels_at_once * each * sizeof(void *), WORK_ALIGN);
  char *const c_room = room + room_bytes(g, panels_at_once);
  const size_t head = rows_head(g);
  rows_block r = {.rows = rows,
                  .each = each,
                  .head = head,
                  .n_k = g->k - g->a.tail - head,
                  .k = {.c_step = buffers_c ? nb : g->c_step, .range = g->range}};
  for (r.k.i = p->m0; r.k.i < p->m1; r.k.i += r.k.m) {
    r.k.m = eti_at_most(p->m1 - r.k.i, panels_at_once * h);
    for (size_t i = 0; i < r.k.m; i += h) {
      g->a.point(g, rows + i / h * each, room + i / h * room_each, r.k.i + i,
                 eti_at_most(r.k.m - i, h));
    }
    for (r.k.j = p->n0; r.k.j < p->n1; r.k.j += r.k.n) {
      r.k.n = eti_at_most(p->n1 - r.k.j, buffers_c ? nb : p->n1);
      r.k.b = ready(&g->b, es, r.k.j, 0);
      r.k.c = buffers_c ? c_room : (char *)g->c + (r.k.i * g->c_step + r.k.j) * es;
      r.k.init = g->init;
      if (buffers_c && g->init == ETI_GEMM_KEEP) g->load(g, c_room, nb, r.k.i, r.k.m, r.k.j, r.k.n);
      run_rows_block(g, &r);
      if (g->finish != NULL) g->finish(g, r.k.c, r.k.c_step, r.k.i, r.k.m, r.k.j, r.k.n);
      if (buffers_c) g->store(g, c_room, nb, r.k.i, r.k.m, r.k.j, r.k.n);
    }
  }
}

// Work memory for a panel of each operand that is packed, one chunk deep, or pointers to the rows
// of A; and for a tile of C unless it is in place.
static size_t least_bytes(const eti_gemm *g, const uses *u) {
  const size_t h = g->a.height, nr = g->kernel->nr;
  if (g->a.point != NULL) return rows_bytes(g, 1, u->buffers_c ? nr : 0);
  const blocks one = {.mb = h, .nb = nr, .kb = eti_at_most(g->k, ETI_GEMM_CHUNK)};
  return work_of(g->kernel, &one, u);
}

// Runs with both operands packed: a block of B is packed once, for all rows, before k advances. C
// is in place, so partial sums can stay there in between.
static void run_packed_blocks(const eti_gemm *g, const part *p, const blocks *s, block *k,
                              char *a_room, char *b_room) {
  const size_t es = g->kernel->esize;
  for (k->j = p->n0; k->j < p->n1; k->j += s->nb) {
    k->n = eti_at_most(p->n1 - k->j, s->nb);
    for (size_t k0 = 0; k0 < g->k; k0 += k->n_k) {
      k->n_k = eti_at_most(g->k - k0, s->kb);
      k->init = k0 == 0 ? g->init : ETI_GEMM_ADD;
      k->range = k0 + k->n_k == g->k ? g->range : NULL;
      k->b = packed(g, &g->b, b_room, k->j, k->n, k0, k->n_k);
      for (k->i = p->m0; k->i < p->m1; k->i += s->mb) {
        k->m = eti_at_most(p->m1 - k->i, s->mb);
        k->c = (char *)g->c + (k->i * g->c_step + k->j) * es;
        k->a = g->a.data == NULL ? packed(g, &g->a, a_room, k->i, k->m, k0, k->n_k)
                                 : ready(&g->a, es, k->i, k0);
        run_block(g, k, g->a.data != NULL);
        if (g->finish != NULL && k0 + k->n_k == g->k)
          g->finish(g, k->c, k->c_step, k->i, k->m, k->j, k->n);
      }
    }
  }
}

static void run_part(const eti_gemm *g, const part *p, char *work, size_t bytes) {
  const size_t m = p->m1 - p->m0, n = p->n1 - p->n0, es = g->kernel->esize;
  const uses u = uses_of(g);
  if (m == 0 || n == 0) return;
  if (bytes < least_bytes(g, &u)) {
    eti_gemm_run_narrow(g, p);
    return;
  }
  if (g->a.point != NULL) {
    run_rows(g, p, work, bytes);
    return;
  }
  const bool packs_a = u.packs_a, packs_b = u.packs_b, buffers_c = u.buffers_c;
  blocks s = fit_blocks(g, m, n, &u, bytes);
  if (g->finish != NULL) {
    // Fewer rows at a time would pack B again for each of their blocks.
    if (!packs_b) s.mb = eti_at_most(s.mb, eti_round_up(M_BLOCK, g->a.height));
    s.nb = eti_at_most(s.nb, eti_round_up(FINISH_COLUMNS, g->kernel->nr));
  }
  char *const b_room = work;
  char *const a_room = b_room + (packs_b ? eti_round_up(s.nb * s.kb * es, WORK_ALIGN) : 0);
  char *const c_room = a_room + (packs_a ? eti_round_up(s.mb * s.kb * es, WORK_ALIGN) : 0);
  block k = {.c_step = buffers_c ? s.nb : g->c_step};
  if (packs_b && !buffers_c && s.kb < g->k && s.mb < m) {
    run_packed_blocks(g, p, &s, &k, a_room, b_room);
    return;
  }
  for (k.j = p->n0; k.j < p->n1; k.j += s.nb) {
    k.n = eti_at_most(p->n1 - k.j, s.nb);
    for (k.i = p->m0; k.i < p->m1; k.i += s.mb) {
      k.m = eti_at_most(p->m1 - k.i, s.mb);
      k.c = buffers_c ? c_room : (char *)g->c + (k.i * g->c_step + k.j) * es;
      k.init = g->init;
      if (buffers_c && g->init == ETI_GEMM_KEEP) g->load(g, c_room, s.nb, k.i, k.m, k.j, k.n);
      size_t k0 = 0;
      do {  // once even when there is nothing to add: C is then initialised
        k.n_k = eti_at_most(g->k - k0, s.kb);
        k.range = k0 + k.n_k == g->k ? g->range : NULL;
        const bool b_is_packed = packs_b && k.i != p->m0 && k.n_k == g->k;
        if (!packs_b) {
          k.b = ready(&g->b, es, k.j, k0);
        } else if (!b_is_packed) {
          k.b = packed(g, &g->b, b_room, k.j, k.n, k0, k.n_k);
        }
        k.a = packs_a ? packed(g, &g->a, a_room, k.i, k.m, k0, k.n_k) : ready(&g->a, es, k.i, k0);
        run_block(g, &k, !packs_a && (packs_b || k.n * k.n_k <= B_NEAR_ELEMENTS));
        k.init = ETI_GEMM_ADD;
        k0 += k.n_k;
      } while (k0 < g->k);
      if (g->finish != NULL) g->finish(g, k.c, k.c_step, k.i, k.m, k.j, k.n);
      if (buffers_c) g->store(g, c_room, s.nb, k.i, k.m, k.j, k.n);
    }
  }
}

// ---- threads

typedef struct run {
  const eti_gemm *shape;
  eti_gemm_job_fn job;
  const void *ctx;
  char *work;
  size_t slot_bytes;
  size_t n_slots, n_units, splits;
  bool split_m;
} run;

// Runs units: unit u is part u % splits of job u / splits. Each slot has a run of units and work
// memory of its own.
static void run_slots(void *ctx, size_t begin, size_t end) {
  const run *r = ctx;
  for (size_t slot = begin; slot < end; slot++) {
    const size_t first = slot * r->n_units / r->n_slots,
                 last = (slot + 1) * r->n_units / r->n_slots;
    eti_gemm g = *r->shape;
    g.ctx = r->ctx;
    for (size_t u = first; u < last; u++) {
      if (u == first || u % r->splits == 0) {
        g.job = u / r->splits;
        r->job(r->ctx, g.job, &g);
        ET_ASSERT(eti_gemm_is_valid(&g, r->shape));
      }
      part p = {.m1 = g.m, .n1 = g.n};
      const size_t height = r->split_m ? g.a.height : g.kernel->nr;
      const size_t total = r->split_m ? g.m : g.n, n_panels = (total + height - 1) / height;
      const size_t part_begin = u % r->splits * n_panels / r->splits * height;
      const size_t part_end =
          eti_at_most((u % r->splits + 1) * n_panels / r->splits * height, total);
      *(r->split_m ? &p.m0 : &p.n0) = part_begin;
      *(r->split_m ? &p.m1 : &p.n1) = part_end;
      if (part_begin < part_end) run_part(&g, &p, r->work + slot * r->slot_bytes, r->slot_bytes);
    }
  }
}

// Multiply-adds of a thread's part that is worth the thread: as a range of et_parallel_for.
#define SMALL_PRODUCT (128u * 1024u)
#define READ_ROWS 4.0  // reading B costs as much as products of so many rows

// The number of slots that the work memory has room for.
static size_t slots_of(const eti_gemm *first, size_t bytes, size_t n_threads) {
  const uses u = uses_of(first);
  const size_t least = eti_round_up(least_bytes(first, &u), WORK_ALIGN);
  return least == 0 || bytes < least ? n_threads : eti_at_most(n_threads, bytes / least);
}

// Whether slots share the rows of C, so that each reads what its thread wrote in the operator
// before, and all read B; or its columns.
static bool splits_rows(const eti_gemm *first, size_t n_slots) {
  const size_t m_panels = (first->m + first->kernel->mr - 1) / first->kernel->mr;
  const size_t n_panels = (first->n + first->kernel->nr - 1) / first->kernel->nr;
  const bool b_is_near = first->b.data != NULL && first->n * first->k <= B_NEAR_ELEMENTS / 2;
  return m_panels > 2 * n_panels || (b_is_near && m_panels >= 4 * n_slots);
}

void eti_gemm_run(const et_pool *pool, const eti_gemm *shape, size_t n_jobs, eti_gemm_job_fn job,
                  const void *ctx, void *work, size_t bytes) {
  ET_ASSERT(shape->kernel != NULL && job != NULL && (uintptr_t)work % WORK_ALIGN == 0);
  if (n_jobs == 0 || shape->m == 0 || shape->n == 0) return;
  const double cost =
      ((double)shape->m + READ_ROWS) * (double)shape->n * (double)(shape->k + 1) * (double)n_jobs;
  run r = {.shape = shape, .job = job, .ctx = ctx, .work = work, .n_units = n_jobs};
  r.n_slots = r.splits = 1;
  if (pool != NULL && pool->n_threads > 1 && cost >= 2.0 * SMALL_PRODUCT) {
    eti_gemm first = *shape;
    first.ctx = ctx;
    first.job = 0;
    job(ctx, 0, &first);
    r.n_slots = slots_of(&first, bytes, pool->n_threads);
    r.splits = n_jobs < 4 * r.n_slots ? r.n_slots : 1;
    r.split_m = splits_rows(&first, r.n_slots);
    r.n_units *= r.splits;
  }
  r.slot_bytes = bytes / r.n_slots / WORK_ALIGN * WORK_ALIGN;
  if (r.n_slots == 1) {
    run_slots(&r, 0, 1);
  } else {
    et_parallel_for(pool, run_slots, &r, r.n_slots, 1);
  }
}

size_t eti_gemm_work_bytes(const eti_gemm *g, bool is_bound, size_t n_threads) {
  if (g->m == 0 || g->n == 0) return 0;
  const uses u = uses_of(g), all = {true, true, true};
  size_t slot;
  if (g->a.point != NULL) {
    const size_t n_panels = (g->m + g->a.height - 1) / g->a.height;
    const size_t n_columns =
        u.buffers_c ? eti_round_up(eti_at_most(g->n, ROWS_COLUMNS), g->kernel->nr) : 0;
    slot = rows_bytes(g, eti_at_most(n_panels, ROWS_PANELS), n_columns);
  } else {
    // Blocks that leave room for a buffered C run as fast.
    const uses most = {u.packs_a, u.packs_b, true};
    const blocks b = best_blocks(g, g->m, g->n, &u), small = best_blocks(g, g->m, g->n, &most);
    slot = eti_at_most(work_of(g->kernel, &b, &u), work_of(g->kernel, &small, &most));
  }
  if (is_bound) slot = eti_at_least(slot, least_bytes(g, &all));
  return eti_round_up(slot, WORK_ALIGN) * eti_at_least(n_threads, 1);
}
