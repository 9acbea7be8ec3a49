// qgemm_scalar.c — the products of qgemm.h for any machine: the specification and the fallback.
// Also chooses between the variants.
#include "kernels/micro/qgemm/qgemm.h"

#include "kernels/micro/isa_select.h"

enum { NR = ETI_QGEMM_NR };

// Sums wrap: they are unsigned, and so are their terms.
static uint32_t times(int32_t a, int32_t b) {
  return (uint32_t)(a * b);
}

static void sum_row(const eti_qtile *t, size_t row, uint32_t sums[NR]) {
  const int16_t *const a = t->a + row * t->a_step;
  const int8_t *w = t->w;
  for (size_t p = 0; p < t->pairs; p++, w += 2 * NR) {
    const int32_t a0 = a[2 * p], a1 = a[2 * p + 1];
    for (size_t c = 0; c < NR; c++) sums[c] += times(a0, w[2 * c]) + times(a1, w[2 * c + 1]);
  }
}

// Scales and limits a sum. NaN becomes the high limit. A value that is too low stays so when it is
// truncated to 16 bits. Adding and subtracting 1.5·2^23 rounds halves to even.
static int8_t limited(uint32_t sum, float scale, float add, float high, int32_t low, int32_t zero) {
  float v = (float)(int32_t)sum * scale + add;
  v = v < high ? v : high;
  v = v > -0x1p15f ? v : -0x1p15f;
  const int32_t q = (int32_t)((v + 0x1.8p23f) - 0x1.8p23f) + zero;
  return (int8_t)(q < low ? low : q);
}

static void tile_i8(const eti_qtile *t) {
  ET_ASSERT(eti_qtile_is_valid(t, false));
  for (size_t r = 0; r < t->m; r++) {
    uint32_t sums[NR];
    for (size_t c = 0; c < NR; c++) sums[c] = (uint32_t)t->start[c];
    sum_row(t, r, sums);
    int8_t *const out = (int8_t *)t->out + r * t->out_step;
    for (size_t c = 0; c < t->n; c++)
      out[c] = limited(sums[c], t->scale[c], t->add[c], t->high, t->low, t->zero);
  }
}

static void tile_f32(const eti_qtile *t) {
  ET_ASSERT(eti_qtile_is_valid(t, true));
  for (size_t r = 0; r < t->m; r++) {
    uint32_t sums[NR] = {0};
    sum_row(t, r, sums);
    float *const out = (float *)t->out + r * t->out_step;
    for (size_t c = 0; c < t->n; c++) {
      const uint32_t sum = sums[c] - (uint32_t)t->row_zero[r * t->row_step] * (uint32_t)t->start[c];
      out[c] = (float)(int32_t)sum * (t->row_scale[r * t->row_step] * t->scale[c]) + t->add[c];
    }
  }
}

static void depthwise(const eti_qdepthwise *d) {
  ET_ASSERT(eti_qdepthwise_is_valid(d));
  for (size_t i = 0; i < d->n; i++) {
    const int8_t *const *const taps = d->taps + i * d->n_taps;
    int8_t *const out = d->out + i * d->out_step;
    for (size_t c = 0; c < d->channels; c++) {
      uint32_t sum = (uint32_t)d->start[c];
      for (size_t k = 0; k < d->n_taps; k++)
        sum += times(taps[k][d->offset + c], d->w[(k / 2 * NR + c) * 2 + k % 2]);
      out[c] = limited(sum, d->scale[c], d->add[c], d->high, d->low, d->zero);
    }
  }
}

static void widen(int16_t *dst, const int8_t *src, size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, int16_t) && ETI_HOLDS(src, n, int8_t));
  for (size_t i = 0; i < n; i++) dst[i] = src[i];
}

const eti_qgemm_micro eti_qgemm_scalar = {tile_i8, tile_f32, depthwise, widen};

const eti_qgemm_micro *eti_qgemm_micro_best(void) {
  static const eti_qgemm_micro *const variants[ETI_ISA_COUNT] = {
      [ETI_ISA_SCALAR] = &eti_qgemm_scalar,
#if ETI_HAVE_X86
      [ETI_ISA_AVX2] = &eti_qgemm_avx2,
      [ETI_ISA_AVX512] = &eti_qgemm_avx512,
#endif
  };
  const eti_qgemm_micro *const best = variants[eti_cpu_isa()];
  return best != NULL ? best : &eti_qgemm_scalar;
}
