// accumulate.c — see accumulate.h.
#include "kernels/lib/accumulate.h"

#include "kernels/loops/loop.h"
#include "runtime/half.h"

#define LOOP_TYPES ET_TYPES_REAL_BOOL
#define LOOP_BODY "kernels/loops/accumulate_loop.body.h"
#include "kernels/loops/each_dtype.inc.h"
#undef LOOP_BODY

static void accumulate_f16(void *dst, ptrdiff_t ds, const void *src, ptrdiff_t ss, size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, uint16_t) && ETI_HOLDS(src, n, uint16_t));
  for (size_t i = 0; i < n; i++) {
    uint16_t *d = &ETI_AT(uint16_t, dst, i, ds);
    *d = eti_f32_to_f16(eti_f16_to_f32(*d) + eti_f16_to_f32(ETI_CAT(uint16_t, src, i, ss)));
  }
}

static void accumulate_bf16(void *dst, ptrdiff_t ds, const void *src, ptrdiff_t ss, size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, uint16_t) && ETI_HOLDS(src, n, uint16_t));
  for (size_t i = 0; i < n; i++) {
    uint16_t *d = &ETI_AT(uint16_t, dst, i, ds);
    *d = eti_f32_to_bf16(eti_bf16_to_f32(*d) + eti_bf16_to_f32(ETI_CAT(uint16_t, src, i, ss)));
  }
}

// A complex number is two real ones.
static void accumulate_c64(void *dst, ptrdiff_t ds, const void *src, ptrdiff_t ss, size_t n) {
  accumulate_f32(dst, ds, src, ss, n);
  accumulate_f32((char *)dst + sizeof(float), ds, (const char *)src + sizeof(float), ss, n);
}

static void accumulate_c128(void *dst, ptrdiff_t ds, const void *src, ptrdiff_t ss, size_t n) {
  accumulate_f64(dst, ds, src, ss, n);
  accumulate_f64((char *)dst + sizeof(double), ds, (const char *)src + sizeof(double), ss, n);
}

#define LOOP_NAME accumulate
#define LOOP_BODY "kernels/loops/row.body.h"
const eti_accumulate_fn eti_accumulates[ET_DTYPE_COUNT] = {
#include "kernels/loops/each_dtype.inc.h"
    [ET_F16] = accumulate_f16,
    [ET_BF16] = accumulate_bf16,
    [ET_C64] = accumulate_c64,
    [ET_C128] = accumulate_c128,
};
#undef LOOP_BODY
#undef LOOP_NAME
#undef LOOP_TYPES
