// discardable.c — see discardable.h. The last report covers all packed constants once more: reading
// a constant may have loaded pages of its neighbours again.
#include "backends/xnnpack/subgraph/discardable.h"

#include <stdlib.h>

// Constants at most PADDING bytes apart form one range. A report is made once in REPORT_BYTES. That
// is little compared with the constants of a network, and enough to outweigh the cost of a report.
enum { PADDING = 256, REPORT_BYTES = 4 << 20 };

void eti_xnn_discardable_add(eti_xnn_discardable *d, const void *data, size_t bytes,
                             eti_xnn_constant_use use) {
  if (d->report != NULL) d->extents[d->n++] = (eti_xnn_extent){data, bytes, use};
}

static int by_address(const void *a, const void *b) {
  const uintptr_t left = (uintptr_t)((const eti_xnn_extent *)a)->data;
  const uintptr_t right = (uintptr_t)((const eti_xnn_extent *)b)->data;
  return (left > right) - (left < right);
}

void eti_xnn_discardable_sort(eti_xnn_discardable *d) {
  if (d->n > 0) qsort(d->extents, d->n, sizeof *d->extents, by_address);
}

typedef struct byte_range {
  const uint8_t *begin;  // NULL: empty
  uintptr_t end;
} byte_range;

// Reports a range; returns an empty one.
static byte_range report_range(const eti_xnn_discardable *d, byte_range s) {
  if ((uintptr_t)s.begin < s.end) d->report(d->ctx, s.begin, (size_t)(s.end - (uintptr_t)s.begin));
  return (byte_range){NULL, 0};
}

// Bytes that are read in place, under any key, belong to no range.
static void report_ranges(eti_xnn_discardable *d) {
  byte_range s = {NULL, 0};
  uintptr_t in_place = 0;  // up to here
  for (size_t i = 0; i < d->n; i++) {
    eti_xnn_extent *const e = &d->extents[i];
    const uintptr_t data = (uintptr_t)e->data, end = data + e->bytes;
    if (e->use == ETI_XNN_DISCARDABLE) {
      const size_t hidden = in_place > data ? (size_t)(in_place - data) : 0;
      if (data + hidden > s.end + PADDING) s = report_range(d, s);
      if (s.begin == NULL) s.begin = e->data + hidden;
      if (end > s.end) s.end = end;
      e->use = ETI_XNN_REPORTED;
    } else if (e->use != ETI_XNN_REPORTED) {
      if (data < s.end) s.end = data;
      s = report_range(d, s);
      if (end > in_place) in_place = end;
    }
  }
  (void)report_range(d, s);
  d->unreported = 0;
}

void eti_xnn_discardable_mark_packed(eti_xnn_discardable *d, const void *data) {
  size_t low = 0, high = d->n;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const bool is_before = (uintptr_t)d->extents[middle].data < (uintptr_t)data;
    low = is_before ? middle + 1 : low;
    high = is_before ? high : middle;
  }
  for (; low < d->n && d->extents[low].data == data; low++) {
    eti_xnn_extent *const e = &d->extents[low];
    if (e->use != ETI_XNN_TO_PACK) continue;
    e->use = ETI_XNN_DISCARDABLE;
    d->unreported += e->bytes;
  }
  if (d->unreported >= REPORT_BYTES) report_ranges(d);
}

void eti_xnn_discardable_report_all(eti_xnn_discardable *d) {
  if (d->report == NULL) return;
  for (size_t i = 0; i < d->n; i++)
    if (d->extents[i].use != ETI_XNN_IN_PLACE) d->extents[i].use = ETI_XNN_DISCARDABLE;
  report_ranges(d);
}
