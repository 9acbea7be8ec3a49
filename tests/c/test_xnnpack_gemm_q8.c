// test_xnnpack_gemm_q8.c — tests the tuned int8 micro-kernels: bit-exact comparison with plain
// sums, for numbers of rows and columns, lengths, taps and slices; schedules; and the rule that
// cuts operators into tiles. If the machine cannot run them the tests pass.
#include "backends/xnnpack/tuned/gemm/gemm_kernels.h"
#include "backends/xnnpack/tuned/gemm/gemm_q8_schedule.h"
#include "backends/xnnpack/tuned/gemm/gemm_tiling.h"
#include "et_test.h"

#if defined(__x86_64__) && defined(ET_XNNPACK_TUNED)
#include <math.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <xnnpack/microparams.h>
#include <xnnpack/pack.h>

enum { BLOCK = ETI_XNN_GEMM_ROWS, COLS = 16, MAX_ROWS = 26, MAX_COLS = 300, MAX_TAPS = 4 };
enum { MAX_K = 4200, PITCH = MAX_COLS + 5, UNTOUCHED = 0x5a };
enum { PACKED = (MAX_COLS / COLS + 1) * COLS * (MAX_K + 1 + 3 * (int)sizeof(float)) };

static bool can_run(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static int8_t a[MAX_ROWS * MAX_K + 64], weights[MAX_COLS][MAX_K];
static int32_t init[MAX_COLS];
static float factors[MAX_COLS], bias[MAX_COLS];
static struct xnn_qd8_quantization_params row_scales[MAX_ROWS];
static int8_t bytes[MAX_ROWS][PITCH];
static float floats[MAX_ROWS][PITCH];
alignas(64) static uint8_t packed[PACKED];
alignas(64) static uint8_t schedule_memory[PACKED / 2];

static const union xnn_qs8_qc8w_conv_minmax_params BYTES = {.fp32_scalar = {-7, -100, 111}};
static const union xnn_f32_minmax_params FLOATS = {.scalar = {-700.0f, 650.0f}};

static void fill(void) {
  uint32_t seed = 1;
  for (size_t i = 0; i < sizeof a; i++)
    a[i] = (int8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
  for (size_t j = 0; j < MAX_COLS; j++) {
    for (size_t k = 0; k < MAX_K; k++)
      weights[j][k] = (int8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
    init[j] = (int32_t)(seed >> 20) - 2048;
    factors[j] = 0.0001f + 0.00001f * (float)(j % 37);
    bias[j] = (float)j - 20.0f;
  }
  for (size_t i = 0; i < MAX_ROWS; i++) {
    row_scales[i].zero_point = (int32_t)i - 5;
    row_scales[i].inv_scale = 0.5f + 0.125f * (float)i;
  }
}

// Packs as XNNPACK does with nr = 16, kr = 4: n_k elements of each tap, padded to k4 blocks.
static void pack(size_t n_cols, size_t n_taps, size_t n_k, bool is_float) {
  memset(packed, 0, sizeof packed);
  uint8_t *at = packed;
  for (size_t first = 0; first < n_cols; first += COLS) {
    const size_t n = n_cols - first < COLS ? n_cols - first : COLS;
    memcpy(at, init + first, n * sizeof *init);
    at += COLS * sizeof *init;
    for (size_t s = 0; s < n_taps; s++)
      for (size_t k = 0; k < n_k; k += 4, at += 4 * COLS)
        for (size_t j = 0; j < n; j++)
          for (size_t p = 0; p < 4 && k + p < n_k; p++)
            at[4 * j + p] = (uint8_t)weights[first + j][s * n_k + k + p];
    memcpy(at, factors + first, n * sizeof *factors);
    at += COLS * sizeof *factors;
    if (!is_float) continue;
    memcpy(at, bias + first, n * sizeof *bias);
    at += COLS * sizeof *bias;
  }
}

static int32_t clamped(int32_t x, int32_t least, int32_t most) {
  return x < least ? least : x > most ? most : x;
}

static int32_t sum_of(const int8_t *const *rows, size_t n_taps, size_t n_k, size_t j) {
  int32_t sum = 0;
  for (size_t s = 0; s < n_taps; s++)
    for (size_t k = 0; k < n_k; k++) sum += rows[s][k] * weights[j][s * n_k + k];
  return sum;
}

static int8_t byte_of(int32_t sum, size_t j) {
  const float most = (float)(BYTES.fp32_scalar.output_max - BYTES.fp32_scalar.output_zero_point);
  const float product = (float)(sum + init[j]) * factors[j];
  const long rounded = lrintf(product < most ? product : most);
  const int32_t in_16_bits = clamped((int32_t)rounded, INT16_MIN, INT16_MAX);
  return (int8_t)clamped(in_16_bits + BYTES.fp32_scalar.output_zero_point,
                         BYTES.fp32_scalar.output_min, BYTES.fp32_scalar.output_max);
}

static float float_of(int32_t sum, size_t j, const struct xnn_qd8_quantization_params *row) {
  const float product = (float)(sum + init[j] * row->zero_point) * row->inv_scale;
  const float v = fmaf(product, factors[j], bias[j]);
  return fminf(fmaxf(v, FLOATS.scalar.min), FLOATS.scalar.max);
}

// The parameters of the kernels: limits and, if `is_scheduled`, a schedule of the packed weights.
static eti_xnn_q8_params params_of(const void *limits, size_t limits_bytes, bool is_scheduled,
                                   size_t n_cols, size_t n_k, size_t n_taps, bool is_float) {
  eti_xnn_q8_params params = {.schedule = NULL};
  memcpy(params.limits, limits, limits_bytes);
  if (!is_scheduled) return params;
  const size_t n_panels = (n_cols + COLS - 1) / COLS;
  const size_t column = (n_k + 3) / 4 * 4 * n_taps + 4 + (is_float ? 8 : 4);
  eti_xnn_q8_schedule *const schedule = (eti_xnn_q8_schedule *)(void *)schedule_memory;
  if (eti_xnn_q8_schedule_make__avx2(schedule, packed, column * COLS, n_panels, n_k, n_taps))
    params.schedule = schedule;
  return params;
}

typedef struct given {
  size_t n_rows, n_cols, n_taps, n_k;
  const int8_t *rows[MAX_ROWS][MAX_TAPS];
} given;

static eti_xnn_q8_params bytes_params(const given *g, bool is_scheduled) {
  return params_of(&BYTES, sizeof BYTES, is_scheduled, g->n_cols, g->n_k, g->n_taps, false);
}

static eti_xnn_q8_params floats_params(const given *g, bool is_scheduled) {
  return params_of(&FLOATS, sizeof FLOATS, is_scheduled, g->n_cols, g->n_k, g->n_taps, true);
}

static void reset_results(void) {
  memset(bytes, UNTOUCHED, sizeof bytes);
  memset(floats, UNTOUCHED, sizeof floats);
}

static bool bytes_are_right(const given *g) {
  for (size_t i = 0; i < MAX_ROWS; i++) {
    for (size_t j = 0; j < PITCH; j++) {
      const bool is_inside = i < g->n_rows && j < g->n_cols;
      const int8_t right =
          is_inside ? byte_of(sum_of(g->rows[i], g->n_taps, g->n_k, j), j) : UNTOUCHED;
      if (bytes[i][j] != right) return false;
    }
  }
  return true;
}

// step: 1 if each row has a scale, 0 if all have the first.
static bool floats_are_right(const given *g, size_t step) {
  float untouched;
  memset(&untouched, UNTOUCHED, sizeof untouched);
  for (size_t i = 0; i < MAX_ROWS; i++) {
    for (size_t j = 0; j < PITCH; j++) {
      const bool is_inside = i < g->n_rows && j < g->n_cols;
      const float right =
          is_inside ? float_of(sum_of(g->rows[i], g->n_taps, g->n_k, j), j, &row_scales[i * step])
                    : untouched;
      if (memcmp(&floats[i][j], &right, sizeof right) != 0) return false;
    }
  }
  return true;
}

static void check_products(size_t n_rows, size_t n_cols, size_t n_k) {
  given g = {.n_rows = n_rows, .n_cols = n_cols, .n_taps = 1, .n_k = n_k};
  const size_t apart = n_k + 3;
  for (size_t i = 0; i < n_rows; i++) g.rows[i][0] = a + i * apart;
  for (int is_scheduled = 0; is_scheduled < 2; is_scheduled++) {
    reset_results();
    pack(n_cols, 1, n_k, false);
    eti_xnn_q8_params params = bytes_params(&g, is_scheduled != 0);
    eti_xnn_qs8_gemm_6x16__avx2(n_rows, n_cols, n_k, a, apart, packed, bytes, sizeof bytes[0], COLS,
                                &params);
    EXPECT(bytes_are_right(&g));
    pack(n_cols, 1, n_k, true);
    params = floats_params(&g, is_scheduled != 0);
    eti_xnn_qd8_gemm_6x16__avx2(n_rows, n_cols, n_k, a, apart, packed, floats, sizeof floats[0],
                                COLS * sizeof(float), &params, row_scales);
    EXPECT(floats_are_right(&g, 1));
  }
}

static void products_of_bytes_are_exact_for_all_sizes(void) {
  if (!can_run()) return;
  fill();
  static const size_t lengths[] = {1, 2, 3, 8, 15, 16, 31, 64, 70};
  for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++)
    for (size_t n_cols = 1; n_cols <= 35; n_cols++)
      for (size_t n_rows = 1; n_rows <= MAX_ROWS; n_rows += n_rows < 7 ? 1 : 3)
        check_products(n_rows, n_cols, lengths[l]);
}

static void products_of_long_rows_are_exact(void) {
  if (!can_run()) return;
  fill();
  static const size_t lengths[] = {2047, 2048, 2049, 4096, 4097};
  for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
    check_products(1, 5, lengths[l]);
    check_products(7, 40, lengths[l]);
    check_products(3, MAX_COLS, lengths[l]);
  }
}

// Fills with the greatest elements and the greatest weights for which two products fit in 16 bits;
// and with a greater weight in a column of the panels whose bit of `wide` is set.
static void fill_to_the_ends(unsigned wide) {
  fill();
  for (size_t i = 0; i < sizeof a; i++) a[i] = a[i] < 0 ? INT8_MIN : INT8_MAX;
  for (size_t j = 0; j < MAX_COLS; j++)
    for (size_t k = 0; k < MAX_K; k++) weights[j][k] = weights[j][k] % 3 == 0 ? 64 : -64;
  for (size_t i = 0; i < MAX_COLS / COLS; i++)
    if (wide >> i & 1)
      weights[i * COLS + 7 * i % COLS][0] = weights[i * COLS][1] = i % 2 ? 65 : -65;
}

// Fills with the same elements. Most k4 blocks can be paired or nearly can, some are narrow, and in
// some columns every twentieth block is wide.
static void fill_with_all_kinds(void) {
  fill_to_the_ends(0);
  uint32_t seed = 7;
  for (size_t j = 0; j < MAX_COLS; j++) {
    for (size_t k = 0; k < MAX_K; k++) {
      seed = seed * 1664525u + 1013904223u;
      const size_t kind = k / 4 % 20;
      const int32_t most = kind < 13 ? 33 : kind < 19 ? 64 : j % 16 == 5 ? 128 : 30;
      weights[j][k] = (int8_t)((int32_t)(seed >> 16) % (most + 1) * (seed >> 31 ? 1 : -1));
      if (weights[j][k] == INT8_MIN && kind < 19) weights[j][k] = 0;
    }
  }
}

static void narrow_weights_are_exact_with_the_greatest_elements(void) {
  if (!can_run()) return;
  static const unsigned which[] = {0, 1, 2, 5, 15};
  static const size_t lengths[] = {2, 7, 64, 2100};
  for (size_t i = 0; i <= sizeof which / sizeof which[0]; i++) {
    if (i == 0)
      fill_with_all_kinds();
    else
      fill_to_the_ends(which[i - 1]);
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
      check_products(24, 3, lengths[l]);
      check_products(25, 61, lengths[l]);
      check_products(MAX_ROWS, 24, lengths[l]);
    }
  }
}

// Checks the kernels for one row where `block` is 1.
static void check_taps_of(size_t block, size_t n_rows, size_t n_cols, size_t n_taps, size_t n_k) {
  static const int8_t zero[1];
  static int8_t zeros[MAX_K];
  memset(zeros, 3, sizeof zeros);
  const size_t offset = 2;
  const void *pointers[(MAX_ROWS + BLOCK) * MAX_TAPS];
  given g = {.n_rows = n_rows, .n_cols = n_cols, .n_taps = n_taps, .n_k = n_k};
  for (int is_float = 0; is_float < 2; is_float++) {
    // qs8 kernels read `zero` itself, qd8 kernels read zero_data in its place.
    const void *const mark = is_float ? (const void *)zero : zeros;
    for (size_t s = 0; s < n_taps; s++) {
      for (size_t i = 0; i < MAX_ROWS; i++) {
        const bool is_zero = (s + i) % 3 == 0;
        const int8_t *const at = a + (s * 5 + i * 11) % 7 + i * n_k / 2;
        pointers[(i / block * n_taps + s) * block + i % block] = is_zero ? mark : at;
        g.rows[i][s] = is_zero ? zeros : at + offset;
      }
    }
    reset_results();
    pack(n_cols, n_taps, n_k, is_float != 0);
    const size_t taps_bytes = n_taps * block * sizeof pointers[0];
    const eti_xnn_q8_params params = is_float ? floats_params(&g, true) : bytes_params(&g, true);
    if (is_float) {
      (block == 1 ? eti_xnn_qd8_igemm_1x16__avx2 : eti_xnn_qd8_igemm_6x16__avx2)(
          n_rows, n_cols, n_k, taps_bytes, pointers, packed, floats, sizeof floats[0],
          COLS * sizeof(float), offset, mark, zeros, &params, row_scales);
      EXPECT(floats_are_right(&g, 0));
    } else {
      (block == 1 ? eti_xnn_qs8_igemm_1x16__avx2 : eti_xnn_qs8_igemm_6x16__avx2)(
          n_rows, n_cols, n_k, taps_bytes, pointers, packed, bytes, sizeof bytes[0], COLS, offset,
          mark, &params);
      EXPECT(bytes_are_right(&g));
    }
  }
}

static void check_taps(size_t n_rows, size_t n_cols, size_t n_taps, size_t n_k) {
  check_taps_of(BLOCK, n_rows, n_cols, n_taps, n_k);
}

static void convolutions_of_one_row_have_an_indirection_buffer_of_their_own(void) {
  if (!can_run()) return;
  fill();
  for (size_t n_taps = 1; n_taps <= MAX_TAPS; n_taps++)
    for (size_t n_k = 1; n_k <= 19; n_k += 3) check_taps_of(1, 1, 21 + n_k, n_taps, n_k);
}

static void convolutions_of_bytes_are_exact_for_all_taps(void) {
  if (!can_run()) return;
  fill();
  for (size_t n_taps = 1; n_taps <= MAX_TAPS; n_taps++)
    for (size_t n_k = 1; n_k <= 19; n_k += 3)
      for (size_t n_rows = 1; n_rows <= MAX_ROWS; n_rows += 4)
        check_taps(n_rows, 21 + n_k, n_taps, n_k);
}

static void convolutions_of_long_taps_are_exact(void) {
  if (!can_run()) return;
  fill();
  check_taps(7, 20, 4, 700);  // two taps per slice
  fill_to_the_ends(1);
  check_taps(MAX_ROWS, 40, 4, 700);
  fill_with_all_kinds();
  check_taps(MAX_ROWS, 40, 4, 700);
  check_taps(8, 40, 4, 130);
  fill();
  check_taps(2, 280, 3, 901);  // more columns than have their sums kept at once
  check_taps(3, 9, 2, 2049);   // a slice is less than a tap
}

// ---- Schedules

// The tiles of an operator may begin at any panel.
static void calls_may_begin_at_any_panel(void) {
  if (!can_run()) return;
  enum { N_ROWS = 7, N_COLS = 55, N_K = 60 };
  given g = {.n_rows = N_ROWS, .n_cols = N_COLS, .n_taps = 1, .n_k = N_K};
  for (size_t i = 0; i < N_ROWS; i++) g.rows[i][0] = a + i * N_K;
  fill_with_all_kinds();
  for (size_t j = 0; j < N_COLS; j++) weights[j][0] = (int8_t)(j / COLS * 30);  // unlike each other
  pack(N_COLS, 1, N_K, false);
  const eti_xnn_q8_params params = bytes_params(&g, true);
  const size_t panel = COLS * (N_K + 8);
  reset_results();
  for (size_t first = 0; first < N_COLS; first += 2 * COLS) {
    const size_t n = N_COLS - first < 2 * COLS ? N_COLS - first : 2 * COLS;
    eti_xnn_qs8_gemm_6x16__avx2(N_ROWS, n, N_K, a, N_K, packed + first / COLS * panel,
                                &bytes[0][first], sizeof bytes[0], COLS, &params);
  }
  EXPECT(bytes_are_right(&g));
}

// Adds the positive and the negative weights of a pair of elements of n k4 blocks in a column.
static void add_pair(const uint16_t *at, size_t n, size_t column, size_t pair, int *positive,
                     int *negative) {
  *positive = *negative = 0;
  for (size_t q = 0; q < n; q++) {
    for (size_t k = 0; k < 2; k++) {
      const int w = weights[column][at[q] + 2 * pair + k];
      *(w > 0 ? positive : negative) += w;
    }
  }
}

static bool is_exact(const uint16_t *at, size_t n, size_t first_column) {
  for (size_t j = first_column; j < first_column + COLS; j++) {
    for (size_t pair = 0; pair < 2; pair++) {
      int positive, negative;
      add_pair(at, n, j, pair, &positive, &negative);
      if (positive * 255 > INT16_MAX || negative * 255 < INT16_MIN) return false;
    }
  }
  return true;
}

// Checks that each k4 block is listed once, as a kind that does not saturate.
static bool blocks_are_listed(const eti_xnn_q8_schedule *schedule, size_t panel, size_t n_blocks) {
  const uint8_t *const record = schedule->records + panel * schedule->record_bytes;
  const uint16_t *const list = (const uint16_t *)(const void *)(record + COLS * sizeof(int32_t));
  const size_t n_pairs = list[0], n_ones = list[1], n_wide = list[2];
  const uint16_t *const pairs = list + ETI_XNN_Q8_LIST_HEAD, *const ones = pairs + 2 * n_pairs;
  size_t n_seen[MAX_K / 4] = {0};
  if (2 * n_pairs + n_ones + n_wide != n_blocks) return false;
  for (size_t i = 0; i < n_blocks; i++)
    if (pairs[i] % 4 != 0 || pairs[i] / 4 >= n_blocks || ++n_seen[pairs[i] / 4] > 1) return false;
  for (size_t i = 0; i < n_pairs; i++)
    if (!is_exact(pairs + 2 * i, 2, panel * COLS)) return false;
  for (size_t i = 0; i < n_ones; i++)
    if (!is_exact(ones + i, 1, panel * COLS)) return false;
  return true;
}

static void blocks_are_multiplied_by_instructions_that_do_not_saturate(void) {
  if (!can_run()) return;
  enum { N_COLS = 48, N_BLOCKS = 130 };
  const given g = {.n_rows = 1, .n_cols = N_COLS, .n_taps = 1, .n_k = 4 * N_BLOCKS};
  const eti_xnn_q8_schedule *schedule;
  fill_with_all_kinds();
  pack(N_COLS, 1, g.n_k, false);
  schedule = bytes_params(&g, true).schedule;
  EXPECT(schedule != NULL && schedule->has_wide && schedule->is_scattered);
  for (size_t i = 0; i < N_COLS / COLS; i++) EXPECT(blocks_are_listed(schedule, i, N_BLOCKS));
  for (size_t j = 0; j < N_COLS; j++) memset(weights[j], (int)j % 33, sizeof weights[j]);
  pack(N_COLS, 1, g.n_k, false);
  schedule = bytes_params(&g, true).schedule;
  EXPECT(schedule != NULL && !schedule->has_wide && !schedule->is_scattered);
  for (size_t i = 0; i < N_COLS / COLS; i++) EXPECT(blocks_are_listed(schedule, i, N_BLOCKS));
  fill();
  pack(N_COLS, 1, g.n_k, false);
  EXPECT(bytes_params(&g, true).schedule == NULL);  // of 8 bits
}

// ---- Packing

static void weights_of_bytes_are_packed_where_the_kernels_read_them(void) {
  if (!can_run()) return;
  enum { GROUPS = 2, COLUMNS = 35, TAPS = 3, EXTRA = COLS * 4, MOST = 40 };
  static int8_t filters[GROUPS * COLUMNS * TAPS * MOST];
  static uint8_t right[GROUPS * 3 * COLS * (TAPS * MOST + 12)], found[sizeof right];
  fill();
  memcpy(filters, weights, sizeof filters);
  const struct xnn_qs8_packing_params params = {.input_zero_point = -77};
  for (size_t n_cols = 1; n_cols <= COLUMNS; n_cols += 3) {
    for (size_t n_k = 1; n_k <= MOST; n_k += n_k < 18 ? 1 : 5) {
      memset(right, UNTOUCHED, sizeof right);
      memset(found, UNTOUCHED, sizeof found);
      uint8_t *at = right;
      for (size_t g = 0; g < GROUPS; g++) {
        for (size_t j = 0; j < n_cols; j++) {
          const int8_t *const column = filters + (g * n_cols + j) * TAPS * n_k;
          int32_t sum = init[g * n_cols + j];
          for (size_t k = 0; k < TAPS * n_k; k++) sum += 77 * column[k];
          const size_t padded = (n_k + 3) / 4 * 4, panel = COLS * (4 + TAPS * padded) + EXTRA;
          uint8_t *const to = at + j / COLS * panel;
          memcpy(to + j % COLS * 4, &sum, 4);
          for (size_t s = 0; s < TAPS; s++)
            for (size_t k = 0; k < padded; k++)
              to[COLS * (4 + s * padded + k / 4 * 4) + j % COLS * 4 + k % 4] =
                  k < n_k ? (uint8_t)column[s * n_k + k] : 0;
          if (j + 1 == n_cols) at += (j / COLS + 1) * panel;
        }
      }
      eti_xnn_q8_pack_goki__avx2(GROUPS, n_cols, TAPS, n_k, COLS, 4, 1, filters, init, NULL, found,
                                 EXTRA, &params);
      EXPECT(memcmp(found, right, sizeof right) == 0);
    }
  }
}

// ---- Tiles

static size_t n_tiles(size_t n_rows, size_t n_cols, eti_xnn_tile tile) {
  return ((n_rows + tile.rows - 1) / tile.rows) * ((n_cols + tile.cols - 1) / tile.cols);
}

static void columns_are_cut_to_weights_that_fit_the_cache(void) {
  const eti_xnn_tile near = eti_xnn_q8_tile(12544, 96, (size_t)96 * 32, 1);
  EXPECT(n_tiles(12544, 96, near) == 1);
  const eti_xnn_tile far = eti_xnn_q8_tile(197, 3072, (size_t)3072 * 776, 1);
  EXPECT(far.rows >= 197 && far.cols * 776 <= (512 << 10) && far.cols >= 256);
}

static void threads_share_rows_before_columns(void) {
  static const size_t sizes[][2] = {{1, 1}, {7, 16}, {49, 960}, {12544, 16}, {197, 3072}, {6, 8}};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    for (size_t n_threads = 1; n_threads <= 16; n_threads++) {
      const size_t m = sizes[i][0], n = sizes[i][1];
      const eti_xnn_tile tile = eti_xnn_q8_tile(m, n, n * 648, n_threads);
      EXPECT(tile.rows > 0 && tile.rows % BLOCK == 0 && tile.cols > 0 && tile.cols % COLS == 0);
      const size_t most = ((m + BLOCK - 1) / BLOCK) * ((n + COLS - 1) / COLS);
      if (n_threads > 1)
        EXPECT(n_tiles(m, n, tile) >= (most < 2 * n_threads ? most : 2 * n_threads));
    }
  }
  EXPECT(eti_xnn_q8_tile(12544, 96, (size_t)96 * 32, 2).cols >= 96);
}

static const et_test tests[] = {
    ET_CASE(products_of_bytes_are_exact_for_all_sizes),
    ET_CASE(products_of_long_rows_are_exact),
    ET_CASE(narrow_weights_are_exact_with_the_greatest_elements),
    ET_CASE(convolutions_of_bytes_are_exact_for_all_taps),
    ET_CASE(convolutions_of_one_row_have_an_indirection_buffer_of_their_own),
    ET_CASE(convolutions_of_long_taps_are_exact),
    ET_CASE(calls_may_begin_at_any_panel),
    ET_CASE(blocks_are_multiplied_by_instructions_that_do_not_saturate),
    ET_CASE(weights_of_bytes_are_packed_where_the_kernels_read_them),
    ET_CASE(columns_are_cut_to_weights_that_fit_the_cache),
    ET_CASE(threads_share_rows_before_columns),
};
#else
static void xnnpack_runs_its_own_kernels(void) {}

static const et_test tests[] = {ET_CASE(xnnpack_runs_its_own_kernels)};
#endif

ET_TEST_MAIN(tests)
