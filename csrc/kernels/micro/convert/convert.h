// convert.h — conversions of contiguous elements between real types, per instruction set. All
// variants come from one source (convert.body.h) and give the same bits, those of
// loops/cast_values.h. Relies on isa_select.h. Strides, complex and opaque types are in cast.c.
#ifndef ET_CONVERT_H
#define ET_CONVERT_H

#include "kernels/dtype_sets.h"
#include "kernels/micro/isa_select.h"
#include "runtime/et.h"

#include <stddef.h>

// X(type): the real types.
#define ETI_CONVERT_LIST(X) \
  X(b8) X(u8) X(i8) X(i16) X(i32) X(i64) X(u16) X(u32) X(u64) X(f16) X(bf16) X(f32) X(f64)

// A conversion exists when both its types are in the build. Bool, i64, f32 and f64 always are:
// masks, numbers and sums need them.
enum {
  ETI_TYPE_b8 = ET_B8,
  ETI_TYPE_u8 = ET_U8,
  ETI_TYPE_i8 = ET_I8,
  ETI_TYPE_i16 = ET_I16,
  ETI_TYPE_i32 = ET_I32,
  ETI_TYPE_i64 = ET_I64,
  ETI_TYPE_u16 = ET_U16,
  ETI_TYPE_u32 = ET_U32,
  ETI_TYPE_u64 = ET_U64,
  ETI_TYPE_f16 = ET_F16,
  ETI_TYPE_bf16 = ET_BF16,
  ETI_TYPE_f32 = ET_F32,
  ETI_TYPE_f64 = ET_F64,
  ETI_TYPE_c64 = ET_C64,
  ETI_TYPE_c128 = ET_C128,
};
#define ETI_CONVERSION_TYPES (ET_BUILD_TYPES | ET_TYPES_BOOL | ET_TYPES_FLOAT | ET_TYPES_I64)
#define ETI_CONVERSION_BUILT(from, to, function)                                               \
  ((ETI_CONVERSION_TYPES >> ETI_TYPE_##from & ETI_CONVERSION_TYPES >> ETI_TYPE_##to & 1u) != 0 \
       ? (function)                                                                            \
       : NULL)

// Converts n elements; dst and src do not overlap, or are equal for types of one size.
typedef void (*eti_convert_fn)(void *dst, const void *src, size_t n);

// table->from.to
#define ETI_CONVERT_TO(type) eti_convert_fn type;
typedef struct eti_convert_row {
  ETI_CONVERT_LIST(ETI_CONVERT_TO)
} eti_convert_row;
#define ETI_CONVERT_FROM(type) eti_convert_row type;
typedef struct eti_convert {
  ETI_CONVERT_LIST(ETI_CONVERT_FROM)
} eti_convert;
#undef ETI_CONVERT_TO
#undef ETI_CONVERT_FROM

extern const eti_convert eti_convert_scalar;
#if ETI_HAVE_X86
extern const eti_convert eti_convert_avx2;
extern const eti_convert eti_convert_avx512;
#endif

// The variant of an instruction set (or the next lower one that exists), and that of this CPU.
const eti_convert *eti_convert_for(eti_isa isa);
const eti_convert *eti_convert_get(void);

#endif  // ET_CONVERT_H
