// convert_to.inc.h — the conversions of one type, FROM, to every real type. Parameters: FROM,
// FROM_TYPE, FROM_CLASS (I, F or D), FROM_LOAD(x), and FROM_IS_F32 for f32, through which all
// others convert to f16. All are undefined again at the end.
#define CONVERT(to, type)                                                                   \
  static void CAST_NAME(FROM, to)(void *dst, const void *src, size_t n) {                   \
    ET_ASSERT(ETI_HOLDS(dst, n, type) && ETI_HOLDS(src, n, FROM_TYPE));                     \
    type *out = dst;                                                                        \
    const FROM_TYPE *from = src;                                                            \
    ETI_NO_DEPENDENCES                                                                      \
    for (size_t i = 0; i < n; i++) out[i] = CAST_VALUE(to, FROM_CLASS, FROM_LOAD(from[i])); \
  }
CONVERT(b8, uint8_t)
CONVERT(u8, uint8_t)
CONVERT(i8, int8_t)
CONVERT(i16, int16_t)
CONVERT(i32, int32_t)
CONVERT(i64, int64_t)
CONVERT(u16, uint16_t)
CONVERT(u32, uint32_t)
CONVERT(u64, uint64_t)
CONVERT(bf16, uint16_t)
CONVERT(f32, float)
CONVERT(f64, double)
#undef CONVERT

static void CAST_NAME(FROM, f16)(void *dst, const void *src, size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, uint16_t) && ETI_HOLDS(src, n, FROM_TYPE));
  uint16_t *out = dst;
  const FROM_TYPE *from = src;
#ifdef FROM_IS_F32
  f32_to_f16(out, from, n);
#else
  float block[BLOCK];
  for (size_t i = 0; i < n; i += BLOCK) {
    const size_t m = n - i < BLOCK ? n - i : BLOCK;
    CAST_NAME(FROM, f32)(block, from + i, m);
    f32_to_f16(out + i, block, m);
  }
#endif
}

#undef FROM
#undef FROM_TYPE
#undef FROM_CLASS
#undef FROM_LOAD
#undef FROM_IS_F32
