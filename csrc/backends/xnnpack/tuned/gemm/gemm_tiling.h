// gemm_tiling.h — tile sizes of gemm operators: how many rows and columns each call of a kernel of
// gemm_kernels.h computes.
#ifndef ET_XNNPACK_GEMM_TILING_H
#define ET_XNNPACK_GEMM_TILING_H

#include <stddef.h>
#include <xnnpack.h>

#include "backends/xnnpack/tuned/gemm/gemm_q8_schedule.h"

// How many rows and columns one call of a kernel computes.
typedef struct eti_xnn_tile {
  size_t rows, cols;
} eti_xnn_tile;

// f32: all rows and columns in one call, so that each weight is loaded from memory once. If the
// weights fit a second-level cache they are loaded from it; then a call has as many rows as fit
// with them. Several threads share rows if there are many or if all read the weights from a cache:
// then each reads what it wrote in the operator before. Otherwise they share columns. If that gives
// too few calls, the others are cut, too.
// `least`: the rows and columns of a kernel's own tile, of which all tiles are multiples.
eti_xnn_tile eti_xnn_f32_tile(eti_xnn_tile least, size_t n_rows, size_t n_cols, size_t row_bytes,
                              size_t weight_bytes, size_t n_threads);

// Integers: as many columns as have their weights in a second-level cache, because the kernels
// multiply a block of rows by all columns of a call. For several threads rows are cut into blocks
// and, if these are too few, columns into panels.
eti_xnn_tile eti_xnn_q8_tile(size_t n_rows, size_t n_cols, size_t weight_bytes, size_t n_threads);

// Integers on tiles of AMX: as above with blocks of 32 rows and 32 columns. For several threads
// columns are cut first if the weights have more bytes than the rows, which are row_bytes each.
eti_xnn_tile eti_xnn_amx_tile(size_t n_rows, size_t n_cols, size_t row_bytes, size_t weight_bytes,
                              size_t n_threads);

// Sets the tiles of a runtime's products by these rules, and schedules its int8 products; after
// each reshape, as eti_xnn_tuned_after_reshape.
void eti_xnn_gemm_after_reshape(xnn_runtime_t runtime, size_t n_threads,
                                eti_xnn_q8_schedule **schedules);

#endif  // ET_XNNPACK_GEMM_TILING_H
