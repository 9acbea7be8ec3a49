// rows_f32.h — sum, sum of squares, product and extremes of a row of f32, in 64 lanes as four
// vectors of 16, for any register size. The lanes are merged in a fixed tree, so every instruction
// set gives the same bits. Shared by the row kernels of eltwise.h and by the reductions; each
// including file is compiled for an instruction set of its own.
#ifndef ET_MICRO_ROWS_F32_H
#define ET_MICRO_ROWS_F32_H

#include "kernels/micro/math/math_f32.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ETI_ROW_PIECE 4096u  // elements summed in f32

typedef float eti_f32x16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef float eti_f32x8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float eti_f32x4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t eti_i32x4 __attribute__((vector_size(16), aligned(4), may_alias));

// Vectors of the machine's size: longer vectors are compared element by element.
#if defined(__AVX512F__)
#define ETI_REGISTER_BYTES 64
#elif defined(__AVX__)
#define ETI_REGISTER_BYTES 32
#else
#define ETI_REGISTER_BYTES 16
#endif
#define ETI_REGISTERS (64u / ETI_REGISTER_BYTES)
typedef float eti_f32_register
    __attribute__((vector_size(ETI_REGISTER_BYTES), aligned(4), may_alias));
typedef int32_t eti_i32_register
    __attribute__((vector_size(ETI_REGISTER_BYTES), aligned(4), may_alias));

// The lanes of a, pairwise: 0 with 8, 1 with 9, …, then with 4, 2, 1.
ETI_INLINE float eti_f32x16_sum(const eti_f32x16 *a) {
  eti_f32x8 o[2];
  memcpy(o, a, sizeof o);
  o[0] += o[1];
  eti_f32x4 q[2];
  memcpy(q, &o[0], sizeof q);
  q[0] += q[1];
  return (q[0][0] + q[0][2]) + (q[0][1] + q[0][3]);
}

ETI_INLINE float eti_piece_sum_f32(const float *x, size_t n) {
  eti_f32x16 a = {0}, b = {0};
  size_t i = 0;
  if (n >= 64) {
    eti_f32x16 c = {0}, d = {0};
    for (; i + 64 <= n; i += 64) {
      a += *(const eti_f32x16 *)(x + i);
      b += *(const eti_f32x16 *)(x + i + 16);
      c += *(const eti_f32x16 *)(x + i + 32);
      d += *(const eti_f32x16 *)(x + i + 48);
    }
    for (; i + 16 <= n; i += 16) a += *(const eti_f32x16 *)(x + i);
    for (size_t l = 0; i < n; i++, l++) b[l] += x[i];
    a = (a + b) + (c + d);
    return eti_f32x16_sum(&a);
  }
  for (; i + 16 <= n; i += 16) a += *(const eti_f32x16 *)(x + i);
  if (i < n) {
    for (size_t l = 0; i < n; i++, l++) b[l] += x[i];
    a += b;
  }
  return eti_f32x16_sum(&a);
}

ETI_INLINE float eti_piece_square_diff_f32(const float *x, size_t n, float mean) {
  eti_f32x16 a = {0}, b = {0};
  size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const eti_f32x16 u = *(const eti_f32x16 *)(x + i) - mean,
                     v = *(const eti_f32x16 *)(x + i + 16) - mean;
    a += u * u;
    b += v * v;
  }
  for (size_t l = 0; i < n; i++, l++) {
    const float u = x[i] - mean;
    if (l < 16) {
      a[l] += u * u;
    } else {
      b[l - 16] += u * u;
    }
  }
  a += b;
  return eti_f32x16_sum(&a);
}

ETI_INLINE float eti_row_sum_f32(const float *x, size_t n) {
  if (n <= ETI_ROW_PIECE) return eti_piece_sum_f32(x, n);
  double sum = 0.0;
  for (size_t i = 0; i < n; i += ETI_ROW_PIECE)
    sum += (double)eti_piece_sum_f32(x + i, n - i < ETI_ROW_PIECE ? n - i : ETI_ROW_PIECE);
  return (float)sum;
}

ETI_INLINE float eti_row_square_diff_f32(const float *x, size_t n, float mean) {
  if (n <= ETI_ROW_PIECE) return eti_piece_square_diff_f32(x, n, mean);
  double sum = 0.0;
  for (size_t i = 0; i < n; i += ETI_ROW_PIECE)
    sum += (double)eti_piece_square_diff_f32(x + i, n - i < ETI_ROW_PIECE ? n - i : ETI_ROW_PIECE,
                                             mean);
  return (float)sum;
}

// Product in f64: sixteen products side by side, multiplied as a tree; the remaining elements come
// last.
ETI_INLINE double eti_piece_product_f32(const float *x, size_t n) {
  typedef double octs __attribute__((vector_size(64)));
  typedef double quads __attribute__((vector_size(32)));
  typedef double pairs __attribute__((vector_size(16)));
  octs a = {1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0}, b = a;
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    a *= __builtin_convertvector(*(const eti_f32x8 *)(x + i), octs);
    b *= __builtin_convertvector(*(const eti_f32x8 *)(x + i + 8), octs);
  }
  a *= b;
  quads q[2];
  memcpy(q, &a, sizeof q);
  q[0] *= q[1];
  pairs h[2];
  memcpy(h, &q[0], sizeof h);
  h[0] *= h[1];
  double p = h[0][0] * h[0][1];
  for (; i < n; i++) p *= (double)x[i];
  return p;
}

// Long products of numbers below one become zero within a few pieces. Sixteen separate products
// would stay subnormal for long, which processors multiply slowly.
ETI_INLINE double eti_row_product_f32(const float *x, size_t n) {
  double p = 1.0;
  for (size_t i = 0; i < n; i += ETI_ROW_PIECE)
    p *= eti_piece_product_f32(x + i, n - i < ETI_ROW_PIECE ? n - i : ETI_ROW_PIECE);
  return p;
}

// ATen's rules: NaN wins in maximum and minimum. The choice among numbers is one instruction.
ETI_INLINE float eti_maximum_f32(float a, float b) {
  const float number = b > a ? b : a;
  return b != b ? b : number;
}
ETI_INLINE float eti_minimum_f32(float a, float b) {
  const float number = b < a ? b : a;
  return b != b ? b : number;
}

#define EXTREME max
#define EXTREME_OF eti_maximum_f32
#define EXTREME_BEFORE >
#include "kernels/micro/rows/row_extreme.inc.h"
#define EXTREME min
#define EXTREME_OF eti_minimum_f32
#define EXTREME_BEFORE <
#include "kernels/micro/rows/row_extreme.inc.h"

#endif  // ET_MICRO_ROWS_F32_H
