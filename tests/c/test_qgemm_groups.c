// test_qgemm_groups.c — compares every variant of the products of rows of i8 and weights of 4 and 8
// bits in groups with the scalar one, by equality of bits: all numbers of rows around a tile, some
// around tiles of AMX, tails of columns and of groups, zero points, minimums, scales of f32, bf16
// and f16, extremes. Operands lie in memory of exactly their size.
#include "et_test.h"

#include "kernels/micro/isa_select.h"
#include "kernels/micro/qgemm/qgemm_groups.h"
#include "random_elements.h"
#include "runtime/half.h"

enum { NR = ETI_QGROUPS_NR, EVERY_M = 13, MAX_M = 130, MAX_N = 2 * NR + 1, MAX_VARIANTS = 8 };

typedef struct operands {
  eti_qgroups_tile t;  // without `begins` and `out`
  void *blocks[14];
  size_t n_blocks;
} operands;

static void *claim(operands *o, size_t bytes) {
  return o->blocks[o->n_blocks++] = malloc(bytes);
}

static float *some_floats(operands *o, size_t n) {
  float *const f = claim(o, n * sizeof *f);
  for (size_t i = 0; i < n; i++) f[i] = (float)next_random() / (1 << 24) - 0.5f;
  return f;
}

// Bytes of all values, or only the least and the greatest ones.
static void *some_bytes(operands *o, size_t n, bool is_extreme, int8_t low, int8_t high) {
  int8_t *const b = claim(o, n);
  for (size_t i = 0; i < n; i++) {
    b[i] = (int8_t)next_random();
    if (is_extreme) b[i] = i % 64 < 60 ? low : high;
  }
  return b;
}

// Numbers in (-0.5, 0.5), every fourth one of f16 a subnormal.
static uint16_t *some_halves(operands *o, size_t n, uint8_t dtype) {
  const float *const f = some_floats(o, n);
  uint16_t *const halves = claim(o, n * sizeof *halves);
  for (size_t i = 0; i < n; i++) {
    halves[i] = dtype == ET_BF16 ? eti_f32_to_bf16(f[i]) : eti_f32_to_f16(f[i]);
    if (dtype == ET_F16 && i % 4 == 0) halves[i] = (uint16_t)(next_random() & 0x83FF);
  }
  return halves;
}

static operands make(size_t m, size_t n, size_t group, size_t n_groups, size_t kind) {
  operands o = {.n_blocks = 0};
  const size_t panels = (n + NR - 1) / NR, columns = panels * NR, numbers = columns * n_groups;
  const bool is_extreme = kind % 4 == 3;
  static const uint8_t dtypes[] = {ET_F32, ET_BF16, ET_F16};
  o.t = (eti_qgroups_tile){.group = group, .n_groups = n_groups, .m = m, .n = n, .out_step = MAX_N};
  o.t.a = some_bytes(&o, m * group * n_groups, is_extreme, -128, 127);
  o.t.bits = kind / 2 % 3 == 1 ? 8 : 4;
  const size_t w_bytes = panels * n_groups * eti_qgroups_group_bytes(group, o.t.bits);
  const bool is_bytes = o.t.bits == 8;
  o.t.w = some_bytes(&o, w_bytes, is_extreme, is_bytes ? -128 : -1, is_bytes ? 127 : 0);
  o.t.dtype = dtypes[kind % 3];
  o.t.scale = some_floats(&o, numbers);
  if (kind % 2 != 0 && kind % 5 < 3) o.t.zero = some_bytes(&o, numbers, is_extreme, -128, 127);
  if (kind % 2 == 0 && kind % 5 < 3) o.t.min = some_floats(&o, numbers);
  o.t.sum = some_floats(&o, columns);
  o.t.add = some_floats(&o, columns);
  o.t.row_scale = some_floats(&o, m);
  int32_t *const zeros = claim(&o, m * sizeof *zeros);
  for (size_t r = 0; r < m; r++) zeros[r] = (int8_t)next_random();
  o.t.row_zero = zeros;
  if (o.t.dtype != ET_F32) {
    o.t.scale = some_halves(&o, numbers, o.t.dtype);
    if (o.t.min != NULL) o.t.min = some_halves(&o, numbers, o.t.dtype);
  }
  return o;
}

static void compute(const eti_qgroups_micro *micro, const operands *o, float (*out)[MAX_N]) {
  eti_qgroups_tile t = o->t;
  const size_t parts = eti_qgroups_parts(t.group, t.n_groups);
  int32_t *const begins = malloc(t.m * parts * sizeof *begins);
  memset(out, 0x55, t.m * sizeof *out);
  if (micro->begins != NULL) micro->begins(t.a, t.m, t.group, t.n_groups, begins);
  t.begins = begins;
  t.out = out[0];
  micro->tile(&t);
  free(begins);
}

static bool agrees(const eti_qgroups_micro *micro, const operands *o, float (*wanted)[MAX_N]) {
  float got[MAX_M][MAX_N];
  compute(micro, o, got);
  const eti_qgroups_tile *const t = &o->t;
  for (size_t i = 0; i < t->m * MAX_N; i++) {
    const size_t r = i / MAX_N, c = i % MAX_N;
    if (memcmp(&got[r][c], &wanted[r][c], sizeof(float)) != 0) {
      printf(
          "m %zu n %zu group %zu of %zu bits %d zeros %d minimums %d %s: [%zu, %zu]: expected %a, "
          "got %a\n",
          t->m, t->n, t->group, t->n_groups, t->bits, t->zero != NULL, t->min != NULL,
          et_dtype_name((et_dtype)t->dtype), r, c, (double)wanted[r][c], (double)got[r][c]);
      return false;
    }
  }
  return true;
}

// The variants of this CPU that multiply groups of so many terms.
static size_t variants(size_t group, const eti_qgroups_micro *found[MAX_VARIANTS]) {
  size_t n = 0;
  for (int isa = 1; isa < ETI_ISA_COUNT; isa++) {
    eti_cpu_isa_limit((eti_isa)isa);
    if (eti_cpu_isa() == (eti_isa)isa) found[n++] = eti_qgroups_micro_best(group);
  }
  for (int dot = 1; dot < ETI_DOT_COUNT; dot++) {
    if (eti_cpu_dot_limit((eti_dot)dot)) found[n++] = eti_qgroups_micro_best(group);
  }
  eti_cpu_isa_limit(ETI_ISA_COUNT);
  return n;
}

static void compare(size_t m, size_t n, size_t group, size_t n_groups, size_t kind) {
  const eti_qgroups_micro *found[MAX_VARIANTS];
  const size_t n_variants = variants(group, found);
  operands o = make(m, n, group, n_groups, kind);
  float wanted[MAX_M][MAX_N];
  compute(&eti_qgroups_scalar, &o, wanted);
  for (size_t v = 0; v < n_variants; v++) EXPECT(agrees(found[v], &o, wanted));
  for (size_t i = 0; i < o.n_blocks; i++) free(o.blocks[i]);
}

static void tiles_of_every_size_have_the_bits_of_the_scalar_one(void) {
  static const size_t columns[] = {1, NR - 1, NR, MAX_N};
  for (size_t m = 1; m <= EVERY_M; m++) {
    for (size_t i = 0; i < 48; i++) compare(m, columns[i % 4], 32, 1 + i / 24, i / 4 + m);
  }
}

// Groups of few and of many terms, in pieces: the variant with tiles decodes 512 terms of up to 16
// groups at once, and keeps totals of 128 rows.
static void tiles_of_many_rows_have_the_bits_of_the_scalar_one(void) {
  static const size_t rows[] = {15, 16, 17, 24, 32, 33, 49, MAX_M};
  static const struct {
    size_t group, n_groups;
  } cuts[] = {
      {4, 40},  {20, 3},  {32, 35}, {40, 13}, {64, 17}, {72, 2},   {100, 2},
      {128, 9}, {192, 2}, {256, 3}, {520, 2}, {600, 1}, {1024, 2}, {1040, 1},
  };
  static const size_t columns[] = {NR - 1, NR, 2 * NR - 3, MAX_N};
  size_t kind = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    for (size_t j = 0; j < sizeof cuts / sizeof *cuts; j++) {
      for (size_t k = 0; k < 4; k++, kind++) {
        compare(rows[i], columns[(j + k) % 4], cuts[j].group, cuts[j].n_groups, kind);
      }
    }
  }
}

static void groups_of_every_size_have_the_bits_of_the_scalar_one(void) {
  for (size_t group = 1; group <= 2 * ETI_QGROUPS_PART + 1; group++) {
    for (size_t m = 1; m <= 6; m++) {
      compare(m, NR + 5, group, 1 + group % 3, group + m);
      compare(m, NR + 5, group, 1 + group % 3, group + m + 2);
    }
  }
}

static void long_groups_of_extremes_have_the_bits_of_the_scalar_one(void) {
  for (size_t m = 1; m <= 6; m++) {
    for (size_t kind = 0; kind < 12; kind++) compare(m, 3, 4096 + kind, 2, kind);
  }
}

static const et_test tests[] = {
    ET_CASE(tiles_of_every_size_have_the_bits_of_the_scalar_one),
    ET_CASE(tiles_of_many_rows_have_the_bits_of_the_scalar_one),
    ET_CASE(groups_of_every_size_have_the_bits_of_the_scalar_one),
    ET_CASE(long_groups_of_extremes_have_the_bits_of_the_scalar_one),
};
ET_TEST_MAIN(tests)
