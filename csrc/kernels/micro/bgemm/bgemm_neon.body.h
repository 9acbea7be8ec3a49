// bgemm_neon.body.h — the products of bgemm.h over vectors of 128 bits. The including file gives
// ISA(name), MR, term and TERM_BYTES of a row, what bgemm.body.h needs for VF_LANE, PLAIN_TILE(t),
// the plain C for such rows, and store_terms(p, bits), which stores four terms of a row.
//
// FPCR flushes denormals. AArch64 flushes a result by its value before it is rounded, others by the
// rounded one: FPSR tells whether any was flushed, and the plain C then computes that tile again.
// Such numbers are rare, so the bits are those of the others at no cost.

typedef float32x4_t vf;
typedef uint16x8_t vp;
#define LANES 4
#define VECTORS(m) ((m) <= 2 ? 8 : 4)
#define VF_ZERO vdupq_n_f32(0.0f)
#define VF_LOAD(p) vld1q_f32(p)
#define VF_ADD(a, b) vaddq_f32(a, b)
#define VP_LOAD(p) vld1q_u16(p)

// An empty asm keeps the order.
static inline __attribute__((always_inline)) vp keep_order(vp w) {
  __asm__ volatile("" : "+w"(w));
  return w;
}
#define VP_KEEP(w) keep_order(w)

#define FPCR_FLUSH (1ul << 24)
#define FPSR_UNDERFLOW (1ul << 3)

static inline unsigned long get_fpcr(void) {
  unsigned long bits;
  __asm__ volatile("mrs %0, fpcr" : "=r"(bits));
  return bits;
}

static inline void set_fpcr(unsigned long bits) {
  __asm__ volatile("msr fpcr, %0" : : "r"(bits));
}

static inline unsigned long get_fpsr(void) {
  unsigned long bits;
  __asm__ volatile("mrs %0, fpsr" : "=r"(bits));
  return bits;
}

static inline void set_fpsr(unsigned long bits) {
  __asm__ volatile("msr fpsr, %0" : : "r"(bits));
}

// The flag is cumulative. The sums are operands of an asm, so that they are computed before.
static inline __attribute__((always_inline)) bool was_flushed(vf *sums, size_t n) {
  _Pragma("GCC unroll 32") for (size_t i = 0; i < n; i++) __asm__ volatile("" : "+w"(sums[i]));
  return (get_fpsr() & FPSR_UNDERFLOW) != 0;
}
#define WAS_FLUSHED(sums, n) was_flushed(sums, n)

static __attribute__((noinline)) void compute_exactly(const eti_btile *t, size_t row, size_t column,
                                                      size_t m, size_t n) {
  eti_btile part = *t;
  part.a = (const char *)t->a + row * t->a_step;
  part.w = t->w + column / ETI_BGEMM_NR * t->w_step;
  if (t->bias != NULL) part.bias = t->bias + column;
  part.out = t->out + row * t->out_step + column;
  part.m = m;
  part.n = n;
  const unsigned long before = get_fpcr();
  set_fpcr(before & ~FPCR_FLUSH);
  PLAIN_TILE(&part);
  set_fpcr(before);
  set_fpsr(get_fpsr() & ~FPSR_UNDERFLOW);
}

static inline size_t lanes_left(size_t n, size_t v) {
  return n > v * LANES ? n - v * LANES : 0;
}

static inline __attribute__((always_inline)) void load_row(const float *p, vf *v, size_t tv,
                                                           size_t n) {
  for (size_t i = 0; i < tv; i++) {
    float part[LANES] = {0};
    const size_t left = lanes_left(n, i);
    for (size_t c = 0; c < left && left < LANES; c++) part[c] = p[i * LANES + c];
    v[i] = vld1q_f32(left >= LANES ? p + i * LANES : part);
  }
}

static inline __attribute__((always_inline)) void store_row(float *p, const vf *v, size_t tv,
                                                            size_t n) {
  for (size_t i = 0; i < tv; i++) {
    const size_t left = lanes_left(n, i);
    if (left >= LANES) {
      vst1q_f32(p + i * LANES, v[i]);
    } else {
      if (left > 0) vst1q_lane_f32(p + i * LANES, v[i], 0);
      if (left > 1) vst1q_lane_f32(p + i * LANES + 1, v[i], 1);
      if (left > 2) vst1q_lane_f32(p + i * LANES + 2, v[i], 2);
    }
  }
}

#include "kernels/micro/bgemm/bgemm.body.h"

static void ISA(tile)(const eti_btile *given) {
  ET_ASSERT(eti_btile_is_valid(given));
  const eti_btile t = *given;
  const unsigned long control = get_fpcr(), status = get_fpsr();
  set_fpsr(status & ~FPSR_UNDERFLOW);
  set_fpcr(control | FPCR_FLUSH);
  all_rows(&t);
  set_fpcr(control);
  set_fpsr(status);
}

// The bits of numbers rounded to bf16: in integers, which need no flushing.
static uint32x4_t rounded(float32x4_t x) {
  const uint32x4_t bits = vreinterpretq_u32_f32(x);
  const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
  const uint32x4_t nearest = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
  const uint32x4_t exponent = vdupq_n_u32(0x7f800000u), magnitude = vdupq_n_u32(0x7fffffffu);
  const uint32x4_t is_large = vtstq_u32(bits, exponent);  // neither denormal nor zero
  const uint32x4_t is_nan = vcgtq_u32(vandq_u32(bits, magnitude), exponent);
  uint32x4_t r = vbslq_u32(is_large, nearest, vbicq_u32(bits, magnitude));
  r = vbslq_u32(is_nan, vorrq_u32(bits, vdupq_n_u32(1u << 22)), r);
  return vandq_u32(r, vdupq_n_u32(0xffff0000u));
}

static void ISA(copy)(void *dst, const float *src, size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, term) && ETI_HOLDS(src, n, float));
  term *const out = dst;
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) store_terms(out + i, rounded(vld1q_f32(src + i)));
  if (i < n) {
    float last[LANES] = {0};
    term found[LANES];
    memcpy(last, src + i, (n - i) * sizeof *last);
    store_terms(found, rounded(vld1q_f32(last)));
    memcpy(out + i, found, (n - i) * sizeof *found);
  }
}
