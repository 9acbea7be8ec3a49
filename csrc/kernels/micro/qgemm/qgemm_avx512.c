// qgemm_avx512.c — the products of qgemm.h with 512-bit vectors of words: a panel is one vector,
// and a tile has 12 rows of it. Needs AVX-512 F, BW, VL.
#include "kernels/micro/qgemm/qgemm_vectors_512.h"

#define ISA(name) name##__avx512
#define TV 1
#define MR 12

// Channels of two taps as pairs of words.
static inline void zip(__m128i x, __m128i y, vi v[1]) {
  v[0] = _mm512_cvtepi8_epi16(_mm256_set_m128i(_mm_unpackhi_epi8(x, y), _mm_unpacklo_epi8(x, y)));
}

#include "kernels/micro/qgemm/qgemm.body.h"
#include "kernels/micro/qgemm/qgemm_words.body.h"

const eti_qgemm_micro eti_qgemm_avx512 = {
    .form = ETI_QROWS_WORDS,
    .rows_of_a_tile = MR,
    .tile_i8 = ISA(tile_i8),
    .tile_f32 = ISA(tile_f32),
    .depthwise = ISA(depthwise),
    .copy = ISA(copy),
    .copy_windows = ISA(copy_windows),
    .arrange = ISA(arrange),
};
