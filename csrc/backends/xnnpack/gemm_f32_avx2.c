// gemm_f32_avx2.c — products and convolutions of f32 for XNNPACK's operators, on 256-bit vectors:
// see kernels.h for when they are used and why. Compiled with AVX2 and FMA.
//
// A block of 5 rows x 16 columns keeps 10 sums in registers, beside two vectors of weights and one
// element of a row; fewer rows cost no more than themselves. The weights lie as XNNPACK packs them:
// for every 16 columns their biases, then for each k their 16 weights, aligned to a vector.
#include "backends/xnnpack/kernels.h"

#include <immintrin.h>
#include <string.h>

#include "runtime/check.h"

#define INLINE static inline __attribute__((always_inline))

enum { ROWS = 5, COLS = 16, LANES = 8 };

typedef struct block {
  __m256 sums[ROWS][2];
} block;

typedef struct target {
  float *c;
  size_t row_bytes;
  size_t n_cols;  // what is left of them: 16 and more are written whole
  __m256 min, max;
} target;

static const void *add_bytes(const void *p, size_t n) {
  return (const uint8_t *)p + n;
}

INLINE void start(block *b, size_t n_rows, const float *bias) {
  for (size_t i = 0; i < n_rows; i++) {
    b->sums[i][0] = _mm256_load_ps(bias);
    b->sums[i][1] = _mm256_load_ps(bias + LANES);
  }
}

// Adds n products to each sum: rows[i][k] times the weights of k.
INLINE void accumulate(block *b, size_t n_rows, const float *const *rows, const float *weights,
                       size_t n) {
  for (size_t k = 0; k < n; k++) {
    const __m256 w0 = _mm256_load_ps(weights + k * COLS);
    const __m256 w1 = _mm256_load_ps(weights + k * COLS + LANES);
    for (size_t i = 0; i < n_rows; i++) {
      const __m256 a = _mm256_broadcast_ss(rows[i] + k);
      b->sums[i][0] = _mm256_fmadd_ps(a, w0, b->sums[i][0]);
      b->sums[i][1] = _mm256_fmadd_ps(a, w1, b->sums[i][1]);
    }
  }
}

// The first n of 8 elements.
INLINE void store_some(float *at, __m256 v, size_t n) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  _mm256_maskstore_ps(at, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lanes), v);
}

INLINE void finish(const block *b, size_t n_rows, const target *t) {
  float *at = t->c;
  for (size_t i = 0; i < n_rows; i++) {
    const __m256 v0 = _mm256_min_ps(t->max, _mm256_max_ps(t->min, b->sums[i][0]));
    const __m256 v1 = _mm256_min_ps(t->max, _mm256_max_ps(t->min, b->sums[i][1]));
    if (t->n_cols >= COLS) {
      _mm256_storeu_ps(at, v0);
      _mm256_storeu_ps(at + LANES, v1);
    } else if (t->n_cols > LANES) {
      _mm256_storeu_ps(at, v0);
      store_some(at + LANES, v1, t->n_cols - LANES);
    } else {
      store_some(at, v0, t->n_cols);
    }
    at = (float *)(void *)((uint8_t *)at + t->row_bytes);
  }
}

static target target_of(void *c, size_t row_bytes, size_t n_cols, const float *limits) {
  return (target){.c = c,
                  .row_bytes = row_bytes,
                  .n_cols = n_cols,
                  .min = _mm256_set1_ps(limits[0]),
                  .max = _mm256_set1_ps(limits[1])};
}

static target next_panel(target t, size_t panel_bytes) {
  t.n_cols -= COLS;
  t.c = (float *)(void *)((uint8_t *)t.c + panel_bytes);
  return t;
}

// Calls body(n_rows, …) with a number that the compiler knows.
#define FOR_ROWS(body, n_rows, ...) \
  switch (n_rows) {                 \
    case 1:                         \
      body(1, __VA_ARGS__);         \
      break;                        \
    case 2:                         \
      body(2, __VA_ARGS__);         \
      break;                        \
    case 3:                         \
      body(3, __VA_ARGS__);         \
      break;                        \
    case 4:                         \
      body(4, __VA_ARGS__);         \
      break;                        \
    default:                        \
      body(ROWS, __VA_ARGS__);      \
  }

// ---- Rows that lie in one matrix

INLINE void rows_of_matrix(size_t n_rows, size_t n, const float *a, size_t a_bytes, const float *w,
                           const target *t) {
  const float *rows[ROWS];
  for (size_t i = 0; i < n_rows; i++) rows[i] = add_bytes(a, i * a_bytes);
  block b;
  start(&b, n_rows, w);
  accumulate(&b, n_rows, rows, w + COLS, n);
  finish(&b, n_rows, t);
}

void xnn_f32_gemm_minmax_ukernel_5x16__fma3_broadcast(size_t n_rows, size_t n_cols, size_t k_bytes,
                                                      const void *a, size_t a_bytes, const void *w,
                                                      void *c, size_t row_bytes, size_t panel_bytes,
                                                      const void *limits) {
  ET_ASSERT(n_rows > 0 && n_rows <= ROWS && n_cols > 0 && k_bytes > 0);
  const size_t n = k_bytes / sizeof(float);
  const float *panel = w;
  target t = target_of(c, row_bytes, n_cols, limits);
  for (;;) {
    FOR_ROWS(rows_of_matrix, n_rows, n, a, a_bytes, panel, &t)
    if (t.n_cols <= COLS) return;
    t = next_panel(t, panel_bytes);
    panel += (n + 1) * COLS;
  }
}

// ---- Rows in pieces, one for each element of a convolution's window

typedef struct pieces {
  const void *const *at;  // [n][5]: piece s of row i is at[5 s + i]
  size_t n, elements;     // how many pieces, how long each is
  size_t offset_bytes;    // added to all but `zero`
  const void *zero;
} pieces;

INLINE void rows_in_pieces(size_t n_rows, const pieces *p, const float *w, const target *t) {
  block b;
  start(&b, n_rows, w);
  const float *weights = w + COLS;
  for (size_t s = 0; s < p->n; s++, weights += p->elements * COLS) {
    const float *rows[ROWS];
    for (size_t i = 0; i < n_rows; i++) {
      const void *const row = p->at[s * ROWS + i];
      rows[i] = row == p->zero ? row : add_bytes(row, p->offset_bytes);
    }
    accumulate(&b, n_rows, rows, weights, p->elements);
  }
  finish(&b, n_rows, t);
}

void xnn_f32_igemm_minmax_ukernel_5x16__fma3_broadcast_prfm(size_t n_rows, size_t n_cols,
                                                            size_t k_bytes, size_t pieces_bytes,
                                                            const void **a, const void *w, void *c,
                                                            size_t row_bytes, size_t panel_bytes,
                                                            size_t offset_bytes, const void *zero,
                                                            const void *limits) {
  ET_ASSERT(n_rows > 0 && n_rows <= ROWS && n_cols > 0 && k_bytes > 0 && pieces_bytes > 0);
  const pieces p = {.at = a,
                    .n = pieces_bytes / (ROWS * sizeof *a),
                    .elements = k_bytes / sizeof(float),
                    .offset_bytes = offset_bytes,
                    .zero = zero};
  const float *panel = w;
  target t = target_of(c, row_bytes, n_cols, limits);
  for (;;) {
    FOR_ROWS(rows_in_pieces, n_rows, &p, panel, &t)
    if (t.n_cols <= COLS) return;
    t = next_panel(t, panel_bytes);
    panel += (p.n * p.elements + 1) * COLS;
  }
}
