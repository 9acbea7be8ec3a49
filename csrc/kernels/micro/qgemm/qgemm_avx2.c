// qgemm_avx2.c — the products of qgemm.h with 256-bit vectors of words: 6 rows × 2 vectors use 12
// of the 16 registers for sums, two for pairs of weights and one for the pair of a row.
#include "kernels/micro/qgemm/qgemm_vectors_256.h"

#define ISA(name) name##__avx2
#define TV 2
#define MR 6

// Channels of two taps as pairs of words.
static inline void zip(__m128i x, __m128i y, vi v[2]) {
  v[0] = _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(x, y));
  v[1] = _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(x, y));
}

#include "kernels/micro/qgemm/qgemm.body.h"
#include "kernels/micro/qgemm/qgemm_words.body.h"

const eti_qgemm_micro eti_qgemm_avx2 = {
    .form = ETI_QROWS_WORDS,
    .rows_of_a_tile = MR,
    .tile_i8 = ISA(tile_i8),
    .tile_f32 = ISA(tile_f32),
    .depthwise = ISA(depthwise),
    .copy = ISA(copy),
    .copy_windows = ISA(copy_windows),
    .arrange = ISA(arrange),
};
