// qeltwise_table_256.h — lookup in a table of 256 bytes with 256-bit vectors. Each sixteenth of the
// table serves the bytes with one upper half, and gives 0 for the others. For files compiled with
// AVX2.
#ifndef ET_MICRO_QELTWISE_TABLE_256_H
#define ET_MICRO_QELTWISE_TABLE_256_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

enum { LOOKUP_PARTS = 16, LOOKUP_BYTES = 32 };

static inline __m256i lookup_32(__m256i bytes, const __m256i parts[LOOKUP_PARTS]) {
  __m256i result = _mm256_setzero_si256();
  for (int t = 0; t < LOOKUP_PARTS; t++) {
    // The index is below 128 if the upper halves agree; otherwise its highest bit is set, and the
    // shuffle gives 0.
    const __m256i mine = _mm256_xor_si256(bytes, _mm256_set1_epi8((char)(t << 4)));
    const __m256i index = _mm256_adds_epu8(mine, _mm256_set1_epi8(0x70));
    result = _mm256_or_si256(result, _mm256_shuffle_epi8(parts[t], index));
  }
  return result;
}

// out may be in.
static inline void lookup_bytes(int8_t *out, const int8_t *in, const int8_t *table, size_t n) {
  __m256i parts[LOOKUP_PARTS];
  for (int t = 0; t < LOOKUP_PARTS; t++) {
    // As unsigned numbers, 0 … 127 come first.
    const int8_t *const part = table + (t ^ 8) * LOOKUP_PARTS;
    parts[t] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)part));
  }
  size_t i = 0;
  for (; i + LOOKUP_BYTES <= n; i += LOOKUP_BYTES) {
    const __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)(in + i));
    _mm256_storeu_si256((__m256i *)(void *)(out + i), lookup_32(bytes, parts));
  }
  for (; i < n; i++) out[i] = table[in[i] + 128];
}

#endif  // ET_MICRO_QELTWISE_TABLE_256_H
