// qeltwise.h — elementwise loops over rows of i8: quantized sums, differences and products, and the
// larger of two rows. The arithmetic is that of dequantizing, computing in f32 and quantizing
// again, operation by operation. So the bits are those of separate operators in every instruction
// set. Relies on kernels/micro/isa_select.h. Knows no tensor.
#ifndef ET_MICRO_QELTWISE_H
#define ET_MICRO_QELTWISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// (a - a_zero) · a_scale with (b - b_zero) · b_scale, times inverse, rounded (halves to even), plus
// zero, within low and high. Zeros and ends are whole numbers of i8.
typedef struct eti_qbinary {
  float a_scale, a_zero, b_scale, b_zero, inverse, zero, low, high;
} eti_qbinary;

// True if no result exceeds what a conversion to i32 holds, before zero is added: for any elements
// of a sum or difference, or of a product (kind 2). Operands are at most 255 scales.
static inline bool eti_qbinary_is_limited(const eti_qbinary *k, int kind) {
  const float a = 255.0f * k->a_scale, b = 255.0f * k->b_scale;
  const float largest = (kind == 2 ? a * b : a + b) * k->inverse;
  return a >= 0.0f && b >= 0.0f && largest < 0x1p30f && largest >= 0.0f;
}

// Steps are 1 or 0; a step of 0 repeats one element. low ≤ high.
typedef void (*eti_qbinary_fn)(int8_t *out, const int8_t *a, const int8_t *b, size_t a_step,
                               size_t b_step, const eti_qbinary *k, size_t n);

typedef struct eti_qeltwise_micro {
  eti_qbinary_fn add, sub, mul;
  void (*max)(int8_t *out, const int8_t *x, size_t n);  // out[i] = max(out[i], x[i])
  // out[i] = the entry for in[i] in a table over -128 … 127; out may be in.
  void (*lookup)(int8_t *out, const int8_t *in, const int8_t *table, size_t n);
  // out[i] += Σr x[r·step + i], r < rows, i < n
  void (*sum_rows)(int32_t *out, const int8_t *x, size_t step, size_t rows, size_t n);
} eti_qeltwise_micro;

// The best variant for this CPU.
const eti_qeltwise_micro *eti_qeltwise_micro_best(void);

extern const eti_qeltwise_micro eti_qeltwise_scalar;
extern const eti_qeltwise_micro eti_qeltwise_avx2;
extern const eti_qeltwise_micro eti_qeltwise_avx512;
extern const eti_qeltwise_micro eti_qeltwise_avx512vbmi;

#endif  // ET_MICRO_QELTWISE_H
