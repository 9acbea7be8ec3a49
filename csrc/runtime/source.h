// source.h — bounds-checked access to a source. Knows no file format.
#ifndef ET_SOURCE_H
#define ET_SOURCE_H

#include "runtime/et.h"

// Loads [offset, offset + size) after checking it against the source, which is not called for size
// 0. The caller releases the blob.
et_status eti_source_load(const et_source *source, uint64_t offset, uint64_t size, et_blob *out,
                          et_error *err);
void eti_source_release(et_blob *blob);  // of any source; a zeroed blob is allowed

#endif  // ET_SOURCE_H
