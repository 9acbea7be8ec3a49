// qgemm_dot.body.h — depthwise taps and rows of qgemm.h for instructions that add four products of
// unsigned and signed bytes. Included after qgemm.body.h, whose operations it uses, with the BYTES
// of a vector and the VB_ operations on its bytes.
//
// A block has BYTES channels. Interleaving the bytes of four taps twice gives four vectors of
// quads. Both steps stay within lanes of 128 bits: lane l of vector j has the channels 16 l + 4 j …
// + 3 of the block, which are columns of its panel l. Narrowing the four vectors of sums in the
// same lanes restores the order of channels.

// ---- depthwise

enum {
  GROUPS = 4,  // vectors of quads
  LANE = 16,   // bytes, and channels of a block
  MAX_QUADS = ETI_QGEMM_MAX_TAPS / QUAD,
};

// 16 bytes at p of each lane, `step` apart.
INLINE vi gather_lanes(const void *p, size_t step) {
  int8_t all[BYTES];
  UNROLL for (size_t l = 0; l < BYTES / LANE; l++) {
    memcpy(all + l * LANE, (const char *)p + l * step, LANE);
  }
  return VI_LOAD(all);
}

typedef struct block {
  vi w[MAX_QUADS][GROUPS], start[GROUPS];
  vf scale[GROUPS], add[GROUPS], high;
  vi low, zero;
} block;

// Reads the data of a block's channels; those past the last panel are read from the first.
INLINE void load_block(block *b, const eti_qdepthwise *d, size_t channel, size_t quads) {
  const size_t panel = eti_qpanel_bytes(quads), last = (d->channels - 1) / NR;
  int32_t start[BYTES];
  float scale[BYTES], add[BYTES];
  const int8_t *w[BYTES / LANE];
  for (size_t l = 0; l < BYTES / LANE; l++) {
    const size_t which = channel / NR + l <= last ? channel / NR + l : channel / NR;
    w[l] = d->w + which * panel;
    memcpy(start + l * LANE, d->start + which * NR, LANE * sizeof *start);
    memcpy(scale + l * LANE, d->scale + which * NR, LANE * sizeof *scale);
    memcpy(add + l * LANE, d->add + which * NR, LANE * sizeof *add);
  }
  for (size_t q = 0; q < quads; q++) {
    UNROLL for (size_t j = 0; j < GROUPS; j++) {
      int8_t all[BYTES];
      UNROLL for (size_t l = 0; l < BYTES / LANE; l++) {
        memcpy(all + l * LANE, w[l] + q * QUAD_BYTES + j * LANE, LANE);
      }
      b->w[q][j] = VI_LOAD(all);
    }
  }
  UNROLL for (size_t j = 0; j < GROUPS; j++) {
    b->start[j] = gather_lanes(start + j * QUAD, LANE * sizeof *start);
    b->scale[j] = VF_CAST(gather_lanes(scale + j * QUAD, LANE * sizeof *scale));
    b->add[j] = VF_CAST(gather_lanes(add + j * QUAD, LANE * sizeof *add));
  }
  b->high = VF_SET1(d->high);
  b->low = VB_SET1((char)d->low);
  b->zero = VB_SET1_16((short)d->zero);
}

// Loads n ≤ BYTES values, plus 128.
INLINE vi load_tap(const int8_t *p, size_t n) {
  return VB_XOR(n == BYTES ? VI_LOAD(p) : VB_LOAD_PART(p, n), VB_SET1((char)0x80));
}

// The quads of four taps, of which `taps` are there.
INLINE void load_quads(const int8_t *const *p, size_t taps, size_t channel, size_t n,
                       vi x[GROUPS]) {
  vi t[QUAD];
  UNROLL for (size_t i = 0; i < QUAD; i++) {
    t[i] = i < taps ? load_tap(p[i] + channel, n) : VB_SET1((char)0x80);
  }
  const vi low = VB_LOW_8(t[0], t[1]), high = VB_HIGH_8(t[0], t[1]);
  const vi low2 = VB_LOW_8(t[2], t[3]), high2 = VB_HIGH_8(t[2], t[3]);
  x[0] = VB_LOW_16(low, low2);
  x[1] = VB_HIGH_16(low, low2);
  x[2] = VB_LOW_16(high, high2);
  x[3] = VB_HIGH_16(high, high2);
}

INLINE void store_block(int8_t *out, const vi sums[GROUPS], const block *b, size_t n) {
  vi q[GROUPS];
  UNROLL for (size_t j = 0; j < GROUPS; j++) {
    const vf scaled = VF_ADD(VF_MUL(VF_OF(sums[j]), b->scale[j]), b->add[j]);
    q[j] = VI_ROUND(VF_MIN(scaled, b->high));
  }
  const vi first = VB_ADDS_16(VB_PACKS_32(q[0], q[1]), b->zero);
  const vi second = VB_ADDS_16(VB_PACKS_32(q[2], q[3]), b->zero);
  const vi bytes = VB_MAX(VB_PACKS_16(first, second), b->low);
  if (n == BYTES) {
    VB_STORE(out, bytes);
  } else {
    VB_STORE_PART(out, bytes, n);
  }
}

// n ≤ BYTES channels of all pixels; n and n_taps are constants in most calls.
INLINE void pixels(const eti_qdepthwise *given, size_t channel, size_t n, size_t n_taps) {
  const eti_qdepthwise d = *given;
  const size_t quads = (n_taps + QUAD - 1) / QUAD;
  block b;
  load_block(&b, &d, channel, quads);
  for (size_t i = 0; i < d.n; i++) {
    const int8_t *const *const taps = d.taps + i * n_taps;
    vi sums[GROUPS];
    UNROLL for (size_t j = 0; j < GROUPS; j++) sums[j] = b.start[j];
    UNROLL for (size_t q = 0; q < quads; q++) {
      const size_t left = n_taps - q * QUAD;
      vi x[GROUPS];
      load_quads(taps + q * QUAD, left, channel, n, x);
      UNROLL for (size_t j = 0; j < GROUPS; j++) sums[j] = VI_DOT(sums[j], x[j], b.w[q][j]);
    }
    store_block(d.out + i * d.out_step + channel, sums, &b, n);
  }
}

static void ISA(depthwise)(const eti_qdepthwise *d) {
  ET_ASSERT(eti_qdepthwise_is_valid(d));
  for (size_t c = 0; c < d->channels; c += BYTES) {
    const size_t n = d->channels - c;
    if (d->n_taps == 9 && n >= BYTES) {
      pixels(d, c, BYTES, 9);
    } else if (d->n_taps == 9) {
      pixels(d, c, n, 9);
    } else if (d->n_taps == 25 && n >= BYTES) {
      pixels(d, c, BYTES, 25);
    } else {
      pixels(d, c, n < BYTES ? n : BYTES, d->n_taps);
    }
  }
}

// ---- rows

// Copies n values plus 128; the last step may repeat some of the one before.
static void ISA(copy)(void *to, const int8_t *src, size_t n) {
  ET_ASSERT(ETI_HOLDS(to, n, int8_t) && ETI_HOLDS(src, n, int8_t));
  int8_t *const dst = to;
  if (n >= BYTES) {
    for (size_t i = 0; i + BYTES <= n; i += BYTES) VB_STORE(dst + i, load_tap(src + i, BYTES));
    if (n % BYTES != 0) VB_STORE(dst + n - BYTES, load_tap(src + n - BYTES, BYTES));
  } else if (n > 0) {
    VB_STORE_PART(dst, load_tap(src, n), n);
  }
}
