// discardable.h — tracks constants that are no longer read after packing and reports them to a
// callback, in ranges and during packing. So the source and the packed copy of a whole network need
// not be in memory together. Knows addresses, nothing of graphs.
#ifndef ET_XNNPACK_DISCARDABLE_H
#define ET_XNNPACK_DISCARDABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum eti_xnn_constant_use {
  ETI_XNN_IN_PLACE,     // read by every run
  ETI_XNN_TO_PACK,      // read until it is packed
  ETI_XNN_DISCARDABLE,  // not read any more
  ETI_XNN_REPORTED,     // not read any more, and reported
} eti_xnn_constant_use;

typedef struct eti_xnn_extent {
  const uint8_t *data;
  size_t bytes;
  eti_xnn_constant_use use;
} eti_xnn_extent;

typedef struct eti_xnn_discardable {
  void (*report)(void *ctx, const void *data, size_t bytes);  // NULL: nothing is tracked
  void *ctx;
  eti_xnn_extent *extents;  // the owner's, with room for all that are added
  size_t n;
  size_t unreported;  // bytes that are discardable and not yet reported
} eti_xnn_discardable;

void eti_xnn_discardable_add(eti_xnn_discardable *d, const void *data, size_t bytes,
                             eti_xnn_constant_use use);
void eti_xnn_discardable_sort(eti_xnn_discardable *d);  // after the last one was added
// Marks the extent at `data`, if there is one, as packed. Reports when enough bytes are
// discardable.
void eti_xnn_discardable_mark_packed(eti_xnn_discardable *d, const void *data);
// Reports all constants that are not read in place, when all packing is done.
void eti_xnn_discardable_report_all(eti_xnn_discardable *d);

#endif  // ET_XNNPACK_DISCARDABLE_H
