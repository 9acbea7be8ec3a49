// half_div.c — see half_div.h. Micro-kernels compute remainders and round to integers, since the
// base instruction set has no vectors for these.
#include "kernels/lib/half_div.h"

#include "kernels/lib/iter.h"
#include "kernels/micro/eltwise/eltwise.h"
#include "kernels/micro/math/math_f32.h"
#include "kernels/lib/promote.h"

#define BLOCK 96

// Entries of the tables that this file calls directly.
ETI_USES(unary, floor)
ETI_USES(unary, trunc)
ETI_USES(binary, fmod)

static et_dtype common_type(const et_tensor *a, const et_tensor *b) {
  eti_promotion p = ETI_PROMOTION_NONE;
  eti_promote_tensor(&p, a);
  eti_promote_tensor(&p, b);
  return eti_promote_result(&p);
}

bool eti_is_half_div(et_value *const *args) {
  for (size_t i = 0; i < 2; i++) {
    if (args[i] == NULL || args[i]->tag != ET_TENSOR) return false;
  }
  const et_dtype common = common_type(args[0]->as.tensor, args[1]->as.tensor);
  return (common == ET_F16 || common == ET_BF16) && args[1]->as.tensor->numel != 1;
}

// ---- one block, in f32 rounded to the half type

static void round_all(et_dtype half, float *x, size_t n) {
  uint16_t rounded[BLOCK] = {0};
  eti_casts[ET_F32][half](rounded, sizeof *rounded, x, sizeof *x, n);
  eti_casts[half][ET_F32](x, sizeof *x, rounded, sizeof *rounded, n);
}

static void run_rounded(eti_loop loop, float *y, float *x, size_t n) {
  loop((void *[]){y, x}, (ptrdiff_t[]){sizeof *y, sizeof *x}, n, NULL);
}

static void trunc_block(et_dtype half, float *a, float *b, size_t n) {
  for (size_t i = 0; i < n; i++) a[i] /= b[i];
  round_all(half, a, n);
  run_rounded(eti_eltwise_get()->unary.trunc, a, a, n);
}

static void floor_block(et_dtype half, float *a, float *b, size_t n) {
  float mod[BLOCK], q[BLOCK] = {0}, whole[BLOCK];
  const ptrdiff_t steps[3] = {sizeof *mod, sizeof *a, sizeof *b};
  eti_eltwise_get()->binary.fmod((void *[]){mod, a, b}, steps, n, NULL);
  for (size_t i = 0; i < n; i++) q[i] = a[i] - mod[i];
  round_all(half, q, n);
  for (size_t i = 0; i < n; i++) q[i] /= b[i];
  round_all(half, q, n);
  for (size_t i = 0; i < n; i++)
    q[i] -= ((mod[i] != 0) & ((b[i] < 0) != (mod[i] < 0))) ? 1.0f : 0.0f;
  round_all(half, q, n);
  run_rounded(eti_eltwise_get()->unary.floor, whole, q, n);
  for (size_t i = 0; i < n; i++) {
    const float plain = a[i] / b[i], up = whole[i] + 1.0f;
    const float y = q[i] - whole[i] > 0.5f ? up : whole[i];
    const float signed_y = q[i] == 0.0f ? eti_copysign_f32(0.0f, plain) : y;
    a[i] = b[i] == 0.0f ? plain : signed_y;
  }
}

// ---- rows

typedef struct quotient {
  et_dtype half;
  bool floors;
} quotient;

static void half_quotients(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  const quotient *how = params;
  float a[BLOCK] = {0}, b[BLOCK] = {0};
  for (size_t at = 0; at < n; at += BLOCK) {
    const size_t count = n - at < BLOCK ? n - at : BLOCK;
    const ptrdiff_t i = (ptrdiff_t)at;
    eti_casts[how->half][ET_F32](a, sizeof *a, (const char *)p[1] + i * s[1], s[1], count);
    eti_casts[how->half][ET_F32](b, sizeof *b, (const char *)p[2] + i * s[2], s[2], count);
    (how->floors ? floor_block : trunc_block)(how->half, a, b, count);
    eti_casts[ET_F32][how->half]((char *)p[0] + i * s[0], s[0], a, sizeof *a, count);
  }
}

et_status eti_half_div_run(et_kernel_ctx *ctx, et_value *const *args, size_t i_out, bool floors) {
  et_tensor *operands[3];
  eti_shape shape;
  ET_TRY(eti_arg_tensor(ctx, args, i_out, &operands[0]));
  ET_TRY(eti_arg_tensor(ctx, args, 0, &operands[1]));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &operands[2]));
  const et_dtype half = common_type(operands[1], operands[2]);
  ET_TRY(eti_check_cast(ctx, half, operands[0]));
  const eti_shape a = eti_shape_of(operands[1]), b = eti_shape_of(operands[2]);
  ET_TRY(eti_broadcast(ctx, &a, &b, &shape));
  ET_TRY(eti_resize(ctx, operands[0], &shape));
  const quotient how = {.half = half, .floors = floors};
  const uint8_t type = (uint8_t)half;
  const eti_map map = {
      .loop = half_quotients, .params = &how, .grain = ETI_GRAIN_MATH, .types = {type, type, type}};
  return eti_map_run(ctx, &map, operands, 3);
}
