// qgemm_groups_avx2.c — the products of qgemm_groups.h with 256-bit vectors: 4 or 6 rows × 2
// vectors of columns.
//
// Groups of one part without minimums take six rows, whose sums need most registers: they share the
// codes that two vectors unpack, a seventh of the instructions of four rows.
//
// The integer arithmetic of 4-bit codes is that of q4_dot_avx2.h. Its initial sums are computed
// once for all panels; groups with minimums start at 0, as a part of 32 codes and elements fits in
// 16 bits. Groups may end within a part, may have zero points, and their sums are scaled and added
// by a product and a sum, as by the scalar variant. Codes of 8 bits are multiplied in words, in
// pairs.
#include "kernels/micro/qgemm/qgemm_groups.h"

#include <immintrin.h>
#include <string.h>

#include "kernels/micro/qgemm/q4_dot_avx2.h"

#define INLINE static inline __attribute__((always_inline))
// Unrolls loops over registers.
#define UNROLL _Pragma("GCC unroll 16")

typedef __m256i vi;
typedef __m256 vf;

enum {
  NR = ETI_QGROUPS_NR,
  MR = 4,
  TALL = 6,  // most rows of a tile
  STEP = ETI_QGROUPS_STEP,
  HALF = STEP / 2,
  STEP_BYTES = ETI_QGROUPS_STEP_BYTES,
  PART = ETI_QGROUPS_PART,
  LANES = 8,
  NV = NR / LANES,
  LINE = 64,
  // The distance in bytes at which the first rows prefetch weights and scales. The speed of few
  // rows is that of reading them.
  NEAR = 4096,
};

_Static_assert((int)PART == (int)ETI_Q4_PART && (int)NV == (int)ETI_Q4_VECTORS, "q4_dot_avx2.h");

// ---- initial sums

// Initial sums of n ≤ PART terms: the words for the terms 4 i and 4 i + 1, and for 4 i + 2 and 4 i
// + 3.
static int32_t begin_of(const int8_t *a, size_t n) {
  int8_t part[PART] = {0};
  if (n < PART) a = memcpy(part, a, n);
  return eti_q4_initial_sums(a);
}

static size_t part_at(size_t group, size_t k) {
  return group - k < PART ? group - k : PART;
}

static void begins__avx2(const int8_t *a, size_t m, size_t group, size_t n_groups, int32_t *to) {
  ET_ASSERT(group > 0);
  ET_ASSERT(ETI_HOLDS(a, m * n_groups, int8_t) && ETI_HOLDS(to, m * n_groups, int32_t));
  for (size_t i = 0; i < m * n_groups; i++, a += group) {
    for (size_t k = 0; k < group; k += PART) *to++ = begin_of(a + k, part_at(group, k));
  }
}

// ---- products

// Addresses of the next part of each row and of the weights.
typedef struct place {
  const int8_t *a[TALL];
  const int32_t *begins[TALL];
  const uint8_t *w;
  bool has_min;
} place;

// Adds the products of a step that begins at element k of the rows.
INLINE void multiply(const int8_t *const a[], size_t k, const uint8_t *w, size_t m, vi s[][NV]) {
  vi codes[NV], now[NV];
  UNROLL for (size_t v = 0; v < NV; v++) {
    codes[v] = _mm256_loadu_si256((const vi *)(const void *)(w + v * 4 * LANES));
    eti_q4_keep_order(&codes[v]);
    now[v] = eti_q4_low(codes[v]);
  }
  UNROLL for (size_t h = 0; h < 2; h++) {
    UNROLL for (size_t r = 0; r < m; r++) {
      eti_q4_add_products(s[r], a[r] + k + h * HALF, now);
    }
    if (h == 1) break;
    UNROLL for (size_t v = 0; v < NV; v++) now[v] = eti_q4_high(codes[v]);
  }
}

INLINE void begin_sums(const place *p, size_t m, vi s[][NV]) {
  UNROLL for (size_t r = 0; r < m; r++) {
    const int32_t begin = p->has_min ? 0 : *p->begins[r];
    UNROLL for (size_t v = 0; v < NV; v++) s[r][v] = _mm256_set1_epi32(begin);
  }
}

// The sums in 32 bits.
INLINE void widen_sums(size_t m, vi s[][NV]) {
  UNROLL for (size_t r = 0; r < m; r++) {
    UNROLL for (size_t v = 0; v < NV; v++) s[r][v] = eti_q4_widen(s[r][v]);
  }
}

// Adds the products of a part of n terms.
INLINE void skip_terms(place *p, size_t n, size_t m) {
  UNROLL for (size_t r = 0; r < m; r++) {
    p->a[r] += n;
    p->begins[r]++;
  }
  p->w += (n + STEP - 1) / STEP * STEP_BYTES;
}

// The sums over the next PART terms.
INLINE void sum_part(place *p, size_t m, vi s[][NV]) {
  begin_sums(p, m, s);
  UNROLL for (size_t k = 0; k < PART; k += STEP) {
    multiply(p->a, k, p->w + k / STEP * STEP_BYTES, m, s);
  }
  widen_sums(m, s);
  skip_terms(p, PART, m);
}

typedef struct sums {
  vi of[MR][NV];
} sums;

// Sums n < PART terms, the last ones of a group. A separate function with arguments by value, so
// that the callers' registers are kept.
static __attribute__((noinline)) sums sum_last(place p, size_t n) {
  sums s;
  size_t k = 0;
  begin_sums(&p, MR, s.of);
  for (; k + STEP <= n; k += STEP) multiply(p.a, k, p.w + k / STEP * STEP_BYTES, MR, s.of);
  if (k < n) {
    int8_t last[MR][STEP] = {{0}};
    const int8_t *at[MR];
    for (size_t r = 0; r < MR; r++) at[r] = memcpy(last[r], p.a[r] + k, n - k);
    multiply(at, 0, p.w + k / STEP * STEP_BYTES, MR, s.of);
  }
  widen_sums(MR, s.of);
  return s;
}

INLINE void add_sums(vi s[MR][NV], const vi more[MR][NV], size_t m) {
  UNROLL for (size_t r = 0; r < m; r++) {
    UNROLL for (size_t v = 0; v < NV; v++) s[r][v] = _mm256_add_epi32(s[r][v], more[r][v]);
  }
}

// The sums over the next group.
INLINE void sum_group(place *p, size_t group, size_t m, vi s[MR][NV]) {
  if (group >= PART) {
    sum_part(p, m, s);
  } else {
    UNROLL for (size_t r = 0; r < m; r++) {
      UNROLL for (size_t v = 0; v < NV; v++) s[r][v] = _mm256_setzero_si256();
    }
  }
  size_t k = PART;
  for (; k + PART <= group; k += PART) {
    vi more[MR][NV];
    sum_part(p, m, more);
    add_sums(s, more, m);
  }
  const size_t rest = group % PART;
  if (rest != 0) {
    const sums more = sum_last(*p, rest);
    add_sums(s, more.of, m);
    skip_terms(p, rest, m);
  }
}

// ---- products of codes of 8 bits

// The first and third of the bytes of each 32 bits as words, and the second and fourth.
typedef struct words {
  vi even, odd;
} words;

INLINE words words_of(vi bytes) {
  return (words){_mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8), _mm256_srai_epi16(bytes, 8)};
}

// Adds the products of a step that begins at element k of the rows.
INLINE void multiply_bytes(const int8_t *const a[MR], size_t k, const uint8_t *w, size_t m,
                           vi s[MR][NV]) {
  UNROLL for (size_t h = 0; h < 2; h++) {
    words codes[NV];
    UNROLL for (size_t v = 0; v < NV; v++) {
      const uint8_t *const at = w + h * NR * HALF + v * LANES * HALF;
      codes[v] = words_of(_mm256_loadu_si256((const vi *)(const void *)at));
    }
    UNROLL for (size_t r = 0; r < m; r++) {
      int32_t four;
      memcpy(&four, a[r] + k + h * HALF, sizeof four);
      const words x = words_of(_mm256_set1_epi32(four));
      UNROLL for (size_t v = 0; v < NV; v++) {
        s[r][v] = _mm256_add_epi32(s[r][v], _mm256_madd_epi16(codes[v].even, x.even));
        s[r][v] = _mm256_add_epi32(s[r][v], _mm256_madd_epi16(codes[v].odd, x.odd));
        eti_q4_keep_order(&s[r][v]);
      }
    }
  }
}

// The sums over the next group.
INLINE void sum_bytes(place *p, size_t group, size_t m, vi s[MR][NV]) {
  size_t k = 0;
  UNROLL for (size_t r = 0; r < m; r++) {
    UNROLL for (size_t v = 0; v < NV; v++) s[r][v] = _mm256_setzero_si256();
  }
  for (; k + STEP <= group; k += STEP, p->w += 2 * STEP_BYTES) {
    multiply_bytes(p->a, k, p->w, m, s);
  }
  if (k < group) {
    int8_t last[MR][STEP] = {{0}};
    const int8_t *at[MR];
    for (size_t r = 0; r < m; r++) at[r] = memcpy(last[r], p->a[r] + k, group - k);
    multiply_bytes(at, 0, p->w, m, s);
    p->w += 2 * STEP_BYTES;
  }
  UNROLL for (size_t r = 0; r < m; r++) {
    p->a[r] += group;
    p->begins[r] += eti_qgroups_parts(group, 1);
  }
}

// ---- groups

// The sum of a group's terms, by the initial sums of its parts.
static vi sum_of_terms(const int32_t *begins, size_t parts) {
  int32_t sum = 0;
  for (size_t i = 0; i < parts; i++) sum -= (int16_t)begins[i] + (begins[i] >> 16);
  return _mm256_set1_epi32(sum / 8);
}

// Subtracts zeros times the terms of a group from its sums.
INLINE void subtract_zeros(const int8_t *zero, const int32_t *const begins[MR], size_t parts,
                           size_t m, vi s[MR][NV]) {
  UNROLL for (size_t r = 0; r < m; r++) {
    const vi terms = sum_of_terms(begins[r], parts);
    UNROLL for (size_t v = 0; v < NV; v++) {
      const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)(zero + v * LANES));
      const vi off = _mm256_mullo_epi32(_mm256_cvtepi8_epi32(bytes), terms);
      s[r][v] = _mm256_sub_epi32(s[r][v], off);
    }
  }
}

// A vector of scales from number i on.
INLINE vf numbers_at(const void *from, uint8_t dtype, size_t i) {
  if (dtype == ET_F32) return _mm256_loadu_ps((const float *)from + i);
  const void *const at = (const uint16_t *)from + i;
  const __m128i halves = _mm_loadu_si128((const __m128i *)at);
  if (dtype == ET_F16) return _mm256_cvtph_ps(halves);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

// Adds the minimums of group j times the terms of each row. A group that is one part has its sum of
// terms, times -8, in the words of its initial sums.
INLINE void add_minimums(const eti_qgroups_tile *t, size_t j, const int32_t *const begins[],
                         size_t m, bool is_part, vf totals[][NV]) {
  vf terms[TALL], mins[NV];
  UNROLL for (size_t r = 0; r < m; r++) {
    if (is_part) {
      const vi sum = eti_q4_widen(_mm256_set1_epi32(*begins[r]));
      terms[r] = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_set1_ps(-0.125f));
    } else {
      terms[r] = _mm256_cvtepi32_ps(sum_of_terms(begins[r], eti_qgroups_parts(t->group, 1)));
    }
  }
  UNROLL for (size_t v = 0; v < NV; v++) {
    mins[v] = numbers_at(t->min, t->dtype, j * NR + v * LANES);
    UNROLL for (size_t r = 0; r < m; r++) {
      totals[r][v] = _mm256_fmadd_ps(terms[r], mins[v], totals[r][v]);
    }
  }
}

INLINE void store_row(const eti_qgroups_tile *t, size_t row, const vf totals[NV]) {
  float some[NR];
  float *const out = t->out + row * t->out_step;
  float *const to = t->n == NR ? out : some;
  const vf zero = _mm256_set1_ps((float)t->row_zero[row]);
  const vf scale = _mm256_set1_ps(t->row_scale[row]);
  UNROLL for (size_t v = 0; v < NV; v++) {
    const vf off = _mm256_mul_ps(zero, _mm256_loadu_ps(t->sum + v * LANES));
    const vf scaled = _mm256_mul_ps(_mm256_sub_ps(totals[v], off), scale);
    _mm256_storeu_ps(to + v * LANES, _mm256_add_ps(scaled, _mm256_loadu_ps(t->add + v * LANES)));
  }
  if (to == some) memcpy(out, some, t->n * sizeof(float));
}

// Groups of 4-bit codes that are one part without zeros keep their sums in registers. BYTES: codes
// of 8 bits.
typedef enum group_form { ANY, PARTS, PARTS_WITH_MIN, BYTES } group_form;

INLINE void prefetch(const void *from) {
  __builtin_prefetch((const void *)((uintptr_t)from + NEAR), 0, 3);
}

// Prefetches for a group behind group j, whose weights are at w. A loop for groups of a part would
// be the innermost one: of these, the bytes are known.
INLINE void prefetch_group(const eti_qgroups_tile *t, const uint8_t *w, size_t j, bool is_part,
                           bool has_min) {
  enum { PART_BYTES = ETI_QGROUPS_PART / ETI_QGROUPS_STEP * ETI_QGROUPS_STEP_BYTES };
  const size_t at = j * NR * eti_qgroups_scale_bytes(t->dtype);
  const size_t bytes = is_part ? PART_BYTES : eti_qgroups_group_bytes(t->group, t->bits);
  UNROLL for (size_t i = 0; i < bytes; i += LINE) prefetch(w + i);
  prefetch((const void *)((uintptr_t)t->scale + at));  // a line at most
  if (has_min) prefetch((const void *)((uintptr_t)t->min + at));
}

// Computes m rows from `first` on; m and form are constants at every call.
INLINE void rows(const eti_qgroups_tile *given, size_t first, size_t m, group_form form) {
  const eti_qgroups_tile t = *given;
  const size_t group_parts = eti_qgroups_parts(t.group, 1), k = t.n_groups * t.group;
  const bool is_part = form == PARTS || form == PARTS_WITH_MIN;
  const bool has_min = is_part ? form == PARTS_WITH_MIN : t.min != NULL;
  place p = {.w = t.w, .has_min = has_min};
  for (size_t r = 0; r < TALL; r++) {  // rows beyond m repeat the last one
    const size_t row = first + (r < m ? r : m - 1);
    p.a[r] = t.a + row * k;
    p.begins[r] = t.begins + row * group_parts * t.n_groups;
  }
  vf totals[TALL][NV];
  UNROLL for (size_t r = 0; r < m; r++) {
    UNROLL for (size_t v = 0; v < NV; v++) totals[r][v] = _mm256_setzero_ps();
  }
  for (size_t j = 0; j < t.n_groups; j++) {
    const int32_t *begins[TALL];
    UNROLL for (size_t r = 0; r < m; r++) begins[r] = p.begins[r];
    if (first == 0) prefetch_group(&t, p.w, j, is_part, has_min);
    vi s[TALL][NV];
    if (is_part) {
      sum_part(&p, m, s);
    } else if (form == BYTES) {
      sum_bytes(&p, t.group, m, s);
    } else {
      sum_group(&p, t.group, m, s);
    }
    if (!is_part && t.zero != NULL) subtract_zeros(t.zero + j * NR, begins, group_parts, m, s);
    UNROLL for (size_t v = 0; v < NV; v++) {
      const vf scale = numbers_at(t.scale, t.dtype, j * NR + v * LANES);
      UNROLL for (size_t r = 0; r < m; r++) {
        totals[r][v] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(s[r][v]), scale, totals[r][v]);
      }
    }
    if (has_min) add_minimums(&t, j, begins, m, is_part, totals);
  }
  UNROLL for (size_t r = 0; r < m; r++) store_row(&t, first + r, totals[r]);
}

// A table of functions, so that each has all registers to itself.
static void one_row(const eti_qgroups_tile *t, size_t first) {
  rows(t, first, 1, ANY);
}

static void two_rows(const eti_qgroups_tile *t, size_t first) {
  rows(t, first, 2, ANY);
}

static void three_rows(const eti_qgroups_tile *t, size_t first) {
  rows(t, first, 3, ANY);
}

static void four_rows(const eti_qgroups_tile *t, size_t first) {
  rows(t, first, 4, ANY);
}

static void one_plain_row(const eti_qgroups_tile *t, size_t first) {
  rows(t, first, 1, PARTS);
}

static void two_plain_rows(const eti_qgroups_tile *t, size_t first) {
  rows(t, first, 2, PARTS);
}

static void three_plain_rows(const eti_qgroups_tile *t, size_t first) {
  rows(t, first, 3, PARTS);
}

static void four_plain_rows(const eti_qgroups_tile *t, size_t first) {
  rows(t, first, 4, PARTS);
}

static void six_plain_rows(const eti_qgroups_tile *t, size_t first) {
  rows(t, first, 6, PARTS);
}

static void one_min_row(const eti_qgroups_tile *t, size_t first) {
  rows(t, first, 1, PARTS_WITH_MIN);
}

static void two_min_rows(const eti_qgroups_tile *t, size_t first) {
  rows(t, first, 2, PARTS_WITH_MIN);
}

static void three_min_rows(const eti_qgroups_tile *t, size_t first) {
  rows(t, first, 3, PARTS_WITH_MIN);
}

static void four_min_rows(const eti_qgroups_tile *t, size_t first) {
  rows(t, first, 4, PARTS_WITH_MIN);
}

static void one_byte_row(const eti_qgroups_tile *t, size_t first) {
  rows(t, first, 1, BYTES);
}

static void two_byte_rows(const eti_qgroups_tile *t, size_t first) {
  rows(t, first, 2, BYTES);
}

static void three_byte_rows(const eti_qgroups_tile *t, size_t first) {
  rows(t, first, 3, BYTES);
}

static void four_byte_rows(const eti_qgroups_tile *t, size_t first) {
  rows(t, first, 4, BYTES);
}

static group_form form_of(const eti_qgroups_tile *t) {
  if (t->bits == 8) return BYTES;
  if (t->group != PART || t->zero != NULL) return ANY;
  return t->min == NULL ? PARTS : PARTS_WITH_MIN;
}

// The rows of the next tile. Eight rows are two tiles of four: two rows by themselves are slow.
static size_t next_rows(size_t left, bool may_be_tall) {
  if (may_be_tall && left >= TALL && left != 2 * MR) return TALL;
  return left < MR ? left : MR;
}

static void panel_of_rows(const eti_qgroups_tile *t) {
  typedef void (*some_rows)(const eti_qgroups_tile *, size_t);
  static const some_rows of_forms[][TALL + 1] = {
      [ANY] = {NULL, one_row, two_rows, three_rows, four_rows},
      [PARTS] = {NULL, one_plain_row, two_plain_rows, three_plain_rows, four_plain_rows, NULL,
                 six_plain_rows},
      [BYTES] = {NULL, one_byte_row, two_byte_rows, three_byte_rows, four_byte_rows},
      [PARTS_WITH_MIN] = {NULL, one_min_row, two_min_rows, three_min_rows, four_min_rows},
  };
  const group_form form = form_of(t);
  for (size_t first = 0, m; first < t->m; first += m) {
    m = next_rows(t->m - first, form == PARTS);
    of_forms[form][m](t, first);
  }
}

static void tile__avx2(const eti_qgroups_tile *t) {
  ET_ASSERT(eti_qgroups_tile_is_valid(t) && ETI_HOLDS(t->begins, t->m * t->n_groups, int32_t));
  for (size_t c = 0; c < t->n; c += NR) {
    const eti_qgroups_tile panel = eti_qgroups_panel(t, c);
    panel_of_rows(&panel);
  }
}

const eti_qgroups_micro eti_qgroups_avx2 = {
    .tile = tile__avx2, .begins = begins__avx2, .has_parts = true, .rows_of_a_tile = MR};
