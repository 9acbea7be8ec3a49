// discardable.h — where constants lie that nothing reads any more, because XNNPACK has a packed
// copy of them, and who wants to know. Told in stretches while packing goes on, so that source and
// copy of a whole network never need to be in memory together. Knows addresses, nothing of graphs.
#ifndef ET_XNNPACK_SPENT_H
#define ET_XNNPACK_SPENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum eti_xnn_use {
  ETI_XNN_IN_PLACE,   // read by every run
  ETI_XNN_TO_PACK,    // read until it is packed
  ETI_XNN_READ_ONCE,  // has been read
  ETI_XNN_TOLD,       // likewise, and it was told of
} eti_xnn_use;

typedef struct eti_xnn_extent {
  const uint8_t *data;
  size_t bytes;
  eti_xnn_use use;
} eti_xnn_extent;

typedef struct eti_xnn_spent {
  void (*tell)(void *ctx, const void *data, size_t bytes);  // NULL: nobody wants to know
  void *ctx;
  eti_xnn_extent *extents;  // the owner's, with room for all that are added
  size_t n;
  size_t untold;  // bytes that are spent since it told
} eti_xnn_spent;

void eti_xnn_spent_add(eti_xnn_spent *spent, const void *data, size_t bytes, eti_xnn_use use);
void eti_xnn_spent_sort(eti_xnn_spent *spent);  // when all are there
// What lies at `data`, which may be none of them, has been packed. Tells when that makes it worth
// while.
void eti_xnn_spent_packed(eti_xnn_spent *spent, const void *data);
// Everything has been packed that was to be: tells of all.
void eti_xnn_spent_all(eti_xnn_spent *spent);

#endif  // ET_XNNPACK_SPENT_H
