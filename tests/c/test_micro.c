// test_micro.c — every variant of the micro-kernels against its specification (the product's is
// written out here, the others' are their scalar variants), by equality of bits: all tile sizes,
// tails, and memory of exactly the size the contract allows (the sanitizers see a step outside).
#include "et_test.h"

#include "kernels/micro/conv.h"
#include "kernels/micro/gemm.h"
#include "kernels/micro/norm.h"
#include "kernels/micro/pool.h"
#include "kernels/micro/quant.h"
#include "kernels/micro/select.h"
#include "runtime/et.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

static uint32_t seed = 1;
static uint32_t next_random(void) {
  seed = seed * 1664525u + 1013904223u;
  return seed >> 8;
}

// n elements of dtype in memory of exactly that size; freed by the caller.
static void *random_elements(uint8_t dtype, size_t n) {
  const size_t bytes = n * et_dtype_bytes((et_dtype)dtype);
  void *const memory = malloc(bytes == 0 ? 1 : bytes);
  for (size_t i = 0; i < n; i++) {
    const double value = (double)next_random() / (1 << 24) - 0.5;
    switch (dtype) {
      case ET_F32:
        ((float *)memory)[i] = (float)value;
        break;
      case ET_F64:
        ((double *)memory)[i] = value;
        break;
      case ET_I32:
        ((uint32_t *)memory)[i] = next_random() * 77u;
        break;
      default:
        ((uint64_t *)memory)[i] = (uint64_t)next_random() * 7777777777u;
        break;
    }
  }
  return memory;
}

static void *copy_of(const void *data, size_t bytes) {
  void *const memory = malloc(bytes);
  memcpy(memory, data, bytes);
  return memory;
}

// ---- gemm

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

// What a tile must make of element (i, j) at c, by the contract of gemm.h and nothing else.
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

// A as rows of two kinds of segment, each in memory of its own; the specification reads a panel.
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
      *x = *x < 0.0f ? 0.0f : *x + 1.0f;  // not idempotent: twice would show
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
  static _Alignas(64) char work[ETI_GEMM_MIN_WORK];
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

static eti_range some_range(size_t i) {
  const eti_range ranges[4] = {
      ETI_UNBOUNDED, ETI_RELU_RANGE, {-0.25f, 0.5f, -0.0f}, {0.5f, -0.5f, -0.0f}};
  return ranges[i % 4];
}

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
      const eti_range range = some_range(n);
      fast->limit(got, step, m, n, &range);
      eti_gemm_scalar[ETI_ACC_F32].limit(expected, step, m, n, &range);
      const bool same = memcmp(got, expected, size * sizeof(float)) == 0;
      free(got), free(expected);
      EXPECT(same);
    }
  }
}

// ---- convolution rows

static bool same_row(const eti_conv_micro *fast, size_t n, size_t n_taps) {
  const float *taps[25];
  float *const w = random_elements(ET_F32, n_taps * n), *const bias = random_elements(ET_F32, n);
  float *const got = malloc(n * sizeof(float)), *const expected = malloc(n * sizeof(float));
  for (size_t t = 0; t < n_taps; t++) taps[t] = random_elements(ET_F32, n);
  const eti_range range = some_range(n);
  fast->row(got, n, taps, w, n_taps, 0.25f, &range);
  eti_conv_scalar.row(expected, n, taps, w, n_taps, 0.25f, &range);
  bool same = memcmp(got, expected, n * sizeof(float)) == 0;
  fast->pixels(got, 0, 1, n, taps, 0, w, n, n_taps, n % 2 == 0 ? bias : NULL, &range);
  eti_conv_scalar.pixels(expected, 0, 1, n, taps, 0, w, n, n_taps, n % 2 == 0 ? bias : NULL,
                         &range);
  same = same && memcmp(got, expected, n * sizeof(float)) == 0;
  for (size_t t = 0; t < n_taps; t++) free((void *)(uintptr_t)taps[t]);
  free(w), free(bias), free(got), free(expected);
  return same;
}

// Rows of several channels equal rows one by one, and nothing between them is touched.
static bool same_rows(const eti_conv_micro *fast, size_t n, size_t n_taps) {
  const float *taps[25];
  const size_t out_step = n + 1, size = (ETI_CONV_ROWS - 1) * out_step + n;
  float *const w = random_elements(ET_F32, n_taps * ETI_CONV_ROWS + 1), *const bias =
                                                                            random_elements(
                                                                                ET_F32,
                                                                                ETI_CONV_ROWS);
  float *const got = random_elements(ET_F32, size);
  float *const expected = copy_of(got, size * sizeof(float));
  for (size_t t = 0; t < n_taps; t++) taps[t] = random_elements(ET_F32, n);
  const eti_range range = some_range(n);
  fast->rows(got, out_step, n, taps, w, n_taps, bias, &range);
  for (size_t r = 0; r < ETI_CONV_ROWS; r++) {
    float one[25];
    for (size_t t = 0; t < n_taps; t++) one[t] = w[t * ETI_CONV_ROWS + r];
    eti_conv_scalar.row(expected + r * out_step, n, taps, one, n_taps, bias[r], &range);
  }
  const bool same = memcmp(got, expected, size * sizeof(float)) == 0;
  for (size_t t = 0; t < n_taps; t++) free((void *)(uintptr_t)taps[t]);
  free(w), free(bias), free(got), free(expected);
  return same;
}

static void depthwise_rows_equal_the_scalar_ones(void) {
  for (int isa = 0; isa < ETI_ISA_COUNT; isa++) {
    const eti_conv_micro *const fast = eti_conv_micro_of_isa(isa);
    for (size_t n = 1; fast != NULL && n <= 140; n++) {
      EXPECT(same_row(fast, n, n % 26));
      EXPECT(same_rows(fast, n, n % 26));
    }
  }
}

// Pixels side by side equal pixels computed one by one, and nothing between them is touched.
static bool same_pixels(const eti_conv_micro *fast, size_t n_pixels, size_t n, size_t n_taps) {
  const size_t tap_step = n + 1, out_step = n + 2, size = n_pixels * out_step;
  const float *taps[25];
  float *const w = random_elements(ET_F32, n_taps * n), *const bias = random_elements(ET_F32, n);
  float *const got = random_elements(ET_F32, size);
  float *const expected = copy_of(got, size * sizeof(float));
  for (size_t t = 0; t < n_taps; t++) taps[t] = random_elements(ET_F32, n_pixels * tap_step - 1);
  const eti_range range = some_range(n + n_pixels);
  fast->pixels(got, (ptrdiff_t)out_step, n_pixels, n, taps, (ptrdiff_t)tap_step, w, n, n_taps, bias,
               &range);
  for (size_t i = 0; i < n_pixels; i++) {
    const float *here[25];
    for (size_t t = 0; t < n_taps; t++) here[t] = taps[t] + i * tap_step;
    eti_conv_scalar.pixels(expected + i * out_step, 0, 1, n, here, 0, w, n, n_taps, bias, &range);
  }
  const bool same = memcmp(got, expected, size * sizeof(float)) == 0;
  for (size_t t = 0; t < n_taps; t++) free((void *)(uintptr_t)taps[t]);
  free(w), free(bias), free(got), free(expected);
  return same;
}

static void depthwise_pixels_side_by_side_equal_single_ones(void) {
  for (int isa = 0; isa < ETI_ISA_COUNT; isa++) {
    const eti_conv_micro *const fast = eti_conv_micro_of_isa(isa);
    for (size_t n = 1; fast != NULL && n <= 40; n++) {
      for (size_t n_pixels = 1; n_pixels <= 10; n_pixels++)
        EXPECT(same_pixels(fast, n_pixels, n, (n + n_pixels) % 26));
    }
  }
}

// Output (y, i) of a plane as micro/conv.h defines it.
static float plane_at(const eti_conv_plane *p, ptrdiff_t kernel, ptrdiff_t stride, size_t y,
                      size_t i) {
  float sum = p->bias;
  for (ptrdiff_t k = 0; k < kernel * kernel; k++) {
    const ptrdiff_t row = (ptrdiff_t)y * stride + k / kernel - p->top,
                    col = (ptrdiff_t)i * stride + k % kernel - p->left;
    const bool inside = row >= 0 && row < p->height && col >= 0 && col < p->width;
    sum = fmaf(p->w[k], inside ? p->x[row * p->x_step + col] : 0.0f, sum);
  }
  return eti_limit(sum, p->range.low, p->range.high, p->range.plus);
}

static bool right_plane(const eti_conv_micro *micro, ptrdiff_t kernel, ptrdiff_t stride,
                        ptrdiff_t width, ptrdiff_t padding) {
  const ptrdiff_t cols = (width + 2 * padding - kernel) / stride + 1, height = 5 + width % 7;
  const ptrdiff_t rows = (height + 2 * padding - kernel) / stride + 1;
  if (width + 2 * padding < kernel || rows < ETI_CONV_PLANE_ROWS) return true;
  const size_t size = (size_t)((rows - 1) * (cols + 2) + cols);
  float *const x = random_elements(ET_F32, (size_t)((height - 1) * (width + 1) + width)),
               *const w = random_elements(ET_F32, (size_t)(kernel * kernel)),
               *const out = random_elements(ET_F32, size),
               *const before = copy_of(out, size * sizeof(float));
  const eti_conv_plane p = {.out = out,
                            .x = x,
                            .out_step = cols + 2,
                            .x_step = width + 1,
                            .rows = (size_t)rows,
                            .cols = (size_t)cols,
                            .height = height,
                            .width = width,
                            .top = padding,
                            .left = padding,
                            .w = w,
                            .bias = 0.25f,
                            .range = some_range((size_t)(rows + cols))};
  micro->planes[kernel == 5][stride == 2](&p);
  bool right = true;
  for (size_t at = 0; at < size; at++) {
    const size_t y = at / (size_t)(cols + 2), i = at % (size_t)(cols + 2);
    const float expected =
        i < (size_t)cols ? plane_at(&p, kernel, stride, y, i) : before[at];  // gaps stay
    right = right && memcmp(&out[at], &expected, sizeof expected) == 0;
  }
  free(x), free(w), free(out), free(before);
  return right;
}

static void depthwise_planes_equal_their_definition(void) {
  for (int isa = 0; isa < ETI_ISA_COUNT; isa++) {
    const eti_conv_micro *const micro = eti_conv_micro_of_isa(isa);
    for (ptrdiff_t width = 1; micro != NULL && width <= 70; width++) {
      for (ptrdiff_t padding = 0; padding <= 3; padding++) {
        for (int which = 0; which < 4; which++)
          EXPECT(right_plane(micro, 3 + which / 2 * 2, 1 + which % 2, width, padding));
      }
    }
  }
}

static void rows_are_copied_with_any_step(void) {
  for (int isa = 1; isa < ETI_ISA_COUNT; isa++) {
    const eti_conv_micro *const fast = eti_conv_micro_of_isa(isa);
    for (size_t n = 1; fast != NULL && n <= 70; n++) {
      for (size_t step = 1; step <= 3; step++) {
        const size_t row = (n - 1) * step + 1, dst_step = n + 1, size = dst_step + n;
        float *const src = random_elements(ET_F32, 2 * row);
        float *const got = random_elements(ET_F32, size), *const expected =
                                                              copy_of(got, size * sizeof(float));
        fast->copy_rows(got, dst_step, src, (ptrdiff_t)row, step, 2, n);
        eti_conv_scalar.copy_rows(expected, dst_step, src, (ptrdiff_t)row, step, 2, n);
        const bool same = memcmp(got, expected, size * sizeof(float)) == 0;
        free(src), free(got), free(expected);
        EXPECT(same);
      }
    }
  }
}

// ---- norms and pools

static void normalisation_equals_the_scalar_one(void) {
  for (int type = 0; type < ETI_NORM_TYPES; type++) {
    const eti_norm_micro *const slow = &eti_norm_scalar[type];
    for (int isa = 1; isa < ETI_ISA_COUNT; isa++) {
      const eti_norm_micro *const fast = eti_norm_micro_of_isa(type, isa);
      for (size_t n = 1; fast != NULL && n <= 70; n++) {
        const size_t bytes = n * slow->esize;
        void *const x = random_elements(slow->dtype, n), *const w = random_elements(slow->dtype, n);
        void *const b = random_elements(slow->dtype, n), *const got = malloc(bytes),
                    *const expected = malloc(bytes);
        const double sums[2] = {fast->sum(x, n), slow->sum(x, n)};
        const double squares[2] = {fast->squares(x, 0.1, n), slow->squares(x, 0.1, n)};
        bool same = memcmp(&sums[0], &sums[1], 8) == 0 && memcmp(&squares[0], &squares[1], 8) == 0;
        for (int which = 0; which < 4; which++) {
          fast->normalize(got, x, 0.1, 1.3, which & 1 ? w : NULL, which & 2 ? b : NULL, n);
          slow->normalize(expected, x, 0.1, 1.3, which & 1 ? w : NULL, which & 2 ? b : NULL, n);
          same = same && memcmp(got, expected, bytes) == 0;
        }
        fast->affine(got, x, 0.1, 1.3, 0.7, n), slow->affine(expected, x, 0.1, 1.3, 0.7, n);
        same = same && memcmp(got, expected, bytes) == 0;
        fast->affine_each(got, x, w, b, w, n), slow->affine_each(expected, x, w, b, w, n);
        same = same && memcmp(got, expected, bytes) == 0;
        free(x), free(w), free(b), free(got), free(expected);
        EXPECT(same);
      }
    }
  }
}

static void pooling_taps_equal_the_scalar_ones(void) {
  for (int type = 0; type < ETI_POOL_TYPES; type++) {
    const eti_pool_micro *const slow = &eti_pool_scalar[type];
    for (int isa = 1; isa < ETI_ISA_COUNT; isa++) {
      const eti_pool_micro *const fast = eti_pool_micro_of_isa(type, isa);
      for (size_t n = 1; fast != NULL && n <= 50; n++) {
        const size_t step = 1 + n % 3, bytes = n * slow->esize;
        int32_t at[2][50] = {{0}};
        void *const x = random_elements(slow->dtype, (n - 1) * step + 1);
        void *const got = random_elements(slow->dtype, n), *const expected = copy_of(got, bytes);
        fast->max(got, at[0], x, step, 7, n), slow->max(expected, at[1], x, step, 7, n);
        bool same = memcmp(got, expected, bytes) == 0 && memcmp(at[0], at[1], sizeof at[0]) == 0;
        fast->add(got, x, step, n), slow->add(expected, x, step, n);
        same = same && memcmp(got, expected, bytes) == 0;
        free(x), free(got), free(expected);
        EXPECT(same);
      }
    }
  }
}

static void quantization_equals_the_scalar_one(void) {
  static const uint8_t dtypes[] = {ET_U8, ET_I8, ET_I16, ET_U16};
  for (size_t type = 0; type < sizeof dtypes; type++) {
    const eti_quant_micro *const slow = eti_quant_micro_of_isa(dtypes[type], ETI_ISA_SCALAR);
    for (int isa = 1; isa < ETI_ISA_COUNT; isa++) {
      const eti_quant_micro *const fast = eti_quant_micro_of_isa(dtypes[type], isa);
      for (size_t n = 1; fast != NULL && n <= 70; n++) {
        float x[70], each[70], y[2][70];
        int16_t q[2][70] = {{0}};
        for (size_t i = 0; i < n; i++) {
          x[i] = (float)((int)(i * 37 % 101) - 50) * 0.5f;  // every other one is a half
          each[i] = (float)i * 0.25f - 3.0f;
        }
        x[n / 2] = n % 3 == 0 ? NAN : n % 3 == 1 ? INFINITY : -0x1.9p40f;
        const eti_quant_row r = {
            .low = 0, .high = 100, .inverse = each, .scale = each, .zero = each};
        bool same = true;
        for (int which = 0; which < 3; which++) {
          for (int k = 0; k < 2; k++) {
            const eti_quant_micro *const m = k == 0 ? fast : slow;
            if (which == 0) m->quantize(q[k], x, &r, n), m->dequantize(y[k], q[k], &r, n);
            if (which == 1) m->quantize_each(q[k], x, &r, n), m->dequantize_each(y[k], q[k], &r, n);
            if (which == 2)
              m->quantize_token(q[k], x, 0.7, 3.0, &r, n),
                  m->dequantize_token(y[k], q[k], 0.1, 3.0, n);
          }
          same = same && memcmp(q[0], q[1], sizeof q[0]) == 0 &&
                 memcmp(y[0], y[1], n * sizeof(float)) == 0;
        }
        EXPECT(same);
      }
    }
  }
}

static const et_test tests[] = {
    ET_CASE(gemm_tiles_of_every_size_are_as_specified),
    ET_CASE(gemm_tiles_of_rows_are_as_specified),
    ET_CASE(an_activation_is_applied_once_to_every_element),
    ET_CASE(gemm_packs_rows_like_the_scalar_one),
    ET_CASE(limits_are_those_of_the_scalar_kernel),
    ET_CASE(depthwise_rows_equal_the_scalar_ones),
    ET_CASE(depthwise_pixels_side_by_side_equal_single_ones),
    ET_CASE(rows_over_several_panels_are_as_specified),
    ET_CASE(depthwise_planes_equal_their_definition),
    ET_CASE(rows_are_copied_with_any_step),
    ET_CASE(normalisation_equals_the_scalar_one),
    ET_CASE(pooling_taps_equal_the_scalar_ones),
    ET_CASE(quantization_equals_the_scalar_one),
};
ET_TEST_MAIN(tests)
