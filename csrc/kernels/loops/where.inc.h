// where.inc.h — out = condition ? a : b for elements of one size, of any type. Parameters,
// undefined at the end: WHERE_NAME, WHERE_TYPE (an unsigned integer of that size, or a struct).
static void WHERE_NAME(void *const p[], const ptrdiff_t s[], size_t n, const void *params) {
  ET_ASSERT(ETI_HOLDS(p[0], n, WHERE_TYPE) && ETI_HOLDS(p[1], n, uint8_t));
  ET_ASSERT(ETI_HOLDS(p[2], n, WHERE_TYPE) && ETI_HOLDS(p[3], n, WHERE_TYPE));
  (void)params;
  const ptrdiff_t bytes = (ptrdiff_t)sizeof(WHERE_TYPE);
  const bool dense = s[0] == bytes && s[1] == 1;
  WHERE_TYPE *out = p[0];
  const uint8_t *condition = p[1];
  const WHERE_TYPE *a = p[2], *b = p[3];
  if (dense && s[2] == bytes && s[3] == bytes) {
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) {
      const WHERE_TYPE x = a[i], y = b[i];
      out[i] = condition[i] != 0 ? x : y;
    }
  } else if (dense && s[2] == 0 && s[3] == bytes) {
    const WHERE_TYPE x = *a;
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) {
      const WHERE_TYPE y = b[i];
      out[i] = condition[i] != 0 ? x : y;
    }
  } else if (dense && s[2] == bytes && s[3] == 0) {
    const WHERE_TYPE y = *b;
    ETI_NO_DEPENDENCES
    for (size_t i = 0; i < n; i++) {
      const WHERE_TYPE x = a[i];
      out[i] = condition[i] != 0 ? x : y;
    }
  } else if (s[0] == bytes && s[1] == 0) {  // one condition for all
    const WHERE_TYPE *const from = *condition != 0 ? a : b;
    const ptrdiff_t step = *condition != 0 ? s[2] : s[3];
    if (step == bytes) {
      if (out != from) memmove(out, from, n * sizeof *out);
    } else {
      for (size_t i = 0; i < n; i++) out[i] = ETI_CAT(WHERE_TYPE, from, i, step);
    }
  } else {
    for (size_t i = 0; i < n; i++) {
      ETI_AT(WHERE_TYPE, out, i, s[0]) = ETI_CAT(uint8_t, condition, i, s[1]) != 0
                                             ? ETI_CAT(WHERE_TYPE, a, i, s[2])
                                             : ETI_CAT(WHERE_TYPE, b, i, s[3]);
    }
  }
}
#undef WHERE_NAME
#undef WHERE_TYPE
