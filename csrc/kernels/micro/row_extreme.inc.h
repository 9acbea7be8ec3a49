// row_extreme.inc.h — the greatest or the least element of a row of f32, for rows_f32.h. The order
// of comparisons does not matter, except which of several NaNs remains. Parameters, undefined at
// the end: EXTREME (max or min), EXTREME_OF(a, b) of two numbers, EXTREME_BEFORE their comparison.
#define PASTE(a, b, c) a##b##c
#define NAMED(a, b, c) PASTE(a, b, c)
#define LANES NAMED(eti_lanes_, EXTREME, )
#define QUADS NAMED(eti_quads_, EXTREME, )

ETI_INLINE void LANES(eti_lanes *v, const eti_lanes *u) {
  const eti_masks take = (eti_masks)(*u EXTREME_BEFORE * v) | (eti_masks)(*u != *u);
  *v = (eti_lanes)(((eti_masks)*u & take) | ((eti_masks)*v & ~take));
}

ETI_INLINE void QUADS(eti_quads *v, const eti_quads *u) {
  const eti_quad_masks take = (eti_quad_masks)(*u EXTREME_BEFORE * v) | (eti_quad_masks)(*u != *u);
  *v = (eti_quads)(((eti_quad_masks)*u & take) | ((eti_quad_masks)*v & ~take));
}

ETI_INLINE float NAMED(eti_row_, EXTREME, _f32)(const float *x, size_t n) {
  float m = x[0];
  size_t i = 0;
  if (n >= 16) {
    eti_lanes v = *(const eti_lanes *)x;
    if (n >= 64) {  // four at a time, since each waits for the one before it
      eti_lanes b = *(const eti_lanes *)(x + 16), c = *(const eti_lanes *)(x + 32),
                d = *(const eti_lanes *)(x + 48);
      for (i = 64; i + 64 <= n; i += 64) {
        LANES(&v, (const eti_lanes *)(x + i));
        LANES(&b, (const eti_lanes *)(x + i + 16));
        LANES(&c, (const eti_lanes *)(x + i + 32));
        LANES(&d, (const eti_lanes *)(x + i + 48));
      }
      LANES(&v, &b);
      LANES(&c, &d);
      LANES(&v, &c);
    } else {
      i = 16;
    }
    for (; i + 16 <= n; i += 16) LANES(&v, (const eti_lanes *)(x + i));
    eti_quads q[4];
    memcpy(q, &v, sizeof q);
    QUADS(&q[0], &q[1]);
    QUADS(&q[2], &q[3]);
    QUADS(&q[0], &q[2]);
    q[1] = (eti_quads){q[0][2], q[0][3], q[0][0], q[0][1]};
    QUADS(&q[0], &q[1]);  // numbers alone would be compared by branches that no one can predict
    q[1] = (eti_quads){q[0][1], q[0][0], q[0][3], q[0][2]};
    QUADS(&q[0], &q[1]);
    m = q[0][0];
  }
  for (; i < n; i++) m = EXTREME_OF(m, x[i]);
  return m;
}

#undef PASTE
#undef NAMED
#undef LANES
#undef QUADS
#undef EXTREME
#undef EXTREME_OF
#undef EXTREME_BEFORE
