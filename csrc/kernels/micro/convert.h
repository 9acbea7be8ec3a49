// convert.h — conversions of contiguous elements between real types, per instruction set. All
// variants come from one source (convert.body.h) and give the same bits; what a conversion means is
// loops/cast_values.h. Relies on select.h. Strides, complex and opaque types are cast.c's.
#ifndef ET_CONVERT_H
#define ET_CONVERT_H

#include "kernels/micro/select.h"

#include <stddef.h>

// X(type): the real types.
#define ETI_CONVERT_LIST(X) \
  X(b8) X(u8) X(i8) X(i16) X(i32) X(i64) X(u16) X(u32) X(u64) X(f16) X(bf16) X(f32) X(f64)

// Converts n elements; dst and src do not overlap, or are one where the types have one size.
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

// The variant of this CPU.
const eti_convert *eti_convert_get(void);

#endif  // ET_CONVERT_H
