// test_gemm.c — compares every variant of the gemm micro-kernels with a plain implementation of the
// contract of gemm.h, by equality of bits: all tile sizes, tails, operands as panels and as rows;
// and whole products with an activation.
#include "et_test.h"

#include "kernels/micro/gemm/gemm.h"
#include "kernels/micro/isa_select.h"
#include "random_elements.h"

#include <math.h>

// ---- tiles

// s = a · b + s and c = c + s of one element.
static void fuse(uint8_t dtype, void *s, const void *a, const void *b) {
  switch (dtype) {
    case ET_F32:
      *(float *)s = fmaf(*(const float *)a, *(const float *)b, *(float *)s);
      break;
    case ET_F64:
      *(double *)s = fma(*(const double *)a, *(const double *)b, *(double *)s);
      break;
    case ET_I32:
      *(uint32_t *)s += *(const uint32_t *)a * *(const uint32_t *)b;
      break;
    default:
      *(uint64_t *)s += *(const uint64_t *)a * *(const uint64_t *)b;
      break;
  }
}

static void accumulate(uint8_t dtype, void *c, const void *s) {
  switch (dtype) {
    case ET_F32:
      *(float *)c += *(const float *)s;
      break;
    case ET_F64:
      *(double *)c += *(const double *)s;
      break;
    case ET_I32:
      *(uint32_t *)c += *(const uint32_t *)s;
      break;
    default:
      *(uint64_t *)c += *(const uint64_t *)s;
      break;
  }
}

// Element (i, j) of a tile at c, by the contract of gemm.h alone.
static void specify(uint8_t dtype, const eti_gemm_tile *t, size_t i, size_t j, char *c) {
  const size_t es = et_dtype_bytes((et_dtype)dtype);
  const char *const a = t->a, *const b = t->b, *const bias = t->bias;
  bool add = t->init == ETI_GEMM_ADD;
  uint64_t s = 0;  // room for any type; all its zeros are 0
  if (t->init == ETI_GEMM_ROWS) memcpy(&s, bias + i * es, es);
  if (t->init == ETI_GEMM_COLS) memcpy(&s, bias + j * es, es);
  if (t->init == ETI_GEMM_KEEP) memcpy(&s, c, es);
  for (size_t k = 0; k <= t->k; k++) {
    if (k == t->k || (k > 0 && k % ETI_GEMM_CHUNK == 0)) {
      if (add) accumulate(dtype, c, &s);
      if (!add) memcpy(c, &s, es);
      add = true;
      s = 0;
    }
    if (k < t->k) fuse(dtype, &s, a + (k * t->a_step + i) * es, b + (k * t->b_step + j) * es);
  }
}

// Panels of B side by side, in place in a matrix of `gap` more columns.
static bool row_is_as_specified(const eti_gemm_kernel *kernel, size_t k, size_t gap,
                                eti_gemm_init init) {
  const size_t es = kernel->esize, n = (size_t)kernel->nr * ETI_GEMM_ROW_PANELS, b_step = n + gap;
  void *const a = random_elements(kernel->dtype, k), *const b =
                                                         random_elements(kernel->dtype, k * b_step);
  void *const c = random_elements(kernel->dtype, n), *const expected = copy_of(c, n * es);
  void *const bias = random_elements(kernel->dtype, n);
  const eti_gemm_tile t = {.k = k,
                           .a = a,
                           .a_step = 1,
                           .b = b,
                           .b_step = b_step,
                           .b_panel_step = kernel->nr,
                           .c = c,
                           .c_step = n,
                           .init = init,
                           .bias = bias};
  kernel->tile_row(&t);
  for (size_t j = 0; j < n; j++) specify(kernel->dtype, &t, 0, j, (char *)expected + j * es);
  const bool same = memcmp(c, expected, n * es) == 0;
  free(a), free(b), free(c), free(expected), free(bias);
  return same;
}

static void rows_over_several_panels_are_as_specified(void) {
  static const size_t depths[] = {0, 1, 7, 255, 256, 257, 600};
  for (int isa = 0; isa < ETI_ISA_COUNT; isa++) {
    for (int acc = 0; acc < ETI_ACC_COUNT; acc++) {
      const eti_gemm_kernel *const kernel = eti_gemm_kernel_of_isa((eti_acc)acc, isa);
      for (size_t d = 0; kernel != NULL && d < sizeof depths / sizeof *depths; d++) {
        for (int init = ETI_GEMM_ZERO; init <= ETI_GEMM_ADD; init++)
          EXPECT(row_is_as_specified(kernel, depths[d], d % 3, (eti_gemm_init)init));
      }
    }
  }
}

static bool is_as_specified(const eti_gemm_kernel *kernel, size_t m, size_t n, size_t k,
                            eti_gemm_init init) {
  const size_t es = kernel->esize, c_step = n + 3, c_size = (m - 1) * c_step + n;
  void *const a = random_elements(kernel->dtype, k * m);
  void *const b = random_elements(kernel->dtype, k * n);
  void *const c = random_elements(kernel->dtype, c_size), *const expected = copy_of(c, c_size * es);
  void *const bias = random_elements(kernel->dtype, init == ETI_GEMM_ROWS ? m : n);
  const eti_gemm_tile t = {.k = k,
                           .a = a,
                           .a_step = m,
                           .b = b,
                           .b_step = n,
                           .c = c,
                           .c_step = c_step,
                           .init = init,
                           .bias = bias};
  kernel->tile(&t, m, n);
  for (size_t i = 0; i < m; i++) {
    for (size_t j = 0; j < n; j++)
      specify(kernel->dtype, &t, i, j, (char *)expected + (i * c_step + j) * es);
  }
  const bool same = memcmp(c, expected, c_size * es) == 0;
  free(a), free(b), free(c), free(expected), free(bias);
  return same;
}

static void gemm_tiles_of_every_size_are_as_specified(void) {
  static const size_t ks[] = {0, 1, 17, ETI_GEMM_CHUNK, ETI_GEMM_CHUNK + 1, 2 * ETI_GEMM_CHUNK + 3};
  for (int acc = 0; acc < ETI_ACC_COUNT; acc++) {
    for (int isa = 0; isa < ETI_ISA_COUNT; isa++) {
      const eti_gemm_kernel *const kernel = eti_gemm_kernel_of_isa((eti_acc)acc, isa);
      for (size_t m = 1; kernel != NULL && m <= kernel->mr; m++) {
        for (size_t n = 1; n <= kernel->nr; n++) {
          const eti_gemm_init init = (eti_gemm_init)((m + n) % 5);
          EXPECT(is_as_specified(kernel, m, n, 17, init));
          EXPECT(is_as_specified(kernel, m, n, ks[(m + n) % 6], (eti_gemm_init)((m + 3 * n) % 5)));
        }
      }
    }
  }
}

// A as rows of two kinds of segment, each in separate memory; the reference reads a panel.
static bool rows_are_as_specified(const eti_gemm_kernel *kernel, size_t m, size_t n, size_t k,
                                  size_t segment, eti_gemm_init init) {
  enum { SEGMENTS = 64, ROWS = 16 };
  const size_t es = kernel->esize, n_segments = (k + segment - 1) / segment;
  char *const a = random_elements(kernel->dtype, k * m);
  void *const b = random_elements(kernel->dtype, k * n);
  void *const c = random_elements(kernel->dtype, m * n), *const expected = copy_of(c, m * n * es);
  void *const bias = random_elements(kernel->dtype, init == ETI_GEMM_ROWS ? m : n);
  const void *rows[SEGMENTS * ROWS];
  for (size_t s = 0; s < n_segments; s++) {
    for (size_t i = 0; i < m; i++) {
      const size_t k0 = s * segment, n_k = k - k0 < segment ? k - k0 : segment;
      char *const row = malloc(n_k * es);
      for (size_t kk = 0; kk < n_k; kk++) memcpy(row + kk * es, a + ((k0 + kk) * m + i) * es, es);
      rows[s * m + i] = row;
    }
  }
  eti_gemm_tile t = {.k = k,
                     .rows = rows,
                     .segment = segment,
                     .b = b,
                     .b_step = n,
                     .c = c,
                     .c_step = n,
                     .init = init,
                     .bias = bias};
  kernel->tile_rows(&t, m, n);
  t.a = a, t.a_step = m;
  for (size_t i = 0; i < m; i++) {
    for (size_t j = 0; j < n; j++)
      specify(kernel->dtype, &t, i, j, (char *)expected + (i * n + j) * es);
  }
  const bool same = memcmp(c, expected, m * n * es) == 0;
  for (size_t s = 0; s < n_segments * m; s++) free((void *)(uintptr_t)rows[s]);
  free(a), free(b), free(c), free(expected), free(bias);
  return same;
}

static void gemm_tiles_of_rows_are_as_specified(void) {
  static const size_t ks[] = {1, 18, ETI_GEMM_CHUNK, 2 * ETI_GEMM_CHUNK + 3};
  static const size_t segments[] = {1000, 10, 31, 300};
  for (int acc = 0; acc < ETI_ACC_COUNT; acc++) {
    for (int isa = 0; isa < ETI_ISA_COUNT; isa++) {
      const eti_gemm_kernel *const kernel = eti_gemm_kernel_of_isa((eti_acc)acc, isa);
      for (size_t m = 1; kernel != NULL && m <= kernel->rows_mr; m++) {
        for (size_t n = 1; n <= kernel->nr; n++) {
          EXPECT(rows_are_as_specified(kernel, m, n, ks[(m + n) % 4], segments[(m + 3 * n) % 4],
                                       (eti_gemm_init)((m + n) % 5)));
        }
      }
    }
  }
}

// Walks m rows or n columns, more than a tile has, and compares the bits with those of single
// tiles.
static bool walk_equals_its_tiles(const eti_gemm_kernel *kernel, size_t m, size_t n, size_t k,
                                  eti_gemm_init init, const eti_clamp_range *range) {
  enum { ROWS = 64 };
  const size_t es = kernel->esize, mr = kernel->rows_mr, nr = kernel->nr;
  const size_t panels = (n + nr - 1) / nr;
  char *const a = random_elements(kernel->dtype, m * k);
  char *const b = random_elements(kernel->dtype, panels * nr * k);
  char *const c = random_elements(kernel->dtype, m * n), *const expected = copy_of(c, m * n * es);
  char *const bias = random_elements(kernel->dtype, init == ETI_GEMM_ROWS ? m : n);
  const void *rows[ROWS];
  for (size_t i = 0; i < m; i++) rows[i] = a + i * k * es;
  eti_gemm_tile t = {.k = k,
                     .rows = rows,
                     .segment = k,
                     .b = b,
                     .b_step = nr,
                     .b_panel_step = nr * k,
                     .c = c,
                     .c_step = n,
                     .init = init,
                     .bias = bias,
                     .range = range};
  for (size_t i = 0; i < m; i += mr) {
    for (size_t j = 0; j < n; j += nr) {
      eti_gemm_tile one = t;
      one.rows = rows + i;
      one.b = b + j * k * es;
      one.c = expected + (i * n + j) * es;
      one.bias = bias + (init == ETI_GEMM_ROWS ? i : j) * es;
      kernel->tile_rows(&one, m - i < mr ? m - i : mr, n - j < nr ? n - j : nr);
    }
  }
  kernel->walk_rows(&t, m, n);
  const bool same = memcmp(c, expected, m * n * es) == 0;
  free(a), free(b), free(c), free(expected), free(bias);
  return same;
}

static void gemm_walks_equal_their_tiles(void) {
  static const eti_gemm_init inits[] = {ETI_GEMM_ZERO, ETI_GEMM_ROWS, ETI_GEMM_COLS, ETI_GEMM_ADD};
  static const size_t ks[] = {1, 16, ETI_GEMM_CHUNK, ETI_GEMM_CHUNK + 5};
  const eti_clamp_range limits = {.low = 0.0f, .high = 6.0f, .plus = -0.0f};
  for (int acc = 0; acc < ETI_ACC_COUNT; acc++) {
    for (int isa = 0; isa < ETI_ISA_COUNT; isa++) {
      const eti_gemm_kernel *const kernel = eti_gemm_kernel_of_isa((eti_acc)acc, isa);
      for (size_t i = 0; kernel != NULL && i < 16; i++) {
        const size_t mr = kernel->rows_mr, nr = kernel->nr;
        const eti_clamp_range *const range = acc == ETI_ACC_F32 && i < 12 ? &limits : NULL;
        EXPECT(walk_equals_its_tiles(kernel, 3 * mr + i % mr, nr - i % nr, ks[i / 4], inits[i % 4],
                                     range));
        EXPECT(walk_equals_its_tiles(kernel, 1 + i % mr, 3 * nr - i % nr, ks[i / 4], inits[i % 4],
                                     range));
      }
    }
  }
}

// ---- whole products with an activation

enum { PRODUCT_M = 300, PRODUCT_N = 70, PRODUCT_K = 300, WIDE = 1100 };

typedef struct activated {
  const float *a, *b;
  float *c;
  size_t n;
  bool relu, as_rows;
} activated;

static void relu_block(const eti_gemm *g, void *tile, size_t step, size_t i, size_t m, size_t j,
                       size_t n) {
  (void)g, (void)i, (void)j;
  for (size_t r = 0; r < m; r++) {
    for (size_t c = 0; c < n; c++) {
      float *const x = (float *)tile + r * step + c;
      *x = *x < 0.0f ? 0.0f : *x + 1.0f;  // not idempotent: a second application changes the result
    }
  }
}

static void describe_activated(const void *ctx, size_t i, eti_gemm *g) {
  const activated *const p = ctx;
  (void)i;
  eti_gemm_use_a_view(g, (eti_gemm_view){p->a, ET_F32, PRODUCT_K, 1});
  eti_gemm_use_b_view(g, (eti_gemm_view){p->b, ET_F32, 1, (ptrdiff_t)p->n});
  eti_gemm_use_c_view(g, (eti_gemm_view){p->c, ET_F32, (ptrdiff_t)p->n, 1});
  if (p->as_rows) eti_gemm_prefer_rows(g);
  g->finish = p->relu ? relu_block : NULL;
}

static bool activates_once(size_t n, bool as_rows) {
  static _Alignas(64) char work[65536];
  const size_t size = PRODUCT_M * n;
  float *const a = random_elements(ET_F32, (size_t)PRODUCT_M * PRODUCT_K);
  float *const b = random_elements(ET_F32, PRODUCT_K * n);
  float *const plain = random_elements(ET_F32, size), *const got = random_elements(ET_F32, size);
  activated p = {.a = a, .b = b, .c = plain, .n = n, .as_rows = as_rows};
  const eti_gemm shape = {.kernel = eti_gemm_kernel_for(ETI_ACC_F32),
                          .m = PRODUCT_M,
                          .n = n,
                          .k = PRODUCT_K,
                          .ctx = &p};
  eti_gemm_run(NULL, &shape, 1, describe_activated, &p, work, sizeof work);
  p.c = got, p.relu = true;
  eti_gemm_run(NULL, &shape, 1, describe_activated, &p, work, sizeof work);
  relu_block(&shape, plain, n, 0, PRODUCT_M, 0, n);
  const bool same = memcmp(plain, got, size * sizeof(float)) == 0;
  free(a), free(b), free(plain), free(got);
  return same;
}

static void an_activation_is_applied_once_to_every_element(void) {
  EXPECT(activates_once(PRODUCT_N, true));
  EXPECT(activates_once(PRODUCT_N, false));
  EXPECT(activates_once(WIDE, false));
}

// ---- memory of whole products

typedef struct product {
  eti_gemm_view a, b, c;
  eti_gemm_init init;
  const void *bias, *panels_a, *panels_b;
  const eti_clamp_range *range;
  eti_gemm_move_fn finish;
  bool as_rows;
} product;

static void load_c(const eti_gemm *g, void *tile, size_t step, size_t i, size_t m, size_t j,
                   size_t n) {
  const ptrdiff_t es = g->kernel->esize;
  for (size_t r = 0; r < m; r++) {
    for (size_t c = 0; c < n; c++)
      memcpy((char *)tile + (ptrdiff_t)(r * step + c) * es,
             (const char *)g->c_view.data +
                 ((ptrdiff_t)(i + r) * g->c_view.row_step + (ptrdiff_t)(j + c) * g->c_view.k_step) *
                     es,
             (size_t)es);
  }
}

static void use_panels(eti_gemm_operand *o, const void *panels, size_t height, size_t k) {
  if (panels == NULL) return;
  *o = (eti_gemm_operand){
      .data = panels, .height = height, .panel_step = height * k, .k_step = height};
}

static void describe_product(const void *ctx, size_t i, eti_gemm *g) {
  const product *const p = ctx;
  (void)i;
  eti_gemm_use_a_view(g, p->a);
  eti_gemm_use_b_view(g, p->b);
  eti_gemm_use_c_view(g, p->c);
  use_panels(&g->a, p->panels_a, eti_gemm_a_height(g->kernel, g->m), g->k);
  use_panels(&g->b, p->panels_b, g->kernel->nr, g->k);
  if (p->as_rows) eti_gemm_prefer_rows(g);
  g->init = p->init;
  g->load = load_c;
  g->bias = p->bias;
  g->range = p->range;
  g->finish = p->finish;
}

// Packs an operand of a product ahead.
static void *packed_ahead(const eti_gemm *shape, const product *p, bool is_a) {
  const size_t rows = is_a ? shape->m : shape->n,
               height = is_a ? eti_gemm_a_height(shape->kernel, rows) : shape->kernel->nr,
               bytes = eti_gemm_packed_elements(rows, height, shape->k) * shape->kernel->esize;
  void *const panels = aligned_alloc(64, (bytes + 64) / 64 * 64);
  eti_gemm_pack_all(NULL, shape, 1, describe_product, p,
                    is_a ? eti_gemm_pack_a_view : eti_gemm_pack_b_view, panels, rows, height);
  return panels;
}

static eti_gemm_view stored(void *data, uint8_t dtype, size_t rows, size_t columns, bool by_row) {
  return (eti_gemm_view){.data = data,
                         .dtype = dtype,
                         .row_step = by_row ? (ptrdiff_t)columns : 1,
                         .k_step = by_row ? 1 : (ptrdiff_t)rows};
}

enum { A_BY_COLUMN = 1, B_BY_ROW = 2, C_BY_COLUMN = 4, A_AS_ROWS = 8, A_AHEAD = 16, B_AHEAD = 32 };

// True if a product in its full work memory and one without any have the same bits.
static bool needs_no_work(eti_acc acc, size_t m, size_t n, size_t k, unsigned layouts,
                          eti_gemm_init init) {
  const eti_gemm_kernel *const kernel = eti_gemm_kernel_for(acc);
  const uint8_t dtype = kernel->dtype;
  const size_t es = kernel->esize, most = m > n ? m : n;
  void *const a = random_elements(dtype, m * k + 1), *const b = random_elements(dtype, n * k + 1);
  void *const c = random_elements(dtype, m * n), *const expected = copy_of(c, m * n * es);
  void *const bias = random_elements(dtype, most);
  const eti_clamp_range range = some_range(m + n);
  const bool is_f32 = acc == ETI_ACC_F32;
  product p = {.a = stored(a, dtype, m, k, (layouts & A_BY_COLUMN) == 0),
               .b = stored(b, dtype, n, k, (layouts & B_BY_ROW) == 0),
               .c = stored(expected, dtype, m, n, (layouts & C_BY_COLUMN) == 0),
               .init = init,
               .bias = bias,
               .range = is_f32 && k % 3 == 0 ? &range : NULL,
               .finish = is_f32 && k % 2 == 1 ? relu_block : NULL};
  const eti_gemm shape = {.kernel = kernel, .m = m, .n = n, .k = k, .ctx = &p};
  void *const panels_a = (layouts & A_AHEAD) == 0 ? NULL : packed_ahead(&shape, &p, true);
  void *const panels_b = (layouts & B_AHEAD) == 0 ? NULL : packed_ahead(&shape, &p, false);
  p.panels_a = panels_a, p.panels_b = panels_b;
  p.as_rows = (layouts & A_AS_ROWS) != 0;
  eti_gemm job = shape;
  describe_product(&p, 0, &job);
  const size_t bytes = eti_gemm_work_bytes(&job, false, 1);
  void *const work = aligned_alloc(64, bytes + 64);
  eti_gemm_run(NULL, &shape, 1, describe_product, &p, work, bytes);
  p.c.data = c;
  eti_gemm_run(NULL, &shape, 1, describe_product, &p, NULL, 0);
  const bool same = memcmp(c, expected, m * n * es) == 0;
  free(a), free(b), free(c), free(expected), free(bias), free(work), free(panels_a), free(panels_b);
  return same;
}

static void products_without_work_memory_have_the_same_bits(void) {
  static const size_t sizes[][3] = {{1, 1, 1},    {1, 40, 300}, {5, 3, 0},
                                    {4, 8, 16},   {15, 33, 7},  {9, 70, 600},
                                    {31, 2, 257}, {37, 35, 9},  {29, 34, 513}};
  for (int acc = 0; acc < ETI_ACC_COUNT; acc++) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      const size_t m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
      for (unsigned layouts = 0; layouts < 2 * B_AHEAD; layouts++) {
        const bool in_place = (layouts & C_BY_COLUMN) == 0 || n == 1;
        EXPECT(needs_no_work((eti_acc)acc, m, n, k, layouts, ETI_GEMM_ZERO));
        EXPECT(needs_no_work((eti_acc)acc, m, n, k, layouts, ETI_GEMM_KEEP));
        if (!in_place) continue;
        EXPECT(needs_no_work((eti_acc)acc, m, n, k, layouts,
                             layouts % 2 == 0 ? ETI_GEMM_ROWS : ETI_GEMM_COLS));
      }
    }
  }
}

static void operands_in_place_need_no_work_memory(void) {
  static char any;
  const product p = {.a = stored(&any, ET_F32, 1, 300, true),
                     .b = stored(&any, ET_F32, 40, 300, false),
                     .c = stored(&any, ET_F32, 1, 40, true)};
  eti_gemm job = {.kernel = eti_gemm_kernel_for(ETI_ACC_F32), .m = 1, .n = 40, .k = 300};
  describe_product(&p, 0, &job);
  EXPECT(eti_gemm_work_bytes(&job, false, 4) == 0);
}

static void work_memory_grows_with_the_product(void) {
  static char any;
  size_t before = 0;
  for (size_t k = 4; k <= 1024; k *= 4) {
    const product p = {.a = stored(&any, ET_F32, 4, k, true),
                       .b = stored(&any, ET_F32, 3, k, true),
                       .c = stored(&any, ET_F32, 4, 3, true)};
    eti_gemm job = {.kernel = eti_gemm_kernel_for(ETI_ACC_F32), .m = 4, .n = 3, .k = k};
    describe_product(&p, 0, &job);
    const size_t bytes = eti_gemm_work_bytes(&job, false, 1);
    EXPECT(bytes > before && bytes <= 4 * (4u + 32u) * k + 128);
    EXPECT(eti_gemm_work_bytes(&job, false, 3) == 3 * bytes);
    EXPECT(eti_gemm_work_bytes(&job, true, 1) >= bytes);
    before = bytes;
  }
}

// ---- B in the panels of a file

static void describe_stored(const void *ctx, size_t i, eti_gemm *g) {
  const product *const p = ctx;
  describe_product(ctx, i, g);
  g->b = (eti_gemm_operand){.data = p->panels_b,
                            .height = g->kernel->nr,
                            .panel_step = ETI_GEMM_STORED * g->k,
                            .k_step = ETI_GEMM_STORED,
                            .stored = ETI_GEMM_STORED};
  if (p->as_rows) eti_gemm_prefer_rows(g);
}

// A product whose B is packed as files have it has the bits of one that packs B, with as many bytes
// of work memory as the first `n_sizes` of a list.
static bool stored_b_is_as_packed(const eti_gemm_kernel *kernel, size_t m, size_t n, size_t k,
                                  bool as_rows, size_t n_sizes) {
  static const size_t sizes[] = {1u << 20, 20000, 0};
  const size_t padded = (n + ETI_GEMM_STORED - 1) / ETI_GEMM_STORED * ETI_GEMM_STORED;
  float *const a = random_elements(ET_F32, m * k), *const b = random_elements(ET_F32, n * k);
  float *const before = random_elements(ET_F32, m * n);
  float *const expected = copy_of(before, m * n * sizeof *before);
  float *const panels = malloc(padded * k * sizeof *panels);
  product p = {.a = stored(a, ET_F32, m, k, true),
               .b = stored(b, ET_F32, n, k, true),
               .c = stored(expected, ET_F32, m, n, true),
               .bias = b,
               .init = ETI_GEMM_COLS,
               .as_rows = as_rows};
  const eti_gemm shape = {.kernel = kernel, .m = m, .n = n, .k = k, .ctx = &p};
  // Columns after the last have a value that would be seen.
  for (size_t i = 0; i < padded * k; i++) panels[i] = INFINITY;
  for (size_t j = 0; j < n; j++) {
    for (size_t kk = 0; kk < k; kk++)
      panels[(j / ETI_GEMM_STORED * k + kk) * ETI_GEMM_STORED + j % ETI_GEMM_STORED] =
          b[j * k + kk];
  }
  eti_gemm_run(NULL, &shape, 1, describe_product, &p, NULL, 0);
  p.panels_b = panels;
  bool same = true;
  for (size_t i = 0; i < n_sizes; i++) {
    float *const c = copy_of(before, m * n * sizeof *before);
    void *const work = aligned_alloc(64, (sizes[i] + 64) / 64 * 64);
    p.c.data = c;
    eti_gemm_run(NULL, &shape, 1, describe_stored, &p, work, sizes[i]);
    same &= memcmp(c, expected, m * n * sizeof *c) == 0;
    free(c), free(work);
  }
  free(a), free(b), free(before), free(expected), free(panels);
  return same;
}

static void products_with_stored_panels_have_the_same_bits(void) {
  static const size_t ns[] = {1, 2, 15, 16, 17, 31, 32, 33, 48, 49, 130, 700},
                      ms[] = {1, 3, 30, 300};
  static const size_t ks[] = {1, 257, 1100};
  for (int isa = 0; isa < ETI_ISA_COUNT; isa++) {
    const eti_gemm_kernel *const kernel = eti_gemm_kernel_of_isa(ETI_ACC_F32, isa);
    for (size_t i = 0; kernel != NULL && i < 12u * 4u * 3u; i++) {
      const size_t n = ns[i % 12], m = ms[i / 12 % 4], k = ks[i / 48];
      if (m * n * k > 24u * 1000 * 1000) continue;  // minutes under a sanitizer
      EXPECT(stored_b_is_as_packed(kernel, m, n, k, false, i % 2 == 0 ? 1 : 3));
      EXPECT(stored_b_is_as_packed(kernel, m, n, k, true, i % 2 == 0 ? 3 : 1));
    }
  }
}

// ---- packing

static void gemm_packs_rows_like_the_scalar_one(void) {
  for (int acc = 0; acc < ETI_ACC_COUNT; acc++) {
    for (int isa = 1; isa < ETI_ISA_COUNT; isa++) {
      const eti_gemm_kernel *const fast = eti_gemm_kernel_of_isa((eti_acc)acc, isa);
      for (size_t n = 1; fast != NULL && n <= 33; n += 4) {
        for (size_t k = 1; k <= 40; k += 13) {
          const size_t width = n + n % 3, step = k + 2, bytes = width * k * fast->esize;
          void *const src = random_elements(fast->dtype, (n - 1) * step + k);
          void *const got = malloc(bytes), *const expected = malloc(bytes);
          fast->pack_rows(got, width, src, step, n, k);
          eti_gemm_scalar[acc].pack_rows(expected, width, src, step, n, k);
          const bool same = memcmp(got, expected, bytes) == 0;
          free(src), free(got), free(expected);
          EXPECT(same);
        }
      }
    }
  }
}

// ---- ranges

// Bounds, zeros of both signs, infinities and NaN between other numbers.
static void limits_are_those_of_the_scalar_kernel(void) {
  const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, -0.25f, 0.5f};
  for (int isa = 1; isa < ETI_ISA_COUNT; isa++) {
    const eti_gemm_kernel *const fast = eti_gemm_kernel_of_isa(ETI_ACC_F32, isa);
    for (size_t n = 1; fast != NULL && n <= 40; n++) {
      const size_t m = n % 3 + 1, step = n + 2, size = m * step;
      float *const got = random_elements(ET_F32, size);
      for (size_t i = 0; i < size; i += 3) got[i] = special[i / 3 % 7];
      float *const expected = copy_of(got, size * sizeof(float));
      const eti_clamp_range range = some_range(n);
      fast->limit(got, step, m, n, &range);
      eti_gemm_scalar[ETI_ACC_F32].limit(expected, step, m, n, &range);
      const bool same = memcmp(got, expected, size * sizeof(float)) == 0;
      free(got), free(expected);
      EXPECT(same);
    }
  }
}

static const et_test tests[] = {
    ET_CASE(gemm_tiles_of_every_size_are_as_specified),
    ET_CASE(gemm_tiles_of_rows_are_as_specified),
    ET_CASE(gemm_walks_equal_their_tiles),
    ET_CASE(an_activation_is_applied_once_to_every_element),
    ET_CASE(products_without_work_memory_have_the_same_bits),
    ET_CASE(operands_in_place_need_no_work_memory),
    ET_CASE(work_memory_grows_with_the_product),
    ET_CASE(products_with_stored_panels_have_the_same_bits),
    ET_CASE(gemm_packs_rows_like_the_scalar_one),
    ET_CASE(limits_are_those_of_the_scalar_kernel),
    ET_CASE(rows_over_several_panels_are_as_specified),
};
ET_TEST_MAIN(tests)
