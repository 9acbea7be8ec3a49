// bgemm_avx512bf16.c — the products of bgemm.h with VDPBF16PS, on rows of bf16. Needs AVX-512 F,
// BW, VL, BF16. The instruction flushes denormals whatever MXCSR says; additions of chunks do it
// by MXCSR.
#include "kernels/micro/bgemm/bgemm_x86_512.h"

#define ISA(name) name##__avx512bf16

typedef __m512i vx;

static inline vx pair_of_row(const char *p) {
  int32_t both;
  __builtin_memcpy(&both, p, sizeof both);
  return _mm512_set1_epi32(both);
}
#define VX_PAIR(p) pair_of_row(p)

// Adds two products to each sum. The asm keeps it in one register.
static inline vf add_products(vf sum, vx x, vp w) {
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
  return sum;
}
#define VF_DOT(sum, x, w) add_products(sum, x, w)

#include "kernels/micro/bgemm/bgemm.body.h"

static void ISA(tile)(const eti_btile *given) {
  ET_ASSERT(eti_btile_is_valid(given));
  const eti_btile t = *given;
  const unsigned before = eti_flush_begin();
  all_rows(&t);
  eti_flush_end(before);
}

static void ISA(copy)(void *dst, const float *src, size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, uint16_t) && ETI_HOLDS(src, n, float));
  uint16_t *const out = dst;
  size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m512bh both =
        _mm512_cvtne2ps_pbh(_mm512_loadu_ps(src + i + 16), _mm512_loadu_ps(src + i));
    _mm512_storeu_si512(out + i, (__m512i)both);
  }
  for (; i < n; i += 16) {
    const __mmask16 mask = first_lanes(n - i);
    const __m256bh some = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, src + i));
    _mm256_mask_storeu_epi16(out + i, mask, (__m256i)some);
  }
}

const eti_bgemm_micro eti_bgemm_avx512bf16 = {
    .term_bytes = sizeof(uint16_t),
    .rows_of_a_tile = MR,
    .tile = ISA(tile),
    .copy = ISA(copy),
};
