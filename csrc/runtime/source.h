// source.h — bounds-checked access to a source, and the segments of an opened file. Knows nothing of what is inside.
#ifndef ET_SOURCE_H
#define ET_SOURCE_H

#include "runtime/et.h"
#include "runtime/flatbuf.h"

// Loads [offset, offset + size) after checking it against the source; no bytes need no call. The caller releases.
et_status eti_source_load(const et_source *source, uint64_t offset, uint64_t size, et_blob *out, et_error *err);
void eti_source_release(et_blob *blob);  // of whichever source; a zeroed blob is fine

// Where the segments of a file are: shared by programs and external data.
typedef struct eti_segments {
  const et_source *source;
  eti_vector list;  // DataSegment tables
  uint64_t base;
  uint64_t bytes;   // base + bytes lies inside the source
} eti_segments;

// False when there is no such segment or it does not lie inside the segments' bytes; *offset is from the file's start.
bool eti_segment_find(const eti_segments *segments, size_t i, uint64_t *offset, uint64_t *size);

#endif  // ET_SOURCE_H
