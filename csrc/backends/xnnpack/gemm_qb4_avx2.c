// gemm_qb4_avx2.c — products of rows that are quantized at run time and weights of 4 bits with a
// scale for each group of a row's elements, for XNNPACK's operators: see kernels.h for when it is
// used. Compiled with AVX2 and FMA.
//
// The instruction at work multiplies unsigned bytes by signed ones and adds pairs of products, in
// 16 bits. Weights take part as 0 to 15, 8 too much: a pair is at most 2 * 15 * 128, eight of them
// fit in 16 bits, and so 32 elements are added before they are widened to 32. What is too much, 8
// times the sum of a group's elements, is taken off once for 16 columns. Sums of a group are exact;
// they are added as floats, group by group.
//
// The weights lie as XNNPACK packs them with nr = 16, kr = 4: for every 16 columns a float each,
// then for each group and 8 k of it 4 bytes a column, whose low halves are the first four k; behind
// a group a scale of bfloat16 a column, a sixteenth of the true one; at the end the biases.
#include "backends/xnnpack/kernels.h"
#include "backends/xnnpack/store_avx2.h"

#include <immintrin.h>
#include <string.h>
#include <xnnpack/microparams.h>

#include "runtime/check.h"

#define INLINE static inline __attribute__((always_inline))

// Loops over a block's rows are unrolled before all else, and steps are not: gcc keeps sums in
// memory otherwise, or all that is to be added to them.
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#define ROLLED _Pragma("clang loop unroll(disable)")
#else
#define UNROLL _Pragma("GCC unroll 6")
#define ROLLED _Pragma("GCC unroll 1")
#endif

enum { ROWS = ETI_XNN_GEMM_ROWS, COLS = 16, LANES = 8 };

// Elements that are summed in 16 bits, and those of one step: 64 bytes of weights.
enum { K_IN_16_BITS = 32, K_STEP = 8, STEP_BYTES = 64, SCALES_BYTES = COLS * 2 };

// For how many groups of a row the sums are kept. Longer rows have them summed for each 16 columns.
enum { GROUPS_MOST = 512 };

enum { BYTES_AHEAD = 1024 };

// What a call is given, of which `panel` and `c` move on.
typedef struct product {
  const int8_t *a;
  size_t a_bytes, n_k, group;
  const uint8_t *panel;
  uint8_t *c;
  size_t row_bytes, n_cols;
  const struct xnn_f32_qb4w_minmax_params *limits;
  const struct xnn_qd8_quantization_params *scales;
  int32_t surplus[ROWS][GROUPS_MOST];  // 8 times the sums of groups
} product;

// ---- Sums of groups

static int32_t sum_of(const int8_t *a, size_t n) {
  __m256i sum = _mm256_setzero_si256();
  for (size_t k = 0; k < n; k += K_IN_16_BITS) {
    const __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)(a + k));
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
  half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(half, _mm_shuffle_epi32(half, 0xb1)));
}

static void sum_groups(product *p, size_t n_rows, size_t first, size_t n) {
  for (size_t i = 0; i < n_rows; i++)
    for (size_t g = 0; g < n; g++)
      p->surplus[i][g] = 8 * sum_of(p->a + i * p->a_bytes + (first + g) * p->group, p->group);
}

// ---- Products

typedef struct block {
  __m256 floats[2][ROWS];
} block;

INLINE __m256i four_at(const int8_t *a) {
  int32_t four;
  memcpy(&four, a, sizeof four);
  return _mm256_set1_epi32(four);
}

// 8 columns of weights: the bytes of 4 k, and of the 4 behind them.
INLINE __m256i low_of(__m256i weights) {
  return _mm256_and_si256(weights, _mm256_set1_epi8(0x0f));
}

INLINE __m256i high_of(__m256i weights) {
  return low_of(_mm256_srli_epi16(weights, 4));
}

INLINE __m256i weights_at(const uint8_t *at) {
  const __m256i signed_halves = _mm256_load_si256((const __m256i *)(const void *)at);
  return _mm256_xor_si256(signed_halves, _mm256_set1_epi8((char)0x88));
}

// Adds 32 elements of each row to sums of 32 bits, for 8 of 16 columns: more of them would not fit
// in registers.
INLINE void add_32(__m256i *sums, size_t n_rows, const int8_t *a, size_t a_bytes,
                   const uint8_t *weights) {
  __m256i words[ROWS];
  UNROLL
  for (size_t i = 0; i < n_rows; i++) words[i] = _mm256_setzero_si256();
  ROLLED
  for (size_t k = 0; k < K_IN_16_BITS; k += K_STEP, weights += STEP_BYTES) {
    _mm_prefetch((const char *)(weights + BYTES_AHEAD), _MM_HINT_T0);
    const __m256i w = weights_at(weights), low = low_of(w), high = high_of(w);
    UNROLL
    for (size_t i = 0; i < n_rows; i++) {
      const int8_t *const at = a + i * a_bytes + k;
      words[i] = _mm256_add_epi16(words[i], _mm256_maddubs_epi16(low, four_at(at)));
      words[i] = _mm256_add_epi16(words[i], _mm256_maddubs_epi16(high, four_at(at + 4)));
    }
  }
  UNROLL
  for (size_t i = 0; i < n_rows; i++) {
    const __m256i sum = _mm256_madd_epi16(words[i], _mm256_set1_epi16(1));
    sums[i] = _mm256_add_epi32(sums[i], sum);
  }
}

INLINE __m256 scales_at(const uint8_t *at) {
  const __m128i halves = _mm_loadu_si128((const __m128i *)(const void *)at);
  const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16);
  return _mm256_mul_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(16.0f));
}

// Adds n groups from the `first` on, whose weights begin at `weights`.
INLINE void add_groups(block *b, size_t n_rows, bool is_half, const product *p, size_t first,
                       size_t n, const uint8_t *weights) {
  const int8_t *a = p->a + first * p->group;
  const size_t group_bytes = p->group / K_STEP * STEP_BYTES;
  for (size_t g = 0; g < n; g++, a += p->group, weights += group_bytes + SCALES_BYTES) {
    for (size_t h = 0; h < (is_half ? 1 : 2); h++) {
      __m256i sums[ROWS];
      UNROLL
      for (size_t i = 0; i < n_rows; i++) sums[i] = _mm256_set1_epi32(-p->surplus[i][g]);
      const uint8_t *at = weights + h * STEP_BYTES / 2;
      for (size_t k = 0; k < p->group; k += K_IN_16_BITS) {
        add_32(sums, n_rows, a + k, p->a_bytes, at);
        at += K_IN_16_BITS / K_STEP * STEP_BYTES;
      }
      const __m256 scales = scales_at(weights + group_bytes + h * SCALES_BYTES / 2);
      UNROLL
      for (size_t i = 0; i < n_rows; i++)
        b->floats[h][i] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[i]), scales, b->floats[h][i]);
    }
  }
}

// ---- Results

INLINE __m256 result_of(__m256 sum, __m256 row, const float *bias, const product *p) {
  const __m256 v = _mm256_fmadd_ps(sum, row, _mm256_loadu_ps(bias));
  const __m256 least = _mm256_set1_ps(p->limits->scalar.min);
  return _mm256_min_ps(_mm256_max_ps(v, least), _mm256_set1_ps(p->limits->scalar.max));
}

INLINE void panel(size_t n_rows, bool is_half, product *p, bool are_sums_kept) {
  const float *const init = (const float *)(const void *)p->panel;
  block b;
  UNROLL
  for (size_t i = 0; i < n_rows; i++) {
    const __m256 zero_point = _mm256_set1_ps((float)p->scales[i].zero_point);
    b.floats[0][i] = _mm256_mul_ps(_mm256_loadu_ps(init), zero_point);
    b.floats[1][i] = _mm256_mul_ps(_mm256_loadu_ps(init + LANES), zero_point);
  }
  const size_t n_groups = p->n_k / p->group;
  const size_t group_bytes = p->group / K_STEP * STEP_BYTES + SCALES_BYTES;
  const uint8_t *const weights = p->panel + COLS * sizeof(float);
  for (size_t g = 0; g < n_groups; g += GROUPS_MOST) {
    const size_t n = n_groups - g < GROUPS_MOST ? n_groups - g : GROUPS_MOST;
    if (!are_sums_kept) sum_groups(p, n_rows, g, n);
    add_groups(&b, n_rows, is_half, p, g, n, weights + g * group_bytes);
  }
  const float *const bias = (const float *)(const void *)(weights + n_groups * group_bytes);
  UNROLL
  for (size_t i = 0; i < n_rows; i++) {
    float *const c = (float *)(void *)(p->c + i * p->row_bytes);
    const __m256 row = _mm256_set1_ps(p->scales[i].inv_scale);
    eti_store_some(c, result_of(b.floats[0][i], row, bias, p), p->n_cols);
    if (is_half) continue;
    eti_store_some(c + LANES, result_of(b.floats[1][i], row, bias + LANES, p), p->n_cols - LANES);
  }
}

static void panel_of(size_t n_rows, product *p, bool are_sums_kept) {
  const bool is_half = p->n_cols <= LANES;
  switch (n_rows) {
    case 1:
      is_half ? panel(1, true, p, are_sums_kept) : panel(1, false, p, are_sums_kept);
      break;
    case 2:
      is_half ? panel(2, true, p, are_sums_kept) : panel(2, false, p, are_sums_kept);
      break;
    case 3:
      is_half ? panel(3, true, p, are_sums_kept) : panel(3, false, p, are_sums_kept);
      break;
    case 4:
      is_half ? panel(4, true, p, are_sums_kept) : panel(4, false, p, are_sums_kept);
      break;
    case 5:
      is_half ? panel(5, true, p, are_sums_kept) : panel(5, false, p, are_sums_kept);
      break;
    default:
      is_half ? panel(ROWS, true, p, are_sums_kept) : panel(ROWS, false, p, are_sums_kept);
  }
}

void eti_xnn_qb4_gemm_6x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, const void *a,
                                 size_t a_bytes, const void *w, void *c, size_t row_bytes,
                                 size_t panel_bytes, const void *limits,
                                 const struct xnn_qd8_quantization_params *scales) {
  const struct xnn_f32_qb4w_minmax_params *const params = limits;
  const size_t group = params->scalar.blocksize, n_groups = n_k / group;
  ET_ASSERT(n_rows > 0 && n_cols > 0 && n_groups > 0 && group % K_IN_16_BITS == 0);
  const size_t stride =
      COLS * 2 * sizeof(float) + n_groups * (group / K_STEP * STEP_BYTES + SCALES_BYTES);
  product p;
  p.a_bytes = a_bytes, p.n_k = n_k, p.group = group;
  p.row_bytes = row_bytes, p.limits = params;
  for (size_t i = 0, n; i < n_rows; i += n) {
    n = n_rows - i < ROWS ? n_rows - i : ROWS;
    p.a = (const int8_t *)a + i * a_bytes;
    p.scales = scales + i;
    const bool are_sums_kept = n_groups <= GROUPS_MOST;
    if (are_sums_kept) sum_groups(&p, n, 0, n_groups);
    for (size_t j = 0; j < n_cols; j += COLS) {
      p.panel = (const uint8_t *)w + j / COLS * stride;
      p.c = (uint8_t *)c + i * row_bytes + j / COLS * panel_bytes;
      p.n_cols = n_cols - j;
      panel_of(n, &p, are_sums_kept);
    }
  }
}
