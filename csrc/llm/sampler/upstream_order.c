// upstream_order.c — see upstream_order.h. Introspective sort: partitions around a median of three
// down to runs of 16, sorts by heap where partitions get too deep, and ends with insertions.
#include "llm/sampler/upstream_order.h"

#include <stdbool.h>

typedef eti_upstream_pair pair;

enum { SHORT_RUN = 16, MAX_RUNS = 128 };

static bool before(pair a, pair b) {
  return a.probability > b.probability;
}

static void swap(pair *a, pair *b) {
  const pair held = *a;
  *a = *b;
  *b = held;
}

// ---- heaps, whose first item is the last in the order

// Puts an item into the heap of n with a hole: the hole goes down to a leaf, then the item up.
static void fill_hole(pair *heap, size_t hole, size_t n, pair item) {
  const size_t top = hole;
  size_t child = hole;
  while (child < (n - 1) / 2) {
    child = 2 * (child + 1);
    if (before(heap[child], heap[child - 1])) child--;
    heap[hole] = heap[child];
    hole = child;
  }
  if (n % 2 == 0 && child == (n - 2) / 2) {
    child = 2 * (child + 1);
    heap[hole] = heap[child - 1];
    hole = child - 1;
  }
  while (hole > top && before(heap[(hole - 1) / 2], item)) {
    heap[hole] = heap[(hole - 1) / 2];
    hole = (hole - 1) / 2;
  }
  heap[hole] = item;
}

void eti_upstream_partial_sort(eti_upstream_pair *items, size_t k, size_t n) {
  for (size_t i = k / 2; i > 0; i--) fill_hole(items, i - 1, k, items[i - 1]);
  for (size_t i = k; i < n; i++) {
    if (!before(items[i], items[0])) continue;
    const pair item = items[i];
    items[i] = items[0];
    fill_hole(items, 0, k, item);
  }
  for (size_t last = k - 1; last > 0; last--) {
    const pair item = items[last];
    items[last] = items[0];
    fill_hole(items, 0, last, item);
  }
}

// ---- partitions and insertions

static pair *median(pair *a, pair *b, pair *c) {
  if (before(*a, *b)) return before(*b, *c) ? b : before(*a, *c) ? c : a;
  return before(*a, *c) ? a : before(*b, *c) ? c : b;
}

// Splits items from index `from` on around items[0]; returns the beginning of the second part.
static size_t partition(pair *items, size_t from, size_t n) {
  size_t low = from, high = n;
  for (;;) {
    while (before(items[low], items[0])) low++;
    high--;
    while (before(items[0], items[high])) high--;
    if (low >= high) return low;
    swap(&items[low], &items[high]);
    low++;
  }
}

// Partitions until all runs are short; from 2·log2(n) levels on a run is sorted by heap.
static void split_runs(pair *items, size_t n) {
  struct {
    size_t begin, end;
    unsigned levels;
  } runs[MAX_RUNS];
  unsigned levels = 0;
  for (size_t left = n; left > 1; left /= 2) levels += 2;
  size_t n_runs = 1;
  runs[0].begin = 0, runs[0].end = n, runs[0].levels = levels;
  while (n_runs > 0) {
    n_runs--;
    const size_t begin = runs[n_runs].begin;
    size_t end = runs[n_runs].end;
    for (levels = runs[n_runs].levels; end - begin > SHORT_RUN; levels--) {
      pair *const run = items + begin;
      const size_t size = end - begin;
      if (levels == 0) {
        eti_upstream_partial_sort(run, size, size);
        break;
      }
      swap(run, median(run + 1, run + size / 2, run + size - 1));
      const size_t cut = begin + partition(run, 1, size);
      runs[n_runs].begin = cut, runs[n_runs].end = end, runs[n_runs].levels = levels - 1;
      n_runs++;
      end = cut;
    }
  }
}

void eti_upstream_sort(eti_upstream_pair *items, size_t n) {
  split_runs(items, n);
  for (size_t i = 1; i < n; i++) {
    const pair item = items[i];
    size_t at = i;
    for (; at > 0 && before(item, items[at - 1]); at--) items[at] = items[at - 1];
    items[at] = item;
  }
}
