// pack_lhs_q8_avx2.h — rows of int8 as the kernels of gemm_q8_avx2.c multiply them: copied to the
// stack part by part, since they may lie in pieces.
#ifndef ET_XNNPACK_ROWS_Q8_AVX2_H
#define ET_XNNPACK_ROWS_Q8_AVX2_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// How many elements of a row are taken at once, and how far rows are apart: not by a power of two,
// as they would compete for the same places of the cache.
enum { ETI_K_MOST = 2048, ETI_ROW_PITCH = ETI_K_MOST + 32 };

typedef struct eti_rows {
  size_t n_k;  // elements of a piece
  const int8_t *a;
  size_t a_bytes;
  const void *const *pieces;    // NULL: one piece, the row of the matrix `a`
  size_t next_row, next_piece;  // among the pointers of the rows that are taken together
  size_t n_pieces, offset_bytes;
  const void *zero, *zero_data;
} eti_rows;

// A part of the elements of all pieces: whole pieces, or some elements of one.
typedef struct eti_part {
  size_t piece, n_pieces, k, n_k;
} eti_part;

static inline size_t eti_in_quads(size_t n) {
  return (n + 3) / 4 * 4;
}

static inline eti_part eti_first_part(size_t n_k, size_t n_pieces) {
  const size_t padded = eti_in_quads(n_k);
  if (padded > ETI_K_MOST) return (eti_part){0, 1, 0, ETI_K_MOST};
  const size_t n = ETI_K_MOST / padded;
  return (eti_part){0, n < n_pieces ? n : n_pieces, 0, n_k};
}

static inline bool eti_is_last_part(size_t n_k, size_t n_pieces, const eti_part *p) {
  return p->piece + p->n_pieces == n_pieces && p->k + p->n_k == n_k;
}

static inline eti_part eti_next_part(size_t n_k, size_t n_pieces, eti_part p) {
  if (p.k + p.n_k < n_k) {
    p.k += p.n_k;
  } else {
    p.piece += p.n_pieces;
    p.k = 0;
  }
  const size_t pieces_left = n_pieces - p.piece, k_left = n_k - p.k;
  if (p.n_pieces > pieces_left) p.n_pieces = pieces_left;
  if (n_k > ETI_K_MOST) p.n_k = k_left < ETI_K_MOST ? k_left : ETI_K_MOST;
  return p;
}

static inline size_t eti_part_quads(const eti_part *p) {
  return eti_in_quads(p->n_k) / 4 * p->n_pieces;
}

// n elements plus 128, and zeros behind them to the end of a quad.
static inline void eti_copy_bytes(uint8_t *to, const int8_t *from, size_t n) {
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

// n elements as 16-bit integers, the middle two of each quad exchanged, and zeros as above.
static inline void eti_widen_bytes(int16_t *to, const int8_t *from, size_t n) {
  const __m128i order = _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
    _mm256_storeu_si256((__m256i *)(void *)(to + i),
                        _mm256_cvtepi8_epi16(_mm_shuffle_epi8(x, order)));
  }
  for (; i < n; i += 4) {
    int16_t quad[4] = {0};
    for (size_t k = 0; k < 4 && i + k < n; k++) quad[k] = from[i + k];
    memcpy(to + i, (int16_t[]){quad[0], quad[2], quad[1], quad[3]}, sizeof quad);
  }
}

// Piece `piece` of row + i, where `row` is the first one of those taken together.
static inline const int8_t *eti_piece_of(const eti_rows *r, size_t row, size_t i, size_t piece) {
  if (r->pieces == NULL) return r->a + (row + i) * r->a_bytes;
  const void *const at = r->pieces[row * r->n_pieces + i * r->next_row + piece * r->next_piece];
  return at == r->zero ? r->zero_data : (const int8_t *)at + r->offset_bytes;
}

static inline void eti_copy_rows(uint8_t *rows, const eti_rows *r, size_t row, size_t n_rows,
                                 const eti_part *p) {
  const size_t padded = eti_in_quads(p->n_k);
  for (size_t i = 0; i < n_rows; i++)
    for (size_t n = 0; n < p->n_pieces; n++)
      eti_copy_bytes(rows + i * ETI_ROW_PITCH + n * padded,
                     eti_piece_of(r, row, i, p->piece + n) + p->k, p->n_k);
}

static inline void eti_widen_rows(int16_t *rows, const eti_rows *r, size_t row, size_t n_rows,
                                  const eti_part *p) {
  const size_t padded = eti_in_quads(p->n_k);
  for (size_t i = 0; i < n_rows; i++)
    for (size_t n = 0; n < p->n_pieces; n++)
      eti_widen_bytes(rows + i * ETI_ROW_PITCH + n * padded,
                      eti_piece_of(r, row, i, p->piece + n) + p->k, p->n_k);
}

#endif  // ET_XNNPACK_ROWS_Q8_AVX2_H
