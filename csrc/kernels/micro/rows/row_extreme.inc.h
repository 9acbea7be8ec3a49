// row_extreme.inc.h — the largest or smallest element of a row of f32, for rows_f32.h. The order of
// comparisons does not matter, except for which of several NaNs remains. Parameters, undefined at
// the end: EXTREME (max or min), EXTREME_OF(a, b) of two numbers, EXTREME_BEFORE their comparison.
#define PASTE(a, b, c) a##b##c
#define NAMED(a, b, c) PASTE(a, b, c)
#define LANES NAMED(eti_registers_, EXTREME, )
#define QUADS NAMED(eti_f32x4_, EXTREME, )

// Compares each lane with the 16 numbers at u.
ETI_INLINE void LANES(eti_f32_register v[ETI_REGISTERS], const float *u) {
  _Pragma("GCC unroll 4") for (size_t i = 0; i < ETI_REGISTERS; i++) {
    const eti_f32_register w = *(const eti_f32_register *)(u + i * (16 / ETI_REGISTERS));
    const eti_i32_register take =
        (eti_i32_register)(w EXTREME_BEFORE v[i]) | (eti_i32_register)(w != w);
    v[i] = (eti_f32_register)(((eti_i32_register)w & take) | ((eti_i32_register)v[i] & ~take));
  }
}

ETI_INLINE void QUADS(eti_f32x4 *v, const eti_f32x4 *u) {
  const eti_i32x4 take = (eti_i32x4)(*u EXTREME_BEFORE * v) | (eti_i32x4)(*u != *u);
  *v = (eti_f32x4)(((eti_i32x4)*u & take) | ((eti_i32x4)*v & ~take));
}

ETI_INLINE float NAMED(eti_row_, EXTREME, _f32)(const float *x, size_t n) {
  float m = x[0];
  size_t i = 0;
  if (n >= 16) {
    eti_f32_register v[ETI_REGISTERS];
    memcpy(v, x, sizeof v);
    if (n >= 64) {  // four at a time, since each depends on the one before
      eti_f32_register b[ETI_REGISTERS], c[ETI_REGISTERS], d[ETI_REGISTERS];
      memcpy(b, x + 16, sizeof b);
      memcpy(c, x + 32, sizeof c);
      memcpy(d, x + 48, sizeof d);
      for (i = 64; i + 64 <= n; i += 64) {
        LANES(v, x + i);
        LANES(b, x + i + 16);
        LANES(c, x + i + 32);
        LANES(d, x + i + 48);
      }
      LANES(v, (const float *)b);
      LANES(c, (const float *)d);
      LANES(v, (const float *)c);
    } else {
      i = 16;
    }
    for (; i + 16 <= n; i += 16) LANES(v, x + i);
    eti_f32x4 q[4];
    memcpy(q, v, sizeof q);
    QUADS(&q[0], &q[1]);
    QUADS(&q[2], &q[3]);
    QUADS(&q[0], &q[2]);
    q[1] = (eti_f32x4){q[0][2], q[0][3], q[0][0], q[0][1]};
    QUADS(&q[0], &q[1]);  // scalars would be compared by unpredictable branches
    q[1] = (eti_f32x4){q[0][1], q[0][0], q[0][3], q[0][2]};
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
