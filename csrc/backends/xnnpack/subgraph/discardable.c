// discardable.c — see discardable.h. At the end it tells of everything once more: reading a
// constant may have brought pages of its neighbours back.
#include "backends/xnnpack/subgraph/discardable.h"

#include <stdlib.h>

// Constants at most PADDING apart are one stretch. Told once in STRETCH_BYTES, which is short
// beside what a network has and long beside what telling costs.
enum { PADDING = 256, STRETCH_BYTES = 4 << 20 };

void eti_xnn_spent_add(eti_xnn_spent *spent, const void *data, size_t bytes, eti_xnn_use use) {
  if (spent->tell != NULL) spent->extents[spent->n++] = (eti_xnn_extent){data, bytes, use};
}

static int by_address(const void *a, const void *b) {
  const uintptr_t left = (uintptr_t)((const eti_xnn_extent *)a)->data;
  const uintptr_t right = (uintptr_t)((const eti_xnn_extent *)b)->data;
  return (left > right) - (left < right);
}

void eti_xnn_spent_sort(eti_xnn_spent *spent) {
  if (spent->n > 0) qsort(spent->extents, spent->n, sizeof *spent->extents, by_address);
}

typedef struct stretch {
  const uint8_t *begin;  // NULL: there is none
  uintptr_t end;
} stretch;

static stretch told(const eti_xnn_spent *spent, stretch s) {
  if ((uintptr_t)s.begin < s.end)
    spent->tell(spent->ctx, s.begin, (size_t)(s.end - (uintptr_t)s.begin));
  return (stretch){NULL, 0};
}

// What is read in place, by whatever name, belongs to no stretch.
static void tell(eti_xnn_spent *spent) {
  stretch s = {NULL, 0};
  uintptr_t in_place = 0;  // up to here
  for (size_t i = 0; i < spent->n; i++) {
    eti_xnn_extent *const e = &spent->extents[i];
    const uintptr_t data = (uintptr_t)e->data, end = data + e->bytes;
    if (e->use == ETI_XNN_READ_ONCE) {
      const size_t hidden = in_place > data ? (size_t)(in_place - data) : 0;
      if (data + hidden > s.end + PADDING) s = told(spent, s);
      if (s.begin == NULL) s.begin = e->data + hidden;
      if (end > s.end) s.end = end;
      e->use = ETI_XNN_TOLD;
    } else if (e->use != ETI_XNN_TOLD) {
      if (data < s.end) s.end = data;
      s = told(spent, s);
      if (end > in_place) in_place = end;
    }
  }
  (void)told(spent, s);
  spent->untold = 0;
}

void eti_xnn_spent_packed(eti_xnn_spent *spent, const void *data) {
  size_t low = 0, high = spent->n;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const bool is_before = (uintptr_t)spent->extents[middle].data < (uintptr_t)data;
    low = is_before ? middle + 1 : low;
    high = is_before ? high : middle;
  }
  for (; low < spent->n && spent->extents[low].data == data; low++) {
    eti_xnn_extent *const e = &spent->extents[low];
    if (e->use != ETI_XNN_TO_PACK) continue;
    e->use = ETI_XNN_READ_ONCE;
    spent->untold += e->bytes;
  }
  if (spent->untold >= STRETCH_BYTES) tell(spent);
}

void eti_xnn_spent_all(eti_xnn_spent *spent) {
  if (spent->tell == NULL) return;
  for (size_t i = 0; i < spent->n; i++)
    if (spent->extents[i].use != ETI_XNN_IN_PLACE) spent->extents[i].use = ETI_XNN_READ_ONCE;
  tell(spent);
}
