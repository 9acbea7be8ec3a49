// fft_pass.body.h — the loops of fft_pass.h for parts of type T, as straight-line arithmetic that
// compilers vectorise over q. The including file sets, and this file undefines: T, SUFFIX, and
// FFT_IS_F64.

#include "kernels/contract.h"
#include "kernels/micro/fft/fft_pass_zip.h"

#define CAT_(a, b) a##_##b
#define CAT(a, b) CAT_(a, b)
#define FN(name) CAT(name, SUFFIX)
// Outputs of one loop do not overlap, which compilers cannot prove. Clang cannot vectorise the
// longer loops, and warns if a pragma requires it.
#if defined(__clang__)
#define INDEPENDENT
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif
#define ALWAYS static inline __attribute__((always_inline))
#if FFT_IS_F64
#define FFT_FMA(a, b, c) __builtin_fma(a, b, c)
#else
#define FFT_FMA(a, b, c) __builtin_fmaf(a, b, c)
#endif

typedef struct FN(complex) {
  T re, im;
} FN(complex);

// Rows of s elements of the passes: input j of p and output k of p.
typedef struct FN(rows) {
  const T *restrict xr, *restrict xi;
  T *restrict yr, *restrict yi;
  size_t step, out_step;
} FN(rows);

ALWAYS FN(complex) FN(load)(const FN(rows) * r, size_t s, size_t j, size_t q) {
  (void)s;
  return (FN(complex)){r->xr[j * r->step + q], r->xi[j * r->step + q]};
}

ALWAYS void FN(store)(const FN(rows) * r, size_t s, size_t k, size_t q, FN(complex) v) {
  (void)s;
  r->yr[k * r->out_step + q] = v.re;
  r->yi[k * r->out_step + q] = v.im;
}

ALWAYS FN(complex) FN(sum)(FN(complex) a, FN(complex) b) {
  return (FN(complex)){a.re + b.re, a.im + b.im};
}
ALWAYS FN(complex) FN(difference)(FN(complex) a, FN(complex) b) {
  return (FN(complex)){a.re - b.re, a.im - b.im};
}
ALWAYS FN(complex) FN(product)(FN(complex) a, FN(complex) w) {
  return (FN(complex)){FFT_FMA(a.re, w.re, -(a.im * w.im)), FFT_FMA(a.re, w.im, a.im * w.re)};
}
// x·t and a + x·t, for a real x.
ALWAYS FN(complex) FN(scaled)(T x, FN(complex) t) {
  return (FN(complex)){x * t.re, x * t.im};
}
ALWAYS FN(complex) FN(plus)(FN(complex) a, T x, FN(complex) t) {
  return (FN(complex)){FFT_FMA(x, t.re, a.re), FFT_FMA(x, t.im, a.im)};
}
// a - i·b and a + i·b
ALWAYS FN(complex) FN(minus_i)(FN(complex) a, FN(complex) b) {
  return (FN(complex)){a.re + b.im, a.im - b.re};
}
ALWAYS FN(complex) FN(plus_i)(FN(complex) a, FN(complex) b) {
  return (FN(complex)){a.re - b.im, a.im + b.re};
}

// Multiplies by a twiddle; the twiddles of p = 0 are 1.
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
    FN(store)(&r, s, 1, q, FN(twisted)(FN(minus_i)(mean, turn), w, unit));
    FN(store)(&r, s, 2, q, FN(twisted)(FN(plus_i)(mean, turn), w + 1, unit));
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
    FN(store)(&r, s, 1, q, FN(twisted)(FN(minus_i)(a_c, b_d), w, unit));
    FN(store)(&r, s, 2, q, FN(twisted)(FN(difference)(ac, bd), w + 1, unit));
    FN(store)(&r, s, 3, q, FN(twisted)(FN(plus_i)(a_c, b_d), w + 2, unit));
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
    const FN(complex) b_e = FN(difference)(b, e), c_d = FN(difference)(c, d);
    const FN(complex) near = FN(plus)(FN(plus)(a, c1, be), c2, cd);
    const FN(complex) far = FN(plus)(FN(plus)(a, c2, be), c1, cd);
    const FN(complex) turn_near = FN(plus)(FN(scaled)(s1, b_e), s2, c_d);
    const FN(complex) turn_far = FN(plus)(FN(scaled)(s2, b_e), -s1, c_d);
    FN(store)(&r, s, 0, q, FN(sum)(FN(sum)(a, be), cd));
    FN(store)(&r, s, 1, q, FN(twisted)(FN(minus_i)(near, turn_near), w, unit));
    FN(store)(&r, s, 2, q, FN(twisted)(FN(minus_i)(far, turn_far), w + 1, unit));
    FN(store)(&r, s, 3, q, FN(twisted)(FN(plus_i)(far, turn_far), w + 2, unit));
    FN(store)(&r, s, 4, q, FN(twisted)(FN(plus_i)(near, turn_near), w + 3, unit));
  }
}

ALWAYS void FN(radix7)(const FN(rows) r, size_t s, const FN(complex) * w, bool unit) {
  const T c1 = (T)0.62348980185873353053, c2 = (T)-0.22252093395631440429,
          c3 = (T)-0.90096886790241912624, s1 = (T)0.78183148246802980871,
          s2 = (T)0.97492791218182360702, s3 = (T)0.43388373911755812048;
  INDEPENDENT
  for (size_t q = 0; q < s; q++) {
    const FN(complex) a = FN(load)(&r, s, 0, q), x1 = FN(load)(&r, s, 1, q),
                      x2 = FN(load)(&r, s, 2, q), x3 = FN(load)(&r, s, 3, q),
                      x4 = FN(load)(&r, s, 4, q), x5 = FN(load)(&r, s, 5, q),
                      x6 = FN(load)(&r, s, 6, q);
    const FN(complex) t1 = FN(sum)(x1, x6), t2 = FN(sum)(x2, x5), t3 = FN(sum)(x3, x4);
    const FN(complex) d1 = FN(difference)(x1, x6), d2 = FN(difference)(x2, x5),
                      d3 = FN(difference)(x3, x4);
    const FN(complex) near = FN(plus)(FN(plus)(FN(plus)(a, c1, t1), c2, t2), c3, t3);
    const FN(complex) side = FN(plus)(FN(plus)(FN(plus)(a, c2, t1), c3, t2), c1, t3);
    const FN(complex) far = FN(plus)(FN(plus)(FN(plus)(a, c3, t1), c1, t2), c2, t3);
    const FN(complex) turn_near = FN(plus)(FN(plus)(FN(scaled)(s1, d1), s2, d2), s3, d3);
    const FN(complex) turn_side = FN(plus)(FN(plus)(FN(scaled)(s2, d1), -s3, d2), -s1, d3);
    const FN(complex) turn_far = FN(plus)(FN(plus)(FN(scaled)(s3, d1), -s1, d2), s2, d3);
    FN(store)(&r, s, 0, q, FN(sum)(FN(sum)(a, t1), FN(sum)(t2, t3)));
    FN(store)(&r, s, 1, q, FN(twisted)(FN(minus_i)(near, turn_near), w, unit));
    FN(store)(&r, s, 2, q, FN(twisted)(FN(minus_i)(side, turn_side), w + 1, unit));
    FN(store)(&r, s, 3, q, FN(twisted)(FN(minus_i)(far, turn_far), w + 2, unit));
    FN(store)(&r, s, 4, q, FN(twisted)(FN(plus_i)(far, turn_far), w + 3, unit));
    FN(store)(&r, s, 5, q, FN(twisted)(FN(plus_i)(side, turn_side), w + 4, unit));
    FN(store)(&r, s, 6, q, FN(twisted)(FN(plus_i)(near, turn_near), w + 5, unit));
  }
}

// Computes two transforms of length four: of sums, and of differences rotated by eighths of a turn.
ALWAYS void FN(radix8)(const FN(rows) r, size_t s, const FN(complex) * w, bool unit) {
  const T half = (T)0.70710678118654752440;
  INDEPENDENT
  for (size_t q = 0; q < s; q++) {
    const FN(complex) x0 = FN(load)(&r, s, 0, q), x4 = FN(load)(&r, s, 4, q);
    const FN(complex) x2 = FN(load)(&r, s, 2, q), x6 = FN(load)(&r, s, 6, q);
    const FN(complex) x1 = FN(load)(&r, s, 1, q), x5 = FN(load)(&r, s, 5, q);
    const FN(complex) x3 = FN(load)(&r, s, 3, q), x7 = FN(load)(&r, s, 7, q);
    const FN(complex) a = FN(sum)(x0, x4), c = FN(sum)(x2, x6), b = FN(sum)(x1, x5),
                      d = FN(sum)(x3, x7);
    const FN(complex) ac = FN(sum)(a, c), bd = FN(sum)(b, d);
    const FN(complex) a_c = FN(difference)(a, c), b_d = FN(difference)(b, d);
    FN(store)(&r, s, 0, q, FN(sum)(ac, bd));
    FN(store)(&r, s, 2, q, FN(twisted)(FN(minus_i)(a_c, b_d), w + 1, unit));
    FN(store)(&r, s, 4, q, FN(twisted)(FN(difference)(ac, bd), w + 3, unit));
    FN(store)(&r, s, 6, q, FN(twisted)(FN(plus_i)(a_c, b_d), w + 5, unit));
    const FN(complex) e = FN(difference)(x0, x4), g = FN(difference)(x2, x6),
                      f = FN(difference)(x1, x5), h = FN(difference)(x3, x7);
    const FN(complex) f_rotated = {half * (f.re + f.im), half * (f.im - f.re)},
                      h_rotated = {half * (h.im - h.re), half * -(h.re + h.im)};
    const FN(complex) eg = FN(minus_i)(e, g), e_g = FN(plus_i)(e, g);
    const FN(complex) fh = FN(sum)(f_rotated, h_rotated),
                      f_h = FN(difference)(f_rotated, h_rotated);
    FN(store)(&r, s, 1, q, FN(twisted)(FN(sum)(eg, fh), w, unit));
    FN(store)(&r, s, 3, q, FN(twisted)(FN(minus_i)(e_g, f_h), w + 2, unit));
    FN(store)(&r, s, 5, q, FN(twisted)(FN(difference)(eg, fh), w + 4, unit));
    FN(store)(&r, s, 7, q, FN(twisted)(FN(plus_i)(e_g, f_h), w + 6, unit));
  }
}

// Computes an odd radix by the definition: results k and radix - k share the products with sums and
// differences of inputs j and radix - j. ODD_LANES neighbours at a time.
enum { FN(LANES) = 16, FN(ODD_LANES) = ETI_ON_STACK(16, 2) };

typedef struct FN(halves) {
  T re[ETI_FFT_MAX_RADIX / 2 + 1][FN(ODD_LANES)], im[ETI_FFT_MAX_RADIX / 2 + 1][FN(ODD_LANES)];
} FN(halves);

// Computes n ≤ ODD_LANES results from q on: `sums` of inputs (the first in row 0) and
// `differences`.
ALWAYS void FN(odd_results)(const FN(rows) r, size_t s, size_t q, size_t n, size_t radix,
                            const FN(complex) * roots, const FN(complex) * w, bool unit,
                            const FN(halves) * sums, const FN(halves) * differences) {
  T re[FN(ODD_LANES)], im[FN(ODD_LANES)], turn_re[FN(ODD_LANES)], turn_im[FN(ODD_LANES)];
  for (size_t k = 0; k <= radix / 2; k++) {
    for (size_t l = 0; l < n; l++) {
      re[l] = sums->re[0][l];
      im[l] = sums->im[0][l];
      turn_re[l] = turn_im[l] = 0;
    }
    for (size_t j = 1; j <= radix / 2; j++) {
      const FN(complex) root = roots[j * k % radix];
      for (size_t l = 0; l < n; l++) {
        re[l] = FFT_FMA(root.re, sums->re[j][l], re[l]);
        im[l] = FFT_FMA(root.re, sums->im[j][l], im[l]);
        turn_re[l] = FFT_FMA(-root.im, differences->re[j][l], turn_re[l]);
        turn_im[l] = FFT_FMA(-root.im, differences->im[j][l], turn_im[l]);
      }
    }
    for (size_t l = 0; l < n; l++) {
      const FN(complex) v = {re[l], im[l]}, turn = {turn_re[l], turn_im[l]};
      if (k == 0) {
        FN(store)(&r, s, 0, q + l, v);
      } else {
        FN(store)(&r, s, k, q + l, FN(twisted)(FN(minus_i)(v, turn), w + k - 1, unit));
        FN(store)(&r, s, radix - k, q + l,
                  FN(twisted)(FN(plus_i)(v, turn), w + radix - k - 1, unit));
      }
    }
  }
}

static void FN(radix_odd)(const FN(rows) r, size_t s, size_t radix, const FN(complex) * roots,
                          const FN(complex) * w, bool unit) {
  FN(halves) sums, differences;
  for (size_t q = 0; q < s; q += FN(ODD_LANES)) {
    const size_t n = s - q < FN(ODD_LANES) ? s - q : FN(ODD_LANES);
    for (size_t l = 0; l < n; l++) {
      sums.re[0][l] = r.xr[q + l];
      sums.im[0][l] = r.xi[q + l];
    }
    for (size_t j = 1; j <= radix / 2; j++) {
      for (size_t l = 0; l < n; l++) {
        const FN(complex) a = FN(load)(&r, s, j, q + l), b = FN(load)(&r, s, radix - j, q + l);
        sums.re[j][l] = a.re + b.re;
        sums.im[j][l] = a.im + b.im;
        differences.re[j][l] = a.re - b.re;
        differences.im[j][l] = a.im - b.im;
      }
    }
    if (n == FN(ODD_LANES)) {
      FN(odd_results)(r, s, q, FN(ODD_LANES), radix, roots, w, unit, &sums, &differences);
    } else {
      FN(odd_results)(r, s, q, n, radix, roots, w, unit, &sums, &differences);
    }
  }
}

ALWAYS FN(rows)
    FN(rows_of)(const eti_fft_pass *pass, eti_fft_planes dst, eti_fft_planes src, size_t p) {
  const size_t in = pass->s * p, out = pass->keeps_parts ? in : in * pass->radix;
  return (FN(rows)){.xr = (const T *)src.re + in,
                    .xi = (const T *)src.im + in,
                    .yr = (T *)dst.re + out,
                    .yi = (T *)dst.im + out,
                    .step = pass->s * pass->m,
                    .out_step = pass->keeps_parts ? pass->s * pass->m : pass->s};
}

// Common numbers of lines have loops of their own: in a pass over few neighbours, computing
// pointers takes longer than the arithmetic.
#define PASS(n)                                                                               \
  static void FN(pass##n)(const eti_fft_pass *pass, eti_fft_planes dst, eti_fft_planes src) { \
    const FN(complex) *const w = pass->twiddles;                                              \
    const size_t s = pass->s;                                                                 \
    FN(radix##n)(FN(rows_of)(pass, dst, src, 0), s, w, true);                                 \
    if (s == FN(LANES)) {                                                                     \
      for (size_t p = 1; p < pass->m; p++)                                                    \
        FN(radix##n)(FN(rows_of)(pass, dst, src, p), FN(LANES), w + p * (n - 1), false);      \
    } else {                                                                                  \
      for (size_t p = 1; p < pass->m; p++)                                                    \
        FN(radix##n)(FN(rows_of)(pass, dst, src, p), s, w + p * (n - 1), false);              \
    }                                                                                         \
  }
PASS(2)
PASS(3)
PASS(4)
PASS(5)
PASS(7)
PASS(8)
#undef PASS

// True if the planes can hold elements of T.
ALWAYS bool FN(hold)(eti_fft_planes x) {
  return ETI_HOLDS(x.re, 1, T) && ETI_HOLDS(x.im, 1, T);
}

static void FN(pass)(const eti_fft_pass *pass, eti_fft_planes dst, eti_fft_planes src) {
  ET_ASSERT(pass->m > 0 && pass->s > 0);
  ET_ASSERT(pass->radix >= 2 && pass->radix <= ETI_FFT_MAX_RADIX);
  ET_ASSERT(pass->radix % 2 != 0 || pass->radix == 2 || pass->radix == 4 || pass->radix == 8);
  ET_ASSERT(FN(hold)(dst) && FN(hold)(src) && dst.re != src.re && dst.im != src.im);
  ET_ASSERT(ETI_HOLDS(pass->twiddles, pass->m - 1, T));
  static void (*const passes[])(const eti_fft_pass *, eti_fft_planes, eti_fft_planes) = {
      [2] = FN(pass2), [3] = FN(pass3), [4] = FN(pass4),
      [5] = FN(pass5), [7] = FN(pass7), [8] = FN(pass8)};
  const size_t radix = pass->radix;
  if (radix < sizeof passes / sizeof *passes && passes[radix] != NULL) {
    passes[radix](pass, dst, src);
    return;
  }
  ET_ASSERT(ETI_HOLDS(pass->roots, radix, T));
  const FN(complex) *w = pass->twiddles;
  for (size_t p = 0; p < pass->m; p++, w += radix - 1)
    FN(radix_odd)(FN(rows_of)(pass, dst, src, p), pass->s, radix, pass->roots, w, p == 0);
}

static void FN(multiply)(eti_fft_planes x, const void *factors, size_t n, size_t lanes) {
  ET_ASSERT(FN(hold)(x) && ETI_HOLDS(factors, n, T));
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
// by zipping, the rest go one by one

#if FFT_VECTOR_BYTES > 0
typedef T FN(vector) __attribute__((vector_size(FFT_VECTOR_BYTES)));
enum { FN(WIDTH) = FFT_VECTOR_BYTES / sizeof(T) };

ALWAYS FN(vector) FN(zip)(FN(vector) a, FN(vector) b, bool high) {
  if (high) return __builtin_shufflevector(a, b, FFT_HIGH);
  return __builtin_shufflevector(a, b, FFT_LOW);
}

// Transposes a tile: x[i][j] becomes x[j][i].
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

enum { FN(STEP) = FN(WIDTH) / 2 };  // columns of a tile, which are pairs

ALWAYS void FN(read_tile)(T *re, T *im, const void *const *lines, size_t lanes, size_t l,
                          size_t i) {
  FN(vector) x[FN(WIDTH)];
  for (size_t k = 0; k < FN(WIDTH); k++)
    memcpy(&x[k], (const T *)lines[l + k] + 2 * i, sizeof x[k]);
  FN(turn)(x);
  for (size_t k = 0; k < FN(STEP); k++) {
    memcpy(re + (i + k) * lanes + l, &x[2 * k], sizeof *x);
    memcpy(im + (i + k) * lanes + l, &x[2 * k + 1], sizeof *x);
  }
}

// Transposes columns 0 … returned of WIDTH lines from lane l on: all, unless they are fewer than a
// tile's. The last tile may overlap the one before.
static size_t FN(read_tiles)(T *re, T *im, const void *const *lines, size_t lanes, size_t l,
                             size_t n) {
  if (n < FN(STEP)) return 0;
  for (size_t i = 0; i + FN(STEP) <= n; i += FN(STEP)) FN(read_tile)(re, im, lines, lanes, l, i);
  if (n % FN(STEP) != 0) FN(read_tile)(re, im, lines, lanes, l, n - FN(STEP));
  return n;
}

ALWAYS void FN(write_tile)(void *const *lines, const T *re, const T *im, size_t lanes, size_t l,
                           size_t i, size_t n, T scale, unsigned order) {
  FN(vector) x[FN(WIDTH)];
  for (size_t k = 0; k < FN(STEP); k++) {
    const size_t at = eti_fft_place(i + k, n, order) * lanes + l;
    memcpy(&x[2 * k], re + at, sizeof *x);
    memcpy(&x[2 * k + 1], im + at, sizeof *x);
    x[2 * k] *= scale;
    x[2 * k + 1] *= scale;
  }
  FN(turn)(x);
  for (size_t k = 0; k < FN(WIDTH); k++) memcpy((T *)lines[l + k] + 2 * i, &x[k], sizeof x[k]);
}

static size_t FN(write_tiles)(void *const *lines, const T *re, const T *im, size_t lanes, size_t l,
                              size_t n, T scale, unsigned order) {
  if (n < FN(STEP)) return 0;
  for (size_t i = 0; i + FN(STEP) <= n; i += FN(STEP))
    FN(write_tile)(lines, re, im, lanes, l, i, n, scale, order);
  if (n % FN(STEP) != 0) FN(write_tile)(lines, re, im, lanes, l, n - FN(STEP), n, scale, order);
  return n;
}
#endif

static void FN(read)(eti_fft_planes to, const void *const *lines, size_t lanes, size_t n) {
  ET_ASSERT(FN(hold)(to) && ETI_HOLDS(lines, lanes, void *));
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
                      double factor, unsigned order) {
  ET_ASSERT(FN(hold)(from) && ETI_HOLDS(lines, lanes, void *) && eti_fft_has_order(n, order));
  const T *const re = from.re, *const im = from.im, scale = (T)factor;
  size_t l = 0, done = 0;
#if FFT_VECTOR_BYTES > 0
  size_t tiled = 0;
  for (; l + FN(WIDTH) <= lanes; l += FN(WIDTH))
    tiled = FN(write_tiles)(lines, re, im, lanes, l, n, scale, order);
  done = l;
  for (l = 0; l < done; l++) {
    for (size_t i = tiled; i < n; i++) {
      const size_t at = eti_fft_place(i, n, order) * lanes + l;
      ((T *)lines[l])[2 * i] = re[at] * scale;
      ((T *)lines[l])[2 * i + 1] = im[at] * scale;
    }
  }
#endif
  for (l = done; l < lanes; l++) {
    T *const y = lines[l];
    for (size_t i = 0; i < n; i++) {
      const size_t at = eti_fft_place(i, n, order) * lanes + l;
      y[2 * i] = re[at] * scale;
      y[2 * i + 1] = im[at] * scale;
    }
  }
}

// ---- lines that are side by side in memory

static void FN(read_rows)(eti_fft_planes to, const void *from, ptrdiff_t step, size_t lanes,
                          size_t n) {
  ET_ASSERT(FN(hold)(to) && ETI_HOLDS(from, n, T));
  T *restrict re = to.re, *restrict im = to.im;
  const T *restrict x = from;
  for (size_t i = 0; i < n; i++, re += lanes, im += lanes, x += 2 * step) {
    INDEPENDENT
    for (size_t l = 0; l < lanes; l++) {
      re[l] = x[2 * l];
      im[l] = x[2 * l + 1];
    }
  }
}

static void FN(read_twiddled)(eti_fft_planes to, const void *from, const void *factors, size_t step,
                              size_t lanes, size_t n) {
  ET_ASSERT(FN(hold)(to) && ETI_HOLDS(from, n, T) && ETI_HOLDS(factors, n, T));
  T *restrict re = to.re, *restrict im = to.im;
  const T *restrict x = from, *restrict f = factors;
  for (size_t i = 0; i < n; i++, re += lanes, im += lanes, x += 2 * step, f += 2 * step) {
    INDEPENDENT
    for (size_t l = 0; l < lanes; l++) {
      const FN(complex) v =
          FN(product)((FN(complex)){x[2 * l], x[2 * l + 1]}, (FN(complex)){f[2 * l], f[2 * l + 1]});
      re[l] = v.re;
      im[l] = v.im;
    }
  }
}

static void FN(write_rows)(void *to, ptrdiff_t step, eti_fft_planes from, size_t lanes, size_t n,
                           double factor, unsigned order) {
  ET_ASSERT(ETI_HOLDS(to, n, T) && FN(hold)(from) && eti_fft_has_order(n, order));
  const T scale = (T)factor;
  T *restrict y = to;
  for (size_t i = 0; i < n; i++, y += 2 * step) {
    const size_t at = eti_fft_place(i, n, order) * lanes;
    const T *restrict re = (const T *)from.re + at, *restrict im = (const T *)from.im + at;
    INDEPENDENT
    for (size_t l = 0; l < lanes; l++) {
      y[2 * l] = re[l] * scale;
      y[2 * l + 1] = im[l] * scale;
    }
  }
}

// ---- halves of real lines; see kernels/lib/fft_lines.body.h

// Result k from numbers k and m - k of the pairs' transform.
ALWAYS FN(complex) FN(unfolded)(FN(complex) a, FN(complex) mirror, FN(complex) root) {
  const FN(complex) b = {mirror.re, -mirror.im};
  const FN(complex) even = {(T)0.5 * (a.re + b.re), (T)0.5 * (a.im + b.im)};
  const FN(complex) odd = {(T)0.5 * (a.im - b.im), (T)0.5 * (b.re - a.re)};
  return FN(sum)(even, FN(product)(odd, root));
}

ALWAYS FN(complex) FN(folded)(FN(complex) a, FN(complex) mirror, FN(complex) root) {
  const FN(complex) b = {mirror.re, -mirror.im}, d = FN(difference)(a, b);
  // d times i · conj root
  const FN(complex)
      rotated = {FFT_FMA(d.re, root.im, -(d.im * root.re)), FFT_FMA(d.re, root.re, d.im * root.im)};
  return FN(sum)(FN(sum)(a, b), rotated);
}

// Numbers 1 … m - 1 of a single line, whose neighbours are in the line itself.
ALWAYS void FN(mirror_line)(eti_fft_planes dst, eti_fft_planes src, const FN(complex) * roots,
                            size_t m, bool unfolds) {
  const T *const re = src.re, *const im = src.im;
  T *const out_re = dst.re, *const out_im = dst.im;
  INDEPENDENT
  for (size_t k = 1; k < m; k++) {
    const FN(complex) a = {re[k], im[k]}, b = {re[m - k], im[m - k]};
    const FN(complex) v = unfolds ? FN(unfolded)(a, b, roots[k]) : FN(folded)(a, b, roots[k]);
    out_re[k] = v.re;
    out_im[k] = v.im;
  }
}

// Number k of every line.
ALWAYS void FN(mirror_lanes)(eti_fft_planes dst, eti_fft_planes src, FN(complex) root, size_t k,
                             size_t from, size_t mirror, size_t lanes, bool unfolds) {
  const T *const re = (const T *)src.re + from * lanes, *const im =
                                                            (const T *)src.im + from * lanes;
  const T *const mirror_re = (const T *)src.re + mirror * lanes, *const mirror_im =
                                                                     (const T *)src.im +
                                                                     mirror * lanes;
  T *const out_re = (T *)dst.re + k * lanes, *const out_im = (T *)dst.im + k * lanes;
  INDEPENDENT
  for (size_t l = 0; l < lanes; l++) {
    const FN(complex) a = {re[l], im[l]}, b = {mirror_re[l], mirror_im[l]};
    const FN(complex) v = unfolds ? FN(unfolded)(a, b, root) : FN(folded)(a, b, root);
    out_re[l] = v.re;
    out_im[l] = v.im;
  }
}

// Numbers 0 and m of every line, from number 0 alone: they are real, even of lines with NaN.
ALWAYS void FN(unfold_ends)(eti_fft_planes dst, eti_fft_planes src, size_t m, size_t lanes) {
  const T *const re = src.re, *const im = src.im;
  T *const out_re = dst.re, *const out_im = dst.im;
  INDEPENDENT
  for (size_t l = 0; l < lanes; l++) {
    const T even = re[l], odd = im[l];
    out_re[l] = even + odd;
    out_im[l] = 0;
    out_re[m * lanes + l] = even - odd;
    out_im[m * lanes + l] = 0;
  }
}

static void FN(unfold)(eti_fft_planes dst, eti_fft_planes src, const void *table, size_t m,
                       size_t lanes, unsigned order) {
  ET_ASSERT(m > 0 && lanes > 0 && ETI_HOLDS(table, m + 1, T) && eti_fft_has_order(m, order));
  ET_ASSERT(FN(hold)(dst) && FN(hold)(src) && dst.re != src.re && dst.im != src.im);
  ET_ASSERT(lanes > 1 || order == 0);
  const FN(complex) *const roots = table;
  FN(unfold_ends)(dst, src, m, lanes);
  if (lanes == 1) FN(mirror_line)(dst, src, roots, m, true);
  for (size_t k = 1; k < m && lanes > 1; k++)
    FN(mirror_lanes)(dst, src, roots[k], k, eti_fft_place(k, m, order),
                     eti_fft_place(m - k, m, order), lanes, true);
}

static void FN(fold)(eti_fft_planes dst, eti_fft_planes src, const void *table, size_t m,
                     size_t lanes) {
  ET_ASSERT(m > 0 && lanes > 0 && ETI_HOLDS(table, m + 1, T));
  ET_ASSERT(FN(hold)(dst) && FN(hold)(src) && dst.re != src.re && dst.im != src.im);
  const FN(complex) *const roots = table;
  FN(mirror_lanes)(dst, src, roots[0], 0, 0, m, lanes, false);
  if (lanes == 1) FN(mirror_line)(dst, src, roots, m, false);
  for (size_t k = 1; k < m && lanes > 1; k++)
    FN(mirror_lanes)(dst, src, roots[k], k, k, m - k, lanes, false);
}

#undef ALWAYS
#undef FFT_FMA
#undef INDEPENDENT
#undef FN
#undef CAT
#undef CAT_
#undef T
#undef SUFFIX
#undef FFT_LOW
#undef FFT_HIGH
#undef FFT_IS_F64
