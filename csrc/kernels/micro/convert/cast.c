// cast.c — the table of element conversions (cast.h). Real types are a full square of templates.
// Complex types convert by way of their parts: the real part is stored first, and no hot path needs
// more. Relies on cast_values.h for the value of each conversion.
#include "kernels/micro/convert/cast.h"

#include "kernels/contract.h"
#include "kernels/loops/cast_values.h"
#include "kernels/micro/convert/convert.h"

#include <string.h>

#define CAST_PASTE(a, b) cast_##a##_##b
#define CAST_NAME(a, b) CAST_PASTE(a, b)
#define CAST_VALUE_PASTE(to, class, v) ETI_TO_##to##_##class(v)
#define CAST_VALUE(to, class, v) CAST_VALUE_PASTE(to, class, v)

// Makes an imaginary part 0.
static void clear_imaginary(char *dst, ptrdiff_t stride, size_t bytes, size_t n) {
  ET_ASSERT(n == 0 || (dst != NULL && bytes > 0));
  for (size_t i = 0; i < n; i++, dst += stride) memset(dst, 0, bytes);
}

#define FROM_BODY "kernels/micro/convert/cast_to.inc.h"
#include "kernels/loops/each_real.inc.h"

static void cast_c64_c128(void *dst, ptrdiff_t dst_stride, const void *src, ptrdiff_t src_stride,
                          size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, eti_c128) && ETI_HOLDS(src, n, eti_c64));
  char *to = dst;
  const char *from = src;
  for (size_t i = 0; i < n; i++, to += dst_stride, from += src_stride) {
    const eti_c64 v = *(const eti_c64 *)(const void *)from;
    *(eti_c128 *)(void *)to = (eti_c128){(double)v.re, (double)v.im};
  }
}

static void cast_c128_c64(void *dst, ptrdiff_t dst_stride, const void *src, ptrdiff_t src_stride,
                          size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, eti_c64) && ETI_HOLDS(src, n, eti_c128));
  char *to = dst;
  const char *from = src;
  for (size_t i = 0; i < n; i++, to += dst_stride, from += src_stride) {
    const eti_c128 v = *(const eti_c128 *)(const void *)from;
    *(eti_c64 *)(void *)to = (eti_c64){(float)v.re, (float)v.im};
  }
}

static void cast_c64_b8(void *dst, ptrdiff_t dst_stride, const void *src, ptrdiff_t src_stride,
                        size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, uint8_t) && ETI_HOLDS(src, n, eti_c64));
  uint8_t *to = dst;
  const char *from = src;
  for (size_t i = 0; i < n; i++, to += dst_stride, from += src_stride) {
    const eti_c64 *v = (const void *)from;
    *to = v->re != 0.0f || v->im != 0.0f;
  }
}

static void cast_c128_b8(void *dst, ptrdiff_t dst_stride, const void *src, ptrdiff_t src_stride,
                         size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, uint8_t) && ETI_HOLDS(src, n, eti_c128));
  uint8_t *to = dst;
  const char *from = src;
  for (size_t i = 0; i < n; i++, to += dst_stride, from += src_stride) {
    const eti_c128 *v = (const void *)from;
    *to = v->re != 0.0 || v->im != 0.0;
  }
}

// ---- same type: bytes

static void copy_n(void *dst, ptrdiff_t dst_stride, const void *src, ptrdiff_t src_stride, size_t n,
                   size_t bytes) {
  ET_ASSERT(bytes > 0 && (n == 0 || (dst != NULL && src != NULL)));
  if (dst_stride == (ptrdiff_t)bytes && src_stride == (ptrdiff_t)bytes) {
    memmove(dst, src, n * bytes);
    return;
  }
  char *to = dst;
  const char *from = src;
  for (size_t i = 0; i < n; i++, to += dst_stride, from += src_stride) memmove(to, from, bytes);
}

static void copy_1(void *dst, ptrdiff_t dst_stride, const void *src, ptrdiff_t src_stride,
                   size_t n) {
  copy_n(dst, dst_stride, src, src_stride, n, 1);
}
static void copy_2(void *dst, ptrdiff_t dst_stride, const void *src, ptrdiff_t src_stride,
                   size_t n) {
  copy_n(dst, dst_stride, src, src_stride, n, 2);
}
static void copy_4(void *dst, ptrdiff_t dst_stride, const void *src, ptrdiff_t src_stride,
                   size_t n) {
  copy_n(dst, dst_stride, src, src_stride, n, 4);
}
static void copy_8(void *dst, ptrdiff_t dst_stride, const void *src, ptrdiff_t src_stride,
                   size_t n) {
  copy_n(dst, dst_stride, src, src_stride, n, 8);
}
static void copy_16(void *dst, ptrdiff_t dst_stride, const void *src, ptrdiff_t src_stride,
                    size_t n) {
  copy_n(dst, dst_stride, src, src_stride, n, 16);
}

// ---- the table

#define CAST_CELL(from, to, function) [ETI_TYPE_##to] = ETI_CONVERSION_BUILT(from, to, function)
#define CAST_REAL_ROW(from)                                                               \
  CAST_CELL(from, b8, cast_##from##_b8), CAST_CELL(from, u8, cast_##from##_u8),           \
      CAST_CELL(from, i8, cast_##from##_i8), CAST_CELL(from, i16, cast_##from##_i16),     \
      CAST_CELL(from, i32, cast_##from##_i32), CAST_CELL(from, i64, cast_##from##_i64),   \
      CAST_CELL(from, u16, cast_##from##_u16), CAST_CELL(from, u32, cast_##from##_u32),   \
      CAST_CELL(from, u64, cast_##from##_u64), CAST_CELL(from, f16, cast_##from##_f16),   \
      CAST_CELL(from, bf16, cast_##from##_bf16), CAST_CELL(from, f32, cast_##from##_f32), \
      CAST_CELL(from, f64, cast_##from##_f64), CAST_CELL(from, c64, cast_##from##_c64),   \
      CAST_CELL(from, c128, cast_##from##_c128)
// A complex source is read as its real part; only the conversion to bool tests both parts.
#define CAST_COMPLEX_ROW(complex, part, to_c64, to_c128)                                        \
  CAST_CELL(complex, b8, cast_##complex##_b8), CAST_CELL(complex, u8, cast_##part##_u8),        \
      CAST_CELL(complex, i8, cast_##part##_i8), CAST_CELL(complex, i16, cast_##part##_i16),     \
      CAST_CELL(complex, i32, cast_##part##_i32), CAST_CELL(complex, i64, cast_##part##_i64),   \
      CAST_CELL(complex, u16, cast_##part##_u16), CAST_CELL(complex, u32, cast_##part##_u32),   \
      CAST_CELL(complex, u64, cast_##part##_u64), CAST_CELL(complex, f16, cast_##part##_f16),   \
      CAST_CELL(complex, bf16, cast_##part##_bf16), CAST_CELL(complex, f32, cast_##part##_f32), \
      CAST_CELL(complex, f64, cast_##part##_f64), CAST_CELL(complex, c64, to_c64),              \
      CAST_CELL(complex, c128, to_c128)

const eti_cast_fn eti_casts[ET_DTYPE_COUNT][ET_DTYPE_COUNT] = {
    [ET_B8] = {CAST_REAL_ROW(b8)},
    [ET_U8] = {CAST_REAL_ROW(u8)},
    [ET_I8] = {CAST_REAL_ROW(i8)},
    [ET_I16] = {CAST_REAL_ROW(i16)},
    [ET_I32] = {CAST_REAL_ROW(i32)},
    [ET_I64] = {CAST_REAL_ROW(i64)},
    [ET_U16] = {CAST_REAL_ROW(u16)},
    [ET_U32] = {CAST_REAL_ROW(u32)},
    [ET_U64] = {CAST_REAL_ROW(u64)},
    [ET_F16] = {CAST_REAL_ROW(f16)},
    [ET_BF16] = {CAST_REAL_ROW(bf16)},
    [ET_F32] = {CAST_REAL_ROW(f32)},
    [ET_F64] = {CAST_REAL_ROW(f64)},
    [ET_C64] = {CAST_COMPLEX_ROW(c64, f32, copy_8, cast_c64_c128)},
    [ET_C128] = {CAST_COMPLEX_ROW(c128, f64, cast_c128_c64, copy_16)},
    [ET_C32] = {[ET_C32] = copy_4},
    [ET_QI8] = {[ET_QI8] = copy_1},
    [ET_QU8] = {[ET_QU8] = copy_1},
    [ET_QI32] = {[ET_QI32] = copy_4},
    [ET_QU4X2] = {[ET_QU4X2] = copy_1},
    [ET_QU2X4] = {[ET_QU2X4] = copy_1},
    [ET_BITS1X8] = {[ET_BITS1X8] = copy_1},
    [ET_BITS2X4] = {[ET_BITS2X4] = copy_1},
    [ET_BITS4X2] = {[ET_BITS4X2] = copy_1},
    [ET_BITS8] = {[ET_BITS8] = copy_1},
    [ET_BITS16] = {[ET_BITS16] = copy_2},
    [ET_F8E5M2] = {[ET_F8E5M2] = copy_1},
    [ET_F8E4M3] = {[ET_F8E4M3] = copy_1},
    [ET_F8E5M2Z] = {[ET_F8E5M2Z] = copy_1},
    [ET_F8E4M3Z] = {[ET_F8E4M3Z] = copy_1},
};
