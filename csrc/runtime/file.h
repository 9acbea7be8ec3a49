// file.h — opening a file of either format (program, external data): extended header, flatbuffer,
// segments, named data. Each format is a row of eti_format; the meaning of its tables is known to
// pte*.c and data_map.c.
#ifndef ET_FILE_H
#define ET_FILE_H

#include "runtime/et.h"
#include "runtime/flatbuf.h"

#define ETI_FILE_ROOT_VERSION 0  // slots that both formats share
#define ETI_FILE_NAMED_KEY 0
#define ETI_FILE_NAMED_SEGMENT 1

typedef struct eti_format {
  char identifier[4];       // of the flatbuffer, in bytes 4 to 7
  char magic[4];            // of the extended header, which follows
  uint8_t header_bytes;     // least length of that header
  uint8_t figures_at;       // offset of: flatbuffer bytes, segment base, segment bytes
  uint8_t segments, named;  // slots of the root table
  bool is_header_optional;
  uint8_t damaged;   // et_status of a damaged file
  uint8_t dangling;  // et_status of named data without key or segment
  const eti_fb_schema *schema;
} eti_format;

// Opens a zeroed file. Also after a failure, eti_file_close releases what it holds. is_trusted
// skips the verification of the structure.
et_status eti_file_open(et_file *file, const et_source *source, const eti_format *format,
                        bool is_trusted, et_error *err);
void eti_file_close(et_file *file);

// Finds a segment; *offset is from the file's start. False when it does not exist or is outside the
// segments' bytes.
bool eti_segment_find(const et_file *file, size_t i, uint64_t *offset, uint64_t *size);

// An entry of the named data.
typedef struct eti_named_entry {
  const et_source *source;
  const uint8_t *table;    // of the entry
  uint64_t offset, bytes;  // from the file's start
} eti_named_entry;
bool eti_file_find_named(const et_file *file, const char *key,
                         eti_named_entry *out);  // false: no entry has the key

#endif  // ET_FILE_H
