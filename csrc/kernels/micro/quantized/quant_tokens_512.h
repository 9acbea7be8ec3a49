// quant_tokens_512.h — per-token quantization in f64 with 512-bit vectors, in groups of 16
// elements. For files compiled with AVX-512 F.
#ifndef ET_MICRO_QUANT_TOKENS_512_H
#define ET_MICRO_QUANT_TOKENS_512_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

enum { TOKEN_GROUP = 16 };

// The conversion rounds halves to even. It turns NaN, which the limits let pass, into -2^31, whose
// lower bytes are 0.
static inline __m256i rounded_8(__m256 x, __m512d inverse, __m512d zero, __m512d low,
                                __m512d high) {
  const __m512d s = _mm512_add_pd(_mm512_mul_pd(_mm512_cvtps_pd(x), inverse), zero);
  return _mm512_cvtpd_epi32(_mm512_min_pd(high, _mm512_max_pd(low, s)));
}

// Quantizes groups to integers of 1 or 2 bytes (`item`); returns the number of elements done.
static inline size_t quantize_token_groups(void *dst, size_t item, const float *x, double inverse,
                                           double zero, float low, float high, size_t n) {
  const __m512d k = _mm512_set1_pd(inverse), z = _mm512_set1_pd(zero);
  const __m512d l = _mm512_set1_pd((double)low), h = _mm512_set1_pd((double)high);
  uint8_t *const q = dst;
  size_t i = 0;
  for (; i + TOKEN_GROUP <= n; i += TOKEN_GROUP) {
    const __m256i first = rounded_8(_mm256_loadu_ps(x + i), k, z, l, h);
    const __m256i second = rounded_8(_mm256_loadu_ps(x + i + TOKEN_GROUP / 2), k, z, l, h);
    const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
    void *const to = q + i * item;
    if (item == 1) {
      _mm_storeu_si128(to, _mm512_cvtepi32_epi8(both));
    } else {
      _mm256_storeu_si256(to, _mm512_cvtepi32_epi16(both));
    }
  }
  return i;
}

#endif  // ET_MICRO_QUANT_TOKENS_512_H
