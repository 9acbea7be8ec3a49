// qgemm_neon.body.h — the products of qgemm.h over vectors of 128 bits. The including file gives
// ISA(name), MR of a tile, multiply, and dot_quads: products of four quads of taps and of weights.

// ---- results

// Scales, rounds and limits a vector of columns from above. NaN becomes the high limit.
INLINE int32x4_t rounded(int32x4_t sum, float32x4_t scale, float32x4_t add, float32x4_t high) {
  const float32x4_t v = vaddq_f32(vmulq_f32(vcvtq_f32_s32(sum), scale), add);
  return vcvtnq_s32_f32(vminnmq_f32(v, high));
}

// Adds the zero point to pairs of vectors and narrows them. Values that are too low saturate.
INLINE int8x8_t narrow(int32x4_t first, int32x4_t second, int16x8_t zero) {
  const int16x8_t words = vqmovn_high_s32(vqmovn_s32(first), second);
  return vqmovn_s16(vqaddq_s16(words, zero));
}

// Stores n < NR bytes; the second eight or four may overlap the first.
static __attribute__((noinline)) void store_part(int8_t *out, int8x16_t bytes, size_t n) {
  int8_t all[NR];
  vst1q_s8(all, bytes);
  if (n >= 8) {
    memcpy(out, all, 8);
    memcpy(out + n - 8, all + n - 8, 8);
  } else if (n >= 4) {
    memcpy(out, all, 4);
    memcpy(out + n - 4, all + n - 4, 4);
  } else {
    for (size_t i = 0; i < n; i++) out[i] = all[i];
  }
}

INLINE void store_bytes(int8_t *out, int8x16_t bytes, size_t n) {
  if (n >= NR) {
    vst1q_s8(out, bytes);
  } else if (n == 8) {
    vst1_s8(out, vget_low_s8(bytes));
  } else {
    store_part(out, bytes, n);
  }
}

// Writes n columns of a panel.
INLINE void store_i8(int8_t *out, const int32x4_t sums[NV], const eti_qtile *t, size_t column,
                     size_t n) {
  const float32x4_t high = vdupq_n_f32(t->high);
  const int16x8_t zero = vdupq_n_s16((int16_t)t->zero);
  int32x4_t q[NV];
  UNROLL for (size_t v = 0; v < NV; v++) {
    const size_t at = column + v * LANES;
    q[v] = rounded(sums[v], vld1q_f32(t->scale + at), vld1q_f32(t->add + at), high);
  }
  const int8x16_t all = vcombine_s8(narrow(q[0], q[1], zero), narrow(q[2], q[3], zero));
  store_bytes(out, vmaxq_s8(all, vdupq_n_s8((int8_t)t->low)), n);
}

INLINE void store_f32(float *out, const int32x4_t sums[NV], const eti_qtile *t, size_t row,
                      size_t column, size_t n) {
  float part[NR];
  float *const to = n >= NR ? out : part;
  const int32x4_t zero = vdupq_n_s32(t->row_zero[row * t->row_step]);
  const float32x4_t row_scale = vdupq_n_f32(t->row_scale[row * t->row_step]);
  const int32_t *const column_zero = t->column_zero;
  const int32x4_t row_sum = vdupq_n_s32(column_zero != NULL ? t->row_sum[row * t->row_step] : 0);
  UNROLL for (size_t v = 0; v < NV; v++) {
    const size_t at = column + v * LANES;
    int32x4_t sum = vmlsq_s32(sums[v], zero, vld1q_s32(t->start + at));
    if (column_zero != NULL) sum = vmlsq_s32(sum, row_sum, vld1q_s32(column_zero + at));
    const float32x4_t scale = vmulq_f32(row_scale, vld1q_f32(t->scale + at));
    const float32x4_t scaled = vmulq_f32(vcvtq_f32_s32(sum), scale);
    vst1q_f32(to + v * LANES, vaddq_f32(scaled, vld1q_f32(t->add + at)));
  }
  if (to == part) memcpy(out, part, n * sizeof(float));
}

// ---- rows of tiles

INLINE void panel_of_rows(const eti_qtile *t, size_t row, size_t column, size_t ahead, size_t m,
                          bool is_float) {
  int32x4_t sums[MR][NV];
  UNROLL for (size_t i = 0; i < m * NV; i++) {
    const int32_t *const start = t->start + column + i % NV * LANES;
    sums[i / NV][i % NV] = is_float ? vdupq_n_s32(0) : vld1q_s32(start);
  }
  multiply(t, row, t->w + column / NR * eti_qpanel_bytes(t->quads), ahead, m, sums);
  UNROLL for (size_t r = 0; r < m; r++) {
    const size_t first = (row + r) * t->out_step + column;
    if (is_float) {
      store_f32((float *)t->out + first, sums[r], t, row + r, column, t->n - column);
    } else {
      store_i8((int8_t *)t->out + first, sums[r], t, column, t->n - column);
    }
  }
}

// Tile i of all: the tiles after the first one share the prefetching of the next panels.
INLINE void rows(const eti_qtile *t, size_t row, size_t m, size_t i, size_t tiles, bool is_float) {
  for (size_t c = 0; c < t->n; c += NR) {
    const size_t ahead = i > 0 && c * (tiles - 1) / t->n == i - 1 ? t->next : 0;
    panel_of_rows(t, row, c, ahead, m, is_float);
  }
}

#define ROWS(count)                          \
  case count:                                \
    rows(t, row, count, i, tiles, is_float); \
    break

// Divides the rows into tiles of nearly equal numbers of rows. A tile meets all columns before the
// next one: its rows stay in the L1 cache.
INLINE void all_rows(const eti_qtile *t, bool is_float) {
  const size_t tiles = (t->m + MR - 1) / MR;
  for (size_t i = 0; i < tiles; i++) {
    const size_t row = i * t->m / tiles;
    switch ((i + 1) * t->m / tiles - row) {
      ROWS(1);
      ROWS(2);
      ROWS(3);
#if MR > 3
      ROWS(4);
      ROWS(5);
      ROWS(6);
#endif
      default:
        break;
    }
  }
}

static void ISA(tile_i8)(const eti_qtile *given) {
  ET_ASSERT(eti_qtile_is_valid(given, false));
  const eti_qtile t = *given;
  all_rows(&t, false);
}

static void ISA(tile_f32)(const eti_qtile *given) {
  ET_ASSERT(eti_qtile_is_valid(given, true));
  const eti_qtile t = *given;
  all_rows(&t, true);
}

// ---- depthwise

// Loads n < NR bytes, and zeros.
INLINE int8x16_t load_part(const int8_t *p, size_t n) {
  uint64_t low = 0, high = 0;
  uint32_t first, last;
  if (n >= 8) {
    memcpy(&low, p, 8);
    memcpy(&high, p + n - 8, 8);
    high = n > 8 ? high >> 8 * (16 - n) : 0;
  } else if (n >= 4) {
    memcpy(&first, p, 4);
    memcpy(&last, p + n - 4, 4);
    low = first | (uint64_t)last << 8 * (n - 4);
  } else {
    for (size_t i = 0; i < n; i++) low |= (uint64_t)(uint8_t)p[i] << 8 * i;
  }
  return vreinterpretq_s8_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high)));
}

// The quads of four taps, of which `taps` are there: vector j has those of channels 4 j … 4 j + 3,
// as a panel has its columns. n < NR channels are loaded in part; up to eight fill two vectors.
INLINE void load_quads(const int8_t *const *p, size_t taps, size_t channel, size_t n,
                       size_t vectors, int8x16_t x[NV]) {
  int8x16_t t[QUAD];
  UNROLL for (size_t i = 0; i < QUAD; i++) {
    t[i] = i >= taps ? vdupq_n_s8(0)
           : n >= NR ? vld1q_s8(p[i] + channel)
                     : load_part(p[i] + channel, n);
  }
  const int16x8_t low = vreinterpretq_s16_s8(vzip1q_s8(t[0], t[1]));
  const int16x8_t low2 = vreinterpretq_s16_s8(vzip1q_s8(t[2], t[3]));
  x[0] = vreinterpretq_s8_s16(vzip1q_s16(low, low2));
  x[1] = vreinterpretq_s8_s16(vzip2q_s16(low, low2));
  if (vectors > 2) {
    const int16x8_t high = vreinterpretq_s16_s8(vzip2q_s8(t[0], t[1]));
    const int16x8_t high2 = vreinterpretq_s16_s8(vzip2q_s8(t[2], t[3]));
    x[2] = vreinterpretq_s8_s16(vzip1q_s16(high, high2));
    x[3] = vreinterpretq_s8_s16(vzip2q_s16(high, high2));
  }
}

// n channels of all pixels, in `vectors` vectors of sums, which is a constant; so is n_taps in most
// calls.
INLINE void pixels(const eti_qdepthwise *given, size_t channel, size_t n, size_t vectors,
                   size_t n_taps) {
  const eti_qdepthwise d = *given;
  const size_t quads = (n_taps + QUAD - 1) / QUAD;
  const int8_t *const w = d.w + channel / NR * eti_qpanel_bytes(quads);
  const float32x4_t high = vdupq_n_f32(d.high);
  const int16x8_t zero = vdupq_n_s16((int16_t)d.zero);
  for (size_t i = 0; i < d.n; i++) {
    const int8_t *const *const taps = d.taps + i * n_taps;
    int32x4_t sums[NV];
    UNROLL for (size_t v = 0; v < vectors; v++) sums[v] = vld1q_s32(d.start + channel + v * LANES);
    _Pragma("GCC unroll 3") for (size_t q = 0; q < quads; q++) {
      int8x16_t x[NV];
      load_quads(taps + q * QUAD, n_taps - q * QUAD, channel, n, vectors, x);
      UNROLL for (size_t v = 0; v < vectors; v++) {
        sums[v] = dot_quads(sums[v], x[v], vld1q_s8(w + q * QUAD_BYTES + v * BYTES));
      }
    }
    UNROLL for (size_t v = 0; v < vectors; v++) {
      const size_t at = channel + v * LANES;
      sums[v] = rounded(sums[v], vld1q_f32(d.scale + at), vld1q_f32(d.add + at), high);
    }
    const int8x8_t first = narrow(sums[0], sums[1], zero);
    const int8x8_t second = vectors > 2 ? narrow(sums[2], sums[3], zero) : first;
    const int8x16_t bytes = vmaxq_s8(vcombine_s8(first, second), vdupq_n_s8((int8_t)d.low));
    store_bytes(d.out + i * d.out_step + channel, bytes, n);
  }
}

static __attribute__((noinline)) void pixels_any(const eti_qdepthwise *d, size_t channel, size_t n,
                                                 size_t vectors) {
  pixels(d, channel, n, vectors, d->n_taps);
}

static void ISA(depthwise)(const eti_qdepthwise *d) {
  ET_ASSERT(eti_qdepthwise_is_valid(d));
  for (size_t c = 0; c < d->channels; c += NR) {
    const size_t n = d->channels - c;
    if (n >= NR && d->n_taps == 9) {
      pixels(d, c, NR, NV, 9);
    } else if (n >= NR && d->n_taps == 25) {
      pixels(d, c, NR, NV, 25);
    } else if (n == NR / 2 && d->n_taps == 9) {
      pixels(d, c, NR / 2, NV / 2, 9);
    } else {
      pixels_any(d, c, n, NV);
    }
  }
}

// ---- copies of rows

// Copies n bytes; the last step may repeat some of the one before.
INLINE void copy_run(int8_t *dst, const int8_t *src, size_t n) {
  if (n >= BYTES) {
    for (size_t i = 0; i + BYTES <= n; i += BYTES) vst1q_s8(dst + i, vld1q_s8(src + i));
    if (n % BYTES != 0) vst1q_s8(dst + n - BYTES, vld1q_s8(src + n - BYTES));
  } else {
    store_part(dst, load_part(src, n), n);
  }
}

static void ISA(copy)(void *dst, const int8_t *src, size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, int8_t) && ETI_HOLDS(src, n, int8_t));
  copy_run(dst, src, n);
}

static void ISA(copy_windows)(const eti_qwindows *given) {
  ET_ASSERT(eti_qwindows_are_valid(given, 1));
  const eti_qwindows w = *given;
  for (size_t i = 0; i < w.n; i++) {
    int8_t *to = (int8_t *)w.to + i * w.to_step;
    const int8_t *from = w.from + i * w.step;
    for (size_t p = 0; p < w.pieces; p++, to += w.bytes, from += w.piece_step) {
      copy_run(to, from, w.bytes);
    }
  }
}
