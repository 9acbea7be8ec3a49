// memory_bound_avx2.c — kernels for light operators: see memory_bound.h. Compiled with AVX2.
#include <immintrin.h>
#include <string.h>

#include "backends/xnnpack/tuned/memory_bound.h"
#include "backends/xnnpack/tuned/requantize_avx2.h"
#include "runtime/check.h"

// ---- Three lines of bytes to pixels of three

enum { PIXELS = 16, LINES = 3 };

// Of which of 16 pixels byte g of 48 is, if it is of this line; else 0x80, which gives 0.
#define FROM(line, g) ((g) % LINES == (line) ? (g) / LINES : 0x80)
#define FROM_4(line, g) FROM(line, g), FROM(line, (g) + 1), FROM(line, (g) + 2), FROM(line, (g) + 3)
#define FROM_16(line, g) \
  {FROM_4(line, g), FROM_4(line, (g) + 4), FROM_4(line, (g) + 8), FROM_4(line, (g) + 12)}
#define FROM_48(line) {FROM_16(line, 0), FROM_16(line, 16), FROM_16(line, 32)}
static const uint8_t places[LINES][LINES][PIXELS] = {FROM_48(0), FROM_48(1), FROM_48(2)};

ETI_VECTOR_INLINE __m128i load(const void *at) {
  return _mm_loadu_si128((const __m128i *)at);
}

void eti_xnn_x8_interleave_3__avx2(const void *from, void *to, size_t from_row_bytes,
                                   size_t to_row_bytes, size_t width, size_t height) {
  ET_ASSERT(height == LINES && to_row_bytes == LINES);
  (void)to_row_bytes;
  (void)height;
  const uint8_t *const line = from;
  uint8_t *const pixels = to;
  __m128i place[LINES][LINES];
  for (size_t j = 0; j < LINES; j++)
    for (size_t k = 0; k < LINES; k++) place[j][k] = load(places[j][k]);
  size_t i = 0;
  for (; i + PIXELS <= width; i += PIXELS) {
    const __m128i a = load(line + i), b = load(line + from_row_bytes + i);
    const __m128i c = load(line + 2 * from_row_bytes + i);
    for (size_t k = 0; k < LINES; k++) {
      const __m128i ab =
          _mm_or_si128(_mm_shuffle_epi8(a, place[0][k]), _mm_shuffle_epi8(b, place[1][k]));
      _mm_storeu_si128((__m128i *)(void *)(pixels + LINES * i + k * PIXELS),
                       _mm_or_si128(ab, _mm_shuffle_epi8(c, place[2][k])));
    }
  }
  for (; i < width; i++)
    for (size_t j = 0; j < LINES; j++) pixels[LINES * i + j] = line[j * from_row_bytes + i];
}

// ---- Products

typedef struct product {
  __m256i a_zero_point, b_zero_point, zero_point;
  __m256 scale;
  __m128i min, max;
} product;

ETI_VECTOR_INLINE __m128i multiplied(const int8_t *a, const int8_t *b, const product *p) {
  const __m256i x = _mm256_sub_epi16(_mm256_cvtepi8_epi16(load(a)), p->a_zero_point);
  const __m256i z = _mm256_sub_epi16(_mm256_cvtepi8_epi16(load(b)), p->b_zero_point);
  const __m256i low = _mm256_mullo_epi16(x, z), high = _mm256_mulhi_epi16(x, z);
  const __m256 first = _mm256_cvtepi32_ps(_mm256_unpacklo_epi16(low, high));
  const __m256 second = _mm256_cvtepi32_ps(_mm256_unpackhi_epi16(low, high));
  const __m256i whole = _mm256_packs_epi32(_mm256_cvtps_epi32(_mm256_mul_ps(first, p->scale)),
                                           _mm256_cvtps_epi32(_mm256_mul_ps(second, p->scale)));
  const __m256i sum = _mm256_adds_epi16(whole, p->zero_point);
  const __m128i y = _mm_packs_epi16(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
  return _mm_min_epi8(_mm_max_epi8(y, p->min), p->max);
}

ETI_READS_ON void eti_xnn_qs8_multiply__avx2(size_t n, const void *a, const void *b, void *y,
                                             const void *params) {
  const eti_xnn_qs8_product *const given = params;
  const product p = {.a_zero_point = _mm256_set1_epi16(given->a_zero_point),
                     .b_zero_point = _mm256_set1_epi16(given->b_zero_point),
                     .zero_point = _mm256_set1_epi16(given->zero_point),
                     .scale = _mm256_set1_ps(given->scale),
                     .min = _mm_set1_epi8(given->min),
                     .max = _mm_set1_epi8(given->max)};
  const int8_t *x = a, *z = b;
  int8_t *to = y;
  for (; n >= ETI_CHANNELS; n -= ETI_CHANNELS) {
    _mm_storeu_si128((__m128i *)(void *)to, multiplied(x, z, &p));
    x += ETI_CHANNELS;
    z += ETI_CHANNELS;
    to += ETI_CHANNELS;
  }
  if (n == 0) return;
  int8_t bytes[ETI_CHANNELS];
  _mm_storeu_si128((__m128i *)(void *)bytes, multiplied(x, z, &p));
  memcpy(to, bytes, n);
}
