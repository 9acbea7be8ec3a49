// gemm_q8_avx2.c — products and convolutions of int8 for XNNPACK's operators, on 256-bit vectors of
// processors without dot products of bytes: see kernels.h for when they are used. Compiled with
// AVX2 and FMA.
//
// The instruction at work multiplies pairs of 16-bit integers and adds the two products. Elements
// of six rows are widened once, into memory on the stack, and serve all columns of the call;
// weights are widened as they are read. A block of 6 rows x 16 columns keeps 12 sums in registers,
// beside two vectors of weights and a pair of a row. Rows longer than that memory come in parts,
// between which the sums of 256 columns are kept beside it. Sums are of int32, exact in any order:
// results are those of XNNPACK's kernels bit by bit.
//
// The weights lie as XNNPACK packs them with nr = 16, kr = 2: for every 16 columns an int32 each,
// then for each two k the pairs of 16 columns, then the scales and, for sums that become floats,
// the biases.
#include "backends/xnnpack/kernels.h"
#include "backends/xnnpack/store_avx2.h"

#include <immintrin.h>
#include <stdalign.h>
#include <string.h>
#include <xnnpack/microparams.h>

#include "runtime/check.h"

#define INLINE static inline __attribute__((always_inline))

// Loops over a block's rows are unrolled before all else: gcc keeps the sums in memory otherwise.
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 6")
#endif

enum { ROWS = ETI_XNN_GEMM_ROWS, COLS = 16, LANES = 8 };

// How many elements of a row are widened at once, and how far rows are apart: not by a power of
// two, as they would compete for the same places of the cache.
enum { K_MOST = 2048, PITCH = K_MOST + 32, PANELS = 16 };

// How far ahead of their use weights are fetched.
enum { BYTES_AHEAD = 512 };

typedef struct block {
  __m256i sums[ROWS][2];
} block;

typedef struct source {
  size_t n_k;  // elements of a piece
  const int8_t *a;
  size_t a_bytes;
  const void *const *pieces;  // NULL: one piece, the row of the matrix `a`
  size_t rows_together;       // of as many rows first their pieces 0, then their pieces 1, …
  size_t n_pieces, offset_bytes;
  const void *zero, *zero_data;
} source;

typedef struct target {
  uint8_t *c;
  size_t row_bytes, panel_bytes;
  const void *limits;
  const struct xnn_qd8_quantization_params *scales;  // of the rows; NULL: results are int8
  size_t scales_step;                                // 0: all rows have the same
} target;

// What one body of the kernel is given: n_k elements of some rows, the weights of a panel from
// there on, and where the sums come from and go to.
typedef struct step {
  const int16_t *rows;
  const int8_t *weights;
  size_t n_pairs;
  const int32_t *init;   // of the panel
  const float *factors;  // of the panel, if the sums are complete; else NULL
  int32_t *kept;         // the sums of earlier parts, and of this if more are to come
  bool is_first;
  size_t n_cols;
  const target *to;
  uint8_t *c;
  const struct xnn_qd8_quantization_params *scales;
} step;

static size_t even(size_t n) {
  return n + n % 2;
}

// ---- Rows

// n elements as 16-bit integers, and a 0 behind an odd number of them.
static void widen(int16_t *to, const int8_t *from, size_t n) {
  size_t i = 0;
  for (; i + COLS <= n; i += COLS) {
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
    _mm256_storeu_si256((__m256i *)(void *)(to + i), _mm256_cvtepi8_epi16(bytes));
  }
  if (i + LANES <= n) {
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)(from + i));
    _mm_storeu_si128((__m128i *)(void *)(to + i), _mm_cvtepi8_epi16(bytes));
    i += LANES;
  }
  for (; i < n; i++) to[i] = from[i];
  if (n % 2 != 0) to[n] = 0;
}

static const int8_t *piece_of(const source *s, size_t row, size_t piece) {
  if (s->pieces == NULL) return s->a + row * s->a_bytes;
  const size_t m = s->rows_together;
  const void *const at = s->pieces[(row / m * s->n_pieces + piece) * m + row % m];
  return at == s->zero ? s->zero_data : (const int8_t *)at + s->offset_bytes;
}

// A part of the elements of all pieces: whole pieces, or some elements of one.
typedef struct part {
  size_t piece, n_pieces, k, n_k;
} part;

static part first_part(const source *s) {
  const size_t padded = even(s->n_k);
  if (padded > K_MOST) return (part){0, 1, 0, K_MOST};
  const size_t n = K_MOST / padded;
  return (part){0, n < s->n_pieces ? n : s->n_pieces, 0, s->n_k};
}

static bool is_last(const source *s, const part *p) {
  return p->piece + p->n_pieces == s->n_pieces && p->k + p->n_k == s->n_k;
}

static part next_part(const source *s, part p) {
  if (p.k + p.n_k < s->n_k) {
    p.k += p.n_k;
  } else {
    p.piece += p.n_pieces;
    p.k = 0;
  }
  const size_t pieces_left = s->n_pieces - p.piece, k_left = s->n_k - p.k;
  if (p.n_pieces > pieces_left) p.n_pieces = pieces_left;
  if (s->n_k > K_MOST) p.n_k = k_left < K_MOST ? k_left : K_MOST;
  return p;
}

static void widen_rows(int16_t *rows, const source *s, size_t row, size_t n_rows, const part *p) {
  const size_t padded = even(p->n_k);
  for (size_t i = 0; i < n_rows; i++)
    for (size_t n = 0; n < p->n_pieces; n++)
      widen(rows + i * PITCH + n * padded, piece_of(s, row + i, p->piece + n) + p->k, p->n_k);
}

// ---- Sums

INLINE __m256i load_ints(const int32_t *at) {
  return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

INLINE void begin(block *b, size_t n_rows, bool is_half, bool is_float, const step *s) {
  for (size_t i = 0; i < n_rows; i++) {
    if (!s->is_first) {
      b->sums[i][0] = load_ints(s->kept + i * COLS);
      b->sums[i][1] = load_ints(s->kept + i * COLS + LANES);
    } else {
      b->sums[i][0] = load_ints(s->init);
      b->sums[i][1] = is_half ? _mm256_setzero_si256() : load_ints(s->init + LANES);
      if (is_float) {
        const __m256i zero_point = _mm256_set1_epi32(s->scales[i * s->to->scales_step].zero_point);
        b->sums[i][0] = _mm256_mullo_epi32(b->sums[i][0], zero_point);
        b->sums[i][1] = _mm256_mullo_epi32(b->sums[i][1], zero_point);
      }
    }
  }
}

INLINE __m256i weights_at(const int8_t *at) {
  return _mm256_cvtepi8_epi16(_mm_load_si128((const __m128i *)(const void *)at));
}

INLINE void accumulate(block *b, size_t n_rows, bool is_half, const step *s) {
  const int16_t *rows = s->rows;
  const int8_t *weights = s->weights;
  for (size_t k = 0; k < s->n_pairs; k++, rows += 2, weights += 2 * COLS) {
    _mm_prefetch((const char *)(weights + BYTES_AHEAD), _MM_HINT_T0);
    const __m256i w0 = weights_at(weights);
    const __m256i w1 = is_half ? _mm256_setzero_si256() : weights_at(weights + COLS);
    for (size_t i = 0; i < n_rows; i++) {
      int32_t pair;
      memcpy(&pair, rows + i * PITCH, sizeof pair);
      const __m256i a = _mm256_set1_epi32(pair);
      b->sums[i][0] = _mm256_add_epi32(b->sums[i][0], _mm256_madd_epi16(a, w0));
      if (!is_half) b->sums[i][1] = _mm256_add_epi32(b->sums[i][1], _mm256_madd_epi16(a, w1));
    }
  }
}

INLINE void keep(const block *b, size_t n_rows, const step *s) {
  for (size_t i = 0; i < n_rows; i++) {
    _mm256_storeu_si256((__m256i *)(void *)(s->kept + i * COLS), b->sums[i][0]);
    _mm256_storeu_si256((__m256i *)(void *)(s->kept + i * COLS + LANES), b->sums[i][1]);
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

// What int8 results are made with.
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

// 16 columns of a row as 16-bit integers: 0 to 3 and 8 to 11, then the others.
INLINE __m256i words_of(__m256i low, __m256i high, bool is_half, const rounding *r) {
  const __m256i l = scaled(low, r->factors[0], r->most);
  const __m256i h = is_half ? l : scaled(high, r->factors[1], r->most);
  return _mm256_adds_epi16(_mm256_packs_epi32(l, h), r->offset);
}

INLINE __m256i bytes_of(__m256i words0, __m256i words1, const rounding *r) {
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i bytes = _mm256_max_epi8(_mm256_packs_epi16(words0, words1), r->least);
  return _mm256_permutevar8x32_epi32(bytes, order);
}

// sum * scale, rounded to even, in the limits: two rows at a time.
INLINE void finish_bytes(const block *b, size_t n_rows, bool is_half, const step *s) {
  const rounding r = rounding_of(s);
  uint8_t *at = s->c;
  UNROLL
  for (size_t i = 0; i + 1 < n_rows; i += 2) {
    const __m256i rows = bytes_of(words_of(b->sums[i][0], b->sums[i][1], is_half, &r),
                                  words_of(b->sums[i + 1][0], b->sums[i + 1][1], is_half, &r), &r);
    store_bytes(at, _mm256_castsi256_si128(rows), s->n_cols);
    store_bytes(at + s->to->row_bytes, _mm256_extracti128_si256(rows, 1), s->n_cols);
    at += 2 * s->to->row_bytes;
  }
  if (n_rows % 2 == 0) return;
  const __m256i words = words_of(b->sums[n_rows - 1][0], b->sums[n_rows - 1][1], is_half, &r);
  store_bytes(at, _mm256_castsi256_si128(bytes_of(words, words, &r)), s->n_cols);
}

INLINE __m256 as_floats(__m256i sum, __m256 row, const float *factors, __m256 least, __m256 most) {
  const __m256 product = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), row);
  const __m256 v =
      _mm256_fmadd_ps(product, _mm256_loadu_ps(factors), _mm256_loadu_ps(factors + COLS));
  return _mm256_min_ps(_mm256_max_ps(v, least), most);
}

// sum * the row's scale * the column's + its bias, in the limits.
INLINE void finish_floats(const block *b, size_t n_rows, bool is_half, const step *s) {
  const union xnn_f32_minmax_params *const limits = s->to->limits;
  const __m256 least = _mm256_set1_ps(limits->scalar.min);
  const __m256 most = _mm256_set1_ps(limits->scalar.max);
  uint8_t *at = s->c;
  for (size_t i = 0; i < n_rows; i++, at += s->to->row_bytes) {
    float *const c = (float *)(void *)at;
    const __m256 row = _mm256_set1_ps(s->scales[i * s->to->scales_step].inv_scale);
    const __m256 v0 = as_floats(b->sums[i][0], row, s->factors, least, most);
    eti_store_some(c, v0, s->n_cols);
    if (is_half) continue;
    const __m256 v1 = as_floats(b->sums[i][1], row, s->factors + LANES, least, most);
    eti_store_some(c + LANES, v1, s->n_cols - LANES);
  }
}

INLINE void body(size_t n_rows, bool is_half, bool is_float, const step *s) {
  block b;
  begin(&b, n_rows, is_half, is_float, s);
  accumulate(&b, n_rows, is_half, s);
  if (s->factors == NULL)
    keep(&b, n_rows, s);
  else if (is_float)
    finish_floats(&b, n_rows, is_half, s);
  else
    finish_bytes(&b, n_rows, is_half, s);
}

INLINE void body_of(size_t n_rows, bool is_float, const step *s) {
  if (s->n_cols <= LANES)
    body(n_rows, true, is_float, s);
  else
    body(n_rows, false, is_float, s);
}

INLINE void any_rows(size_t n_rows, bool is_float, const step *s) {
  switch (n_rows) {
    case 1:
      body_of(1, is_float, s);
      break;
    case 2:
      body_of(2, is_float, s);
      break;
    case 3:
      body_of(3, is_float, s);
      break;
    case 4:
      body_of(4, is_float, s);
      break;
    case 5:
      body_of(5, is_float, s);
      break;
    default:
      body_of(ROWS, is_float, s);
  }
}

// ---- Calls

// Some rows against all columns, PANELS x 16 of them at a time where the rows come in parts.
INLINE void some_rows(const source *from, size_t row, size_t n_rows, size_t n_cols, const void *w,
                      bool is_float, const target *to) {
  alignas(32) int16_t rows[ROWS * PITCH];
  alignas(32) int32_t kept[PANELS][ROWS * COLS];
  const size_t n_k = even(from->n_k) * from->n_pieces;
  const size_t stride = COLS * (sizeof(int32_t) + n_k + sizeof(float) * (is_float ? 2 : 1));
  const part all = first_part(from);
  const bool is_whole = is_last(from, &all);
  const size_t n_panels = (n_cols + COLS - 1) / COLS;
  const size_t at_once = is_whole ? n_panels : PANELS;
  step s = {.rows = rows, .to = to};
  if (is_float) s.scales = to->scales + row * to->scales_step;
  for (size_t first = 0; first < n_panels; first += at_once) {
    size_t done = 0;
    for (part p = all;; p = next_part(from, p)) {
      widen_rows(rows, from, row, n_rows, &p);
      const bool is_end = is_last(from, &p);
      s.n_pairs = even(p.n_k) / 2 * p.n_pieces;
      s.is_first = done == 0;
      for (size_t i = first; i < n_panels && i < first + at_once; i++) {
        const uint8_t *const panel = (const uint8_t *)w + i * stride;
        const uint8_t *const weights = panel + COLS * sizeof(int32_t);
        s.init = (const int32_t *)(const void *)panel;
        s.weights = (const int8_t *)weights + done * COLS;
        s.factors = is_end ? (const float *)(const void *)(weights + n_k * COLS) : NULL;
        s.kept = is_whole ? NULL : kept[i - first];
        s.n_cols = n_cols - i * COLS;
        s.c = to->c + row * to->row_bytes + i * to->panel_bytes;
        any_rows(n_rows, is_float, &s);
      }
      if (is_end) break;
      done += 2 * s.n_pairs;
    }
  }
}

INLINE void all_rows(const source *from, size_t n_rows, size_t n_cols, const void *w, bool is_float,
                     const target *to) {
  ET_ASSERT(n_rows > 0 && n_cols > 0 && from->n_k > 0 && from->n_pieces > 0);
  for (size_t i = 0, n; i < n_rows; i += n) {
    n = n_rows - i < ROWS ? n_rows - i : ROWS;
    some_rows(from, i, n, n_cols, w, is_float, to);
  }
}

void eti_xnn_qs8_gemm_6x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, const void *a,
                                 size_t a_bytes, const void *w, void *c, size_t row_bytes,
                                 size_t panel_bytes, const void *limits) {
  const source from = {.n_k = n_k, .a = a, .a_bytes = a_bytes, .n_pieces = 1};
  const target to = {c, row_bytes, panel_bytes, limits, NULL, 0};
  all_rows(&from, n_rows, n_cols, w, false, &to);
}

INLINE source in_pieces(size_t n_k, size_t pieces_bytes, const void **a, size_t rows_together,
                        size_t offset_bytes, const void *zero, const void *zero_data) {
  const size_t n_pieces = pieces_bytes / sizeof *a / rows_together;
  return (source){.n_k = n_k,
                  .pieces = (const void *const *)a,
                  .rows_together = rows_together,
                  .n_pieces = n_pieces,
                  .offset_bytes = offset_bytes,
                  .zero = zero,
                  .zero_data = zero_data};
}

void eti_xnn_qs8_igemm_6x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, size_t pieces_bytes,
                                  const void **a, const void *w, void *c, size_t row_bytes,
                                  size_t panel_bytes, size_t offset_bytes, const void *zero,
                                  const void *limits) {
  const source from = in_pieces(n_k, pieces_bytes, a, ROWS, offset_bytes, zero, zero);
  const target to = {c, row_bytes, panel_bytes, limits, NULL, 0};
  all_rows(&from, n_rows, n_cols, w, false, &to);
}

void eti_xnn_qs8_igemm_1x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, size_t pieces_bytes,
                                  const void **a, const void *w, void *c, size_t row_bytes,
                                  size_t panel_bytes, size_t offset_bytes, const void *zero,
                                  const void *limits) {
  const source from = in_pieces(n_k, pieces_bytes, a, 1, offset_bytes, zero, zero);
  const target to = {c, row_bytes, panel_bytes, limits, NULL, 0};
  some_rows(&from, 0, n_rows, n_cols, w, false, &to);
}

void eti_xnn_qd8_gemm_6x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, const void *a,
                                 size_t a_bytes, const void *w, void *c, size_t row_bytes,
                                 size_t panel_bytes, const void *limits,
                                 const struct xnn_qd8_quantization_params *scales) {
  const source from = {.n_k = n_k, .a = a, .a_bytes = a_bytes, .n_pieces = 1};
  const target to = {c, row_bytes, panel_bytes, limits, scales, 1};
  all_rows(&from, n_rows, n_cols, w, true, &to);
}

void eti_xnn_qd8_igemm_6x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, size_t pieces_bytes,
                                  const void **a, const void *w, void *c, size_t row_bytes,
                                  size_t panel_bytes, size_t offset_bytes, const void *zero,
                                  const void *zero_data, const void *limits,
                                  const struct xnn_qd8_quantization_params *scales) {
  const source from = in_pieces(n_k, pieces_bytes, a, ROWS, offset_bytes, zero, zero_data);
  const target to = {c, row_bytes, panel_bytes, limits, scales, 0};
  all_rows(&from, n_rows, n_cols, w, true, &to);
}

void eti_xnn_qd8_igemm_1x16__avx2(size_t n_rows, size_t n_cols, size_t n_k, size_t pieces_bytes,
                                  const void **a, const void *w, void *c, size_t row_bytes,
                                  size_t panel_bytes, size_t offset_bytes, const void *zero,
                                  const void *zero_data, const void *limits,
                                  const struct xnn_qd8_quantization_params *scales) {
  const source from = in_pieces(n_k, pieces_bytes, a, 1, offset_bytes, zero, zero_data);
  const target to = {c, row_bytes, panel_bytes, limits, scales, 0};
  some_rows(&from, 0, n_rows, n_cols, w, true, &to);
}
