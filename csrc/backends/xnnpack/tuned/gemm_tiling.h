// gemm_tiling.h — into how many calls the operators of gemm_kernels.h are cut.
#ifndef ET_XNNPACK_GEMM_TILING_H
#define ET_XNNPACK_GEMM_TILING_H

#include <stddef.h>
#include <xnnpack.h>

#include "backends/xnnpack/tuned/gemm_q8_schedule.h"

// How many rows and columns one call of a kernel computes.
typedef struct eti_xnn_tile {
  size_t rows, cols;
} eti_xnn_tile;

// f32: all rows and columns in one call, so that each weight is loaded from memory once. Weights
// that stay in a second-level cache are loaded from there: then as many rows as fit in it with
// them. For threads to share, columns are cut into panels and, where these are too few, rows into
// blocks.
eti_xnn_tile eti_xnn_f32_tile(size_t n_rows, size_t n_cols, size_t row_bytes, size_t weight_bytes,
                              size_t n_threads);

// Integers, whose kernels take a block of rows through all columns of a call: as many columns as
// have their weights in a second-level cache. For threads to share, rows are cut into blocks and,
// where these are too few, columns into panels.
eti_xnn_tile eti_xnn_q8_tile(size_t n_rows, size_t n_cols, size_t weight_bytes, size_t n_threads);

// Sets the tiles of a runtime's products by these rules, and schedules its int8 products; after
// each reshape, as eti_xnn_tuned_after_reshape.
void eti_xnn_gemm_after_reshape(xnn_runtime_t runtime, size_t n_threads,
                                eti_xnn_q8_schedule **schedules);

#endif  // ET_XNNPACK_GEMM_TILING_H
