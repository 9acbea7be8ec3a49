// half_convert.body.h — conversion of rows of f16 to f32 and back, part of convert.body.h. The
// instructions give the same bits as half.h.
#include "kernels/loops/loop.h"
#include "runtime/half.h"

#if defined(__F16C__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

static void f16_to_f32(float *out, const uint16_t *x, size_t n) {
  ET_ASSERT(ETI_HOLDS(out, n, float) && ETI_HOLDS(x, n, uint16_t));
  size_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(out + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(x + i))));
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(x + i))));
#elif defined(__aarch64__)
  for (; i + 4 <= n; i += 4)
    vst1q_f32(out + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x + i))));
#endif
  for (; i < n; i++) out[i] = eti_f16_to_f32(x[i]);
}

static void f32_to_f16(uint16_t *out, const float *x, size_t n) {
  ET_ASSERT(ETI_HOLDS(out, n, uint16_t) && ETI_HOLDS(x, n, float));
  size_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256((void *)(out + i),
                        _mm512_cvtps_ph(_mm512_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128((void *)(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__aarch64__)
  for (; i + 4 <= n; i += 4)
    vst1_u16(out + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(x + i))));
#endif
  for (; i < n; i++) out[i] = eti_f32_to_f16(x[i]);
}
