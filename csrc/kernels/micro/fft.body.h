// fft.body.h — the loops of fft.h for parts of type T, as straight-line arithmetic that compilers
// vectorise over q. The including file sets, and this file undefines: T, SUFFIX, and FFT_IS_F64.

#include "kernels/micro/fft_zip.h"

#define CAT_(a, b) a##_##b
#define CAT(a, b) CAT_(a, b)
#define FN(name) CAT(name, SUFFIX)
// Outputs of one loop do not overlap, which compilers cannot see. Clang finds no way to vectorise
// the longer loops, and warns where it is told to.
#if defined(__clang__)
#define INDEPENDENT
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif
#define ALWAYS static inline __attribute__((always_inline))

typedef struct FN(complex) {
  T re, im;
} FN(complex);

// Rows of s elements of the passes: input j of p and output k of p.
typedef struct FN(rows) {
  const T *restrict xr, *restrict xi;
  T *restrict yr, *restrict yi;
  size_t step;  // between inputs; outputs follow each other
} FN(rows);

ALWAYS FN(complex) FN(load)(const FN(rows) * r, size_t s, size_t j, size_t q) {
  (void)s;
  return (FN(complex)){r->xr[j * r->step + q], r->xi[j * r->step + q]};
}

ALWAYS void FN(store)(const FN(rows) * r, size_t s, size_t k, size_t q, FN(complex) v) {
  r->yr[k * s + q] = v.re;
  r->yi[k * s + q] = v.im;
}

ALWAYS FN(complex) FN(sum)(FN(complex) a, FN(complex) b) {
  return (FN(complex)){a.re + b.re, a.im + b.im};
}
ALWAYS FN(complex) FN(difference)(FN(complex) a, FN(complex) b) {
  return (FN(complex)){a.re - b.re, a.im - b.im};
}
ALWAYS FN(complex) FN(product)(FN(complex) a, FN(complex) w) {
  return (FN(complex)){a.re * w.re - a.im * w.im, a.re * w.im + a.im * w.re};
}
// a + x·t, for a real x.
ALWAYS FN(complex) FN(plus)(FN(complex) a, T x, FN(complex) t) {
  return (FN(complex)){a.re + x * t.re, a.im + x * t.im};
}
// a - i·b and a + i·b
ALWAYS FN(complex) FN(turned)(FN(complex) a, FN(complex) b) {
  return (FN(complex)){a.re + b.im, a.im - b.re};
}
ALWAYS FN(complex) FN(turned_back)(FN(complex) a, FN(complex) b) {
  return (FN(complex)){a.re - b.im, a.im + b.re};
}

// Multiplied by a twiddle, of which those of p = 0 are 1.
ALWAYS FN(complex) FN(twisted)(FN(complex) v, const FN(complex) * w, bool is_unit) {
  return is_unit ? v : FN(product)(v, *w);
}

ALWAYS void FN(radix2)(const FN(rows) r, size_t s, const FN(complex) * w, bool unit) {
  INDEPENDENT
  for (size_t q = 0; q < s; q++) {
    const FN(complex) a = FN(load)(&r, s, 0, q), b = FN(load)(&r, s, 1, q);
    FN(store)(&r, s, 0, q, FN(sum)(a, b));
    FN(store)(&r, s, 1, q, FN(twisted)(FN(difference)(a, b), w, unit));
  }
}

ALWAYS void FN(radix3)(const FN(rows) r, size_t s, const FN(complex) * w, bool unit) {
  const T sine = (T)0.86602540378443864676;
  INDEPENDENT
  for (size_t q = 0; q < s; q++) {
    const FN(complex) a = FN(load)(&r, s, 0, q), b = FN(load)(&r, s, 1, q),
                      c = FN(load)(&r, s, 2, q);
    const FN(complex) t = FN(sum)(b, c), d = FN(difference)(b, c);
    const FN(complex) mean = FN(plus)(a, (T)-0.5, t), turn = {sine * d.re, sine * d.im};
    FN(store)(&r, s, 0, q, FN(sum)(a, t));
    FN(store)(&r, s, 1, q, FN(twisted)(FN(turned)(mean, turn), w, unit));
    FN(store)(&r, s, 2, q, FN(twisted)(FN(turned_back)(mean, turn), w + 1, unit));
  }
}

ALWAYS void FN(radix4)(const FN(rows) r, size_t s, const FN(complex) * w, bool unit) {
  INDEPENDENT
  for (size_t q = 0; q < s; q++) {
    const FN(complex) a = FN(load)(&r, s, 0, q), b = FN(load)(&r, s, 1, q),
                      c = FN(load)(&r, s, 2, q), d = FN(load)(&r, s, 3, q);
    const FN(complex) ac = FN(sum)(a, c), bd = FN(sum)(b, d);
    const FN(complex) a_c = FN(difference)(a, c), b_d = FN(difference)(b, d);
    FN(store)(&r, s, 0, q, FN(sum)(ac, bd));
    FN(store)(&r, s, 1, q, FN(twisted)(FN(turned)(a_c, b_d), w, unit));
    FN(store)(&r, s, 2, q, FN(twisted)(FN(difference)(ac, bd), w + 1, unit));
    FN(store)(&r, s, 3, q, FN(twisted)(FN(turned_back)(a_c, b_d), w + 2, unit));
  }
}

ALWAYS void FN(radix5)(const FN(rows) r, size_t s, const FN(complex) * w, bool unit) {
  const T c1 = (T)0.30901699437494742410, c2 = (T)-0.80901699437494742410,
          s1 = (T)0.95105651629515357212, s2 = (T)0.58778525229247312917;
  INDEPENDENT
  for (size_t q = 0; q < s; q++) {
    const FN(complex) a = FN(load)(&r, s, 0, q), b = FN(load)(&r, s, 1, q),
                      c = FN(load)(&r, s, 2, q), d = FN(load)(&r, s, 3, q),
                      e = FN(load)(&r, s, 4, q);
    const FN(complex) be = FN(sum)(b, e), cd = FN(sum)(c, d);
    const FN(complex) b_e = FN(difference)(b, e), c_d = FN(difference)(c, d), none = {0, 0};
    const FN(complex) near = FN(plus)(FN(plus)(a, c1, be), c2, cd);
    const FN(complex) far = FN(plus)(FN(plus)(a, c2, be), c1, cd);
    const FN(complex) turn_near = FN(plus)(FN(plus)(none, s1, b_e), s2, c_d);
    const FN(complex) turn_far = FN(plus)(FN(plus)(none, s2, b_e), -s1, c_d);
    FN(store)(&r, s, 0, q, FN(sum)(FN(sum)(a, be), cd));
    FN(store)(&r, s, 1, q, FN(twisted)(FN(turned)(near, turn_near), w, unit));
    FN(store)(&r, s, 2, q, FN(twisted)(FN(turned)(far, turn_far), w + 1, unit));
    FN(store)(&r, s, 3, q, FN(twisted)(FN(turned_back)(far, turn_far), w + 2, unit));
    FN(store)(&r, s, 4, q, FN(twisted)(FN(turned_back)(near, turn_near), w + 3, unit));
  }
}

// By the definition.
ALWAYS void FN(radix_n)(const FN(rows) r, size_t s, size_t radix, const FN(complex) * roots,
                        const FN(complex) * w, bool unit) {
  for (size_t k = 0; k < radix; k++) {
    for (size_t q = 0; q < s; q++) {
      FN(complex) y = FN(load)(&r, s, 0, q);
      for (size_t j = 1; j < radix; j++)
        y = FN(sum)(y, FN(product)(FN(load)(&r, s, j, q), roots[j * k % radix]));
      FN(store)(&r, s, k, q, k == 0 ? y : FN(twisted)(y, w + k - 1, unit));
    }
  }
}

static void FN(pass)(const eti_fft_pass *pass, eti_fft_planes dst, eti_fft_planes src) {
  const size_t s = pass->s, m = pass->m, radix = pass->radix;
  const FN(complex) *w = pass->twiddles;
  for (size_t p = 0; p < m; p++, w += radix - 1) {
    const size_t in = s * p, out = s * radix * p;
    const FN(rows) r = {.xr = (const T *)src.re + in,
                        .xi = (const T *)src.im + in,
                        .yr = (T *)dst.re + out,
                        .yi = (T *)dst.im + out,
                        .step = s * m};
    const bool unit = p == 0;
    switch (radix) {
      case 2:
        unit ? FN(radix2)(r, s, w, true) : FN(radix2)(r, s, w, false);
        break;
      case 3:
        unit ? FN(radix3)(r, s, w, true) : FN(radix3)(r, s, w, false);
        break;
      case 4:
        unit ? FN(radix4)(r, s, w, true) : FN(radix4)(r, s, w, false);
        break;
      case 5:
        unit ? FN(radix5)(r, s, w, true) : FN(radix5)(r, s, w, false);
        break;
      default:
        FN(radix_n)(r, s, radix, pass->roots, w, unit);
    }
  }
}

static void FN(multiply)(eti_fft_planes x, const void *factors, size_t n, size_t lanes) {
  T *restrict re = x.re, *restrict im = x.im;
  const FN(complex) *const f = factors;
  for (size_t i = 0; i < n; i++, re += lanes, im += lanes) {
    for (size_t l = 0; l < lanes; l++) {
      const FN(complex) v = FN(product)((FN(complex)){re[l], im[l]}, f[i]);
      re[l] = v.re;
      im[l] = v.im;
    }
  }
}

// ---- lines in and out of planes: tiles of as many lines as a register holds parts are transposed
// by zipping, what is left goes one by one

#if FFT_VECTOR_BYTES > 0
typedef T FN(vector) __attribute__((vector_size(FFT_VECTOR_BYTES)));
enum { FN(WIDTH) = FFT_VECTOR_BYTES / sizeof(T) };

ALWAYS FN(vector) FN(zip)(FN(vector) a, FN(vector) b, bool high) {
  if (high) return __builtin_shufflevector(a, b, FFT_HIGH);
  return __builtin_shufflevector(a, b, FFT_LOW);
}

// x[i][j] becomes x[j][i].
ALWAYS void FN(turn)(FN(vector) x[FN(WIDTH)]) {
  FN(vector) y[FN(WIDTH)];
  for (size_t round = 1; round < FN(WIDTH); round *= 2) {
    for (size_t i = 0; i < FN(WIDTH) / 2; i++) {
      y[2 * i] = FN(zip)(x[i], x[i + FN(WIDTH) / 2], false);
      y[2 * i + 1] = FN(zip)(x[i], x[i + FN(WIDTH) / 2], true);
    }
    for (size_t i = 0; i < FN(WIDTH); i++) x[i] = y[i];
  }
}

// Columns 0 … returned of WIDTH lines from lane l on.
static size_t FN(read_tiles)(T *re, T *im, const void *const *lines, size_t lanes, size_t l,
                             size_t n) {
  const size_t step = FN(WIDTH) / 2, end = n - n % step;
  for (size_t i = 0; i < end; i += step) {
    FN(vector) x[FN(WIDTH)];
    for (size_t k = 0; k < FN(WIDTH); k++)
      memcpy(&x[k], (const T *)lines[l + k] + 2 * i, sizeof x[k]);
    FN(turn)(x);
    for (size_t k = 0; k < step; k++) {
      memcpy(re + (i + k) * lanes + l, &x[2 * k], sizeof *x);
      memcpy(im + (i + k) * lanes + l, &x[2 * k + 1], sizeof *x);
    }
  }
  return end;
}

static size_t FN(write_tiles)(void *const *lines, const T *re, const T *im, size_t lanes, size_t l,
                              size_t n, T scale) {
  const size_t step = FN(WIDTH) / 2, end = n - n % step;
  for (size_t i = 0; i < end; i += step) {
    FN(vector) x[FN(WIDTH)];
    for (size_t k = 0; k < step; k++) {
      memcpy(&x[2 * k], re + (i + k) * lanes + l, sizeof *x);
      memcpy(&x[2 * k + 1], im + (i + k) * lanes + l, sizeof *x);
      x[2 * k] *= scale;
      x[2 * k + 1] *= scale;
    }
    FN(turn)(x);
    for (size_t k = 0; k < FN(WIDTH); k++) memcpy((T *)lines[l + k] + 2 * i, &x[k], sizeof x[k]);
  }
  return end;
}
#endif

static void FN(read)(eti_fft_planes to, const void *const *lines, size_t lanes, size_t n) {
  T *const re = to.re, *const im = to.im;
  size_t l = 0, done = 0;
#if FFT_VECTOR_BYTES > 0
  size_t tiled = 0;
  for (; l + FN(WIDTH) <= lanes; l += FN(WIDTH)) tiled = FN(read_tiles)(re, im, lines, lanes, l, n);
  done = l;
  for (l = 0; l < done; l++) {
    for (size_t i = tiled; i < n; i++) {
      re[i * lanes + l] = ((const T *)lines[l])[2 * i];
      im[i * lanes + l] = ((const T *)lines[l])[2 * i + 1];
    }
  }
#endif
  for (l = done; l < lanes; l++) {
    const T *const x = lines[l];
    for (size_t i = 0; i < n; i++) {
      re[i * lanes + l] = x[2 * i];
      im[i * lanes + l] = x[2 * i + 1];
    }
  }
}

static void FN(write)(void *const *lines, eti_fft_planes from, size_t lanes, size_t n,
                      double factor) {
  const T *const re = from.re, *const im = from.im, scale = (T)factor;
  size_t l = 0, done = 0;
#if FFT_VECTOR_BYTES > 0
  size_t tiled = 0;
  for (; l + FN(WIDTH) <= lanes; l += FN(WIDTH))
    tiled = FN(write_tiles)(lines, re, im, lanes, l, n, scale);
  done = l;
  for (l = 0; l < done; l++) {
    for (size_t i = tiled; i < n; i++) {
      ((T *)lines[l])[2 * i] = re[i * lanes + l] * scale;
      ((T *)lines[l])[2 * i + 1] = im[i * lanes + l] * scale;
    }
  }
#endif
  for (l = done; l < lanes; l++) {
    T *const y = lines[l];
    for (size_t i = 0; i < n; i++) {
      y[2 * i] = re[i * lanes + l] * scale;
      y[2 * i + 1] = im[i * lanes + l] * scale;
    }
  }
}

// ---- halves of real lines; see kernels/fft.body.h

static void FN(unfold)(eti_fft_planes dst, eti_fft_planes src, const void *table, size_t m,
                       size_t lanes) {
  const FN(complex) *const roots = table;
  for (size_t k = 0; k <= m; k++) {
    const FN(complex) root = roots[k];
    const T *const re = (const T *)src.re + k % m * lanes, *const im =
                                                               (const T *)src.im + k % m * lanes;
    const size_t mirror = (m - k) % m * lanes;
    const T *const mirror_re = (const T *)src.re + mirror, *const mirror_im =
                                                               (const T *)src.im + mirror;
    T *const out_re = (T *)dst.re + k * lanes, *const out_im = (T *)dst.im + k * lanes;
    INDEPENDENT
    for (size_t l = 0; l < lanes; l++) {
      const T ar = re[l], ai = im[l], br = mirror_re[l], bi = -mirror_im[l];
      const T even_re = (T)0.5 * (ar + br), even_im = (T)0.5 * (ai + bi);
      const T odd_re = (T)0.5 * (ai - bi), odd_im = (T)0.5 * (br - ar);
      out_re[l] = even_re + (odd_re * root.re - odd_im * root.im);
      out_im[l] = even_im + (odd_re * root.im + odd_im * root.re);
    }
  }
}

static void FN(fold)(eti_fft_planes dst, eti_fft_planes src, const void *table, size_t m,
                     size_t lanes) {
  const FN(complex) *const roots = table;
  for (size_t k = 0; k < m; k++) {
    const FN(complex) root = roots[k];
    const T *const re = (const T *)src.re + k * lanes, *const im = (const T *)src.im + k * lanes;
    const size_t mirror = (m - k) * lanes;
    const T *const mirror_re = (const T *)src.re + mirror, *const mirror_im =
                                                               (const T *)src.im + mirror;
    T *const out_re = (T *)dst.re + k * lanes, *const out_im = (T *)dst.im + k * lanes;
    INDEPENDENT
    for (size_t l = 0; l < lanes; l++) {
      const T ar = re[l], ai = im[l], br = mirror_re[l], bi = -mirror_im[l];
      const T dr = ar - br, di = ai - bi;  // times i · conj root
      const T turned_re = dr * root.im - di * root.re;
      const T turned_im = dr * root.re + di * root.im;
      out_re[l] = (ar + br) + turned_re;
      out_im[l] = (ai + bi) + turned_im;
    }
  }
}

#undef ALWAYS
#undef INDEPENDENT
#undef FN
#undef CAT
#undef CAT_
#undef T
#undef SUFFIX
#undef FFT_LOW
#undef FFT_HIGH
#undef FFT_IS_F64
