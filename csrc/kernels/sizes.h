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
// Computes a / b, rounded up.
static inline size_t eti_div_up(size_t a, size_t b) {
  return a / b + (a % b != 0);
}
// The least multiple of `to` that is n or more.
static inline size_t eti_round_up(size_t n, size_t to) {
  return (n + to - 1) / to * to;
}

#endif  // ET_KERNELS_SIZES_H
