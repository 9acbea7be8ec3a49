// cast.h — conversion of elements between types: one table for all conversions (copies to another
// dtype, mixed dtypes of elementwise operators, numbers stored as elements). Relies on et_dtype
// alone. Float to integer truncates; values that do not fit give torch's result on x86-64 (see
// loops/cast_values.h).
#ifndef ET_CAST_H
#define ET_CAST_H

#include "runtime/et.h"

// Converts n elements. Strides are in bytes and may be 0 or negative. dst may equal src if the
// destination's elements are not larger and the strides allow it.
typedef void (*eti_cast_fn)(void *dst, ptrdiff_t dst_stride, const void *src, ptrdiff_t src_stride,
                            size_t n);

// eti_casts[from][to]; NULL where there is no conversion. Complete over bool, the integers (u16 u32
// u64 included), f16, bf16, f32, f64, c64 and c128; from[to] with from == to copies and exists for
// every type.
extern const eti_cast_fn eti_casts[ET_DTYPE_COUNT][ET_DTYPE_COUNT];

#endif  // ET_CAST_H
