// promote.c — see promote.h. The table of torch.promote_types is computed from kind and width: four
// rules are easier to check than 900 cells.
#include "kernels/lib/promote.h"

#include "kernels/micro/convert/cast.h"

enum kind { KIND_BOOL, KIND_INT, KIND_FLOAT, KIND_COMPLEX, KIND_OTHER };

static enum kind kind_of(et_dtype d) {
  if (d == ET_B8) return KIND_BOOL;
  if (eti_is_integral(d)) return KIND_INT;
  if (eti_is_float(d)) return KIND_FLOAT;
  return eti_is_complex(d) ? KIND_COMPLEX : KIND_OTHER;
}

static et_dtype complex_of(et_dtype d) {
  switch (d) {
    case ET_F16:
      return ET_C32;
    case ET_F32:
    case ET_BF16:
      return ET_C64;
    case ET_F64:
      return ET_C128;
    default:
      return d;
  }
}

static et_dtype promote_ints(et_dtype a, et_dtype b) {
  const size_t wa = et_dtype_bytes(a), wb = et_dtype_bytes(b);
  const bool ua = a == ET_U8 || eti_dtype_in(a, ET_TYPES_UNSIGNED),
             ub = b == ET_U8 || eti_dtype_in(b, ET_TYPES_UNSIGNED);
  if (ua == ub) return wa >= wb ? a : b;
  const et_dtype u = ua ? a : b, s = ua ? b : a;
  if (u != ET_U8) return ET_DTYPE_COUNT;
  return s == ET_I8 ? ET_I16 : s;
}

static et_dtype promote_floats(et_dtype a, et_dtype b) {
  const size_t wa = et_dtype_bytes(a), wb = et_dtype_bytes(b);
  if (wa == wb) return ET_F32;  // f16 with bf16, the only pair of equal width
  return wa > wb ? a : b;
}

et_dtype eti_promote_types(et_dtype a, et_dtype b) {
  if (a == b) return a;
  const enum kind ka = kind_of(a), kb = kind_of(b);
  if (ka == KIND_OTHER || kb == KIND_OTHER) return ET_DTYPE_COUNT;
  if (ka == KIND_COMPLEX || kb == KIND_COMPLEX) {
    if (ka < KIND_FLOAT) return b;
    if (kb < KIND_FLOAT) return a;
    const et_dtype ca = complex_of(a), cb = complex_of(b);
    return et_dtype_bytes(ca) >= et_dtype_bytes(cb) ? ca : cb;
  }
  if (ka != kb) return ka > kb ? a : b;
  return ka == KIND_INT ? promote_ints(a, b) : promote_floats(a, b);
}

static uint8_t promote_rank(uint8_t a, et_dtype b) {
  return a == ET_DTYPE_COUNT ? (uint8_t)b : (uint8_t)eti_promote_types((et_dtype)a, b);
}

void eti_promote_tensor(eti_promotion *p, const et_tensor *t) {
  uint8_t *rank = t->rank == 0 ? &p->zero : &p->dim;
  *rank = promote_rank(*rank, (et_dtype)t->dtype);
}

void eti_promote_scalar(eti_promotion *p, const eti_scalar *s) {
  p->number = promote_rank(p->number, s->is_float ? ET_F32 : s->is_bool ? ET_B8 : ET_I64);
}

static et_dtype combine_ranks(et_dtype higher, et_dtype lower) {
  if (higher == ET_DTYPE_COUNT) return lower;
  if (lower == ET_DTYPE_COUNT) return higher;
  const enum kind kh = kind_of(higher), kl = kind_of(lower);
  if (kh == KIND_FLOAT && kl == KIND_COMPLEX) return complex_of(higher);
  return kl > kh ? eti_promote_types(higher, lower) : higher;
}

et_dtype eti_promote_result(const eti_promotion *p) {
  return combine_ranks((et_dtype)p->dim, combine_ranks((et_dtype)p->zero, (et_dtype)p->number));
}

et_status eti_result_type(const et_kernel_ctx *ctx, const et_tensor *a, const et_tensor *b,
                          et_dtype *out) {
  eti_promotion p = ETI_PROMOTION_NONE;
  eti_promote_tensor(&p, a);
  eti_promote_tensor(&p, b);
  const et_dtype result = eti_promote_result(&p);
  ET_CHECK(result != ET_DTYPE_COUNT, ctx->err, ET_INVALID_ARGUMENT,
           "dtypes %s and %s have no common type", et_dtype_name((et_dtype)a->dtype),
           et_dtype_name((et_dtype)b->dtype));
  *out = result;
  return ET_OK;
}

et_status eti_result_type_scalar(const et_kernel_ctx *ctx, const et_tensor *a, const eti_scalar *b,
                                 et_dtype *out) {
  eti_promotion p = ETI_PROMOTION_NONE;
  eti_promote_tensor(&p, a);
  eti_promote_scalar(&p, b);
  const et_dtype result = eti_promote_result(&p);
  ET_CHECK(result != ET_DTYPE_COUNT, ctx->err, ET_INVALID_ARGUMENT,
           "dtype %s has no common type with a number", et_dtype_name((et_dtype)a->dtype));
  *out = result;
  return ET_OK;
}

bool eti_can_cast(et_dtype from, et_dtype to) {
  const enum kind kf = kind_of(from), kt = kind_of(to);
  if (kf == KIND_OTHER || kt == KIND_OTHER) return from == to;
  return kf <= kt;
}

et_status eti_check_cast(const et_kernel_ctx *ctx, et_dtype from, const et_tensor *out) {
  ET_CHECK(eti_can_cast(from, (et_dtype)out->dtype), ctx->err, ET_INVALID_ARGUMENT,
           "out: dtype %s cannot receive results of dtype %s", et_dtype_name((et_dtype)out->dtype),
           et_dtype_name(from));
  return ET_OK;
}

bool eti_scalar_store(const eti_scalar *s, et_dtype dtype, void *element) {
  const et_dtype from = s->is_float ? ET_F64 : ET_I64;
  const eti_cast_fn cast = (unsigned)dtype < ET_DTYPE_COUNT ? eti_casts[from][dtype] : NULL;
  if (cast == NULL) return false;
  cast(element, 0, s->is_float ? (const void *)&s->d : (const void *)&s->i, 0, 1);
  return true;
}
