// qgemm_scalar.c — the products of qgemm.h for any machine: the specification and the fallback.
// Also chooses between the variants.
#include "kernels/micro/qgemm/qgemm.h"

#include <string.h>

#include "kernels/micro/isa_select.h"

enum { NR = ETI_QGEMM_NR, QUAD = ETI_QGEMM_QUAD };

// Adds the products of a row and a panel. Sums wrap: they are unsigned.
static void sum_row(const eti_qtile *t, size_t row, const int8_t *w, uint32_t sums[NR]) {
  const int8_t *const a = (const int8_t *)t->a + row * t->a_step;
  for (size_t q = 0; q < t->quads; q++) {
    for (size_t c = 0; c < NR; c++) {
      for (size_t i = 0; i < QUAD; i++) sums[c] += (uint32_t)(a[q * QUAD + i] * *w++);
    }
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

static size_t columns_of(size_t n, size_t first) {
  return n - first < NR ? n - first : NR;
}

static void panel_i8(const eti_qtile *t, size_t row, size_t first) {
  uint32_t sums[NR];
  for (size_t c = 0; c < NR; c++) sums[c] = (uint32_t)t->start[first + c];
  sum_row(t, row, t->w + first / NR * eti_qpanel_bytes(t->quads), sums);
  int8_t *const out = (int8_t *)t->out + row * t->out_step + first;
  for (size_t c = 0; c < columns_of(t->n, first); c++)
    out[c] = limited(sums[c], t->scale[first + c], t->add[first + c], t->high, t->low, t->zero);
}

static void panel_f32(const eti_qtile *t, size_t row, size_t first) {
  uint32_t sums[NR] = {0};
  sum_row(t, row, t->w + first / NR * eti_qpanel_bytes(t->quads), sums);
  float *const out = (float *)t->out + row * t->out_step + first;
  const uint32_t zero = (uint32_t)t->row_zero[row * t->row_step];
  const float row_scale = t->row_scale[row * t->row_step];
  for (size_t c = 0; c < columns_of(t->n, first); c++) {
    uint32_t sum = sums[c] - zero * (uint32_t)t->start[first + c];
    if (t->column_zero != NULL)
      sum -= (uint32_t)t->row_sum[row * t->row_step] * (uint32_t)t->column_zero[first + c];
    out[c] = (float)(int32_t)sum * (row_scale * t->scale[first + c]) + t->add[first + c];
  }
}

static void tile_i8(const eti_qtile *t) {
  ET_ASSERT(eti_qtile_is_valid(t, false));
  for (size_t r = 0; r < t->m; r++) {
    for (size_t c = 0; c < t->n; c += NR) panel_i8(t, r, c);
  }
}

static void tile_f32(const eti_qtile *t) {
  ET_ASSERT(eti_qtile_is_valid(t, true));
  for (size_t r = 0; r < t->m; r++) {
    for (size_t c = 0; c < t->n; c += NR) panel_f32(t, r, c);
  }
}

static void depthwise(const eti_qdepthwise *d) {
  ET_ASSERT(eti_qdepthwise_is_valid(d));
  const size_t panel = eti_qpanel_bytes((d->n_taps + QUAD - 1) / QUAD);
  for (size_t i = 0; i < d->n; i++) {
    const int8_t *const *const taps = d->taps + i * d->n_taps;
    for (size_t c = 0; c < d->channels; c++) {
      const int8_t *const w = d->w + c / NR * panel + c % NR * QUAD;
      uint32_t sum = (uint32_t)d->start[c];
      for (size_t k = 0; k < d->n_taps; k++)
        sum += (uint32_t)(taps[k][c] * w[k / QUAD * NR * QUAD + k % QUAD]);
      d->out[i * d->out_step + c] = limited(sum, d->scale[c], d->add[c], d->high, d->low, d->zero);
    }
  }
}

static void copy(void *dst, const int8_t *src, size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, int8_t) && ETI_HOLDS(src, n, int8_t));
  if (n > 0) memcpy(dst, src, n);
}

static void copy_windows(const eti_qwindows *w) {
  ET_ASSERT(eti_qwindows_are_valid(w, 1));
  for (size_t i = 0; i < w->n; i++) {
    for (size_t p = 0; p < w->pieces; p++) {
      int8_t *const to = (int8_t *)w->to + i * w->to_step + p * w->bytes;
      if (w->bytes > 0) memcpy(to, w->from + i * w->step + p * w->piece_step, w->bytes);
    }
  }
}

const eti_qgemm_micro eti_qgemm_scalar = {
    .form = ETI_QROWS_I8,
    .rows_of_a_tile = 1,
    .tile_i8 = tile_i8,
    .tile_f32 = tile_f32,
    .depthwise = depthwise,
    .copy = copy,
    .copy_windows = copy_windows,
};

const eti_qgemm_micro *eti_qgemm_micro_best(void) {
  static const eti_qgemm_micro *const variants[ETI_ISA_COUNT] = {
      [ETI_ISA_SCALAR] = &eti_qgemm_scalar,
#if ETI_HAVE_X86
      [ETI_ISA_AVX2] = &eti_qgemm_avx2,
      [ETI_ISA_AVX512] = &eti_qgemm_avx512,
#elif ETI_HAVE_NEON
      [ETI_ISA_NEON] = &eti_qgemm_neon,
#endif
  };
  static const eti_qgemm_micro *const dots[ETI_DOT_COUNT] = {
#if ETI_HAVE_X86
      [ETI_DOT_AVX_VNNI] = &eti_qgemm_avxvnni,
      [ETI_DOT_AVX512_VNNI] = &eti_qgemm_avx512vnni,
      [ETI_DOT_AMX] = &eti_qgemm_amx,
#elif ETI_HAVE_NEON
      [ETI_DOT_NEON] = &eti_qgemm_neondot,
      [ETI_DOT_I8MM] = &eti_qgemm_neoni8mm,
#else
      [ETI_DOT_NONE] = NULL,
#endif
  };
  const eti_qgemm_micro *const dot = dots[eti_cpu_dot()];
  const eti_qgemm_micro *const best = dot != NULL ? dot : variants[eti_cpu_isa()];
  return best != NULL ? best : &eti_qgemm_scalar;
}
