// rows_f32.body.h — the row kernels of eltwise.h, part of eltwise.body.h: sums, extremes and
// softmax of rows of f32, and sums of rows into f64 columns.
#include "kernels/loops/loop.h"
#include "kernels/micro/math/math_f32.h"
#include "kernels/micro/rows/row_softmax.h"
#include "kernels/micro/rows/rows_f32.h"
#include "kernels/micro/transpose.h"
#include "kernels/stack.h"

#if defined(__AVX__)
#include <immintrin.h>
#endif

static float row_sum(const float *x, size_t n) {
  ET_ASSERT(n > 0 && ETI_HOLDS(x, n, float));
  return eti_row_sum_f32(x, n);
}
static float row_sum_square_diff(const float *x, size_t n, float mean) {
  ET_ASSERT(n > 0 && ETI_HOLDS(x, n, float));
  return eti_row_square_diff_f32(x, n, mean);
}
static float row_max(const float *x, size_t n) {
  ET_ASSERT(n > 0 && ETI_HOLDS(x, n, float));
  return eti_row_max_f32(x, n);
}
static float row_min(const float *x, size_t n) {
  ET_ASSERT(n > 0 && ETI_HOLDS(x, n, float));
  return eti_row_min_f32(x, n);
}

static void row_softmax(float *out, const float *x, size_t n) {
  ET_ASSERT(n > 0 && ETI_HOLDS(out, n, float) && ETI_HOLDS(x, n, float));
  const float max = row_max(x, n);
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) out[i] = eti_exp_term_f32(x[i] - max);
  const float sum = row_sum(out, n);
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) out[i] = out[i] / sum;
}

// The sum of the exponentials of a piece, with the lanes of eti_piece_sum_f32: they are not stored,
// so that x survives even if a result is written over it.
ETI_INLINE float piece_sum_exp(const float *x, size_t n, float max) {
  _Alignas(64) float e[64];
  const eti_f32x16 *const v = (const eti_f32x16 *)e;
  eti_f32x16 a = {0}, b = {0}, c = {0}, d = {0};
  size_t i = 0;
  for (; i + 64 <= n; i += 64) {
    for (size_t j = 0; j < 64; j++) e[j] = eti_exp_term_f32(x[i + j] - max);
    a += v[0];
    b += v[1];
    c += v[2];
    d += v[3];
  }
  const size_t rest = n - i;
  for (size_t j = 0; j < rest; j++) e[j] = eti_exp_term_f32(x[i + j] - max);
  for (i = 0; i + 16 <= rest; i += 16) a += v[i / 16];
  for (size_t l = 0; i < rest; i++, l++) b[l] += e[i];
  a = (a + b) + (c + d);
  return eti_f32x16_sum(&a);
}

static void row_log_softmax(float *out, const float *x, size_t n) {
  ET_ASSERT(n > 0 && ETI_HOLDS(out, n, float) && ETI_HOLDS(x, n, float));
  const float max = row_max(x, n);
  double sum = 0.0;
  for (size_t i = 0; i < n; i += 512)
    sum += (double)piece_sum_exp(x + i, n - i < 512 ? n - i : 512, max);
  const float log_sum = (float)eti_log_d(sum);
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) out[i] = x[i] - max - log_sum;
}

// Softmax and log-softmax of short rows: computes exponentials and logarithms of many rows at
// once.
#define FLAT ETI_ON_STACK(1024u, 128u)  // elements processed together
static void rows_softmax_flat(float *out, const float *x, size_t n, size_t rows, bool log) {
  float piece[FLAT], sums[FLAT];
  const size_t most = FLAT / n;
  for (size_t first = 0; first < rows; first += most) {
    const size_t m = rows - first < most ? rows - first : most;
    const float *const from = x + first * n;
    float *const to = out + first * n;
    for (size_t r = 0; r < m; r++) {
      const float max = row_max(from + r * n, n);
      for (size_t i = 0; i < n; i++) piece[r * n + i] = from[r * n + i] - max;
    }
    if (log) memmove(to, piece, m * n * sizeof *to);
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < m * n; i++) piece[i] = eti_exp_term_f32(piece[i]);
    for (size_t r = 0; r < m; r++) sums[r] = eti_piece_sum_f32(piece + r * n, n);
    if (log) {
      ETI_NO_DEPENDENCES
      for (size_t r = 0; r < m; r++) sums[r] = (float)eti_log_d((double)sums[r]);
    }
    for (size_t r = 0; r < m; r++) {
      const float sum = sums[r];
      float *const row = to + r * n;
      if (log) {
        ETI_NO_DEPENDENCES
        for (size_t i = 0; i < n; i++) row[i] -= sum;
      } else {
        ETI_NO_DEPENDENCES
        for (size_t i = 0; i < n; i++) row[i] = piece[r * n + i] / sum;
      }
    }
  }
}

#define UPRIGHT \
  ETI_ON_STACK(32u, 2u)  // longest row; transposing longer ones costs more than it gains

static void exp_terms(float *x, size_t n) {
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) x[i] = eti_exp_term_f32(x[i]);
}

// The sums of sixteen transposed rows, added in the order of piece_sum.
static inline void upright_sums(eti_f32x16 *sums, const eti_f32x16 *terms, size_t n) {
  eti_f32x16 a[16] = {{0}};
  for (size_t i = 0; i < n; i++) a[i % 16] += terms[i];
  for (size_t l = 0; l < 8; l++) a[l] += a[l + 8];
  *sums = ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

// Softmax and log-softmax of sixteen transposed rows, one in each lane: each
// step along a row serves all of them. Unused lanes repeat the first row of the block.
static void rows_softmax_upright(float *out, const float *x, size_t n, size_t rows, bool log) {
  _Alignas(64) float v[UPRIGHT][16], e[UPRIGHT][16];
  eti_f32x16 *const values = (eti_f32x16 *)v, *const terms = (eti_f32x16 *)e;
  const ptrdiff_t row = (ptrdiff_t)(n * sizeof(float));
  for (size_t first = 0; first < rows; first += 16) {
    const size_t m = rows - first < 16 ? rows - first : 16;
    eti_transpose(v, sizeof v[0], x + first * n, row, m, n, sizeof(float));
    for (size_t i = 0; i < n; i++)
      for (size_t r = m; r < 16; r++) v[i][r] = v[i][0];
    eti_f32_register most[ETI_REGISTERS];
    memcpy(most, v[0], sizeof most);
    for (size_t i = 1; i < n; i++) eti_registers_max(most, v[i]);
    eti_f32x16 max, sums;
    memcpy(&max, most, sizeof max);
    for (size_t i = 0; i < n; i++) terms[i] = values[i] -= max;
    exp_terms(e[0], 16 * n);
    upright_sums(&sums, terms, n);
    for (size_t r = 0; r < 16 && log; r++) sums[r] = (float)eti_log_d((double)sums[r]);
    for (size_t i = 0; i < n; i++) terms[i] = log ? values[i] - sums : terms[i] / sums;
    eti_transpose(out + first * n, row, e, sizeof e[0], n, m, sizeof(float));
  }
}

static void rows_softmax_short(float *out, const float *x, size_t n, size_t rows, bool log) {
  ET_ASSERT(n > 0 && n <= ETI_SHORT_ROW);
  ET_ASSERT(ETI_HOLDS(out, rows, float) && ETI_HOLDS(x, rows, float));
  (n <= UPRIGHT ? rows_softmax_upright : rows_softmax_flat)(out, x, n, rows, log);
}

// Sums of a few columns stay in registers over all rows.
#ifdef __AVX512F__
enum { WIDE_SUMS = 8 };
#define WIDEN(x) ((wide_sums)_mm512_cvtps_pd(_mm256_loadu_ps(x)))
#elif defined __AVX__
enum { WIDE_SUMS = 4 };
#define WIDEN(x) ((wide_sums)_mm256_cvtps_pd(_mm_loadu_ps(x)))
#else
enum { WIDE_SUMS = 2 };
#define WIDEN(x) ((wide_sums){(double)(x)[0], (double)(x)[1]})
#endif
typedef double wide_sums __attribute__((vector_size(8 * WIDE_SUMS), aligned(8), may_alias));

static void rows_sum_wide(double *y, const float *const *x, size_t n_rows, size_t n) {
  ET_ASSERT(ETI_HOLDS(y, n, double) && ETI_HOLDS(x, n_rows, float *));
  size_t i = 0;
  for (; n - i >= 8 * WIDE_SUMS; i += 8 * WIDE_SUMS) {
    wide_sums *const to = (wide_sums *)(y + i);
    wide_sums a = to[0], b = to[1], c = to[2], d = to[3], e = to[4], f = to[5], g = to[6],
              h = to[7];
    for (size_t r = 0; r < n_rows; r++) {
      const float *const row = x[r] + i;
      a += WIDEN(row);
      b += WIDEN(row + WIDE_SUMS);
      c += WIDEN(row + 2 * WIDE_SUMS);
      d += WIDEN(row + 3 * WIDE_SUMS);
      e += WIDEN(row + 4 * WIDE_SUMS);
      f += WIDEN(row + 5 * WIDE_SUMS);
      g += WIDEN(row + 6 * WIDE_SUMS);
      h += WIDEN(row + 7 * WIDE_SUMS);
    }
    to[0] = a;
    to[1] = b;
    to[2] = c;
    to[3] = d;
    to[4] = e;
    to[5] = f;
    to[6] = g;
    to[7] = h;
  }
  for (; n - i >= WIDE_SUMS; i += WIDE_SUMS) {
    wide_sums a = *(wide_sums *)(y + i);
    for (size_t r = 0; r < n_rows; r++) a += WIDEN(x[r] + i);
    *(wide_sums *)(y + i) = a;
  }
  for (; i < n; i++) {
    double a = y[i];
    for (size_t r = 0; r < n_rows; r++) a += (double)x[r][i];
    y[i] = a;
  }
}
#undef WIDEN
