// direct_conv_avx512.c — the loops of direct_conv.h with 512-bit vectors. Compiled with AVX-512 F,
// BW, DQ, VL.
#include "kernels/micro/conv/direct_conv.h"

#include <immintrin.h>
#include <stdint.h>

static inline __mmask16 lanes16(size_t n) {
  return (__mmask16)(n >= 16 ? 0xffffu : (1u << n) - 1u);
}

// Reads every second float from p on, n of them; reads nothing past p[2n - 2].
static inline __m512 even_lanes(const float *p, size_t n) {
  const __m512i pick = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const size_t last = 2 * n - 1;
  const __m512 low = _mm512_maskz_loadu_ps(lanes16(last), p);
  const __m512 high =
      last > 16 ? _mm512_maskz_loadu_ps(lanes16(last - 16), p + 16) : _mm512_setzero_ps();
  return _mm512_permutex2var_ps(low, pick, high);
}

// p[0], p[2], … p[30]; reads nothing past them.
static inline __m512 every_second(const float *p) {
  const __m512i pick = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31);
  return _mm512_permutex2var_ps(_mm512_loadu_ps(p), pick, _mm512_loadu_ps(p + 15));
}

// The bits [from, to) of 32.
static inline uint32_t bits_inside(ptrdiff_t from, ptrdiff_t to) {
  const uint64_t below = to >= 32 ? 0xffffffffu : to <= 0 ? 0 : (1ull << to) - 1;
  const uint64_t before = from >= 32 ? 0xffffffffu : from <= 0 ? 0 : (1ull << from) - 1;
  return (uint32_t)(below & ~before);
}
static inline __m512 inside(const float *p, int step, uint32_t bits) {
  const __m512i pick = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512 low = _mm512_maskz_loadu_ps((__mmask16)bits, p);
  if (step == 1) return low;
  return _mm512_permutex2var_ps(low, pick, _mm512_maskz_loadu_ps((__mmask16)(bits >> 16), p + 16));
}

#define SUFFIX f32__avx512
#define VEC __m512
#define LANES 16
#define V_SET1(x) _mm512_set1_ps(x)
#define V_LOAD(p) _mm512_loadu_ps(p)
#define V_STORE(p, v) _mm512_storeu_ps(p, v)
#define V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define V_LIMIT(v, low, high, plus) _mm512_add_ps(_mm512_min_ps(high, _mm512_max_ps(low, v)), plus)
#define V_LOAD_N(p, n) _mm512_maskz_loadu_ps(lanes16(n), p)
#define V_STORE_N(p, v, n) _mm512_mask_storeu_ps(p, lanes16(n), v)
#define V_EVEN_N(p, n) even_lanes(p, n)
#define V_EVEN(p) every_second(p)
#define LANES_T uint32_t
#define V_LANES(from, to) bits_inside(from, to)
#define V_INSIDE(p, step, bits) inside(p, step, bits)
#include "kernels/micro/conv/direct_conv_rows.body.h"

const eti_direct_conv_micro eti_direct_conv_avx512 = {
    copy_rows_f32__avx512,
    row_f32__avx512,
    rows_f32__avx512,
    pixels_f32__avx512,
    pixel_f32__avx512,
    {{plane_3x3_f32__avx512, plane_3x3_by_2_f32__avx512},
     {plane_5x5_f32__avx512, plane_5x5_by_2_f32__avx512}},
};
