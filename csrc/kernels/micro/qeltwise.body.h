// qeltwise.body.h — the loops of qeltwise.h, as straight-line arithmetic that compilers vectorise.
// Rows go block by block: the compiler sees arrays of one type at a time. The including file gives
// ISA(name), QELTWISE_TABLE and lookup_bytes.

enum { BLOCK = 64 };

#define INLINE static inline __attribute__((always_inline))

// Adding and subtracting 1.5·2^23 rounds a smaller number to an integer, halves to even; numbers
// beyond are limited first, since they saturate anyway. NaN ends as 0.
INLINE int32_t quantized(float x, const eti_qbinary *k) {
  float s = x * k->inverse;
  s = s > 0x1p22f ? 0x1p22f : s;
  s = s < -0x1p22f ? -0x1p22f : s;
  float q = ((s + 0x1.8p23f) - 0x1.8p23f) + k->zero;
  q = q < k->low ? k->low : q;
  q = q > k->high ? k->high : q;
  q = q == q ? q : 0.0f;
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
                const eti_qbinary *params, size_t n, int kind) {
  const eti_qbinary k = *params;
  for (size_t at = 0, count; at < n; at += count) {
    float x[BLOCK], y[BLOCK];
    count = n - at < BLOCK ? n - at : BLOCK;
    widen_values(x, a + at * a_step, a_step, k.a_scale, k.a_zero, count);
    widen_values(y, b + at * b_step, b_step, k.b_scale, k.b_zero, count);
    for (size_t i = 0; i < count; i++) {
      const float value = kind == 0 ? x[i] + y[i] : kind == 1 ? x[i] - y[i] : x[i] * y[i];
      out[at + i] = (int8_t)quantized(value, &k);
    }
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
  for (size_t i = 0; i < n; i++) out[i] = x[i] > out[i] ? x[i] : out[i];
}

static void ISA(lookup)(int8_t *out, const int8_t *in, const int8_t *table, size_t n) {
  lookup_bytes(out, in, table, n);
}

static void ISA(sum)(int32_t *restrict out, const int8_t *restrict x, size_t n) {
  for (size_t i = 0; i < n; i++) out[i] += x[i];
}

const eti_qeltwise_micro QELTWISE_TABLE = {ISA(add), ISA(sub),    ISA(mul),
                                           ISA(max), ISA(lookup), ISA(sum)};
