// sizes.h — bounds and multiples of sizes.
#ifndef ET_KERNELS_SIZES_H
#define ET_KERNELS_SIZES_H

#include <stddef.h>

static inline size_t eti_at_most(size_t n, size_t limit) {
  return n < limit ? n : limit;
}
static inline size_t eti_at_least(size_t n, size_t limit) {
  return n > limit ? n : limit;
}
// The least multiple of `to` that is n or more.
static inline size_t eti_round_up(size_t n, size_t to) {
  return (n + to - 1) / to * to;
}

#endif  // ET_KERNELS_SIZES_H
