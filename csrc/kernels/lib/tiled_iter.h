// tiled_iter.h — tiled iteration over operands of different layouts. When the output's rows run
// across an input's, every element of a row is in another cache line; a tile transposes as many
// rows as a line has elements. Relies on iter.h and micro/transpose.h; knows no operator. Tiling
// changes neither an element's computation nor its operands.
#ifndef ET_TILED_ITER_H
#define ET_TILED_ITER_H

#include "kernels/lib/iter.h"

typedef struct eti_tiled_iter {
  const eti_iter *it;
  size_t across;   // the dimension along which the packed operands are dense
  size_t n_rows;   // rows of a tile
  size_t n_tiles;  // along `across`
  size_t n_units;  // tiles of the whole, each as long as a row
  bool packs[ETI_MAX_OPERANDS];
  size_t bytes[ETI_MAX_OPERANDS];  // of an element
} eti_tiled_iter;

// Sets up tiles. False when plain rows are as good: then there is nothing to run. `it` is borrowed,
// and `operands` are the tensors that it walks.
bool eti_tiled_iter_init(eti_tiled_iter *tiles, const eti_iter *it, et_tensor *const *operands);

// Calls row for pieces of rows that together cover the index space once. grain: elements.
void eti_tiled_iter_run(const eti_tiled_iter *tiles, const et_pool *pool, size_t grain,
                        eti_row_fn row, void *ctx);

#endif  // ET_TILED_ITER_H
