// eltwise.body.h — the source of every variant of eltwise.h; the including file says what its table
// is called. Plain C over lanes: the compiler vectorises it for the instruction set of the
// including file, and since no operation is reassociated or contracted every variant gives the same
// bits.
#include "kernels/loops/loop.h"
#include "kernels/micro/eltwise.h"
#include "kernels/micro/math_f32.h"

// ATen's rules: NaN wins in maximum and minimum.
ETI_INLINE float eti_maximum_f32(float a, float b) {
  return ((a > b) | (a != a)) ? a : b;
}
ETI_INLINE float eti_minimum_f32(float a, float b) {
  return ((a < b) | (a != a)) ? a : b;
}
// Keeps a NaN x; bounds are numbers. A NaN bound is said by the third parameter, which is NaN then
// and -0 (no change) else.
ETI_INLINE float eti_clamp_f32(float x, float low, float high, float nan) {
  const float y = x < low ? low : x;
  return (y > high ? high : y) + nan;
}

// ---- elementwise loops: k points to the parameters

#define LOOP_NAME abs
#define LOOP_EXPR(x) fabsf(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME neg
#define LOOP_EXPR(x) (-x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME ceil
#define LOOP_EXPR(x) ceilf(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME floor
#define LOOP_EXPR(x) floorf(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME round
#define LOOP_EXPR(x) rintf(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME trunc
#define LOOP_EXPR(x) truncf(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME sign
#define LOOP_EXPR(x) (float)((x > 0.0f) - (x < 0.0f))
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME relu
#define LOOP_EXPR(x) (x <= 0.0f ? 0.0f : x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME sqrt
#define LOOP_EXPR(x) sqrtf(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME rsqrt
#define LOOP_EXPR(x) (1.0f / sqrtf(x))
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME reciprocal
#define LOOP_EXPR(x) (1.0f / x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME square
#define LOOP_EXPR(x) (x * x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME cube
#define LOOP_EXPR(x) (x * x * x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME inverse_square
#define LOOP_EXPR(x) (1.0f / (x * x))
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME exp
#define LOOP_EXPR(x) eti_exp_f32(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME expm1
#define LOOP_EXPR(x) eti_expm1_f32(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME log
#define LOOP_EXPR(x) eti_log_f32(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME log2
#define LOOP_EXPR(x) eti_log2_f32(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME log10
#define LOOP_EXPR(x) eti_log10_f32(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME log1p
#define LOOP_EXPR(x) eti_log1p_f32(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME sin_small
#define LOOP_EXPR(x) eti_sin_f32(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME sin_wide
#define LOOP_EXPR(x) eti_sin_wide(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME cos_small
#define LOOP_EXPR(x) eti_cos_f32(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME cos_wide
#define LOOP_EXPR(x) eti_cos_wide(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME tan_small
#define LOOP_EXPR(x) eti_tan_f32(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME tan_wide
#define LOOP_EXPR(x) eti_tan_wide(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME asin
#define LOOP_EXPR(x) eti_asin_f32(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME acos
#define LOOP_EXPR(x) eti_acos_f32(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME atan
#define LOOP_EXPR(x) eti_atan_f32(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME sinh
#define LOOP_EXPR(x) eti_sinh_f32(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME cosh
#define LOOP_EXPR(x) eti_cosh_f32(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME tanh
#define LOOP_EXPR(x) eti_tanh_f32(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME asinh
#define LOOP_EXPR(x) eti_asinh_f32(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME acosh
#define LOOP_EXPR(x) eti_acosh_f32(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME atanh
#define LOOP_EXPR(x) eti_atanh_f32(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME erf
#define LOOP_EXPR(x) eti_erf_f32(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME sigmoid
#define LOOP_EXPR(x) eti_sigmoid_f32(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME gelu
#define LOOP_EXPR(x) eti_gelu_f32(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME gelu_tanh
#define LOOP_EXPR(x) eti_gelu_tanh_f32(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME logit
#define LOOP_EXPR(x) eti_logit_f32(x)
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME logit_eps
#define LOOP_EXPR(x) eti_logit_f32(x < k[0] ? k[0] : (x > k[1] ? k[1] : x))
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME clamp
#define LOOP_EXPR(x) eti_clamp_f32(x, k[0], k[1], k[2])
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME leaky_relu
#define LOOP_EXPR(x) (x > 0.0f ? x : x * k[0])
#include "kernels/micro/unary_f32.inc.h"
#define LOOP_NAME elu
#define LOOP_EXPR(x) (x > 0.0f ? x * k[1] : eti_expm1_f32(x * k[2]) * k[0])
#include "kernels/micro/unary_f32.inc.h"

#define LOOP_NAME add
#define LOOP_EXPR(a, b) (a + b)
#include "kernels/micro/binary_f32.inc.h"
#define LOOP_NAME sub
#define LOOP_EXPR(a, b) (a - b)
#include "kernels/micro/binary_f32.inc.h"
#define LOOP_NAME mul
#define LOOP_EXPR(a, b) (a * b)
#include "kernels/micro/binary_f32.inc.h"
#define LOOP_NAME div
#define LOOP_EXPR(a, b) (a / b)
#include "kernels/micro/binary_f32.inc.h"
#define LOOP_NAME add_scaled
#define LOOP_EXPR(a, b) (a + b * k[0])
#include "kernels/micro/binary_f32.inc.h"
#define LOOP_NAME maximum
#define LOOP_EXPR(a, b) eti_maximum_f32(a, b)
#include "kernels/micro/binary_f32.inc.h"
#define LOOP_NAME minimum
#define LOOP_EXPR(a, b) eti_minimum_f32(a, b)
#include "kernels/micro/binary_f32.inc.h"
#define LOOP_NAME pow
#define LOOP_EXPR(a, b) eti_pow_f32(a, b)
#include "kernels/micro/binary_f32.inc.h"
#define LOOP_NAME atan2
#define LOOP_EXPR(a, b) eti_atan2_f32(a, b)
#include "kernels/micro/binary_f32.inc.h"
#define LOOP_NAME glu
#define LOOP_EXPR(a, b) (a * eti_sigmoid_f32(b))
#include "kernels/micro/binary_f32.inc.h"

// ---- circular functions of large angles

#define ANGLES 256u  // looked at together

// Also true of a NaN, as maxima of bit patterns become vectors.
static bool any_large(const void *x, ptrdiff_t stride, size_t n) {
  uint32_t most = 0;
  if (stride == sizeof(float)) {
    const float *dense = x;
    for (size_t i = 0; i < n; i++) {
      const uint32_t bits = eti_f32_bits(dense[i]) & 0x7FFFFFFFu;
      most = bits > most ? bits : most;
    }
  } else {
    for (size_t i = 0; i < n; i++) {
      const uint32_t bits = eti_f32_bits(ETI_CAT(float, x, i, stride)) & 0x7FFFFFFFu;
      most = bits > most ? bits : most;
    }
  }
  return most >= eti_f32_bits(ETI_LARGE_ANGLE);
}

static float sin_huge(float x) {
  uint64_t quadrant;
  const double r = eti_reduce_huge(x, &quadrant);
  return (float)eti_sin_quadrant(r, quadrant);
}
static float cos_huge(float x) {
  uint64_t quadrant;
  const double r = eti_reduce_huge(x, &quadrant);
  return (float)eti_sin_quadrant(r, quadrant + 1u);
}
static float tan_huge(float x) {
  uint64_t quadrant;
  const double r = eti_reduce_huge(x, &quadrant);
  return (float)eti_tan_quadrant(r, quadrant);
}

typedef struct angle_loops {
  eti_loop small, wide;
  float (*huge)(float x);
} angle_loops;

// At most ANGLES elements: each takes the way of its own size, whatever its neighbours are.
static void mixed_angles(void *const p[], const ptrdiff_t s[], size_t n, const angle_loops *f) {
  static const ptrdiff_t dense[2] = {sizeof(float), sizeof(float)};
  float x[ANGLES], small[ANGLES], wide[ANGLES];
  for (size_t i = 0; i < n; i++) x[i] = ETI_CAT(float, p[1], i, s[1]);
  f->small((void *[]){small, x}, dense, n, NULL);
  f->wide((void *[]){wide, x}, dense, n, NULL);
  for (size_t i = 0; i < n; i++) {
    const float a = fabsf(x[i]);
    ETI_AT(float, p[0], i, s[0]) = a >= ETI_HUGE_ANGLE    ? f->huge(x[i])
                                   : a >= ETI_LARGE_ANGLE ? wide[i]
                                                          : small[i];
  }
}

static void angles(void *const p[], const ptrdiff_t s[], size_t n, const angle_loops *f) {
  for (size_t i = 0; i < n; i += ANGLES) {
    const size_t m = n - i < ANGLES ? n - i : ANGLES;
    void *const q[2] = {(char *)p[0] + (ptrdiff_t)i * s[0], (char *)p[1] + (ptrdiff_t)i * s[1]};
    if (any_large(q[1], s[1], m)) {
      mixed_angles(q, s, m, f);
    } else {
      f->small(q, s, m, NULL);
    }
  }
}

static void sin_f32(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  (void)params;
  angles(p, s, n, &(angle_loops){sin_small_f32, sin_wide_f32, sin_huge});
}
static void cos_f32(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  (void)params;
  angles(p, s, n, &(angle_loops){cos_small_f32, cos_wide_f32, cos_huge});
}
static void tan_f32(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  (void)params;
  angles(p, s, n, &(angle_loops){tan_small_f32, tan_wide_f32, tan_huge});
}

// ---- rows: 64 lanes as four vectors of 16, whatever the registers of the machine are

#define PIECE 4096u  // elements whose sum is kept in f32

typedef float lanes __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t masks __attribute__((vector_size(64), aligned(4), may_alias));
typedef float quads __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t quad_masks __attribute__((vector_size(16), aligned(4), may_alias));

// The lanes of a, pairwise: 0 with 8, 1 with 9, …, then with 4, 2, 1.
static inline __attribute__((always_inline)) float lanes_sum(const lanes *a) {
  float s[8];
  for (size_t i = 0; i < 8; i++) s[i] = (*a)[i] + (*a)[i + 8];
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

static inline __attribute__((always_inline)) float piece_sum(const float *x, size_t n) {
  lanes a = {0}, b = {0}, c = {0}, d = {0};
  size_t i = 0;
  for (; i + 64 <= n; i += 64) {
    a += *(const lanes *)(x + i);
    b += *(const lanes *)(x + i + 16);
    c += *(const lanes *)(x + i + 32);
    d += *(const lanes *)(x + i + 48);
  }
  for (; i + 16 <= n; i += 16) a += *(const lanes *)(x + i);
  for (size_t l = 0; i < n; i++, l++) b[l] += x[i];
  a = (a + b) + (c + d);
  return lanes_sum(&a);
}

static inline __attribute__((always_inline)) float piece_square_diff(const float *x, size_t n,
                                                                     float mean) {
  lanes a = {0}, b = {0};
  size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const lanes u = *(const lanes *)(x + i) - mean, v = *(const lanes *)(x + i + 16) - mean;
    a += u * u;
    b += v * v;
  }
  for (size_t l = 0; i < n; i++, l++) {
    const float u = x[i] - mean;
    if (l < 16) {
      a[l] += u * u;
    } else {
      b[l - 16] += u * u;
    }
  }
  a += b;
  return lanes_sum(&a);
}

static float row_sum(const float *x, size_t n) {
  if (n <= PIECE) return piece_sum(x, n);
  double sum = 0.0;
  for (size_t i = 0; i < n; i += PIECE)
    sum += (double)piece_sum(x + i, n - i < PIECE ? n - i : PIECE);
  return (float)sum;
}

static float row_sum_square_diff(const float *x, size_t n, float mean) {
  if (n <= PIECE) return piece_square_diff(x, n, mean);
  double sum = 0.0;
  for (size_t i = 0; i < n; i += PIECE)
    sum += (double)piece_square_diff(x + i, n - i < PIECE ? n - i : PIECE, mean);
  return (float)sum;
}

// The order of comparisons does not matter to a maximum, except which of several NaNs remains.
#define EXTREME(name, vector, mask, op)                        \
  static inline void name(vector *v, const vector *u) {        \
    const mask take = (mask)(*u op * v) | (mask)(*u != *u);    \
    *v = (vector)(((mask) * u & take) | ((mask) * v & ~take)); \
  }
EXTREME(lanes_max, lanes, masks, >)
EXTREME(lanes_min, lanes, masks, <)
EXTREME(quads_max, quads, quad_masks, >)
EXTREME(quads_min, quads, quad_masks, <)
#undef EXTREME

static float row_max(const float *x, size_t n) {
  float m = x[0];
  size_t i = 0;
  if (n >= 16) {
    lanes v = *(const lanes *)x;
    for (i = 16; i + 16 <= n; i += 16) lanes_max(&v, (const lanes *)(x + i));
    quads q[4];
    memcpy(q, &v, sizeof q);
    quads_max(&q[0], &q[1]);
    quads_max(&q[2], &q[3]);
    quads_max(&q[0], &q[2]);
    m = eti_maximum_f32(eti_maximum_f32(q[0][0], q[0][1]), eti_maximum_f32(q[0][2], q[0][3]));
  }
  for (; i < n; i++) m = eti_maximum_f32(m, x[i]);
  return m;
}

static float row_min(const float *x, size_t n) {
  float m = x[0];
  size_t i = 0;
  if (n >= 16) {
    lanes v = *(const lanes *)x;
    for (i = 16; i + 16 <= n; i += 16) lanes_min(&v, (const lanes *)(x + i));
    quads q[4];
    memcpy(q, &v, sizeof q);
    quads_min(&q[0], &q[1]);
    quads_min(&q[2], &q[3]);
    quads_min(&q[0], &q[2]);
    m = eti_minimum_f32(eti_minimum_f32(q[0][0], q[0][1]), eti_minimum_f32(q[0][2], q[0][3]));
  }
  for (; i < n; i++) m = eti_minimum_f32(m, x[i]);
  return m;
}

static void row_softmax(float *out, const float *x, size_t n) {
  const float max = row_max(x, n);
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) out[i] = eti_exp_f32(x[i] - max);
  const float sum = row_sum(out, n);
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) out[i] = out[i] / sum;
}

// The exponentials are summed by pieces that fit a buffer, so that x survives where out is another
// array than x and where it is not; each piece has the lanes of row_sum.
static void row_log_softmax(float *out, const float *x, size_t n) {
  const float max = row_max(x, n);
  double sum = 0.0;
  float piece[512];
  for (size_t i = 0; i < n; i += 512) {
    const size_t m = n - i < 512 ? n - i : 512;
    for (size_t j = 0; j < m; j++) piece[j] = eti_exp_f32(x[i + j] - max);
    sum += (double)piece_sum(piece, m);
  }
  const float log_sum = (float)eti_log_d(sum);
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) out[i] = x[i] - max - log_sum;
}

static void rows_add(float *y, const float *x, size_t n) {
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) y[i] += x[i];
}

static void rows_add_wide(double *y, const float *x, size_t n) {
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) y[i] += (double)x[i];
}

static void rows_multiply_wide(double *y, const float *x, size_t n) {
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) y[i] *= (double)x[i];
}

// Sixteen products side by side, multiplied as a tree; what does not fill them comes last.
static double row_product(const float *x, size_t n) {
  double p[16];
  size_t i = 0;
  for (size_t l = 0; l < 16; l++) p[l] = 1.0;
  for (; i + 16 <= n; i += 16)
    for (size_t l = 0; l < 16; l++) p[l] *= (double)x[i + l];
  for (size_t half = 8; half > 0; half /= 2)
    for (size_t l = 0; l < half; l++) p[l] *= p[l + half];
  for (; i < n; i++) p[0] *= (double)x[i];
  return p[0];
}

// acc[l] += Σ (x[k] - tile[k][l])² in f32, every fourth k in a sum of its own.
static void tile_square_diff(float acc[16], const float *x, const float *tile, size_t n) {
  lanes a[4] = {*(const lanes *)(const void *)acc};
  size_t k = 0;
#define ADD(i)                                                                      \
  do {                                                                              \
    const lanes d = x[k + i] - *(const lanes *)(const void *)(tile + (k + i) * 16); \
    a[i] += d * d;                                                                  \
  } while (0)
  for (; k + 4 <= n; k += 4) {
    ADD(0);
    ADD(1);
    ADD(2);
    ADD(3);
  }
  for (; k < n; k++) ADD(0);
#undef ADD
  *(lanes *)(void *)acc = (a[0] + a[1]) + (a[2] + a[3]);
}

static void rows_max(float *y, const float *x, size_t n) {
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) y[i] = eti_maximum_f32(y[i], x[i]);
}

static void rows_min(float *y, const float *x, size_t n) {
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) y[i] = eti_minimum_f32(y[i], x[i]);
}

static void rows_add_square_diff(double *y, const float *x, const float *mean, size_t n) {
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i < n; i++) {
    const float d = x[i] - mean[i];
    y[i] += (double)(d * d);
  }
}

static void f16_to_f32(float *out, const uint16_t *x, size_t n) {
  for (size_t i = 0; i < n; i++) out[i] = eti_f16_to_f32(x[i]);
}

static void f32_to_f16(uint16_t *out, const float *x, size_t n) {
  for (size_t i = 0; i < n; i++) out[i] = eti_f32_to_f16(x[i]);
}

#define ETI_ENTRY(name) .name = name##_f32,
const eti_eltwise ETI_ELTWISE_TABLE = {
    .unary = {ETI_UNARY_F32_LIST(ETI_ENTRY)},
    .binary = {ETI_BINARY_F32_LIST(ETI_ENTRY)},
    .row_sum = row_sum,
    .row_sum_square_diff = row_sum_square_diff,
    .row_max = row_max,
    .row_min = row_min,
    .row_softmax = row_softmax,
    .row_log_softmax = row_log_softmax,
    .rows_add = rows_add,
    .rows_add_wide = rows_add_wide,
    .rows_multiply_wide = rows_multiply_wide,
    .row_product = row_product,
    .tile_square_diff = tile_square_diff,
    .rows_max = rows_max,
    .rows_min = rows_min,
    .rows_add_square_diff = rows_add_square_diff,
    .f16_to_f32 = f16_to_f32,
    .f32_to_f16 = f32_to_f16,
};
#undef ETI_ENTRY
