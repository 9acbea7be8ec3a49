// bgemm_avx512.c — the products of bgemm.h with AVX-512 F, BW, VL: weights are widened to f32,
// rows are such numbers already, and MXCSR flushes denormals.
#include "kernels/micro/bgemm/bgemm_x86_512.h"

#define ISA(name) name##__avx512

#define VF_EVEN(w) _mm512_castsi512_ps(_mm512_slli_epi32(w, 16))
#define VF_ODD(w) _mm512_castsi512_ps(_mm512_and_si512(w, _mm512_set1_epi32((int)0xffff0000)))
#define VX_SET1(p) _mm512_set1_ps(*(p))
#define VF_FMA(x, b, sum) _mm512_fmadd_ps(x, b, sum)

#include "kernels/micro/bgemm/bgemm.body.h"

static void ISA(tile)(const eti_btile *given) {
  ET_ASSERT(eti_btile_is_valid(given));
  const eti_btile t = *given;
  const unsigned before = eti_flush_begin();
  all_rows(&t);
  eti_flush_end(before);
}

// Rounds in integers, which need no flushing.
static __m512 rounded(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i nearest = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  const __mmask16 is_small =
      _mm512_testn_epi32_mask(bits, _mm512_set1_epi32(0x7f800000));  // denormal or zero
  __m512i r = _mm512_mask_or_epi32(nearest, is_nan, bits, _mm512_set1_epi32(1 << 22));
  r = _mm512_mask_and_epi32(r, is_small, bits, _mm512_set1_epi32(INT32_MIN));
  return _mm512_castsi512_ps(_mm512_and_si512(r, _mm512_set1_epi32((int)0xffff0000)));
}

static void ISA(copy)(void *dst, const float *src, size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, float) && ETI_HOLDS(src, n, float));
  float *const out = dst;
  for (size_t i = 0; i < n; i += 16) {
    const __mmask16 mask = first_lanes(n - i);
    _mm512_mask_storeu_ps(out + i, mask, rounded(_mm512_maskz_loadu_ps(mask, src + i)));
  }
}

const eti_bgemm_micro eti_bgemm_avx512 = {
    .term_bytes = sizeof(float),
    .rows_of_a_tile = MR,
    .tile = ISA(tile),
    .copy = ISA(copy),
};
