// bgemm_scalar.c — the products of bgemm.h for any machine: the specification and the fallback.
#include "kernels/micro/bgemm/bgemm.h"

#include <math.h>
#include <string.h>

enum { NR = ETI_BGEMM_NR };

#define LEAST 0x1p-126f  // normal number

static float flushed(float x) {
  return fabsf(x) < LEAST ? copysignf(0.0f, x) : x;
}

// Computes a · b + c with denormals flushed. fmaf rounds a result just below LEAST up to it; with
// all exponents raised by 48 it is rounded as if the exponent had no limit. a · b and c are small
// there, or they cancel and the result is exact.
static float add_product(float a, float b, float c) {
  const float x = flushed(a), y = flushed(b), z = flushed(c), s = fmaf(x, y, z);
  if (fabsf(s) != LEAST) return flushed(s);
  const bool x_is_less = fabsf(x) < fabsf(y);
  const float raised = fmaf(x_is_less ? x * 0x1p48f : x, x_is_less ? y : y * 0x1p48f, z * 0x1p48f);
  return fabsf(raised) < LEAST * 0x1p48f ? copysignf(0.0f, s) : s;
}

static float add(float a, float b) {
  return flushed(flushed(a) + flushed(b));  // denormal sums are exact
}

static float widened(uint16_t h) {
  const uint32_t bits = (uint32_t)h << 16;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// Term i of a row, which is of bf16 or of such numbers in f32.
static float term_of(const char *row, size_t i, bool is_f32) {
  float x;
  uint16_t h;
  if (is_f32) {
    memcpy(&x, row + i * sizeof x, sizeof x);
    return x;
  }
  memcpy(&h, row + i * sizeof h, sizeof h);
  return widened(h);
}

// The sum of a chunk of one column.
static float chunk_sum(const char *row, const uint16_t *w, size_t pairs, bool is_f32, float sum) {
  for (size_t i = 0; i < pairs; i++) {
    const uint16_t *const both = w + i * NR * ETI_BGEMM_PAIR;
    sum = add_product(term_of(row, 2 * i + 1, is_f32), widened(both[1]), sum);
    sum = add_product(term_of(row, 2 * i, is_f32), widened(both[0]), sum);
  }
  return sum;
}

static float element(const eti_btile *t, size_t row, size_t column, bool is_f32) {
  const size_t term = is_f32 ? sizeof(float) : sizeof(uint16_t);
  const char *const a = (const char *)t->a + row * t->a_step;
  const uint16_t *const w = t->w + column / NR * t->w_step + column % NR * (size_t)ETI_BGEMM_PAIR;
  const float *const out = t->out + row * t->out_step + column;
  const float bias = t->bias == NULL ? 0.0f : t->bias[column];
  float total = t->adds ? *out : 0.0f;
  for (size_t i = 0, n; i < t->pairs || i == 0; i += n) {
    n = t->pairs - i < ETI_BGEMM_CHUNK_PAIRS ? t->pairs - i : ETI_BGEMM_CHUNK_PAIRS;
    const float sum = chunk_sum(a + ETI_BGEMM_PAIR * i * term, w + i * NR * ETI_BGEMM_PAIR, n,
                                is_f32, i == 0 ? bias : 0.0f);
    total = i == 0 && !t->adds ? sum : add(total, sum);
    if (n == 0) break;
  }
  return total;
}

static void compute(const eti_btile *t, bool is_f32) {
  ET_ASSERT(eti_btile_is_valid(t));
  for (size_t r = 0; r < t->m; r++) {
    for (size_t c = 0; c < t->n; c++) t->out[r * t->out_step + c] = element(t, r, c, is_f32);
  }
}

static void tile(const eti_btile *t) {
  compute(t, false);
}

void eti_bgemm_plain_tile_of_f32(const eti_btile *t) {
  compute(t, true);
}

static void copy(void *dst, const float *src, size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, uint16_t) && ETI_HOLDS(src, n, float));
  for (size_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, src + i, sizeof bits);
    if (src[i] != src[i]) {
      bits |= 1u << 22;
    } else if ((bits & 0x7f800000u) == 0) {
      bits &= 1u << 31;
    } else {
      bits += 0x7fffu + (bits >> 16 & 1u);
    }
    ((uint16_t *)dst)[i] = (uint16_t)(bits >> 16);
  }
}

const eti_bgemm_micro eti_bgemm_scalar = {
    .term_bytes = sizeof(uint16_t),
    .rows_of_a_tile = 1,
    .tile = tile,
    .copy = copy,
};
