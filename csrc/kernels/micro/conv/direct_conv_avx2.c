// direct_conv_avx2.c — the loops of direct_conv.h with 256-bit vectors. Compiled with AVX2 and FMA.
#include "kernels/micro/conv/direct_conv.h"

#include <immintrin.h>

static inline __m256i lanes8(size_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// Lanes 1, 3, … of a, then lanes 1, 3, … or 2, 4, … of b (counted from 1).
#define JOIN_HALVES(a, b, imm)                                                           \
  _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(a, b, imm)), \
                                         _MM_SHUFFLE(3, 1, 2, 0)))

// p[0], p[2], … p[14]; reads nothing past them.
static inline __m256 every_second(const float *p) {
  return JOIN_HALVES(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 7), _MM_SHUFFLE(3, 1, 2, 0));
}

static inline __m256i between(ptrdiff_t from, ptrdiff_t to) {
  const int lo = from > 8 ? 8 : from < 0 ? 0 : (int)from, hi = to > 8 ? 8 : to < 0 ? 0 : (int)to;
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(lo), lane),
                             _mm256_cmpgt_epi32(_mm256_set1_epi32(hi), lane));
}

// Masks of a vector's elements, and of every second element of two vectors.
typedef struct lane_set {
  __m256i low, high;
} lane_set;

static inline lane_set lanes_of(ptrdiff_t from, ptrdiff_t to) {
  return (lane_set){between(from, to), between(from - 8, to - 8)};
}
static inline __m256 inside(const float *p, int step, lane_set at) {
  const __m256 low = _mm256_maskload_ps(p, at.low);
  if (step == 1) return low;
  return JOIN_HALVES(low, _mm256_maskload_ps(p + 8, at.high), _MM_SHUFFLE(2, 0, 2, 0));
}

#define SUFFIX f32__avx2
#define VEC __m256
#define LANES 8
#define V_SET1(x) _mm256_set1_ps(x)
#define V_LOAD(p) _mm256_loadu_ps(p)
#define V_STORE(p, v) _mm256_storeu_ps(p, v)
#define V_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define V_LIMIT(v, low, high, plus) _mm256_add_ps(_mm256_min_ps(high, _mm256_max_ps(low, v)), plus)
#define V_LOAD_N(p, n) _mm256_maskload_ps(p, lanes8(n))
#define V_STORE_N(p, v, n) _mm256_maskstore_ps(p, lanes8(n), v)
#define V_EVEN(p) every_second(p)
#define LANES_T lane_set
#define V_LANES(from, to) lanes_of(from, to)
#define V_INSIDE(p, step, at) inside(p, step, at)
#include "kernels/micro/conv/direct_conv_rows.body.h"

const eti_direct_conv_micro eti_direct_conv_avx2 = {
    copy_rows_f32__avx2,
    row_f32__avx2,
    rows_f32__avx2,
    pixels_f32__avx2,
    pixel_f32__avx2,
    {{plane_3x3_f32__avx2, plane_3x3_by_2_f32__avx2},
     {plane_5x5_f32__avx2, plane_5x5_by_2_f32__avx2}},
};
