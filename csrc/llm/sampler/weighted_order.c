// weighted_order.c — see weighted_order.h. Each round splits a range of keys into ETI_ORDER_BINS
// parts. Sums are in the order of the items, so their bits do not depend on the machine.
#include "llm/sampler/weighted_order.h"

#include <string.h>

// Long lists have their bins four times, so that neighbours with similar keys do not wait for each
// other's sums.
enum { LONG_LIST = 4096 };

static void fill(const uint32_t *keys, const float *weights, size_t n, uint32_t low, uint32_t width,
                 unsigned shift, size_t lane_mask, double *bins) {
  memset(bins, 0, (lane_mask + 1) * ETI_ORDER_BINS * sizeof *bins);
  for (size_t i = 0; i < n; i++) {
    const uint32_t offset = keys[i] - low;
    if (offset > width) continue;
    double *const bin = bins + (i & lane_mask) * ETI_ORDER_BINS + (offset >> shift);
    *bin += weights == NULL ? 1.0 : (double)weights[i];
  }
}

// The bin that reaches the target, or the last one with a weight. Adds the bins before it.
static size_t crossing(const double *bins, size_t lane_mask, double target, double *before) {
  size_t found = 0;
  double sum = *before;
  for (size_t b = 0; b < ETI_ORDER_BINS; b++) {
    double bin = bins[b];
    for (size_t lane = 1; lane <= lane_mask; lane++) bin += bins[lane * ETI_ORDER_BINS + b];
    if (bin == 0.0) continue;
    found = b;
    *before = sum;
    sum += bin;
    if (sum >= target) break;
  }
  return found;
}

eti_border eti_border_of(const uint32_t *keys, const float *weights, size_t n, double target,
                         double *bins) {
  uint32_t low = keys[0], high = keys[0];
  for (size_t i = 1; i < n; i++) {
    low = keys[i] < low ? keys[i] : low;
    high = keys[i] > high ? keys[i] : high;
  }
  const size_t lane_mask = n > LONG_LIST ? ETI_ORDER_LANES - 1 : 0;
  double before = 0.0;
  while (low < high) {
    const uint32_t width = high - low;
    unsigned shift = 0;
    while (width >> shift >= ETI_ORDER_BINS) shift++;
    fill(keys, weights, n, low, width, shift, lane_mask, bins);
    low += (uint32_t)crossing(bins, lane_mask, target, &before) << shift;
    const uint32_t rest = ((uint32_t)1 << shift) - 1;
    high = high - low > rest ? low + rest : high;
  }
  return (eti_border){low, before};
}
