// q4_dot_avx2.h — dot products of int8 elements and unsigned 4-bit weights with 256-bit vectors,
// for qgemm_groups_avx2.c and for the XNNPACK delegate's gemm_qb4_avx2.c.
//
// pmaddubsw multiplies unsigned bytes by signed ones and adds pairs of products in 16 bits. Weights
// are stored as 0 to 15, which is 8 too much. The error is the same in the sums of all columns, so
// 16-bit sums start at its negative, computed once for each part of 32 elements of a row. They end
// within 16 · 8 · 128 of zero, even if they wrap on the way; two of them are a column's sum, exact
// in 32 bits. As the sums are exact, their order is free and the result the same in both kernels.
//
// The two kernels share no more than that. One scales the sums of groups by a product and a sum, as
// its scalar variant does on every machine; the other by a fused multiply-add, as XNNPACK does. One
// has columns in their order and zero points; the other has even columns before odd ones, so that
// bfloat16 scales of two columns are read as one word.
#ifndef ETI_Q4_DOT_AVX2_H
#define ETI_Q4_DOT_AVX2_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// The elements of a row that are summed in 16 bits, and the vectors of columns in a register tile.
enum { ETI_Q4_PART = 32, ETI_Q4_VECTORS = 2 };

// The initial 16-bit sums of a part: the low word is -8 times the sum of elements 4 i and 4 i + 1,
// the high one that of 4 i + 2 and 4 i + 3.
static inline int32_t eti_q4_initial_sums(const int8_t *part) {
  const __m256i elements = _mm256_loadu_si256((const __m256i *)(const void *)part);
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(8), elements);
  __m128i sum = _mm_add_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
  sum = _mm_add_epi16(sum, _mm_unpackhi_epi64(sum, sum));
  sum = _mm_add_epi16(sum, _mm_srli_epi64(sum, 32));
  return _mm_cvtsi128_si32(_mm_sub_epi16(_mm_setzero_si128(), sum));
}

// An empty asm keeps the order: otherwise gcc adds products to each other first, and runs out of
// registers.
static inline __attribute__((always_inline)) void eti_q4_keep_order(__m256i *v) {
  __asm__("" : "+x"(*v));
}

// The weights of 4 elements, one byte each, of the low or the high nibbles.
static inline __attribute__((always_inline)) __m256i eti_q4_low(__m256i nibbles) {
  return _mm256_and_si256(nibbles, _mm256_set1_epi8(0x0f));
}

static inline __attribute__((always_inline)) __m256i eti_q4_high(__m256i nibbles) {
  return eti_q4_low(_mm256_srli_epi16(nibbles, 4));
}

// Adds the products of 4 elements of a row, in 16 bits.
static inline __attribute__((always_inline)) void eti_q4_add_products(
    __m256i sums[ETI_Q4_VECTORS], const int8_t *elements, const __m256i weights[ETI_Q4_VECTORS]) {
  int32_t four;
  memcpy(&four, elements, sizeof four);
  const __m256i broadcast = _mm256_set1_epi32(four);
#pragma GCC unroll 2
  for (size_t v = 0; v < ETI_Q4_VECTORS; v++) {
    sums[v] = _mm256_add_epi16(sums[v], _mm256_maddubs_epi16(weights[v], broadcast));
    eti_q4_keep_order(&sums[v]);
  }
}

// Makes a column's 32-bit sum from its two 16-bit sums.
static inline __attribute__((always_inline)) __m256i eti_q4_widen(__m256i sums) {
  return _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
}

#endif
