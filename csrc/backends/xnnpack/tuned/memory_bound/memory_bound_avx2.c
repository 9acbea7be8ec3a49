// memory_bound_avx2.c — the kernels of memory_bound.h. Compiled with AVX2.
#include "backends/xnnpack/tuned/memory_bound/memory_bound.h"

#include <immintrin.h>
#include <string.h>

#include "backends/xnnpack/tuned/requantize_avx2.h"
#include "runtime/check.h"

// ---- Transposition of three planes of bytes to pixels of three

enum { PIXELS = 16, PLANES = 3 };

// The pixel of 16 that byte g of 48 belongs to, if the byte comes from this plane; else 0x80, for
// which a shuffle gives 0.
#define FROM(plane, g) ((g) % PLANES == (plane) ? (g) / PLANES : 0x80)
#define FROM_4(plane, g) \
  FROM(plane, g), FROM(plane, (g) + 1), FROM(plane, (g) + 2), FROM(plane, (g) + 3)
#define FROM_16(plane, g) \
  {FROM_4(plane, g), FROM_4(plane, (g) + 4), FROM_4(plane, (g) + 8), FROM_4(plane, (g) + 12)}
#define FROM_48(plane) {FROM_16(plane, 0), FROM_16(plane, 16), FROM_16(plane, 32)}
static const uint8_t shuffles[PLANES][PLANES][PIXELS] = {FROM_48(0), FROM_48(1), FROM_48(2)};

ETI_VECTOR_INLINE __m128i load(const void *at) {
  return _mm_loadu_si128((const __m128i *)at);
}

void eti_xnn_x8_interleave_3__avx2(const void *from, void *to, size_t from_row_bytes,
                                   size_t to_row_bytes, size_t width, size_t height) {
  ET_ASSERT(height == PLANES && to_row_bytes == PLANES && from != NULL && to != NULL);
  (void)to_row_bytes;
  (void)height;
  const uint8_t *const plane = from;
  uint8_t *const pixels = to;
  __m128i shuffle[PLANES][PLANES];
  for (size_t j = 0; j < PLANES; j++)
    for (size_t k = 0; k < PLANES; k++) shuffle[j][k] = load(shuffles[j][k]);
  size_t i = 0;
  for (; i + PIXELS <= width; i += PIXELS) {
    const __m128i a = load(plane + i), b = load(plane + from_row_bytes + i);
    const __m128i c = load(plane + 2 * from_row_bytes + i);
    for (size_t k = 0; k < PLANES; k++) {
      const __m128i ab =
          _mm_or_si128(_mm_shuffle_epi8(a, shuffle[0][k]), _mm_shuffle_epi8(b, shuffle[1][k]));
      _mm_storeu_si128((__m128i *)(void *)(pixels + PLANES * i + k * PIXELS),
                       _mm_or_si128(ab, _mm_shuffle_epi8(c, shuffle[2][k])));
    }
  }
  for (; i < width; i++)
    for (size_t j = 0; j < PLANES; j++) pixels[PLANES * i + j] = plane[j * from_row_bytes + i];
}

// ---- Multiplication of int8

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

ETI_READS_ON void eti_xnn_qs8_vmul__avx2(size_t n, const void *a, const void *b, void *y,
                                         const void *params) {
  ET_ASSERT(n > 0 && a != NULL && b != NULL && y != NULL && params != NULL);
  const eti_xnn_qs8_vmul_params *const given = params;
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
