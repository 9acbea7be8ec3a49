// accumulate_loop.body.h — dst[i] += src[i] of one type, in order: an element may repeat.
static void ETI_LOOP_NAME(accumulate, SUFFIX)(void *dst, ptrdiff_t ds, const void *src,
                                              ptrdiff_t ss, size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, CTYPE) && ETI_HOLDS(src, n, CTYPE));
  for (size_t i = 0; i < n; i++) {
    CTYPE *d = &ETI_AT(CTYPE, dst, i, ds);
    const CTYPE s = ETI_CAT(CTYPE, src, i, ss);
#if LOOP_IS_BOOL
    *d = (CTYPE)(*d != 0 || s != 0);
#else
    *d = (CTYPE)((UTYPE)*d + (UTYPE)s);
#endif
  }
}
