// qgemm_groups.h — products of 8-bit rows and 4-bit weights with a scale for each group of a
// column's terms. The sum over a group is exact in 32 bits; sums of groups become f32, are scaled
// and added group after group, so every instruction set gives the same bits. Relies on
// kernels/micro/isa_select.h. Knows no tensor.
//
//   total = Σ groups  f32(Σ terms  a[row][k] · (code[k][column] - 8 - zero[group][column]))
//                     · scale[group][column]                                          sums in i32,
//                     wrap
//   out   = (total - f32(row_zero[row]) · sum[column]) · row_scale[row] + add[column]
//
// where sum[column] is the scaled sum of a column's weights: row_zero need not be subtracted from
// every a. Operations of f32 run one after the other, none of them fused.
//
// Weights are in panels of ETI_QGROUPS_NR columns: [panel][group][step][column][4]. A step is
// ETI_QGROUPS_STEP terms of a group; the last one of a group may have fewer. Byte i has the codes
// (weight + 8) of the terms i and, in its high half, 4 + i; 0 for missing terms or columns. Scales
// and zeros are stored as [panel][group][column]; data per column are padded to whole panels.
#ifndef ET_MICRO_QGEMM_GROUPS_H
#define ET_MICRO_QGEMM_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/contract.h"

enum {
  ETI_QGROUPS_NR = 16,
  ETI_QGROUPS_ROWS = 4,  // blocks of a multiple of so many rows fill all tiles
  ETI_QGROUPS_STEP = 8,
  ETI_QGROUPS_STEP_BYTES = 64,
  ETI_QGROUPS_PART = 32,  // terms of a group, or its rest, per word of `begins`
};

// Any number of rows of a, n columns of one panel.
typedef struct eti_qgroups_tile {
  const int8_t *a;  // rows of n_groups · group values, one after the other
  size_t group, n_groups;
  const int32_t *begins;   // the output of `begins` for these rows
  const uint8_t *w;        // a panel
  const void *scale;       // of a panel, f32 or bf16
  bool is_bf16;            // scale
  const int8_t *zero;      // of a panel, or NULL: 0
  const float *sum, *add;  // of ETI_QGROUPS_NR columns
  size_t m, n;             // 1 ≤ n ≤ ETI_QGROUPS_NR
  const float *row_scale;  // of m rows
  const int32_t *row_zero;
  float *out;
  size_t out_step;
} eti_qgroups_tile;

typedef struct eti_qgroups_micro {
  void (*tile)(const eti_qgroups_tile *t);
  // Writes eti_qgroups_parts numbers for each row, which all panels share: -8 times the sums of its
  // parts, the initial sums of tiles. NULL if `tile` does not read them.
  void (*begins)(const int8_t *a, size_t m, size_t group, size_t n_groups, int32_t *to);
} eti_qgroups_micro;

// Parts of a row.
static inline size_t eti_qgroups_parts(size_t group, size_t n_groups) {
  return (group / ETI_QGROUPS_PART + (group % ETI_QGROUPS_PART != 0)) * n_groups;
}

// Bytes of a group of a panel.
static inline size_t eti_qgroups_group_bytes(size_t group) {
  return (group / ETI_QGROUPS_STEP + (group % ETI_QGROUPS_STEP != 0)) * ETI_QGROUPS_STEP_BYTES;
}

// True if pointers and sizes of a tile keep the contract above; `begins` counts for variants that
// read them.
static inline bool eti_qgroups_tile_is_valid(const eti_qgroups_tile *t) {
  const bool has_scale = t->is_bf16 ? ETI_HOLDS(t->scale, t->n_groups, uint16_t)
                                    : ETI_HOLDS(t->scale, t->n_groups, float);
  return t->group > 0 && ETI_HOLDS(t->a, t->m * t->n_groups, int8_t) &&
         ETI_HOLDS(t->w, t->n_groups, uint8_t) && has_scale && ETI_HOLDS(t->sum, 1, float) &&
         ETI_HOLDS(t->add, 1, float) && t->n >= 1 && t->n <= ETI_QGROUPS_NR &&
         ETI_HOLDS(t->row_scale, t->m, float) && ETI_HOLDS(t->row_zero, t->m, int32_t) &&
         ETI_HOLDS(t->out, t->m, float) && (t->m <= 1 || t->out_step >= t->n);
}

// The best variant for this CPU.
const eti_qgroups_micro *eti_qgroups_micro_best(void);

extern const eti_qgroups_micro eti_qgroups_scalar;
extern const eti_qgroups_micro eti_qgroups_avx2;

#endif  // ET_MICRO_QGEMM_GROUPS_H
