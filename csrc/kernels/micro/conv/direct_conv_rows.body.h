// direct_conv_rows.body.h — the loops of direct_conv.h, once, for every instruction set. The
// including file sets, and this file undefines:
//   SUFFIX, VEC, LANES                  end of the names; vector of f32 and its elements
//   V_SET1(x) V_LOAD(p) V_STORE(p, v)   whole vectors
//   V_FMA(a, b, c)                      a · b + c
//   V_FMA_BY(x, v, c)                   optional: x · v + c for a number x
//   V_LIMIT(v, low, high, plus)         eti_clamp of vectors
//   V_LOAD_N(p, n) V_STORE_N(p, v, n)   the first n lanes, 1 ≤ n < LANES
//   V_EVEN(p)                           p[0], p[2], … p[2 · LANES - 2]; reads nothing past them
//   V_EVEN_N(p, n)                      optional: the first n of these, 1 ≤ n ≤ LANES
//   LANES_T, V_LANES(from, to), V_INSIDE(p, step, lanes)
//       with lanes = V_LANES(from, to): p[l · step] in the lanes l with from ≤ l · step < to, zero
//       in the others, whose memory is not read; step is 1 or 2

#include "kernels/contract.h"

#ifndef V_FMA_BY
#define V_FMA_BY(x, v, c) V_FMA(V_SET1(x), v, c)
#endif
#define CAT_(a, b) a##_##b
#define CAT(a, b) CAT_(a, b)
#define FN(name) CAT(name, SUFFIX)

static void FN(copy_rows)(float *dst, size_t dst_step, const float *src, ptrdiff_t src_step,
                          size_t step, size_t rows, size_t n) {
  ET_ASSERT(step >= 1 && ETI_HOLDS(dst, rows * n, float) && ETI_HOLDS(src, rows * n, float));
  for (; rows > 0; rows--, dst += dst_step, src += src_step) {
    size_t i = 0;
    if (step == 1) {
      for (; i + LANES <= n; i += LANES) V_STORE(dst + i, V_LOAD(src + i));
      if (i < n) V_STORE_N(dst + i, V_LOAD_N(src + i, n - i), n - i);
      continue;
    }
#ifdef V_EVEN_N
    if (step == 2) {
      for (; i + LANES <= n; i += LANES) V_STORE(dst + i, V_EVEN_N(src + 2 * i, LANES));
      if (i < n) V_STORE_N(dst + i, V_EVEN_N(src + 2 * i, n - i), n - i);
      continue;
    }
#endif
    for (; i < n; i++) dst[i] = src[i * step];
  }
}

// Four vectors at a time hide the latency of the FMAs; the rest go one vector at a time.
static void FN(row)(float *out, size_t n, const float *const *taps, const float *w, size_t n_taps,
                    float bias, const eti_clamp_range *range) {
  ET_ASSERT(ETI_HOLDS(out, n, float) && eti_clamp_range_is_valid(range));
  ET_ASSERT(ETI_HOLDS(taps, n_taps, float *) && ETI_HOLDS(w, n_taps, float));
  const VEC low = V_SET1(range->low), high = V_SET1(range->high), plus = V_SET1(range->plus);
  size_t i = 0;
  for (; i + 4 * LANES <= n; i += 4 * LANES) {
    VEC a = V_SET1(bias), b = a, c = a, d = a;
    for (size_t t = 0; t < n_taps; t++) {
      const float wt = w[t];
      const float *const p = taps[t] + i;
      a = V_FMA_BY(wt, V_LOAD(p), a);
      b = V_FMA_BY(wt, V_LOAD(p + LANES), b);
      c = V_FMA_BY(wt, V_LOAD(p + 2 * LANES), c);
      d = V_FMA_BY(wt, V_LOAD(p + 3 * LANES), d);
    }
    V_STORE(out + i, V_LIMIT(a, low, high, plus));
    V_STORE(out + i + LANES, V_LIMIT(b, low, high, plus));
    V_STORE(out + i + 2 * LANES, V_LIMIT(c, low, high, plus));
    V_STORE(out + i + 3 * LANES, V_LIMIT(d, low, high, plus));
  }
  for (; i + LANES <= n; i += LANES) {
    VEC a = V_SET1(bias);
    for (size_t t = 0; t < n_taps; t++) a = V_FMA_BY(w[t], V_LOAD(taps[t] + i), a);
    V_STORE(out + i, V_LIMIT(a, low, high, plus));
  }
  if (i < n) {
    VEC a = V_SET1(bias);
    for (size_t t = 0; t < n_taps; t++) a = V_FMA_BY(w[t], V_LOAD_N(taps[t] + i, n - i), a);
    V_STORE_N(out + i, V_LIMIT(a, low, high, plus), n - i);
  }
}

// Computes `nv` vectors of every row. nv and whole are constants; `whole` is false when the only
// vector has n elements.
static inline __attribute__((always_inline)) void FN(some_rows)(
    float *out, size_t out_step, const size_t nv, const float *const *taps, size_t at,
    const float *w, size_t n_taps, const float *bias, const eti_clamp_range *range,
    const bool whole, size_t n) {
  (void)n;
  const VEC low = V_SET1(range->low), high = V_SET1(range->high), plus = V_SET1(range->plus);
  VEC acc[ETI_DIRECT_CONV_ROWS][4];
  for (size_t r = 0; r < ETI_DIRECT_CONV_ROWS; r++) {
    for (size_t v = 0; v < nv; v++) acc[r][v] = V_SET1(bias[r]);
  }
  for (size_t t = 0; t < n_taps; t++, w += ETI_DIRECT_CONV_ROWS) {
    const float *const x = taps[t] + at;
    VEC xv[4];
    for (size_t v = 0; v < nv; v++) xv[v] = whole ? V_LOAD(x + v * LANES) : V_LOAD_N(x, n);
    for (size_t r = 0; r < ETI_DIRECT_CONV_ROWS; r++) {
      const float wr = w[r];
      for (size_t v = 0; v < nv; v++) acc[r][v] = V_FMA_BY(wr, xv[v], acc[r][v]);
    }
  }
  for (size_t r = 0; r < ETI_DIRECT_CONV_ROWS; r++, out += out_step) {
    for (size_t v = 0; v < nv; v++) {
      const VEC value = V_LIMIT(acc[r][v], low, high, plus);
      if (whole) {
        V_STORE(out + at + v * LANES, value);
      } else {
        V_STORE_N(out + at, value, n);
      }
    }
  }
}

// Computes all rows, with sixteen accumulators if there are registers for them.
static void FN(rows)(float *out, size_t out_step, size_t n, const float *const *taps,
                     const float *w, size_t n_taps, const float *bias,
                     const eti_clamp_range *range) {
  ET_ASSERT(ETI_HOLDS(out, n, float) && eti_clamp_range_is_valid(range));
  ET_ASSERT(ETI_HOLDS(taps, n_taps, float *) && ETI_HOLDS(w, n_taps, float));
  ET_ASSERT(ETI_HOLDS(bias, ETI_DIRECT_CONV_ROWS, float));
  const size_t nv = LANES == 16 ? 4 : 2;
  size_t i = 0;
  for (; i + nv * LANES <= n; i += nv * LANES)
    FN(some_rows)(out, out_step, nv, taps, i, w, n_taps, bias, range, true, LANES);
  for (; i + LANES <= n; i += LANES)
    FN(some_rows)(out, out_step, 1, taps, i, w, n_taps, bias, range, true, LANES);
  if (i < n) FN(some_rows)(out, out_step, 1, taps, i, w, n_taps, bias, range, false, n - i);
}

// Computes one vector of channels of `count` pixels, which share the load of each weight. count and
// whole are constants; `whole` is false when only n channels are left.
static inline __attribute__((always_inline)) void FN(some_pixels)(
    float *out, ptrdiff_t out_step, const size_t count, const float *const *taps, ptrdiff_t at,
    ptrdiff_t tap_step, const float *w, size_t w_step, size_t n_taps, const float *bias,
    const eti_clamp_range *range, const bool whole, size_t n) {
  (void)n;
  const VEC low = V_SET1(range->low), high = V_SET1(range->high), plus = V_SET1(range->plus);
  VEC acc[4];
  const VEC first = bias == NULL ? V_SET1(0.0f) : whole ? V_LOAD(bias) : V_LOAD_N(bias, n);
  for (size_t i = 0; i < count; i++) acc[i] = first;
  for (size_t t = 0; t < n_taps; t++) {
    const float *x = taps[t] + at;
    const VEC wt = whole ? V_LOAD(w) : V_LOAD_N(w, n);
    for (size_t i = 0; i < count; i++) {
      acc[i] = V_FMA(wt, whole ? V_LOAD(x) : V_LOAD_N(x, n), acc[i]);
      x += tap_step;
    }
    w += w_step;
  }
  for (size_t i = 0; i < count; i++, out += out_step) {
    const VEC v = V_LIMIT(acc[i], low, high, plus);
    if (whole) {
      V_STORE(out, v);
    } else {
      V_STORE_N(out, v, n);
    }
  }
}

static inline __attribute__((always_inline)) void FN(all_channels)(
    float *out, ptrdiff_t out_step, const size_t count, size_t n, const float *const *taps,
    ptrdiff_t at, ptrdiff_t tap_step, const float *w, size_t w_step, size_t n_taps,
    const float *bias, const eti_clamp_range *range) {
  size_t c = 0;
  for (; c + LANES <= n; c += LANES) {
    FN(some_pixels)(out + c, out_step, count, taps, at + (ptrdiff_t)c, tap_step, w + c, w_step,
                    n_taps, bias == NULL ? NULL : bias + c, range, true, LANES);
  }
  if (c < n) {
    FN(some_pixels)(out + c, out_step, count, taps, at + (ptrdiff_t)c, tap_step, w + c, w_step,
                    n_taps, bias == NULL ? NULL : bias + c, range, false, n - c);
  }
}

// Computes `nv` vectors of channels of one pixel, `from` elements after the taps; which may be
// NULL: all taps. nv and whole are constants, as in some_rows.
static inline __attribute__((always_inline)) void FN(some_channels)(
    float *out, const size_t nv, size_t at, const float *const *taps, ptrdiff_t from,
    const uint8_t *which, const float *w, size_t w_step, size_t n_taps, const float *bias,
    const eti_clamp_range *range, const bool whole, size_t n) {
  (void)n;
  const VEC low = V_SET1(range->low), high = V_SET1(range->high), plus = V_SET1(range->plus);
  VEC acc[4];
  for (size_t v = 0; v < nv; v++) {
    const size_t c = at + v * LANES;
    acc[v] = bias == NULL ? V_SET1(0.0f) : whole ? V_LOAD(bias + c) : V_LOAD_N(bias + c, n);
  }
  for (size_t t = 0; t < n_taps; t++) {
    const float *const x = taps[t] + from + at;
    const float *const wt = w + (which == NULL ? t : which[t]) * w_step + at;
    for (size_t v = 0; v < nv; v++) {
      const size_t c = v * LANES;
      acc[v] = whole ? V_FMA(V_LOAD(wt + c), V_LOAD(x + c), acc[v])
                     : V_FMA(V_LOAD_N(wt, n), V_LOAD_N(x, n), acc[v]);
    }
  }
  for (size_t v = 0; v < nv; v++) {
    const VEC value = V_LIMIT(acc[v], low, high, plus);
    if (whole) {
      V_STORE(out + at + v * LANES, value);
    } else {
      V_STORE_N(out + at, value, n);
    }
  }
}

// Four vectors at a time hide the latency of the FMAs.
static inline void FN(one_pixel)(float *out, size_t n, const float *const *taps, ptrdiff_t from,
                                 const uint8_t *which, const float *w, size_t w_step, size_t n_taps,
                                 const float *bias, const eti_clamp_range *range) {
  size_t c = 0;
  for (; c + 4 * LANES <= n; c += 4 * LANES)
    FN(some_channels)(out, 4, c, taps, from, which, w, w_step, n_taps, bias, range, true, LANES);
  for (; c + LANES <= n; c += LANES)
    FN(some_channels)(out, 1, c, taps, from, which, w, w_step, n_taps, bias, range, true, LANES);
  if (c < n)
    FN(some_channels)(out, 1, c, taps, from, which, w, w_step, n_taps, bias, range, false, n - c);
}

static void FN(pixel)(float *out, size_t n, const float *const *taps, const uint8_t *which,
                      const float *w, size_t w_step, size_t n_taps, const float *bias,
                      const eti_clamp_range *range) {
  ET_ASSERT(ETI_HOLDS(out, n, float) && eti_clamp_range_is_valid(range));
  ET_ASSERT(ETI_HOLDS(taps, n_taps, float *) && ETI_HOLDS(which, n_taps, uint8_t));
  ET_ASSERT(ETI_HOLDS_OR_NULL(bias, float) && (n_taps == 0 || w_step >= n));
  FN(one_pixel)(out, n, taps, 0, which, w, w_step, n_taps, bias, range);
}

static void FN(pixels)(float *out, ptrdiff_t out_step, size_t n_pixels, size_t n,
                       const float *const *taps, ptrdiff_t tap_step, const float *w, size_t w_step,
                       size_t n_taps, const float *bias, const eti_clamp_range *range) {
  ET_ASSERT(ETI_HOLDS(out, n_pixels * n, float) && eti_clamp_range_is_valid(range));
  ET_ASSERT(ETI_HOLDS(taps, n_taps, float *) && ETI_HOLDS(w, n_taps * n, float));
  ET_ASSERT(ETI_HOLDS_OR_NULL(bias, float) && (n_taps == 0 || w_step >= n));
  ptrdiff_t at = 0;
  for (; n_pixels >= 4; n_pixels -= 4, out += 4 * out_step, at += 4 * tap_step)
    FN(all_channels)(out, out_step, 4, n, taps, at, tap_step, w, w_step, n_taps, bias, range);
  for (; n_pixels > 0; n_pixels--, out += out_step, at += tap_step)
    FN(one_pixel)(out, n, taps, at, NULL, w, w_step, n_taps, bias, range);
}

#include "kernels/micro/conv/direct_conv_plane.body.h"

#undef FN
#undef CAT
#undef CAT_
#undef SUFFIX
#undef VEC
#undef LANES
#undef V_SET1
#undef V_LOAD
#undef V_STORE
#undef V_FMA
#undef V_FMA_BY
#undef V_LIMIT
#undef V_LOAD_N
#undef V_STORE_N
#undef V_EVEN_N
#undef V_EVEN
#undef LANES_T
#undef V_LANES
#undef V_INSIDE
