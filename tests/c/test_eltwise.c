// test_eltwise.c — tests that the element-wise micro-kernels give the same bits on every machine: a
// checksum of each function's results for the same inputs, special values included, is compared
// with one table, for every instruction set of the machine. For a new function the failing test
// prints the row to add.
#include "et_test.h"

#include "kernels/micro/convert/convert.h"
#include "kernels/micro/eltwise/eltwise.h"
#include "runtime/half.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define N 1021u  // prime: no vector length divides it

// ---- checksums (FNV-1a), in which every NaN is the same

static uint32_t add_bytes(uint32_t sum, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) sum = (sum ^ (uint32_t)(value >> 8 * i & 0xFFu)) * 16777619u;
  return sum;
}

static uint32_t checksum(const void *data, size_t n, size_t bytes, bool is_float) {
  uint32_t sum = 2166136261u;
  for (size_t i = 0; i < n; i++) {
    uint64_t bits = 0;
    if (bytes == 4) {
      const uint32_t u = ((const uint32_t *)data)[i];
      bits = is_float && (u & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FC00000u : u;
    } else if (bytes == 8) {
      const uint64_t u = ((const uint64_t *)data)[i];
      const bool nan = is_float && (u & 0x7FFFFFFFFFFFFFFFu) > 0x7FF0000000000000u;
      bits = nan ? 0x7FF8000000000000u : u;
    } else {
      bits = bytes == 2 ? ((const uint16_t *)data)[i] : ((const uint8_t *)data)[i];
    }
    sum = add_bytes(sum, bits, bytes);
  }
  return sum;
}

// ---- inputs: special values, any bits, and everyday numbers by turns

static uint64_t state;
static uint64_t next_random(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

typedef union lanes {
  float f32[N];
  double f64[N];
  uint8_t u8[N];
  int8_t i8[N];
  int16_t i16[N];
  int32_t i32[N];
  int64_t i64[N];
} lanes;

static lanes left, right, out;

static double everyday(size_t i) {
  static const double special[] = {
      0.0, -0.0, 1.0, -1.0, (double)INFINITY, -(double)INFINITY, (double)NAN, 0.5, 0x1p-140};
  const size_t n_special = sizeof special / sizeof special[0];
  if (i < n_special * n_special) return special[i % 2 == 0 ? i / n_special : i % n_special];
  const double unit = (double)(next_random() >> 11) * 0x1p-52 - 1.0;  // [-1, 1)
  static const double scales[] = {1.0, 10.0, 100.0, 0x1p-10};
  return unit * scales[i / 2 % 4];
}

static void fill_floats(bool f64) {
  state = 88172645463325252u;
  lanes *const sides[] = {&left, &right};
  for (size_t side = 0; side < 2; side++) {
    for (size_t i = 0; i < N; i++) {
      const uint64_t bits = next_random();
      const double x = everyday((i + 5 * side) % N);
      const bool raw = i % 2 == 1;
      if (f64) {
        memcpy(&sides[side]->f64[i], &bits, 8);
        if (!raw) sides[side]->f64[i] = x;
      } else {
        sides[side]->f32[i] = raw ? eti_f32_from_bits((uint32_t)bits) : (float)x;
      }
    }
  }
}

// All bits, small numbers, and the ends of the type by turns.
static void fill_integers(size_t bytes) {
  state = 88172645463325252u;
  lanes *const sides[] = {&left, &right};
  for (size_t side = 0; side < 2; side++) {
    for (size_t i = 0; i < N; i++) {
      const uint64_t any = next_random(), few = any % 19 - 9, end = (uint64_t)1 << (8 * bytes - 1);
      const uint64_t values[] = {any, few, end, end - 1, (uint64_t)0 - 1, few, any, few};
      const uint64_t v = values[(i >> (3 * side)) % 8];
      memcpy((char *)sides[side] + i * bytes, &v, bytes);  // the low bytes come first
    }
  }
}

static uint32_t loop_checksum(eti_loop loop, size_t bytes, bool is_float) {
  static const float k32[] = {-0.5f, 0.75f, 1.25f, 0.0f};
  static const double k64[] = {-0.5, 0.75, 1.25, 0.0};
  void *const p[] = {&out, &left, &right};
  const ptrdiff_t s[] = {(ptrdiff_t)bytes, (ptrdiff_t)bytes, (ptrdiff_t)bytes};
  loop(p, s, N, bytes == 4 ? (const void *)k32 : k64);
  return checksum(&out, N, bytes, is_float);
}

// ---- the table

typedef struct float_row {
  const char *name;
  eti_float_loop loop;
  uint32_t f32, f64;
} float_row;

#define UNARY(name) #name, ETI_UNARY_##name
#define BINARY(name) #name, ETI_BINARY_##name
static const float_row float_rows[] = {
    {UNARY(abs), 0xA9B4DAA4, 0xA1076747},        {UNARY(neg), 0xE85F6D24, 0x43711AC7},
    {UNARY(ceil), 0x90F3AFFB, 0x4BC4CFCC},       {UNARY(floor), 0xF93E1F6C, 0xC4BA8EDD},
    {UNARY(round), 0x9DBABC72, 0xF869ABFE},      {UNARY(trunc), 0x41A3CBE7, 0x134256B1},
    {UNARY(sign), 0xD5779DA5, 0xF003BCF8},       {UNARY(relu), 0x3FDF6F16, 0x1E5E656B},
    {UNARY(sqrt), 0x69BC47F9, 0x7D12E9F9},       {UNARY(rsqrt), 0x30F1B3D0, 0xF0A5D408},
    {UNARY(reciprocal), 0x7B78B746, 0x7AD869E9}, {UNARY(square), 0x29E57E83, 0x9F70ED91},
    {UNARY(cube), 0x45590A82, 0xAFE4B425},       {UNARY(inverse_square), 0x4F167E72, 0xAB8AAB9C},
    {UNARY(exp), 0x5F0F0BAD, 0xDD4D7E3C},        {UNARY(expm1), 0xD89AF16F, 0x86589753},
    {UNARY(log), 0x68C3E731, 0xF21A4948},        {UNARY(log2), 0x06A7F63C, 0x71B0D529},
    {UNARY(log10), 0x36B60E6F, 0xBA4EC5C8},      {UNARY(log1p), 0x411B472F, 0x91EB21D3},
    {UNARY(sin), 0x1D244C22, 0x558014F6},        {UNARY(cos), 0xB6E4089C, 0xEC85D282},
    {UNARY(tan), 0xBC03CE5C, 0x0E738457},        {UNARY(asin), 0x286013D5, 0xF7A937F5},
    {UNARY(acos), 0xCE82C224, 0xECC17633},       {UNARY(atan), 0xFBD3DFD6, 0x3183D1FD},
    {UNARY(sinh), 0xEEC82870, 0x74C0BDCE},       {UNARY(cosh), 0x90F3287C, 0xED9A0BDB},
    {UNARY(tanh), 0xE2B3A317, 0xC047B51B},       {UNARY(asinh), 0xE45C96DA, 0xAE5BF0D6},
    {UNARY(acosh), 0x57AFEF90, 0xA438F6DE},      {UNARY(atanh), 0x550B65B6, 0xDA0A1378},
    {UNARY(erf), 0xB5942D8D, 0x401D4BD8},        {UNARY(sigmoid), 0x3AF9F7E7, 0x9F797B19},
    {UNARY(gelu), 0x04663F0B, 0xF70E46EE},       {UNARY(gelu_tanh), 0xA62B675B, 0x2333E272},
    {UNARY(logit), 0x4219422B, 0x96C8EF36},      {UNARY(logit_eps), 0x66C2002D, 0xE918B390},
    {UNARY(clamp), 0x4E3A9CBF, 0x2B900142},      {UNARY(leaky_relu), 0x6B932D65, 0x21B63089},
    {UNARY(hardswish), 0x784D3E4C, 0xC29108C1},  {UNARY(elu), 0x333C38D9, 0x5035F771},
    {UNARY(erfc), 0x60A0A3CD, 0x3331C3F5},       {UNARY(erfcx), 0x3AD6A156, 0xEE8BB2B4},
    {UNARY(erfinv), 0xA34CADA0, 0x5EE0559A},     {UNARY(lgamma), 0x7E86C635, 0xF0E64AC1},
    {UNARY(digamma), 0xED377244, 0x301DC18D},    {UNARY(trigamma), 0x8A808D8F, 0x5190727E},
    {UNARY(i0), 0x9F2C0A32, 0x0033F98C},         {UNARY(i1), 0x2143B2E6, 0x12120B07},
    {UNARY(i0e), 0x1A303622, 0xE1824FE6},        {UNARY(i1e), 0x9E9D8169, 0x19A8DC44},
    {UNARY(log_ndtr), 0x61E07A7E, 0x0C0FE4D0},   {BINARY(add), 0x9BBFB43B, 0xFB86AEC1},
    {BINARY(sub), 0x2AC05C1D, 0xE2C4B30B},       {BINARY(mul), 0x14629721, 0x79888F3A},
    {BINARY(div), 0x1DE5D1ED, 0xE00DCACB},       {BINARY(add_scaled), 0x57E04EC5, 0xAFE3CEC1},
    {BINARY(maximum), 0x9BEA8D9C, 0xCFA81581},   {BINARY(minimum), 0xDB21F45C, 0x9ED4D238},
    {BINARY(pow), 0x2BDACA57, 0x266B72AE},       {BINARY(atan2), 0x9424B198, 0x8C9DF96D},
    {BINARY(glu), 0xB782B554, 0x253B2F96},       {BINARY(div_trunc), 0x2F9881DD, 0x8170F0A0},
    {BINARY(div_floor), 0xA75ACC4E, 0xF5C8C23D}, {BINARY(fmod), 0x9E05F4A7, 0x524123FD},
    {BINARY(remainder), 0x19C42DD4, 0xDECEDA33}, {BINARY(hypot), 0xACAAE91E, 0x1DA0D042},
    {BINARY(nextafter), 0x3E0809B3, 0x91AA4CA3}, {BINARY(igamma), 0x12F8B4EB, 0xA54D2368},
    {BINARY(igammac), 0xE4D07BD8, 0x0DDFC93B},   {BINARY(zeta), 0x1EAA5423, 0x83B83FA2},
};

typedef struct int_row {
  const char *name;
  eti_int_loop loop;
  uint32_t sums[5];  // u8, i8, i16, i32, i64
} int_row;

#define INTS(name) #name, ETI_INT_##name
static const int_row int_rows[] = {
    {INTS(left_shift), {0x460D312C, 0x460D312C, 0x059D96EF, 0x963B9B34, 0x80D8A592}},
    {INTS(right_shift), {0x329A3AD6, 0xDE7BABE6, 0x86B5C414, 0x9051F244, 0x892CF41C}},
    {INTS(div_trunc), {0xE0E93677, 0x70800BE9, 0x54D5BD5D, 0xF99DAD7D, 0xC24F2E3D}},
    {INTS(div_floor), {0xE0E93677, 0x947EEF81, 0x984F4FF5, 0x2D741E38, 0xB5F18C70}},
    {INTS(fmod), {0x48E3FD11, 0x210FFCA4, 0x38D86AD5, 0x5CF1D37B, 0x9E995E9D}},
    {INTS(remainder), {0x48E3FD11, 0x2C527723, 0xF8CD8D0E, 0x38875818, 0x74EE20AA}},
};

// ---- tests

static const eti_eltwise *variant(int isa) {
  const bool is_there =
      isa == ETI_ISA_SCALAR || (eti_cpu_isa() != ETI_ISA_NEON && isa <= (int)eti_cpu_isa());
  return is_there ? eti_eltwise_for((eti_isa)isa) : NULL;
}

static void functions_of_floats_have_the_checksums_of_the_table(void) {
  size_t n_wrong = 0;
  for (int isa = 0; isa < ETI_ISA_COUNT; isa++) {
    const eti_eltwise *const table = variant(isa);
    for (size_t i = 0; table != NULL && i < sizeof float_rows / sizeof float_rows[0]; i++) {
      const float_row *const r = &float_rows[i];
      fill_floats(false);
      const uint32_t f32 = loop_checksum(table->float_loops[0][r->loop], 4, true);
      fill_floats(true);
      const uint32_t f64 = loop_checksum(table->float_loops[1][r->loop], 8, true);
      if (f32 == r->f32 && f64 == r->f64) continue;
      printf("  variant %d: {%s, 0x%08X, 0x%08X},\n", isa, r->name, f32, f64);
      n_wrong++;
    }
  }
  EXPECT(n_wrong == 0);
}

static void hardswish_has_the_bits_of_its_four_steps(void) {
  static const float plus = 3, bounds[] = {0, 6, -0.0f}, six = 6, all[] = {3, 6, 6};
  static float sum[N], gate[N], product[N], expected[N], got[N];
  const ptrdiff_t dense[] = {4, 4, 4}, number[] = {4, 4, 0};
  for (int isa = 0; isa < ETI_ISA_COUNT; isa++) {
    const eti_eltwise *const table = variant(isa);
    if (table == NULL) continue;
    fill_floats(false);
    table->binary.add((void *[]){sum, &left, (void *)(uintptr_t)&plus}, number, N, bounds);
    table->unary.clamp((void *[]){gate, sum}, dense, N, bounds);
    table->binary.mul((void *[]){product, &left, gate}, dense, N, bounds);
    table->binary.div((void *[]){expected, product, (void *)(uintptr_t)&six}, number, N, bounds);
    table->unary.hardswish((void *[]){got, &left}, dense, N, all);
    EXPECT(checksum(got, N, 4, true) == checksum(expected, N, 4, true));
  }
}

static void every_function_of_floats_has_a_row(void) {
  EXPECT(sizeof float_rows / sizeof float_rows[0] == ETI_N_FLOAT_LOOPS - 1);
}

static void names_and_numbers_lead_to_the_same_loops(void) {
  const eti_eltwise *const table = eti_eltwise_get();
  EXPECT(table->float_loops[0][ETI_NO_FLOAT_LOOP] == NULL);
  EXPECT(table->float_loops[1][ETI_NO_FLOAT_LOOP] == NULL);
  EXPECT(table->int_loops[ETI_NO_INT_LOOP][0] == NULL);
#define SAME_UNARY(name)                                                 \
  EXPECT(table->float_loops[0][ETI_UNARY_##name] == table->unary.name && \
         table->float_loops[1][ETI_UNARY_##name] == table->unary_f64.name);
#define SAME_BINARY(name)                                                  \
  EXPECT(table->float_loops[0][ETI_BINARY_##name] == table->binary.name && \
         table->float_loops[1][ETI_BINARY_##name] == table->binary_f64.name);
#define SAME_INT(name) \
  EXPECT(memcmp(table->int_loops[ETI_INT_##name], table->ints.name, sizeof table->ints.name) == 0);
  ETI_UNARY_LIST(SAME_UNARY)
  ETI_BINARY_LIST(SAME_BINARY)
  ETI_INT_LIST(SAME_INT)
}

static void divisions_and_shifts_have_the_checksums_of_the_table(void) {
  static const size_t bytes[] = {1, 1, 2, 4, 8};
  size_t n_wrong = 0;
  for (int isa = 0; isa < ETI_ISA_COUNT; isa++) {
    const eti_eltwise *const table = variant(isa);
    for (size_t i = 0; table != NULL && i < sizeof int_rows / sizeof int_rows[0]; i++) {
      const int_row *const r = &int_rows[i];
      uint32_t sums[5];
      for (size_t type = 0; type < 5; type++) {
        fill_integers(bytes[type]);
        sums[type] = loop_checksum(table->int_loops[r->loop][type], bytes[type], false);
      }
      if (memcmp(sums, r->sums, sizeof sums) == 0) continue;
      printf("  variant %d: {%s, {", isa, r->name);
      for (size_t type = 0; type < 5; type++)
        printf("0x%08X%s", sums[type], type < 4 ? ", " : "}},\n");
      n_wrong++;
    }
  }
  EXPECT(n_wrong == 0);
}

static void halves_convert_as_half_h_says(void) {
  static uint16_t halves[1 << 16], back[1 << 16];
  static float wide[1 << 16];
  for (size_t i = 0; i < 1 << 16; i++) halves[i] = (uint16_t)i;
  size_t n_wrong = 0;
  for (int isa = 0; isa < ETI_ISA_COUNT; isa++) {
    const eti_convert *const m = variant(isa) != NULL ? eti_convert_for((eti_isa)isa) : NULL;
    for (int bf16 = 0; m != NULL && bf16 < 2; bf16++) {
      (bf16 != 0 ? m->bf16.f32 : m->f16.f32)(wide, halves, 1 << 16);
      for (size_t i = 0; i < 1 << 16; i++) {
        const float x = bf16 != 0 ? eti_bf16_to_f32((uint16_t)i) : eti_f16_to_f32((uint16_t)i);
        n_wrong += memcmp(&x, &wide[i], 4) != 0;
      }
      // Every exponent, and around every place where rounding turns.
      for (size_t i = 0; i < 1 << 16; i++)
        wide[i] = eti_f32_from_bits((uint32_t)(i << 16) + (uint32_t)(i % 7) * 0xFFFu + 0x7FFEu);
      (bf16 != 0 ? m->f32.bf16 : m->f32.f16)(back, wide, 1 << 16);
      for (size_t i = 0; i < 1 << 16; i++)
        n_wrong += back[i] != (bf16 != 0 ? eti_f32_to_bf16(wide[i]) : eti_f32_to_f16(wide[i]));
    }
  }
  EXPECT(n_wrong == 0);
}

static const et_test tests[] = {
    ET_CASE(functions_of_floats_have_the_checksums_of_the_table),
    ET_CASE(every_function_of_floats_has_a_row),
    ET_CASE(hardswish_has_the_bits_of_its_four_steps),
    ET_CASE(names_and_numbers_lead_to_the_same_loops),
    ET_CASE(divisions_and_shifts_have_the_checksums_of_the_table),
    ET_CASE(halves_convert_as_half_h_says),
};
ET_TEST_MAIN(tests)
