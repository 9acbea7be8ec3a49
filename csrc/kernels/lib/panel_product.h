// panel_product.h — rows of f32 times stored panels (micro/gemm/gemm.h) of f32, or of f16 or i8
// that are converted: f16 in registers for few rows (micro/gemm/half_panels.h), else a few panels
// at a time. One product of a block, on one thread, without packing: for attention over a cache.
// For keys of i8, the rows and panels of the exact products of micro/qgemm/qgemm.h. Knows no
// tensor.
#ifndef ET_PANEL_PRODUCT_H
#define ET_PANEL_PRODUCT_H

#include "kernels/micro/gemm/gemm.h"
#include "kernels/micro/qgemm/qgemm.h"
#include "kernels/sizes.h"

// C[m × n] = init + A[m × k] · B[k × n], as gemm.h defines it; n is a multiple of ETI_GEMM_STORED.
typedef struct eti_panel_product {
  uint8_t dtype;  // et_dtype of the panels
  const float *a;
  size_t a_step, m, k, n;
  const char *panels;
  size_t panel_bytes;  // from panel to panel
  const void *next;    // panels that are read afterwards, to prefetch; any address
  size_t next_bytes;   // from panel to panel of these
  float *c;
  size_t c_step;
  eti_gemm_init init;
} eti_panel_product;

// Columns that are converted at once: `room` has k floats for each. Panels of f32 need none.
static inline size_t eti_panel_columns(const eti_gemm_kernel *kernel) {
  return eti_at_least(kernel->nr, ETI_GEMM_STORED);
}

void eti_panel_multiply(const eti_gemm_kernel *kernel, const eti_panel_product *p, float *room);

// ---- codes

// Bytes of a row of codes in any variant's form, a multiple of 64 that holds codes in 16 bits.
static inline size_t eti_code_row_bytes(size_t dim) {
  return eti_round_up(dim, 64) * 2;
}

// Copies a row of `dim` codes in the variant's form. `codes` has room for whole quads.
void eti_code_row_copy(const eti_qgemm_micro *micro, void *to, int8_t *codes, size_t dim);

// Rows of codes that become columns of panels.
typedef struct eti_code_columns {
  const int8_t *rows;
  ptrdiff_t row_step, item;  // in bytes, from row to row and from code to code
  size_t n, dim;
} eti_code_columns;

// Packs panels; sums receives the sum of each column's codes. The last panel is filled with columns
// of zeros.
void eti_code_columns_pack(const eti_code_columns *c, int8_t *panels, int32_t *sums);

#endif  // ET_PANEL_PRODUCT_H
