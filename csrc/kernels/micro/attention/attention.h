// attention.h — the loops between the two products of attention, over a transposed tile of scores:
// x[k · width + j] is the score of key k for query j, so that queries are the lanes of vectors and
// nothing is summed across lanes. `width` is 1 or one of `widths`; unused lanes are computed and
// ignored.
//
// Numeric contract: the scores of a tile of one query are sums in 16 lanes (column i in lane i mod
// 16) of fused multiply-adds, which are added in a fixed tree; scores of other tiles are products
// of gemm.h. With m' the largest score so far (NaN wins) and s = m', or 0 if m' is -inf, weights
// are exp(x − s), or 0 if that is below the smallest normal number. Earlier sums are multiplied by
// exp(m − s). The weights of a tile are summed in 16 lanes (key k in lane k mod 16), which are
// added in a fixed tree. Every instruction set gives the same bits. Relies on
// kernels/micro/isa_select.h. Knows no tensor.
#ifndef ET_MICRO_ATTENTION_H
#define ET_MICRO_ATTENTION_H

#include "kernels/dtype_sets.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ETI_ATTENTION_QUERIES = 32 };  // largest f32 tile in queries; half as many in f64

// All pointers are to elements of `dtype`.
typedef struct eti_attention_micro {
  uint8_t dtype;      // et_dtype: f32 or f64
  uint8_t esize;      // its bytes
  uint8_t widths[2];  // of tiles, ascending; the last is the largest
  // x[k] (+)= query · key k, for keys `step` elements apart.
  void (*dots)(void *x, const void *keys, size_t step, size_t n, const void *query, size_t dim,
               bool add);
  // Turns scores into weights, and updates highest score and sum of each query; factor receives the
  // multiplier of earlier sums.
  void (*soften)(void *x, size_t keys, size_t width, void *high, void *sum, void *factor);
  void (*add)(void *x, const void *y, size_t n);  // x[i] += y[i]
  // x[k · width + j] += y[k]
  void (*add_keys)(void *x, const void *y, size_t keys, size_t width);
  // Hides key k of query j where k ≥ seen[j]: its score becomes -inf.
  void (*limit)(void *x, const int32_t *seen, size_t keys, size_t width);
  void (*scale)(void *out, const void *x, double factor, size_t n);  // out may be x
} eti_attention_micro;

enum { ETI_ATTENTION_F32, ETI_ATTENTION_F64, ETI_ATTENTION_TYPES };

// A row of a table of variants, whose loops end in `suffix`. A build without the type has no loops.
#define ETI_ATTENTION_ROW(type, item, width_0, width_1, suffix) \
  {type,                                                        \
   sizeof(item),                                                \
   {width_0, width_1},                                          \
   ETI_BUILT(type, dots_##suffix),                              \
   ETI_BUILT(type, soften_##suffix),                            \
   ETI_BUILT(type, add_##suffix),                               \
   ETI_BUILT(type, add_keys_##suffix),                          \
   ETI_BUILT(type, limit_##suffix),                             \
   ETI_BUILT(type, scale_##suffix)}

const eti_attention_micro *eti_attention_micro_best(int type);
// The row of an instruction set; NULL when the build or CPU lacks it.
const eti_attention_micro *eti_attention_micro_of_isa(int type, int isa);

extern const eti_attention_micro eti_attention_scalar[ETI_ATTENTION_TYPES];
extern const eti_attention_micro eti_attention_avx2[ETI_ATTENTION_TYPES];
extern const eti_attention_micro eti_attention_avx512[ETI_ATTENTION_TYPES];

#endif  // ET_MICRO_ATTENTION_H
