// gemm_q8_avx2.c — products and convolutions of int8 for XNNPACK's operators, on 256-bit vectors of
// processors without dot products of bytes: see kernels.h for when they are used. Compiled with
// AVX2 and FMA.
//
// There are two instructions to multiply with. One takes pairs of 16-bit integers and adds the two
// products: elements of six rows are widened once, into memory on the stack, and weights as they
// are read. The other one takes pairs of bytes, elements from 0 to 255 and weights as they are, but
// has 16 bits for the sum of the two products. That is enough for weights of 7 bits. So 16 columns
// that have no other ones are multiplied by bytes, elements plus 128, and what that adds to the
// sums is taken off: they are the same, in three quarters of the time. Each call of six rows and
// more looks at its weights for that; those of 8 bits are known for it after a few.
//
// A block of 6 rows x 16 columns keeps 12 sums in registers. Rows longer than the memory for them
// come in parts, between which the sums of 256 columns are kept beside it. Sums are of int32, exact
// in any order: results are those of XNNPACK's kernels bit by bit.
//
// The weights lie as XNNPACK packs them with nr = 16, kr = 4: for every 16 columns an int32 each,
// then for each four k the quads of 16 columns, then the scales and, for sums that become floats,
// the biases. The int32 is what the sums begin with, where results are int8: with the 128 of
// all elements taken off; where they are floats, less the sum of the weights.
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

// How many elements of a row are taken at once, and how far rows are apart: not by a power of two,
// as they would compete for the same places of the cache.
enum { K_MOST = 2048, PITCH = K_MOST + 32, PANELS = 16 };

// How far ahead of their use weights are fetched.
enum { BYTES_AHEAD = 512 };

// Weights from -NARROW to NARROW are narrow: a pair of them times the greatest elements, 255, fits
// in 16 bits. Of how many columns that is found out before they are multiplied, and how many bytes
// are looked at before the answer may be known.
enum { NARROW = 64, KNOWN_PANELS = 128, BYTES_AT_ONCE = 1024 };

enum { OFFSET = 128 };  // of elements that are multiplied as bytes

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
  const int16_t *words;  // of quads k: k, k + 2, k + 1, k + 3
  const uint8_t *bytes;
  const int32_t *offsets;  // what multiplying by bytes adds to the sums; NULL: it is by words
  const int8_t *weights;
  size_t n_quads;
  const int32_t *init;   // of the panel
  const float *factors;  // of the panel, if the sums are complete; else NULL
  int32_t *kept;         // the sums of earlier parts, and of this if more are to come
  bool is_first;
  size_t n_cols;
  const target *to;
  uint8_t *c;
  const struct xnn_qd8_quantization_params *scales;
} step;

static size_t in_quads(size_t n) {
  return (n + 3) / 4 * 4;
}

// ---- Rows

// n elements plus 128, and zeros behind them to the end of a quad.
static void copy(uint8_t *to, const int8_t *from, size_t n) {
  const __m128i offset = _mm_set1_epi8(INT8_MIN);
  size_t i = 0;
  for (; i + COLS <= n; i += COLS) {
    const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
    _mm_storeu_si128((__m128i *)(void *)(to + i), _mm_xor_si128(x, offset));
  }
  for (; i < n; i++) to[i] = (uint8_t)(from[i] + OFFSET);
  for (; i % 4 != 0; i++) to[i] = 0;
}

// n elements as 16-bit integers, the middle two of each quad exchanged, and zeros as above.
static void widen(int16_t *to, const int8_t *from, size_t n) {
  const __m128i order = _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
  size_t i = 0;
  for (; i + COLS <= n; i += COLS) {
    const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
    _mm256_storeu_si256((__m256i *)(void *)(to + i),
                        _mm256_cvtepi8_epi16(_mm_shuffle_epi8(x, order)));
  }
  for (; i < n; i += 4) {
    int16_t quad[4] = {0};
    for (size_t k = 0; k < 4 && i + k < n; k++) quad[k] = from[i + k];
    memcpy(to + i, (int16_t[]){quad[0], quad[2], quad[1], quad[3]}, sizeof quad);
  }
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
  const size_t padded = in_quads(s->n_k);
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

static void copy_rows(uint8_t *rows, const source *s, size_t row, size_t n_rows, const part *p) {
  const size_t padded = in_quads(p->n_k);
  for (size_t i = 0; i < n_rows; i++)
    for (size_t n = 0; n < p->n_pieces; n++)
      copy(rows + i * PITCH + n * padded, piece_of(s, row + i, p->piece + n) + p->k, p->n_k);
}

static void widen_rows(int16_t *rows, const source *s, size_t row, size_t n_rows, const part *p) {
  const size_t padded = in_quads(p->n_k);
  for (size_t i = 0; i < n_rows; i++)
    for (size_t n = 0; n < p->n_pieces; n++)
      widen(rows + i * PITCH + n * padded, piece_of(s, row + i, p->piece + n) + p->k, p->n_k);
}

// ---- Weights

INLINE __m256i quads_at(const int8_t *at) {
  return _mm256_loadu_si256((const __m256i *)(const void *)at);
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
      if (s->offsets != NULL) {
        b->sums[i][0] = _mm256_sub_epi32(b->sums[i][0], load_ints(s->offsets));
        b->sums[i][1] = _mm256_sub_epi32(b->sums[i][1], load_ints(s->offsets + LANES));
      }
    }
  }
}

INLINE __m256i broadcast(const void *four_bytes) {
  int32_t x;
  memcpy(&x, four_bytes, sizeof x);
  return _mm256_set1_epi32(x);
}

// The instruction itself: gcc adds integers in an order of its own, for which there are too few
// registers.
INLINE __m256i add_pairs(__m256i sum, __m256i a, __m256i w) {
  __asm__("vpaddd %1, %0, %0" : "+x"(sum) : "x"(_mm256_madd_epi16(a, w)));
  return sum;
}

// Elements 0 and 2 of quads of weights as 16-bit integers, or elements 1 and 3.
INLINE __m256i half_of(__m256i w, size_t odd) {
  return _mm256_srai_epi16(odd ? w : _mm256_slli_epi16(w, 8), 8);
}

// Elements 0 and 2 of all quads, then the other ones, for which weights are read again: there are
// registers for no more.
INLINE void accumulate_words(block *b, size_t n_rows, bool is_half, const step *s) {
  const int16_t *rows = s->words;
  const int8_t *weights = s->weights;
  for (size_t k = 0; k < s->n_quads; k++, rows += 4, weights += 4 * COLS) {
    _mm_prefetch((const char *)(weights + BYTES_AHEAD), _MM_HINT_T0);
    UNROLL
    for (size_t odd = 0; odd < 2; odd++) {
      __asm__ volatile("" ::: "memory");
      const __m256i w0 = half_of(quads_at(weights), odd);
      const __m256i w1 = half_of(quads_at(weights + 2 * COLS), odd);
      UNROLL
      for (size_t i = 0; i < n_rows; i++) {
        const __m256i a = broadcast(rows + i * PITCH + 2 * odd);
        b->sums[i][0] = add_pairs(b->sums[i][0], a, w0);
        if (!is_half) b->sums[i][1] = add_pairs(b->sums[i][1], a, w1);
      }
    }
  }
}

INLINE void accumulate_bytes(block *b, size_t n_rows, bool is_half, const step *s) {
  const uint8_t *rows = s->bytes;
  const int8_t *weights = s->weights;
  const __m256i ones = _mm256_set1_epi16(1);
  for (size_t k = 0; k < s->n_quads; k++, rows += 4, weights += 4 * COLS) {
    _mm_prefetch((const char *)(weights + BYTES_AHEAD), _MM_HINT_T0);
    UNROLL
    for (size_t h = 0; h < 2; h++) {
      if (is_half && h == 1) continue;
      __asm__ volatile("" ::: "memory");
      const __m256i w = quads_at(weights + h * 2 * COLS);
      UNROLL
      for (size_t i = 0; i < n_rows; i++)
        b->sums[i][h] =
            add_pairs(b->sums[i][h], _mm256_maddubs_epi16(broadcast(rows + i * PITCH), w), ones);
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
  if (s->offsets != NULL)
    accumulate_bytes(&b, n_rows, is_half, s);
  else
    accumulate_words(&b, n_rows, is_half, s);
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

// At most KNOWN_PANELS of them, and which ones are narrow.
typedef struct columns {
  size_t n, panel_bytes, weight_bytes;  // of a panel: all of it, its weights
  const uint8_t *first;
  bool any_narrow, any_wide, is_narrow[KNOWN_PANELS];
  int32_t offsets[KNOWN_PANELS][COLS];  // that narrow ones add to sums
} columns;

static const uint8_t *panel_at(const columns *c, size_t i) {
  return c->first + i * c->panel_bytes;
}

// Whether n weights are narrow, and OFFSET times the sums of their 16 columns if they are.
static bool are_narrow(const int8_t *weights, size_t n, int32_t *offsets) {
  const __m256i ones = _mm256_set1_epi8(1), offset = _mm256_set1_epi16(OFFSET);
  const __m256i most = _mm256_set1_epi8(NARROW);
  __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
  for (size_t i = 0, end; i < n; i = end) {
    __m256i greatest = _mm256_setzero_si256(), least = greatest;
    for (end = n - i < BYTES_AT_ONCE ? n : i + BYTES_AT_ONCE; i < end; i += 4 * COLS) {
      for (size_t h = 0; h < 2; h++) {
        const __m256i w = quads_at(weights + i + h * 2 * COLS);
        greatest = _mm256_max_epi8(greatest, w);
        least = _mm256_min_epi8(least, w);
        sums[h] = add_pairs(sums[h], _mm256_maddubs_epi16(ones, w), offset);
      }
    }
    const __m256i above = _mm256_cmpgt_epi8(greatest, most);
    const __m256i below = _mm256_cmpgt_epi8(_mm256_sub_epi8(_mm256_setzero_si256(), most), least);
    if (!_mm256_testz_si256(_mm256_or_si256(above, below), _mm256_set1_epi8(-1))) return false;
  }
  for (size_t h = 0; h < 2; h++)
    _mm256_storeu_si256((__m256i *)(void *)(offsets + h * LANES), sums[h]);
  return true;
}

static void look(columns *c, size_t n_rows) {
  c->any_narrow = c->any_wide = false;
  for (size_t i = 0; i * COLS < c->n; i++) {
    const int8_t *const weights = (const int8_t *)panel_at(c, i) + COLS * sizeof(int32_t);
    c->is_narrow[i] = n_rows >= ROWS && are_narrow(weights, c->weight_bytes, c->offsets[i]);
    c->any_narrow |= c->is_narrow[i];
    c->any_wide |= !c->is_narrow[i];
  }
}

// Some rows against all columns, PANELS x 16 of them at a time where the rows come in parts.
INLINE void some_rows(const source *from, size_t row, size_t n_rows, const columns *w,
                      bool is_float, const target *to) {
  alignas(32) int16_t words[ROWS * PITCH];
  alignas(32) uint8_t bytes[ROWS * PITCH];
  alignas(32) int32_t kept[PANELS][ROWS * COLS];
  const part all = first_part(from);
  const bool is_whole = is_last(from, &all);
  const size_t n_panels = (w->n + COLS - 1) / COLS;
  const size_t at_once = is_whole ? n_panels : PANELS;
  step s = {.words = words, .bytes = bytes, .to = to};
  if (is_float) s.scales = to->scales + row * to->scales_step;
  for (size_t first = 0; first < n_panels; first += at_once) {
    size_t done = 0;
    for (part p = all;; p = next_part(from, p)) {
      if (w->any_wide) widen_rows(words, from, row, n_rows, &p);
      if (w->any_narrow) copy_rows(bytes, from, row, n_rows, &p);
      const bool is_end = is_last(from, &p);
      s.n_quads = in_quads(p.n_k) / 4 * p.n_pieces;
      s.is_first = done == 0;
      for (size_t i = first; i < n_panels && i < first + at_once; i++) {
        const uint8_t *const weights = panel_at(w, i) + COLS * sizeof(int32_t);
        s.init = (const int32_t *)(const void *)panel_at(w, i);
        s.weights = (const int8_t *)weights + done * COLS;
        s.offsets = w->is_narrow[i] ? w->offsets[i] : NULL;
        s.factors = is_end ? (const float *)(const void *)(weights + w->weight_bytes) : NULL;
        s.kept = is_whole ? NULL : kept[i - first];
        s.n_cols = w->n - i * COLS;
        s.c = to->c + row * to->row_bytes + i * to->panel_bytes;
        any_rows(n_rows, is_float, &s);
      }
      if (is_end) break;
      done += 4 * s.n_quads;
    }
  }
}

INLINE void all_rows(const source *from, size_t n_rows, size_t n_cols, const void *w, bool is_float,
                     const target *to) {
  ET_ASSERT(n_rows > 0 && n_cols > 0 && from->n_k > 0 && from->n_pieces > 0);
  enum { KNOWN = KNOWN_PANELS * COLS };
  const size_t others = COLS * (sizeof(int32_t) + sizeof(float) * (is_float ? 2 : 1));
  columns c;
  c.n = n_cols < KNOWN ? n_cols : KNOWN;
  c.weight_bytes = COLS * in_quads(from->n_k) * from->n_pieces;
  c.panel_bytes = others + c.weight_bytes;
  c.first = w;
  target t = *to;
  for (;;) {
    look(&c, n_rows);
    for (size_t i = 0, n; i < n_rows; i += n) {
      n = n_rows - i < ROWS ? n_rows - i : ROWS;
      some_rows(from, i, n, &c, is_float, &t);
    }
    if (n_cols <= KNOWN) return;
    n_cols -= KNOWN;
    c.first = panel_at(&c, KNOWN_PANELS);
    c.n = n_cols < KNOWN ? n_cols : KNOWN;
    t.c += KNOWN_PANELS * t.panel_bytes;
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
  all_rows(&from, n_rows, n_cols, w, false, &to);
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
  all_rows(&from, n_rows, n_cols, w, true, &to);
}
