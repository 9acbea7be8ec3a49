// rowwise_f32_avx2.c — the kernels of rowwise.h on 256-bit vectors. Compiled with AVX2 and FMA.
//
// A row is read three times: for its maximum or its sum, for its exponentials or its squares, and
// for its results. The second and third reads come from the first-level cache. Both kernels work in
// place.
#include "backends/xnnpack/tuned/rowwise/rowwise.h"

#include <immintrin.h>
#include <math.h>

#include "backends/xnnpack/tuned/partial_vector_avx2.h"
#include "runtime/check.h"

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 8, SHORT = 8 };  // vectors of a row that fit the registers

typedef struct row_shape {
  size_t n_whole, n_left;  // elements in whole vectors; the rest
  __m256i left;            // a mask of the rest
} row_shape;

static row_shape row_shape_of(size_t n) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const size_t n_left = n % LANES;
  return (row_shape){n - n_left, n_left, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n_left), lanes)};
}

// The elements after the whole vectors, with `fill` after the row's end.
INLINE __m256 load_left(const row_shape *l, const float *x, __m256 fill) {
  return _mm256_blendv_ps(fill, _mm256_maskload_ps(x + l->n_whole, l->left),
                          _mm256_castsi256_ps(l->left));
}

static float sum_of(__m256 v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static float max_of(__m256 v) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// ---- Softmax

// e^x of x <= 0, within 1 ulp; 0 below 2^-126. With n = round(x / ln 2), x = n ln 2 + r and
// e^x = 2^n (1 + r + r^2 q(r)); q is the polynomial of least greatest error over |r| <= ln 2 / 2
// (3.1e-9 of e^r; found by iterated weighted least squares).
INLINE __m256 exp_term(__m256 x) {
  const __m256 magic = _mm256_set1_ps(0x1.8000fep23f);  // brings n + 127 to the lowest bits
  const __m256 shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(0x1.715476p+0f), magic);
  const __m256 n = _mm256_sub_ps(shifted, magic);
  const __m256 near = _mm256_fmadd_ps(n, _mm256_set1_ps(-0x1.62e400p-1f), x);
  const __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-0x1.7f7d1cp-20f), near);
  __m256 q = _mm256_set1_ps(0x1.6a2434p-10f);
  q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(0x1.1239e2p-7f));
  q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(0x1.5558f2p-5f));
  q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(0x1.555492p-3f));
  q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(0x1.fffffcp-2f));
  const __m256 tail = _mm256_fmadd_ps(_mm256_mul_ps(r, r), q, r);
  const __m256 power = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(shifted), 23));
  const __m256 y = _mm256_fmadd_ps(tail, power, power);
  const __m256 is_tiny = _mm256_cmp_ps(x, _mm256_set1_ps(-0x1.5d589ep6f), _CMP_LT_OQ);
  return _mm256_andnot_ps(is_tiny, y);
}

static float row_max(const row_shape *l, const float *x) {
  const __m256 least = _mm256_set1_ps(-INFINITY);
  __m256 a = l->n_left > 0 ? load_left(l, x, least) : least, b = least;
  size_t i = 0;
  for (; i + 2 * LANES <= l->n_whole; i += 2 * LANES) {
    a = _mm256_max_ps(_mm256_loadu_ps(x + i), a);
    b = _mm256_max_ps(_mm256_loadu_ps(x + i + LANES), b);
  }
  if (i < l->n_whole) a = _mm256_max_ps(_mm256_loadu_ps(x + i), a);
  return max_of(_mm256_max_ps(a, b));
}

static void softmax_row(const row_shape *l, const float *x, float *y) {
  const __m256 max = _mm256_set1_ps(row_max(l, x));
  __m256 sum = _mm256_setzero_ps(), other = sum;
  size_t i = 0;
  for (; i + 2 * LANES <= l->n_whole; i += 2 * LANES) {
    const __m256 first = exp_term(_mm256_sub_ps(_mm256_loadu_ps(x + i), max));
    const __m256 second = exp_term(_mm256_sub_ps(_mm256_loadu_ps(x + i + LANES), max));
    _mm256_storeu_ps(y + i, first);
    _mm256_storeu_ps(y + i + LANES, second);
    sum = _mm256_add_ps(sum, first);
    other = _mm256_add_ps(other, second);
  }
  if (i < l->n_whole) {
    const __m256 term = exp_term(_mm256_sub_ps(_mm256_loadu_ps(x + i), max));
    _mm256_storeu_ps(y + i, term);
    sum = _mm256_add_ps(sum, term);
  }
  __m256 last = _mm256_setzero_ps();
  if (l->n_left > 0) {
    last = exp_term(_mm256_sub_ps(load_left(l, x, max), max));
    last = _mm256_and_ps(last, _mm256_castsi256_ps(l->left));
    sum = _mm256_add_ps(sum, last);
  }
  const __m256 factor = _mm256_set1_ps(1.0f / sum_of(_mm256_add_ps(sum, other)));
  for (i = 0; i < l->n_whole; i += LANES)
    _mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_loadu_ps(y + i), factor));
  eti_store_some(y + l->n_whole, _mm256_mul_ps(last, factor), l->n_left);
}

// A row of n_vectors, whose exponentials stay in registers. It is padded with -infinity.
INLINE void softmax_short(size_t n_vectors, const row_shape *l, const float *x, float *y) {
  __m256 terms[SHORT];
  const size_t n_whole = n_vectors - (l->n_left > 0), last = n_vectors - 1;
  const __m256 least = _mm256_set1_ps(-INFINITY);
  for (size_t i = 0; i < last; i++) terms[i] = _mm256_loadu_ps(x + i * LANES);
  terms[last] = n_whole > last ? _mm256_loadu_ps(x + last * LANES) : load_left(l, x, least);
  __m256 maxima[2] = {terms[last], terms[last]};
  for (size_t i = 0; i < last; i++) maxima[i % 2] = _mm256_max_ps(terms[i], maxima[i % 2]);
  const __m256 max = _mm256_set1_ps(max_of(_mm256_max_ps(maxima[0], maxima[1])));
  __m256 sums[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (size_t i = 0; i < n_vectors; i++) {
    terms[i] = exp_term(_mm256_sub_ps(terms[i], max));
    sums[i % 2] = _mm256_add_ps(sums[i % 2], terms[i]);
  }
  const __m256 factor = _mm256_set1_ps(1.0f / sum_of(_mm256_add_ps(sums[0], sums[1])));
  for (size_t i = 0; i < last; i++)
    _mm256_storeu_ps(y + i * LANES, _mm256_mul_ps(terms[i], factor));
  eti_store_some(y + last * LANES, _mm256_mul_ps(terms[last], factor),
                 n_whole > last ? LANES : l->n_left);
}

#define SHORT_ROWS(n_vectors)                                         \
  case n_vectors:                                                     \
    for (size_t i = first; i < first + count; i++)                    \
      softmax_short(n_vectors, &l, rows->x + i * n, rows->y + i * n); \
    break;

void eti_xnn_f32_softmax__avx2(const eti_xnn_rowwise *rows, size_t first, size_t count) {
  const size_t n = rows->n;
  ET_ASSERT(n > 0 && rows->x != NULL && rows->y != NULL);
  const row_shape l = row_shape_of(n);
  switch ((n + LANES - 1) / LANES) {
    SHORT_ROWS(1)
    SHORT_ROWS(2)
    SHORT_ROWS(3)
    SHORT_ROWS(4)
    SHORT_ROWS(5)
    SHORT_ROWS(6)
    SHORT_ROWS(7)
    SHORT_ROWS(8)
    default:
      for (size_t i = first; i < first + count; i++)
        softmax_row(&l, rows->x + i * n, rows->y + i * n);
  }
}

// ---- Layer norm

static float row_sum(const row_shape *l, const float *x) {
  __m256 a = _mm256_setzero_ps(), b = a, c = a, d = a;
  size_t i = 0;
  for (; i + 4 * LANES <= l->n_whole; i += 4 * LANES) {
    a = _mm256_add_ps(a, _mm256_loadu_ps(x + i));
    b = _mm256_add_ps(b, _mm256_loadu_ps(x + i + LANES));
    c = _mm256_add_ps(c, _mm256_loadu_ps(x + i + 2 * LANES));
    d = _mm256_add_ps(d, _mm256_loadu_ps(x + i + 3 * LANES));
  }
  for (; i < l->n_whole; i += LANES) a = _mm256_add_ps(a, _mm256_loadu_ps(x + i));
  if (l->n_left > 0) b = _mm256_add_ps(b, load_left(l, x, _mm256_setzero_ps()));
  return sum_of(_mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d)));
}

INLINE __m256 add_square(__m256 sum, __m256 x, __m256 mean) {
  const __m256 centered = _mm256_sub_ps(x, mean);
  return _mm256_fmadd_ps(centered, centered, sum);
}

static float row_squares(const row_shape *l, const float *x, __m256 mean) {
  __m256 a = _mm256_setzero_ps(), b = a, c = a, d = a;
  size_t i = 0;
  for (; i + 4 * LANES <= l->n_whole; i += 4 * LANES) {
    a = add_square(a, _mm256_loadu_ps(x + i), mean);
    b = add_square(b, _mm256_loadu_ps(x + i + LANES), mean);
    c = add_square(c, _mm256_loadu_ps(x + i + 2 * LANES), mean);
    d = add_square(d, _mm256_loadu_ps(x + i + 3 * LANES), mean);
  }
  for (; i < l->n_whole; i += LANES) a = add_square(a, _mm256_loadu_ps(x + i), mean);
  if (l->n_left > 0) b = add_square(b, load_left(l, x, mean), mean);
  return sum_of(_mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d)));
}

INLINE __m256 normalized(__m256 x, __m256 mean, __m256 factor) {
  return _mm256_mul_ps(_mm256_sub_ps(x, mean), factor);
}

static void normalize_row(const row_shape *l, const eti_xnn_rowwise *rows, const float *x,
                          float *y) {
  const float n = (float)rows->n;
  const float *const w = rows->weight, *const b = rows->bias;
  const __m256 mean = _mm256_set1_ps(row_sum(l, x) / n);
  const float variance = row_squares(l, x, mean) / n;
  const __m256 factor = _mm256_set1_ps(1.0f / sqrtf(variance + rows->eps));
  const __m256 one = _mm256_set1_ps(1.0f), zero = _mm256_setzero_ps();
  for (size_t i = 0; i < l->n_whole; i += LANES) {
    const __m256 v = normalized(_mm256_loadu_ps(x + i), mean, factor);
    const __m256 scale = w == NULL ? one : _mm256_loadu_ps(w + i);
    _mm256_storeu_ps(y + i, _mm256_fmadd_ps(v, scale, b == NULL ? zero : _mm256_loadu_ps(b + i)));
  }
  if (l->n_left == 0) return;
  const __m256 v = normalized(load_left(l, x, mean), mean, factor);
  const __m256 scale = w == NULL ? one : load_left(l, w, one);
  const __m256 last = _mm256_fmadd_ps(v, scale, b == NULL ? zero : load_left(l, b, zero));
  eti_store_some(y + l->n_whole, last, l->n_left);
}

void eti_xnn_f32_layer_norm__avx2(const eti_xnn_rowwise *rows, size_t first, size_t count) {
  const size_t n = rows->n;
  ET_ASSERT(n > 0 && rows->x != NULL && rows->y != NULL);
  ET_ASSERT(rows->bias == NULL || rows->weight != NULL);
  const row_shape l = row_shape_of(n);
  for (size_t i = first; i < first + count; i++)
    normalize_row(&l, rows, rows->x + i * n, rows->y + i * n);
}
