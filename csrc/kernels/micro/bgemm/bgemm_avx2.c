// bgemm_avx2.c — the products of bgemm.h with AVX2 and FMA: a panel is two vectors, and a tile has
// 6 rows of one panel, in 12 of the 16 registers. Weights are widened to f32, rows are such numbers
// already, and MXCSR flushes denormals.
#include <immintrin.h>

#include "kernels/micro/bgemm/bgemm.h"
#include "kernels/micro/bgemm/flush_x86.h"

#define ISA(name) name##__avx2

typedef __m256 vf;
typedef __m256i vp;
#define LANES 8
#define MR 6
#define VECTORS(m) ((m) <= 2 ? 4 : 2)
#define VF_ZERO _mm256_setzero_ps()
#define VF_LOAD(p) _mm256_loadu_ps(p)
#define VF_ADD(a, b) _mm256_add_ps(a, b)
#define VP_LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define VF_EVEN(w) _mm256_castsi256_ps(_mm256_slli_epi32(w, 16))
#define VF_ODD(w) _mm256_castsi256_ps(_mm256_and_si256(w, _mm256_set1_epi32((int)0xffff0000)))
#define VX_SET1(p) _mm256_broadcast_ss(p)
#define VF_FMA(x, b, sum) _mm256_fmadd_ps(x, b, sum)

// The first n of 8 lanes.
static inline __m256i first_lanes(size_t n) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n > 8 ? 8 : (int)n), lanes);
}

static inline size_t lanes_left(size_t n, size_t v) {
  return n > v * LANES ? n - v * LANES : 0;
}

static inline __attribute__((always_inline)) void load_row(const float *p, vf *v, size_t tv,
                                                           size_t n) {
  for (size_t i = 0; i < tv; i++)
    v[i] = _mm256_maskload_ps(p + i * LANES, first_lanes(lanes_left(n, i)));
}

static inline __attribute__((always_inline)) void store_row(float *out, const vf *sums, size_t tv,
                                                            size_t n) {
  for (size_t v = 0; v < tv; v++) {
    const size_t left = lanes_left(n, v);
    if (left >= LANES) {
      _mm256_storeu_ps(out + v * LANES, sums[v]);
    } else {
      _mm256_maskstore_ps(out + v * LANES, first_lanes(left), sums[v]);
    }
  }
}

#include "kernels/micro/bgemm/bgemm.body.h"

static void ISA(tile)(const eti_btile *given) {
  ET_ASSERT(eti_btile_is_valid(given));
  const eti_btile t = *given;
  const unsigned before = eti_flush_begin();
  all_rows(&t);
  eti_flush_end(before);
}

// Rounds in integers, which need no flushing.
static __m256 rounded(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x), exponent = _mm256_set1_epi32(0x7f800000);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i nearest = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256 quiet = _mm256_castsi256_ps(_mm256_or_si256(bits, _mm256_set1_epi32(1 << 22)));
  const __m256i sign = _mm256_and_si256(bits, _mm256_set1_epi32(INT32_MIN));
  const __m256i is_small =
      _mm256_cmpeq_epi32(_mm256_and_si256(bits, exponent), _mm256_setzero_si256());
  const __m256 number = _mm256_blendv_ps(_mm256_castsi256_ps(nearest), _mm256_castsi256_ps(sign),
                                         _mm256_castsi256_ps(is_small));
  const __m256 all = _mm256_blendv_ps(number, quiet, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_and_ps(all, _mm256_castsi256_ps(_mm256_set1_epi32((int)0xffff0000)));
}

static void ISA(copy)(void *dst, const float *src, size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, float) && ETI_HOLDS(src, n, float));
  float *const out = dst;
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) _mm256_storeu_ps(out + i, rounded(_mm256_loadu_ps(src + i)));
  if (i < n) {
    const __m256i mask = first_lanes(n - i);
    _mm256_maskstore_ps(out + i, mask, rounded(_mm256_maskload_ps(src + i, mask)));
  }
}

const eti_bgemm_micro eti_bgemm_avx2 = {
    .term_bytes = sizeof(float),
    .rows_of_a_tile = MR,
    .tile = ISA(tile),
    .copy = ISA(copy),
};
