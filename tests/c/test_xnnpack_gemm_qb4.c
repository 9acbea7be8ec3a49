// test_xnnpack_gemm_qb4.c — tests the tuned kernel for 4-bit weights with a scale per group:
// bit-exact comparison with plain sums, for numbers of rows and columns, sizes of groups and long
// rows. If the machine cannot run it the tests pass.
#include "backends/xnnpack/tuned/gemm/gemm_kernels.h"
#include "et_test.h"

#if defined(__x86_64__) && defined(ET_XNNPACK_TUNED)
#include <math.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <xnnpack/microparams.h>
#include <xnnpack/pack.h>

enum { COLS = 16, MAX_ROWS = 14, MAX_COLS = 40, PITCH = MAX_COLS + 3, UNTOUCHED = 0x5a };
enum { LONGEST_K = 32 * 3073, MAX_PRODUCTS = 17 * LONGEST_K };

static bool can_run(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static int8_t a[2 * LONGEST_K + 64], weights[MAX_PRODUCTS];
static uint8_t halves[MAX_PRODUCTS / 2];    // the weights plus 8, two in a byte
static uint16_t scales[MAX_PRODUCTS / 32];  // bfloat16
static float bias[MAX_COLS], c[MAX_ROWS][PITCH];
static struct xnn_qd8_quantization_params row_scales[MAX_ROWS];
alignas(64) static uint8_t packed[2 * COLS * (LONGEST_K / 2 + LONGEST_K / 32 * 2 + 8)];

// The weights are at the end of their memory, so that a sanitizer finds reads past them.
static uint8_t *given(size_t n_cols, size_t n_k) {
  return halves + sizeof halves - n_cols * n_k / 2;
}

static uint32_t next(uint32_t *seed) {
  return (*seed = *seed * 1664525u + 1013904223u) >> 16;
}

// The first rows and columns are those whose sums come nearest to the limits of 16 bits.
static void fill(size_t n_rows, size_t n_cols, size_t n_k, size_t apart) {
  uint32_t seed = 1;
  for (size_t i = 0; i < n_rows; i++)
    for (size_t k = 0; k < apart; k++)
      a[i * apart + k] = (int8_t)(i == 0   ? -128
                                  : i == 1 ? 127
                                           : (int32_t)(next(&seed) & 255) - 128);
  for (size_t i = 0; i < n_cols * n_k; i++) {
    const size_t j = i / n_k;
    weights[i] = (int8_t)(j == 0 ? -8 : j == 9 ? 7 : (int32_t)(next(&seed) % 16) - 8);
    const int half = (weights[i] + 8) << i % 2 * 4;
    uint8_t *const byte = given(n_cols, n_k) + i / 2;
    *byte = (uint8_t)(i % 2 == 0 ? half : *byte | half);
  }
  for (size_t i = 0; i < n_cols * n_k / 32; i++) scales[i] = (uint16_t)(0x3c00 + next(&seed) % 512);
  for (size_t j = 0; j < n_cols; j++) bias[j] = (float)j - 20.0f;
  for (size_t i = 0; i < n_rows; i++) {
    row_scales[i].zero_point = (int32_t)i * 20 - 128;
    row_scales[i].inv_scale = 0.01f + 0.001f * (float)i;
  }
}

static float scale_of(size_t j, size_t g, size_t n_groups) {
  const uint32_t bits = (uint32_t)scales[j * n_groups + g] << 16;
  float scale;
  memcpy(&scale, &bits, sizeof scale);
  return scale;
}

// Packs as XNNPACK does: with the tuned function, followed by sixteenths of scales, and biases.
// Bytes past the last column are not written.
static void pack(size_t n_cols, size_t n_k, size_t group) {
  const struct xnn_qs8_qc4w_packing_params zeros = {1, 8};
  const size_t n_groups = n_k / group, group_bytes = COLS * (group / 2 + 2);
  const size_t stride = n_groups * group_bytes + COLS * 8;
  memset(packed, 0xdb, (n_cols + COLS - 1) / COLS * stride);
  eti_xnn_qb4_pack_goi__avx2(1, n_cols, n_k, COLS, 8, 1, group, given(n_cols, n_k), NULL, scales,
                             packed, COLS * 2, COLS * 4, &zeros);
  for (size_t j = 0; j < n_cols; j++) {
    uint8_t *const panel = packed + j / COLS * stride;
    for (size_t g = 0; g < n_groups; g++) {
      const uint16_t sixteenth = (uint16_t)(scales[j * n_groups + g] - (4 << 7));
      memcpy(panel + COLS * 4 + (g + 1) * group_bytes - COLS * 2 + j % COLS * 2, &sixteenth, 2);
    }
    memcpy(panel + stride - COLS * 4 + j % COLS * 4, &bias[j], sizeof bias[j]);
  }
}

// The initial sum of a column for a zero point of 1, rounded in the order of XNNPACK's packing.
static float init_of(size_t j, size_t n_k, size_t group) {
  float init = 0.0f;
  for (size_t k = 0; k < n_k; k += 8) {
    int32_t part = 0;
    for (size_t i = k; i < k + 8; i++) part += weights[j * n_k + i];
    init -= (float)part * scale_of(j, k / group, n_k / group);
  }
  return init;
}

static float right_of(size_t i, size_t j, size_t n_k, size_t group, size_t apart, float init) {
  float sum = init * (float)row_scales[i].zero_point;
  for (size_t g = 0; g < n_k / group; g++) {
    int32_t part = 0;
    for (size_t k = g * group; k < (g + 1) * group; k++)
      part += a[i * apart + k] * weights[j * n_k + k];
    sum = fmaf((float)part, scale_of(j, g, n_k / group), sum);
  }
  return fminf(fmaxf(fmaf(sum, row_scales[i].inv_scale, bias[j]), -5000.0f), 4000.0f);
}

static void check(size_t n_rows, size_t n_cols, size_t n_k, size_t group) {
  const struct xnn_f32_qb4w_minmax_params limits = {.scalar = {-5000.0f, 4000.0f, group}};
  const size_t apart = n_k + 5;
  fill(n_rows, n_cols, n_k, apart);
  pack(n_cols, n_k, group);
  memset(c, UNTOUCHED, sizeof c);
  eti_xnn_qb4_gemm_6x16__avx2(n_rows, n_cols, n_k, a, apart, packed, c, sizeof c[0],
                              COLS * sizeof(float), &limits, row_scales);
  float untouched;
  memset(&untouched, UNTOUCHED, sizeof untouched);
  for (size_t j = 0; j < PITCH; j++) {
    const float init = j < n_cols ? init_of(j, n_k, group) : 0.0f;
    for (size_t i = 0; i < MAX_ROWS; i++) {
      const bool is_inside = i < n_rows && j < n_cols;
      const float right = is_inside ? right_of(i, j, n_k, group, apart, init) : untouched;
      EXPECT(memcmp(&c[i][j], &right, sizeof right) == 0);
    }
  }
}

static void products_with_groups_of_4_bits_are_exact_for_all_sizes(void) {
  if (!can_run()) return;
  static const size_t groups[] = {32, 64, 96, 128};
  for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++)
    for (size_t n_cols = 1; n_cols <= MAX_COLS; n_cols += n_cols < 18 ? 1 : 7)
      for (size_t n_rows = 1; n_rows <= MAX_ROWS; n_rows += n_rows < 7 ? 1 : 3)
        check(n_rows, n_cols, 3 * groups[g], groups[g]);
}

// Rows with many parts have fewer rows per tile, and the longest no initial sums in memory.
static void long_rows_are_exact(void) {
  if (!can_run()) return;
  check(5, 17, (size_t)32 * 768, 32);
  check(7, 17, (size_t)32 * 772, 128);
  check(3, 16, (size_t)32 * 1026, 64);
  check(2, 17, (size_t)32 * 3072, 32);
  check(2, 17, LONGEST_K, 32);
  check(1, 3, LONGEST_K, LONGEST_K);
}

static const et_test tests[] = {
    ET_CASE(products_with_groups_of_4_bits_are_exact_for_all_sizes),
    ET_CASE(long_rows_are_exact),
};
#else
static void xnnpack_runs_its_own_kernels(void) {}

static const et_test tests[] = {ET_CASE(xnnpack_runs_its_own_kernels)};
#endif

ET_TEST_MAIN(tests)
