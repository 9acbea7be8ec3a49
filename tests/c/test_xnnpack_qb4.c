// Products with weights of 4 bits in groups inside XNNPACK's operators: against the sums as they
// are written, to the last bit, for numbers of rows, ends of columns, sizes of groups and long
// rows. Tests of what this machine cannot run pass.
#include "backends/xnnpack/kernels.h"
#include "et_test.h"

#if defined(__x86_64__) && defined(ET_XNNPACK_OWN_KERNELS)
#include <math.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <xnnpack/microparams.h>

enum { COLS = 16, MOST_ROWS = 14, MOST_COLS = 40, PITCH = MOST_COLS + 3, UNTOUCHED = 0x5a };
enum { MOST_K = 20000, MOST_GROUPS = MOST_K / 32, PANELS = (MOST_COLS + COLS - 1) / COLS };

static bool can_run(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static int8_t a[MOST_ROWS * MOST_K + 64], weights[MOST_COLS][MOST_K];
static uint16_t scales[MOST_COLS][MOST_GROUPS];  // the upper halves of floats
static float init[MOST_COLS], bias[MOST_COLS], c[MOST_ROWS][PITCH];
static struct xnn_qd8_quantization_params row_scales[MOST_ROWS];
alignas(64) static uint8_t packed[PANELS * COLS * (MOST_K / 2 + MOST_GROUPS * 2 + 8)];

static uint32_t next(uint32_t *seed) {
  return (*seed = *seed * 1664525u + 1013904223u) >> 16;
}

// The first rows are -128 and the first columns 7: what most nearly fills 16 bits.
static void fill(void) {
  uint32_t seed = 1;
  for (size_t i = 0; i < sizeof a; i++) a[i] = i < 3 * MOST_K ? -128 : (int8_t)next(&seed);
  for (size_t j = 0; j < MOST_COLS; j++) {
    for (size_t k = 0; k < MOST_K; k++)
      weights[j][k] = j < 9 ? 7 : (int8_t)((int)(next(&seed) % 16) - 8);
    for (size_t g = 0; g < MOST_GROUPS; g++) scales[j][g] = (uint16_t)(0x3a00 + next(&seed) % 512);
    init[j] = (float)(next(&seed) % 100) - 50.0f;
    bias[j] = (float)j - 20.0f;
  }
  for (size_t i = 0; i < MOST_ROWS; i++) {
    row_scales[i].zero_point = (int32_t)i * 20 - 128;
    row_scales[i].inv_scale = 0.01f + 0.001f * (float)i;
  }
}

// As XNNPACK packs them with nr = 16, kr = 4. What is behind the last column is not the kernel's.
static void pack(size_t n_cols, size_t n_k, size_t group) {
  memset(packed, 0xdb, sizeof packed);
  uint8_t *at = packed;
  for (size_t first = 0; first < n_cols; first += COLS) {
    const size_t n = n_cols - first < COLS ? n_cols - first : COLS;
    memcpy(at, init + first, n * sizeof *init);
    at += COLS * sizeof *init;
    for (size_t g = 0; g < n_k / group; g++) {
      for (size_t k = g * group; k < (g + 1) * group; k += 8, at += COLS * 4) {
        for (size_t j = 0; j < n; j++) {
          for (size_t b = 0; b < 4; b++) {
            const int8_t low = weights[first + j][k + b], high = weights[first + j][k + 4 + b];
            at[4 * j + b] = (uint8_t)((low & 0xf) | (high & 0xf) << 4);
          }
        }
      }
      for (size_t j = 0; j < n; j++) memcpy(at + 2 * j, &scales[first + j][g], 2);
      at += COLS * 2;
    }
    memcpy(at, bias + first, n * sizeof *bias);
    at += COLS * sizeof *bias;
  }
}

static float right_of(size_t i, size_t j, size_t n_k, size_t group, size_t apart) {
  float sum = init[j] * (float)row_scales[i].zero_point;
  for (size_t g = 0; g < n_k / group; g++) {
    int32_t part = 0;
    for (size_t k = g * group; k < (g + 1) * group; k++) part += a[i * apart + k] * weights[j][k];
    const uint32_t bits = (uint32_t)scales[j][g] << 16;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    sum = fmaf((float)part, scale * 16.0f, sum);
  }
  return fminf(fmaxf(fmaf(sum, row_scales[i].inv_scale, bias[j]), -5000.0f), 4000.0f);
}

static void check(size_t n_rows, size_t n_cols, size_t n_k, size_t group) {
  const struct xnn_f32_qb4w_minmax_params limits = {.scalar = {-5000.0f, 4000.0f, group}};
  const size_t apart = n_k + 5;
  memset(c, UNTOUCHED, sizeof c);
  pack(n_cols, n_k, group);
  eti_xnn_qb4_gemm_6x16__avx2(n_rows, n_cols, n_k, a, apart, packed, c, sizeof c[0],
                              COLS * sizeof(float), &limits, row_scales);
  float untouched;
  memset(&untouched, UNTOUCHED, sizeof untouched);
  for (size_t i = 0; i < MOST_ROWS; i++) {
    for (size_t j = 0; j < PITCH; j++) {
      const bool is_inside = i < n_rows && j < n_cols;
      const float right = is_inside ? right_of(i, j, n_k, group, apart) : untouched;
      EXPECT(memcmp(&c[i][j], &right, sizeof right) == 0);
    }
  }
}

static void products_with_groups_of_4_bits_are_exact_for_all_sizes(void) {
  if (!can_run()) return;
  fill();
  static const size_t groups[] = {32, 64, 96};
  for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++)
    for (size_t n_cols = 1; n_cols <= MOST_COLS; n_cols += n_cols < 18 ? 1 : 7)
      for (size_t n_rows = 1; n_rows <= MOST_ROWS; n_rows += n_rows < 7 ? 1 : 3)
        check(n_rows, n_cols, 192, groups[g]);
}

static void rows_of_many_groups_are_exact(void) {
  if (!can_run()) return;
  fill();
  check(3, 20, (size_t)32 * 512, 32);
  check(2, 33, (size_t)32 * 513, 32);
  check(1, 16, (size_t)32 * 600, 32);
}

static const et_test tests[] = {
    ET_CASE(products_with_groups_of_4_bits_are_exact_for_all_sizes),
    ET_CASE(rows_of_many_groups_are_exact),
};
#else
static void xnnpack_runs_its_own_kernels(void) {}

static const et_test tests[] = {ET_CASE(xnnpack_runs_its_own_kernels)};
#endif

ET_TEST_MAIN(tests)
