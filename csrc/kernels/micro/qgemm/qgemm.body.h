// qgemm.body.h — the products of qgemm.h over vectors of one instruction set. The including file
// gives: ISA(name), QGEMM_TABLE, the types vi and vf, LANES, NV vectors to a panel, MR rows to a
// tile, the VI_ and VF_ operations, and load_w, zip and narrow.

#define NR ETI_QGEMM_NR
#define INLINE static inline __attribute__((always_inline))
// Unrolls loops over registers.
#define UNROLL _Pragma("GCC unroll 16")

// Scales, addends and limits of a panel's columns, which turn sums into i8.
typedef struct limits {
  vf scale[NV], add[NV], high;
  __m128i low;
  int32_t zero;
} limits;

INLINE limits limits_of(const float *scale, const float *add, int32_t low, float high,
                        int32_t zero) {
  limits l = {.low = _mm_set1_epi8((char)low), .high = VF_SET1(high), .zero = zero};
  UNROLL for (size_t v = 0; v < NV; v++) {
    l.scale[v] = VF_LOAD(scale + v * LANES);
    l.add[v] = VF_LOAD(add + v * LANES);
  }
  return l;
}

// Stores n < NR bytes; the second eight may overlap the first.
INLINE void store_part(int8_t *out, __m128i bytes, size_t n) {
  int8_t all[NR];
  _mm_storeu_si128((__m128i *)(void *)all, bytes);
  if (n >= 8) {
    memcpy(out, all, 8);
    memcpy(out + n - 8, all + n - 8, 8);
  } else {
    for (size_t i = 0; i < n; i++) out[i] = all[i];
  }
}

// Scales, rounds, limits and writes n columns. Values that are too low saturate; NaN becomes the
// high limit.
INLINE void store_i8(int8_t *out, const vi sums[NV], const limits *l, size_t n) {
  vi q[NV];
  UNROLL for (size_t v = 0; v < NV; v++) {
    const vf scaled = VF_ADD(VF_MUL(VF_OF(sums[v]), l->scale[v]), l->add[v]);
    q[v] = VI_ROUND(VF_MIN(scaled, l->high));
  }
  const __m128i bytes = _mm_max_epi8(narrow(q, l->zero), l->low);
  if (n == NR) {
    _mm_storeu_si128((__m128i *)(void *)out, bytes);
  } else {
    store_part(out, bytes, n);
  }
}

// ---- products

INLINE vi pair_of(const int16_t *p) {
  int32_t pair;
  memcpy(&pair, p, sizeof pair);
  return VI_SET1(pair);
}

// Adds the products of m rows to their sums; m is a constant where this is called.
INLINE void multiply(const int16_t *a, size_t a_step, const int8_t *w, size_t pairs, size_t m,
                     vi sums[MR][NV]) {
  for (size_t p = 0; p < pairs; p++, a += 2, w += 2 * NR) {
    vi b[NV];
    UNROLL for (size_t v = 0; v < NV; v++) b[v] = load_w(w + v * 2 * LANES);
    UNROLL for (size_t r = 0; r < m; r++) {
      const vi pair = pair_of(a + r * a_step);
      UNROLL for (size_t v = 0; v < NV; v++) sums[r][v] = VI_ADD(sums[r][v], VI_PAIRS(pair, b[v]));
    }
  }
}

INLINE void rows_i8(const eti_qtile *t, const limits *l, size_t first, size_t m) {
  vi sums[MR][NV];
  UNROLL for (size_t r = 0; r < m; r++) {
    UNROLL for (size_t v = 0; v < NV; v++) sums[r][v] = VI_LOAD(t->start + v * LANES);
  }
  multiply(t->a + first * t->a_step, t->a_step, t->w, t->pairs, m, sums);
  int8_t *const out = (int8_t *)t->out + first * t->out_step;
  if (t->n == NR) {
    UNROLL for (size_t r = 0; r < m; r++) store_i8(out + r * t->out_step, sums[r], l, NR);
  } else {
    UNROLL for (size_t r = 0; r < m; r++) store_i8(out + r * t->out_step, sums[r], l, t->n);
  }
}

INLINE void rows_f32(const eti_qtile *t, const limits *l, size_t first, size_t m) {
  vi sums[MR][NV];
  UNROLL for (size_t r = 0; r < m; r++) {
    UNROLL for (size_t v = 0; v < NV; v++) sums[r][v] = VI_SET1(0);
  }
  multiply(t->a + first * t->a_step, t->a_step, t->w, t->pairs, m, sums);
  UNROLL for (size_t r = 0; r < m; r++) {
    float row[NR];
    float *const out = (float *)t->out + (first + r) * t->out_step;
    float *const to = t->n == NR ? out : row;
    const vi zero = VI_SET1(t->row_zero[(first + r) * t->row_step]);
    const vf row_scale = VF_SET1(t->row_scale[(first + r) * t->row_step]);
    UNROLL for (size_t v = 0; v < NV; v++) {
      const vi sum = VI_SUB(sums[r][v], VI_MUL(zero, VI_LOAD(t->start + v * LANES)));
      const vf scaled = VF_MUL(VF_OF(sum), VF_MUL(row_scale, l->scale[v]));
      VF_STORE(to + v * LANES, VF_ADD(scaled, l->add[v]));
    }
    if (to == row) memcpy(out, row, t->n * sizeof(float));
  }
}

INLINE void rows(const eti_qtile *t, const limits *l, size_t first, size_t m, bool is_float) {
  if (is_float) {
    rows_f32(t, l, first, m);
  } else {
    rows_i8(t, l, first, m);
  }
}

// Computes whole tiles, then the rest, each with a constant number of rows.
INLINE void all_rows(const eti_qtile *t, const limits *l, bool is_float) {
  size_t first = 0;
  for (; first + MR <= t->m; first += MR) rows(t, l, first, MR, is_float);
  switch (t->m - first) {
    case 1:
      rows(t, l, first, 1, is_float);
      break;
    case 2:
      rows(t, l, first, 2, is_float);
      break;
    case 3:
      rows(t, l, first, 3, is_float);
      break;
    case 4:
      rows(t, l, first, 4, is_float);
      break;
    case 5:
      rows(t, l, first, 5, is_float);
      break;
#if MR > 6
    case 6:
      rows(t, l, first, 6, is_float);
      break;
    case 7:
      rows(t, l, first, 7, is_float);
      break;
    case 8:
      rows(t, l, first, 8, is_float);
      break;
    case 9:
      rows(t, l, first, 9, is_float);
      break;
    case 10:
      rows(t, l, first, 10, is_float);
      break;
    case 11:
      rows(t, l, first, 11, is_float);
      break;
#endif
    default:
      break;
  }
}

static void ISA(tile_i8)(const eti_qtile *given) {
  ET_ASSERT(eti_qtile_is_valid(given, false));
  const eti_qtile t = *given;
  const limits l = limits_of(t.scale, t.add, t.low, t.high, t.zero);
  all_rows(&t, &l, false);
}

static void ISA(tile_f32)(const eti_qtile *given) {
  ET_ASSERT(eti_qtile_is_valid(given, true));
  const eti_qtile t = *given;
  const limits l = limits_of(t.scale, t.add, 0, 0.0f, 0);
  all_rows(&t, &l, true);
}

// ---- depthwise

// Loads n < NR values, and zeros.
static inline __m128i load_part(const int8_t *p, size_t n) {
  uint64_t low = 0, high = 0;
  if (n >= 8) {
    memcpy(&low, p, 8);
    if (n > 8) memcpy(&high, p + n - 8, 8);
    high = n > 8 ? high >> (8 * (16 - n)) : 0;
  } else {
    for (size_t i = 0; i < n; i++) low |= (uint64_t)(uint8_t)p[i] << (8 * i);
  }
  return _mm_set_epi64x((long long)high, (long long)low);
}

INLINE __m128i load_tap(const int8_t *p, size_t n) {
  return n == NR ? _mm_loadu_si128((const __m128i *)(const void *)p) : load_part(p, n);
}

// channels and n_taps are constants in most calls.
INLINE void pixels(const eti_qdepthwise *given, size_t channels, size_t n_taps) {
  const eti_qdepthwise d = *given;
  const size_t pairs = n_taps / 2, odd = n_taps % 2;
  vi w[(ETI_QGEMM_MAX_TAPS + 1) / 2][NV], start[NV];
  for (size_t p = 0; p < pairs + odd; p++) {
    UNROLL for (size_t v = 0; v < NV; v++) w[p][v] = load_w(d.w + (p * NR + v * LANES) * 2);
  }
  UNROLL for (size_t v = 0; v < NV; v++) start[v] = VI_LOAD(d.start + v * LANES);
  const limits l = limits_of(d.scale, d.add, d.low, d.high, d.zero);
  for (size_t i = 0; i < d.n; i++) {
    const int8_t *const *const taps = d.taps + i * n_taps;
    vi sums[NV], x[NV];
    UNROLL for (size_t v = 0; v < NV; v++) sums[v] = start[v];
    UNROLL for (size_t p = 0; p < pairs; p++) {
      zip(load_tap(taps[2 * p] + d.offset, channels),
          load_tap(taps[2 * p + 1] + d.offset, channels), x);
      UNROLL for (size_t v = 0; v < NV; v++) sums[v] = VI_ADD(sums[v], VI_PAIRS(x[v], w[p][v]));
    }
    if (odd != 0) {
      zip(load_tap(taps[2 * pairs] + d.offset, channels), _mm_setzero_si128(), x);
      UNROLL for (size_t v = 0; v < NV; v++) sums[v] = VI_ADD(sums[v], VI_PAIRS(x[v], w[pairs][v]));
    }
    store_i8(d.out + i * d.out_step, sums, &l, channels);
  }
}

static void ISA(depthwise)(const eti_qdepthwise *d) {
  ET_ASSERT(eti_qdepthwise_is_valid(d));
  if (d->channels != NR) {
    pixels(d, d->channels, d->n_taps);
  } else if (d->n_taps == 9) {
    pixels(d, NR, 9);
  } else if (d->n_taps == 25) {
    pixels(d, NR, 25);
  } else {
    pixels(d, NR, d->n_taps);
  }
}

// ---- widening

INLINE void widen_8(int16_t *dst, const int8_t *src) {
  const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)src);
  _mm_storeu_si128((__m128i *)(void *)dst, _mm_cvtepi8_epi16(bytes));
}

INLINE void widen_16(int16_t *dst, const int8_t *src) {
  const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)src);
  _mm256_storeu_si256((__m256i *)(void *)dst, _mm256_cvtepi8_epi16(bytes));
}

// Widens n values; the last step may repeat some of the one before.
static void ISA(widen)(int16_t *dst, const int8_t *src, size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, int16_t) && ETI_HOLDS(src, n, int8_t));
  if (n >= 16) {
    for (size_t i = 0; i + 16 <= n; i += 16) widen_16(dst + i, src + i);
    if (n % 16 != 0) widen_16(dst + n - 16, src + n - 16);
  } else if (n >= 8) {
    widen_8(dst, src);
    widen_8(dst + n - 8, src + n - 8);
  } else {
    for (size_t i = 0; i < n; i++) dst[i] = src[i];
  }
}

const eti_qgemm_micro QGEMM_TABLE = {ISA(tile_i8), ISA(tile_f32), ISA(depthwise), ISA(widen)};
