// cast_to.inc.h — defines the conversions of one source type to every real and complex type.
// Parameters: FROM (short name), FROM_TYPE, FROM_CLASS (I, F or D), FROM_LOAD(x). Included once per
// source type by cast.c, which undefines them.
#define TO b8
#define TO_TYPE uint8_t
#include "kernels/micro/convert/cast.body.h"
#define TO u8
#define TO_TYPE uint8_t
#include "kernels/micro/convert/cast.body.h"
#define TO i8
#define TO_TYPE int8_t
#include "kernels/micro/convert/cast.body.h"
#define TO i16
#define TO_TYPE int16_t
#include "kernels/micro/convert/cast.body.h"
#define TO i32
#define TO_TYPE int32_t
#include "kernels/micro/convert/cast.body.h"
#define TO i64
#define TO_TYPE int64_t
#include "kernels/micro/convert/cast.body.h"
#define TO u16
#define TO_TYPE uint16_t
#include "kernels/micro/convert/cast.body.h"
#define TO u32
#define TO_TYPE uint32_t
#include "kernels/micro/convert/cast.body.h"
#define TO u64
#define TO_TYPE uint64_t
#include "kernels/micro/convert/cast.body.h"
#define TO f16
#define TO_TYPE uint16_t
#include "kernels/micro/convert/cast.body.h"
#define TO bf16
#define TO_TYPE uint16_t
#include "kernels/micro/convert/cast.body.h"
#define TO f32
#define TO_TYPE float
#include "kernels/micro/convert/cast.body.h"
#define TO f64
#define TO_TYPE double
#include "kernels/micro/convert/cast.body.h"

static void CAST_NAME(FROM, c64)(void *dst, ptrdiff_t dst_stride, const void *src,
                                 ptrdiff_t src_stride, size_t n) {
  CAST_NAME(FROM, f32)(dst, dst_stride, src, src_stride, n);
  clear_imaginary((char *)dst + sizeof(float), dst_stride, sizeof(float), n);
}

static void CAST_NAME(FROM, c128)(void *dst, ptrdiff_t dst_stride, const void *src,
                                  ptrdiff_t src_stride, size_t n) {
  CAST_NAME(FROM, f64)(dst, dst_stride, src, src_stride, n);
  clear_imaginary((char *)dst + sizeof(double), dst_stride, sizeof(double), n);
}

#undef FROM
#undef FROM_TYPE
#undef FROM_CLASS
#undef FROM_LOAD
