// test_xnnpack_kernels.c — tests the tuned f32 micro-kernels: comparison with sums in double
// precision, for numbers of rows and columns, lengths and taps; softmax and layer norm of all
// lengths; and the rule that cuts operators into tiles. If the machine cannot run them the tests
// pass.
#include "backends/xnnpack/tuned/gemm/gemm_kernels.h"
#include "backends/xnnpack/tuned/gemm/gemm_tiling.h"
#include "backends/xnnpack/tuned/rowwise/rowwise.h"
#include "et_test.h"

#if defined(__x86_64__) && defined(ET_XNNPACK_TUNED)
#include <math.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
  MAX_ROWS = 20,
  MAX_COLS = 70,
  MOST_PANELS = 5,  // of MAX_COLS columns
  MAX_K = 70,
  MAX_TAPS = 4,
  PITCH = 75
};

static bool can_run(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

// The kernels of an instruction set, the rows of their tiles and the columns of their panels.
typedef struct kernels {
  bool (*can_run)(void);
  size_t rows, cols;
  void (*gemm)(size_t, size_t, size_t, const void *, size_t, const void *, void *, size_t, size_t,
               const void *);
  void (*igemm)(size_t, size_t, size_t, size_t, const void **, const void *, void *, size_t, size_t,
                size_t, const void *, const void *);
} kernels;

static bool can_run_avx512(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static const kernels instruction_sets[] = {
    {can_run, ETI_XNN_GEMM_ROWS, ETI_XNN_GEMM_COLS, eti_xnn_f32_gemm_6x16__avx2,
     eti_xnn_f32_igemm_6x16__avx2},
    {can_run_avx512, ETI_XNN_AVX512_ROWS, ETI_XNN_AVX512_COLS, eti_xnn_f32_gemm_8x32__avx512,
     eti_xnn_f32_igemm_8x32__avx512},
};
enum { N_SETS = sizeof instruction_sets / sizeof instruction_sets[0] };

static const float LIMITS[2] = {-3.0f, 2.5f};
static const float UNTOUCHED = 77.0f;

static float a[MAX_ROWS * MAX_TAPS * MAX_K];
static float b[MAX_TAPS * MAX_K][MAX_COLS];
static float bias[MAX_COLS];
static float c[MAX_ROWS][PITCH];
alignas(64) static float packed[(MAX_TAPS * MAX_K + 1) * MOST_PANELS * ETI_XNN_GEMM_COLS +
                                (MAX_TAPS * MAX_K + 1) * ETI_XNN_AVX512_COLS];

static void fill(void) {
  uint32_t seed = 1;
  for (size_t i = 0; i < sizeof a / sizeof a[0]; i++)
    a[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 16) / 65536.0f - 0.5f;
  for (size_t k = 0; k < sizeof b / sizeof b[0]; k++)
    for (size_t j = 0; j < MAX_COLS; j++)
      b[k][j] = (float)((seed = seed * 1664525u + 1013904223u) >> 16) / 32768.0f - 1.0f;
  for (size_t j = 0; j < MAX_COLS; j++) bias[j] = (float)j / 16.0f - 1.0f;
}

// For every panel the biases of its columns, then the weights of each k.
static void pack(size_t panel_cols, size_t n_cols, size_t n_k) {
  float *at = packed;
  for (size_t first = 0; first < n_cols; first += panel_cols) {
    const size_t end = first + panel_cols;
    for (size_t j = first; j < end; j++) *at++ = j < n_cols ? bias[j] : 0.0f;
    for (size_t k = 0; k < n_k; k++)
      for (size_t j = first; j < end; j++) *at++ = j < n_cols ? b[k][j] : 0.0f;
  }
}

static void reset_result(void) {
  for (size_t i = 0; i < MAX_ROWS; i++)
    for (size_t j = 0; j < PITCH; j++) c[i][j] = UNTOUCHED;
}

// Whether x is a sum of n products up to the rounding of each addition, all of them at most 32.
static bool is_near(float x, double right, size_t n) {
  return fabs((double)x - right) <= (double)(n + 1) * 32.0 * 0x1p-24;
}

// Whether c holds the sums of rows[tap][i], and nothing else was written.
static bool is_right(size_t n_rows, size_t n_cols, size_t n_taps, size_t n_k,
                     const float *rows[MAX_TAPS][MAX_ROWS]) {
  for (size_t i = 0; i < MAX_ROWS; i++) {
    for (size_t j = 0; j < PITCH; j++) {
      if (i >= n_rows || j >= n_cols) {
        if (c[i][j] != UNTOUCHED) return false;
        continue;
      }
      double right = (double)bias[j];
      for (size_t s = 0; s < n_taps; s++)
        for (size_t k = 0; k < n_k; k++) right += (double)rows[s][i][k] * (double)b[s * n_k + k][j];
      right = fmin((double)LIMITS[1], fmax((double)LIMITS[0], right));
      if (!is_near(c[i][j], right, n_taps * n_k)) return false;
    }
  }
  return true;
}

static void multiply_all_sizes(const kernels *with, size_t n_k) {
  for (size_t n_cols = 1; n_cols <= MAX_COLS; n_cols++) {
    pack(with->cols, n_cols, n_k);
    for (size_t n_rows = 1; n_rows <= MAX_ROWS; n_rows++) {
      const float *rows[MAX_TAPS][MAX_ROWS];
      for (size_t i = 0; i < MAX_ROWS; i++) rows[0][i] = a + i * (MAX_K + 3);
      reset_result();
      with->gemm(n_rows, n_cols, n_k * sizeof(float), a, (MAX_K + 3) * sizeof(float), packed, c,
                 sizeof c[0], with->cols * sizeof(float), LIMITS);
      EXPECT(is_right(n_rows, n_cols, 1, n_k, rows));
    }
  }
}

static void products_are_the_sums_for_all_sizes(void) {
  fill();
  static const size_t lengths[] = {1, 2, 3, 8, 17, MAX_K};
  for (size_t set = 0; set < N_SETS; set++)
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++)
      if (instruction_sets[set].can_run()) multiply_all_sizes(&instruction_sets[set], lengths[l]);
}

// Each third tap is zero, and one tap of all rows if their number is even.
static void convolve_all_sizes(const kernels *with, size_t n_taps) {
  static const float zero[MAX_K];
  const size_t offset = 5, n_k = 9, block = with->rows;
  for (size_t n_cols = 1; n_cols <= MAX_COLS; n_cols++) {
    pack(with->cols, n_cols, n_taps * n_k);
    for (size_t n_rows = 1; n_rows <= MAX_ROWS; n_rows++) {
      const float *rows[MAX_TAPS][MAX_ROWS];
      const void *given[2 * MAX_ROWS * MAX_TAPS];
      for (size_t s = 0; s < n_taps; s++) {
        for (size_t i = 0; i < MAX_ROWS; i++) {
          const bool is_zero = (s + i) % 3 == 0 || (s == 2 && n_rows % 2 == 0);
          const float *const at = a + (s * MAX_ROWS + i) * (n_k + 2);
          given[(i / block * n_taps + s) * block + i % block] = is_zero ? zero : at;
          rows[s][i] = is_zero ? zero : at + offset;
        }
      }
      reset_result();
      with->igemm(n_rows, n_cols, n_k * sizeof(float), n_taps * block * sizeof given[0], given,
                  packed, c, sizeof c[0], with->cols * sizeof(float), offset * sizeof(float), zero,
                  LIMITS);
      EXPECT(is_right(n_rows, n_cols, n_taps, n_k, rows));
    }
  }
}

static void convolutions_add_all_taps_and_offset_all_but_zero(void) {
  fill();
  for (size_t set = 0; set < N_SETS; set++)
    for (size_t n_taps = 1; n_taps <= MAX_TAPS; n_taps++)
      if (instruction_sets[set].can_run()) convolve_all_sizes(&instruction_sets[set], n_taps);
}

// ---- Rows

enum { MAX_N = 70, N_ROWS = 3 };
static float rows_x[N_ROWS * MAX_N], rows_y[N_ROWS * MAX_N + 1];

// Rows of n elements of either sign, of which 1 and 2 are computed; the rest is not written.
static eti_xnn_rowwise some_rows(size_t n) {
  for (size_t i = 0; i < N_ROWS * n; i++) rows_x[i] = 40.0f * a[i] + (float)(i % 5);
  for (size_t i = 0; i < sizeof rows_y / sizeof rows_y[0]; i++) rows_y[i] = UNTOUCHED;
  return (eti_xnn_rowwise){.n = n, .x = rows_x, .y = rows_y};
}

static bool is_outside_untouched(size_t n) {
  for (size_t i = 0; i < n; i++)
    if (rows_y[i] != UNTOUCHED) return false;
  return rows_y[N_ROWS * n] == UNTOUCHED;
}

static void softmax_is_exact_to_a_few_roundings_for_all_lengths(void) {
  if (!can_run()) return;
  fill();
  for (size_t n = 1; n <= MAX_N; n++) {
    const eti_xnn_rowwise given_rows = some_rows(n);
    eti_xnn_f32_softmax__avx2(&given_rows, 1, 2);
    EXPECT(is_outside_untouched(n));
    for (size_t row = 1; row < N_ROWS; row++) {
      const float *const x = rows_x + row * n;
      double max = (double)x[0], sum = 0;
      for (size_t i = 0; i < n; i++) max = fmax(max, (double)x[i]);
      for (size_t i = 0; i < n; i++) sum += exp((double)x[i] - max);
      for (size_t i = 0; i < n; i++) {
        const double right = exp((double)x[i] - max) / sum;
        EXPECT(fabs((double)rows_y[row * n + i] - right) <= 6.0 * 0x1p-24 * right);
      }
    }
  }
}

static void softmax_knows_the_ends_of_numbers(void) {
  if (!can_run()) return;
  const float inf = INFINITY;
  const struct {
    float x[10], first, last;
  } cases[] = {
      {{0, -inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf}, 1, 0},
      {{-86, 0, -200, -200, -200, -200, -200, -200, -200, -88}, 4.4737793e-38f, 0},
      {{3e38f, -3e38f, 0, 0, 0, 0, 0, 0, 0, 0}, 1, 0},
      {{-inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf}, NAN, NAN},
      {{inf, 0, 0, 0, 0, 0, 0, 0, 0, 0}, NAN, NAN},
      {{0, 0, 0, 0, 0, 0, 0, 0, 0, NAN}, NAN, NAN},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    float y[10];
    const eti_xnn_rowwise given_rows = {.n = 10, .x = cases[i].x, .y = y};
    eti_xnn_f32_softmax__avx2(&given_rows, 0, 1);
    const float first = cases[i].first, last = cases[i].last;
    EXPECT(isnan(first) ? isnan(y[0]) : fabsf(y[0] - first) <= 1e-6f * first);
    EXPECT(isnan(last) ? isnan(y[9]) : y[9] == last);
  }
}

static void layer_norm_is_exact_to_a_few_roundings_for_all_lengths(void) {
  if (!can_run()) return;
  fill();
  for (size_t n = 1; n <= MAX_N; n++) {
    eti_xnn_rowwise given_rows = some_rows(n);
    given_rows.weight = n % 3 > 0 ? a : NULL;
    given_rows.bias = n % 3 > 1 ? a + MAX_N : NULL;
    given_rows.eps = 0x1p-10f;
    eti_xnn_f32_layer_norm__avx2(&given_rows, 1, 2);
    EXPECT(is_outside_untouched(n));
    for (size_t row = 1; row < N_ROWS; row++) {
      const float *const x = rows_x + row * n;
      double mean = 0, variance = 0;
      for (size_t i = 0; i < n; i++) mean += (double)x[i] / (double)n;
      for (size_t i = 0; i < n; i++) variance += pow((double)x[i] - mean, 2) / (double)n;
      for (size_t i = 0; i < n; i++) {
        const double right = ((double)x[i] - mean) / sqrt(variance + 0x1p-10) *
                                 (given_rows.weight == NULL ? 1.0 : (double)given_rows.weight[i]) +
                             (given_rows.bias == NULL ? 0.0 : (double)given_rows.bias[i]);
        EXPECT(fabs((double)rows_y[row * n + i] - right) <= (n == 1 ? 2e-3 : 4e-6));
      }
    }
  }
}

static void rows_may_be_written_where_they_are_read(void) {
  if (!can_run()) return;
  fill();
  eti_xnn_rowwise apart = some_rows(13), here = apart;
  here.y = rows_x;
  eti_xnn_f32_softmax__avx2(&apart, 0, N_ROWS);
  eti_xnn_f32_softmax__avx2(&here, 0, N_ROWS);
  EXPECT(memcmp(rows_x, rows_y, sizeof(float) * 13 * N_ROWS) == 0);
  apart = here = some_rows(13);
  here.y = rows_x;
  eti_xnn_f32_layer_norm__avx2(&apart, 0, N_ROWS);
  eti_xnn_f32_layer_norm__avx2(&here, 0, N_ROWS);
  EXPECT(memcmp(rows_x, rows_y, sizeof(float) * 13 * N_ROWS) == 0);
}

static void elements_of_any_size_are_moved_whole(void) {
  if (!can_run()) return;
  enum { W = 3, H = 4, MAX_BYTES = 2100, ROOM = W * H * MAX_BYTES };
  static uint8_t from[ROOM], to[ROOM + 1];
  for (size_t i = 0; i < ROOM; i++) from[i] = (uint8_t)(i * 7 + i / 251);
  static const size_t sizes[] = {1, 5, 31, 32, 33, 63, 64, 100, 128, 300, 2048, MAX_BYTES};
  for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
    const size_t n = sizes[k];
    memset(to, 0xee, sizeof to);
    eti_xnn_xx_transpose__avx2(from, to, W * n, H * n, n, n, n, W, H);
    for (size_t i = 0; i < W; i++)
      for (size_t j = 0; j < H; j++)
        EXPECT(memcmp(to + (i * H + j) * n, from + (j * W + i) * n, n) == 0);
    EXPECT(to[W * H * n] == 0xee);
  }
}

// ---- Tiles

static const eti_xnn_tile LEAST = {ETI_XNN_GEMM_ROWS, ETI_XNN_GEMM_COLS};

static size_t n_tiles(size_t n_rows, size_t n_cols, eti_xnn_tile tile) {
  return ((n_rows + tile.rows - 1) / tile.rows) * ((n_cols + tile.cols - 1) / tile.cols);
}

static void weights_beyond_the_cache_are_read_in_one_call(void) {
  const eti_xnn_tile tile = eti_xnn_f32_tile(LEAST, 197, 3072, 768 * 4, (size_t)3072 * 769 * 4, 1);
  EXPECT(n_tiles(197, 3072, tile) == 1);
}

static void rows_fit_the_cache_beside_their_weights(void) {
  const eti_xnn_tile tile = eti_xnn_f32_tile(LEAST, 12544, 96, 24 * 4, 96 * 25 * 4, 1);
  EXPECT(tile.cols >= 96 && tile.rows * 24 * 4 <= (512 << 10) && tile.rows > 1000);
}

static void share(eti_xnn_tile least, size_t n_threads) {
  static const size_t sizes[][2] = {{1, 1}, {7, 16}, {49, 960}, {12544, 16}, {197, 3072}, {6, 8}};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    const size_t m = sizes[i][0], n = sizes[i][1];
    const eti_xnn_tile tile = eti_xnn_f32_tile(least, m, n, 640, n * 644, n_threads);
    EXPECT(tile.rows > 0 && tile.rows % least.rows == 0);
    EXPECT(tile.cols > 0 && tile.cols % least.cols == 0);
    const size_t most = n_tiles(m, n, least);
    if (n_threads > 1) EXPECT(n_tiles(m, n, tile) >= (most < 2 * n_threads ? most : 2 * n_threads));
  }
}

static void threads_get_tiles_to_share_down_to_a_block(void) {
  for (size_t n_threads = 1; n_threads <= 16; n_threads++) {
    share(LEAST, n_threads);
    share((eti_xnn_tile){ETI_XNN_AVX512_ROWS, ETI_XNN_AVX512_COLS}, n_threads);
  }
}

// Packs two groups of n_cols columns into panels.
static void pack_panels(size_t cols, size_t n_cols, size_t n_k) {
  enum { GROUPS = 2, TAPS = 3, MOST_K = 20 };
  static float weights[GROUPS * MAX_COLS * TAPS * MOST_K];
  static float right[GROUPS * (MAX_COLS + ETI_XNN_AVX512_COLS) * (TAPS * MOST_K + 1)];
  static float found[sizeof right / sizeof right[0]];
  for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++) weights[i] = (float)i + 1;
  for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) right[i] = found[i] = UNTOUCHED;
  float *at = right;
  for (size_t g = 0; g < GROUPS; g++) {
    for (size_t first = 0; first < n_cols; first += cols) {
      for (size_t j = 0; j < cols && first + j < n_cols; j++)
        at[j] = weights[g * n_cols + first + j];
      at += cols;
      for (size_t k = 0; k < TAPS * n_k; k++, at += cols)
        for (size_t j = 0; j < cols && first + j < n_cols; j++)
          at[j] = weights[(g * n_cols + first + j) * TAPS * n_k + k];
    }
  }
  eti_xnn_f32_pack_goki__avx2(GROUPS, n_cols, TAPS, n_k, cols, 1, 1, weights, weights, NULL, found,
                              0, NULL);
  EXPECT(memcmp(found, right, sizeof right) == 0);
}

static void weights_are_packed_where_the_kernels_read_them(void) {
  if (!can_run()) return;
  for (size_t n_cols = 1; n_cols <= MAX_COLS; n_cols += 3) {
    for (size_t n_k = 1; n_k <= 20; n_k++) {
      pack_panels(ETI_XNN_GEMM_COLS, n_cols, n_k);
      pack_panels(ETI_XNN_AVX512_COLS, n_cols, n_k);
    }
  }
}

static const et_test tests[] = {
    ET_CASE(weights_are_packed_where_the_kernels_read_them),
    ET_CASE(weights_beyond_the_cache_are_read_in_one_call),
    ET_CASE(rows_fit_the_cache_beside_their_weights),
    ET_CASE(threads_get_tiles_to_share_down_to_a_block),
    ET_CASE(products_are_the_sums_for_all_sizes),
    ET_CASE(convolutions_add_all_taps_and_offset_all_but_zero),
    ET_CASE(softmax_is_exact_to_a_few_roundings_for_all_lengths),
    ET_CASE(softmax_knows_the_ends_of_numbers),
    ET_CASE(layer_norm_is_exact_to_a_few_roundings_for_all_lengths),
    ET_CASE(rows_may_be_written_where_they_are_read),
    ET_CASE(elements_of_any_size_are_moved_whole),
};
#else
static void xnnpack_runs_its_own_kernels(void) {}

static const et_test tests[] = {ET_CASE(xnnpack_runs_its_own_kernels)};
#endif

ET_TEST_MAIN(tests)
