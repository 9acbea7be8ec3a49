#include "runtime/signature/et_named_data.h"

#include "runtime/check.h"
#include "runtime/file.h"
#include "runtime/pte.h"
#include "runtime/source.h"

size_t et_program_named_data_count(const et_program *program) {
  return eti_fb_vector(program->file.root, PTE_PROGRAM_NAMED_DATA).n;
}

const char *et_program_named_data_key(const et_program *program, size_t i, size_t *bytes) {
  const eti_vector named = eti_fb_vector(program->file.root, PTE_PROGRAM_NAMED_DATA);
  if (i >= named.n) return NULL;
  const uint8_t *entry = eti_fb_at(named, i);
  uint64_t offset, size;
  if (bytes != NULL) {
    *bytes = eti_segment_find(&program->file, eti_fb_u32(entry, PTE_NAMED_SEGMENT), &offset, &size)
                 ? (size_t)size
                 : 0;
  }
  return eti_fb_string(entry, PTE_NAMED_KEY);
}

et_status et_program_named_data_load(const et_program *program, const char *key, et_blob *blob,
                                     et_error *err) {
  eti_named_entry entry;
  ET_CHECK(eti_file_find_named(&program->file, key, &entry), err, ET_NOT_FOUND,
           "named data '%s': expected a key of the program, got none", key);
  return eti_source_load(entry.source, entry.offset, entry.bytes, blob, err);
}

void et_program_named_data_release(et_blob *blob) {
  eti_source_release(blob);
}
