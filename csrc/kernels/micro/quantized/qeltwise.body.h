// qeltwise.body.h — the loops of qeltwise.h, as straight-line arithmetic that compilers vectorise.
// Rows are processed in blocks, so that the compiler sees arrays of one type at a time. The
// including file sets ISA(name), QELTWISE_TABLE, run_vectors and lookup_bytes.

#include "kernels/contract.h"

enum { BLOCK = 64, SUMMED = 64, SUMMED_ROWS = 255 };

#define INLINE static inline __attribute__((always_inline))

// Adding and subtracting 1.5·2^23 rounds a smaller number to an integer, halves to even. Larger
// numbers, and NaN as the largest, are limited first, since they saturate anyway.
INLINE int32_t quantized(float x, float inverse, float zero, float low, float high) {
  float s = x * inverse;
  s = s < 0x1p22f ? s : 0x1p22f;
  s = s > -0x1p22f ? s : -0x1p22f;
  float q = ((s + 0x1.8p23f) - 0x1.8p23f) + zero;
  q = q < low ? low : q;
  q = q > high ? high : q;
  return (int32_t)q;
}

INLINE void widen_values(float *to, const int8_t *q, size_t step, float scale, float zero,
                         size_t n) {
  if (step == 0) {
    const float x = ((float)q[0] - zero) * scale;
    for (size_t i = 0; i < n; i++) to[i] = x;
  } else {
    for (size_t i = 0; i < n; i++) to[i] = ((float)q[i] - zero) * scale;
  }
}

INLINE void row(int8_t *out, const int8_t *a, const int8_t *b, size_t a_step, size_t b_step,
                const eti_qbinary *k, size_t n, int kind) {
  ET_ASSERT(a_step <= 1 && b_step <= 1 && k != NULL && k->low <= k->high);
  ET_ASSERT(n == 0 || (out != NULL && a != NULL && b != NULL));
  const float inverse = k->inverse, zero = k->zero, low = k->low, high = k->high;
  const float a_scale = k->a_scale, a_zero = k->a_zero, b_scale = k->b_scale, b_zero = k->b_zero;
  const size_t done = run_vectors(out, a, b, a_step, b_step, k, n, kind);
  for (size_t at = done, count; at < n; at += count) {
    float x[BLOCK], y[BLOCK];
    int32_t q[BLOCK];
    count = n - at < BLOCK ? n - at : BLOCK;
    widen_values(x, a + at * a_step, a_step, a_scale, a_zero, count);
    widen_values(y, b + at * b_step, b_step, b_scale, b_zero, count);
    for (size_t i = 0; i < count; i++) {
      const float value = kind == 0 ? x[i] + y[i] : kind == 1 ? x[i] - y[i] : x[i] * y[i];
      q[i] = quantized(value, inverse, zero, low, high);
    }
    for (size_t i = 0; i < count; i++) out[at + i] = (int8_t)q[i];
  }
}

static void ISA(add)(int8_t *out, const int8_t *a, const int8_t *b, size_t a_step, size_t b_step,
                     const eti_qbinary *k, size_t n) {
  row(out, a, b, a_step, b_step, k, n, 0);
}
static void ISA(sub)(int8_t *out, const int8_t *a, const int8_t *b, size_t a_step, size_t b_step,
                     const eti_qbinary *k, size_t n) {
  row(out, a, b, a_step, b_step, k, n, 1);
}
static void ISA(mul)(int8_t *out, const int8_t *a, const int8_t *b, size_t a_step, size_t b_step,
                     const eti_qbinary *k, size_t n) {
  row(out, a, b, a_step, b_step, k, n, 2);
}

static void ISA(max)(int8_t *out, const int8_t *x, size_t n) {
  ET_ASSERT(n == 0 || (out != NULL && x != NULL));
  for (size_t i = 0; i < n; i++) out[i] = x[i] > out[i] ? x[i] : out[i];
}

static void ISA(lookup)(int8_t *out, const int8_t *in, const int8_t *table, size_t n) {
  ET_ASSERT(table != NULL && (n == 0 || (out != NULL && in != NULL)));
  lookup_bytes(out, in, table, n);
}

// Sums of n columns, at most SUMMED, of at most SUMMED_ROWS rows: in 16 bits they cannot overflow.
INLINE void add_columns(int32_t *restrict out, const int8_t *restrict x, size_t step, size_t rows,
                        size_t n) {
  int16_t sums[SUMMED] = {0};
  if (n == SUMMED) {
    for (size_t r = 0; r < rows; r++)
      for (size_t i = 0; i < SUMMED; i++) sums[i] = (int16_t)(sums[i] + x[r * step + i]);
  } else {
    for (size_t r = 0; r < rows; r++)
      for (size_t i = 0; i < n; i++) sums[i] = (int16_t)(sums[i] + x[r * step + i]);
  }
  for (size_t i = 0; i < n; i++) out[i] += sums[i];
}

static void ISA(sum_rows)(int32_t *out, const int8_t *x, size_t step, size_t rows, size_t n) {
  ET_ASSERT(ETI_HOLDS(out, n, int32_t) && ETI_HOLDS(x, n * rows, int8_t));
  for (size_t r = 0; r < rows; r += SUMMED_ROWS) {
    const size_t some = rows - r < SUMMED_ROWS ? rows - r : SUMMED_ROWS;
    for (size_t i = 0; i < n; i += SUMMED)
      add_columns(out + i, x + r * step + i, step, some, n - i < SUMMED ? n - i : SUMMED);
  }
}

const eti_qeltwise_micro QELTWISE_TABLE = {ISA(add), ISA(sub),    ISA(mul),
                                           ISA(max), ISA(lookup), ISA(sum_rows)};
