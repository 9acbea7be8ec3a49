// qgemm_groups_neon.body.h — the products of qgemm_groups.h over vectors of 128 bits. The including
// file gives ISA(name), MR rows of a tile, UNIT rows whose sums share vectors (1, or 2: two columns
// of a row, then of the next one), add_bytes(sum, bytes), and sum_group and sum_group_of_bytes,
// which add the products of a group of m rows to sums.
//
// The sum of a group starts at -(8 + zero) times the sum of its terms, as codes are unsigned, or at
// 0 where groups have minimums. Codes of 8 bits are signed, and it starts at -zero times the sum.
// It is exact in 32 bits, so the order of its products is free.

enum {
  STEP = ETI_QGROUPS_STEP,
  UNITS = MR / UNIT,
  UV = NV * UNIT,  // vectors of the sums of a unit
};

_Static_assert((int)NR == (int)ETI_QGROUPS_NR, "qgemm_vectors_neon.h has the sizes of a panel");

// ---- initial sums: -8 times the sum of the terms of each group of a row

INLINE int32_t sum_of_terms(const int8_t *a, size_t n) {
  int32x4_t sum = vdupq_n_s32(0);
  for (; n >= BYTES; n -= BYTES, a += BYTES) sum = add_bytes(sum, vld1q_s8(a));
  if (n > 0) sum = add_bytes(sum, load_bytes(a, n));
  return vaddvq_s32(sum);
}

static void ISA(begins)(const int8_t *a, size_t m, size_t group, size_t n_groups, int32_t *to) {
  ET_ASSERT(group > 0 && group <= ETI_QGROUPS_MAX);
  ET_ASSERT(ETI_HOLDS(a, m * n_groups, int8_t) && ETI_HOLDS(to, m * n_groups, int32_t));
  for (size_t i = 0; i < m * n_groups; i++, a += group) to[i] = -8 * sum_of_terms(a, group);
}

// ---- sums of a group in the form of a unit

// Rows of a unit that begins at row r of m; a last row alone is a pair with itself.
INLINE size_t second_of(size_t r, size_t m) {
  return r + UNIT - 1 < m ? r + UNIT - 1 : r;
}

// The numbers of four columns for the rows of a unit.
INLINE void spread(float32x4_t columns, float32x4_t to[UNIT]) {
  if (UNIT == 1) {
    to[0] = columns;
  } else {
    const float64x2_t pairs = vreinterpretq_f64_f32(columns);
    to[0] = vreinterpretq_f32_f64(vdupq_laneq_f64(pairs, 0));
    to[UNIT - 1] = vreinterpretq_f32_f64(vdupq_laneq_f64(pairs, 1));
  }
}

// The initial sums of group j for the rows of the unit that begins at row r.
INLINE int32x4_t begins_of(const int32_t *begins, size_t step, size_t r, size_t m) {
  const int32x2_t first = vld1_dup_s32(begins + r * step);
  if (UNIT == 1) return vcombine_s32(first, first);
  return vcombine_s32(first, vld1_dup_s32(begins + second_of(r, m) * step));
}

// Sets the sums of group j to the initial ones. m is a constant where this is called.
INLINE void begin_sums(const eti_qgroups_tile *t, const int32_t *begins, size_t j, size_t m,
                       int32x4_t sums[UNITS][UV]) {
  const size_t step = t->n_groups;
  const bool is_offset = t->bits == 4 && t->min == NULL;
  begins += j;
  UNROLL for (size_t r = 0; r < m; r += UNIT) {
    const int32x4_t first = is_offset ? begins_of(begins, step, r, m) : vdupq_n_s32(0);
    UNROLL for (size_t v = 0; v < UV; v++) sums[r / UNIT][v] = first;
  }
  if (t->zero == NULL) return;
  UNROLL for (size_t v = 0; v < NV; v++) {
    int32_t word;
    memcpy(&word, t->zero + j * NR + v * LANES, sizeof word);
    const int8x8_t bytes = vreinterpret_s8_s32(vdup_n_s32(word));
    const int32x4_t zero = vmovl_s16(vget_low_s16(vmovl_s8(bytes)));
    float32x4_t of_unit[UNIT];
    spread(vreinterpretq_f32_s32(zero), of_unit);
    UNROLL for (size_t r = 0; r < m; r += UNIT) {
      const int32x4_t terms = vshrq_n_s32(begins_of(begins, step, r, m), 3);
      UNROLL for (size_t i = 0; i < UNIT; i++) {
        int32x4_t *const sum = &sums[r / UNIT][v * UNIT + i];
        *sum = vmlaq_s32(*sum, vreinterpretq_s32_f32(of_unit[i]), terms);
      }
    }
  }
}

// ---- groups

// A vector of scales from number i on.
INLINE float32x4_t numbers_at(const void *from, uint8_t dtype, size_t i) {
  if (dtype == ET_F32) return vld1q_f32((const float *)from + i);
  const uint16x4_t halves = vld1_u16((const uint16_t *)from + i);
  return dtype == ET_BF16 ? vreinterpretq_f32_u32(vshll_n_u16(halves, 16))
                          : vcvt_f32_f16(vreinterpret_f16_u16(halves));
}

// Adds the scaled sums of group j to totals.
INLINE void add_group(const eti_qgroups_tile *t, size_t j, size_t units,
                      const int32x4_t sums[UNITS][UV], float32x4_t totals[UNITS][UV]) {
  UNROLL for (size_t v = 0; v < NV; v++) {
    float32x4_t scale[UNIT];
    spread(numbers_at(t->scale, t->dtype, j * NR + v * LANES), scale);
    UNROLL for (size_t i = 0; i < UNIT; i++) {
      UNROLL for (size_t u = 0; u < units; u++) {
        float32x4_t *const total = &totals[u][v * UNIT + i];
        *total = vfmaq_f32(*total, vcvtq_f32_s32(sums[u][v * UNIT + i]), scale[i]);
      }
    }
  }
}

// Adds the minimums of group j times the terms of each row, of which `begins` has -8 times the sum.
INLINE void add_minimums(const eti_qgroups_tile *t, const int32_t *begins, size_t j, size_t m,
                         float32x4_t totals[UNITS][UV]) {
  UNROLL for (size_t v = 0; v < NV; v++) {
    float32x4_t min[UNIT];
    spread(numbers_at(t->min, t->dtype, j * NR + v * LANES), min);
    UNROLL for (size_t r = 0; r < m; r += UNIT) {
      const float32x4_t sum = vcvtq_f32_s32(begins_of(begins + j, t->n_groups, r, m));
      const float32x4_t terms = vmulq_n_f32(sum, -0.125f);
      UNROLL for (size_t i = 0; i < UNIT; i++) {
        float32x4_t *const total = &totals[r / UNIT][v * UNIT + i];
        *total = vfmaq_f32(*total, terms, min[i]);
      }
    }
  }
}

// The total of row r and vector v of columns.
INLINE float32x4_t total_of(const float32x4_t totals[][UV], size_t r, size_t v) {
  const float32x4_t *const unit = totals[r / UNIT];
  if (UNIT == 1) return unit[v];
  const float64x2_t low = vreinterpretq_f64_f32(unit[v * UNIT]);
  const float64x2_t high = vreinterpretq_f64_f32(unit[v * UNIT + UNIT - 1]);
  return vreinterpretq_f32_f64(r % UNIT == 0 ? vzip1q_f64(low, high) : vzip2q_f64(low, high));
}

// Writes the results of a tile's totals.
static __attribute__((noinline)) void store_totals(const eti_qgroups_tile *t, size_t row, size_t m,
                                                   const float32x4_t totals[][UV]) {
  for (size_t r = 0; r < m; r++) {
    float some[NR];
    float *const out = t->out + (row + r) * t->out_step, *const to = t->n == NR ? out : some;
    const float32x4_t zero = vdupq_n_f32((float)t->row_zero[row + r]);
    const float32x4_t scale = vdupq_n_f32(t->row_scale[row + r]);
    for (size_t v = 0; v < NV; v++) {
      const float32x4_t off = vmulq_f32(zero, vld1q_f32(t->sum + v * LANES));
      const float32x4_t scaled = vmulq_f32(vsubq_f32(total_of(totals, r, v), off), scale);
      vst1q_f32(to + v * LANES, vaddq_f32(scaled, vld1q_f32(t->add + v * LANES)));
    }
    if (to == some) memcpy(out, some, t->n * sizeof(float));
  }
}

// Computes m rows of a panel from `row` on; m and bits are constants at every call.
INLINE void some_rows(const eti_qgroups_tile *given, size_t row, size_t m, size_t bits) {
  const eti_qgroups_tile t = *given;
  const size_t a_step = t.n_groups * t.group, units = (m + UNIT - 1) / UNIT;
  const size_t group_bytes = eti_qgroups_group_bytes(t.group, bits);
  const int8_t *a = t.a + row * a_step;
  const int8_t *w = (const int8_t *)t.w;
  float32x4_t totals[UNITS][UV];
  UNROLL for (size_t u = 0; u < units; u++) {
    UNROLL for (size_t v = 0; v < UV; v++) totals[u][v] = vdupq_n_f32(0);
  }
  for (size_t j = 0; j < t.n_groups; j++, a += t.group, w += group_bytes) {
    int32x4_t sums[UNITS][UV];
    begin_sums(&t, t.begins + row * t.n_groups, j, m, sums);
    if (bits == 4) {
      sum_group(a, a_step, w, t.group, m, sums);
    } else {
      sum_group_of_bytes(a, a_step, w, t.group, m, sums);
    }
    add_group(&t, j, units, (const int32x4_t(*)[UV])sums, totals);
    if (t.min != NULL) add_minimums(&t, t.begins + row * t.n_groups, j, m, totals);
  }
  float32x4_t found[UNITS][UV];  // its address is taken, so that `totals` may stay in registers
  UNROLL for (size_t u = 0; u < units; u++) {
    UNROLL for (size_t v = 0; v < UV; v++) found[u][v] = totals[u][v];
  }
  store_totals(given, row, m, (const float32x4_t(*)[UV])found);
}

#define ROWS(count)                    \
  case count:                          \
    some_rows(&panel, r, count, bits); \
    break

// Computes all rows, in tiles of nearly equal numbers of rows. The weights of a panel stay in the
// L1 cache. Units of two rows are for more than three rows, of which no tile has fewer than three.
INLINE void all_rows(const eti_qgroups_tile *given, size_t bits) {
  const eti_qgroups_tile t = *given;
  const size_t tiles = (t.m + MR - 1) / MR;
  for (size_t c = 0; c < t.n; c += NR) {
    const eti_qgroups_tile panel = eti_qgroups_panel(&t, c);
    for (size_t i = 0; i < tiles; i++) {
      const size_t r = i * t.m / tiles;
      switch ((i + 1) * t.m / tiles - r) {
#if UNIT == 1
        ROWS(1);
        ROWS(2);
#endif
        ROWS(3);
#if MR > 3
        ROWS(4);
        ROWS(5);
#endif
#if MR > 5
        ROWS(6);
#endif
        default:
          break;
      }
    }
  }
}

static void rows_of_codes(const eti_qgroups_tile *t) {
  all_rows(t, 4);
}

static void rows_of_bytes(const eti_qgroups_tile *t) {
  all_rows(t, 8);
}

static void ISA(tile)(const eti_qgroups_tile *t) {
  ET_ASSERT(eti_qgroups_tile_is_valid(t) && t->group <= ETI_QGROUPS_MAX &&
            ETI_HOLDS(t->begins, t->m * t->n_groups, int32_t));
  if (t->bits == 4) {
    rows_of_codes(t);
  } else {
    rows_of_bytes(t);
  }
}
