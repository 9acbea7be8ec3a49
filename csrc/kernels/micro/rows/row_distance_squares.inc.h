// row_distance_squares.inc.h — squared distances of eight rows from a tile, for elements of one
// type. Every instruction set has the same order: one sum per pair, one fused multiply-add per
// element. Parameters, undefined at the end: T, SUFFIX, and, if the compiler has vectors and such
// an instruction, ROWS_VECTOR with DISTANCE_FMA(d, s), d·d + s of vectors.
#define FN(name) ETI_LOOP_NAME(name, SUFFIX)

#ifdef ROWS_VECTOR
static void FN(squares)(T acc[ETI_TILE_GROUP][ETI_TILE], const void *const x[ETI_TILE_GROUP],
                        const T *tile, size_t n) {
  ET_ASSERT(ETI_HOLDS(acc, 1, T) && ETI_HOLDS(tile, n, T));
  for (size_t i = 0; i < ETI_TILE_GROUP; i++) ET_ASSERT(ETI_HOLDS(x[i], n, T));
  const T *const x0 = x[0], *const x1 = x[1], *const x2 = x[2], *const x3 = x[3], *const x4 = x[4],
                 *const x5 = x[5], *const x6 = x[6], *const x7 = x[7];
  for (size_t l = 0; l < ETI_TILE; l += sizeof(ROWS_VECTOR) / sizeof(T)) {
#define AT(i) (*(ROWS_VECTOR *)(void *)(acc[i] + l))
    ROWS_VECTOR s0 = AT(0), s1 = AT(1), s2 = AT(2), s3 = AT(3), s4 = AT(4), s5 = AT(5), s6 = AT(6),
                s7 = AT(7);
    for (size_t k = 0; k < n; k++) {
      const ROWS_VECTOR t = *(const ROWS_VECTOR *)(const void *)(tile + k * ETI_TILE + l);
#define STEP(sum, row)                         \
  do {                                         \
    const ROWS_VECTOR d = t - (row)[k];        \
    (sum) = (ROWS_VECTOR)DISTANCE_FMA(d, sum); \
  } while (0)
      STEP(s0, x0);
      STEP(s1, x1);
      STEP(s2, x2);
      STEP(s3, x3);
      STEP(s4, x4);
      STEP(s5, x5);
      STEP(s6, x6);
      STEP(s7, x7);
#undef STEP
    }
    AT(0) = s0, AT(1) = s1, AT(2) = s2, AT(3) = s3;
    AT(4) = s4, AT(5) = s5, AT(6) = s6, AT(7) = s7;
#undef AT
  }
}
#else
static void FN(squares)(T acc[ETI_TILE_GROUP][ETI_TILE], const void *const x[ETI_TILE_GROUP],
                        const T *tile, size_t n) {
  ET_ASSERT(ETI_HOLDS(acc, 1, T) && ETI_HOLDS(tile, n, T));
  for (size_t i = 0; i < ETI_TILE_GROUP; i++) ET_ASSERT(ETI_HOLDS(x[i], n, T));
  for (size_t k = 0; k < n; k++) {
    for (size_t g = 0; g < ETI_TILE_GROUP; g++) {
      for (size_t l = 0; l < ETI_TILE; l++) {
        const T d = tile[k * ETI_TILE + l] - ((const T *)x[g])[k];
        acc[g][l] = FN(eti_fma)(d, d, acc[g][l]);
      }
    }
  }
}
#endif
#undef FN
#undef T
#undef SUFFIX
#undef ROWS_VECTOR
#undef DISTANCE_FMA
