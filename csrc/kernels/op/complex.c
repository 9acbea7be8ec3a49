// complex.c — operators of complex numbers that have no real counterpart: _conj_physical.
// Relies on iteration. Real tensors are their own conjugates.
#include "kernels/kernel.h"
#include "kernels/ops.h"
#include "kernels/lib/strided_copy.h"

typedef struct complex_f32 {
  float re, im;
} complex_f32;
typedef struct complex_f64 {
  double re, im;
} complex_f64;

static void conj_c64(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  (void)params;
  for (size_t i = 0; i < n; i++) {
    const complex_f32 x =
        *(const complex_f32 *)(const void *)((const char *)p[1] + (ptrdiff_t)i * s[1]);
    *(complex_f32 *)(void *)((char *)p[0] + (ptrdiff_t)i * s[0]) = (complex_f32){x.re, -x.im};
  }
}

static void conj_c128(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  (void)params;
  for (size_t i = 0; i < n; i++) {
    const complex_f64 x =
        *(const complex_f64 *)(const void *)((const char *)p[1] + (ptrdiff_t)i * s[1]);
    *(complex_f64 *)(void *)((char *)p[0] + (ptrdiff_t)i * s[0]) = (complex_f64){x.re, -x.im};
  }
}

et_status op_conj_physical_out(et_kernel_ctx *ctx, et_value *const *args) {
  et_tensor *x, *out;
  ET_TRY(eti_arg_tensor(ctx, args, 0, &x));
  ET_TRY(eti_arg_tensor(ctx, args, 1, &out));
  ET_TRY(eti_check_same_dtype(ctx, x, out, "self and out"));
  ET_CHECK(x->dtype != ET_C32, ctx->err, ET_NOT_SUPPORTED,
           "_conj_physical: not defined for dtype c32");
  ET_TRY(eti_resize_like(ctx, out, x));
  if (out->numel == 0) return ET_OK;
  if (!eti_is_complex((et_dtype)x->dtype)) return eti_copy_tensor(ctx, out, x);
  const eti_map map = {.loop = x->dtype == ET_C64 ? conj_c64 : conj_c128,
                       .types = {x->dtype, x->dtype}};
  et_tensor *const operands[2] = {out, x};
  return eti_map_run(ctx, &map, operands, 2);
}
