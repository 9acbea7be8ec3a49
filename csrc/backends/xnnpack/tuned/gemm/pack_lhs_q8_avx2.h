// pack_lhs_q8_avx2.h — packs rows of the left operand for the int8 kernels. Rows are copied to the
// stack slice by slice, since the taps of a convolution are not contiguous.
#ifndef ET_XNNPACK_PACK_LHS_Q8_AVX2_H
#define ET_XNNPACK_PACK_LHS_Q8_AVX2_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// The elements of a row that are packed at once, and the distance of packed rows. It is no power of
// two, because rows would then compete for the same sets of the cache.
enum { ETI_SLICE_K = 2048, ETI_LHS_PITCH = ETI_SLICE_K + 32 };

typedef struct eti_lhs {
  size_t n_k;  // elements of a tap
  const int8_t *a;
  size_t a_bytes;
  const void *const *taps;    // NULL: one tap, the row of the matrix `a`
  size_t next_row, next_tap;  // in the indirection buffer of consecutive rows
  size_t n_taps, offset_bytes;
  const void *zero, *zero_data;  // taps that point to `zero` are read from zero_data
} eti_lhs;

// A slice of the elements of all taps: whole taps, or some elements of one.
typedef struct eti_k_slice {
  size_t tap, n_taps, k, n_k;
} eti_k_slice;

// Elements of a tap, padded to k4 blocks.
static inline size_t eti_padded_k(size_t n) {
  return (n + 3) / 4 * 4;
}

static inline eti_k_slice eti_first_slice(size_t n_k, size_t n_taps) {
  const size_t padded = eti_padded_k(n_k);
  if (padded > ETI_SLICE_K) return (eti_k_slice){0, 1, 0, ETI_SLICE_K};
  const size_t n = ETI_SLICE_K / padded;
  return (eti_k_slice){0, n < n_taps ? n : n_taps, 0, n_k};
}

static inline bool eti_is_last_slice(size_t n_k, size_t n_taps, const eti_k_slice *s) {
  return s->tap + s->n_taps == n_taps && s->k + s->n_k == n_k;
}

static inline eti_k_slice eti_next_slice(size_t n_k, size_t n_taps, eti_k_slice s) {
  if (s.k + s.n_k < n_k) {
    s.k += s.n_k;
  } else {
    s.tap += s.n_taps;
    s.k = 0;
  }
  const size_t taps_left = n_taps - s.tap, k_left = n_k - s.k;
  if (s.n_taps > taps_left) s.n_taps = taps_left;
  if (n_k > ETI_SLICE_K) s.n_k = k_left < ETI_SLICE_K ? k_left : ETI_SLICE_K;
  return s;
}

static inline size_t eti_slice_blocks(const eti_k_slice *s) {
  return eti_padded_k(s->n_k) / 4 * s->n_taps;
}

// n elements plus 128, followed by zeros to the end of a k4 block.
static inline void eti_pack_u8(uint8_t *to, const int8_t *from, size_t n) {
  const __m256i offset = _mm256_set1_epi8(INT8_MIN);
  size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(from + i));
    _mm256_storeu_si256((__m256i *)(void *)(to + i), _mm256_xor_si256(x, offset));
  }
  if (i + 16 <= n) {
    const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
    _mm_storeu_si128((__m128i *)(void *)(to + i), _mm_xor_si128(x, _mm256_castsi256_si128(offset)));
    i += 16;
  }
  for (; i < n; i++) to[i] = (uint8_t)(from[i] + 128);
  for (; i % 4 != 0; i++) to[i] = 0;
}

// n elements as 16-bit integers, the middle two of each k4 block exchanged, and zeros as above.
static inline void eti_pack_i16(int16_t *to, const int8_t *from, size_t n) {
  const __m128i order = _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
    _mm256_storeu_si256((__m256i *)(void *)(to + i),
                        _mm256_cvtepi8_epi16(_mm_shuffle_epi8(x, order)));
  }
  for (; i < n; i += 4) {
    int16_t block[4] = {0};
    for (size_t k = 0; k < 4 && i + k < n; k++) block[k] = from[i + k];
    memcpy(to + i, (int16_t[]){block[0], block[2], block[1], block[3]}, sizeof block);
  }
}

// A tap of row + i; `row` is the first of consecutive rows.
static inline const int8_t *eti_tap_of(const eti_lhs *a, size_t row, size_t i, size_t tap) {
  if (a->taps == NULL) return a->a + (row + i) * a->a_bytes;
  const void *const at = a->taps[row * a->n_taps + i * a->next_row + tap * a->next_tap];
  return at == a->zero ? a->zero_data : (const int8_t *)at + a->offset_bytes;
}

static inline void eti_pack_rows_u8(uint8_t *to, const eti_lhs *a, size_t row, size_t n_rows,
                                    const eti_k_slice *s) {
  const size_t padded = eti_padded_k(s->n_k);
  for (size_t i = 0; i < n_rows; i++)
    for (size_t n = 0; n < s->n_taps; n++)
      eti_pack_u8(to + i * ETI_LHS_PITCH + n * padded, eti_tap_of(a, row, i, s->tap + n) + s->k,
                  s->n_k);
}

static inline void eti_pack_rows_i16(int16_t *to, const eti_lhs *a, size_t row, size_t n_rows,
                                     const eti_k_slice *s) {
  const size_t padded = eti_padded_k(s->n_k);
  for (size_t i = 0; i < n_rows; i++)
    for (size_t n = 0; n < s->n_taps; n++)
      eti_pack_i16(to + i * ETI_LHS_PITCH + n * padded, eti_tap_of(a, row, i, s->tap + n) + s->k,
                   s->n_k);
}

#endif  // ET_XNNPACK_PACK_LHS_Q8_AVX2_H
