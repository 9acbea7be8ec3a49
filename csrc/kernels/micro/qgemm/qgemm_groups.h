// qgemm_groups.h — products of 8-bit rows and weights of 4 or 8 bits with a scale for each group of
// a column's terms. The sum over a group is exact in 32 bits; sums of groups become f32, are scaled
// and added group after group, so every instruction set gives the same bits. Relies on
// kernels/micro/isa_select.h. Knows no tensor.
//
//   total = Σ groups  f32(Σ terms  a[row][k] · w[k][column]) · scale[group][column]
//                   + f32(Σ terms  a[row][k]) · min[group][column]           sums in i32, wrap
//   w     = code - zero[group][column], for 4 bits less 8 unless groups have minimums
//   out   = (total - f32(row_zero[row]) · sum[column]) · row_scale[row] + add[column]
//
// where sum[column] is the sum of a column's dequantized weights: row_zero need not be subtracted
// from every a. Each product with a scale or a minimum is added to the total by one fused
// multiply-add; the other operations of f32 run one after the other. The second line is left out
// where there are no minimums.
//
// Weights are in panels of ETI_QGROUPS_NR columns. A step is ETI_QGROUPS_STEP terms of a group; the
// last one of a group may have fewer. Codes of 8 bits are signed, in two halves of four terms for
// each step: [panel][group][step][half][column][4]. Those of 4 bits are unsigned, the halves of a
// step in the same bytes, [panel][group][step][column][4]: byte i has the codes
// of the terms i and, in its high half, 4 + i; 0 for missing terms or columns. Scales, zeros and
// minimums are stored as [panel][group][column]; data per column are padded to whole panels.
#ifndef ET_MICRO_QGEMM_GROUPS_H
#define ET_MICRO_QGEMM_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/contract.h"
#include "runtime/et.h"

enum {
  ETI_QGROUPS_NR = 16,
  ETI_QGROUPS_STEP = 8,
  ETI_QGROUPS_STEP_BYTES = 64,  // of 4 bits
  ETI_QGROUPS_PART = 32,        // terms of a group, or its rest, that sums in 16 bits hold
  // Terms of a group of which 8 times the sum is exact, as variants other than the scalar one need.
  ETI_QGROUPS_MAX = 1 << 20,
};

// Any number of rows of a, n columns of panels one after the other.
typedef struct eti_qgroups_tile {
  const int8_t *a;  // rows of n_groups · group values, one after the other
  size_t group, n_groups;
  const int32_t *begins;  // the output of `begins` for these rows
  const uint8_t *w;
  uint8_t bits;            // of a code of w: 4 or 8
  const void *scale;       // f32, bf16 or f16
  uint8_t dtype;           // et_dtype of scale and min
  const int8_t *zero;      // or NULL: 0
  const void *min;         // or NULL: 0; without zero
  const float *sum, *add;  // of columns
  size_t m, n;             // n ≥ 1
  const float *row_scale;  // of m rows
  const int32_t *row_zero;
  float *out;
  size_t out_step;
} eti_qgroups_tile;

typedef struct eti_qgroups_micro {
  size_t rows_of_a_tile;  // blocks of a multiple of so many rows fill all tiles
  void (*tile)(const eti_qgroups_tile *t);
  // Writes the initial sums of each row, which all panels share, in a form of this variant, row
  // after row: eti_qgroups_begins says how many. NULL if `tile` does not read them.
  void (*begins)(const int8_t *a, size_t m, size_t group, size_t n_groups, int32_t *to);
  bool has_parts;  // a number for each part of a group, else one for each group
} eti_qgroups_micro;

// Parts of a row.
static inline size_t eti_qgroups_parts(size_t group, size_t n_groups) {
  return (group / ETI_QGROUPS_PART + (group % ETI_QGROUPS_PART != 0)) * n_groups;
}

// Initial sums of a row.
static inline size_t eti_qgroups_begins(const eti_qgroups_micro *micro, size_t group,
                                        size_t n_groups) {
  if (micro->begins == NULL) return 0;
  return micro->has_parts ? eti_qgroups_parts(group, n_groups) : n_groups;
}

// Bytes of a step, and of a group of a panel.
static inline size_t eti_qgroups_step_bytes(size_t bits) {
  return ETI_QGROUPS_STEP_BYTES / 4 * bits;
}

static inline size_t eti_qgroups_group_bytes(size_t group, size_t bits) {
  const size_t steps = group / ETI_QGROUPS_STEP + (group % ETI_QGROUPS_STEP != 0);
  return steps * eti_qgroups_step_bytes(bits);
}

// Bytes of a number of a type that scales have.
static inline size_t eti_qgroups_scale_bytes(uint8_t dtype) {
  return dtype == ET_F32 ? sizeof(float) : sizeof(uint16_t);
}

// True if pointers and sizes of a tile keep the contract above; `begins` counts for variants that
// read them.
static inline bool eti_qgroups_tile_is_valid(const eti_qgroups_tile *t) {
  const bool has_type = t->dtype == ET_F32 || t->dtype == ET_BF16 || t->dtype == ET_F16;
  const bool has_scale = t->dtype == ET_F32 ? ETI_HOLDS(t->scale, t->n_groups, float)
                                            : ETI_HOLDS(t->scale, t->n_groups, uint16_t);
  return t->group > 0 && ETI_HOLDS(t->a, t->m * t->n_groups, int8_t) &&
         ETI_HOLDS(t->w, t->n_groups, uint8_t) && (t->bits == 4 || t->bits == 8) && has_type &&
         has_scale && (t->min == NULL || t->zero == NULL) && ETI_HOLDS(t->sum, 1, float) &&
         ETI_HOLDS(t->add, 1, float) && t->n >= 1 && ETI_HOLDS(t->row_scale, t->m, float) &&
         ETI_HOLDS(t->row_zero, t->m, int32_t) && ETI_HOLDS(t->out, t->m, float) &&
         (t->m <= 1 || t->out_step >= t->n);
}

// The tile of n columns from `column` on, the first one of a panel.
static inline eti_qgroups_tile eti_qgroups_columns(const eti_qgroups_tile *t, size_t column,
                                                   size_t n) {
  const size_t groups = column * t->n_groups;
  eti_qgroups_tile part = *t;
  part.w += groups / ETI_QGROUPS_NR * eti_qgroups_group_bytes(t->group, t->bits);
  part.scale = (const char *)t->scale + groups * eti_qgroups_scale_bytes(t->dtype);
  if (t->min != NULL) {
    part.min = (const char *)t->min + groups * eti_qgroups_scale_bytes(t->dtype);
  }
  part.zero = t->zero == NULL ? NULL : t->zero + groups;
  part.sum += column;
  part.add += column;
  part.n = n;
  part.out += column;
  return part;
}

// The tile of the columns of the panel that begins at `column`.
static inline eti_qgroups_tile eti_qgroups_panel(const eti_qgroups_tile *t, size_t column) {
  const size_t left = t->n - column;
  return eti_qgroups_columns(t, column, left < ETI_QGROUPS_NR ? left : ETI_QGROUPS_NR);
}

// The best variant for this CPU that multiplies groups of so many terms.
const eti_qgroups_micro *eti_qgroups_micro_best(size_t group);

extern const eti_qgroups_micro eti_qgroups_scalar;
extern const eti_qgroups_micro eti_qgroups_avx2;
extern const eti_qgroups_micro eti_qgroups_avxvnni;
extern const eti_qgroups_micro eti_qgroups_avx512vnni;
extern const eti_qgroups_micro eti_qgroups_amx;
extern const eti_qgroups_micro eti_qgroups_neon;
extern const eti_qgroups_micro eti_qgroups_neondot;
extern const eti_qgroups_micro eti_qgroups_neoni8mm;

#endif  // ET_MICRO_QGEMM_GROUPS_H
