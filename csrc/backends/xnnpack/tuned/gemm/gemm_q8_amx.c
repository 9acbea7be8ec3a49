// gemm_q8_amx.c — int8 gemm and igemm for XNNPACK's operators on tiles of AMX: gemm_kernels.h says
// when they are used. Compiled with AMX-TILE, AMX-INT8 and AVX-512 VNNI.
//
// A block is at most 32 rows x 32 columns: two tiles of rows by two panels of weights, whose quads
// (four consecutive k of 16 columns) are the rows of a tile as XNNPACK packs them with nr = 16,
// kr = 4. The sums of a block are stored, and its results are made while the tiles multiply the
// next block: the units of tiles and of vectors work at the same time.
//
// Rows of a matrix are read in place. If it has fewer rows than columns, all rows are multiplied by
// a block of columns before the next one, so that weights are read from memory once. Rows of taps
// are first copied to the stack, slice by slice if they are long; between slices the sums of 256
// columns are kept in memory. Sums are int32, exact in any order: results are the bits of XNNPACK's
// kernels.
//
// Packed weights are described in gemm_q8_avx2.c. If results are int8, tiles of sums begin with the
// panel's int32 in each row.
#include "backends/xnnpack/tuned/gemm/gemm_kernels.h"

#include <immintrin.h>
#include <stdalign.h>

#include "backends/xnnpack/tuned/gemm/copy_lhs_amx.h"
#include "backends/xnnpack/tuned/xnn_private.h"
#include "kernels/micro/amx_tiles.h"
#include "runtime/check.h"

enum { COLS = ETI_XNN_GEMM_COLS, BLOCK_ROWS = 2 * AMX_ROWS, BLOCK_COLS = 2 * COLS };

// Quads of 16 columns, and of a tile.
enum { QUAD_BYTES = QUAD * COLS, TILE_QUADS = AMX_BYTES / QUAD };

// Blocks of columns whose sums are kept between slices.
enum { KEPT = 8 };

typedef int32_t block_sums[BLOCK_ROWS][BLOCK_COLS];

typedef struct memory {
  alignas(64) block_sums sums[KEPT];
  alignas(64) int8_t rows[BLOCK_ROWS * ETI_AMX_PITCH];  // copied taps
  alignas(64) int8_t last[BLOCK_ROWS][AMX_BYTES];       // the last step of rows
} memory;

typedef struct rhs {
  size_t n_cols, panel_bytes, quads;  // quads of all taps
  const int8_t *w;
} rhs;

typedef struct target {
  uint8_t *c;
  size_t row_bytes;
  const void *limits;
  const struct xnn_qd8_quantization_params *scales;  // of the rows; NULL: results are int8
  size_t scales_step;                                // 0: all rows have the same
} target;

// ---- Tiles

// How a call is cut into blocks of rows and steps of quads. All have the same size, because sizes
// of tiles are set once: the last blocks, tiles and steps overlap those before them.
typedef struct cut {
  size_t rows, tile_rows;  // of a block; its second tile ends with it
  size_t quads, n_steps, all_quads;
  size_t again;  // quads of the last step that belong to the step before
} cut;

static cut cut_of(size_t n_rows, size_t quads) {
  cut c;
  const size_t n_blocks = (n_rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
  c.rows = (n_rows + n_blocks - 1) / n_blocks;
  c.tile_rows = c.rows > AMX_ROWS ? (c.rows + 1) / 2 : c.rows;
  c.n_steps = (quads + TILE_QUADS - 1) / TILE_QUADS;
  c.quads = (quads + c.n_steps - 1) / c.n_steps;
  c.all_quads = quads;
  c.again = c.n_steps * c.quads - quads;
  return c;
}

// Sums are tiles 0 to 3, rows 4 and 5, weights 6 and 7.
INLINE void begin_tiles(const cut *c) {
  amx_config sizes = {.palette = 1};
  for (size_t i = 0; i < 4; i++) amx_set(&sizes, i, c->tile_rows, COLS * sizeof(int32_t));
  for (size_t i = 0; i < 2; i++) {
    amx_set(&sizes, 4 + i, c->tile_rows, c->quads * QUAD);
    amx_set(&sizes, 6 + i, c->quads, QUAD_BYTES);
  }
  amx_begin(&sizes);
}

// The rows of a block. Its last step has others, where elements are multiplied again.
typedef struct block_rows {
  const int8_t *at, *last;
  size_t step, last_step;  // bytes from row to row
} block_rows;

INLINE void copy_last(const cut *c, block_rows *rows, int8_t to[BLOCK_ROWS][AMX_BYTES]) {
  const size_t start = (c->n_steps - 1) * c->quads - c->again, n = c->quads * QUAD;
  rows->last = rows->at + start * QUAD;
  rows->last_step = rows->step;
  if (c->again == 0) return;
  const __mmask64 mask = eti_amx_first_bytes(n) & ~eti_amx_first_bytes(c->again * QUAD);
  for (size_t i = 0; i < c->rows; i++) {
    const void *const from = rows->last + i * rows->step;
    _mm512_store_si512((void *)to[i], _mm512_maskz_loadu_epi8(mask, from));
  }
  rows->last = to[0];
  rows->last_step = AMX_BYTES;
}

// ---- Results

// A block whose sums are in tiles, to be stored, and then turned to results.
typedef struct results {
  int32_t (*sums)[BLOCK_COLS];
  bool are_two;         // panels
  bool are_sums;        // more slices follow: there are no results
  size_t n_rows, done;  // rows
  uint8_t *c;
  const target *to;
  const int32_t *init[2];  // of its panels
  const float *factors[2];
  __mmask32 columns;
  bool is_small;    // no product overflows an int32
  bool is_limited;  // to fewer bytes than all
  const struct xnn_qd8_quantization_params *scales;
} results;

INLINE __m512i scaled(const int32_t *sums, __m512 factors, bool is_small, __m512 most) {
  const __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_load_si512(sums)), factors);
  return _mm512_cvtps_epi32(is_small ? v : _mm512_min_ps(v, most));
}

// sum * scale, rounded to even, within the limits: two rows at a time, of which the last may be
// made again. A product that does not overflow saturates when it is packed.
INLINE void finish_bytes(results *r, size_t end, bool is_small, bool is_limited) {
  const union xnn_qs8_qc8w_conv_minmax_params *const limits = r->to->limits;
  const int32_t zero_point = limits->fp32_scalar.output_zero_point;
  const int32_t output_max = limits->fp32_scalar.output_max;
  const __m512 most = _mm512_set1_ps((float)(output_max - zero_point));
  const __m512i offset = _mm512_set1_epi16((int16_t)zero_point);
  const __m512i least = _mm512_set1_epi8((int8_t)limits->fp32_scalar.output_min);
  const __m512i most_bytes = _mm512_set1_epi8((int8_t)output_max);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512 factors0 = _mm512_load_ps(r->factors[0]), factors1 = _mm512_load_ps(r->factors[1]);
  for (; r->done < end; r->done += 2) {
    const bool is_odd = r->done + 1 == r->n_rows;
    const size_t i = r->done, next = is_odd ? i : i + 1;
    const int32_t *const s0 = r->sums[i], *const s1 = r->sums[next];
    const __m512i a0 = scaled(s0, factors0, is_small, most);
    const __m512i a1 = scaled(s0 + COLS, factors1, is_small, most);
    const __m512i b0 = scaled(s1, factors0, is_small, most);
    const __m512i b1 = scaled(s1 + COLS, factors1, is_small, most);
    const __m512i a = _mm512_adds_epi16(_mm512_packs_epi32(a0, a1), offset);
    const __m512i b = _mm512_adds_epi16(_mm512_packs_epi32(b0, b1), offset);
    __m512i bytes = _mm512_packs_epi16(a, b);
    if (is_limited) bytes = _mm512_min_epi8(_mm512_max_epi8(bytes, least), most_bytes);
    bytes = _mm512_permutexvar_epi32(order, bytes);
    uint8_t *const c = r->c + i * r->to->row_bytes;
    _mm256_mask_storeu_epi8(c, r->columns, _mm512_castsi512_si256(bytes));
    _mm256_mask_storeu_epi8(c + (next - i) * r->to->row_bytes, r->columns,
                            _mm512_extracti64x4_epi64(bytes, 1));
  }
}

// sum * the row's scale * the column's + its bias, within the limits.
INLINE void finish_floats(results *r, size_t end) {
  const union xnn_f32_minmax_params *const limits = r->to->limits;
  const __m512 least = _mm512_set1_ps(limits->scalar.min);
  const __m512 most = _mm512_set1_ps(limits->scalar.max);
  for (; r->done < end; r->done++) {
    const struct xnn_qd8_quantization_params *const row = r->scales + r->done * r->to->scales_step;
    const __m512i zero_point = _mm512_set1_epi32(row->zero_point);
    const __m512 scale = _mm512_set1_ps(row->inv_scale);
    float *const c = (float *)(void *)(r->c + r->done * r->to->row_bytes);
    for (size_t p = 0; p < 2; p++) {
      const __m512i shift = _mm512_mullo_epi32(_mm512_load_si512(r->init[p]), zero_point);
      const __m512i sum = _mm512_add_epi32(_mm512_load_si512(r->sums[r->done] + p * COLS), shift);
      const __m512 v =
          _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale),
                          _mm512_load_ps(r->factors[p]), _mm512_load_ps(r->factors[p] + COLS));
      _mm512_mask_storeu_ps(c + p * COLS, (__mmask16)(r->columns >> p * COLS),
                            _mm512_min_ps(_mm512_max_ps(v, least), most));
    }
  }
}

// The results of rows before `end`.
INLINE void finish_rows(results *r, size_t end, bool is_float) {
  if (is_float)
    finish_floats(r, end);
  else if (r->is_small && !r->is_limited)
    finish_bytes(r, end, true, false);
  else if (r->is_small)
    finish_bytes(r, end, true, true);
  else
    finish_bytes(r, end, false, true);
}

// ---- Sums

// A block of columns: its weights, and the sums that it begins with.
typedef struct block_panels {
  const int8_t *w[2];  // of the slice
  bool are_two;
  const int32_t (*kept)[BLOCK_COLS];  // sums of earlier slices
  const int32_t *init[2];             // of each row; NULL: 0, if `kept` is NULL as well
  size_t ahead;                       // bytes to the weights that will be prefetched; 0: none
} block_panels;

INLINE void prefetch_tile(const int8_t *at, size_t quads) {
  for (size_t i = 0; i < quads; i++) _mm_prefetch((const char *)at + i * QUAD_BYTES, _MM_HINT_T1);
}

// Stores a tile of sums of the block before, and lets it begin with sums of this block. Tiles are
// free for the next product sooner if only one at a time is stored.
#define TURN(tile, row, panel)                                                          \
  do {                                                                                  \
    if (before->n_rows > 0)                                                             \
      AMX_STORE(before->sums[row] + (panel) * COLS, sizeof before->sums[0], tile);      \
    if (w->kept != NULL)                                                                \
      AMX_LOAD(tile, (const char *)(w->kept[row] + (panel) * COLS), sizeof w->kept[0]); \
    else if (w->init[panel] != NULL)                                                    \
      AMX_LOAD(tile, (const char *)w->init[panel], 0);                                  \
    else                                                                                \
      AMX_ZERO(tile);                                                                   \
  } while (0)

// Adds the products of all steps. In the first one, the sums of the block before are stored; then
// its results are made, after each two products. (Loads right after a store would wait for it.)
INLINE void add_steps(const cut *c, const block_rows *rows, const block_panels *w, results *before,
                      bool is_float) {
  const size_t second = c->rows - c->tile_rows;
  const size_t n_results = before->are_sums ? 0 : before->n_rows;
  const size_t parts = 2 * c->n_steps - 1, each = (n_results + 2 * parts - 1) / (2 * parts) * 2;
  const int8_t *at = rows->at, *w0 = w->w[0], *w1 = w->w[1];
  size_t step = rows->step;
  for (size_t i = 0; i < c->n_steps; i++) {
    if (i + 1 == c->n_steps) {
      at = rows->last;
      step = rows->last_step;
      w0 -= c->again * QUAD_BYTES;
      w1 -= c->again * QUAD_BYTES;
    }
    AMX_LOAD(4, at, step);
    AMX_LOAD(6, w0, QUAD_BYTES);
    if (i == 0) TURN(0, 0, 0);
    AMX_DOT_I8_I8(0, 4, 6);
    if (w->are_two) AMX_LOAD(7, w1, QUAD_BYTES);
    if (i == 0) TURN(1, 0, 1);
    if (w->are_two) AMX_DOT_I8_I8(1, 4, 7);
    if (i > 0 && before->done < n_results) {
      const size_t end = before->done + each;
      finish_rows(before, end < n_results ? end : n_results, is_float);
    }
    if (second > 0) {
      AMX_LOAD(5, at + second * step, step);
      if (i == 0) TURN(2, second, 0);
      AMX_DOT_I8_I8(2, 5, 6);
      if (i == 0) TURN(3, second, 1);
      if (w->are_two) AMX_DOT_I8_I8(3, 5, 7);
    }
    if (before->done < n_results) {
      const size_t end = before->done + each;
      finish_rows(before, end < n_results ? end : n_results, is_float);
    }
    if (w->ahead > 0) {
      prefetch_tile(w0 + w->ahead, c->quads);
      prefetch_tile(w1 + w->ahead, c->quads);
    }
    at += c->quads * QUAD;
    w0 += c->quads * QUAD_BYTES;
    w1 += c->quads * QUAD_BYTES;
  }
}

// Stores the sums of the last block, and makes its results.
INLINE void finish_block(const cut *c, results *before, bool is_float) {
  const size_t second = c->rows - c->tile_rows, step = sizeof before->sums[0];
  if (before->n_rows == 0) return;
  AMX_STORE(before->sums[0], step, 0);
  if (before->are_two) AMX_STORE(before->sums[0] + COLS, step, 1);
  if (second > 0) {
    AMX_STORE(before->sums[second], step, 2);
    if (before->are_two) AMX_STORE(before->sums[second] + COLS, step, 3);
  }
  if (!before->are_sums) finish_rows(before, before->n_rows, is_float);
  before->n_rows = 0;
}

// ---- Calls

INLINE results results_of(const rhs *w, size_t row, size_t n_rows, size_t first, bool is_float,
                          const target *to, int32_t (*sums)[BLOCK_COLS]) {
  const size_t n = w->n_cols - first;
  results r = {.sums = sums, .are_two = n > COLS, .n_rows = n_rows, .to = to};
  r.columns = n >= BLOCK_COLS ? ~(__mmask32)0 : ((__mmask32)1 << n) - 1;
  r.c = to->c + row * to->row_bytes + first * (is_float ? sizeof(float) : 1);
  if (is_float) {
    r.scales = to->scales + row * to->scales_step;
  } else {
    const union xnn_qs8_qc8w_conv_minmax_params *const limits = to->limits;
    r.is_limited =
        limits->fp32_scalar.output_min > INT8_MIN || limits->fp32_scalar.output_max < INT8_MAX;
  }
  for (size_t p = 0; p < 2; p++) {
    const size_t i = first / COLS + (n > COLS ? p : 0);
    const int8_t *const panel = w->w + i * w->panel_bytes;
    r.init[p] = (const int32_t *)(const void *)panel;
    r.factors[p] = (const float *)(const void *)(panel + (w->quads + 1) * QUAD_BYTES);
  }
  const __m512 one = _mm512_set1_ps(1.0f);
  r.is_small = (_mm512_cmp_ps_mask(_mm512_load_ps(r.factors[0]), one, _CMP_NLT_UQ) |
                _mm512_cmp_ps_mask(_mm512_load_ps(r.factors[1]), one, _CMP_NLT_UQ)) == 0;
  return r;
}

INLINE block_panels panels_of(const rhs *w, size_t first, size_t quads_done, const results *r,
                              bool is_float) {
  const int8_t *const w0 = w->w + first / COLS * w->panel_bytes + (quads_done + 1) * QUAD_BYTES;
  block_panels panels = {.w = {w0, r->are_two ? w0 + w->panel_bytes : w0}, .are_two = r->are_two};
  if (quads_done > 0) {
    panels.kept = (const int32_t (*)[BLOCK_COLS])r->sums;
  } else if (!is_float) {
    panels.init[0] = r->init[0];
    panels.init[1] = r->init[1];
  }
  return panels;
}

// A call.
typedef struct call {
  const eti_amx_lhs *a;
  const rhs *w;
  const target *to;
  size_t n_blocks;  // of columns
  cut c;
  results before;
  memory *m;
} call;

// The first row of a block that begins with `row` or, if too few follow, ends with the last row.
INLINE size_t start_of(const call *k, size_t row) {
  return row + k->c.rows < k->a->n_rows ? row : k->a->n_rows - k->c.rows;
}

// All columns of a matrix. Each block of weights meets all rows before the next one, which is
// prefetched in the meantime.
INLINE void multiply_by_columns(call *k, bool is_float) {
  const eti_amx_lhs *const a = k->a;
  for (size_t i = 0; i < k->n_blocks; i++) {
    for (size_t row = 0; row < a->n_rows; row += k->c.rows) {
      const size_t at = start_of(k, row);
      block_rows rows = {.at = a->a + at * a->a_bytes, .step = a->a_bytes};
      copy_last(&k->c, &rows, k->m->last);
      const results mine =
          results_of(k->w, at, k->c.rows, i * BLOCK_COLS, is_float, k->to, k->m->sums[0]);
      block_panels panels = panels_of(k->w, i * BLOCK_COLS, 0, &mine, is_float);
      panels.ahead = row == 0 && i + 1 < k->n_blocks ? 2 * k->w->panel_bytes : 0;
      add_steps(&k->c, &rows, &panels, &k->before, is_float);
      k->before = mine;
    }
  }
}

// Blocks `first` to `end` of columns by a block of rows, slice by slice.
INLINE void multiply_slices(call *k, size_t at, size_t first, size_t end, bool is_float) {
  const eti_amx_lhs *const a = k->a;
  size_t done = 0;
  for (eti_amx_slice s = eti_amx_slice_from(a, 0, 0);; s = eti_amx_slice_after(a, &s)) {
    const size_t quads = eti_amx_slice_quads(&s);
    const bool is_end = eti_amx_is_last(a, &s);
    block_rows rows = {.at = a->a + at * a->a_bytes, .step = a->a_bytes};
    if (quads != k->c.all_quads) {
      finish_block(&k->c, &k->before, is_float);
      k->c = cut_of(a->n_rows, quads);
      begin_tiles(&k->c);
    }
    if (a->taps != NULL) {
      rows = (block_rows){.at = k->m->rows, .step = eti_amx_pitch_of(quads)};
      eti_amx_copy_taps(a, at, k->c.rows, &s, k->m->rows, rows.step);
    }
    copy_last(&k->c, &rows, k->m->last);
    for (size_t i = first; i < end; i++) {
      int32_t (*const sums)[BLOCK_COLS] = k->m->sums[is_end && done == 0 ? 0 : i % KEPT];
      results mine = results_of(k->w, at, k->c.rows, i * BLOCK_COLS, is_float, k->to, sums);
      const block_panels panels = panels_of(k->w, i * BLOCK_COLS, done, &mine, is_float);
      mine.are_sums = !is_end;
      add_steps(&k->c, &rows, &panels, &k->before, is_float);
      k->before = mine;
    }
    if (is_end) return;
    done += quads;
  }
}

INLINE void multiply_by_rows(call *k, bool is_float) {
  const eti_amx_slice all = eti_amx_slice_from(k->a, 0, 0);
  const size_t at_once = eti_amx_is_last(k->a, &all) ? k->n_blocks : KEPT;
  for (size_t row = 0; row < k->a->n_rows; row += k->c.rows) {
    for (size_t first = 0; first < k->n_blocks; first += at_once) {
      const size_t end = first + at_once < k->n_blocks ? first + at_once : k->n_blocks;
      multiply_slices(k, start_of(k, row), first, end, is_float);
    }
  }
}

INLINE void multiply(const eti_amx_lhs *a, const rhs *w, bool is_float, const target *to) {
  ET_ASSERT(a->n_rows > 0 && w->n_cols > 0 && a->n_k > 0 && a->n_taps > 0);
  ET_ASSERT((a->a != NULL || a->taps != NULL) && w->w != NULL && to->c != NULL);
  ET_ASSERT(to->limits != NULL && is_float == (to->scales != NULL));
  memory m;
  const eti_amx_slice all = eti_amx_slice_from(a, 0, 0);
  call k = {.a = a, .w = w, .to = to, .m = &m};
  k.n_blocks = (w->n_cols + BLOCK_COLS - 1) / BLOCK_COLS;
  k.c = cut_of(a->n_rows, eti_amx_slice_quads(&all));
  k.before = results_of(w, 0, 0, 0, is_float, to, m.sums[0]);  // of no rows
  begin_tiles(&k.c);
  if (a->taps == NULL && w->n_cols > a->n_rows)
    multiply_by_columns(&k, is_float);
  else
    multiply_by_rows(&k, is_float);
  finish_block(&k.c, &k.before, is_float);
  amx_end();
}

static void multiply_to_bytes(const eti_amx_lhs *a, const rhs *w, const target *to) {
  multiply(a, w, false, to);
}

static void multiply_to_floats(const eti_amx_lhs *a, const rhs *w, const target *to) {
  multiply(a, w, true, to);
}

static void multiply_all(const eti_amx_lhs *a, const void *w, size_t n_cols, size_t panel_bytes,
                         const target *to) {
  const bool is_float = to->scales != NULL;
  const size_t quads = eti_amx_quads_of(a->n_k) * a->n_taps;
  ET_ASSERT((uintptr_t)w % AMX_BYTES == 0);
  ET_ASSERT(panel_bytes == COLS * (is_float ? sizeof(float) : 1));
  (void)panel_bytes;
  const rhs weights = {n_cols, (quads + (is_float ? 3 : 2)) * QUAD_BYTES, quads, w};
  (is_float ? multiply_to_floats : multiply_to_bytes)(a, &weights, to);
}

static void multiply_taps(eti_amx_lhs a, size_t taps_bytes, const void *w, size_t n_cols,
                          size_t panel_bytes, const target *to) {
  ET_ASSERT(taps_bytes % (a.together * sizeof *a.taps) == 0);
  a.n_taps = taps_bytes / sizeof *a.taps / a.together;
  multiply_all(&a, w, n_cols, panel_bytes, to);
}

void eti_xnn_qs8_gemm_16x16__amx(size_t n_rows, size_t n_cols, size_t n_k, const void *a,
                                 size_t a_bytes, const void *w, void *c, size_t row_bytes,
                                 size_t panel_bytes, const void *limits) {
  const eti_amx_lhs from = {.n_rows = n_rows, .n_k = n_k, .n_taps = 1, .a = a, .a_bytes = a_bytes};
  const target to = {c, row_bytes, limits, NULL, 0};
  multiply_all(&from, w, n_cols, panel_bytes, &to);
}

void eti_xnn_qd8_gemm_16x16__amx(size_t n_rows, size_t n_cols, size_t n_k, const void *a,
                                 size_t a_bytes, const void *w, void *c, size_t row_bytes,
                                 size_t panel_bytes, const void *limits,
                                 const struct xnn_qd8_quantization_params *scales) {
  const eti_amx_lhs from = {.n_rows = n_rows, .n_k = n_k, .n_taps = 1, .a = a, .a_bytes = a_bytes};
  const target to = {c, row_bytes, limits, scales, 1};
  multiply_all(&from, w, n_cols, panel_bytes, &to);
}

#define TAPS(together_, zero_data_) \
  {.n_rows = n_rows,                \
   .n_k = n_k,                      \
   .taps = (const void *const *)a,  \
   .together = (together_),         \
   .offset_bytes = offset_bytes,    \
   .zero = zero,                    \
   .zero_data = (zero_data_)}

void eti_xnn_qs8_igemm_16x16__amx(size_t n_rows, size_t n_cols, size_t n_k, size_t taps_bytes,
                                  const void **a, const void *w, void *c, size_t row_bytes,
                                  size_t panel_bytes, size_t offset_bytes, const void *zero,
                                  const void *limits) {
  const eti_amx_lhs from = TAPS(ETI_XNN_AMX_ROWS, zero);
  const target to = {c, row_bytes, limits, NULL, 0};
  multiply_taps(from, taps_bytes, w, n_cols, panel_bytes, &to);
}

void eti_xnn_qs8_igemm_1x16__amx(size_t n_rows, size_t n_cols, size_t n_k, size_t taps_bytes,
                                 const void **a, const void *w, void *c, size_t row_bytes,
                                 size_t panel_bytes, size_t offset_bytes, const void *zero,
                                 const void *limits) {
  const eti_amx_lhs from = TAPS(1, zero);
  const target to = {c, row_bytes, limits, NULL, 0};
  multiply_taps(from, taps_bytes, w, n_cols, panel_bytes, &to);
}

void eti_xnn_qd8_igemm_16x16__amx(size_t n_rows, size_t n_cols, size_t n_k, size_t taps_bytes,
                                  const void **a, const void *w, void *c, size_t row_bytes,
                                  size_t panel_bytes, size_t offset_bytes, const void *zero,
                                  const void *zero_data, const void *limits,
                                  const struct xnn_qd8_quantization_params *scales) {
  const eti_amx_lhs from = TAPS(ETI_XNN_AMX_ROWS, zero_data);
  const target to = {c, row_bytes, limits, scales, 0};
  multiply_taps(from, taps_bytes, w, n_cols, panel_bytes, &to);
}

void eti_xnn_qd8_igemm_1x16__amx(size_t n_rows, size_t n_cols, size_t n_k, size_t taps_bytes,
                                 const void **a, const void *w, void *c, size_t row_bytes,
                                 size_t panel_bytes, size_t offset_bytes, const void *zero,
                                 const void *zero_data, const void *limits,
                                 const struct xnn_qd8_quantization_params *scales) {
  const eti_amx_lhs from = TAPS(1, zero_data);
  const target to = {c, row_bytes, limits, scales, 0};
  multiply_taps(from, taps_bytes, w, n_cols, panel_bytes, &to);
}
