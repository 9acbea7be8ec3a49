// requantize_avx2.h — requantizes 32-bit sums to int8 as XNNPACK's `fp32` kernels do: the sum times
// a scale in f32, limited from above, rounded to even, plus the zero point. Sums of 16 channels lie
// in two vectors: channels 0 to 3 and 8 to 11, and the others.
#ifndef ET_XNNPACK_REQUANTIZE_AVX2_H
#define ET_XNNPACK_REQUANTIZE_AVX2_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "backends/xnnpack/tuned/qs8_channels.h"

// Kernels may read up to XNN_EXTRA_BYTES past the last channel: that memory is mapped but unused.
#define ETI_READS_ON __attribute__((no_sanitize("address")))
#define ETI_VECTOR_INLINE static inline ETI_READS_ON __attribute__((always_inline))
#if defined(__clang__)
#define ETI_UNROLL _Pragma("clang loop unroll(full)")
#else
#define ETI_UNROLL _Pragma("GCC unroll 32")
#endif

enum {
  ETI_CHANNELS = ETI_XNN_QS8_CHANNELS,
  ETI_PAIRS_BYTES = 2 * ETI_CHANNELS * (int)sizeof(int16_t),  // two 16-bit numbers a channel
  ETI_CHANNELS_BYTES = ETI_CHANNELS * (int)sizeof(int32_t)
};

// The index of channel c of 16 in two vectors.
static inline size_t eti_lane_of(size_t c) {
  return (c & 3) + (c & 8) / 2 + (c & 4) * 2;
}

typedef struct eti_sums {
  __m256i of[2];
} eti_sums;

typedef struct eti_target {
  int8_t *y;
  size_t pixel_bytes;
  __m256 most;  // above the zero point
  __m256i zero_point;
  __m128i least;
} eti_target;

ETI_VECTOR_INLINE eti_target eti_target_of(void *y, size_t pixel_bytes,
                                           const eti_xnn_qs8_limits *limits) {
  return (eti_target){.y = y,
                      .pixel_bytes = pixel_bytes,
                      .most = _mm256_set1_ps((float)(limits->max - limits->zero_point)),
                      .zero_point = _mm256_set1_epi16(limits->zero_point),
                      .least = _mm_set1_epi8((char)limits->min)};
}

ETI_VECTOR_INLINE __m256i eti_load(const void *at) {
  return _mm256_load_si256((const __m256i *)at);
}

// The sums of 16 channels begin with their biases.
ETI_VECTOR_INLINE eti_sums eti_biases(const void *at) {
  return (eti_sums){{eti_load(at), eti_load((const uint8_t *)at + ETI_CHANNELS_BYTES / 2)}};
}

// The empty asm keeps the order of additions: otherwise compilers reorder them and run out of
// registers.
ETI_VECTOR_INLINE void eti_add_products(eti_sums *sum, __m256i a0, __m256i a1, __m256i w0,
                                        __m256i w1) {
  sum->of[0] = _mm256_add_epi32(sum->of[0], _mm256_madd_epi16(a0, w0));
  sum->of[1] = _mm256_add_epi32(sum->of[1], _mm256_madd_epi16(a1, w1));
  __asm__("" : "+x"(sum->of[0]), "+x"(sum->of[1]));
}

// The requantized sums, in the channels' order.
ETI_VECTOR_INLINE __m128i eti_scaled(eti_sums sum, const void *scales, const eti_target *t) {
  __m256i whole[2];
  ETI_UNROLL for (size_t h = 0; h < 2; h++) {
    const __m256 scale = _mm256_load_ps((const float *)scales + h * ETI_CHANNELS / 2);
    const __m256 x = _mm256_mul_ps(_mm256_cvtepi32_ps(sum.of[h]), scale);
    whole[h] = _mm256_cvtps_epi32(_mm256_min_ps(x, t->most));
  }
  const __m256i x = _mm256_adds_epi16(_mm256_packs_epi32(whole[0], whole[1]), t->zero_point);
  const __m128i y = _mm_packs_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  return _mm_max_epi8(y, t->least);
}

// Writes the first n_left of 16 channels of n pixels, from first_channel on; all 16 if n_left is
// greater.
ETI_VECTOR_INLINE void eti_finish(const eti_sums *sums, size_t n, const void *scales,
                                  const eti_target *t, size_t first_channel, size_t n_left) {
  int8_t *at = t->y + first_channel;
  ETI_UNROLL for (size_t p = 0; p < n; p++, at += t->pixel_bytes) {
    const __m128i y = eti_scaled(sums[p], scales, t);
    if (n_left >= ETI_CHANNELS) {
      _mm_storeu_si128((__m128i *)(void *)at, y);
    } else {
      int8_t bytes[ETI_CHANNELS];
      _mm_storeu_si128((__m128i *)(void *)bytes, y);
      memcpy(at, bytes, n_left);
    }
  }
}

#endif  // ET_XNNPACK_REQUANTIZE_AVX2_H
