// qeltwise_avx512vbmi.c — the loops of qeltwise.h with AVX-512 and VBMI: VPERMI2B looks up 64 bytes
// in half of a table of 256. Two operands as in qeltwise_avx512.c.
#include "kernels/micro/quantized/qeltwise.h"
#include "kernels/micro/quantized/qeltwise_vectors_512.h"

enum { LOOKUP_BYTES = 64 };

typedef struct table_256 {
  __m512i part[4];
} table_256;

// The table is over -128 … 127: the parts of negative bytes come first.
static inline __m512i lookup_64(__m512i bytes, const table_256 *t) {
  const __m512i below = _mm512_permutex2var_epi8(t->part[0], bytes, t->part[1]);
  const __m512i above = _mm512_permutex2var_epi8(t->part[2], bytes, t->part[3]);
  return _mm512_mask_blend_epi8(_mm512_movepi8_mask(bytes), above, below);
}

// out may be in.
static inline void lookup_bytes(int8_t *out, const int8_t *in, const int8_t *table, size_t n) {
  table_256 t;
  for (size_t i = 0; i < 4; i++)
    t.part[i] = _mm512_loadu_si512((const void *)(table + i * LOOKUP_BYTES));
  size_t i = 0;
  for (; i + LOOKUP_BYTES <= n; i += LOOKUP_BYTES) {
    const __m512i bytes = _mm512_loadu_si512((const void *)(in + i));
    _mm512_storeu_si512((void *)(out + i), lookup_64(bytes, &t));
  }
  if (i < n) {
    const __mmask64 some = ((__mmask64)1 << (n - i)) - 1;
    const __m512i bytes = _mm512_maskz_loadu_epi8(some, in + i);
    _mm512_mask_storeu_epi8(out + i, some, lookup_64(bytes, &t));
  }
}

#define ISA(name) name##__avx512vbmi
#define QELTWISE_TABLE eti_qeltwise_avx512vbmi
#define run_vectors run_wide_vectors
#include "kernels/micro/quantized/qeltwise.body.h"
