// cast.body.h — one conversion, FROM to TO (see cast_to.inc.h). Undefines TO and TO_TYPE.
static void CAST_NAME(FROM, TO)(void *dst, ptrdiff_t dst_stride, const void *src,
                                ptrdiff_t src_stride, size_t n) {
  ET_ASSERT(ETI_HOLDS(dst, n, TO_TYPE) && ETI_HOLDS(src, n, FROM_TYPE));
  if (dst_stride == (ptrdiff_t)sizeof(TO_TYPE) && src_stride == (ptrdiff_t)sizeof(FROM_TYPE)) {
    eti_convert_get()->FROM.TO(dst, src, n);
    return;
  }
  char *to = dst;
  const char *from = src;
  for (size_t i = 0; i < n; i++, to += dst_stride, from += src_stride) {
    *(TO_TYPE *)(void *)to =
        CAST_VALUE(TO, FROM_CLASS, FROM_LOAD(*(const FROM_TYPE *)(const void *)from));
  }
}
#undef TO
#undef TO_TYPE
