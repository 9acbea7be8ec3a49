// row_pool.h — the inner loops of pooling: one tap of the window for a row of outputs. Taps are
// processed in window order, so sums and ties are those of the definition in every instruction set.
// Relies on kernels/micro/isa_select.h. Knows no tensor.
#ifndef ET_MICRO_ROW_POOL_H
#define ET_MICRO_ROW_POOL_H

#include "kernels/dtype_sets.h"

#include <stddef.h>
#include <stdint.h>

// Loops of pooling. x is read at 0, step, 2·step …; all pointers are to elements of `dtype`.
typedef struct eti_row_pool_micro {
  uint8_t dtype;  // et_dtype: f32, f64 or i64
  uint8_t esize;
  // Maximum of a tap: if x[i·step] is greater than best[i] or NaN, best[i] becomes it and at[i]
  // becomes first + i·step. A NaN stays.
  void (*max)(void *best, int32_t *at, const void *x, size_t step, int32_t first, size_t n);
  // Maximum of x[i·step] with the position x_at[i·step]: of equal elements the smaller position
  // wins, of NaNs the larger.
  void (*merge)(void *best, int32_t *at, const void *x, const int32_t *x_at, size_t step, size_t n);
  // sum[i] += x[i·step]; integers wrap.
  void (*add)(void *sum, const void *x, size_t step, size_t n);
  // Taps of a window, added or compared one after another: lane i of tap t is x[offset[t] + i] and
  // has the position first[t] + i.
  void (*add_window)(void *sum, const void *x, const ptrdiff_t *offset, size_t n_taps, size_t n);
  void (*max_window)(void *best, int32_t *at, const void *x, const ptrdiff_t *offset,
                     const int32_t *first, size_t n_taps, size_t n);
  // *sum += x[0], x[1] …, in order.
  void (*fold)(void *sum, const void *x, size_t n);
} eti_row_pool_micro;

enum { ETI_ROW_POOL_LANES = 8 };
enum { ETI_ROW_POOL_F32, ETI_ROW_POOL_F64, ETI_ROW_POOL_I64, ETI_ROW_POOL_TYPES };

// A row of a table of variants, whose loops end in `suffix`. A build without the type has no loops.
#define ETI_ROW_POOL_ENTRY(type, item, suffix) \
  {type,                                       \
   sizeof(item),                               \
   ETI_BUILT(type, max_##suffix),              \
   ETI_BUILT(type, merge_##suffix),            \
   ETI_BUILT(type, add_##suffix),              \
   ETI_BUILT(type, add_window_##suffix),       \
   ETI_BUILT(type, max_window_##suffix),       \
   ETI_BUILT(type, fold_##suffix)}

const eti_row_pool_micro *eti_row_pool_micro_best(int type);
// The row of an instruction set; NULL when the build or CPU lacks it.
const eti_row_pool_micro *eti_row_pool_micro_of_isa(int type, int isa);

// Sets n maxima to the smallest value of the type.
void eti_row_pool_start_max(const eti_row_pool_micro *micro, void *best, size_t n);

extern const eti_row_pool_micro eti_row_pool_scalar[ETI_ROW_POOL_TYPES];
extern const eti_row_pool_micro eti_row_pool_avx2[ETI_ROW_POOL_TYPES];
extern const eti_row_pool_micro eti_row_pool_avx512[ETI_ROW_POOL_TYPES];

#endif  // ET_MICRO_ROW_POOL_H
