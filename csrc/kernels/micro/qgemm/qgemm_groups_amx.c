// qgemm_groups_amx.c — the products of qgemm_groups.h with TDPBSSD on tiles of AMX: up to 16 rows
// by the 16 columns of a panel. Few rows, and groups that do not fill tiles, are those of AVX-512
// VNNI. Needs AMX-TILE, AMX-INT8, AVX-512 F, BW, VL, VNNI.
//
// Weights are decoded in pieces, once for all tiles of rows. The sums of a group go through memory
// to vectors, which scale them. A short group has few instructions for each tile of sums, so that
// most of the time goes into scaling: one panel's totals stay in registers from group to group. The
// sums of a long group stay in tiles, of two tiles of rows by two panels.
#include "kernels/micro/qgemm/qgemm_groups.h"

#include "kernels/micro/amx_tiles.h"
#include "kernels/micro/qgemm/qgemm_vectors_512.h"

#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))
// Unrolls loops over registers.
#define UNROLL _Pragma("GCC unroll 16")

enum {
  NR = ETI_QGROUPS_NR,
  STEP = ETI_QGROUPS_STEP,
  STEP_BYTES = ETI_QGROUPS_STEP_BYTES,
  QUAD = 4,  // terms that a word of a tile holds
  STEP_QUADS = STEP / QUAD,
  QUAD_BYTES = NR * QUAD,  // of a panel: a row of a tile of weights
  TILE_QUADS = AMX_BYTES / QUAD,
  SUM_BYTES = NR * sizeof(int32_t),  // of a row
  PANELS = 2,                        // of a piece of a long group
  ROW_TILES = 8,                     // at most, whose totals are kept
  SHORT_SLICES = 2,                  // of a short group, at most
  PIECE_SLICES = 8,
  PIECE_QUADS = PIECE_SLICES * TILE_QUADS,  // of a panel
  PIECE_GROUPS = 16,
  LINE = 64,  // bytes that a processor moves at once
};

// Memory of the functions below.
typedef struct work {
  _Alignas(64) int32_t sums[4][AMX_ROWS][NR];
  int8_t weights[PANELS][PIECE_QUADS * QUAD_BYTES];
  vf totals[ROW_TILES * PANELS][AMX_ROWS];  // or sums, in i32
  // For short groups: the numbers of a panel; of each row of a tile, a word for each group; the
  // first terms of each tile of rows.
  vf scales[PIECE_GROUPS], minimums[PIECE_GROUPS];
  vi zeros[PIECE_GROUPS], words[AMX_ROWS];
  const int8_t *runs[ROW_TILES + 1];
} work;

// How a product is cut. Tiles of rows overlap rather than differ in size, and slices, the terms of
// a row that a tile holds, are all of the same number, since sizes of tiles are set once for all.
typedef struct cut {
  const eti_qgroups_tile *t;
  size_t rows, row_tiles;
  size_t quads, slices;       // of a slice, of a group
  size_t a_step;              // between rows
  size_t panel, group_bytes;  // of weights
} cut;

// The number of rows from which on tiles are faster.
static size_t least_rows(const eti_qgroups_tile *t) {
  return t->bits == 4 && t->group <= TILE_QUADS / 2 * QUAD ? 12 : 7;
}

// False if there are few rows, or slices would be too many or begin within a step.
static bool cut_of(const eti_qgroups_tile *t, cut *c) {
  if (t->m < least_rows(t) || t->n_groups == 0 || t->group % QUAD != 0) return false;
  const size_t quads = t->group / QUAD, least = (quads + TILE_QUADS - 1) / TILE_QUADS;
  size_t slices = least;
  while (slices > 1 && slices <= 2 * least &&
         (quads % slices != 0 || quads / slices % STEP_QUADS != 0))
    slices++;
  if (slices > 2 * least) return false;
  *c = (cut){.t = t, .quads = quads / slices, .slices = slices, .a_step = t->n_groups * t->group};
  c->row_tiles = (t->m + AMX_ROWS - 1) / AMX_ROWS;
  c->rows = (t->m + c->row_tiles - 1) / c->row_tiles;
  c->group_bytes = eti_qgroups_group_bytes(t->group, t->bits);
  c->panel = c->group_bytes * t->n_groups;
  return true;
}

INLINE size_t first_row(const cut *c, size_t tile) {
  const size_t row = tile * c->rows, last = c->t->m - c->rows;
  return row < last ? row : last;
}

// Sums are tiles 0 to 3, rows 4 and 5, weights 6 and 7.
static void begin_tiles(const cut *c) {
  amx_config sizes = {.palette = 1};
  for (size_t i = 0; i < 4; i++) amx_set(&sizes, i, c->rows, SUM_BYTES);
  for (size_t i = 4; i < 6; i++) amx_set(&sizes, i, c->rows, c->quads * QUAD);
  for (size_t i = 6; i < 8; i++) amx_set(&sizes, i, c->quads, QUAD_BYTES);
  amx_begin(&sizes);
}

// Some groups of a panel, or slices of one group of one or two panels, which the tiles of rows
// [first, end) pass.
typedef struct piece {
  const cut *c;
  size_t column, n_panels;
  size_t group, n_groups, slice, n_slices;
  size_t first, end;
  const uint8_t *codes, *ahead;  // of the first panel: of this piece, and what comes next
  size_t bytes;                  // of the codes of a panel
  const int8_t *w[PANELS];       // decoded
  // For short groups: bytes of a slice of a row; between groups, of rows and of weights.
  size_t slice_bytes, a_next, w_next;
  const int8_t *w_end;
} piece;

INLINE vf *totals_at(const piece *p, work *w, size_t tile, size_t panel) {
  return w->totals[(tile - p->first) * p->n_panels + panel];
}

// ---- operands and results

// Decodes n steps of 4 bits, of which `less` is subtracted.
static void decode(const uint8_t *codes, size_t n, int8_t less, int8_t *to) {
  const vi minus = VB_SET1(less);
  for (; n > 0; n--, codes += STEP_BYTES, to += STEP_QUADS * QUAD_BYTES) {
    const vi both = VI_LOAD(codes);
    VB_STORE(to, _mm512_sub_epi8(VB_LOW_4(both), minus));
    VB_STORE(to + QUAD_BYTES, _mm512_sub_epi8(VB_HIGH_4(both), minus));
  }
}

// Decodes the weights of a piece; those of 8 bits stay where they are.
static void decode_piece(piece *p, work *w) {
  const eti_qgroups_tile *const t = p->c->t;
  for (size_t i = 0; i < p->n_panels; i++) {
    const uint8_t *const codes = p->codes + i * p->c->panel;
    p->w[i] = (const int8_t *)codes;
    if (t->bits == 8) continue;
    decode(codes, p->bytes / STEP_BYTES, t->min == NULL ? 8 : 0, w->weights[i]);
    p->w[i] = w->weights[i];
  }
}

// Scales or minimums of a panel.
INLINE vf numbers_at(const void *from, uint8_t dtype, size_t i) {
  const uint16_t *const halves = (const uint16_t *)from + i * NR;
  if (dtype == ET_F16) return VF_OF_F16(halves);
  return dtype == ET_BF16 ? VF_OF_BF16(halves) : VF_LOAD((const float *)from + i * NR);
}

// Prefetches part i of n of the codes that come next. Not inlined, gcc would drop it as a function
// without effects.
INLINE void prefetch(const piece *p, size_t i, size_t n) {
  const size_t lines = (p->bytes + LINE - 1) / LINE, end = (i + 1) * lines / n;
  for (size_t line = i * lines / n; line < end; line++) {
    const uintptr_t at = (uintptr_t)p->ahead + line * LINE;
    __builtin_prefetch((const void *)at, 0, 2);
    if (p->n_panels > 1) __builtin_prefetch((const void *)(at + p->c->panel), 0, 2);
  }
}

INLINE void finish_panels(const piece *p, work *w, size_t tile, size_t n_panels) {
  const eti_qgroups_tile *const t = p->c->t;
  const size_t first = first_row(p->c, tile), end = first + p->c->rows;
  const vf *totals = totals_at(p, w, tile, 0);
  vf sum[PANELS], add[PANELS];
  __mmask16 some[PANELS];
  for (size_t i = 0; i < n_panels; i++) {
    const size_t column = p->column + i * NR, left = t->n - column < NR ? t->n - column : NR;
    sum[i] = VF_LOAD(t->sum + column);
    add[i] = VF_LOAD(t->add + column);
    some[i] = (__mmask16)((1u << left) - 1);
  }
  float *out = t->out + first * t->out_step + p->column;
  for (size_t r = first; r < end; r++, totals++, out += t->out_step) {
    const vf zero = VF_SET1((float)t->row_zero[r]), scale = VF_SET1(t->row_scale[r]);
    UNROLL for (size_t i = 0; i < n_panels; i++) {
      const vf scaled = VF_MUL(VF_SUB(totals[i * AMX_ROWS], VF_MUL(zero, sum[i])), scale);
      _mm512_mask_storeu_ps(out + i * NR, some[i], VF_ADD(scaled, add[i]));
    }
  }
}

// Writes the results of a tile of rows.
NOINLINE void finish(const piece *p, work *w, size_t tile) {
  if (p->n_panels == 2) {
    finish_panels(p, w, tile, 2);
  } else {
    finish_panels(p, w, tile, 1);
  }
}

// ---- short groups

// Products that a group adds beside its scaled sums.
typedef enum kind { SCALED, WITH_ZEROS, WITH_MINIMUMS } kind;

// Negative zero points as factors of two numbers of 16 bits: the low 7 bits of an integer, and its
// others.
INLINE vi zeros_at(const int8_t *from) {
  const vi less = VI_SUB(VI_SET1(0), VI_OF_I8(from));
  return _mm512_or_si512(_mm512_slli_epi32(less, 16 + 7), _mm512_and_si512(less, VI_SET1(0xFFFF)));
}

static void read_numbers(const piece *p, work *w) {
  const eti_qgroups_tile *const t = p->c->t;
  const size_t at = p->column / NR * t->n_groups + p->group;
  for (size_t j = 0; j < p->n_groups; j++) {
    w->scales[j] = numbers_at(t->scale, t->dtype, at + j);
    if (t->min != NULL) w->minimums[j] = numbers_at(t->min, t->dtype, at + j);
    if (t->zero != NULL) w->zeros[j] = zeros_at(t->zero + (at + j) * NR);
  }
}

// Words of a tile of rows: the sums of the terms of groups, in f32 or as two such numbers.
static void read_words(const piece *p, work *w, size_t tile, bool is_float) {
  const size_t n_groups = p->c->t->n_groups;
  const int32_t *from = p->c->t->begins + first_row(p->c, tile) * n_groups + p->group;
  const __mmask16 some = (__mmask16)((1u << p->n_groups) - 1);
  for (size_t r = 0; r < p->c->rows; r++, from += n_groups) {
    const vi begin = _mm512_maskz_loadu_epi32(some, from);
    if (is_float) {
      w->words[r] = _mm512_castps_si512(VF_MUL(VF_OF(begin), VF_SET1(-0.125f)));
    } else {
      const vi sum = VI_OVER_8(VI_SUB(VI_SET1(0), begin));
      w->words[r] = _mm512_or_si512(_mm512_slli_epi32(_mm512_srai_epi32(sum, 7), 16),
                                    _mm512_and_si512(sum, VI_SET1(127)));
    }
  }
}

// Prepares the runs of a piece: the groups of one tile of rows each.
static void begin_runs(piece *p, work *w) {
  const cut *const c = p->c;
  p->slice_bytes = c->quads * QUAD;
  p->a_next = c->t->group;
  p->w_next = (c->t->group + STEP - 1) / STEP * STEP * NR;
  p->w_end = p->w[0] + p->n_groups * p->w_next;
  for (size_t i = p->first; i < p->end; i++) {
    w->runs[i - p->first] = c->t->a + first_row(c, i) * c->a_step + p->group * c->t->group;
  }
  w->runs[p->end - p->first] = NULL;
}

// Begins the sums of the next group, if there is one.
#define FEED(sum, rows, weights)                                  \
  if (a != NULL) {                                                \
    AMX_ZERO(sum);                                                \
    for (size_t s = 0; s < slices; s++) {                         \
      AMX_LOAD(rows, a + s * p->slice_bytes, a_step);             \
      AMX_LOAD(weights, b + s * p->slice_bytes * NR, QUAD_BYTES); \
      AMX_DOT_I8_I8(sum, rows, weights);                          \
    }                                                             \
    a += p->a_next;                                               \
    b += p->w_next;                                               \
    if (b == p->w_end) a = *runs++, b = p->w[0];                  \
  }

// Adds the scaled sums of group j of a piece to totals of n rows.
INLINE void add_short(const work *w, size_t buffer, size_t j, kind what, size_t n,
                      vf totals[AMX_ROWS]) {
  const vf scale = w->scales[j], minimum = w->minimums[j];
  const vi zero = w->zeros[j];
  const char *words = (const char *)w->words + j * sizeof(int32_t);
  __asm__("" : "+r"(words));  // one address, and offsets from it
  UNROLL for (size_t r = 0; r < n; r++) {
    const void *const word = words + r * sizeof(vi);
    vi sum = _mm512_load_si512(w->sums[buffer][r]);
    if (what == WITH_ZEROS) {
      __asm__("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(zero), "m"(*(const int32_t *)word));
    }
    totals[r] = VF_FMA(VF_OF(sum), scale, totals[r]);
    if (what == WITH_MINIMUMS) {
      __asm__("vfmadd231ps %2%{1to16%}, %1, %0"
              : "+v"(totals[r])
              : "v"(minimum), "m"(*(const float *)word));
    }
  }
}

// Totals of n rows before a piece.
INLINE void begin_totals(const piece *p, const vf *before, size_t n, vf totals[AMX_ROWS]) {
  if (p->group == 0) {
    UNROLL for (size_t r = 0; r < n; r++) totals[r] = VF_SET1(0);
  } else {
    UNROLL for (size_t r = 0; r < n; r++) totals[r] = before[r];
  }
}

// Does what follows a run and needs no totals in registers.
NOINLINE void end_run(const piece *p, work *w, size_t tile, kind what) {
  prefetch(p, tile - p->first, p->end - p->first);
  if (p->group + p->n_groups == p->c->t->n_groups) finish(p, w, tile);
  if (what != SCALED && tile + 1 < p->end) read_words(p, w, tile + 1, what == WITH_MINIMUMS);
}

// Adds sums to totals; a run may end. Then stores the next ones, in the other of two places.
#define END(sum, next)                                                             \
  add_short(w, sum % 2, j, what, n, totals);                                       \
  if (++j == p->n_groups) {                                                        \
    UNROLL for (size_t r = 0; r < n; r++) totals_at(p, w, tile, 0)[r] = totals[r]; \
    end_run(p, w, tile, what);                                                     \
    if (++tile == p->end) break;                                                   \
    j = 0;                                                                         \
    begin_totals(p, totals_at(p, w, tile, 0), n, totals);                          \
  }                                                                                \
  AMX_STORE(w->sums[next % 2], SUM_BYTES, next);

// Multiplies a piece and n or fewer rows of each tile. Three tiles of sums are under way while
// those before are added to totals.
INLINE void multiply_short(const piece *p, work *w, kind what, size_t n, size_t slices) {
  const size_t a_step = p->c->a_step;
  const int8_t *const *runs = w->runs, *a = *runs++, *b = p->w[0];
  size_t j = 0, tile = p->first;
  vf totals[AMX_ROWS];
  if (what != SCALED) read_words(p, w, tile, what == WITH_MINIMUMS);
  begin_totals(p, totals_at(p, w, tile, 0), n, totals);
  FEED(0, 4, 6)
  FEED(1, 5, 7)
  FEED(2, 4, 6)
  AMX_STORE(w->sums[0], SUM_BYTES, 0);
  for (;;) {
    FEED(3, 5, 7)
    END(0, 1)
    FEED(0, 4, 6)
    END(1, 2)
    FEED(1, 5, 7)
    END(2, 3)
    FEED(2, 4, 6)
    END(3, 0)
  }
}

INLINE void multiply_tiles(const piece *p, work *w, kind what) {
  if (p->c->slices == 2) {
    multiply_short(p, w, what, AMX_ROWS, 2);
  } else if (p->c->rows > AMX_ROWS / 2) {
    multiply_short(p, w, what, AMX_ROWS, 1);
  } else {
    multiply_short(p, w, what, AMX_ROWS / 2, 1);
  }
}

NOINLINE void multiply_scaled(const piece *p, work *w) {
  multiply_tiles(p, w, SCALED);
}

NOINLINE void multiply_with_zeros(const piece *p, work *w) {
  multiply_tiles(p, w, WITH_ZEROS);
}

NOINLINE void multiply_with_minimums(const piece *p, work *w) {
  multiply_tiles(p, w, WITH_MINIMUMS);
}

// All groups of a panel, for some tiles of rows.
static void short_groups(piece p, work *w) {
  const cut *const c = p.c;
  const eti_qgroups_tile *const t = c->t;
  const size_t some = PIECE_QUADS / ((t->group + STEP - 1) / STEP * STEP_QUADS);
  const size_t most = some < PIECE_GROUPS ? some : PIECE_GROUPS;
  for (; p.group < t->n_groups; p.group += p.n_groups, p.codes += p.bytes) {
    const size_t left = t->n_groups - p.group;
    p.n_groups = left < most ? left : most;
    p.bytes = p.n_groups * c->group_bytes;
    p.ahead = p.codes + p.bytes;
    decode_piece(&p, w);
    read_numbers(&p, w);
    begin_runs(&p, w);
    if (t->min != NULL) {
      multiply_with_minimums(&p, w);
    } else if (t->zero != NULL) {
      multiply_with_zeros(&p, w);
    } else {
      multiply_scaled(&p, w);
    }
  }
}

// ---- long groups

// Parts, tiles of sums each, that are still to be added to totals: of one or two tiles of rows. The
// products of the next tiles go on meanwhile.
typedef struct late {
  size_t tile, next, end;
} late;

// Adds the next part, and writes the results of a tile of rows that has all.
NOINLINE void add_part(const piece *p, work *w, late *l) {
  const eti_qgroups_tile *const t = p->c->t;
  const size_t i = l->next % p->n_panels, k = l->next / p->n_panels, j = p->group;
  const size_t tile = l->tile + k, at = (p->column / NR + i) * t->n_groups + j;
  const vf scale = numbers_at(t->scale, t->dtype, at);
  const vf minimum = t->min == NULL ? VF_SET1(0) : numbers_at(t->min, t->dtype, at);
  const vi zero = t->zero == NULL ? VI_SET1(0) : VI_OF_I8(t->zero + at * NR);
  const int32_t *begin = t->begins + first_row(p->c, tile) * t->n_groups + j;
  vf *const totals = totals_at(p, w, tile, i);
  for (size_t r = 0; r < p->c->rows; r++, begin += t->n_groups) {
    vi sum = VI_LOAD(w->sums[k * PANELS + i][r]);
    if (t->zero != NULL) sum = VI_ADD(sum, VI_MUL(VI_OVER_8(VI_SET1(*begin)), zero));
    vf total = VF_FMA(VF_OF(sum), scale, j == 0 ? VF_SET1(0) : totals[r]);
    if (t->min != NULL) {
      total = VF_FMA(VF_MUL(VF_OF(VI_SET1(*begin)), VF_SET1(-0.125f)), minimum, total);
    }
    totals[r] = total;
  }
  if (i + 1 == p->n_panels && j + 1 == t->n_groups) finish(p, w, tile);
  l->next++;
}

// The place of the sums of a group's first slices: that of totals if there is no other group, else
// behind them.
INLINE void *sums_at(const piece *p, work *w, size_t tile, size_t panel) {
  const size_t behind = p->c->t->n_groups == 1 ? 0 : ROW_TILES / 2;
  return totals_at(p, w, tile + behind, panel);
}

INLINE void load_sums(const piece *p, work *w, size_t tile, bool two_tiles, bool two_panels) {
  AMX_LOAD(0, sums_at(p, w, tile, 0), SUM_BYTES);
  if (two_panels) AMX_LOAD(1, sums_at(p, w, tile, 1), SUM_BYTES);
  if (two_tiles) AMX_LOAD(2, sums_at(p, w, tile + 1, 0), SUM_BYTES);
  if (two_tiles && two_panels) AMX_LOAD(3, sums_at(p, w, tile + 1, 1), SUM_BYTES);
}

// Stores the sums of all slices, or those of the first ones.
INLINE void store_sums(const piece *p, work *w, size_t tile, bool two_tiles, bool two_panels) {
  const bool all = p->slice + p->n_slices == p->c->slices;
  AMX_STORE(all ? w->sums[0] : sums_at(p, w, tile, 0), SUM_BYTES, 0);
  if (two_panels) AMX_STORE(all ? w->sums[1] : sums_at(p, w, tile, 1), SUM_BYTES, 1);
  if (two_tiles) AMX_STORE(all ? w->sums[2] : sums_at(p, w, tile + 1, 0), SUM_BYTES, 2);
  if (two_tiles && two_panels) {
    AMX_STORE(all ? w->sums[3] : sums_at(p, w, tile + 1, 1), SUM_BYTES, 3);
  }
}

// Multiplies a piece and one or two tiles of rows.
INLINE void multiply_block(const piece *p, work *w, size_t tile, late *l, bool two_tiles,
                           bool two_panels) {
  const cut *const c = p->c;
  const size_t a_step = c->a_step, slice = c->quads * QUAD, w_step = c->quads * QUAD_BYTES;
  const int8_t *const a = c->t->a + p->group * c->t->group + p->slice * slice;
  const int8_t *first = a + first_row(c, tile) * a_step;
  const int8_t *second = a + first_row(c, tile + 1) * a_step;
  const int8_t *w0 = p->w[0], *w1 = p->w[two_panels ? 1 : 0];
  const size_t blocks = (p->end - p->first + 1) / 2, block = (tile - p->first) / 2;
  AMX_ZERO(0);
  AMX_ZERO(1);
  AMX_ZERO(2);
  AMX_ZERO(3);
  if (p->slice > 0) load_sums(p, w, tile, two_tiles, two_panels);
  for (size_t s = 0; s < p->n_slices; s++) {
    AMX_LOAD(4, first, a_step);
    AMX_LOAD(6, w0, QUAD_BYTES);
    AMX_DOT_I8_I8(0, 4, 6);
    if (two_panels) {
      AMX_LOAD(7, w1, QUAD_BYTES);
      AMX_DOT_I8_I8(1, 4, 7);
    }
    if (two_tiles) {
      AMX_LOAD(5, second, a_step);
      AMX_DOT_I8_I8(2, 5, 6);
      if (two_panels) AMX_DOT_I8_I8(3, 5, 7);
    }
    first += slice;
    second += slice;
    w0 += w_step;
    w1 += w_step;
    prefetch(p, block * p->n_slices + s, blocks * p->n_slices);
    if (l->next < l->end) add_part(p, w, l);
  }
  while (l->next < l->end) add_part(p, w, l);
  store_sums(p, w, tile, two_tiles, two_panels);
}

NOINLINE void multiply_long(const piece *p, work *w) {
  late l = {0, 0, 0};
  for (size_t tile = p->first; tile < p->end; tile += 2) {
    const bool two_tiles = p->end - tile > 1;
    if (two_tiles && p->n_panels == 2) {
      multiply_block(p, w, tile, &l, true, true);
    } else if (two_tiles) {
      multiply_block(p, w, tile, &l, true, false);
    } else if (p->n_panels == 2) {
      multiply_block(p, w, tile, &l, false, true);
    } else {
      multiply_block(p, w, tile, &l, false, false);
    }
    if (p->slice + p->n_slices < p->c->slices) continue;
    l = (late){tile, 0, two_tiles ? 2 * p->n_panels : p->n_panels};
  }
  while (l.next < l.end) add_part(p, w, &l);
}

// All groups of one or two panels, for some tiles of rows.
static void long_groups(piece p, work *w) {
  const cut *const c = p.c;
  const size_t most = PIECE_QUADS / c->quads;
  for (; p.group < c->t->n_groups; p.group++) {
    for (p.slice = 0; p.slice < c->slices; p.slice += p.n_slices, p.codes += p.bytes) {
      const size_t left = c->slices - p.slice;
      p.n_slices = left < most ? left : most;
      p.bytes = p.n_slices * c->quads * QUAD_BYTES / 8 * c->t->bits;
      const bool is_end = left <= most && p.group + 1 == c->t->n_groups;
      p.ahead = p.codes + p.bytes + (is_end ? (p.n_panels - 1) * c->panel : 0);
      decode_piece(&p, w);
      multiply_long(&p, w);
    }
  }
}

// ---- both

NOINLINE void all_panels(const cut *c) {
  const eti_qgroups_tile *const t = c->t;
  work w;
  memset(w.sums, 0, sizeof w.sums);  // of rows that tiles lack
  memset(w.words, 0, sizeof w.words);
  const bool is_short = c->slices <= SHORT_SLICES;
  const size_t at_once = is_short ? 1 : PANELS;
  const bool has_both = c->slices * c->quads > PIECE_QUADS && t->n_groups > 1;
  const size_t most = has_both ? ROW_TILES / 2 : ROW_TILES;  // sums are behind totals
  piece p = {.c = c};
  for (; p.first < c->row_tiles; p.first = p.end) {
    p.end = c->row_tiles - p.first < most ? c->row_tiles : p.first + most;
    for (p.column = 0; p.column < t->n; p.column += at_once * NR) {
      p.n_panels = t->n - p.column > NR ? at_once : 1;
      p.codes = t->w + p.column / NR * c->panel;
      if (is_short) {
        short_groups(p, &w);
      } else {
        long_groups(p, &w);
      }
    }
  }
}

static void tile(const eti_qgroups_tile *given) {
  ET_ASSERT(eti_qgroups_tile_is_valid(given) && given->group <= ETI_QGROUPS_MAX &&
            ETI_HOLDS(given->begins, given->m * given->n_groups, int32_t));
  const eti_qgroups_tile t = *given;
  cut c;
  if (!cut_of(&t, &c)) {
    eti_qgroups_avx512vnni.tile(given);
    return;
  }
  begin_tiles(&c);
  all_panels(&c);
  amx_end();
}

static void begins(const int8_t *a, size_t m, size_t group, size_t n_groups, int32_t *to) {
  eti_qgroups_avx512vnni.begins(a, m, group, n_groups, to);
}

const eti_qgroups_micro eti_qgroups_amx = {
    .tile = tile, .begins = begins, .rows_of_a_tile = AMX_ROWS};
