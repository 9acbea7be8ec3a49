// float_bits.c — operators on the representation of numbers: sign, exponent and neighbours of
// floats, gcd and lcm of integers, hypot. All results are exact or correctly rounded, so that they
// do not depend on the platform.
#include "kernels/lib/elementwise.h"
#include "kernels/kernel.h"
#include "kernels/loops/loop.h"
#include "kernels/micro/math/math_f64.h"
#include "kernels/ops.h"
#include "runtime/half.h"

#include <math.h>

// ---- one operand

// f32 is not converted to f64: RISC-V drops the sign of a NaN that it converts.
#define LOOP_NAME signbit
#define LOOP_EXPR(x)                                                                               \
  (LOOP_IS_FLOAT ? (sizeof(CTYPE) == sizeof(double) ? signbit((double)x) : signbit((float)x)) != 0 \
                 : LOOP_IS_NEGATIVE(x))
#define LOOP_OUT uint8_t
#define LOOP_TYPES ET_TYPES_REAL_BOOL
#include "kernels/loops/unary_loop.inc.h"

ETI_UNARY_OPERATOR(signbit_out, .rule = ETI_RULE_COMPARE, .loops = signbit_loops)

// Splits x = mantissa · 2^exponent with 1/2 ≤ |mantissa| < 1; zeros, infinities and NaN are their
// own mantissas, with exponent 0. Denormal numbers are multiplied by 2^64 first.
static inline bool has_exponent_f32(float x) {
  return x != 0.0f && (eti_f32_bits(x) & 0x7F800000u) != 0x7F800000u;
}
static inline bool has_exponent_f64(double x) {
  return x != 0.0 && (eti_f64_bits(x) & 0x7FF0000000000000u) != 0x7FF0000000000000u;
}
static inline bool is_denormal_f32(float x) {
  return (eti_f32_bits(x) & 0x7F800000u) == 0;
}
static inline bool is_denormal_f64(double x) {
  return (eti_f64_bits(x) & 0x7FF0000000000000u) == 0;
}
static inline float mantissa_f32(float x) {
  const uint32_t bits = eti_f32_bits(is_denormal_f32(x) ? x * 0x1p64f : x);
  return has_exponent_f32(x) ? eti_f32_from_bits((bits & 0x807FFFFFu) | 0x3F000000u) : x;
}
static inline double mantissa_f64(double x) {
  const uint64_t bits = eti_f64_bits(is_denormal_f64(x) ? x * 0x1p64 : x);
  const uint64_t half = (bits & 0x800FFFFFFFFFFFFFu) | 0x3FE0000000000000u;
  return has_exponent_f64(x) ? eti_f64_from_bits(half) : x;
}
static inline int32_t exponent_f32(float x) {
  const bool tiny = is_denormal_f32(x);
  const int32_t field = (int32_t)(eti_f32_bits(tiny ? x * 0x1p64f : x) >> 23 & 0xFFu);
  return has_exponent_f32(x) ? field - (tiny ? 126 + 64 : 126) : 0;
}
static inline int32_t exponent_f64(double x) {
  const bool tiny = is_denormal_f64(x);
  const int32_t field = (int32_t)(eti_f64_bits(tiny ? x * 0x1p64 : x) >> 52 & 0x7FFu);
  return has_exponent_f64(x) ? field - (tiny ? 1022 + 64 : 1022) : 0;
}

#define LOOP_NAME mantissas
#define LOOP_EXPR(x) ETI_LOOP_NAME(mantissa, SUFFIX)(x)
#define LOOP_TYPES ET_TYPES_FLOAT
#include "kernels/loops/unary_loop.inc.h"
#define LOOP_NAME exponents
#define LOOP_EXPR(x) ETI_LOOP_NAME(exponent, SUFFIX)(x)
#define LOOP_OUT int32_t
#define LOOP_TYPES ET_TYPES_FLOAT
#include "kernels/loops/unary_loop.inc.h"

// (self, mantissa, exponent). The mantissa is written last, because it may be in self's memory.
et_status op_frexp_tensor_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *self, *mantissa, *exponent;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &self));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &mantissa));
  ET_TRY(eti_arg_tensor(ctx, args, 2, &exponent));
  ET_TRY(eti_check_same_dtype(ctx, self, mantissa, "self and mantissa"));
  ET_CHECK(eti_is_float((et_dtype)self->dtype) && exponent->dtype == ET_I32, ctx->err,
           ET_INVALID_ARGUMENT, "frexp: expected floats and exponents of i32, got %s and %s",
           et_dtype_name((et_dtype)self->dtype), et_dtype_name((et_dtype)exponent->dtype));
  ET_TRY(eti_resize_like(ctx, mantissa, self));
  ET_TRY(eti_resize_like(ctx, exponent, self));
  const et_dtype type = eti_compute_type((et_dtype)self->dtype);
  const eti_map powers = {.loop = exponents_loops[type], .types = {ET_I32, (uint8_t)type}};
  const eti_map parts = {.loop = mantissas_loops[type], .types = {(uint8_t)type, (uint8_t)type}};
  ET_TRY(eti_map_run(ctx, &powers, (et_tensor *const[]){exponent, self}, 2));
  return eti_map_run(ctx, &parts, (et_tensor *const[]){mantissa, self}, 2);
}

// ---- two operands

#define LOOP_NAME copysign
#define LOOP_EXPR(a, b) ((CTYPE)copysign((double)a, (double)b))
#define LOOP_TYPES ET_TYPES_FLOAT
#include "kernels/loops/binary_loop.inc.h"

static inline uint64_t abs_u64(int64_t x) {
  return x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
}
// Greatest common divisor by Euclid's algorithm with C's remainder, as in ATen. The sign matters
// only for the smallest number, whose magnitude its type cannot hold.
static inline int64_t common_divisor(int64_t a, int64_t b) {
  while (a != 0) {
    const int64_t rest = a == -1 ? 0 : b % a;
    b = a;
    a = rest;
  }
  return b;
}
static inline uint64_t common_multiple(int64_t a, int64_t b, int64_t divisor) {
  if (divisor == 0) return 0;
  const uint64_t quotient = divisor == -1 ? 0 - (uint64_t)a : (uint64_t)(a / divisor);
  return quotient * (uint64_t)b;
}
static inline int64_t wrap_to(uint64_t x, size_t bytes) {
  return bytes < sizeof(int64_t) ? (int64_t)(int32_t)(uint32_t)x : (int64_t)x;
}

#define MAGNITUDE(x) ((int64_t)(CTYPE)abs_u64((int64_t)x))
#define LOOP_NAME gcd
#define LOOP_EXPR(a, b) ((CTYPE)common_divisor(MAGNITUDE(a), MAGNITUDE(b)))
#define LOOP_TYPES ET_TYPES_INT
#include "kernels/loops/binary_loop.inc.h"

// C's arithmetic wraps at 32 bits for narrower types, which are truncated after sign extension.
#define LOOP_NAME lcm
#define LOOP_EXPR(a, b)                                                                            \
  ((CTYPE)abs_u64(                                                                                 \
      wrap_to(common_multiple((int64_t)a, (int64_t)b, common_divisor(MAGNITUDE(a), MAGNITUDE(b))), \
              sizeof(CTYPE))))
#define LOOP_TYPES ET_TYPES_INT
#include "kernels/loops/binary_loop.inc.h"

ETI_BINARY_OPERATOR(copysign_out, .rule = ETI_RULE_FLOAT, .loops = copysign_loops,
                    .grain = ETI_GRAIN_MATH)
ETI_BINARY_OPERATOR(gcd_out, .rule = ETI_RULE_SAME, .loops = gcd_loops, .grain = ETI_GRAIN_MATH)
ETI_BINARY_OPERATOR(hypot_out, .rule = ETI_RULE_SAME, .micro = ETI_MICRO_BINARY(hypot),
                    .grain = ETI_GRAIN_MATH)
ETI_BINARY_OPERATOR(lcm_out, .rule = ETI_RULE_SAME, .loops = lcm_loops, .grain = ETI_GRAIN_MATH)

// ---- nextafter: the neighbours of a half are halves, so that halves do not compute in f32

static const eti_elementwise nextafter_op = {
    .rule = ETI_RULE_SAME, .micro = ETI_MICRO_BINARY(nextafter), .grain = ETI_GRAIN_MATH};

// A half's bits as an integer of the same order; -0 and +0 are neighbours.
static inline int16_t half_order(uint16_t x) {
  return (int16_t)(x ^ (uint16_t)((uint16_t)((int16_t)x >> 15) & 0x7FFFu));
}
static inline uint16_t next_half(uint16_t a, uint16_t b, uint16_t infinity) {
  const uint16_t size_a = a & 0x7FFFu, size_b = b & 0x7FFFu;
  const bool grows = (half_order(a) < half_order(b)) == ((a & 0x8000u) == 0);
  const uint16_t step = (uint16_t)(grows ? a + 1u : a - 1u);
  const uint16_t moved = size_a == 0 ? (uint16_t)((b & 0x8000u) | 1u) : step;
  const bool stays = (a == b) | ((size_a | size_b) == 0) | (size_b > infinity);
  return size_a > infinity ? a : stays ? b : moved;
}

static void next_halves(void *const p[], const ptrdiff_t s[], size_t n, uint16_t infinity) {
  if (s[0] == 2 && s[1] == 2 && s[2] == 2) {
    uint16_t *const out = p[0];
    const uint16_t *const a = p[1], *const b = p[2];
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) out[i] = next_half(a[i], b[i], infinity);
    return;
  }
  for (size_t i = 0; i < n; i++) {
    const uint16_t a = ETI_CAT(uint16_t, p[1], i, s[1]), b = ETI_CAT(uint16_t, p[2], i, s[2]);
    ETI_AT(uint16_t, p[0], i, s[0]) = next_half(a, b, infinity);
  }
}
static void next_f16(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  (void)params;
  next_halves(p, s, n, 0x7C00);
}
static void next_bf16(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  (void)params;
  next_halves(p, s, n, 0x7F80);
}

et_status op_nextafter_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *operands[3];
  et_dtype common;
  eti_shape shape;
  ET_TRY(eti_arg_tensor(ctx, args, 2, &operands[0]));
  ET_TRY(eti_arg_tensor(ctx, args, 0, &operands[1]));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &operands[2]));
  ET_TRY(eti_result_type(ctx, operands[1], operands[2], &common));
  if (common != ET_F16 && common != ET_BF16)
    return eti_binary_run(ctx, args, &nextafter_op, 2, NULL);
  const eti_shape a = eti_shape_of(operands[1]), b = eti_shape_of(operands[2]);
  ET_TRY(eti_broadcast(ctx, &a, &b, &shape));
  ET_TRY(eti_check_cast(ctx, common, operands[0]));
  ET_TRY(eti_resize(ctx, operands[0], &shape));
  const uint8_t type = (uint8_t)common;
  const eti_map map = {.loop = common == ET_F16 ? next_f16 : next_bf16,
                       .types = {type, type, type}};
  return eti_map_run(ctx, &map, operands, 3);
}
