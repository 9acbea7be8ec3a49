// winograd.body.h — the transforms of winograd.h, once, for every instruction set: vectors of
// channels. The including file sets, and this file undefines:
//   SUFFIX VEC LANES                     end of the function names; vector type and its elements
//   V_SET1(x) V_LOAD(p) V_STORE(p, v)    whole vectors
//   V_FMA(a, b, c) V_ADD V_SUB V_MUL     a · b + c, a + b, a − b, a · b
//   V_LIMIT(v, low, high, plus)          eti_clamp of each element
//   V_LOAD_N(p, n) V_STORE_N(p, v, n)    the first n lanes, 1 ≤ n < LANES
#include "kernels/contract.h"

#define CAT_(a, b) a##_##b
#define CAT(a, b) CAT_(a, b)
#define FN(name) CAT(name, SUFFIX)
#define INLINE static inline __attribute__((always_inline))

// Coefficients for 1, 2 and 3 pairs of points p.
typedef struct coefficients {
  float points[ETI_WINOGRAD_PAIRS];
  float rest[ETI_WINOGRAD_PAIRS]
            [ETI_WINOGRAD_PAIRS - 1];  // of Q(t) / (t − p²), without the last, 1
  float all[ETI_WINOGRAD_PAIRS];       // of Q(t), likewise
} coefficients;

#define SQ(x) ((x) * (x))
#define ROW_2(a)    \
  {                 \
    {a}, {{0.0}}, { \
      -SQ(a)        \
    }               \
  }
#define ROW_4(a, b)                 \
  {                                 \
    {a, b}, {{-SQ(b)}, {-SQ(a)}}, { \
      SQ(a) * SQ(b), -SQ(a) - SQ(b) \
    }                               \
  }
#define ROW_6(a, b, c)                                                       \
  {                                                                          \
    {a, b, c},                                                               \
        {{SQ(b) * SQ(c), -SQ(b) - SQ(c)},                                    \
         {SQ(a) * SQ(c), -SQ(a) - SQ(c)},                                    \
         {SQ(a) * SQ(b), -SQ(a) - SQ(b)}},                                   \
    {                                                                        \
      -SQ(a) * SQ(b) * SQ(c), SQ(a) * SQ(b) + SQ(a) * SQ(c) + SQ(b) * SQ(c), \
          -SQ(a) - SQ(b) - SQ(c)                                             \
    }                                                                        \
  }
#define ROW(row, ...) row(__VA_ARGS__)

static const coefficients table[ETI_WINOGRAD_PAIRS] = {
    ROW(ROW_2, ETI_WINOGRAD_2), ROW(ROW_4, ETI_WINOGRAD_4), ROW(ROW_6, ETI_WINOGRAD_6)};

// Bᵀ along one side: y[i·step] for the points i of n inputs. k, the number of pairs, is a constant
// at every call, so that the loops unroll and coefficients become constants.
INLINE void FN(spread)(VEC *y, size_t step, const VEC *x, const size_t k) {
  const coefficients *const f = &table[k - 1];
  VEC zero = x[2 * k], infinity = x[2 * k + 1];
  for (size_t t = k; t-- > 0;) {
    zero = V_FMA(V_SET1(f->all[t]), x[2 * t], zero);
    infinity = V_FMA(V_SET1(f->all[t]), x[2 * t + 1], infinity);
  }
  y[0] = zero;
  y[(2 * k + 1) * step] = infinity;
  for (size_t i = 0; i < k; i++) {
    VEC even = x[2 * k], odd = x[2 * k - 1];
    for (size_t t = k - 1; t-- > 0;) {
      even = V_FMA(V_SET1(f->rest[i][t]), x[2 * t + 2], even);
      odd = V_FMA(V_SET1(f->rest[i][t]), x[2 * t + 1], odd);
    }
    y[(2 * i + 1) * step] = V_FMA(V_SET1(f->points[i]), odd, even);
    y[(2 * i + 2) * step] = V_FMA(V_SET1(-f->points[i]), odd, even);
  }
}

// Aᵀ along one side: y[j·step], j < 2k, of the points x.
INLINE void FN(collect)(VEC *y, size_t step, const VEC *x, const size_t k) {
  const coefficients *const f = &table[k - 1];
  VEC sum[ETI_WINOGRAD_PAIRS], difference[ETI_WINOGRAD_PAIRS];
  float power[ETI_WINOGRAD_PAIRS];
  VEC first = x[0];
  for (size_t i = 0; i < k; i++) {
    sum[i] = V_ADD(x[2 * i + 1], x[2 * i + 2]);
    difference[i] = V_SUB(x[2 * i + 1], x[2 * i + 2]);
    first = V_ADD(first, sum[i]);
    power[i] = 1.0f;
  }
  y[0] = first;
  for (size_t j = 1; j < 2 * k; j++) {
    const VEC *const from = j % 2 == 0 ? sum : difference;
    for (size_t i = 0; i < k; i++) power[i] *= f->points[i];
    VEC v = j + 1 == 2 * k ? V_FMA(V_SET1(power[0]), from[0], x[2 * k + 1])
                           : V_MUL(V_SET1(power[0]), from[0]);
    for (size_t i = 1; i < k; i++) v = V_FMA(V_SET1(power[i]), from[i], v);
    y[j * step] = v;
  }
}

// One vector of channels; `whole` is a constant, false when only n channels are left.
INLINE void FN(input_at)(float *dst, size_t dst_step, const float *const *pixels, size_t at,
                         const size_t k, const bool whole, size_t n) {
  (void)n;
  const size_t side = 2 * k + 2;
  VEC half[ETI_WINOGRAD_POINTS];  // transformed down the columns
  for (size_t x = 0; x < side; x++) {
    VEC column[ETI_WINOGRAD_SIDE];
    for (size_t y = 0; y < side; y++) {
      const float *const p = pixels[y * side + x] + at;
      column[y] = whole ? V_LOAD(p) : V_LOAD_N(p, n);
    }
    FN(spread)(half + x, side, column, k);
  }
  for (size_t y = 0; y < side; y++) {
    VEC row[ETI_WINOGRAD_SIDE];
    FN(spread)(row, 1, half + y * side, k);
    for (size_t x = 0; x < side; x++) {
      float *const to = dst + (y * side + x) * dst_step + at;
      if (whole) {
        V_STORE(to, row[x]);
      } else {
        V_STORE_N(to, row[x], n);
      }
    }
  }
}

INLINE void FN(input_of)(float *dst, size_t dst_step, const float *const *pixels, size_t n,
                         const size_t k) {
  ET_ASSERT(ETI_HOLDS(dst, n, float) && ETI_HOLDS(pixels, 1, float *) && dst_step >= n);
  size_t c = 0;
  for (; c + LANES <= n; c += LANES) FN(input_at)(dst, dst_step, pixels, c, k, true, LANES);
  if (c < n) FN(input_at)(dst, dst_step, pixels, c, k, false, n - c);
}

INLINE void FN(output_at)(const eti_winograd_out *out, const float *src, size_t src_step, size_t at,
                          const size_t k, const bool whole, size_t n) {
  (void)n;
  const size_t side = 2 * k + 2, m = 2 * k;
  VEC half[ETI_WINOGRAD_POINTS];
  for (size_t x = 0; x < side; x++) {
    VEC column[ETI_WINOGRAD_SIDE];
    for (size_t y = 0; y < side; y++) {
      const float *const p = src + (y * side + x) * src_step + at;
      column[y] = whole ? V_LOAD(p) : V_LOAD_N(p, n);
    }
    FN(collect)(half + x, side, column, k);
  }
  const VEC low = V_SET1(out->range.low), high = V_SET1(out->range.high),
            plus = V_SET1(out->range.plus);
  const VEC bias = out->bias == NULL ? V_SET1(0.0f)
                   : whole           ? V_LOAD(out->bias + at)
                                     : V_LOAD_N(out->bias + at, n);
  for (size_t y = 0; y < out->rows; y++) {
    VEC row[2 * ETI_WINOGRAD_PAIRS];
    FN(collect)(row, 1, half + y * side, k);
    float *to = out->data + (ptrdiff_t)y * out->row_step + (ptrdiff_t)at;
    for (size_t x = 0; x < m; x++, to += out->col_step) {
      const VEC v = V_LIMIT(V_ADD(row[x], bias), low, high, plus);
      if (x >= out->cols) break;
      if (whole) {
        V_STORE(to, v);
      } else {
        V_STORE_N(to, v, n);
      }
    }
  }
}

INLINE void FN(output_of)(const eti_winograd_out *out, const float *src, size_t src_step, size_t n,
                          const size_t k) {
  ET_ASSERT(ETI_HOLDS(src, n, float) && ETI_HOLDS(out->data, n, float) && src_step >= n);
  ET_ASSERT(out->rows >= 1 && out->rows <= 2 * k && out->cols >= 1 && out->cols <= 2 * k);
  ET_ASSERT(ETI_HOLDS_OR_NULL(out->bias, float) && eti_clamp_range_is_valid(&out->range));
  size_t c = 0;
  for (; c + LANES <= n; c += LANES) FN(output_at)(out, src, src_step, c, k, true, LANES);
  if (c < n) FN(output_at)(out, src, src_step, c, k, false, n - c);
}

static void FN(input_2)(float *dst, size_t dst_step, const float *const *pixels, size_t n) {
  FN(input_of)(dst, dst_step, pixels, n, 1);
}
static void FN(input_4)(float *dst, size_t dst_step, const float *const *pixels, size_t n) {
  FN(input_of)(dst, dst_step, pixels, n, 2);
}
static void FN(input_6)(float *dst, size_t dst_step, const float *const *pixels, size_t n) {
  FN(input_of)(dst, dst_step, pixels, n, 3);
}
static void FN(output_2)(const eti_winograd_out *out, const float *src, size_t src_step, size_t n) {
  FN(output_of)(out, src, src_step, n, 1);
}
static void FN(output_4)(const eti_winograd_out *out, const float *src, size_t src_step, size_t n) {
  FN(output_of)(out, src, src_step, n, 2);
}
static void FN(output_6)(const eti_winograd_out *out, const float *src, size_t src_step, size_t n) {
  FN(output_of)(out, src, src_step, n, 3);
}

#undef ROW
#undef ROW_6
#undef ROW_4
#undef ROW_2
#undef SQ
#undef INLINE
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
#undef V_ADD
#undef V_SUB
#undef V_MUL
#undef V_LIMIT
#undef V_LOAD_N
#undef V_STORE_N
