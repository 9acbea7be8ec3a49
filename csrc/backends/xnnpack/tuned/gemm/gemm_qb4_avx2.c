// gemm_qb4_avx2.c — gemm of rows quantized at run time by 4-bit weights with a scale per group of
// k, for XNNPACK's operators: gemm_kernels.h says when it is used. Compiled with AVX2 and FMA.
//
// The integer arithmetic is that of kernels/micro/qgemm/q4_dot_avx2.h. The sums of groups are
// scaled and added in f32 by fused multiply-adds as in XNNPACK's kernel, group by group, as a
// sixteenth of their value.
//
// A one-row product is compute-bound, not bandwidth-bound: of the 64 instructions for 32 elements
// of 16 columns, 24 unpack nibbles and 32 multiply and add. Weights are read from memory nearly as
// fast as by loads alone; manual prefetching made it slower (docs/benchmarks.md).
//
// Weights are packed by pack_qb4_avx2.c: for every 16 columns a float each, the even columns before
// the odd ones; then for each group and 8 k of it 4 bytes per column, even columns first, whose low
// nibbles are the first four k. A group is followed by a bfloat16 scale per column, a sixteenth of
// the true one, in the columns' order. At the end are the biases, in that order too.
#include "backends/xnnpack/tuned/gemm/gemm_kernels.h"

#include <immintrin.h>
#include <string.h>

#include "backends/xnnpack/tuned/partial_vector_avx2.h"
#include "backends/xnnpack/tuned/xnn_private.h"
#include "kernels/micro/qgemm/q4_dot_avx2.h"
#include "runtime/bytes.h"
#include "runtime/check.h"

#define INLINE static inline __attribute__((always_inline))

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 4")
#endif

enum { ROWS = 4, COLS = 16, LANES = 8 };

// The elements that are summed in 16 bits, and those of one step: 64 bytes of weights.
enum { PART = ETI_Q4_PART, STEP = 8, STEP_BYTES = 64 };
enum { PART_BYTES = PART / STEP * STEP_BYTES, SCALES_BYTES = COLS * 2 };

// How many parts of a tile's rows have their initial sums kept on the stack.
enum { MAX_PARTS = 3072 };

// The arguments of a call, of which `panel` and `c` move on.
typedef struct product {
  const int8_t *a;
  size_t a_bytes, n_k, group;
  const uint8_t *panel;
  uint8_t *c;
  size_t row_bytes, n_cols;
  const struct xnn_f32_qb4w_minmax_params *limits;
  const struct xnn_qd8_quantization_params *scales;
  const int32_t *inits;  // initial sums of the parts of all rows, two words each
} product;

static void fill_inits(const product *p, size_t n_rows, int32_t *to) {
  for (size_t i = 0; i < n_rows; i++)
    for (size_t k = 0; k < p->n_k; k += PART)
      *to++ = eti_q4_initial_sums(p->a + i * p->a_bytes + k);
}

// ---- Products

// Two vectors for each row: of the even columns and of the odd ones.
typedef struct sums {
  __m256i of[ROWS][ETI_Q4_VECTORS];
} sums;

typedef struct floats {
  __m256 even[ROWS], odd[ROWS];
} floats;

INLINE __m256i load_weights(const uint8_t *at) {
  __m256i v = _mm256_load_si256((const __m256i *)(const void *)at);
  eti_q4_keep_order(&v);
  return v;
}

// Adds the products of 4 elements of each row, in 16 bits.
INLINE void add_four(sums *s, size_t n_rows, const int8_t *a, size_t a_bytes, __m256i even,
                     __m256i odd) {
  const __m256i weights[ETI_Q4_VECTORS] = {even, odd};
  UNROLL
  for (size_t i = 0; i < n_rows; i++) eti_q4_add_products(s->of[i], a + i * a_bytes, weights);
}

// The sums over a part, in 32 bits.
INLINE sums sums_of(size_t n_rows, bool has_inits, const product *p, size_t part,
                    const uint8_t *weights) {
  const int8_t *const a = p->a + part * PART;
  sums s;
  UNROLL
  for (size_t i = 0; i < n_rows; i++) {
    const int32_t init =
        has_inits ? p->inits[i * (p->n_k / PART) + part] : eti_q4_initial_sums(a + i * p->a_bytes);
    s.of[i][0] = s.of[i][1] = _mm256_set1_epi32(init);
  }
  UNROLL
  for (size_t k = 0; k < PART; k += STEP, weights += STEP_BYTES) {
    const __m256i even = load_weights(weights), odd = load_weights(weights + STEP_BYTES / 2);
    add_four(&s, n_rows, a + k, p->a_bytes, eti_q4_low(even), eti_q4_low(odd));
    add_four(&s, n_rows, a + k + 4, p->a_bytes, eti_q4_high(even), eti_q4_high(odd));
  }
  UNROLL
  for (size_t i = 0; i < n_rows; i++) {
    s.of[i][0] = eti_q4_widen(s.of[i][0]);
    s.of[i][1] = eti_q4_widen(s.of[i][1]);
  }
  return s;
}

// Adds the sums over the group that begins with `part`, times the group's scales.
INLINE void add_group(floats *f, size_t n_rows, bool has_inits, const product *p, size_t part,
                      const uint8_t *weights) {
  sums s = sums_of(n_rows, has_inits, p, part, weights);
  weights += PART_BYTES;
  for (size_t k = PART; k < p->group; k += PART, weights += PART_BYTES) {
    const sums more = sums_of(n_rows, has_inits, p, part + k / PART, weights);
    UNROLL
    for (size_t i = 0; i < n_rows; i++) {
      s.of[i][0] = _mm256_add_epi32(s.of[i][0], more.of[i][0]);
      s.of[i][1] = _mm256_add_epi32(s.of[i][1], more.of[i][1]);
    }
  }
  const __m256i pairs = load_weights(weights), upper = _mm256_set1_epi32(INT32_MIN / 0x8000);
  const __m256 even = _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
  const __m256 odd = _mm256_castsi256_ps(_mm256_and_si256(pairs, upper));
  UNROLL
  for (size_t i = 0; i < n_rows; i++) {
    f->even[i] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(s.of[i][0]), even, f->even[i]);
    f->odd[i] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(s.of[i][1]), odd, f->odd[i]);
  }
}

// ---- Results

INLINE void store_8(float *c, size_t n_cols, __m256 sum, const float *bias, float scale,
                    const product *p) {
  const __m256 row = _mm256_set1_ps(scale), whole = _mm256_mul_ps(sum, _mm256_set1_ps(16.0f));
  const __m256 v = _mm256_fmadd_ps(whole, row, _mm256_loadu_ps(bias));
  const __m256 least = _mm256_set1_ps(p->limits->scalar.min);
  const __m256 most = _mm256_set1_ps(p->limits->scalar.max);
  eti_store_some(c, _mm256_min_ps(_mm256_max_ps(v, least), most), n_cols);
}

INLINE void store_row(float *c, __m256 even, __m256 odd, const float *bias, float scale,
                      const product *p) {
  const __m256 low = _mm256_unpacklo_ps(even, odd), high = _mm256_unpackhi_ps(even, odd);
  store_8(c, p->n_cols, _mm256_permute2f128_ps(low, high, 0x20), bias, scale, p);
  if (p->n_cols <= LANES) return;
  c += LANES, bias += LANES;
  store_8(c, p->n_cols - LANES, _mm256_permute2f128_ps(low, high, 0x31), bias, scale, p);
}

INLINE void multiply_tile(size_t n_rows, bool has_inits, const product *p) {
  const float *const init = (const float *)(const void *)p->panel;
  floats f;
  UNROLL
  for (size_t i = 0; i < n_rows; i++) {
    const __m256 zero_point = _mm256_set1_ps((float)p->scales[i].zero_point / 16.0f);
    f.even[i] = _mm256_mul_ps(_mm256_loadu_ps(init), zero_point);
    f.odd[i] = _mm256_mul_ps(_mm256_loadu_ps(init + LANES), zero_point);
  }
  const uint8_t *weights = p->panel + COLS * sizeof(float);
  const size_t parts = p->group / PART;
  for (size_t part = 0; part < p->n_k / PART; part += parts) {
    add_group(&f, n_rows, has_inits, p, part, weights);
    weights += parts * PART_BYTES + SCALES_BYTES;
  }
  const float *const bias = (const float *)(const void *)weights;
  UNROLL
  for (size_t i = 0; i < n_rows; i++) {
    float *const c = (float *)(void *)(p->c + i * p->row_bytes);
    store_row(c, f.even[i], f.odd[i], bias, p->scales[i].inv_scale, p);
  }
}

// A table, so that each is a separate function with all registers available.
static void multiply_1_row(const product *p) {
  multiply_tile(1, true, p);
}

static void multiply_2_rows(const product *p) {
  multiply_tile(2, true, p);
}

static void multiply_3_rows(const product *p) {
  multiply_tile(3, true, p);
}

static void multiply_4_rows(const product *p) {
  multiply_tile(4, true, p);
}

// A row with more parts than MAX_PARTS.
static void multiply_long_row(const product *p) {
  multiply_tile(1, false, p);
}

static void (*const tiles[ROWS + 1])(const product *) = {
    multiply_long_row, multiply_1_row, multiply_2_rows, multiply_3_rows, multiply_4_rows};

static size_t min_of(size_t a, size_t b) {
  return a < b ? a : b;
}

void eti_xnn_qb4_gemm_6x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, const void *a,
                                 size_t a_bytes, const void *w, void *c, size_t row_bytes,
                                 size_t panel_bytes, const void *limits,
                                 const struct xnn_qd8_quantization_params *scales) {
  const struct xnn_f32_qb4w_minmax_params *const params = limits;
  const size_t group = params->scalar.blocksize, n_groups = n_k / group;
  ET_ASSERT(n_rows > 0 && n_cols > 0 && n_groups > 0 && group % PART == 0 && n_k % group == 0);
  ET_ASSERT(a != NULL && w != NULL && c != NULL && scales != NULL);
  ET_ASSERT(eti_is_aligned(w, LANES * sizeof(float)));
  const size_t stride =
      COLS * 2 * sizeof(float) + n_k / PART * PART_BYTES + n_groups * SCALES_BYTES;
  int32_t inits[MAX_PARTS];
  product p = {.a_bytes = a_bytes, .n_k = n_k, .group = group, .inits = inits};
  p.row_bytes = row_bytes, p.limits = params;
  const size_t rows_kept = min_of(MAX_PARTS / (n_k / PART), ROWS);
  for (size_t i = 0, n; i < n_rows; i += n) {
    n = rows_kept == 0 ? 1 : min_of(n_rows - i, rows_kept);
    p.a = (const int8_t *)a + i * a_bytes;
    p.scales = scales + i;
    if (rows_kept > 0) fill_inits(&p, n, inits);
    for (size_t j = 0; j < n_cols; j += COLS) {
      p.panel = (const uint8_t *)w + j / COLS * stride;
      p.c = (uint8_t *)c + i * row_bytes + j / COLS * panel_bytes;
      p.n_cols = n_cols - j;
      tiles[rows_kept == 0 ? 0 : n](&p);
    }
  }
}
