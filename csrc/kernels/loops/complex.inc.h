// complex.inc.h — arithmetic loops of one complex type. Parameters, undefined at the end: COMPLEX_C
// (the pair), COMPLEX_R (its part), COMPLEX_SUFFIX. Sums and products, the commonest, have a
// contiguous loop.
#define COMPLEX_LOOP(name)                                                                        \
  static void ETI_LOOP_NAME(name, COMPLEX_SUFFIX)(void *const p[], const ptrdiff_t s[], size_t n, \
                                                  const void *params)

COMPLEX_LOOP(add_scaled) {
  const COMPLEX_C k = *(const COMPLEX_C *)params;
  const ptrdiff_t bytes = (ptrdiff_t)sizeof(COMPLEX_C);
  if (s[0] == bytes && s[1] == bytes && s[2] == bytes) {
    COMPLEX_C *out = p[0];
    const COMPLEX_C *left = p[1], *right = p[2];
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) {
      const COMPLEX_C a = left[i], b = right[i];
      out[i].re = a.re + (b.re * k.re - b.im * k.im);
      out[i].im = a.im + (b.re * k.im + b.im * k.re);
    }
    return;
  }
  for (size_t i = 0; i < n; i++) {
    const COMPLEX_C a = ETI_CAT(COMPLEX_C, p[1], i, s[1]), b = ETI_CAT(COMPLEX_C, p[2], i, s[2]);
    ETI_AT(COMPLEX_C, p[0], i, s[0]) =
        (COMPLEX_C){a.re + (b.re * k.re - b.im * k.im), a.im + (b.re * k.im + b.im * k.re)};
  }
}

COMPLEX_LOOP(mul) {
  (void)params;
  const ptrdiff_t bytes = (ptrdiff_t)sizeof(COMPLEX_C);
  if (s[0] == bytes && s[1] == bytes && s[2] == bytes) {
    COMPLEX_C *out = p[0];
    const COMPLEX_C *left = p[1], *right = p[2];
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) {
      const COMPLEX_C a = left[i], b = right[i];
      out[i].re = a.re * b.re - a.im * b.im;
      out[i].im = a.re * b.im + a.im * b.re;
    }
    return;
  }
  for (size_t i = 0; i < n; i++) {
    const COMPLEX_C a = ETI_CAT(COMPLEX_C, p[1], i, s[1]), b = ETI_CAT(COMPLEX_C, p[2], i, s[2]);
    ETI_AT(COMPLEX_C, p[0], i, s[0]) =
        (COMPLEX_C){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
}

// Smith's way, as eager: over the larger part of the divisor, so that neither the square of its
// size overflows nor an infinite one is divided by itself. By nought, each part is divided.
COMPLEX_LOOP(div) {
  (void)params;
  for (size_t i = 0; i < n; i++) {
    const COMPLEX_C a = ETI_CAT(COMPLEX_C, p[1], i, s[1]), b = ETI_CAT(COMPLEX_C, p[2], i, s[2]);
    const COMPLEX_R size_re = b.re < 0 ? -b.re : b.re, size_im = b.im < 0 ? -b.im : b.im;
    COMPLEX_C quotient;
    if (size_re == 0 && size_im == 0) {
      quotient = (COMPLEX_C){a.re / size_re, a.im / size_im};
    } else if (size_re >= size_im) {
      const COMPLEX_R part = b.im / b.re, whole = b.re + b.im * part;
      quotient = (COMPLEX_C){(a.re + a.im * part) / whole, (a.im - a.re * part) / whole};
    } else {
      const COMPLEX_R part = b.re / b.im, whole = b.re * part + b.im;
      quotient = (COMPLEX_C){(a.re * part + a.im) / whole, (a.im * part - a.re) / whole};
    }
    ETI_AT(COMPLEX_C, p[0], i, s[0]) = quotient;
  }
}
#undef COMPLEX_LOOP
#undef COMPLEX_C
#undef COMPLEX_R
#undef COMPLEX_SUFFIX
