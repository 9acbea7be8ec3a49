// complex_arith.inc.h — arithmetic loops of one complex type. Parameters, undefined at the end:
// COMPLEX_C (the pair), COMPLEX_R (its part), COMPLEX_SUFFIX. Sums and products, the commonest,
// have a contiguous loop.
#define COMPLEX_LOOP(name)                                                                        \
  static void ETI_LOOP_NAME(name, COMPLEX_SUFFIX)(void *const p[], const ptrdiff_t s[], size_t n, \
                                                  const void *params)
#define COMPLEX_HOLDS(p, n)                                              \
  (ETI_HOLDS((p)[0], n, COMPLEX_C) && ETI_HOLDS((p)[1], n, COMPLEX_C) && \
   ETI_HOLDS((p)[2], n, COMPLEX_C))

COMPLEX_LOOP(add_scaled) {
  ET_ASSERT(COMPLEX_HOLDS(p, n) && ETI_HOLDS(params, 1, COMPLEX_C));
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
  ET_ASSERT(COMPLEX_HOLDS(p, n));
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

// Division by Smith's algorithm, as in eager torch: it scales by the larger part of the divisor, so
// that neither the square of its size overflows nor an infinite part is divided by itself. For a
// zero divisor each part is divided. Pieces are split into parts and selected without branches, so
// that they vectorise.
static void ETI_LOOP_NAME(div_piece, COMPLEX_SUFFIX)(COMPLEX_R a[2][ETI_LOOP_PIECE],
                                                     COMPLEX_R b[2][ETI_LOOP_PIECE], size_t n) {
  ET_ASSERT(n <= ETI_LOOP_PIECE);
  for (size_t i = 0; i < n; i++) {
    const COMPLEX_R a_re = a[0][i], a_im = a[1][i], b_re = b[0][i], b_im = b[1][i];
    const COMPLEX_R size_re = b_re < 0 ? -b_re : b_re, size_im = b_im < 0 ? -b_im : b_im;
    const bool by_re = size_re >= size_im, by_zero = (size_re == 0) & (size_im == 0);
    const COMPLEX_R large = by_re ? b_re : b_im, small = by_re ? b_im : b_re;
    const COMPLEX_R along = by_re ? a_re : a_im, across = by_re ? a_im : a_re;
    const COMPLEX_R part = small / large, whole = large + small * part, along_part = along * part;
    const COMPLEX_R re = along + across * part;
    const COMPLEX_R im = (by_re ? across : along_part) - (by_re ? along_part : across);
    const COMPLEX_R under = by_zero ? 0 : whole;
    a[0][i] = (by_zero ? a_re : re) / under;
    a[1][i] = (by_zero ? a_im : im) / under;
  }
}
COMPLEX_LOOP(div) {
  ET_ASSERT(COMPLEX_HOLDS(p, n));
  (void)params;
  COMPLEX_R a[2][ETI_LOOP_PIECE], b[2][ETI_LOOP_PIECE];
  for (size_t i = 0; i < n; i += ETI_LOOP_PIECE) {
    const size_t m = n - i < ETI_LOOP_PIECE ? n - i : ETI_LOOP_PIECE;
    for (size_t j = 0; j < m; j++) {
      const COMPLEX_C x = ETI_CAT(COMPLEX_C, p[1], i + j, s[1]);
      const COMPLEX_C y = ETI_CAT(COMPLEX_C, p[2], i + j, s[2]);
      a[0][j] = x.re, a[1][j] = x.im, b[0][j] = y.re, b[1][j] = y.im;
    }
    ETI_LOOP_NAME(div_piece, COMPLEX_SUFFIX)(a, b, m);
    for (size_t j = 0; j < m; j++)
      ETI_AT(COMPLEX_C, p[0], i + j, s[0]) = (COMPLEX_C){a[0][j], a[1][j]};
  }
}
#undef COMPLEX_LOOP
#undef COMPLEX_HOLDS
#undef COMPLEX_C
#undef COMPLEX_R
#undef COMPLEX_SUFFIX
