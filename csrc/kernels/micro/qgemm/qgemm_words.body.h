// qgemm_words.body.h — depthwise taps and rows of qgemm.h in 16-bit words, for instruction sets
// that multiply pairs of words. Included after qgemm.body.h, whose operations it uses, with zip.

// ---- depthwise

// The pairs of taps of a quad, as VI_EVEN and VI_ODD of its weights: the first and third, the
// second and fourth.
enum { MAX_PAIRS = ETI_QGEMM_MAX_TAPS / 2 };

typedef struct channels16 {
  vi w[MAX_PAIRS][NV], start[NV];
} channels16;

INLINE void load_weights(channels16 *c, const eti_qdepthwise *d, size_t channel, size_t quads) {
  const int8_t *const w = d->w + channel / NR * eti_qpanel_bytes(quads);
  for (size_t q = 0; q < quads; q++) {
    UNROLL for (size_t v = 0; v < NV; v++) {
      const vi both = load_w(w + q * QUAD_BYTES, 0, v);
      c->w[2 * q][v] = VI_EVEN(both);
      c->w[2 * q + 1][v] = VI_ODD(both);
    }
  }
  UNROLL for (size_t v = 0; v < NV; v++) c->start[v] = VI_LOAD(d->start + channel + v * LANES);
}

// n ≤ NR channels of all pixels; n and n_taps are constants in most calls.
INLINE void pixels(const eti_qdepthwise *given, size_t channel, size_t n, size_t n_taps) {
  const eti_qdepthwise d = *given;
  const size_t quads = (n_taps + QUAD - 1) / QUAD;
  channels16 c;
  load_weights(&c, &d, channel, quads);
  const limits l = limits_of(d.low, d.high, d.zero);
  const eti_qtile t = {.scale = d.scale, .add = d.add, .low = d.low, .zero = d.zero};
  for (size_t i = 0; i < d.n; i++) {
    const int8_t *const *const taps = d.taps + i * n_taps;
    vi sums[NV], x[NV];
    UNROLL for (size_t v = 0; v < NV; v++) sums[v] = c.start[v];
    UNROLL for (size_t p = 0; p < 2 * quads; p++) {
      const size_t first = p / 2 * QUAD + p % 2, second = first + 2;
      if (first >= n_taps) break;
      zip(load_part(taps[first] + channel, n),
          second < n_taps ? load_part(taps[second] + channel, n) : _mm_setzero_si128(), x);
      UNROLL for (size_t v = 0; v < NV; v++) sums[v] = VI_ADD(sums[v], VI_PAIRS(x[v], c.w[p][v]));
    }
    store_i8(d.out + i * d.out_step + channel, sums, &t, channel, &l, n);
  }
}

static void ISA(depthwise)(const eti_qdepthwise *d) {
  ET_ASSERT(eti_qdepthwise_is_valid(d));
  for (size_t c = 0; c < d->channels; c += NR) {
    const size_t n = d->channels - c;
    if (n < NR) {
      pixels(d, c, n, d->n_taps);
    } else if (d->n_taps == 9) {
      pixels(d, c, NR, 9);
    } else if (d->n_taps == 25) {
      pixels(d, c, NR, 25);
    } else {
      pixels(d, c, NR, d->n_taps);
    }
  }
}

// ---- rows

INLINE void widen_8(int16_t *dst, const int8_t *src) {
  const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)src);
  _mm_storeu_si128((__m128i *)(void *)dst, _mm_cvtepi8_epi16(bytes));
}

INLINE void widen_16(int16_t *dst, const int8_t *src) {
  const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)src);
  _mm256_storeu_si256((__m256i *)(void *)dst, _mm256_cvtepi8_epi16(bytes));
}

// Widens n values; the last step may repeat some of the one before.
static void ISA(copy)(void *to, const int8_t *src, size_t n) {
  ET_ASSERT(ETI_HOLDS(to, n, int16_t) && ETI_HOLDS(src, n, int8_t));
  int16_t *const dst = to;
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

static void ISA(copy_windows)(const eti_qwindows *given) {
  ET_ASSERT(eti_qwindows_are_valid(given, sizeof(int16_t)));
  const eti_qwindows w = *given;
  for (size_t i = 0; i < w.n; i++) {
    for (size_t p = 0; p < w.pieces; p++) {
      int16_t *const to = (int16_t *)(void *)((char *)w.to + i * w.to_step) + p * w.bytes;
      ISA(copy)(to, w.from + i * w.step + p * w.piece_step, w.bytes);
    }
  }
}

static void ISA(arrange)(int16_t *words, size_t quads) {
  ET_ASSERT(ETI_HOLDS(words, quads, int16_t));
  size_t q = 0;
  for (; q + 4 <= quads; q += 4) {
    __m256i *const four = (__m256i *)(void *)(words + q * QUAD);
    const __m256i order = _mm256_shufflelo_epi16(_mm256_loadu_si256(four), 0xD8);
    _mm256_storeu_si256(four, _mm256_shufflehi_epi16(order, 0xD8));
  }
  for (; q < quads; q++) {
    const int16_t second = words[q * QUAD + 1];
    words[q * QUAD + 1] = words[q * QUAD + 2];
    words[q * QUAD + 2] = second;
  }
}
