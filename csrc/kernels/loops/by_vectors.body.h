// by_vectors.body.h — runs a loop over whole vectors on operands of any stride and count, for one
// element type. Functions that take many instructions are compiled once, as a loop without a rest
// (unary_vectors.body.h, binary_vectors.body.h): operands that are strided or repeated, and the
// last elements, are copied to buffers that hold whole vectors. Included once for each type by
// each_dtype.inc.h, which sets CTYPE and SUFFIX.
#define FN(name) ETI_LOOP_NAME(name, SUFFIX)
#define LANES ETI_LANES(CTYPE)
#define PIECE (16 * LANES)  // elements that are copied together

// Compute n elements, a multiple of LANES. params: three elements.
typedef void (*FN(unary_vectors))(CTYPE *out, const CTYPE *in, size_t n, const CTYPE *params);
typedef void (*FN(binary_vectors))(CTYPE *out, const CTYPE *left, const CTYPE *right, size_t n,
                                   const CTYPE *params);

// Copies m elements and repeats the first one up to a multiple of LANES.
static void FN(fill_vectors)(CTYPE *to, const void *from, ptrdiff_t stride, size_t m) {
  const CTYPE first = *(const CTYPE *)from;
  const size_t padded = stride == 0 ? 0 : m / LANES * LANES;
  for (size_t j = padded; j != (m + LANES - 1) / LANES * LANES; j++) to[j] = first;
  if (stride == sizeof(CTYPE)) {
    memcpy(to, from, m * sizeof(CTYPE));
  } else if (stride != 0) {
    for (size_t j = 0; j < m; j++) to[j] = ETI_CAT(CTYPE, from, j, stride);
  }
}

static void FN(store_elements)(void *to, ptrdiff_t stride, const CTYPE *from, size_t m) {
  if (stride == sizeof(CTYPE)) {
    memcpy(to, from, m * sizeof(CTYPE));
  } else {
    for (size_t j = 0; j < m; j++) ETI_AT(CTYPE, to, j, stride) = from[j];
  }
}

// Elements that are computed together when n are left: those that fill vectors, by pieces unless
// all operands are contiguous; then the rest.
static size_t FN(next_piece)(size_t n, bool dense) {
  const size_t most = n > PIECE && !dense ? PIECE : n;
  return most > LANES ? most - most % LANES : most;
}

// The elements of an operand from element i, as vectors: in place, or copied to a buffer. A
// repeated element is copied at i = 0 only.
static const CTYPE *FN(vectors_of)(CTYPE buffer[PIECE], const void *p, ptrdiff_t stride, size_t i,
                                   size_t m) {
  const void *from = (const char *)p + (ptrdiff_t)i * stride;
  if (stride == sizeof(CTYPE) && m % LANES == 0) return from;
  if (stride != 0 || i == 0) FN(fill_vectors)(buffer, from, stride, m);
  return buffer;
}

#if LOOP_IS_FLOAT  // no function of one integer takes many instructions
static void FN(unary_by_vectors)(void *const p[], const ptrdiff_t s[], size_t n, const void *params,
                                 FN(unary_vectors) vectors) {
  ET_ASSERT(ETI_HOLDS(p[0], n, CTYPE) && ETI_HOLDS(p[1], n, CTYPE));
  ET_ASSERT(ETI_HOLDS_OR_NULL(params, CTYPE));
  CTYPE k[3] = {0};
  if (params != NULL) memcpy(k, params, sizeof k);
  CTYPE out[PIECE], in[PIECE];
  const bool fills = s[0] == sizeof(CTYPE), dense = fills && s[1] == sizeof(CTYPE);
  for (size_t i = 0, m = 0; i < n; i += m) {
    m = FN(next_piece)(n - i, dense);
    const bool in_place = fills && m % LANES == 0;
    void *to = (char *)p[0] + (ptrdiff_t)i * s[0];
    vectors(in_place ? to : out, FN(vectors_of)(in, p[1], s[1], i, m),
            (m + LANES - 1) / LANES * LANES, k);
    if (!in_place) FN(store_elements)(to, s[0], out, m);
  }
}
#endif

static void FN(binary_by_vectors)(void *const p[], const ptrdiff_t s[], size_t n,
                                  const void *params, FN(binary_vectors) vectors) {
  ET_ASSERT(ETI_HOLDS(p[0], n, CTYPE) && ETI_HOLDS_OR_NULL(params, CTYPE));
  ET_ASSERT(ETI_HOLDS(p[1], n, CTYPE) && ETI_HOLDS(p[2], n, CTYPE));
  CTYPE k[3] = {0};
  if (params != NULL) memcpy(k, params, sizeof k);
  CTYPE out[PIECE], left[PIECE], right[PIECE];
  const bool fills = s[0] == sizeof(CTYPE);
  const bool dense = fills && s[1] == sizeof(CTYPE) && s[2] == sizeof(CTYPE);
  for (size_t i = 0, m = 0; i < n; i += m) {
    m = FN(next_piece)(n - i, dense);
    const bool in_place = fills && m % LANES == 0;
    void *to = (char *)p[0] + (ptrdiff_t)i * s[0];
    vectors(in_place ? to : out, FN(vectors_of)(left, p[1], s[1], i, m),
            FN(vectors_of)(right, p[2], s[2], i, m), (m + LANES - 1) / LANES * LANES, k);
    if (!in_place) FN(store_elements)(to, s[0], out, m);
  }
}

#undef PIECE
#undef LANES
#undef FN
