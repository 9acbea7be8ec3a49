// source.h — bounds-checked access to a source. Knows nothing of what is inside.
#ifndef ET_SOURCE_H
#define ET_SOURCE_H

#include "runtime/et.h"

// Loads [offset, offset + size) after checking it against the source; no bytes need no call. The
// caller releases.
et_status eti_source_load(const et_source *source, uint64_t offset, uint64_t size, et_blob *out,
                          et_error *err);
void eti_source_release(et_blob *blob);  // of whichever source; a zeroed blob is fine

#endif  // ET_SOURCE_H
