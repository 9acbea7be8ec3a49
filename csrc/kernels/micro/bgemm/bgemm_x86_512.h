// bgemm_x86_512.h — vectors of 512 bits for bgemm.body.h: a panel is one vector, and a tile has up
// to 12 rows of two panels, in 24 of the 32 registers. Fewer rows have more panels, since an
// addition waits for the one before.
#include <immintrin.h>

#include "kernels/micro/bgemm/bgemm.h"
#include "kernels/micro/bgemm/flush_x86.h"

typedef __m512 vf;
typedef __m512i vp;
#define LANES 16
#define MR 12
#define VECTORS(m) ((m) <= 2 ? 8 : (m) <= 6 ? 4 : 2)
#define VF_ZERO _mm512_setzero_ps()
#define VF_LOAD(p) _mm512_loadu_ps(p)
#define VF_ADD(a, b) _mm512_add_ps(a, b)
#define VP_LOAD(p) _mm512_loadu_si512(p)

// The first n of 16 lanes.
static inline __mmask16 first_lanes(size_t n) {
  return n >= 16 ? 0xffff : (__mmask16)((1u << n) - 1u);
}

static inline size_t lanes_left(size_t n, size_t v) {
  return n > v * LANES ? n - v * LANES : 0;
}

static inline __attribute__((always_inline)) void load_row(const float *p, vf *v, size_t tv,
                                                           size_t n) {
  for (size_t i = 0; i < tv; i++)
    v[i] = _mm512_maskz_loadu_ps(first_lanes(lanes_left(n, i)), p + i * LANES);
}

static inline __attribute__((always_inline)) void store_row(float *out, const vf *sums, size_t tv,
                                                            size_t n) {
  for (size_t v = 0; v < tv; v++) {
    _mm512_mask_storeu_ps(out + v * LANES, first_lanes(lanes_left(n, v)), sums[v]);
  }
}
