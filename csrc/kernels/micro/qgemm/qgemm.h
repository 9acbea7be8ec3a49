// qgemm.h — products of 8-bit integers, summed exactly in 32 bits and scaled once at the end. Every
// instruction set gives the same bits: the sums are exact, and each sum goes through a few f32
// operations in a fixed order. Relies on kernels/micro/isa_select.h. Knows no tensor.
//
// Weights are in panels of ETI_QGEMM_NR columns: [panel][k / 4][column][4], with four terms of a
// column (a quad) side by side and zeros for missing terms or columns. Data per column are padded
// to whole panels as well.
//
//   sum    = start[column] + Σ a[row][k] · w[k][column]                      i32, wraps
//   i8     = clamp(round(f32(sum) · scale[column] + add[column]) + zero, low, high)
//            halves round to even
//   f32    = f32(sum - row_zero[row] · start[column] - row_sum[row] · column_zero[column]) ·
//            (row_scale[row] · scale[column]) + add[column]
//            with sum starting at 0, start[column] = Σ w[k][column], and, for weights with zero
//            points, row_sum[row] = Σ (a[row][k] - row_zero[row])
//
// A variant reads rows in the form that suits its instructions. Of rows in U8 the sums are larger
// by 128 · Σ w[k][column]: start[column] of an i8 result is smaller by as much; for an f32 result
// the variant itself subtracts it. Missing terms are 0, so 128 in U8.
#ifndef ET_MICRO_QGEMM_H
#define ET_MICRO_QGEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/contract.h"

enum {
  ETI_QGEMM_NR = 16,
  ETI_QGEMM_QUAD = 4,
  ETI_QGEMM_MAX_TAPS = 64,  // of a depthwise kernel
};

typedef enum eti_qrows {
  ETI_QROWS_I8,     // as they are
  ETI_QROWS_U8,     // plus 128, for instructions that multiply unsigned and signed bytes
  ETI_QROWS_WORDS,  // in 16 bits, and the second and third term of each quad change places
} eti_qrows;

// Any number of rows of a, the columns of any number of panels.
typedef struct eti_qtile {
  const void *a;    // rows of 4 · quads terms in the variant's form
  size_t a_step;    // bytes from row to row
  const int8_t *w;  // panels
  size_t quads;
  size_t next;           // bytes from w to the panels that are needed next, to prefetch; or 0,
                         // if weights are near
  const int32_t *start;  // of each column, padded to whole panels; so are scale and add
  const float *scale, *add;
  size_t m, n;
  void *out;  // i8 or f32
  size_t out_step;
  float high;               // of i8: limit less the zero point
  int32_t low, zero;        // numbers of i8
  const int32_t *row_zero;  // of f32, row_step (0 or 1) apart
  const float *row_scale;
  const int32_t *row_sum;      // row_step apart; read if there are column_zero
  const int32_t *column_zero;  // of each column, padded to whole panels; NULL: zeros
  size_t row_step;
} eti_qtile;

// Channels of a depthwise convolution, at n pixels that are adjacent in the result.
typedef struct eti_qdepthwise {
  const int8_t *const *taps;  // n_taps addresses for each pixel, of the first channel
  size_t n_taps;              // ≤ ETI_QGEMM_MAX_TAPS
  const int8_t *w;            // panels of n_taps terms
  const int32_t *start;       // as in eti_qtile
  const float *scale, *add;
  const void *arranged;  // the output of arrange_channels for these data, or NULL
  size_t n, channels;
  int8_t *out;
  size_t out_step;  // from pixel to pixel
  float high;       // limit less the zero point
  int32_t low, zero;
} eti_qdepthwise;

// Windows of an image as rows, one pixel of the result after the other: each has `pieces` runs of
// adjacent bytes.
typedef struct eti_qwindows {
  void *to;
  size_t to_step;  // bytes from row to row
  const int8_t *from;
  size_t step, n;                    // from window to window; windows
  size_t piece_step, pieces, bytes;  // from run to run; runs; bytes of each
} eti_qwindows;

// Bytes of a panel.
static inline size_t eti_qpanel_bytes(size_t quads) {
  return quads * ETI_QGEMM_NR * ETI_QGEMM_QUAD;
}

static inline bool eti_qlimits_are_valid(int32_t low, int32_t zero, float high) {
  return low >= INT8_MIN && low <= INT8_MAX && zero >= INT8_MIN && zero <= INT8_MAX && high == high;
}

// True if pointers and sizes of a tile of i8 or of f32 keep the contract above.
static inline bool eti_qtile_is_valid(const eti_qtile *t, bool is_float) {
  const bool has_columns = ETI_HOLDS(t->start, t->n, int32_t) && ETI_HOLDS(t->scale, t->n, float) &&
                           ETI_HOLDS(t->add, t->n, float) && t->n >= 1;
  const bool has_rows = (t->m * t->quads == 0 || t->a != NULL) &&
                        ETI_HOLDS(t->w, t->quads, int8_t) && (t->m <= 1 || t->out_step >= t->n);
  const bool has_scales = ETI_HOLDS(t->row_zero, t->m, int32_t) &&
                          ETI_HOLDS(t->row_scale, t->m, float) && t->row_step <= 1 &&
                          (t->column_zero == NULL || ETI_HOLDS(t->row_sum, t->m, int32_t));
  return has_columns && has_rows &&
         (is_float
              ? has_scales && ETI_HOLDS(t->out, t->m, float)
              : eti_qlimits_are_valid(t->low, t->zero, t->high) && ETI_HOLDS(t->out, t->m, int8_t));
}

// The contract of channels.
static inline bool eti_qdepthwise_is_valid(const eti_qdepthwise *d) {
  const bool has_columns =
      d->arranged != NULL ||
      (ETI_HOLDS(d->w, d->n_taps, int8_t) && ETI_HOLDS(d->start, d->channels, int32_t) &&
       ETI_HOLDS(d->scale, d->channels, float) && ETI_HOLDS(d->add, d->channels, float));
  return ETI_HOLDS(d->taps, d->n * d->n_taps, int8_t *) && d->n_taps <= ETI_QGEMM_MAX_TAPS &&
         has_columns && d->channels >= 1 && ETI_HOLDS(d->out, d->n, int8_t) &&
         eti_qlimits_are_valid(d->low, d->zero, d->high);
}

// The contract of windows whose terms have so many bytes in a row.
static inline bool eti_qwindows_are_valid(const eti_qwindows *w, size_t term_bytes) {
  return ETI_HOLDS(w->to, w->n, int8_t) && ETI_HOLDS(w->from, w->n, int8_t) &&
         (w->n <= 1 || w->to_step >= w->pieces * w->bytes * term_bytes);
}

typedef struct eti_qgemm_micro eti_qgemm_micro;
struct eti_qgemm_micro {
  eti_qrows form;  // of rows; start of a depthwise convolution is that of the form, too
  // A variant for rows of i8 that are read where they lie, with tiles of two rows or more and of
  // one term or more, and nothing else; NULL: rows are copied to this variant's form, unless it is
  // I8.
  const eti_qgemm_micro *of_i8;
  size_t rows_of_a_tile;  // blocks of a multiple of so many rows fill all tiles
  // Rows that take as long to multiply as all weights take to be read, if that is more than other
  // variants need; or 0.
  size_t rows_of_a_block;
  void (*tile_i8)(const eti_qtile *t);
  void (*tile_f32)(const eti_qtile *t);
  void (*depthwise)(const eti_qdepthwise *d);
  // Arranges the data of channels as `depthwise` reads them, which spares each call that. Bytes of
  // the result, for so many channels. NULL: they are read as they are.
  size_t (*arranged_bytes)(size_t channels, size_t n_taps);
  void (*arrange_channels)(const eti_qdepthwise *d, void *to);
  // Copies n terms to the variant's form, but for the order of words.
  void (*copy)(void *dst, const int8_t *src, size_t n);
  // Copies windows in the same way.
  void (*copy_windows)(const eti_qwindows *w);
  // Puts quads of copied words in order; NULL for other forms.
  void (*arrange)(int16_t *words, size_t quads);
};

// Bytes of a term of a row.
static inline size_t eti_qterm_bytes(eti_qrows form) {
  return form == ETI_QROWS_WORDS ? 2 : 1;
}

// The best variant for this CPU.
const eti_qgemm_micro *eti_qgemm_micro_best(void);

extern const eti_qgemm_micro eti_qgemm_scalar;
extern const eti_qgemm_micro eti_qgemm_avx2;
extern const eti_qgemm_micro eti_qgemm_avxvnni;
extern const eti_qgemm_micro eti_qgemm_avx512;
extern const eti_qgemm_micro eti_qgemm_avx512vnni;
extern const eti_qgemm_micro eti_qgemm_amx;
extern const eti_qgemm_micro eti_qgemm_signed_amx;
extern const eti_qgemm_micro eti_qgemm_neon;
extern const eti_qgemm_micro eti_qgemm_neondot;
extern const eti_qgemm_micro eti_qgemm_neoni8mm;

#endif  // ET_MICRO_QGEMM_H
