// convert.body.h — the source of every variant of convert.h. The including file names its table,
// ETI_CONVERT_TABLE. f16 is converted through f32 in blocks.
#include "kernels/contract.h"
#include "kernels/loops/cast_values.h"
#include "kernels/micro/convert/convert.h"
#include "kernels/micro/convert/half_convert.body.h"

#include "kernels/loops/loop.h"

#define BLOCK 256u

#define CAST_PASTE(a, b) convert_##a##_##b
#define CAST_NAME(a, b) CAST_PASTE(a, b)
#define CAST_VALUE_PASTE(to, class, v) ETI_TO_##to##_##class(v)
#define CAST_VALUE(to, class, v) CAST_VALUE_PASTE(to, class, v)

#define FROM_NO_F16
#define FROM_BODY "kernels/micro/convert/convert_to.inc.h"
#include "kernels/loops/each_real.inc.h"

// ---- from f16, by way of f32

#define FROM_F16(to, bytes)                                            \
  static void convert_f16_##to(void *dst, const void *src, size_t n) { \
    ET_ASSERT(ETI_HOLDS(src, n, uint16_t) && (n == 0 || dst != NULL)); \
    float block[BLOCK];                                                \
    const uint16_t *from = src;                                        \
    for (size_t i = 0; i < n; i += BLOCK) {                            \
      const size_t m = n - i < BLOCK ? n - i : BLOCK;                  \
      f16_to_f32(block, from + i, m);                                  \
      convert_f32_##to((char *)dst + i * (bytes), block, m);           \
    }                                                                  \
  }
FROM_F16(b8, 1)
FROM_F16(u8, 1)
FROM_F16(i8, 1)
FROM_F16(i16, 2)
FROM_F16(i32, 4)
FROM_F16(i64, 8)
FROM_F16(u16, 2)
FROM_F16(u32, 4)
FROM_F16(u64, 8)
FROM_F16(f16, 2)
FROM_F16(bf16, 2)
FROM_F16(f64, 8)

static void convert_f16_f32(void *dst, const void *src, size_t n) {
  f16_to_f32(dst, src, n);
}

#define ENTRY(from, to) .to = ETI_CONVERSION_BUILT(from, to, convert_##from##_##to)
#define ROW(from)                                                                   \
  .from = {ENTRY(from, b8),  ENTRY(from, u8),  ENTRY(from, i8),   ENTRY(from, i16), \
           ENTRY(from, i32), ENTRY(from, i64), ENTRY(from, u16),  ENTRY(from, u32), \
           ENTRY(from, u64), ENTRY(from, f16), ENTRY(from, bf16), ENTRY(from, f32), \
           ENTRY(from, f64)},
const eti_convert ETI_CONVERT_TABLE = {ETI_CONVERT_LIST(ROW)};
