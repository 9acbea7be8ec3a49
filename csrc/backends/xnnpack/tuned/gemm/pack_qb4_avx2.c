// pack_qb4_avx2.c — packs 4-bit weights with a scale per group in the layout that gemm_qb4_avx2.c
// describes. XNNPACK writes the scales and biases into that layout. Compiled with AVX2.
#include "backends/xnnpack/tuned/gemm/gemm_kernels.h"

#include <immintrin.h>
#include <string.h>

#include "backends/xnnpack/tuned/xnn_private.h"
#include "runtime/check.h"

enum { COLS = 16, FOUR = 4, PART = 32, STEP = 8, STEP_BYTES = 64, ZERO = 8 };
enum { PART_BYTES = PART / STEP * STEP_BYTES };

typedef struct matrix {
  const uint8_t *weights;  // two elements a byte, the first in the low nibble
  const uint16_t *scales;  // bfloat16
  size_t n_cols, n_k, group;
  float factor;
} matrix;

// Four columns, every second one, of which `n` exist.
typedef struct four_columns {
  const uint8_t *columns[FOUR];
  const uint16_t *scales[FOUR];
  size_t n;
} four_columns;

static four_columns columns_at(const matrix *m, size_t first) {
  four_columns q = {.n = 0};
  for (size_t c = first; q.n < FOUR && c < m->n_cols; c += 2, q.n++) {
    q.columns[q.n] = m->weights + c * m->n_k / 2;
    q.scales[q.n] = m->scales + c * (m->n_k / m->group);
  }
  return q;
}

static __m128i low_nibbles(__m128i bytes) {
  return _mm_and_si128(bytes, _mm_set1_epi8(0x0f));
}

// 32 elements of a column: for each step 4 bytes, whose low nibbles are the first four elements.
static __m128i load_steps(const uint8_t *column) {
  const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)column);
  const __m128i even = low_nibbles(bytes), odd = low_nibbles(_mm_srli_epi16(bytes, 4));
  const __m128 first = _mm_castsi128_ps(_mm_unpacklo_epi8(even, odd));
  const __m128 last = _mm_castsi128_ps(_mm_unpackhi_epi8(even, odd));
  const __m128i lower = _mm_castps_si128(_mm_shuffle_ps(first, last, 0x88));
  const __m128i upper = _mm_castps_si128(_mm_shuffle_ps(first, last, 0xdd));
  return _mm_or_si128(lower, _mm_slli_epi16(upper, 4));
}

// The sum of a step's elements for each column.
static __m128 sums_of(__m128i step) {
  const __m128i one = _mm_set1_epi8(1);
  const __m128i low = _mm_maddubs_epi16(low_nibbles(step), one);
  const __m128i high = _mm_maddubs_epi16(low_nibbles(_mm_srli_epi16(step, 4)), one);
  const __m128i sums = _mm_madd_epi16(_mm_add_epi16(low, high), _mm_set1_epi16(1));
  return _mm_cvtepi32_ps(_mm_sub_epi32(sums, _mm_set1_epi32(ZERO * STEP)));
}

// Packs a part of four columns; returns `init` less their sums, rounded in XNNPACK's order.
static __m128 pack_part(const four_columns *q, size_t k, __m128 init, __m128 scales, __m128 factor,
                        uint8_t *to) {
  __m128 steps[FOUR];
  for (size_t c = 0; c < FOUR; c++)
    steps[c] = c < q->n ? _mm_castsi128_ps(load_steps(q->columns[c] + k / 2)) : _mm_setzero_ps();
  _MM_TRANSPOSE4_PS(steps[0], steps[1], steps[2], steps[3]);
  for (size_t s = 0; s < FOUR; s++, to += STEP_BYTES) {
    const __m128i step = _mm_castps_si128(steps[s]);
    _mm_storeu_si128((__m128i *)(void *)to, step);
    init = _mm_sub_ps(init, _mm_mul_ps(_mm_mul_ps(sums_of(step), factor), scales));
  }
  return init;
}

// The scales of a group; 0 for columns that do not exist.
static __m128 load_scales(const four_columns *q, size_t group) {
  uint32_t bits[FOUR] = {0};
  for (size_t c = 0; c < q->n; c++) bits[c] = (uint32_t)q->scales[c][group] << 16;
  return _mm_castsi128_ps(_mm_loadu_si128((const __m128i *)(const void *)bits));
}

static void pack_columns(const matrix *m, size_t first, size_t group_bytes, float *init,
                         uint8_t *to) {
  const four_columns q = columns_at(m, first);
  const __m128 factor = _mm_set1_ps(m->factor);
  __m128 left = _mm_setzero_ps();
  for (size_t g = 0; g < m->n_k / m->group; g++, to += group_bytes) {
    const __m128 scales = load_scales(&q, g);
    for (size_t k = 0; k < m->group; k += PART)
      left = pack_part(&q, g * m->group + k, left, scales, factor, to + k / PART * PART_BYTES);
  }
  _mm_storeu_ps(init, left);
}

void eti_xnn_qb4_pack_goi__avx2(size_t n_groups, size_t n_cols, size_t n_k, size_t nr, size_t kr,
                                size_t sr, size_t group, const void *weights, const void *bias,
                                const void *scales, void *packed, size_t extra_group_bytes,
                                size_t extra_bytes, const void *params) {
  const struct xnn_qs8_qc4w_packing_params *const zeros = params;
  ET_ASSERT(n_groups == 1 && nr == COLS && kr == STEP && sr == 1 && bias == NULL);
  ET_ASSERT(n_cols > 0 && n_k > 0 && weights != NULL && scales != NULL && packed != NULL);
  ET_ASSERT(group % PART == 0 && n_k % group == 0 && zeros->kernel_zero_point == ZERO);
  (void)n_groups, (void)nr, (void)kr, (void)sr, (void)bias;
  const matrix m = {weights, scales, n_cols, n_k, group, (float)zeros->input_zero_point};
  const size_t group_bytes = group / PART * PART_BYTES + extra_group_bytes;
  uint8_t *to = packed;
  for (size_t first = 0; first < n_cols; first += COLS) {
    float *const init = (float *)(void *)to;
    to += COLS * sizeof(float);
    for (size_t i = 0; i < FOUR; i++)  // 0, 2, … 6, then 8, … 14, then 1, … 7, then 9, … 15
      pack_columns(&m, first + i % 2 * 8 + i / 2, group_bytes, init + i * FOUR,
                   to + i * sizeof(__m128));
    to += n_k / group * group_bytes + extra_bytes;
  }
}
