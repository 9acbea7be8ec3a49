// upstream_order.h — descending orders of tokens in which equal tokens lie as libstdc++'s std::sort
// and std::partial_sort leave them, because upstream's draws depend on that.
#ifndef ET_LLM_UPSTREAM_ORDER_H
#define ET_LLM_UPSTREAM_ORDER_H

#include <stddef.h>
#include <stdint.h>

typedef struct eti_upstream_pair {
  float probability;
  uint32_t id;
} eti_upstream_pair;

void eti_upstream_sort(eti_upstream_pair *items, size_t n);
// Moves the k most probable of n items to the front, 1 ≤ k ≤ n.
void eti_upstream_partial_sort(eti_upstream_pair *items, size_t k, size_t n);

#endif  // ET_LLM_UPSTREAM_ORDER_H
