// conv_rows.body.h — the loops of conv.h, once, for every instruction set. The including file sets,
// and this file undefines:
//   SUFFIX, VEC, LANES                                    end of the names; vector of f32 and its
//   elements V_SET1(x) V_LOAD(p) V_STORE(p, v) V_FMA(a, b, c)      whole vectors; a · b + c
//   V_LOAD_N(p, n) V_STORE_N(p, v, n)                     the first n lanes, 1 ≤ n < LANES
//   V_EVEN_N(p, n)      optional: p[0], p[2], … p[2n - 2] in the first n lanes, 1 ≤ n ≤ LANES

#define CAT_(a, b) a##_##b
#define CAT(a, b) CAT_(a, b)
#define FN(name) CAT(name, SUFFIX)

static void FN(copy_rows)(float *dst, size_t dst_step, const float *src, ptrdiff_t src_step,
                          size_t step, size_t rows, size_t n) {
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

// Four vectors at a time hide the latency of the FMAs; what is left goes one vector at a time.
static void FN(row)(float *out, size_t n, const float *const *taps, const float *w, size_t n_taps,
                    float bias) {
  size_t i = 0;
  for (; i + 4 * LANES <= n; i += 4 * LANES) {
    VEC a = V_SET1(bias), b = a, c = a, d = a;
    for (size_t t = 0; t < n_taps; t++) {
      const VEC wt = V_SET1(w[t]);
      const float *const p = taps[t] + i;
      a = V_FMA(wt, V_LOAD(p), a);
      b = V_FMA(wt, V_LOAD(p + LANES), b);
      c = V_FMA(wt, V_LOAD(p + 2 * LANES), c);
      d = V_FMA(wt, V_LOAD(p + 3 * LANES), d);
    }
    V_STORE(out + i, a);
    V_STORE(out + i + LANES, b);
    V_STORE(out + i + 2 * LANES, c);
    V_STORE(out + i + 3 * LANES, d);
  }
  for (; i + LANES <= n; i += LANES) {
    VEC a = V_SET1(bias);
    for (size_t t = 0; t < n_taps; t++) a = V_FMA(V_SET1(w[t]), V_LOAD(taps[t] + i), a);
    V_STORE(out + i, a);
  }
  if (i < n) {
    VEC a = V_SET1(bias);
    for (size_t t = 0; t < n_taps; t++) a = V_FMA(V_SET1(w[t]), V_LOAD_N(taps[t] + i, n - i), a);
    V_STORE_N(out + i, a, n - i);
  }
}

static void FN(pixel)(float *out, size_t n, const float *const *taps, const float *w, size_t w_step,
                      size_t n_taps, const float *bias) {
  size_t c = 0;
  for (; c + 2 * LANES <= n; c += 2 * LANES) {
    VEC a = bias == NULL ? V_SET1(0.0f) : V_LOAD(bias + c);
    VEC b = bias == NULL ? V_SET1(0.0f) : V_LOAD(bias + c + LANES);
    for (size_t t = 0; t < n_taps; t++) {
      a = V_FMA(V_LOAD(w + t * w_step + c), V_LOAD(taps[t] + c), a);
      b = V_FMA(V_LOAD(w + t * w_step + c + LANES), V_LOAD(taps[t] + c + LANES), b);
    }
    V_STORE(out + c, a);
    V_STORE(out + c + LANES, b);
  }
  for (; c + LANES <= n; c += LANES) {
    VEC a = bias == NULL ? V_SET1(0.0f) : V_LOAD(bias + c);
    for (size_t t = 0; t < n_taps; t++)
      a = V_FMA(V_LOAD(w + t * w_step + c), V_LOAD(taps[t] + c), a);
    V_STORE(out + c, a);
  }
  if (c < n) {
    VEC a = bias == NULL ? V_SET1(0.0f) : V_LOAD_N(bias + c, n - c);
    for (size_t t = 0; t < n_taps; t++) {
      a = V_FMA(V_LOAD_N(w + t * w_step + c, n - c), V_LOAD_N(taps[t] + c, n - c), a);
    }
    V_STORE_N(out + c, a, n - c);
  }
}

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
#undef V_LOAD_N
#undef V_STORE_N
#undef V_EVEN_N
