// gemm_q8_avx2.c — int8 gemm and igemm for XNNPACK's operators, on 256-bit vectors of processors
// without dot products of bytes (VNNI): gemm_kernels.h says when they are used. Compiled with AVX2
// and FMA.
//
// gemm_q8_schedule.h says which instruction multiplies which k4 blocks of the weights. Rows are
// first packed on the stack: plus 128 for narrow blocks, as 16-bit integers for wide ones. A tile
// of 6 rows x 16 columns keeps 12 sums in registers.
//
// Rows that do not fit this memory are processed in slices, between which the sums of 256 columns
// are kept in memory. Sums are int32, exact in any order: results are the bits of XNNPACK's
// kernels.
//
// Weights are packed as by XNNPACK with nr = 16, kr = 4: for every 16 columns an int32 each, then
// the k4 blocks, then the scales and, for f32 results, the biases. The int32 is the initial sum if
// results are int8. If they are f32, it is minus the sum of the weights.
#include "backends/xnnpack/tuned/gemm/gemm_kernels.h"

#include <immintrin.h>
#include <stdalign.h>
#include <string.h>

#include "backends/xnnpack/tuned/gemm/gemm_q8_schedule.h"
#include "backends/xnnpack/tuned/gemm/pack_lhs_q8_avx2.h"
#include "backends/xnnpack/tuned/partial_vector_avx2.h"
#include "backends/xnnpack/tuned/xnn_private.h"
#include "runtime/check.h"

#define INLINE static inline __attribute__((always_inline))

// Loops over a tile's rows are unrolled before other optimizations: otherwise gcc keeps the sums in
// memory.
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 6")
#endif

enum { ROWS = ETI_XNN_GEMM_ROWS, COLS = 16, LANES = 8, PITCH = ETI_LHS_PITCH };

// How many panels are multiplied by a slice of rows before the next slice.
enum { PANELS = 16 };

// How many bytes ahead of their use weights are prefetched.
enum { BYTES_AHEAD = 512, LINE_BYTES = 64 };

enum { HEAD = ETI_XNN_Q8_LIST_HEAD };

// The sums of a tile of 6 rows x 16 columns.
typedef struct tile {
  __m256i of[ROWS][2];
} tile;

typedef struct target {
  uint8_t *c;
  size_t row_bytes, panel_bytes;
  const void *limits;
  const struct xnn_qd8_quantization_params *scales;  // of the rows; NULL: results are int8
  size_t scales_step;                                // 0: all rows have the same
} target;

// The arguments of a tile: a slice of its rows, the weights of a panel from that slice on, and the
// memory of earlier and new sums.
typedef struct step {
  const int16_t *words;    // rows for wide blocks, of which each is k, k + 2, k + 1, k + 3
  const uint8_t *bytes;    // rows for narrow blocks
  const int32_t *offsets;  // what the 128 adds to the sums; NULL: all blocks are wide
  const uint16_t *list;    // the slice's blocks, as in a record of the schedule; or NULL as well
  size_t n_blocks;
  const int8_t *weights;
  const int32_t *init;   // of the panel
  const float *factors;  // of the panel, if the sums are complete; else NULL
  int32_t *kept;         // the sums of earlier slices, and of this if more follow
  bool is_first;
  size_t n_cols;
  const target *to;
  uint8_t *c;
  const struct xnn_qd8_quantization_params *scales;
} step;

INLINE __m256i load_weights(const int8_t *at) {
  return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

// ---- Sums

INLINE __m256i load_ints(const int32_t *at) {
  return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

INLINE void begin_sums(tile *b, size_t n_rows, const step *s) {
  UNROLL
  for (size_t i = 0; i < n_rows; i++) {
    if (!s->is_first) {
      b->of[i][0] = load_ints(s->kept + i * COLS);
      b->of[i][1] = load_ints(s->kept + i * COLS + LANES);
    } else {
      b->of[i][0] = load_ints(s->init);
      b->of[i][1] = load_ints(s->init + LANES);
      if (s->scales != NULL) {
        const __m256i zero_point = _mm256_set1_epi32(s->scales[i * s->to->scales_step].zero_point);
        b->of[i][0] = _mm256_mullo_epi32(b->of[i][0], zero_point);
        b->of[i][1] = _mm256_mullo_epi32(b->of[i][1], zero_point);
      }
      if (s->offsets != NULL) {
        b->of[i][0] = _mm256_sub_epi32(b->of[i][0], load_ints(s->offsets));
        b->of[i][1] = _mm256_sub_epi32(b->of[i][1], load_ints(s->offsets + LANES));
      }
    }
  }
}

INLINE __m256i broadcast(const void *four_bytes) {
  int32_t x;
  memcpy(&x, four_bytes, sizeof x);
  return _mm256_set1_epi32(x);
}

// Inline assembly: otherwise gcc reorders additions of integers and runs out of registers.
INLINE __m256i add_ints(__m256i a, __m256i b) {
  __asm__("vpaddd %1, %0, %0" : "+x"(a) : "x"(b));
  return a;
}

INLINE __m256i add_words(__m256i a, __m256i b) {
  __asm__("vpaddw %1, %0, %0" : "+x"(a) : "x"(b));
  return a;
}

// Elements 0 and 2 of k4 blocks as 16-bit integers, or elements 1 and 3.
INLINE __m256i half_of(__m256i w, size_t odd) {
  return _mm256_srai_epi16(odd ? w : _mm256_slli_epi16(w, 8), 8);
}

// Adds the products of n wide blocks, or without a list (NULL) of the first n: elements 0 and 2,
// then elements 1 and 3. There are too few registers, so the weights are loaded again.
INLINE void add_wide(tile *b, size_t n_rows, bool is_half, const uint16_t *at, size_t n,
                     const step *s) {
  const int16_t *rows = s->words;
  const int8_t *weights = s->weights;
  for (size_t k = 0; k < n; k++, rows += 4, weights += 4 * COLS) {
    if (at != NULL) {
      rows = s->words + at[k];
      weights = s->weights + (size_t)at[k] * COLS;
    }
    _mm_prefetch((const char *)(weights + BYTES_AHEAD), _MM_HINT_T0);
    UNROLL
    for (size_t odd = 0; odd < 2; odd++) {
      __asm__ volatile("" ::: "memory");
      const __m256i w0 = half_of(load_weights(weights), odd);
      const __m256i w1 = half_of(load_weights(weights + 2 * COLS), odd);
      UNROLL
      for (size_t i = 0; i < n_rows; i++) {
        const __m256i a = broadcast(rows + i * PITCH + 2 * odd);
        b->of[i][0] = add_ints(b->of[i][0], _mm256_madd_epi16(a, w0));
        if (!is_half) b->of[i][1] = add_ints(b->of[i][1], _mm256_madd_epi16(a, w1));
      }
    }
  }
}

// Adds the products of n narrow blocks, or pairs of them. The empty asm hides the addresses of the
// rows: otherwise gcc computes an address for each.
INLINE void add_narrow(tile *b, size_t n_rows, bool is_half, bool is_pair, const uint16_t *at,
                       size_t n, const step *s) {
  const __m256i ones = _mm256_set1_epi16(1);
  const size_t each = is_pair ? 2 : 1;
  for (const uint16_t *const end = at + n * each; at < end; at += each) {
    const uint8_t *rows0 = s->bytes + at[0], *rows1 = s->bytes + at[each - 1];
    const int8_t *weights0 = s->weights + (size_t)at[0] * COLS;
    const int8_t *weights1 = s->weights + (size_t)at[each - 1] * COLS;
    _mm_prefetch((const char *)(weights0 + BYTES_AHEAD), _MM_HINT_T0);
    UNROLL
    for (size_t h = 0; h < 2; h++, weights0 += 2 * COLS, weights1 += 2 * COLS) {
      if (is_half && h == 1) continue;
      __asm__ volatile("" : "+r"(rows0), "+r"(rows1) : : "memory");
      const __m256i w0 = load_weights(weights0), w1 = load_weights(weights1);
      UNROLL
      for (size_t i = 0; i < n_rows; i++) {
        __m256i sum = _mm256_maddubs_epi16(broadcast(rows0 + i * PITCH), w0);
        if (is_pair) sum = add_words(sum, _mm256_maddubs_epi16(broadcast(rows1 + i * PITCH), w1));
        b->of[i][h] = add_ints(b->of[i][h], _mm256_madd_epi16(sum, ones));
      }
    }
  }
}

INLINE void sum_up(tile *b, size_t n_rows, bool is_half, const step *s) {
  begin_sums(b, n_rows, s);
  if (s->list == NULL) {
    add_wide(b, n_rows, is_half, NULL, s->n_blocks, s);
    return;
  }
  const size_t n_pairs = s->list[0], n_ones = s->list[1], n_wide = s->list[2];
  const uint16_t *const pairs = s->list + HEAD, *const ones = pairs + 2 * n_pairs;
  add_narrow(b, n_rows, is_half, true, pairs, n_pairs, s);
  add_narrow(b, n_rows, is_half, false, ones, n_ones, s);
  add_wide(b, n_rows, is_half, ones + n_ones, n_wide, s);
}

// Stores the sums of sum_up in memory.
INLINE void sum_up_to(tile *to, size_t n_rows, bool is_half, const step *s) {
  tile b;
  sum_up(&b, n_rows, is_half, s);
  UNROLL
  for (size_t i = 0; i < n_rows; i++) {  // one by one: gcc copies structs with a slow instruction
    to->of[i][0] = b.of[i][0];
    to->of[i][1] = b.of[i][1];
  }
}

INLINE void sum_up_rows(tile *to, size_t n_rows, const step *s) {
  if (s->n_cols <= LANES)
    sum_up_to(to, n_rows, true, s);
  else
    sum_up_to(to, n_rows, false, s);
}

// Tiles of fewer rows or columns, which are rare.
static void sum_up_some(tile *to, size_t n_rows, const step *s) {
  switch (n_rows) {
    case 1:
      sum_up_rows(to, 1, s);
      break;
    case 2:
      sum_up_rows(to, 2, s);
      break;
    case 3:
      sum_up_rows(to, 3, s);
      break;
    case 4:
      sum_up_rows(to, 4, s);
      break;
    case 5:
      sum_up_rows(to, 5, s);
      break;
    default:
      sum_up_to(to, ROWS, true, s);
  }
}

INLINE void keep_sums(const tile *b, size_t n_rows, const step *s) {
  UNROLL
  for (size_t i = 0; i < n_rows; i++) {
    _mm256_storeu_si256((__m256i *)(void *)(s->kept + i * COLS), b->of[i][0]);
    _mm256_storeu_si256((__m256i *)(void *)(s->kept + i * COLS + LANES), b->of[i][1]);
  }
}

// ---- Results

// The first n of 16 bytes; all of them if n is greater.
INLINE void store_bytes(uint8_t *at, __m128i v, size_t n) {
  if (n >= COLS) {
    _mm_storeu_si128((__m128i *)(void *)at, v);
    return;
  }
  if (n & 8) {
    _mm_storel_epi64((__m128i *)(void *)at, v);
    v = _mm_srli_si128(v, 8);
    at += 8;
  }
  uint64_t left = (uint64_t)_mm_cvtsi128_si64(v);
  for (size_t bytes = 4; bytes > 0; bytes /= 2) {
    if ((n & bytes) == 0) continue;
    memcpy(at, &left, bytes);
    left >>= bytes * 8;
    at += bytes;
  }
}

// The constants of requantization to int8.
typedef struct rounding {
  __m256 factors[2], most;
  __m256i offset, least;
} rounding;

INLINE rounding rounding_of(const step *s) {
  const union xnn_qs8_qc8w_conv_minmax_params *const limits = s->to->limits;
  const int32_t zero_point = limits->fp32_scalar.output_zero_point;
  return (rounding){
      .factors = {_mm256_loadu_ps(s->factors), _mm256_loadu_ps(s->factors + LANES)},
      .most = _mm256_set1_ps((float)(limits->fp32_scalar.output_max - zero_point)),
      .offset = _mm256_set1_epi16((int16_t)zero_point),
      .least = _mm256_set1_epi8((int8_t)limits->fp32_scalar.output_min),
  };
}

INLINE __m256i scaled(__m256i sum, __m256 factor, __m256 most) {
  const __m256 product = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), factor);
  return _mm256_cvtps_epi32(_mm256_min_ps(product, most));
}

// 16 columns of a row as 16-bit integers: columns 0 to 3 and 8 to 11, then the others.
INLINE __m256i words_of(__m256i low, __m256i high, const rounding *r) {
  const __m256i l = scaled(low, r->factors[0], r->most);
  const __m256i h = scaled(high, r->factors[1], r->most);
  return _mm256_adds_epi16(_mm256_packs_epi32(l, h), r->offset);
}

INLINE __m256i bytes_of(__m256i words0, __m256i words1, const rounding *r) {
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i bytes = _mm256_max_epi8(_mm256_packs_epi16(words0, words1), r->least);
  return _mm256_permutevar8x32_epi32(bytes, order);
}

// sum * scale, rounded to even, within the limits: two rows at a time.
INLINE void finish_bytes(const tile *b, size_t n_rows, const step *s) {
  const rounding r = rounding_of(s);
  uint8_t *at = s->c;
  UNROLL
  for (size_t i = 0; i + 1 < n_rows; i += 2) {
    const __m256i rows = bytes_of(words_of(b->of[i][0], b->of[i][1], &r),
                                  words_of(b->of[i + 1][0], b->of[i + 1][1], &r), &r);
    store_bytes(at, _mm256_castsi256_si128(rows), s->n_cols);
    store_bytes(at + s->to->row_bytes, _mm256_extracti128_si256(rows, 1), s->n_cols);
    at += 2 * s->to->row_bytes;
  }
  if (n_rows % 2 == 0) return;
  const __m256i words = words_of(b->of[n_rows - 1][0], b->of[n_rows - 1][1], &r);
  store_bytes(at, _mm256_castsi256_si128(bytes_of(words, words, &r)), s->n_cols);
}

INLINE __m256 as_floats(__m256i sum, __m256 row, const float *factors, __m256 least, __m256 most) {
  const __m256 product = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), row);
  const __m256 v =
      _mm256_fmadd_ps(product, _mm256_loadu_ps(factors), _mm256_loadu_ps(factors + COLS));
  return _mm256_min_ps(_mm256_max_ps(v, least), most);
}

// sum * the row's scale * the column's + its bias, within the limits.
INLINE void finish_floats(const tile *b, size_t n_rows, const step *s) {
  const union xnn_f32_minmax_params *const limits = s->to->limits;
  const __m256 least = _mm256_set1_ps(limits->scalar.min);
  const __m256 most = _mm256_set1_ps(limits->scalar.max);
  uint8_t *at = s->c;
  UNROLL
  for (size_t i = 0; i < n_rows; i++, at += s->to->row_bytes) {
    float *const c = (float *)(void *)at;
    const __m256 row = _mm256_set1_ps(s->scales[i * s->to->scales_step].inv_scale);
    const __m256 v0 = as_floats(b->of[i][0], row, s->factors, least, most);
    eti_store_some(c, v0, s->n_cols);
    if (s->n_cols <= LANES) continue;
    const __m256 v1 = as_floats(b->of[i][1], row, s->factors + LANES, least, most);
    eti_store_some(c + LANES, v1, s->n_cols - LANES);
  }
}

INLINE void finish_tile(const tile *b, size_t n_rows, bool is_float, const step *s) {
  if (s->factors == NULL)
    keep_sums(b, n_rows, s);
  else if (is_float)
    finish_floats(b, n_rows, s);
  else
    finish_bytes(b, n_rows, s);
}

INLINE void multiply(size_t n_rows, bool is_float, const step *s) {
  if (n_rows == ROWS && s->n_cols > LANES) {
    tile b;
    sum_up(&b, ROWS, false, s);
    finish_tile(&b, ROWS, is_float, s);
  } else {
    tile in_memory;
    sum_up_some(&in_memory, n_rows, s);
    finish_tile(&in_memory, n_rows, is_float, s);
  }
}

// ---- Calls

// The weights of a call, and the record of its first panel; NULL: all blocks are wide.
typedef struct columns {
  size_t n, panel_bytes, weight_bytes;  // of a panel: all of it, its weights
  const uint8_t *first;
  const uint8_t *record;
  size_t record_bytes;
} columns;

static void find_records(columns *c, const eti_xnn_q8_schedule *schedule) {
  c->record = NULL;
  c->record_bytes = 0;
  if (schedule == NULL) return;
  const size_t panel = (size_t)(c->first - (const uint8_t *)schedule->packed) / c->panel_bytes;
  c->record_bytes = schedule->record_bytes;
  c->record = schedule->records + panel * schedule->record_bytes;
}

// Reads a byte of each cache line: weights are loaded from memory faster in their order in memory.
static void touch_lines(const uint8_t *at, size_t n_bytes) {
  for (size_t i = 0; i < n_bytes; i += LINE_BYTES) (void)*(const volatile uint8_t *)(at + i);
}

// At most 6 rows by all columns, PANELS x 16 of them at a time where the rows come in slices.
INLINE void multiply_rows(const eti_lhs *from, size_t row, size_t n_rows, const columns *w,
                          bool has_wide, bool is_float, const target *to) {
  alignas(32) int16_t words[ROWS * PITCH];
  alignas(32) uint8_t bytes[ROWS * PITCH];
  alignas(32) int32_t kept[PANELS][ROWS * COLS];
  const eti_k_slice all = eti_first_slice(from->n_k, from->n_taps);
  const bool is_whole = eti_is_last_slice(from->n_k, from->n_taps, &all);
  const size_t n_panels = (w->n + COLS - 1) / COLS;
  const size_t at_once = is_whole ? n_panels : PANELS;
  step s = {.words = words, .bytes = bytes, .to = to};
  if (is_float) s.scales = to->scales + row * to->scales_step;
  for (size_t first = 0; first < n_panels; first += at_once) {
    size_t done = 0, listed = 0;
    for (eti_k_slice p = all;; p = eti_next_slice(from->n_k, from->n_taps, p)) {
      const bool is_end = eti_is_last_slice(from->n_k, from->n_taps, &p);
      s.n_blocks = eti_slice_blocks(&p);
      if (has_wide) eti_pack_rows_i16(words, from, row, n_rows, &p);
      if (w->record != NULL) eti_pack_rows_u8(bytes, from, row, n_rows, &p);
      s.is_first = done == 0;
      for (size_t i = first; i < n_panels && i < first + at_once; i++) {
        const uint8_t *const panel = w->first + i * w->panel_bytes;
        const uint8_t *const weights = panel + COLS * sizeof(int32_t);
        s.init = (const int32_t *)(const void *)panel;
        s.weights = (const int8_t *)weights + done * 4 * COLS;
        if (w->record != NULL) {
          const uint8_t *const record = w->record + i * w->record_bytes;
          s.offsets = (const int32_t *)(const void *)record;
          s.list = (const uint16_t *)(const void *)(record + COLS * sizeof(int32_t)) + listed;
        }
        s.factors = is_end ? (const float *)(const void *)(weights + w->weight_bytes) : NULL;
        s.kept = is_whole ? NULL : kept[i - first];
        s.n_cols = w->n - i * COLS;
        s.c = to->c + row * to->row_bytes + i * to->panel_bytes;
        multiply(n_rows, is_float, &s);
      }
      if (is_end) break;
      done += s.n_blocks;
      listed += HEAD + s.n_blocks;
    }
  }
}

INLINE void multiply_all(const eti_lhs *from, size_t n_rows, size_t n_cols, const void *w,
                         bool is_float, const target *to) {
  ET_ASSERT(n_rows > 0 && n_cols > 0 && from->n_k > 0 && from->n_taps > 0);
  ET_ASSERT((from->a != NULL || from->taps != NULL) && w != NULL && to->c != NULL);
  ET_ASSERT(to->limits != NULL && is_float == (to->scales != NULL));
  const eti_xnn_q8_schedule *schedule = ((const eti_xnn_q8_params *)to->limits)->schedule;
  // With few rows the weights are the bottleneck. They are loaded fastest in their order in memory.
  if (schedule != NULL && schedule->is_scattered && n_rows < ROWS) schedule = NULL;
  const size_t others = COLS * (sizeof(int32_t) + sizeof(float) * (is_float ? 2 : 1));
  columns c;
  c.n = n_cols;
  c.weight_bytes = COLS * eti_padded_k(from->n_k) * from->n_taps;
  c.panel_bytes = others + c.weight_bytes;
  c.first = w;
  ET_ASSERT(schedule == NULL || (schedule->panel_bytes == c.panel_bytes &&
                                 schedule->n_k == from->n_k && schedule->n_taps == from->n_taps));
  find_records(&c, schedule);
  const bool has_wide = schedule == NULL || schedule->has_wide;
  if (schedule != NULL && schedule->is_scattered)
    touch_lines(w, (n_cols + COLS - 1) / COLS * c.panel_bytes);
  for (size_t i = 0, n; i < n_rows; i += n) {
    n = n_rows - i < ROWS ? n_rows - i : ROWS;
    multiply_rows(from, i, n, &c, has_wide, is_float, to);
  }
}

void eti_xnn_qs8_gemm_6x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, const void *a,
                                 size_t a_bytes, const void *w, void *c, size_t row_bytes,
                                 size_t panel_bytes, const void *limits) {
  const eti_lhs from = {.n_k = n_k, .a = a, .a_bytes = a_bytes, .n_taps = 1};
  const target to = {c, row_bytes, panel_bytes, limits, NULL, 0};
  multiply_all(&from, n_rows, n_cols, w, false, &to);
}

INLINE eti_lhs lhs_of_taps(size_t n_k, size_t taps_bytes, const void **a, size_t rows_together,
                           size_t offset_bytes, const void *zero, const void *zero_data) {
  ET_ASSERT(taps_bytes % (rows_together * sizeof *a) == 0);
  const size_t n_taps = taps_bytes / sizeof *a / rows_together;
  return (eti_lhs){.n_k = n_k,
                   .taps = (const void *const *)a,
                   .next_row = rows_together == 1 ? n_taps : 1,
                   .next_tap = rows_together,
                   .n_taps = n_taps,
                   .offset_bytes = offset_bytes,
                   .zero = zero,
                   .zero_data = zero_data};
}

void eti_xnn_qs8_igemm_6x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, size_t taps_bytes,
                                  const void **a, const void *w, void *c, size_t row_bytes,
                                  size_t panel_bytes, size_t offset_bytes, const void *zero,
                                  const void *limits) {
  const eti_lhs from = lhs_of_taps(n_k, taps_bytes, a, ROWS, offset_bytes, zero, zero);
  const target to = {c, row_bytes, panel_bytes, limits, NULL, 0};
  multiply_all(&from, n_rows, n_cols, w, false, &to);
}

void eti_xnn_qs8_igemm_1x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, size_t taps_bytes,
                                  const void **a, const void *w, void *c, size_t row_bytes,
                                  size_t panel_bytes, size_t offset_bytes, const void *zero,
                                  const void *limits) {
  const eti_lhs from = lhs_of_taps(n_k, taps_bytes, a, 1, offset_bytes, zero, zero);
  const target to = {c, row_bytes, panel_bytes, limits, NULL, 0};
  multiply_all(&from, n_rows, n_cols, w, false, &to);
}

void eti_xnn_qd8_gemm_6x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, const void *a,
                                 size_t a_bytes, const void *w, void *c, size_t row_bytes,
                                 size_t panel_bytes, const void *limits,
                                 const struct xnn_qd8_quantization_params *scales) {
  const eti_lhs from = {.n_k = n_k, .a = a, .a_bytes = a_bytes, .n_taps = 1};
  const target to = {c, row_bytes, panel_bytes, limits, scales, 1};
  multiply_all(&from, n_rows, n_cols, w, true, &to);
}

void eti_xnn_qd8_igemm_6x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, size_t taps_bytes,
                                  const void **a, const void *w, void *c, size_t row_bytes,
                                  size_t panel_bytes, size_t offset_bytes, const void *zero,
                                  const void *zero_data, const void *limits,
                                  const struct xnn_qd8_quantization_params *scales) {
  const eti_lhs from = lhs_of_taps(n_k, taps_bytes, a, ROWS, offset_bytes, zero, zero_data);
  const target to = {c, row_bytes, panel_bytes, limits, scales, 0};
  multiply_all(&from, n_rows, n_cols, w, true, &to);
}

void eti_xnn_qd8_igemm_1x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, size_t taps_bytes,
                                  const void **a, const void *w, void *c, size_t row_bytes,
                                  size_t panel_bytes, size_t offset_bytes, const void *zero,
                                  const void *zero_data, const void *limits,
                                  const struct xnn_qd8_quantization_params *scales) {
  const eti_lhs from = lhs_of_taps(n_k, taps_bytes, a, 1, offset_bytes, zero, zero_data);
  const target to = {c, row_bytes, panel_bytes, limits, scales, 0};
  multiply_all(&from, n_rows, n_cols, w, true, &to);
}
