// bgemm.h — products of f32 rows, rounded to bf16, with bf16 weights; sums are f32. All instruction
// sets but AMX give the same bits. Relies on kernels/micro/isa_select.h. Knows no tensor.
//
// Weights are in panels of ETI_BGEMM_NR columns: [panel][k / 2][column][2], two adjacent terms of a
// column (a pair) side by side, and zeros for missing terms or columns. The bias is padded to whole
// panels as well.
//
// The numeric contract is what VDPBF16PS computes, so that others only repeat it:
//
//   rows     are rounded to the nearest bf16, halves to even. Denormals become zeros of their sign;
//            NaN stays NaN.
//   a chunk  is ETI_BGEMM_CHUNK terms, counted from k = 0; the last may be shorter. Its sum begins
//            at the column's bias in the first chunk, else at 0. For each pair (2i, 2i + 1), in
//            ascending order, two fused multiply-adds follow, the odd term first:
//              s = fma(a[2i + 1], w[2i + 1], s)      s = fma(a[2i], w[2i], s)
//   chunks   are added in ascending order: c = c + s.
//   denormals that these operations read or would return are zeros of their sign. A result counts
//            as denormal if it would, with an unlimited exponent, be rounded to less than 2^-126.
//
// The contract of AMX is what TDPBF16PS computes: a sum begins at the column's bias. For each group
// of ETI_BGEMM_TILE_TERMS terms, counted from k = 0, two chains of fused multiply-adds begin at 0,
// one over the even terms and one over the odd ones, and sum = sum + (even + odd). Rows and
// denormals are as above. Tiles cannot repeat the steps above, and on the processors that have them
// VDPBF16PS is no faster than products of f32.
//
// BFDOT and BFMMLA of Arm are not used: they add the two products of a pair to each other first, so
// that their bits differ, whether they round that sum to odd or, by FPCR.EBF, to nearest: 1 plus
// twice 2^-24 is 1 by the two steps above, but 1 + 2^-23 by them. BFMLALT and BFMLALB are these
// steps.
#ifndef ET_MICRO_BGEMM_H
#define ET_MICRO_BGEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/contract.h"

enum {
  ETI_BGEMM_NR = 16,
  ETI_BGEMM_PAIR = 2,
  ETI_BGEMM_CHUNK = 512,
  ETI_BGEMM_CHUNK_PAIRS = ETI_BGEMM_CHUNK / ETI_BGEMM_PAIR,
  ETI_BGEMM_TILE_TERMS = 32,
};

// Any number of rows of a, the columns of any number of panels, and terms from the border of a
// chunk on.
typedef struct eti_btile {
  const void *a;      // rows of 2 · pairs terms in the variant's form
  size_t a_step;      // bytes from row to row
  const uint16_t *w;  // panels
  size_t w_step;      // elements from panel to panel
  size_t pairs;       // may be 0
  size_t next;        // bytes from w to the panels that are needed next, to prefetch; or 0
  const float *bias;  // padded to whole panels, or NULL for zeros
  bool adds;          // chunks are added to `out`: k begins at a later one; bias is NULL
  size_t m, n;
  float *out;
  size_t out_step;
} eti_btile;

// Elements of a panel.
static inline size_t eti_bpanel_elements(size_t pairs) {
  return pairs * ETI_BGEMM_NR * ETI_BGEMM_PAIR;
}

// True if pointers and sizes of a tile keep the contract above.
static inline bool eti_btile_is_valid(const eti_btile *t) {
  const size_t terms = t->m * t->pairs;
  return (terms == 0 || t->a != NULL) && ETI_HOLDS(t->w, t->pairs, uint16_t) &&
         ETI_HOLDS_OR_NULL(t->bias, float) && !(t->adds && t->bias != NULL) && t->n >= 1 &&
         ETI_HOLDS(t->out, t->m, float) && (t->m <= 1 || t->out_step >= t->n);
}

typedef struct eti_bgemm_micro {
  size_t term_bytes;      // of a row: 2 for bf16, 4 for such numbers in f32
  size_t rows_of_a_tile;  // blocks of a multiple of so many rows fill all tiles
  // Rows that take as long to multiply as all weights take to be read, if that is more than other
  // variants need; or 0.
  size_t rows_of_a_block;
  void (*tile)(const eti_btile *t);
  // Rounds n terms to the variant's form.
  void (*copy)(void *dst, const float *src, size_t n);
} eti_bgemm_micro;

// The best variant for this CPU.
const eti_bgemm_micro *eti_bgemm_micro_best(void);

// The tile of the plain variant for rows in f32.
void eti_bgemm_plain_tile_of_f32(const eti_btile *t);

extern const eti_bgemm_micro eti_bgemm_scalar;
extern const eti_bgemm_micro eti_bgemm_avx2;
extern const eti_bgemm_micro eti_bgemm_avx512;
extern const eti_bgemm_micro eti_bgemm_avx512bf16;
extern const eti_bgemm_micro eti_bgemm_amx;
extern const eti_bgemm_micro eti_bgemm_neon;
extern const eti_bgemm_micro eti_bgemm_neonbf16;

#endif  // ET_MICRO_BGEMM_H
