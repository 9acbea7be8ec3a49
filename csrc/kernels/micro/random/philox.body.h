// philox.body.h — the source of every variant of philox.h. The including file sets
// ETI_PHILOX_TABLE, the name of its table, `lanes`, a vector of u64, and multiply(), which
// multiplies lanes of 32-bit numbers by such a number.
#include "kernels/contract.h"
#include "kernels/loops/loop.h"
#include "kernels/micro/math/math_f32.h"

#define LOW_HALF UINT64_C(0xFFFFFFFF)

enum { LANES = sizeof(lanes) / sizeof(uint64_t) };

// The next LANES blocks of 128 bits, from block `at` on.
static inline __attribute__((always_inline)) void draw_blocks(const eti_philox_stream *s,
                                                              uint64_t at, uint64_t *out) {
  lanes c0, c1, c2, c3;
  for (size_t l = 0; l < LANES; l++) {
    c0[l] = (at + l) & LOW_HALF;
    c1[l] = (at + l) >> 32;
    c2[l] = s->call & LOW_HALF;
    c3[l] = s->call >> 32;
  }
  uint64_t k0 = s->seed & LOW_HALF, k1 = s->seed >> 32;
  for (int round = 0; round < 10; round++) {
    const lanes p0 = multiply(c0, 0xD2511F53u), p1 = multiply(c2, 0xCD9E8D57u);
    c0 = (p1 >> 32) ^ c1 ^ k0;
    c2 = (p0 >> 32) ^ c3 ^ k1;
    c1 = p1 & LOW_HALF;
    c3 = p0 & LOW_HALF;
    k0 = (k0 + 0x9E3779B9u) & LOW_HALF;
    k1 = (k1 + 0xBB67AE85u) & LOW_HALF;
  }
  const lanes low = c1 << 32 | c0, high = c3 << 32 | c2;
  for (size_t l = 0; l < LANES; l++) {
    out[2 * l] = low[l];
    out[2 * l + 1] = high[l];
  }
}

static void bits(const eti_philox_stream *s, uint64_t first, size_t n, uint64_t *out) {
  ET_ASSERT(s != NULL && n <= ETI_PHILOX_BLOCK && ETI_HOLDS(out, n, uint64_t));
  _Alignas(64) uint64_t room[2 * LANES];
  for (size_t done = 0; done < n;) {
    const size_t skip = (size_t)((first + done) % 2);  // one half of a block was drawn before
    if (skip == 0 && n - done >= 2 * LANES) {
      draw_blocks(s, (first + done) / 2, out + done);
      done += 2 * LANES;
      continue;
    }
    const size_t left = n - done, count = left < 2 * LANES - skip ? left : 2 * LANES - skip;
    draw_blocks(s, (first + done) / 2, room);
    memcpy(out + done, room + skip, count * sizeof *room);
    done += count;
  }
}

static void uniform_f32(float *restrict out, const uint64_t *restrict in, size_t n,
                        unsigned places) {
  ET_ASSERT(places >= 1 && places <= 24);
  ET_ASSERT(ETI_HOLDS(out, n, float) && ETI_HOLDS(in, n, uint64_t));
  const unsigned shift = 64 - places;
  const float unit = eti_f32_from_bits((127u - places) << 23);
  for (size_t i = 0; i < n; i++) out[i] = (float)(int32_t)(in[i] >> shift) * unit;
}

static void uniform_f64(double *restrict out, const uint64_t *restrict in, size_t n) {
  ET_ASSERT(ETI_HOLDS(out, n, double) && ETI_HOLDS(in, n, uint64_t));
  for (size_t i = 0; i < n; i++) out[i] = (double)(int64_t)(in[i] >> 11) * 0x1p-53;
}

// 1 - u is in (0, 1].
static void normal(double *restrict out, const uint64_t *restrict in, size_t n) {
  ET_ASSERT(n % 2 == 0 && ETI_HOLDS(out, n, double) && ETI_HOLDS(in, n, uint64_t));
  for (size_t i = 0; i < n / 2; i++) {
    const double u = (double)(int64_t)(in[2 * i] >> 11) * 0x1p-53;
    const double v = (double)(int64_t)(in[2 * i + 1] >> 11) * 0x1p-53;
    const double r = sqrt(-2.0 * eti_log_d(1.0 - u));
    uint64_t quadrant;
    const double angle = eti_angle_d(v * 0x1.921fb54442d18p+2, &quadrant);
    out[2 * i] = r * eti_sin_quadrant(angle, quadrant + 1u);
    out[2 * i + 1] = r * eti_sin_quadrant(angle, quadrant);
  }
}

static void exponential(double *restrict out, const uint64_t *restrict in, size_t n) {
  ET_ASSERT(ETI_HOLDS(out, n, double) && ETI_HOLDS(in, n, uint64_t));
  for (size_t i = 0; i < n; i++)
    out[i] = -eti_log_d(1.0 - (double)(int64_t)(in[i] >> 11) * 0x1p-53);
}

const eti_philox_micro ETI_PHILOX_TABLE = {bits, uniform_f32, uniform_f64, normal, exponential};
