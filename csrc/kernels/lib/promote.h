// promote.h — ATen's type promotion: the element type in which several tensors and numbers are
// computed. Relies on et_dtype and eti_scalar; knows no operator. The rules are those of
// torch.result_type.
#ifndef ET_PROMOTE_H
#define ET_PROMOTE_H

#include "kernels/lib/args.h"
#include "kernels/dtype_sets.h"
#include "runtime/check.h"
#include "runtime/et.h"

// torch.promote_types; ET_DTYPE_COUNT when the two do not promote (u16/u32/u64 with signed
// integers, quantized types).
et_dtype eti_promote_types(et_dtype a, et_dtype b);

static inline bool eti_dtype_in(et_dtype dtype, et_dtype_set set) {
  return (set >> (unsigned)dtype & 1u) != 0;
}
static inline bool eti_is_float(et_dtype d) {
  return eti_dtype_in(d, ET_TYPES_FLOAT_HALF);
}
static inline bool eti_is_complex(et_dtype d) {
  return eti_dtype_in(d, ET_TYPES_COMPLEX | ET_DTYPE_BIT(ET_C32));
}
static inline bool eti_is_integral(et_dtype d) {
  return eti_dtype_in(d, ET_TYPES_INT | ET_TYPES_BOOL | ET_TYPES_UNSIGNED);
}

// The operands of one operator, in the three ranks that promotion keeps apart: tensors with
// dimensions, 0-d tensors, numbers. A lower rank decides only when it brings a higher kind (bool <
// integer < float < complex).
typedef struct eti_promotion {
  uint8_t dim, zero, number;  // et_dtype, or ET_DTYPE_COUNT for none
} eti_promotion;

#define ETI_PROMOTION_NONE {ET_DTYPE_COUNT, ET_DTYPE_COUNT, ET_DTYPE_COUNT}

void eti_promote_tensor(eti_promotion *p, const et_tensor *t);
void eti_promote_scalar(eti_promotion *p, const eti_scalar *s);
et_dtype eti_promote_result(const eti_promotion *p);  // ET_DTYPE_COUNT when undefined

// torch.result_type of two tensors, or of a tensor and a number. ET_INVALID_ARGUMENT when
// undefined.
et_status eti_result_type(const et_kernel_ctx *ctx, const et_tensor *a, const et_tensor *b,
                          et_dtype *out);
et_status eti_result_type_scalar(const et_kernel_ctx *ctx, const et_tensor *a, const eti_scalar *b,
                                 et_dtype *out);

// The floating-point type for integers and bool: f32, as in operators that always give floating
// point.
static inline et_dtype eti_to_float(et_dtype d) {
  return eti_is_integral(d) ? ET_F32 : d;
}
// The type of arithmetic: f16 and bf16 compute in f32.
static inline et_dtype eti_compute_type(et_dtype d) {
  return (d == ET_F16 || d == ET_BF16) ? ET_F32 : d;
}

// True if an output of type `to` may receive a result of type `from` (torch.can_cast). The check
// reports both types.
bool eti_can_cast(et_dtype from, et_dtype to);
et_status eti_check_cast(const et_kernel_ctx *ctx, et_dtype from, const et_tensor *out);

// Stores the number as an element of type `dtype` (room for 16 bytes): integers wrap, floats to
// integers saturate like casts. False when the type has no conversion.
bool eti_scalar_store(const eti_scalar *s, et_dtype dtype, void *element);

#endif  // ET_PROMOTE_H
