// half_panels.h — C[m × n] = init + A[m × k] · B[k × n] for few rows of f32 and stored panels of
// f16 (ETI_GEMM_STORED columns, gemm.h), which are converted in registers. For more rows than a
// tile has, panels that are converted to memory once are faster.
//
// Numeric contract: that of gemm.h for one chunk, k ≤ ETI_GEMM_CHUNK, with each f16 as the f32 of
// the same value. Relies on kernels/micro/isa_select.h. Knows no tensor.
#ifndef ET_HALF_PANELS_H
#define ET_HALF_PANELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ETI_HALF_PANELS_ROWS = 4 };  // most rows of a tile

// Steps are in elements.
typedef struct eti_half_panels {
  const float *a;
  size_t a_step, k;
  const uint16_t *b;
  size_t b_panel_step, n_panels;
  float *c;
  size_t c_step;
  bool keeps;  // starts at the old C, else at 0
  // Panels that are read afterwards, to prefetch; any address.
  uintptr_t next;
  size_t next_step;  // bytes from panel to panel of these
} eti_half_panels;

// Multiplies m ≤ ETI_HALF_PANELS_ROWS rows.
typedef void (*eti_half_panels_fn)(const eti_half_panels *p, size_t m);

// The fastest variant for this CPU, and that of one instruction set; NULL when there is none.
eti_half_panels_fn eti_half_panels_best(void);
eti_half_panels_fn eti_half_panels_of_isa(int isa);

void eti_half_panels_avx2(const eti_half_panels *p, size_t m);
void eti_half_panels_avx512(const eti_half_panels *p, size_t m);
void eti_half_panels_neon(const eti_half_panels *p, size_t m);

#endif  // ET_HALF_PANELS_H
