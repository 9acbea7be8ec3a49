// grid_sample_kernel.body.h — the source of every variant of grid_sample_kernel.h; the including
// file names its table, ETI_GRID_SAMPLE_TABLE.
#include "kernels/micro/sample/grid_sample_kernel.h"

#include "kernels/contract.h"
#include "kernels/loops/loop.h"
#include "kernels/micro/math/math_f32.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

// ---- positions

#define T double
#define INDEX int64_t
#define TAPS eti_grid_sample_taps
#define OUTSIDE ETI_GRID_SAMPLE_OUTSIDE
#define SUFFIX wide
#define MATH(name) name
#include "kernels/micro/sample/grid_sample_kernel_place.inc.h"
#define T float
#define INDEX int32_t
#define TAPS eti_grid_sample_taps_f32
#define OUTSIDE ETI_GRID_SAMPLE_OUTSIDE_F32
#define SUFFIX near
#define MATH(name) name##f
#include "kernels/micro/sample/grid_sample_kernel_place.inc.h"

// ---- sums

#define T float
#define LOAD(x) (double)(x)
#define SUFFIX f32
#include "kernels/micro/sample/grid_sample_kernel_blend.inc.h"
#define T double
#define LOAD(x) (x)
#define SUFFIX f64
#include "kernels/micro/sample/grid_sample_kernel_blend.inc.h"
#define T uint16_t
#define LOAD(x) (double)eti_f16_to_f32(x)
#define SUFFIX f16
#include "kernels/micro/sample/grid_sample_kernel_blend.inc.h"
#define T uint16_t
#define LOAD(x) (double)eti_bf16_to_f32(x)
#define SUFFIX bf16
#include "kernels/micro/sample/grid_sample_kernel_blend.inc.h"

// ---- images in f32: the taps of all axes are combined once for all channels

static void place_f32(eti_grid_sample_taps_f32 *taps, const eti_grid_sample_axis *a,
                      const float *grid, ptrdiff_t step, size_t n) {
  ET_ASSERT(n <= ETI_GRID_SAMPLE_BLOCK && ETI_HOLDS(grid, n, float));
  float at[ETI_GRID_SAMPLE_BLOCK];
  if (step == 2) {  // the usual grid of an image
    for (size_t i = 0; i < n; i++) at[i] = grid[2 * i];
  } else {
    for (size_t i = 0; i < n; i++) at[i] = grid[(ptrdiff_t)i * step];
  }
  place_near(taps, a, at, n);
}

static size_t join_f32(eti_grid_sample_corners *c, const eti_grid_sample_taps_f32 *d,
                       const eti_grid_sample_taps_f32 *h, const eti_grid_sample_taps_f32 *w,
                       int64_t mode, size_t n) {
  ET_ASSERT(c != NULL && h != NULL && w != NULL && n <= ETI_GRID_SAMPLE_BLOCK);
  ET_ASSERT(d == NULL || mode != ETI_GRID_SAMPLE_BICUBIC);  // 64 corners do not fit
  const size_t taps = mode == ETI_GRID_SAMPLE_NEAREST    ? 1
                      : mode == ETI_GRID_SAMPLE_BILINEAR ? 2
                                                         : 4;
  size_t count = 0;
  for (size_t z = 0; z < (d == NULL ? 1 : taps); z++) {
    for (size_t y = 0; y < taps; y++) {
      for (size_t x = 0; x < taps; x++, count++) {
        for (size_t i = 0; i < n; i++) c->at[count][i] = h->at[y][i] + w->at[x][i];
        for (size_t i = 0; i < n && d != NULL; i++) c->at[count][i] += d->at[z][i];
        if (taps == 1) continue;
        for (size_t i = 0; i < n; i++) c->weight[count][i] = h->weight[y][i] * w->weight[x][i];
        for (size_t i = 0; i < n && d != NULL; i++) c->weight[count][i] *= d->weight[z][i];
      }
    }
  }
  return count;
}

// Gathers vectors of elements, 0 for a negative `at`: nothing is read there.
#if defined(__AVX512F__)
typedef __m512 floats;
enum { GATHERED = 16 };
#define LOAD_FLOATS(p) _mm512_loadu_ps(p)
#define STORE_FLOATS(p, v) _mm512_storeu_ps(p, v)
#define MUL_FLOATS(a, b) _mm512_mul_ps(a, b)
#define FMA_FLOATS(a, b, c) _mm512_fmadd_ps(a, b, c)
ETI_INLINE floats gathered(const float *plane, const int32_t *at) {
  const __m512i places = _mm512_loadu_si512(at);
  const __mmask16 inside = _mm512_cmpge_epi32_mask(places, _mm512_setzero_si512());
  return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), inside, places, plane, 4);
}
#elif defined(__AVX2__) && defined(__FMA__)
typedef __m256 floats;
enum { GATHERED = 8 };
#define LOAD_FLOATS(p) _mm256_loadu_ps(p)
#define STORE_FLOATS(p, v) _mm256_storeu_ps(p, v)
#define MUL_FLOATS(a, b) _mm256_mul_ps(a, b)
#define FMA_FLOATS(a, b, c) _mm256_fmadd_ps(a, b, c)
ETI_INLINE floats gathered(const float *plane, const int32_t *at) {
  const __m256i places = _mm256_loadu_si256((const __m256i *)(const void *)at);
  const __m256i inside = _mm256_cmpgt_epi32(places, _mm256_set1_epi32(-1));
  return _mm256_mask_i32gather_ps(_mm256_setzero_ps(), plane, places, _mm256_castsi256_ps(inside),
                                  4);
}
#endif

ETI_INLINE float near_pixel(const float *plane, int32_t at) {
  return at < 0 ? 0.0f : plane[at];
}

ETI_INLINE void blend_corners(float *out, const float *plane, const eti_grid_sample_corners *c,
                              const size_t count, size_t n) {
  size_t i = 0;
#ifdef FMA_FLOATS
  for (; i + GATHERED <= n; i += GATHERED) {
    floats sum = gathered(plane, c->at[0] + i);
    if (count > 1) sum = MUL_FLOATS(LOAD_FLOATS(c->weight[0] + i), sum);
    for (size_t k = 1; k < count; k++)
      sum = FMA_FLOATS(LOAD_FLOATS(c->weight[k] + i), gathered(plane, c->at[k] + i), sum);
    STORE_FLOATS(out + i, sum);
  }
#endif
  for (; i < n; i++) {
    float sum = near_pixel(plane, c->at[0][i]);
    if (count > 1) sum *= c->weight[0][i];
    for (size_t k = 1; k < count; k++)
      sum = eti_fma_f32(c->weight[k][i], near_pixel(plane, c->at[k][i]), sum);
    out[i] = sum;
  }
}

static void blend_near(float *out, const float *plane, const eti_grid_sample_corners *c,
                       size_t count, size_t n) {
  ET_ASSERT(count == 1 || count == 4 || count == 8 || count == 16);
  ET_ASSERT(c != NULL && n <= ETI_GRID_SAMPLE_BLOCK);
  ET_ASSERT(ETI_HOLDS(out, n, float) && ETI_HOLDS(plane, 1, float));
  switch (count) {
    case 1:
      blend_corners(out, plane, c, 1, n);
      break;
    case 4:
      blend_corners(out, plane, c, 4, n);
      break;
    case 8:
      blend_corners(out, plane, c, 8, n);
      break;
    default:
      blend_corners(out, plane, c, 16, n);
  }
}

const eti_grid_sample_micro ETI_GRID_SAMPLE_TABLE = {
    .place = place_wide,
    .blend = {blend_f32, blend_f64, blend_f16, blend_bf16},
    .place_f32 = place_f32,
    .join_f32 = join_f32,
    .blend_f32 = blend_near};
