// qgemm_groups_scalar.c — the products of qgemm_groups.h for any machine, written so that compilers
// vectorise them: little-endian words of two bytes of codes. The fallback. Also chooses between the
// variants.
#include "kernels/micro/qgemm/qgemm_groups.h"

#include <string.h>

#include "kernels/micro/isa_select.h"
#include "kernels/micro/math/math_core.h"
#include "runtime/half.h"

enum { NR = ETI_QGROUPS_NR, STEP = ETI_QGROUPS_STEP, QUAD = STEP / 2, WORDS = 8, VECTORS = 4 };

typedef uint16_t words
    __attribute__((vector_size(WORDS * sizeof(uint16_t)), aligned(1), may_alias));
typedef int32_t sums4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint32_t wraps4 __attribute__((vector_size(16), aligned(4), may_alias));

static inline words in_turn(int8_t even, int8_t odd) {
  const uint16_t a = (uint16_t)even, b = (uint16_t)odd;
  return (words){a, b, a, b, a, b, a, b};
}

// Adds the products of a step in 16 bits, to two lanes per column, with two bytes of codes each. A
// lane adds at most 16 products of 15 and 128 within one part.
static inline void add_step(const int8_t a[STEP], const uint8_t *w, words lanes[VECTORS]) {
  const words a0 = in_turn(a[0], a[2]), a1 = in_turn(a[1], a[3]);
  const words a4 = in_turn(a[4], a[6]), a5 = in_turn(a[5], a[7]);
  for (size_t v = 0; v < VECTORS; v++) {
    const words codes = *(const words *)(const void *)(w + v * sizeof codes);
    lanes[v] += a0 * (codes & 15) + a4 * (codes >> 4 & 15);
    lanes[v] += a1 * (codes >> 8 & 15) + a5 * (codes >> 12);
  }
}

// Adds the products of n terms of one part.
static void add_part(const int8_t *a, size_t n, const uint8_t *w, uint32_t sums[NR]) {
  words lanes[VECTORS] = {{0}};
  size_t k = 0;
  for (; k + STEP <= n; k += STEP, w += ETI_QGROUPS_STEP_BYTES) add_step(a + k, w, lanes);
  if (k < n) {
    int8_t last[STEP] = {0};
    memcpy(last, a + k, n - k);
    add_step(last, w, lanes);
  }
  for (size_t v = 0; v < VECTORS; v++) {
    const sums4 low = (sums4)((wraps4)lanes[v] << 16) >> 16, high = (sums4)lanes[v] >> 16;
    *(wraps4 *)(sums + v * NR / VECTORS) += (wraps4)(low + high);
  }
}

// Adds the products of n terms and codes of 8 bits.
static void add_bytes(const int8_t *a, size_t n, const uint8_t *w, uint32_t sums[NR]) {
  for (size_t k = 0; k < n; k += QUAD, w += NR * QUAD) {
    int8_t four[QUAD] = {0};
    memcpy(four, a + k, n - k < QUAD ? n - k : QUAD);
    for (size_t c = 0; c < NR; c++) {
      for (size_t i = 0; i < QUAD; i++) sums[c] += (uint32_t)(four[i] * (int8_t)w[c * QUAD + i]);
    }
  }
}

// The sums of one row over a group, exact except for wrapping. Returns the sum of its terms.
static uint32_t sum_group(const eti_qgroups_tile *t, const int8_t *a, size_t j, uint32_t sums[NR]) {
  const uint8_t *w = t->w + j * eti_qgroups_group_bytes(t->group, t->bits);
  uint32_t terms = 0;
  memset(sums, 0, NR * sizeof *sums);
  for (size_t k = 0, n; k < t->group; k += n, w += eti_qgroups_group_bytes(n, t->bits)) {
    n = t->group - k < ETI_QGROUPS_PART ? t->group - k : ETI_QGROUPS_PART;
    int32_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[k + i];
    terms += (uint32_t)sum;
    if (t->bits == 4) {
      add_part(a + k, n, w, sums);
    } else {
      add_bytes(a + k, n, w, sums);
    }
  }
  const int32_t less = t->bits == 4 && t->min == NULL ? 8 : 0;
  for (size_t c = 0; c < NR; c++) {
    const int32_t zero = less + (t->zero == NULL ? 0 : t->zero[j * NR + c]);
    sums[c] -= (uint32_t)zero * terms;
  }
  return terms;
}

// Reads the numbers of a panel for group j.
static void read_numbers(const void *from, uint8_t dtype, size_t j, float to[NR]) {
  if (dtype == ET_F32) {
    memcpy(to, (const float *)from + j * NR, NR * sizeof *to);
    return;
  }
  const uint16_t *const halves = (const uint16_t *)from + j * NR;
  for (size_t c = 0; c < NR; c++) {
    to[c] = dtype == ET_BF16 ? eti_bf16_to_f32(halves[c]) : eti_f16_to_f32(halves[c]);
  }
}

static void add_group(const eti_qgroups_tile *t, size_t j, const uint32_t sums[NR], uint32_t terms,
                      float totals[NR]) {
  float scales[NR], mins[NR];
  read_numbers(t->scale, t->dtype, j, scales);
  for (size_t c = 0; c < NR; c++)
    totals[c] = eti_fma_f32((float)(int32_t)sums[c], scales[c], totals[c]);
  if (t->min == NULL) return;
  read_numbers(t->min, t->dtype, j, mins);
  for (size_t c = 0; c < NR; c++)
    totals[c] = eti_fma_f32((float)(int32_t)terms, mins[c], totals[c]);
}

static void panel_of_rows(const eti_qgroups_tile *t) {
  for (size_t r = 0; r < t->m; r++) {
    const int8_t *const a = t->a + r * t->n_groups * t->group;
    float totals[NR] = {0};
    for (size_t j = 0; j < t->n_groups; j++) {
      uint32_t sums[NR];
      const uint32_t terms = sum_group(t, a + j * t->group, j, sums);
      add_group(t, j, sums, terms, totals);
    }
    const float zero = (float)t->row_zero[r];
    float *const out = t->out + r * t->out_step;
    for (size_t c = 0; c < t->n; c++) {
      out[c] = (totals[c] - zero * t->sum[c]) * t->row_scale[r] + t->add[c];
    }
  }
}

static void tile(const eti_qgroups_tile *t) {
  ET_ASSERT(eti_qgroups_tile_is_valid(t));
  for (size_t c = 0; c < t->n; c += NR) {
    const eti_qgroups_tile panel = eti_qgroups_panel(t, c);
    panel_of_rows(&panel);
  }
}

const eti_qgroups_micro eti_qgroups_scalar = {.tile = tile, .rows_of_a_tile = 1};

const eti_qgroups_micro *eti_qgroups_micro_best(size_t group) {
  static const eti_qgroups_micro *const variants[ETI_ISA_COUNT] = {
      [ETI_ISA_SCALAR] = &eti_qgroups_scalar,
#if ETI_HAVE_X86
      [ETI_ISA_AVX2] = &eti_qgroups_avx2,
      [ETI_ISA_AVX512] = &eti_qgroups_avx2,
#elif ETI_HAVE_NEON
      [ETI_ISA_NEON] = &eti_qgroups_neon,
#endif
  };
  static const eti_qgroups_micro *const dots[ETI_DOT_COUNT] = {
#if ETI_HAVE_X86
      [ETI_DOT_AVX_VNNI] = &eti_qgroups_avxvnni,
      [ETI_DOT_AVX512_VNNI] = &eti_qgroups_avx512vnni,
      [ETI_DOT_AMX] = &eti_qgroups_amx,
#elif ETI_HAVE_NEON
      [ETI_DOT_NEON] = &eti_qgroups_neondot,
      [ETI_DOT_I8MM] = &eti_qgroups_neoni8mm,
#else
      [ETI_DOT_NONE] = NULL,
#endif
  };
  const eti_qgroups_micro *const dot = dots[eti_cpu_dot()];
  const eti_qgroups_micro *const best = dot != NULL ? dot : variants[eti_cpu_isa()];
  return best != NULL && group <= ETI_QGROUPS_MAX ? best : &eti_qgroups_scalar;
}
