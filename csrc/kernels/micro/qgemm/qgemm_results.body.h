// qgemm_results.body.h — the results of qgemm.h from sums, over the vectors of a file
// qgemm_vectors_*.h, included before. The including file gives OFFSET, which each term of a row has
// on top: 128 if rows are in U8.

#define INLINE static inline __attribute__((always_inline))
// Unrolls loops over registers.
#define UNROLL _Pragma("GCC unroll 16")

enum {
  NR = ETI_QGEMM_NR,
  QUAD = ETI_QGEMM_QUAD,
  NV = NR / LANES,  // vectors of a panel
};

// Limits that turn sums into i8.
typedef struct limits {
  vf high;
  vi low, zero;  // in bytes, in words of 16 bits
} limits;

INLINE limits limits_of(int32_t low, float high, int32_t zero) {
  return (limits){VF_SET1(high), VB_SET1((char)low), VB_SET1_16((short)zero)};
}

// Scales, rounds and limits a vector of columns from above. NaN becomes the high limit.
INLINE vi rounded(vi sum, vf scale, vf add, vf high) {
  return VI_ROUND(VF_MIN(VF_ADD(VF_MUL(VF_OF(sum), scale), add), high));
}

// Stores n ≤ NR bytes; the second eight may overlap the first.
INLINE void store_part(int8_t *out, __m128i bytes, size_t n) {
  int8_t all[NR];
  if (n >= NR) {
    _mm_storeu_si128((__m128i *)(void *)out, bytes);
    return;
  }
  _mm_storeu_si128((__m128i *)(void *)all, bytes);
  if (n >= 8) {
    memcpy(out, all, 8);
    memcpy(out + n - 8, all + n - 8, 8);
  } else {
    for (size_t i = 0; i < n; i++) out[i] = all[i];
  }
}

// Writes n columns of a panel. Values that are too low saturate.
INLINE void store_i8(int8_t *out, const vi sums[NV], const eti_qtile *t, size_t column,
                     const limits *l, size_t n) {
  vi q[NV];
  UNROLL for (size_t v = 0; v < NV; v++) {
    const size_t at = column + v * LANES;
    q[v] = rounded(sums[v], VF_LOAD(t->scale + at), VF_LOAD(t->add + at), l->high);
  }
  const __m128i low = _mm_set1_epi8((char)t->low);
  store_part(out, _mm_max_epi8(narrow(q, t->zero), low), n);
}

// The results of two rows of two vectors, in the order of store_rows.
INLINE vi bytes_of_two_rows(const vi first[2], const vi second[2], const vf scale[2],
                            const vf add[2], const limits *l) {
  vi q[2], r[2];
  UNROLL for (size_t v = 0; v < 2; v++) {
    q[v] = rounded(first[v], scale[v], add[v], l->high);
    r[v] = rounded(second[v], scale[v], add[v], l->high);
  }
  const vi a = VB_ADDS_16(VB_PACKS_32(q[0], q[1]), l->zero);
  const vi b = VB_ADDS_16(VB_PACKS_32(r[0], r[1]), l->zero);
  return VB_MAX(VB_PACKS_16(a, b), l->low);
}

// Writes two rows of two vectors.
INLINE void store_two_rows(int8_t *out, size_t step, const vi first[2], const vi second[2],
                           const eti_qtile *t, size_t column, const limits *l) {
  vf scale[2], add[2];
  UNROLL for (size_t v = 0; v < 2; v++) {
    scale[v] = VF_LOAD(t->scale + column + v * LANES);
    add[v] = VF_LOAD(t->add + column + v * LANES);
  }
  store_rows(out, out + step, bytes_of_two_rows(first, second, scale, add, l));
}

INLINE void store_f32(float *out, const vi sums[NV], const eti_qtile *t, size_t row, size_t column,
                      size_t n) {
  float part[NR];
  float *const to = n >= NR ? out : part;
  const vi zero = VI_SET1((int32_t)((uint32_t)t->row_zero[row * t->row_step] + OFFSET));
  const vf row_scale = VF_SET1(t->row_scale[row * t->row_step]);
  const int32_t *const column_zero = t->column_zero;
  const vi row_sum = VI_SET1(column_zero != NULL ? t->row_sum[row * t->row_step] : 0);
  UNROLL for (size_t v = 0; v < NV; v++) {
    const size_t at = column + v * LANES;
    vi sum = VI_SUB(sums[v], VI_MUL(zero, VI_LOAD(t->start + at)));
    if (column_zero != NULL) sum = VI_SUB(sum, VI_MUL(row_sum, VI_LOAD(column_zero + at)));
    const vf scaled = VF_MUL(VF_OF(sum), VF_MUL(row_scale, VF_LOAD(t->scale + at)));
    VF_STORE(to + v * LANES, VF_ADD(scaled, VF_LOAD(t->add + at)));
  }
  if (to == part) memcpy(out, part, n * sizeof(float));
}
