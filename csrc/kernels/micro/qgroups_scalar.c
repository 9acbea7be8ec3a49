// qgroups_scalar.c — the products of qgroups.h for any machine: the specification and the fallback.
// Also chooses between the variants.
#include "kernels/micro/qgroups.h"

#include <string.h>

#include "kernels/micro/select.h"
#include "runtime/half.h"

enum { NR = ETI_QGROUPS_NR, STEP = ETI_QGROUPS_STEP, HALF = STEP / 2 };

// Sums wrap: they are unsigned.
static void sum_step(const int8_t a[STEP], const uint8_t *w, uint32_t sums[NR]) {
  for (size_t c = 0; c < NR; c++) {
    int32_t sum = 0;
    for (size_t i = 0; i < HALF; i++) {
      const int32_t codes = w[c * HALF + i];
      sum += a[i] * (codes & 15) + a[HALF + i] * (codes >> 4);
    }
    sums[c] += (uint32_t)sum;
  }
}

// The sums of one row over a group, exact but for wrapping.
static void sum_group(const eti_qgroups_tile *t, const int8_t *a, size_t j, uint32_t sums[NR]) {
  const uint8_t *w = t->w + j * eti_qgroups_group_bytes(t->group);
  uint32_t terms = 0;
  memset(sums, 0, NR * sizeof *sums);
  for (size_t k = 0; k < t->group; k += STEP, w += ETI_QGROUPS_STEP_BYTES) {
    const size_t n = t->group - k < STEP ? t->group - k : STEP;
    int8_t step[STEP] = {0};
    memcpy(step, a + k, n);
    int32_t sum = 0;
    for (size_t i = 0; i < STEP; i++) sum += step[i];
    terms += (uint32_t)sum;
    sum_step(step, w, sums);
  }
  for (size_t c = 0; c < NR; c++) {
    const int32_t zero = t->zero == NULL ? 8 : t->zero[j * NR + c] + 8;
    sums[c] -= (uint32_t)zero * terms;
  }
}

static float scale_at(const eti_qgroups_tile *t, size_t i) {
  if (t->is_bf16) return eti_bf16_to_f32(((const uint16_t *)t->scale)[i]);
  return ((const float *)t->scale)[i];
}

static void tile(const eti_qgroups_tile *t) {
  for (size_t r = 0; r < t->m; r++) {
    const int8_t *const a = t->a + r * t->n_groups * t->group;
    float totals[NR] = {0};
    for (size_t j = 0; j < t->n_groups; j++) {
      uint32_t sums[NR];
      sum_group(t, a + j * t->group, j, sums);
      for (size_t c = 0; c < NR; c++) {
        totals[c] += (float)(int32_t)sums[c] * scale_at(t, j * NR + c);
      }
    }
    const float zero = (float)t->row_zero[r];
    float *const out = t->out + r * t->out_step;
    for (size_t c = 0; c < t->n; c++) {
      out[c] = (totals[c] - zero * t->sum[c]) * t->row_scale[r] + t->add[c];
    }
  }
}

const eti_qgroups_micro eti_qgroups_scalar = {tile, NULL};

const eti_qgroups_micro *eti_qgroups_micro_best(void) {
  static const eti_qgroups_micro *const variants[ETI_ISA_COUNT] = {
      [ETI_ISA_SCALAR] = &eti_qgroups_scalar,
#if ETI_HAVE_X86
      [ETI_ISA_AVX2] = &eti_qgroups_avx2,
      [ETI_ISA_AVX512] = &eti_qgroups_avx2,
#endif
  };
  const eti_qgroups_micro *const best = variants[eti_cpu_isa()];
  return best != NULL ? best : &eti_qgroups_scalar;
}
