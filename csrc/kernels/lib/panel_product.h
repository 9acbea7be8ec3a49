// panel_product.h — rows of f32 times stored panels (micro/gemm/gemm.h) of f32, or of f16 or i8
// that are converted a few panels at a time. One product of a block, on one thread, without
// packing: for attention over a cache. Knows no tensor.
#ifndef ET_PANEL_PRODUCT_H
#define ET_PANEL_PRODUCT_H

#include "kernels/micro/gemm/gemm.h"
#include "kernels/sizes.h"

// C[m × n] = init + A[m × k] · B[k × n], as gemm.h defines it; n is a multiple of ETI_GEMM_STORED.
typedef struct eti_panel_product {
  uint8_t dtype;  // et_dtype of the panels
  const float *a;
  size_t a_step, m, k, n;
  const char *panels;
  size_t panel_bytes;  // from panel to panel
  size_t next;         // bytes from the first panel to what is read later, to prefetch
  float *c;
  size_t c_step;
  eti_gemm_init init;
} eti_panel_product;

// Columns that are converted at once: `room` has k floats for each. Panels of f32 need none.
static inline size_t eti_panel_columns(const eti_gemm_kernel *kernel) {
  return eti_at_least(kernel->nr, ETI_GEMM_STORED);
}

void eti_panel_multiply(const eti_gemm_kernel *kernel, const eti_panel_product *p, float *room);

#endif  // ET_PANEL_PRODUCT_H
