// memory_bound_avx512vnni.c — the addition of memory_bound.h. Compiled with AVX-512 VNNI.
//
// A sum is (bias + a * a_multiplier + b * b_multiplier) >> shift, exact in 32 bits. XNNPACK's
// kernel multiplies in 32 bits, which takes four instructions. Here multipliers, of at most 22
// bits, have two parts of 16 bits, and pairs of an element of a and one of b are multiplied by
// pairs of parts.
#include "backends/xnnpack/tuned/memory_bound/memory_bound.h"

#include <immintrin.h>

#include "runtime/check.h"

#define INLINE static inline __attribute__((always_inline))

enum { ELEMENTS = 64, HALF = ELEMENTS / 2, LOW_BITS = 14 };

typedef struct sum {
  __m512i bias, low, high;  // multipliers: pairs of low and of high bits
  __m512i zero_point, min, max;
  __m128i shift;
} sum;

INLINE __m512i pair_of(int32_t a, int32_t b) {
  return _mm512_set1_epi32((int32_t)(((uint32_t)a & 0xffff) | (uint32_t)b << 16));
}

static sum sum_of(const eti_xnn_qs8_vadd_params *p) {
  const int32_t mask = (1 << LOW_BITS) - 1;
  return (sum){.bias = _mm512_set1_epi32(p->bias),
               .low = pair_of(p->a_multiplier & mask, p->b_multiplier & mask),
               .high = pair_of(p->a_multiplier >> LOW_BITS, p->b_multiplier >> LOW_BITS),
               .zero_point = _mm512_set1_epi16(p->zero_point),
               .min = _mm512_set1_epi8(p->min),
               .max = _mm512_set1_epi8(p->max),
               .shift = _mm_cvtsi32_si128(p->shift)};
}

INLINE __m512i added_pairs(__m512i pairs, const sum *s) {
  const __m512i low = _mm512_dpwssd_epi32(s->bias, pairs, s->low);
  const __m512i high = _mm512_slli_epi32(_mm512_madd_epi16(pairs, s->high), LOW_BITS);
  return _mm512_sra_epi32(_mm512_add_epi32(low, high), s->shift);
}

// Results of 32 elements in 16 bits.
INLINE __m512i added_half(__m256i a, __m256i b, const sum *s) {
  const __m512i x = _mm512_cvtepi8_epi16(a), y = _mm512_cvtepi8_epi16(b);
  const __m512i words = _mm512_packs_epi32(added_pairs(_mm512_unpacklo_epi16(x, y), s),
                                           added_pairs(_mm512_unpackhi_epi16(x, y), s));
  return _mm512_adds_epi16(words, s->zero_point);
}

INLINE __m512i added(__m512i a, __m512i b, const sum *s) {
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  const __m512i first = added_half(_mm512_castsi512_si256(a), _mm512_castsi512_si256(b), s);
  const __m512i second =
      added_half(_mm512_extracti64x4_epi64(a, 1), _mm512_extracti64x4_epi64(b, 1), s);
  const __m512i bytes = _mm512_permutexvar_epi64(order, _mm512_packs_epi16(first, second));
  return _mm512_min_epi8(_mm512_max_epi8(bytes, s->min), s->max);
}

void eti_xnn_qs8_vadd__avx512vnni(size_t n, const void *a, const void *b, void *y,
                                  const void *params) {
  ET_ASSERT(n > 0 && a != NULL && b != NULL && y != NULL && params != NULL);
  const sum s = sum_of(params);
  const int8_t *x = a, *z = b;
  int8_t *to = y;
  for (; n >= ELEMENTS; n -= ELEMENTS, x += ELEMENTS, z += ELEMENTS, to += ELEMENTS) {
    _mm512_storeu_si512((void *)to, added(_mm512_loadu_si512((const void *)x),
                                          _mm512_loadu_si512((const void *)z), &s));
  }
  if (n == 0) return;
  const __mmask64 mask = ((__mmask64)1 << n) - 1;
  const __m512i last_x = _mm512_maskz_loadu_epi8(mask, x),
                last_z = _mm512_maskz_loadu_epi8(mask, z);
  _mm512_mask_storeu_epi8(to, mask, added(last_x, last_z, &s));
}
