// qgemm_groups_dot.body.h — the products of qgemm_groups.h with instructions that add four products
// of unsigned and signed bytes: codes are unsigned, those of 8 bits after 128 is added, terms of
// rows are signed. The including file gives ISA(name), vectors as qgemm.body.h has them,
// VI_DOT(sum, codes, terms), TV vectors and MR rows of a register tile, and FEW: tiles of so many
// rows or fewer have two sums for each result, since an addition waits for the one before.
//
// The sum of a group starts at -(8 + zero) times the sum of its terms, with minimums at 0, for
// codes of 8 bits at -(128 + zero) times the sum. It is exact in 32 bits, so the order of its
// products is free.

#define INLINE static inline __attribute__((always_inline))
// Unrolls loops over registers.
#define UNROLL _Pragma("GCC unroll 16")
// Makes the compiler read memory again, in code that few tiles need: registers are free for others.
#define RELOAD __asm__ volatile("" : : : "memory")

enum {
  NR = ETI_QGROUPS_NR,
  STEP = ETI_QGROUPS_STEP,
  STEP_BYTES = ETI_QGROUPS_STEP_BYTES,
  NV = NR / LANES,   // vectors of a panel
  PANELS = TV / NV,  // of a tile
  HALF = MR / 2,
  // Rows of a tile whose groups have terms behind whole steps: 3, so that no tile has one row of
  // two panels.
  FEW_LAST = 3,
  // The distances at which the weights and scales of one row are prefetched, in bytes and in
  // groups. The speed of one row is that of reading them.
  NEAR = 4096,
  NEAR_GROUPS = 16,
};

// ---- initial sums: -8 times the sum of the terms of each group of a row

INLINE int32_t sum_of_terms(const int8_t *a, size_t n) {
  const vi ones = VB_SET1(1);
  vi sum = VI_SET1(0);
  for (; n >= BYTES; n -= BYTES, a += BYTES) sum = VI_DOT(sum, ones, VI_LOAD(a));
  if (n > 0) sum = VI_DOT(sum, ones, load_bytes(a, n));
  return VI_TOTAL(sum);
}

static void ISA(begins)(const int8_t *a, size_t m, size_t group, size_t n_groups, int32_t *to) {
  ET_ASSERT(group > 0 && group <= ETI_QGROUPS_MAX);
  ET_ASSERT(ETI_HOLDS(a, m * n_groups, int8_t) && ETI_HOLDS(to, m * n_groups, int32_t));
  for (size_t i = 0; i < m * n_groups; i++, a += group) to[i] = -8 * sum_of_terms(a, group);
}

// ---- products

// Addresses in two rows: the first of a tile and the one HALF rows after it. Addresses in the
// others are sums of one of them and multiples of a step.
typedef struct terms {
  const int8_t *first, *second;
} terms;

INLINE const int8_t *term_at(terms a, size_t a_step, size_t r) {
  return r < HALF ? a.first + r * a_step : a.second + (r - HALF) * a_step;
}

INLINE vi four_terms(terms a, size_t a_step, size_t r) {
  int32_t word;
  memcpy(&word, term_at(a, a_step, r), sizeof word);
  return VI_SET1(word);
}

INLINE terms terms_after(terms a, size_t n) {
  return (terms){a.first + n, a.second + n};
}

// Adds the products of a step: to one sum for each result, or to one of two if is_split.
INLINE void add_step(terms a, size_t a_step, const uint8_t *w, size_t panel, size_t m, size_t tv,
                     size_t bits, bool is_split, vi sums[2][MR][TV]) {
  vi both[TV], codes[TV];
  UNROLL for (size_t v = 0; v < tv && bits == 4; v++) {
    both[v] = VI_LOAD(w + v / NV * panel + v % NV * LANES * 4);
    __asm__("" : "+v"(both[v]));  // loaded once
    codes[v] = VB_LOW_4(both[v]);
  }
  UNROLL for (size_t h = 0; h < 2; h++) {
    UNROLL for (size_t v = 0; v < tv && bits == 8; v++) {
      const uint8_t *const at = w + v / NV * panel + h * STEP_BYTES + v % NV * LANES * 4;
      codes[v] = VB_XOR(VI_LOAD(at), VB_SET1((char)0x80));
    }
    UNROLL for (size_t r = 0; r < m; r++) {
      const vi x = four_terms(terms_after(a, h * STEP / 2), a_step, r);
      vi *const to = sums[is_split ? h : 0][r];
      UNROLL for (size_t v = 0; v < tv; v++) to[v] = VI_DOT(to[v], codes[v], x);
    }
    UNROLL for (size_t v = 0; v < tv && bits == 4; v++) codes[v] = VB_HIGH_4(both[v]);
  }
}

// Adds the products of n < STEP terms, the last ones of a group: rows may end there.
INLINE void add_last(terms a, size_t a_step, size_t n, const uint8_t *w, size_t panel, size_t m,
                     size_t tv, size_t bits, bool is_split, vi sums[2][MR][TV]) {
  int8_t last[MR][STEP] = {{0}};
  for (size_t r = 0; r < m; r++) {
    const int8_t *const from = term_at(a, a_step, r);
    for (size_t i = 0; i < n; i++) last[r][i] = from[i];
  }
  add_step((terms){last[0], last[HALF]}, STEP, w, panel, m, tv, bits, is_split, sums);
}

// Initial sums of a group in two rows of a tile, like `terms`.
typedef struct begins {
  const int32_t *first, *second;
} begins;

INLINE vi begin_at(begins from, size_t n_groups, size_t r) {
  return VI_SET1(r < HALF ? from.first[r * n_groups] : from.second[(r - HALF) * n_groups]);
}

// Sets the sums of group j to the initial ones.
INLINE void begin_sums(const eti_qgroups_tile *t, begins from, size_t column, size_t j, size_t m,
                       size_t tv, size_t bits, bool is_split, vi sums[2][MR][TV]) {
  UNROLL for (size_t r = 0; r < m; r++) {
    const vi begin = begin_at(from, t->n_groups, r);
    const vi first = bits == 8 ? VI_TIMES_16(begin) : begin;
    UNROLL for (size_t v = 0; v < tv; v++) {
      sums[0][r][v] = first;
      if (is_split) sums[1][r][v] = VI_SET1(0);
    }
  }
  if (t->min != NULL && bits == 4) {
    UNROLL for (size_t i = 0; i < m * tv; i++) sums[0][i / tv][i % tv] = VI_SET1(0);
  }
  if (t->zero == NULL) return;
  RELOAD;
  UNROLL for (size_t v = 0; v < tv; v++) {
    const int8_t *const zeros = t->zero + (column + v / NV * NR) * t->n_groups + j * NR;
    const vi zero = VI_OF_I8(zeros + v % NV * LANES);
    UNROLL for (size_t r = 0; r < m; r++) {
      const vi off = VI_MUL(VI_OVER_8(begin_at(from, t->n_groups, r)), zero);
      sums[0][r][v] = VI_ADD(sums[0][r][v], off);
    }
  }
}

// ---- groups

// Vectors of scales or minimums of group j of a tile's columns.
INLINE void load_numbers(const eti_qgroups_tile *t, const void *from, size_t column, size_t j,
                         size_t m, size_t tv, vf to[TV]) {
  const size_t at = column * t->n_groups + j * NR, panel = NR * t->n_groups;
  const float *const wide = (const float *)from + at;
  const uint16_t *const halves = (const uint16_t *)from + at;
  if (t->dtype == ET_F16) {
    UNROLL for (size_t v = 0; v < tv; v++) to[v] =
        VF_OF_F16(halves + v / NV * panel + v % NV * LANES);
  } else if (t->dtype == ET_BF16) {
    UNROLL for (size_t v = 0; v < tv; v++) to[v] =
        VF_OF_BF16(halves + v / NV * panel + v % NV * LANES);
  } else {
    UNROLL for (size_t v = 0; v < tv; v++) to[v] = VF_LOAD(wide + v / NV * panel + v % NV * LANES);
  }
  if (m > 1) return;
  const size_t bytes = eti_qgroups_scale_bytes(t->dtype);
  UNROLL for (size_t v = 0; v < tv; v++) {
    const size_t ahead = at + NEAR_GROUPS * NR + v / NV * panel + v % NV * LANES;
    __builtin_prefetch((const void *)((uintptr_t)from + ahead * bytes), 0, 3);
  }
}

// Writes the results of a tile's totals.
static __attribute__((noinline)) void store_totals(const eti_qgroups_tile *t, size_t row,
                                                   size_t column, size_t m, size_t tv,
                                                   const vf totals[][TV]) {
  float some[TV * LANES];
  const size_t left = t->n - column;
  for (size_t r = 0; r < m; r++) {
    float *const out = t->out + (row + r) * t->out_step + column;
    float *const to = left >= tv * LANES ? out : some;
    const vf zero = VF_SET1((float)t->row_zero[row + r]), scale = VF_SET1(t->row_scale[row + r]);
    for (size_t v = 0; v < tv; v++) {
      const vf off = VF_MUL(zero, VF_LOAD(t->sum + column + v * LANES));
      const vf scaled = VF_MUL(VF_SUB(totals[r][v], off), scale);
      VF_STORE(to + v * LANES, VF_ADD(scaled, VF_LOAD(t->add + column + v * LANES)));
    }
    if (to == some) memcpy(out, some, left * sizeof(float));
  }
}

// Groups of the next panels that a tile prefetches, and their distance.
typedef struct ahead {
  size_t from, to, distance;
} ahead;

// Prefetches weights of tv vectors: to the L1 cache for one row, which meets them soon.
INLINE void prefetch(const uint8_t *w, size_t panel, size_t distance, size_t m, size_t tv) {
  UNROLL for (size_t p = 0; p < tv / NV; p++) {
    const void *const at = (const void *)((uintptr_t)w + p * panel + distance);
    if (m == 1) {
      __builtin_prefetch(at, 0, 3);
    } else {
      __builtin_prefetch(at, 0, 2);
    }
  }
}

// Adds the scaled sums of group j to totals.
INLINE void add_group(const eti_qgroups_tile *t, size_t column, size_t j, size_t m, size_t tv,
                      bool is_split, const vi sums[2][MR][TV], vf totals[MR][TV]) {
  vf scales[TV];
  load_numbers(t, t->scale, column, j, m, tv, scales);
  UNROLL for (size_t v = 0; v < tv; v++) {
    UNROLL for (size_t r = 0; r < m; r++) {
      const vi sum = is_split ? VI_ADD(sums[0][r][v], sums[1][r][v]) : sums[0][r][v];
      totals[r][v] = VF_FMA(VF_OF(sum), scales[v], totals[r][v]);
    }
  }
}

// Adds the minimums of group j times the terms of each row, of which `from` has -8 times the sum.
INLINE void add_minimums(const eti_qgroups_tile *t, begins from, size_t column, size_t j, size_t m,
                         size_t tv, vf totals[MR][TV]) {
  vf minimums[TV];
  RELOAD;
  load_numbers(t, t->min, column, j, m, tv, minimums);
  UNROLL for (size_t r = 0; r < m; r++) {
    const vf of_row = VF_MUL(VF_OF(begin_at(from, t->n_groups, r)), VF_SET1(-0.125f));
    UNROLL for (size_t v = 0; v < tv; v++) totals[r][v] = VF_FMA(of_row, minimums[v], totals[r][v]);
  }
}

// Computes m rows from `row` on and tv vectors of columns; m, tv and bits are constants at every
// call.
INLINE void columns_of_rows(const eti_qgroups_tile *given, size_t row, size_t column, ahead next,
                            size_t m, size_t tv, size_t bits) {
  const eti_qgroups_tile t = *given;
  const bool is_split = m <= FEW;
  const size_t step_bytes = eti_qgroups_step_bytes(bits);
  const size_t a_step = t.n_groups * t.group, rest = t.group % STEP;
  const size_t panel = eti_qgroups_group_bytes(t.group, bits) * t.n_groups;
  const int8_t *const first = t.a + row * a_step;
  const int32_t *const begin = t.begins + row * t.n_groups;
  begins from = {begin, m > HALF ? begin + HALF * t.n_groups : begin};
  terms a = {first, m > HALF ? first + HALF * a_step : first};
  const uint8_t *w = t.w + column / NR * panel;
  vf totals[MR][TV];
  UNROLL for (size_t r = 0; r < m; r++) {
    UNROLL for (size_t v = 0; v < tv; v++) totals[r][v] = VF_SET1(0);
  }
  for (size_t j = 0; j < t.n_groups; j++) {
    const size_t distance = m == 1 ? NEAR : j >= next.from && j < next.to ? next.distance : 0;
    vi sums[2][MR][TV];
    begin_sums(&t, from, column, j, m, tv, bits, is_split, sums);
    for (size_t k = STEP; k <= t.group; k += STEP, w += step_bytes, a = terms_after(a, STEP)) {
      prefetch(w, panel, distance, m, tv);
      if (bits == 8) prefetch(w + STEP_BYTES, panel, distance, m, tv);
      add_step(a, a_step, w, panel, m, tv, bits, is_split, sums);
    }
    if (m <= FEW_LAST && rest != 0) {
      add_last(a, a_step, rest, w, panel, m, tv, bits, is_split, sums);
      w += step_bytes;
      a = terms_after(a, rest);
    }
    add_group(&t, column, j, m, tv, is_split, (const vi(*)[MR][TV])sums, totals);
    if (t.min != NULL) add_minimums(&t, from, column, j, m, tv, totals);
    from = (begins){from.first + 1, from.second + 1};
  }
  vf found[MR][TV];  // its address is taken, so that `totals` may stay in registers
  UNROLL for (size_t i = 0; i < m * tv; i++) found[i / tv][i % tv] = totals[i / tv][i % tv];
  store_totals(given, row, column, m, tv, (const vf(*)[TV])found);
}

#define ROWS(count)                                           \
  case count:                                                 \
    if (is_whole) {                                           \
      columns_of_rows(t, row, column, next, count, TV, bits); \
    } else {                                                  \
      columns_of_rows(t, row, column, next, count, NV, bits); \
    }                                                         \
    break

// Computes all rows of some columns, in tiles of nearly equal numbers of rows, which share the
// prefetching of the next panels. Weights stay in the L1 cache.
INLINE void rows_of_columns(const eti_qgroups_tile *t, size_t column, bool is_whole, size_t bits) {
  const size_t most = t->group % STEP == 0 ? MR : FEW_LAST, tiles = (t->m + most - 1) / most;
  const size_t panel = eti_qgroups_group_bytes(t->group, bits) * t->n_groups;
  const size_t distance = t->n - column > PANELS * NR ? PANELS * panel : 0;
  for (size_t i = 0; i < tiles; i++) {
    const size_t row = i * t->m / tiles;
    const ahead next = {i * t->n_groups / tiles, (i + 1) * t->n_groups / tiles, distance};
    switch ((i + 1) * t->m / tiles - row) {
      ROWS(2);
      ROWS(3);
      ROWS(4);
#if MR > 4
      ROWS(5);
      ROWS(6);
#endif
      default:
        columns_of_rows(t, row, column, next, 1, NV, bits);
        break;
    }
  }
}

static void rows_of_codes(const eti_qgroups_tile *t, size_t column, bool is_whole) {
  rows_of_columns(t, column, is_whole, 4);
}

static void rows_of_bytes(const eti_qgroups_tile *t, size_t column, bool is_whole) {
  rows_of_columns(t, column, is_whole, 8);
}

static void ISA(tile)(const eti_qgroups_tile *given) {
  ET_ASSERT(eti_qgroups_tile_is_valid(given) && given->group <= ETI_QGROUPS_MAX &&
            ETI_HOLDS(given->begins, given->m * given->n_groups, int32_t));
  const eti_qgroups_tile t = *given;
  // One row reads panels one by one, from addresses one after the other.
  const size_t panels = t.m == 1 ? 1 : PANELS;
  for (size_t c = 0; c < t.n; c += panels * NR) {
    const bool is_whole = t.m > 1 && t.n - c > (PANELS - 1) * NR;
    if (t.bits == 4) {
      rows_of_codes(&t, c, is_whole);
    } else {
      rows_of_bytes(&t, c, is_whole);
    }
  }
}
