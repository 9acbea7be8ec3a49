// Micro-kernels of our own under XNNPACK's names: each against the sums as they are written, for
// all numbers of rows, ends of columns, lengths and pieces. Tests of what this machine cannot run
// pass.
#include "backends/xnnpack/kernels.h"
#include "et_test.h"

#if defined(__x86_64__) && defined(ET_XNNPACK_OWN_KERNELS)
#include <math.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>

enum { MOST_ROWS = 5, COLS = 16, MOST_COLS = 35, MOST_K = 70, MOST_PIECES = 4, PITCH = 40 };

static bool can_run(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static const float LIMITS[2] = {-3.0f, 2.5f};
static const float UNTOUCHED = 77.0f;

static float a[MOST_ROWS * MOST_PIECES * MOST_K];
static float b[MOST_PIECES * MOST_K][MOST_COLS];
static float bias[MOST_COLS];
static float c[MOST_ROWS][PITCH];
alignas(32) static float packed[(MOST_PIECES * MOST_K + 1) * 3 * COLS];

static void fill(void) {
  uint32_t seed = 1;
  for (size_t i = 0; i < sizeof a / sizeof a[0]; i++)
    a[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 16) / 65536.0f - 0.5f;
  for (size_t k = 0; k < sizeof b / sizeof b[0]; k++)
    for (size_t j = 0; j < MOST_COLS; j++)
      b[k][j] = (float)((seed = seed * 1664525u + 1013904223u) >> 16) / 32768.0f - 1.0f;
  for (size_t j = 0; j < MOST_COLS; j++) bias[j] = (float)j / 16.0f - 1.0f;
}

// For every 16 columns their biases, then the weights of each k.
static void pack(size_t n_cols, size_t n_k) {
  float *at = packed;
  for (size_t first = 0; first < n_cols; first += COLS) {
    for (size_t j = first; j < first + COLS; j++) *at++ = j < n_cols ? bias[j] : 0.0f;
    for (size_t k = 0; k < n_k; k++)
      for (size_t j = first; j < first + COLS; j++) *at++ = j < n_cols ? b[k][j] : 0.0f;
  }
}

static void forget(void) {
  for (size_t i = 0; i < MOST_ROWS; i++)
    for (size_t j = 0; j < PITCH; j++) c[i][j] = UNTOUCHED;
}

// Whether c holds the sums of rows[piece][i], in the order of k, and nothing else was written.
static bool is_right(size_t n_rows, size_t n_cols, size_t n_pieces, size_t n_k,
                     const float *rows[MOST_PIECES][MOST_ROWS]) {
  for (size_t i = 0; i < MOST_ROWS; i++) {
    for (size_t j = 0; j < PITCH; j++) {
      float right = UNTOUCHED;
      if (i < n_rows && j < n_cols) {
        right = bias[j];
        for (size_t s = 0; s < n_pieces; s++)
          for (size_t k = 0; k < n_k; k++) right = fmaf(rows[s][i][k], b[s * n_k + k][j], right);
        right = fminf(LIMITS[1], fmaxf(LIMITS[0], right));
      }
      if (c[i][j] != right) return false;
    }
  }
  return true;
}

static void products_are_the_sums_for_all_sizes(void) {
  if (!can_run()) return;
  fill();
  static const size_t lengths[] = {1, 2, 3, 8, 17, MOST_K};
  for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
    for (size_t n_cols = 1; n_cols <= MOST_COLS; n_cols++) {
      const size_t n_k = lengths[l];
      pack(n_cols, n_k);
      for (size_t n_rows = 1; n_rows <= MOST_ROWS; n_rows++) {
        const float *rows[MOST_PIECES][MOST_ROWS];
        for (size_t i = 0; i < MOST_ROWS; i++) rows[0][i] = a + i * (MOST_K + 3);
        forget();
        xnn_f32_gemm_minmax_ukernel_5x16__fma3_broadcast(n_rows, n_cols, n_k * sizeof(float), a,
                                                         (MOST_K + 3) * sizeof(float), packed, c,
                                                         sizeof c[0], COLS * sizeof(float), LIMITS);
        EXPECT(is_right(n_rows, n_cols, 1, n_k, rows));
      }
    }
  }
}

static void convolutions_add_all_pieces_and_move_all_but_the_zeros(void) {
  if (!can_run()) return;
  fill();
  static const float zero[MOST_K];
  const size_t offset = 5, n_k = 9;
  for (size_t n_pieces = 1; n_pieces <= MOST_PIECES; n_pieces++) {
    for (size_t n_cols = 1; n_cols <= MOST_COLS; n_cols++) {
      pack(n_cols, n_pieces * n_k);
      for (size_t n_rows = 1; n_rows <= MOST_ROWS; n_rows++) {
        const float *rows[MOST_PIECES][MOST_ROWS];
        const void *given[MOST_PIECES * MOST_ROWS];
        for (size_t s = 0; s < n_pieces; s++) {
          for (size_t i = 0; i < MOST_ROWS; i++) {
            const bool is_zero = (s + i) % 3 == 0;
            const float *const at = a + (s * MOST_ROWS + i) * (n_k + 2);
            given[s * MOST_ROWS + i] = is_zero ? zero : at;
            rows[s][i] = is_zero ? zero : at + offset;
          }
        }
        forget();
        xnn_f32_igemm_minmax_ukernel_5x16__fma3_broadcast_prfm(
            n_rows, n_cols, n_k * sizeof(float), n_pieces * MOST_ROWS * sizeof given[0], given,
            packed, c, sizeof c[0], COLS * sizeof(float), offset * sizeof(float), zero, LIMITS);
        EXPECT(is_right(n_rows, n_cols, n_pieces, n_k, rows));
      }
    }
  }
}

static const et_test tests[] = {
    ET_CASE(products_are_the_sums_for_all_sizes),
    ET_CASE(convolutions_add_all_pieces_and_move_all_but_the_zeros),
};
#else
static void xnnpack_runs_its_own_kernels(void) {}

static const et_test tests[] = {ET_CASE(xnnpack_runs_its_own_kernels)};
#endif

ET_TEST_MAIN(tests)
