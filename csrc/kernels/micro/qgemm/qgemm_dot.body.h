// qgemm_dot.body.h — depthwise taps and rows of qgemm.h for instructions that add four products of
// unsigned and signed bytes. Included after qgemm.body.h; the including file gives load_bytes and
// store_bytes, and load_two and store_two of half a vector each.
//
// A block has BYTES channels, or half as many of two pixels. Interleaving the bytes of four taps
// twice gives four vectors of quads. Both steps stay within lanes of 128 bits: lane l of vector j
// has four channels from 16 l + 4 j on, which are columns of the block's panel l. Narrowing the
// four vectors of sums in the same lanes restores the order of channels.

// ---- depthwise

enum {
  GROUPS = 4,      // vectors of quads
  HELD_QUADS = 3,  // of weights that stay in registers
  LANE = 16,       // bytes, and channels of a block
  MAX_QUADS = ETI_QGEMM_MAX_TAPS / QUAD,
};

// Vectors of an arranged block: weights of all quads, then initial sums, scales and addends.
static size_t block_vectors(size_t quads) {
  return (quads + 3) * GROUPS;
}

static size_t blocks_of(size_t channels) {
  return (channels + BYTES - 1) / BYTES;
}

static size_t ISA(arranged_bytes)(size_t channels, size_t n_taps) {
  return blocks_of(channels) * block_vectors((n_taps + QUAD - 1) / QUAD) * BYTES;
}

// Arranges the data of n channels. Lanes that have no panel repeat those that have one, as they do
// where two pixels share a block.
static void arrange_block(const eti_qdepthwise *d, size_t channel, size_t n, char *to) {
  const size_t quads = (d->n_taps + QUAD - 1) / QUAD, panels = (n + NR - 1) / NR;
  const size_t distinct = panels <= BYTES / LANE / 2 ? BYTES / LANE / 2 : BYTES / LANE;
  for (size_t l = 0; l < BYTES / LANE; l++) {
    const size_t which = l % distinct < panels ? l % distinct : 0, at = channel + which * NR;
    const int8_t *const w = d->w + at / NR * eti_qpanel_bytes(quads);
    char *const lane = to + l * LANE;
    for (size_t v = 0; v < quads * GROUPS; v++) memcpy(lane + v * BYTES, w + v * LANE, LANE);
    char *const columns = lane + quads * GROUPS * BYTES;
    for (size_t j = 0; j < GROUPS; j++) {
      memcpy(columns + j * BYTES, d->start + at + j * QUAD, LANE);
      memcpy(columns + (GROUPS + j) * BYTES, d->scale + at + j * QUAD, LANE);
      memcpy(columns + (2 * GROUPS + j) * BYTES, d->add + at + j * QUAD, LANE);
    }
  }
}

static void ISA(arrange_channels)(const eti_qdepthwise *d, void *to) {
  ET_ASSERT(d->channels >= 1 && d->n_taps <= ETI_QGEMM_MAX_TAPS && to != NULL);
  const size_t step = block_vectors((d->n_taps + QUAD - 1) / QUAD) * BYTES;
  for (size_t c = 0; c < d->channels; c += BYTES) {
    const size_t left = d->channels - c;
    arrange_block(d, c, left < BYTES ? left : BYTES, (char *)to + c / BYTES * step);
  }
}

// How the bytes of a block are read and written: all of a vector, n of them, or n of two pixels.
typedef enum width { WHOLE, PART, TWO } width;

INLINE vi plus_128(vi bytes) {
  return VB_XOR(bytes, VB_SET1((char)0x80));
}

INLINE vi load_tap(const int8_t *const *p, size_t next, size_t channel, width kind, size_t n) {
  const int8_t *const at = p[0] + channel;
  const vi bytes = kind == WHOLE  ? VI_LOAD(at)
                   : kind == PART ? load_bytes(at, n)
                                  : load_two(at, p[next] + channel, n);
  return plus_128(bytes);
}

// The quads of four taps, of which `taps` are there; those of the next pixel are `next` after.
INLINE void load_quads(const int8_t *const *p, size_t next, size_t taps, size_t channel, width kind,
                       size_t n, vi x[GROUPS]) {
  vi t[QUAD];
  UNROLL for (size_t i = 0; i < QUAD; i++) {
    t[i] = i < taps ? load_tap(p + i, next, channel, kind, n) : VB_SET1((char)0x80);
  }
  const vi low = VB_LOW_8(t[0], t[1]), high = VB_HIGH_8(t[0], t[1]);
  const vi low2 = VB_LOW_8(t[2], t[3]), high2 = VB_HIGH_8(t[2], t[3]);
  x[0] = VB_LOW_16(low, low2);
  x[1] = VB_HIGH_16(low, low2);
  x[2] = VB_LOW_16(high, high2);
  x[3] = VB_HIGH_16(high, high2);
}

// The results of sums; `scales` and the addends after them are vectors of an arranged block.
INLINE vi bytes_of(const vi sums[GROUPS], const char *scales, const limits *l) {
  vi q[GROUPS];
  UNROLL for (size_t j = 0; j < GROUPS; j++) {
    const vf scale = VF_LOAD((const float *)(const void *)(scales + j * BYTES));
    const vf add = VF_LOAD((const float *)(const void *)(scales + (GROUPS + j) * BYTES));
    q[j] = rounded(sums[j], scale, add, l->high);
  }
  const vi first = VB_ADDS_16(VB_PACKS_32(q[0], q[1]), l->zero);
  const vi second = VB_ADDS_16(VB_PACKS_32(q[2], q[3]), l->zero);
  return VB_MAX(VB_PACKS_16(first, second), l->low);
}

// n channels of all pixels; kind and n_taps are constants in most calls. An odd last pixel is
// computed twice.
INLINE void pixels(const eti_qdepthwise *given, size_t channel, size_t n, width kind,
                   size_t n_taps) {
  const eti_qdepthwise d = *given;
  const size_t quads = (n_taps + QUAD - 1) / QUAD;
  char local[(MAX_QUADS + 3) * GROUPS * BYTES];
  const char *block = local;
  if (d.arranged != NULL) {
    block = (const char *)d.arranged + channel / BYTES * block_vectors(quads) * BYTES;
  } else {
    arrange_block(given, channel, n, local);
  }
  const char *const columns = block + quads * GROUPS * BYTES;
  const limits l = limits_of(d.low, d.high, d.zero);
  vi held[HELD_QUADS][GROUPS], start[GROUPS];
  const bool is_held = quads <= HELD_QUADS;
  UNROLL for (size_t q = 0; q < HELD_QUADS; q++) {
    if (q >= quads) break;
    UNROLL for (size_t j = 0; j < GROUPS; j++) held[q][j] =
        VI_LOAD(block + (q * GROUPS + j) * BYTES);
  }
  UNROLL for (size_t j = 0; j < GROUPS; j++) start[j] = VI_LOAD(columns + j * BYTES);
  for (size_t i = 0; i < d.n; i += kind == TWO ? 2 : 1) {
    const int8_t *const *const taps = d.taps + i * n_taps;
    const size_t other = kind == TWO && i + 1 < d.n ? 1 : 0;
    vi sums[GROUPS];
    UNROLL for (size_t j = 0; j < GROUPS; j++) sums[j] = start[j];
    _Pragma("GCC unroll 3") for (size_t q = 0; q < quads; q++) {
      vi x[GROUPS];
      load_quads(taps + q * QUAD, other * n_taps, n_taps - q * QUAD, channel, kind, n, x);
      UNROLL for (size_t j = 0; j < GROUPS; j++) {
        const vi w = is_held ? held[q][j] : VI_LOAD(block + (q * GROUPS + j) * BYTES);
        sums[j] = VI_DOT(sums[j], x[j], w);
      }
    }
    const vi bytes = bytes_of(sums, columns + GROUPS * BYTES, &l);
    int8_t *const out = d.out + i * d.out_step + channel;
    if (kind == WHOLE) {
      VB_STORE(out, bytes);
    } else if (kind == PART) {
      store_bytes(out, bytes, n);
    } else {
      store_two(out, out + other * d.out_step, bytes, n);
    }
  }
}

static __attribute__((noinline)) void pixels_any(const eti_qdepthwise *d, size_t channel, size_t n,
                                                 width kind) {
  pixels(d, channel, n, kind, d->n_taps);
}

INLINE void pixels_of(const eti_qdepthwise *d, size_t channel, size_t n, width kind) {
  if (d->n_taps == 9) {
    pixels(d, channel, n, kind, 9);
  } else if (d->n_taps == 25 && kind == WHOLE) {
    pixels(d, channel, n, kind, 25);
  } else {
    pixels_any(d, channel, n, kind);
  }
}

static void ISA(depthwise)(const eti_qdepthwise *d) {
  ET_ASSERT(eti_qdepthwise_is_valid(d));
  for (size_t c = 0; c < d->channels; c += BYTES) {
    const size_t n = d->channels - c;
    if (n >= BYTES) {
      pixels_of(d, c, BYTES, WHOLE);
    } else if (n > BYTES / 2) {
      pixels_of(d, c, n, PART);
    } else {
      pixels_of(d, c, n, TWO);
    }
  }
}

// ---- rows

// Copies n values plus 128; the last step may repeat some of the one before.
INLINE void copy_plus_128(int8_t *dst, const int8_t *src, size_t n) {
  if (n >= BYTES) {
    for (size_t i = 0; i + BYTES <= n; i += BYTES) VB_STORE(dst + i, plus_128(VI_LOAD(src + i)));
    if (n % BYTES != 0) VB_STORE(dst + n - BYTES, plus_128(VI_LOAD(src + n - BYTES)));
  } else if (n > 0) {
    store_bytes(dst, plus_128(load_bytes(src, n)), n);
  }
}

static void ISA(copy)(void *to, const int8_t *src, size_t n) {
  ET_ASSERT(ETI_HOLDS(to, n, int8_t) && ETI_HOLDS(src, n, int8_t));
  copy_plus_128(to, src, n);
}

static void ISA(copy_windows)(const eti_qwindows *given) {
  ET_ASSERT(eti_qwindows_are_valid(given, 1));
  const eti_qwindows w = *given;
  for (size_t i = 0; i < w.n; i++) {
    int8_t *to = (int8_t *)w.to + i * w.to_step;
    const int8_t *from = w.from + i * w.step;
    for (size_t p = 0; p < w.pieces; p++, to += w.bytes, from += w.piece_step) {
      copy_plus_128(to, from, w.bytes);
    }
  }
}
