// cache_rows.body.h — the loops of cache_rows.h, written so that compilers turn them into vectors.
// The including file sets SUFFIX, the end of the table's name.
#include <math.h>
#include <string.h>

#include "kernels/contract.h"
#include "kernels/loops/loop.h"
#include "kernels/micro/attention/cache_rows.h"
#include "runtime/et.h"

static void rotate(float *y, const float *x, const float *cos, const float *sin, size_t half) {
  ET_ASSERT(ETI_HOLDS(y, 2 * half, float) && ETI_HOLDS(x, 2 * half, float));
  ET_ASSERT(ETI_HOLDS(cos, 2 * half, float) && ETI_HOLDS(sin, 2 * half, float));
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < half; i++) {
    const float a = x[i], b = x[i + half];
    y[i] = a * cos[i] - b * sin[i];
    y[i + half] = b * cos[i + half] + a * sin[i + half];
  }
}

static void mix(float *x, size_t n, size_t run) {
  ET_ASSERT(ETI_HOLDS(x, n, float));
  for (size_t h = ETI_CACHE_MIXED; h < run; h *= 2) {
    for (size_t i = 0; i < n; i += 2 * h) {
      float *const a = x + i, *const b = a + h;
      ETI_NO_DEPENDENCES
      for (size_t l = 0; l < h; l++) {
        const float sum = a[l] + b[l], difference = a[l] - b[l];
        a[l] = sum;
        b[l] = difference;
      }
    }
  }
}

static float quantize(int8_t *codes, const float *x, size_t n) {
  ET_ASSERT(ETI_HOLDS(codes, n, int8_t) && ETI_HOLDS(x, n, float));
  // Without the sign, bits have the order of the numbers, and infinity and NaN come last.
  uint32_t most_bits = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, x + i, sizeof bits);
    bits &= 0x7FFFFFFFu;
    most_bits = bits > most_bits ? bits : most_bits;
  }
  float most;
  memcpy(&most, &most_bits, sizeof most);
  const float scale = most / 127.0f;
  const bool is_finite = most_bits < 0x7F800000u;
  if (!is_finite || scale == 0.0f) {
    for (size_t i = 0; i < n; i++) codes[i] = 0;
    return is_finite ? 0.0f : NAN;
  }
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) {
    // Adding and subtracting 1.5·2^23 rounds halves to even. Subnormal scales are coarse.
    float q = (x[i] / scale + 0x1.8p23f) - 0x1.8p23f;
    q = q > 127.0f ? 127.0f : q;
    q = q < -127.0f ? -127.0f : q;
    codes[i] = (int8_t)(int32_t)q;
  }
  return scale;
}

static void merge(float *y, float a, const float *x, float b, size_t n) {
  ET_ASSERT(ETI_HOLDS(y, n, float) && ETI_HOLDS(x, n, float));
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) y[i] = y[i] * a + x[i] * b;
}

static bool has_nan(const float *x, size_t n) {
  ET_ASSERT(ETI_HOLDS(x, n, float));
  int found = 0;
  for (size_t i = 0; i < n; i++) found |= x[i] != x[i];
  return found != 0;
}

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
const eti_cache_rows_micro CAT(eti_cache_rows_, SUFFIX) = {rotate, mix, quantize, merge, has_nan};
