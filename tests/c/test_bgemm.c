// test_bgemm.c — compares every variant of the bf16 micro-kernels with the plain one, by equality
// of bits: all numbers of rows, tails of columns, parts that are added, denormals, infinities, NaN.
#include "et_test.h"

#include "kernels/micro/bgemm/bgemm.h"
#include "kernels/micro/isa_select.h"

#include <math.h>
#include <stdlib.h>

#if ETI_HAVE_NEON
#include <arm_neon.h>
#elif ETI_HAVE_X86
#include <immintrin.h>
#endif

enum { MAX_M = 26, MAX_N = 150, MAX_PAIRS = 300, MAX_PANELS = 10 };

typedef enum contents {
  ORDINARY,
  SMALL,     // whose products are near the least normal number
  ANYTHING,  // also infinities and NaN
} contents;

static uint64_t seed;

static uint64_t next_random(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return seed >> 33;
}

static float some_float(contents kind) {
  static const float special[] = {0.0f,      -0.0f,    0x1p-130f,  -0x1p-149f, 0x1p-63f,
                                  -0x1p-75f, 0x1p-75f, 0x1p-126f,  -0x1p-126f, 0x1.8p-63f,
                                  1.0f,      -1.0f,    0x1.01p+0f, 0x1p-76f,   INFINITY,
                                  -INFINITY, NAN,      0x1.fep127f};
  const size_t n = kind == SMALL ? 14 : 18;
  const uint64_t r = next_random();
  if (kind != ORDINARY && r % 2 == 0) return special[r / 2 % n];
  const float x = (float)(int64_t)(next_random() % 4097) / 2048.0f - 1.0f;
  return kind == SMALL ? x * 0x1p-64f : x;
}

static uint16_t bf16_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return (uint16_t)(bits >> 16);
}

// Operands of a product.
typedef struct operands {
  float rows[MAX_M][2 * MAX_PAIRS], bias[MAX_PANELS * ETI_BGEMM_NR], old[MAX_M][MAX_N];
  uint16_t w[MAX_PANELS * MAX_PAIRS * ETI_BGEMM_NR * ETI_BGEMM_PAIR];
} operands;

static void fill(operands *o, contents kind) {
  for (size_t i = 0; i < MAX_M; i++) {
    for (size_t k = 0; k < 2 * MAX_PAIRS; k++) o->rows[i][k] = some_float(kind);
    for (size_t j = 0; j < MAX_N; j++) {
      // The result of an earlier part has no denormals.
      const float x = some_float(kind);
      o->old[i][j] = fabsf(x) < 0x1p-126f ? 0.0f : x;
    }
  }
  for (size_t i = 0; i < sizeof o->w / sizeof o->w[0]; i++) o->w[i] = bf16_of(some_float(kind));
  for (size_t i = 0; i < MAX_PANELS * ETI_BGEMM_NR; i++) o->bias[i] = some_float(kind);
}

static void compute(const eti_bgemm_micro *micro, const operands *o, size_t m, size_t n,
                    size_t pairs, bool adds, float (*out)[MAX_N]) {
  static _Alignas(64) char rows[MAX_M * 2 * MAX_PAIRS * sizeof(float)];
  const size_t step = 2 * pairs * micro->term_bytes;
  for (size_t r = 0; r < m; r++) micro->copy(rows + r * step, o->rows[r], 2 * pairs);
  memcpy(out, o->old, sizeof o->old);
  const eti_btile t = {.a = rows,
                       .a_step = step,
                       .w = o->w,
                       .w_step = eti_bpanel_elements(MAX_PAIRS),
                       .pairs = pairs,
                       .bias = adds || n % 2 == 0 ? NULL : o->bias,
                       .adds = adds,
                       .m = m,
                       .n = n,
                       .out = out[0],
                       .out_step = MAX_N};
  micro->tile(&t);
}

static bool is_same(float a, float b) {
  return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static bool agrees(const eti_bgemm_micro *micro, const operands *o, size_t m, size_t n,
                   size_t pairs, bool adds, float (*wanted)[MAX_N]) {
  static float got[MAX_M][MAX_N];
  compute(micro, o, m, n, pairs, adds, got);
  for (size_t i = 0; i < MAX_M; i++) {
    for (size_t j = 0; j < MAX_N; j++) {
      if (!is_same(got[i][j], wanted[i][j])) {
        printf("m %zu n %zu pairs %zu adds %d: [%zu, %zu]: expected %a, got %a\n", m, n, pairs,
               adds, i, j, (double)wanted[i][j], (double)got[i][j]);
        return false;
      }
    }
  }
  return true;
}

// ---- tiles of AMX

#if ETI_HAVE_X86

static float wide_of(uint16_t x) {
  const uint32_t bits = (uint32_t)x << 16;
  float wide;
  memcpy(&wide, &bits, sizeof wide);
  return wide;
}

// The contract of AMX in plain C, with denormals flushed by the processor.
static float sum_by_tiles(const uint16_t *row, const uint16_t *w, size_t pairs, float sum) {
  enum { GROUP = ETI_BGEMM_TILE_TERMS / ETI_BGEMM_PAIR, STEP = ETI_BGEMM_NR * ETI_BGEMM_PAIR };
  for (size_t first = 0; first < pairs; first += GROUP) {
    float chains[2] = {0.0f, 0.0f};
    for (size_t i = first; i < pairs && i < first + GROUP; i++) {
      for (size_t odd = 0; odd < 2; odd++) {
        chains[odd] = fmaf(wide_of(row[2 * i + odd]), wide_of(w[i * STEP + odd]), chains[odd]);
      }
    }
    sum += chains[0] + chains[1];
  }
  return sum;
}

// Initial sums of a product.
typedef enum start { ZERO, BIAS, OLD, START_COUNT } start;
typedef float results[START_COUNT][MAX_M][MAX_N];

static void compute_by_contract(const operands *o, size_t pairs, results *out) {
  static uint16_t row[2 * MAX_PAIRS];
  for (size_t i = 0; i < MAX_M; i++) {
    eti_bgemm_micro_best()->copy(row, o->rows[i], 2 * pairs);
    for (size_t j = 0; j < MAX_N; j++) {
      const size_t panel = j / ETI_BGEMM_NR, column = j % ETI_BGEMM_NR;
      const uint16_t *const w =
          o->w + panel * eti_bpanel_elements(MAX_PAIRS) + column * ETI_BGEMM_PAIR;
      (*out)[ZERO][i][j] = sum_by_tiles(row, w, pairs, 0.0f);
      (*out)[BIAS][i][j] = sum_by_tiles(row, w, pairs, o->bias[j]);
      (*out)[OLD][i][j] = sum_by_tiles(row, w, pairs, o->old[i][j]);
    }
  }
}

static bool keeps_contract_of_tiles(const operands *o, const results *contract, size_t m, size_t n,
                                    size_t pairs, bool adds) {
  static float got[MAX_M][MAX_N];
  compute(eti_bgemm_micro_best(), o, m, n, pairs, adds, got);
  const start from = adds ? OLD : n % 2 == 0 ? ZERO : BIAS;
  for (size_t i = 0; i < MAX_M; i++) {
    for (size_t j = 0; j < MAX_N; j++) {
      const float wanted = i < m && j < n ? (*contract)[from][i][j] : o->old[i][j];
      if (is_same(got[i][j], wanted)) continue;
      printf("m %zu n %zu pairs %zu adds %d: [%zu, %zu]: expected %a, got %a\n", m, n, pairs, adds,
             i, j, (double)wanted, (double)got[i][j]);
      return false;
    }
  }
  return true;
}

static void expect_contract_of_tiles(contents kind) {
  static operands o;
  static results contract;
  static const size_t rows[] = {1, 2, 15, 16, 17, 26}, columns[] = {1, 32, 35, 48, 150},
                      pairs[] = {0, 1, 7, 16, 33, 256, 300};
  if (!eti_cpu_bf16_limit(ETI_BF16_AMX)) return;
  seed = 1 + (uint64_t)kind;
  fill(&o, kind);
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040u);  // results and operands that are denormal become zeros
  for (size_t p = 0; p < 7; p++) {
    compute_by_contract(&o, pairs[p], &contract);
    for (size_t i = 0; i < 6 * 5 * 2; i++) {
      EXPECT(keeps_contract_of_tiles(&o, &contract, rows[i / 10], columns[i / 2 % 5], pairs[p],
                                     i % 2 == 1));
    }
  }
  _mm_setcsr(before);
  eti_cpu_isa_limit(ETI_ISA_COUNT);
}
#else
static void expect_contract_of_tiles(contents kind) {
  (void)kind;
}
#endif

static void tiles_of_amx_add_groups_of_two_chains(void) {
  expect_contract_of_tiles(ORDINARY);
}
static void small_sums_are_flushed_in_tiles_of_amx(void) {
  expect_contract_of_tiles(SMALL);
}
static void infinities_and_nan_go_through_tiles_of_amx(void) {
  expect_contract_of_tiles(ANYTHING);
}

// ---- other variants

// The variants of this CPU whose bits are those of the plain one.
static size_t variants(const eti_bgemm_micro *found[ETI_ISA_COUNT + ETI_BF16_COUNT]) {
  size_t n = 0;
  for (int isa = 1; isa < ETI_ISA_COUNT; isa++) {
    eti_cpu_isa_limit((eti_isa)isa);
    if (eti_cpu_isa() == (eti_isa)isa) found[n++] = eti_bgemm_micro_best();
  }
  for (int bf16 = 1; bf16 < ETI_BF16_COUNT; bf16++) {
    if (bf16 != ETI_BF16_AMX && eti_cpu_bf16_limit((eti_bf16)bf16))
      found[n++] = eti_bgemm_micro_best();
  }
  eti_cpu_isa_limit(ETI_ISA_COUNT);
  return n;
}

static void expect_agreement(contents kind) {
  static operands o;
  const eti_bgemm_micro *found[ETI_ISA_COUNT + ETI_BF16_COUNT];
  const size_t n_variants = variants(found);
  static const size_t columns[] = {1, 35, 64, 150}, pairs[] = {0, 1, 7, 256, 300};
  seed = 1 + (uint64_t)kind;
  fill(&o, kind);
  for (size_t m = 1; m <= MAX_M; m += m < 3 ? 1 : m < 13 ? 3 : 6) {
    for (size_t i = 0; i < 20; i++) {
      static float wanted[MAX_M][MAX_N];
      const size_t n = columns[i % 4], k = pairs[i / 4];
      compute(&eti_bgemm_scalar, &o, m, n, k, m % 4 == 1, wanted);
      for (size_t v = 0; v < n_variants; v++)
        EXPECT(agrees(found[v], &o, m, n, k, m % 4 == 1, wanted));
    }
  }
}

static void tiles_of_every_size_have_the_bits_of_the_plain_one(void) {
  expect_agreement(ORDINARY);
}
static void sums_near_the_least_normal_number_are_flushed_alike(void) {
  expect_agreement(SMALL);
}
static void infinities_and_nan_go_through_alike(void) {
  expect_agreement(ANYTHING);
}

#if ETI_HAVE_NEON
// The result of BFDOT, or of BFMLALT and BFMLALB, for a sum of 1 and two products.
static float added_to_one(float odd, float even, bool is_dot) {
  const uint32x2_t pairs = vdup_n_u32((uint32_t)bf16_of(odd) << 16 | bf16_of(even));
  const uint16x8_t a = vreinterpretq_u16_u32(vcombine_u32(pairs, pairs));
  const uint16x8_t ones = vdupq_n_u16(bf16_of(1.0f));
  float32x4_t sum = vdupq_n_f32(1.0f);
  if (is_dot) {
    __asm__(".arch_extension bf16\nbfdot %0.4s, %1.8h, %2.8h" : "+w"(sum) : "w"(a), "w"(ones));
  } else {
    __asm__(".arch_extension bf16\nbfmlalt %0.4s, %1.8h, %2.8h\nbfmlalb %0.4s, %1.8h, %2.8h"
            : "+w"(sum)
            : "w"(a), "w"(ones));
  }
  return vgetq_lane_f32(sum, 0);
}
#endif

static void bfdot_gives_other_bits_than_two_steps(void) {
#if ETI_HAVE_NEON
  if (eti_cpu_bf16() != ETI_BF16_NEON) return;
  EXPECT(added_to_one(0x1p-24f, 0x1p-24f, false) == 1.0f);
  EXPECT(added_to_one(0x1p-24f, 0x1p-24f, true) == 0x1.000002p+0f);
  EXPECT(added_to_one(0x1p-24f, 0.0f, false) == 1.0f);
  EXPECT(added_to_one(0x1p-24f, 0.0f, true) == 0x1.000002p+0f);  // rounded to odd
#endif
}

static const et_test tests[] = {
    ET_CASE(tiles_of_every_size_have_the_bits_of_the_plain_one),
    ET_CASE(sums_near_the_least_normal_number_are_flushed_alike),
    ET_CASE(infinities_and_nan_go_through_alike),
    ET_CASE(tiles_of_amx_add_groups_of_two_chains),
    ET_CASE(small_sums_are_flushed_in_tiles_of_amx),
    ET_CASE(infinities_and_nan_go_through_tiles_of_amx),
    ET_CASE(bfdot_gives_other_bits_than_two_steps),
};
ET_TEST_MAIN(tests)
