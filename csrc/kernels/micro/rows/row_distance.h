// row_distance.h — distances of one row from sixteen others at once, per instruction set. A tile
// holds the sixteen rows element by element: tile[16·k + l] is element k of row l. All variants
// come from one source (row_distance.body.h) and give the same bits: lanes are rows, each sums in
// order. Relies on isa_select.h.
#ifndef ET_MICRO_ROW_DISTANCE_H
#define ET_MICRO_ROW_DISTANCE_H

#include "kernels/micro/isa_select.h"

#include <stddef.h>

enum { ETI_TILE = 16, ETI_TILE_GROUP = 8 };

typedef enum eti_norm_kind {
  ETI_NORM_ZERO,      // number of elements that differ
  ETI_NORM_ONE,       // Σ |x − y|
  ETI_NORM_TWO,       // Σ (x − y)²
  ETI_NORM_INFINITE,  // the largest |x − y|, NaN if there is one
  ETI_NORM_POWER,     // Σ |x − y|^p, powers in f32
  ETI_NORM_POWER_F64,
} eti_norm_kind;

typedef struct eti_row_distance_micro {
  // acc[l] ∘= x[k] with tile[16·k + l], k ascending, of the kinds 0, 1 and ∞
  void (*add)(double acc[ETI_TILE], const double *x, const double *tile, size_t n,
              eti_norm_kind kind);
  // acc[i][l] += (x[i][k] − tile[16·k + l])² for eight rows, k ascending, fused
  void (*squares)(float acc[ETI_TILE_GROUP][ETI_TILE], const void *const x[ETI_TILE_GROUP],
                  const float *tile, size_t n);
  void (*squares_f64)(double acc[ETI_TILE_GROUP][ETI_TILE], const void *const x[ETI_TILE_GROUP],
                      const double *tile, size_t n);
  // out[i·step + l] = √sums[i][l]
  void (*roots)(float *out, ptrdiff_t step, const float sums[][ETI_TILE], size_t n);
} eti_row_distance_micro;

extern const eti_row_distance_micro eti_row_distance_scalar;
#if ETI_HAVE_X86
extern const eti_row_distance_micro eti_row_distance_avx2;
extern const eti_row_distance_micro eti_row_distance_avx512;
#endif

// The variant of this CPU.
const eti_row_distance_micro *eti_row_distance_micro_get(void);

#endif  // ET_MICRO_ROW_DISTANCE_H
