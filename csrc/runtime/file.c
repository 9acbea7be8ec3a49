// file.c — see file.h.
#include "runtime/file.h"

#include "runtime/bytes.h"
#include "runtime/check.h"
#include "runtime/pte_schema.h"
#include "runtime/source.h"

#define HEAD_BYTES 64    // upstream looks for the header in so many bytes; no file is shorter
#define HEADER_AT 8      // after the root offset and the identifier
#define SOURCE_ALIGN 16  // see et_blob

// Extent of the flatbuffer and of the segments, from the extended header if the file has one.
static et_status read_header(et_file *file, const uint8_t *head, uint64_t *flatbuffer_bytes,
                             et_error *err) {
  const eti_format *format = file->format;
  const uint8_t *header = head + HEADER_AT, *figures = header + format->figures_at;
  const uint64_t file_bytes = file->source.size;
  const bool has_header = memcmp(header, format->magic, sizeof format->magic) == 0;
  *flatbuffer_bytes = file_bytes;
  if (!has_header && format->is_header_optional) return ET_OK;
  const uint32_t header_bytes = eti_u32(header + 4);
  ET_CHECK(
      has_header && header_bytes >= format->header_bytes, err, (et_status)format->damaged,
      "extended header: expected the mark '%c%c%c%c' and at least %d bytes, got mark %x %x %x %x "
      "and %lu bytes",
      format->magic[0], format->magic[1], format->magic[2], format->magic[3], format->header_bytes,
      header[0], header[1], header[2], header[3], (unsigned long)header_bytes);
  // External data stores the flatbuffer's offset in its header; programs have offset 0.
  const uint64_t offset = format->figures_at == 8 ? 0 : eti_u64(header + 8);
  const uint64_t size = eti_u64(figures);
  const uint64_t base = eti_u64(figures + 8);
  uint64_t bytes = header_bytes >= 32 ? eti_u64(figures + 16) : 0;
  ET_CHECK(
      eti_inside(offset, size, file_bytes) && eti_inside(base, bytes, file_bytes), err,
      (et_status)format->damaged,
      "the file: expected %llu + %llu bytes by its header, got %llu: it is cut short or damaged",
      (unsigned long long)(base != 0 ? base : size), (unsigned long long)bytes,
      (unsigned long long)file_bytes);
  // Old files do not store the size of their segments: it is the rest of the file.
  if (base != 0 && bytes == 0) bytes = file_bytes - base;
  *flatbuffer_bytes = offset + size;
  file->segment_base = base;
  file->segment_bytes = bytes;
  return ET_OK;
}

// Checks that every segment is inside the file and every named entry has a key and a segment.
static et_status verify_contents(const et_file *file, et_error *err) {
  const eti_format *format = file->format;
  uint64_t offset, size;
  ET_CHECK(eti_fb_u32(file->root, ETI_FILE_ROOT_VERSION) == 0, err, (et_status)format->damaged,
           "format version: expected 0, got %lu",
           (unsigned long)eti_fb_u32(file->root, ETI_FILE_ROOT_VERSION));
  const size_t n_segments = eti_fb_vector(file->root, format->segments).n;
  for (size_t i = 0; i < n_segments; i++) {
    ET_CHECK(eti_segment_find(file, i, &offset, &size), err, (et_status)format->damaged,
             "segment %zu lies outside the %llu bytes of segments", i,
             (unsigned long long)file->segment_bytes);
  }
  const eti_vector named = eti_fb_vector(file->root, format->named);
  for (size_t i = 0; i < named.n; i++) {
    const uint8_t *entry = eti_fb_at(named, i);
    const uint32_t segment = eti_fb_u32(entry, ETI_FILE_NAMED_SEGMENT);
    ET_CHECK(eti_fb_string(entry, ETI_FILE_NAMED_KEY) != NULL && segment < n_segments, err,
             (et_status)format->dangling,
             "named data %zu: expected a key and a segment below %zu, got segment %lu", i,
             n_segments, (unsigned long)segment);
  }
  return ET_OK;
}

// Verifies the flatbuffer of a file whose head is loaded.
static et_status open_flatbuffer(et_file *file, bool is_trusted, et_error *err) {
  const eti_format *format = file->format;
  const uint8_t *base = file->head.data;
  const size_t size = file->head.size;
  ET_CHECK(eti_is_aligned(base, SOURCE_ALIGN), err, ET_INVALID_ARGUMENT,
           "the file's bytes: expected an address that is a multiple of %d, got 0x%llx",
           SOURCE_ALIGN, (unsigned long long)(uintptr_t)base);
  ET_CHECK(size >= 8, err, (et_status)format->damaged,
           "the flatbuffer: expected at least 8 bytes, got %zu", size);
  ET_CHECK(memcmp(base + 4, format->identifier, sizeof format->identifier) == 0, err,
           (et_status)format->damaged,
           "not a file of this kind: expected the identifier '%c%c%c%c', got bytes %x %x %x %x",
           format->identifier[0], format->identifier[1], format->identifier[2],
           format->identifier[3], base[4], base[5], base[6], base[7]);
  ET_CHECK(eti_u32(base) >= 8 && eti_inside(eti_u32(base), 4, size), err,
           (et_status)format->damaged,
           "the root table's offset: expected inside %zu bytes, got %lu", size,
           (unsigned long)eti_u32(base));
  size_t where;
  ET_CHECK(is_trusted || eti_fb_verify(base, size, format->schema, &where), err,
           (et_status)format->damaged, "the file's structure is damaged at byte %zu of %zu", where,
           size);
  file->root = eti_fb_root(base);
  return verify_contents(file, err);
}

et_status eti_file_open(et_file *file, const et_source *source, const eti_format *format,
                        bool is_trusted, et_error *err) {
  file->source = *source;
  file->format = format;
  ET_CHECK(source->size >= HEAD_BYTES, err, ET_INVALID_ARGUMENT,
           "the file: expected at least %d bytes, got %llu", HEAD_BYTES,
           (unsigned long long)source->size);
  et_blob head;
  uint64_t bytes;
  ET_TRY(eti_source_load(&file->source, 0, HEAD_BYTES, &head, err));
  const et_status status = read_header(file, head.data, &bytes, err);
  eti_source_release(&head);
  ET_TRY(status);
  ET_TRY(eti_source_load(&file->source, 0, bytes, &file->head, err));
  return open_flatbuffer(file, is_trusted, err);
}

void eti_file_close(et_file *file) {
  eti_source_release(&file->head);
  file->root = NULL;
}

bool eti_segment_find(const et_file *file, size_t i, uint64_t *offset, uint64_t *size) {
  ET_ASSERT(file->root != NULL);
  const eti_vector segments = eti_fb_vector(file->root, file->format->segments);
  if (i >= segments.n) return false;
  const uint8_t *segment = eti_fb_at(segments, i);
  const uint64_t begin = eti_fb_u64(segment, PTE_SEGMENT_OFFSET);
  *size = eti_fb_u64(segment, PTE_SEGMENT_SIZE);
  *offset = file->segment_base + begin;
  return eti_inside(begin, *size, file->segment_bytes);
}

bool eti_file_find_named(const et_file *file, const char *key, eti_named_entry *out) {
  const eti_vector entries = eti_fb_vector(file->root, file->format->named);
  for (size_t i = 0; i < entries.n; i++) {
    out->table = eti_fb_at(entries, i);
    ET_ASSERT(eti_fb_string(out->table, ETI_FILE_NAMED_KEY) != NULL);
    if (strcmp(eti_fb_string(out->table, ETI_FILE_NAMED_KEY), key) != 0) continue;
    out->source = &file->source;
    return eti_segment_find(file, eti_fb_u32(out->table, ETI_FILE_NAMED_SEGMENT), &out->offset,
                            &out->bytes);
  }
  return false;
}
