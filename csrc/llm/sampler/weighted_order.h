// weighted_order.h — the border of a prefix in an ascending order whose weights reach a sum, found
// without sorting: sums over ranges of keys, then over the parts of one range, until it is one key.
#ifndef ET_LLM_WEIGHTED_ORDER_H
#define ET_LLM_WEIGHTED_ORDER_H

#include <stddef.h>
#include <stdint.h>

enum { ETI_ORDER_BINS = 512, ETI_ORDER_LANES = 4 };

typedef struct eti_border {
  uint32_t key;   // of the last items of the prefix
  double before;  // sum of the weights of smaller keys, below the target
} eti_border;

// The border of the shortest prefix whose weights sum to `target` > 0; of all items if they do not.
// Weights are all 1 for NULL. n ≥ 1; room for ETI_ORDER_BINS × ETI_ORDER_LANES bins.
eti_border eti_border_of(const uint32_t *keys, const float *weights, size_t n, double target,
                         double *bins);

#endif  // ET_LLM_WEIGHTED_ORDER_H
