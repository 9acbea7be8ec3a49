// test_xnnpack_gemm_amx.c — tests the int8 kernels on tiles of AMX against XNNPACK's kernels for
// AVX-512 VNNI: the same bits for numbers of rows and columns, lengths, taps and limits; and the
// rule that cuts operators into tiles. If the machine cannot run them, only the rule is tested.
#include "backends/xnnpack/tuned/gemm/gemm_kernels.h"
#include "backends/xnnpack/tuned/gemm/gemm_tiling.h"
#include "et_test.h"

#if defined(__x86_64__) && defined(ET_XNNPACK_TUNED)
#include <stdalign.h>
#include <stdint.h>
#include <string.h>

#include "backends/xnnpack/tuned/xnn_private.h"
#include "kernels/micro/isa_select.h"

enum { ROWS = ETI_XNN_AMX_ROWS, COLS = ETI_XNN_GEMM_COLS, MAX_ROWS = 70, MAX_COLS = 300 };
enum { MAX_ROW = 4700, MAX_TAPS = 25, PITCH = MAX_COLS + 5, UNTOUCHED = 0x5a };
// Greatest rows of XNNPACK's kernels, whose weights are packed by 8 elements.
enum { QS8_ROWS = 7, QD8_ROWS = 10, KR = 8, SLACK = 64 };
enum { PACKED = (MAX_COLS / COLS + 1) * COLS * (MAX_ROW + MAX_TAPS * KR + 12) };

static int8_t a[MAX_ROWS * (MAX_ROW + 3) + SLACK], weights[MAX_COLS * MAX_ROW];
static int32_t biases[MAX_COLS];
static float scales[MAX_COLS], float_biases[MAX_COLS];
static struct xnn_qd8_quantization_params row_scales[MAX_ROWS];
alignas(64) static uint8_t packed[PACKED], original_packed[PACKED];
static int8_t bytes[2][MAX_ROWS][PITCH];
static float floats[2][MAX_ROWS][PITCH];

static const union xnn_f32_minmax_params FLOATS = {.scalar = {-70000.0f, 65000.0f}};

static bool can_run(void) {
  return eti_cpu_dot() == ETI_DOT_AMX;
}

static uint32_t seed = 1;
static int8_t random_byte(void) {
  return (int8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
}

static void fill(float most_scale) {
  for (size_t i = 0; i < sizeof a; i++) a[i] = random_byte();
  for (size_t i = 0; i < sizeof weights; i++) weights[i] = random_byte();
  for (size_t j = 0; j < MAX_COLS; j++) {
    biases[j] = (random_byte() * 256 + random_byte()) * 4;
    scales[j] = most_scale * (float)(j % 37 + 1) / 37.0f;
    float_biases[j] = (float)j - 20.0f;
  }
  for (size_t i = 0; i < MAX_ROWS; i++) {
    row_scales[i].zero_point = random_byte();
    row_scales[i].inv_scale = 0.5f + 0.125f * (float)i;
  }
}

typedef struct product {
  size_t n_rows, n_cols, n_taps, n_k;
} product;

// ---- Packed weights: for each panel 16 int32, the weights, 16 scales and, for floats, 16 biases

static void add_columns(uint8_t *to, const product *p, size_t padded, bool is_float) {
  const size_t extra = COLS * sizeof(float) * (is_float ? 2 : 1);
  const size_t panel = COLS * (sizeof(int32_t) + p->n_taps * padded) + extra;
  for (size_t j = 0; j < p->n_cols; j++) {
    uint8_t *const at = to + j / COLS * panel + panel - extra + j % COLS * sizeof(float);
    memcpy(at, &scales[j], sizeof(float));
    if (is_float) memcpy(at + COLS * sizeof(float), &float_biases[j], sizeof(float));
  }
}

static void pack(const product *p, bool is_float) {
  const struct xnn_qs8_packing_params params = {.input_zero_point = is_float ? 1 : -9};
  const size_t extra = COLS * sizeof(float) * (is_float ? 2 : 1);
  const int32_t *const bias = is_float ? NULL : biases;
  memset(packed, 0, sizeof packed);
  memset(original_packed, 0, sizeof original_packed);
  eti_xnn_q8_pack_goki__avx2(1, p->n_cols, p->n_taps, p->n_k, COLS, 4, 1, weights, bias, NULL,
                             packed, extra, &params);
  (is_float ? xnn_pack_qs8_conv_goki_w : xnn_pack_qs8_to_qu8_conv_goki_w)(
      1, p->n_cols, p->n_taps, p->n_k, COLS, KR, 1, weights, bias, NULL, original_packed, extra,
      &params);
  add_columns(packed, p, (p->n_k + 3) / 4 * 4, is_float);
  add_columns(original_packed, p, (p->n_k + KR - 1) / KR * KR, is_float);
}

// ---- Products

static void reset(void) {
  memset(bytes, UNTOUCHED, sizeof bytes);
  memset(floats, UNTOUCHED, sizeof floats);
}

static void check_matrix(const product *p, const union xnn_qs8_qc8w_conv_minmax_params *limits) {
  const size_t apart = p->n_k + 3, floats_apart = sizeof floats[0][0];
  pack(p, false);
  reset();
  eti_xnn_qs8_gemm_16x16__amx(p->n_rows, p->n_cols, p->n_k, a, apart, packed, bytes[0], PITCH, COLS,
                              limits);
  for (size_t i = 0, n; i < p->n_rows; i += n) {
    n = p->n_rows - i < QS8_ROWS ? p->n_rows - i : QS8_ROWS;
    xnn_qs8_qc8w_gemm_minmax_fp32_ukernel_7x16c8__avx512vnni_prfm(
        n, p->n_cols, p->n_k, a + i * apart, apart, original_packed, bytes[1][i], PITCH, COLS,
        limits);
  }
  EXPECT(memcmp(bytes[0], bytes[1], sizeof bytes[0]) == 0);
  pack(p, true);
  eti_xnn_qd8_gemm_16x16__amx(p->n_rows, p->n_cols, p->n_k, a, apart, packed, floats[0],
                              floats_apart, COLS * sizeof(float), &FLOATS, row_scales);
  for (size_t i = 0, n; i < p->n_rows; i += n) {
    n = p->n_rows - i < QD8_ROWS ? p->n_rows - i : QD8_ROWS;
    struct xnn_qd8_quantization_params of_rows[QD8_ROWS];  // XNNPACK repeats those of the last row
    for (size_t k = 0; k < QD8_ROWS; k++) of_rows[k] = row_scales[i + (k < n ? k : n - 1)];
    xnn_qd8_f32_qc8w_gemm_minmax_ukernel_10x16c8__avx512vnni_prfm(
        n, p->n_cols, p->n_k, a + i * apart, apart, original_packed, floats[1][i], floats_apart,
        COLS * sizeof(float), &FLOATS, of_rows);
  }
  EXPECT(memcmp(floats[0], floats[1], sizeof floats[0]) == 0);
}

static const union xnn_qs8_qc8w_conv_minmax_params LIMITS = {.fp32_scalar = {-7, -100, 111}};

static void check_sizes(size_t n_rows, size_t n_cols, size_t n_k) {
  check_matrix(&(product){n_rows, n_cols, 1, n_k}, &LIMITS);
}

static void products_have_the_bits_of_xnnpack_for_all_sizes(void) {
  if (!can_run()) return;
  fill(0.001f);
  static const size_t lengths[] = {1, 4, 63, 64, 65, 68, 130};
  for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
    for (size_t n_cols = 1; n_cols <= 40; n_cols += n_cols == 1 || n_cols == 33 ? 6 : 3)
      for (size_t n_rows = 1; n_rows <= 49; n_rows++) check_sizes(n_rows, n_cols, lengths[l]);
  }
  check_sizes(MAX_ROWS, MAX_COLS, 100);
}

static void products_have_the_bits_of_xnnpack_for_all_lengths(void) {
  if (!can_run()) return;
  fill(0.0003f);
  for (size_t n_k = 1; n_k <= 200; n_k++)
    for (size_t n_rows = 1; n_rows <= 49; n_rows += 16) check_sizes(n_rows, n_k * 7 % 40 + 1, n_k);
  static const size_t lengths[] = {1151, 1152, 1153, 2048, 2305, MAX_ROW};
  for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
    check_sizes(1, 5, lengths[l]);
    check_sizes(33, 70, lengths[l]);
  }
}

// XNNPACK's kernels add a negative zero point to the least int32, which wraps: with scales that
// lead there, zero points are not negative.
static void sums_and_limits_may_be_of_any_size(void) {
  if (!can_run()) return;
  static const float most[] = {1e-6f, 0.99f, 1.0f, 255.0f};
  static const int16_t limits[][3] = {
      {0, -128, 127}, {-128, -128, 127}, {127, -128, 127}, {127, 3, 3}, {-128, -128, -128}};
  for (size_t i = 0; i < sizeof most / sizeof most[0]; i++) {
    fill(most[i]);
    for (size_t j = 0; j < MAX_COLS; j += 5) biases[j] = j % 2 ? INT32_MAX : INT32_MIN;
    memset(a, 127, 2000);
    memset(weights, -128, 4000);
    for (size_t l = 0; l < sizeof limits / sizeof limits[0]; l++) {
      union xnn_qs8_qc8w_conv_minmax_params params;
      memcpy(&params.fp32_scalar, limits[l], sizeof limits[l]);
      if (most[i] >= 1.0f && limits[l][0] < 0) continue;
      check_matrix(&(product){18, 35, 1, 1000}, &params);
      check_matrix(&(product){3, 16, 1, 70}, &params);
    }
  }
}

// ---- Taps

// Places taps for kernels that read them in groups of `together` rows.
static void place_taps(const product *p, size_t together, const void *zero, const void **to) {
  for (size_t i = 0; i < (p->n_rows + together - 1) / together * together; i++) {
    const size_t row = i < p->n_rows ? i : p->n_rows - 1;
    for (size_t s = 0; s < p->n_taps; s++) {
      const bool is_zero = (s + row) % 3 == 0 || s + 1 == p->n_taps;
      const int8_t *const at = a + (s * 5 + row * 11) % 70 + row * p->n_k / 2;
      to[(i / together * p->n_taps + s) * together + i % together] = is_zero ? zero : at;
    }
  }
}

static void check_taps(size_t together, size_t n_rows, size_t n_cols, size_t n_taps, size_t n_k) {
  static int8_t zeros[MAX_ROW + SLACK];
  static const int8_t mark[1];
  static const void *taps[(MAX_ROWS + ROWS) * MAX_TAPS];
  memset(zeros, 3, sizeof zeros);
  const product p = {n_rows, n_cols, n_taps, n_k};
  const size_t offset = 2, floats_apart = sizeof floats[0][0];
  const size_t group = n_taps * sizeof taps[0], both[] = {QS8_ROWS, QD8_ROWS};
  pack(&p, false);
  reset();
  place_taps(&p, together, zeros, taps);
  (together == 1 ? eti_xnn_qs8_igemm_1x16__amx : eti_xnn_qs8_igemm_16x16__amx)(
      n_rows, n_cols, n_k, group * together, taps, packed, bytes[0], PITCH, COLS, offset, zeros,
      &LIMITS);
  place_taps(&p, both[0], zeros, taps);
  for (size_t i = 0, n; i < n_rows; i += n) {
    n = n_rows - i < both[0] ? n_rows - i : both[0];
    xnn_qs8_qc8w_igemm_minmax_fp32_ukernel_7x16c8__avx512vnni_prfm(
        n, n_cols, n_k, group * both[0], (const int8_t **)(void *)(taps + i * n_taps),
        original_packed, bytes[1][i], PITCH, COLS, offset, zeros, &LIMITS);
  }
  EXPECT(memcmp(bytes[0], bytes[1], sizeof bytes[0]) == 0);
  pack(&p, true);
  place_taps(&p, together, mark, taps);  // these kernels read `zeros` in its place
  (together == 1 ? eti_xnn_qd8_igemm_1x16__amx : eti_xnn_qd8_igemm_16x16__amx)(
      n_rows, n_cols, n_k, group * together, taps, packed, floats[0], floats_apart,
      COLS * sizeof(float), offset, mark, zeros, &FLOATS, row_scales);
  place_taps(&p, both[1], mark, taps);
  for (size_t i = 0, n; i < n_rows; i += n) {
    n = n_rows - i < both[1] ? n_rows - i : both[1];
    xnn_qd8_f32_qc8w_igemm_minmax_ukernel_10x16c8__avx512vnni_prfm(
        n, n_cols, n_k, group * both[1], (const int8_t **)(void *)(taps + i * n_taps),
        original_packed, floats[1][i], floats_apart, COLS * sizeof(float), offset, mark, zeros,
        &FLOATS, row_scales);
  }
  EXPECT(memcmp(floats[0], floats[1], sizeof floats[0]) == 0);
}

static void convolutions_have_the_bits_of_xnnpack(void) {
  if (!can_run()) return;
  fill(0.001f);
  for (size_t n_k = 1; n_k <= 70; n_k += n_k < 9 ? 1 : 5)
    for (size_t n_rows = 1; n_rows <= 49; n_rows += 8)
      check_taps(ROWS, n_rows, 1 + n_k * n_rows % 40, 1 + n_k % 9, n_k);
  check_taps(ROWS, 40, 33, MAX_TAPS, 3);
  check_taps(ROWS, MAX_ROWS, 64, 9, 64);
  check_taps(ROWS, 33, 20, 4, 128);
}

static void convolutions_of_long_taps_have_the_bits_of_xnnpack(void) {
  if (!can_run()) return;
  fill(0.0003f);
  check_taps(ROWS, 18, MAX_COLS, 9, 256);  // whole taps in a slice, more columns than have sums
  check_taps(ROWS, 49, 40, 9, 512);
  check_taps(ROWS, 5, 20, 5, 301);
  check_taps(ROWS, 33, 17, 3, 1153);  // a slice is less than a tap
  check_taps(ROWS, 17, 33, 2, 832);   // the last slice has 64 elements, then 2
  check_taps(ROWS, 17, 33, 2, 770);
  check_taps(ROWS, 9, 280, 2, 2321);
}

static void convolutions_of_one_row_have_an_indirection_buffer_of_their_own(void) {
  if (!can_run()) return;
  fill(0.001f);
  for (size_t n_taps = 1; n_taps <= 9; n_taps++)
    for (size_t n_k = 1; n_k <= 19; n_k += 3) check_taps(1, 1 + n_k % 2, 21 + n_k, n_taps, n_k);
  check_taps(1, 1, 40, 9, 512);
}

// ---- Tiles

static size_t n_tiles(size_t n_rows, size_t n_cols, eti_xnn_tile tile) {
  return ((n_rows + tile.rows - 1) / tile.rows) * ((n_cols + tile.cols - 1) / tile.cols);
}

static void tiles_are_of_whole_blocks_and_enough_for_all_threads(void) {
  static const size_t sizes[][2] = {{1, 1}, {7, 16}, {49, 960}, {12544, 16}, {197, 3072}, {6, 8}};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    for (size_t n_threads = 1; n_threads <= 16; n_threads++) {
      const size_t m = sizes[i][0], n = sizes[i][1];
      const eti_xnn_tile tile = eti_xnn_amx_tile(m, n, 640, n * 648, n_threads);
      EXPECT(tile.rows > 0 && tile.rows % (2 * ROWS) == 0);
      EXPECT(tile.cols > 0 && tile.cols % (2 * COLS) == 0);
      const size_t most = ((m + 2 * ROWS - 1) / (2 * ROWS)) * ((n + 2 * COLS - 1) / (2 * COLS));
      if (n_threads > 1)
        EXPECT(n_tiles(m, n, tile) >= (most < 2 * n_threads ? most : 2 * n_threads));
    }
  }
  EXPECT(n_tiles(12544, 96, eti_xnn_amx_tile(12544, 96, 32, (size_t)96 * 40, 1)) == 1);
  EXPECT(eti_xnn_amx_tile(197, 3072, 768, (size_t)3072 * 776, 1).cols < 3072);
  EXPECT(eti_xnn_amx_tile(49, 512, 4608, (size_t)512 * 4616, 2).rows >= 49);
}

static const et_test tests[] = {
    ET_CASE(products_have_the_bits_of_xnnpack_for_all_sizes),
    ET_CASE(products_have_the_bits_of_xnnpack_for_all_lengths),
    ET_CASE(sums_and_limits_may_be_of_any_size),
    ET_CASE(convolutions_have_the_bits_of_xnnpack),
    ET_CASE(convolutions_of_long_taps_have_the_bits_of_xnnpack),
    ET_CASE(convolutions_of_one_row_have_an_indirection_buffer_of_their_own),
    ET_CASE(tiles_are_of_whole_blocks_and_enough_for_all_threads),
};
#else
static void xnnpack_runs_its_own_kernels(void) {}

static const et_test tests[] = {ET_CASE(xnnpack_runs_its_own_kernels)};
#endif

ET_TEST_MAIN(tests)
