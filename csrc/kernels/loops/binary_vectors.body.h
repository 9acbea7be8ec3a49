// binary_vectors.body.h — one type's loop of a function of two operands that takes many
// instructions: over whole vectors only, so that compilers expand LOOP_EXPR once. The parameters
// are those of binary_vectors.inc.h; by_vectors.body.h was included before.
static void ETI_LOOP_NAME(ETI_LOOP_NAME(LOOP_NAME, vectors), SUFFIX)(CTYPE *out, const CTYPE *left,
                                                                     const CTYPE *right, size_t n,
                                                                     const CTYPE *params) {
  const CTYPE k[3] = {params[0], params[1], params[2]};  // a copy: the output might overlap params
  (void)k;
  ETI_NO_DEPENDENCES
  for (size_t i = 0; i != ETI_WHOLE_VECTORS(CTYPE, n); i++) {
    const CTYPE a = left[i], b = right[i];
    out[i] = (CTYPE)(LOOP_EXPR(a, b));
  }
}

static void ETI_LOOP_NAME(LOOP_NAME, SUFFIX)(void *const p[], const ptrdiff_t s[], size_t n,
                                             const void *params) {
  ETI_LOOP_NAME(binary_by_vectors, SUFFIX)
  (p, s, n, params, ETI_LOOP_NAME(ETI_LOOP_NAME(LOOP_NAME, vectors), SUFFIX));
}
