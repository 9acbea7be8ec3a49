// pool_fraction.body.h — the largest elements of small windows of one size, one window after the
// other, for elements of type T. The including file sets, and this file undefines: T, SUFFIX.

#define CAT_(a, b) a##_##b
#define CAT(a, b) CAT_(a, b)

// Computes n windows of a row of outputs, which begin at columns `starts`.
static void CAT(small_windows, SUFFIX)(const window_row *r, const int32_t *starts, size_t n) {
  const T *const x = r->x;
  T *const out = r->out;
  for (size_t o = 0; o < n; o++) {
    const int64_t x0 = starts[o];
    const int32_t first = (int32_t)((r->w[0].from * r->in[1] + r->w[1].from) * r->in[2] + x0);
    T best = x[(ptrdiff_t)r->w[0].from * r->steps[0] + (ptrdiff_t)r->w[1].from * r->steps[1] +
               (ptrdiff_t)x0 * r->steps[2]];
    int32_t at = first;
    for (int64_t z = r->w[0].from; z < r->w[0].to; z++) {
      for (int64_t y = r->w[1].from; y < r->w[1].to; y++) {
        const T *const row = x + (ptrdiff_t)z * r->steps[0] + (ptrdiff_t)y * r->steps[1];
        const int32_t place = (int32_t)((z * r->in[1] + y) * r->in[2]);
        for (int64_t i = x0; i < x0 + r->width; i++) {
          const T value = row[(ptrdiff_t)i * r->steps[2]];
          const bool takes = (value > best) | ETI_IS_NAN(value);
          best = takes ? value : best;
          at = takes ? place + (int32_t)i : at;
        }
      }
    }
    out[(ptrdiff_t)o * r->out_step] = best;
    r->at[(ptrdiff_t)o * r->at_step] = at;
  }
}

#undef CAT
#undef CAT_
#undef T
#undef SUFFIX
