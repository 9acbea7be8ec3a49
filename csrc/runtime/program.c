// program.c — opening a program: header, flatbuffer, verification, constants; and the data it carries by name.
#include "runtime/bytes.h"
#include "runtime/check.h"
#include "runtime/pte.h"

#define HEAD_BYTES 64    // upstream looks for the header in so many bytes; no program file is shorter
#define HEADER_AT 8      // after the root offset and the file identifier
#define SOURCE_ALIGN 16  // see et_blob

// Extent of the flatbuffer and of the segments, from the extended header if the file has one.
static et_status read_header(et_program *program, const uint8_t *head, uint64_t *flatbuffer_bytes, et_error *err) {
  const uint64_t file_bytes = program->source.size;
  const uint8_t *header = head + HEADER_AT;
  *flatbuffer_bytes = file_bytes;
  if (memcmp(header, "eh00", 4) != 0) return ET_OK;
  const uint32_t header_bytes = eti_u32(header + 4);
  ET_CHECK(header_bytes >= 24, err, ET_INVALID_PROGRAM, "extended header of %lu bytes, needs 24", (unsigned long)header_bytes);
  *flatbuffer_bytes = eti_u64(header + 8);
  program->segment_base = eti_u64(header + 16);
  program->segment_bytes = header_bytes >= 32 ? eti_u64(header + 24) : 0;
  // Old files do not say how many bytes their segments have: what is there, is theirs.
  const bool is_old = program->segment_base != 0 && program->segment_bytes == 0;
  ET_CHECK(*flatbuffer_bytes <= file_bytes && eti_inside(program->segment_base, program->segment_bytes, file_bytes), err,
           ET_INVALID_PROGRAM, "the file has %llu bytes, its header speaks of %llu + %llu: it is cut short or damaged",
           (unsigned long long)file_bytes,
           (unsigned long long)(program->segment_base != 0 ? program->segment_base : *flatbuffer_bytes),
           (unsigned long long)program->segment_bytes);
  if (is_old) program->segment_bytes = file_bytes - program->segment_base;
  return ET_OK;
}

// program->head is loaded; what else is loaded stays in the program, whose closing releases it.
static et_status open_flatbuffer(et_program *program, et_verification verification, et_error *err) {
  const uint8_t *base = program->head.data;
  const size_t size = program->head.size;
  ET_CHECK(eti_is_aligned(base, SOURCE_ALIGN), err, ET_INVALID_ARGUMENT,
           "the program's bytes must lie at a multiple of %d in memory", SOURCE_ALIGN);
  ET_CHECK(size >= 8 && memcmp(base + 4, "ET12", 4) == 0, err, ET_INVALID_PROGRAM,
           "not a program file: the identifier 'ET12' is missing");
  ET_CHECK(eti_u32(base) >= 8 && eti_inside(eti_u32(base), 4, size), err, ET_INVALID_PROGRAM,
           "the root table's offset %lu lies outside the program", (unsigned long)eti_u32(base));
  size_t where;
  ET_CHECK(verification == ET_VERIFY_MINIMAL || eti_fb_verify(base, size, eti_pte_schema, &where), err,
           ET_INVALID_PROGRAM, "the program's structure is damaged at byte %zu of %zu", where, size);
  program->root = eti_fb_root(base);
  ET_TRY(eti_program_verify(program, err));

  const uint8_t *constants = eti_fb_table(program->root, PTE_PROGRAM_CONSTANT_SEGMENT);
  if (eti_fb_vector(constants, PTE_SUBSEGMENT_OFFSETS).n <= 1) return ET_OK;
  const eti_segments segments = eti_program_segments(program);
  uint64_t offset, bytes;
  const uint32_t segment = eti_fb_u32(constants, PTE_SUBSEGMENT_INDEX);
  ET_CHECK(eti_segment_find(&segments, segment, &offset, &bytes), err, ET_INVALID_PROGRAM,
           "constants in segment %lu, the program has %zu", (unsigned long)segment, segments.list.n);
  return eti_source_load(&program->source, offset, bytes, &program->constants, err);
}

et_status et_program_open(et_program *program, const et_source *source, et_verification verification, et_error *err) {
  memset(program, 0, sizeof *program);
  program->source = *source;
  ET_CHECK(source->size >= HEAD_BYTES, err, ET_INVALID_ARGUMENT, "%llu bytes are no program file: the smallest has %d",
           (unsigned long long)source->size, HEAD_BYTES);
  et_blob head;
  uint64_t bytes;
  ET_TRY(eti_source_load(&program->source, 0, HEAD_BYTES, &head, err));
  et_status status = read_header(program, head.data, &bytes, err);
  eti_source_release(&head);
  if (status == ET_OK) status = eti_source_load(&program->source, 0, bytes, &program->head, err);
  if (status == ET_OK) status = open_flatbuffer(program, verification, err);
  if (status != ET_OK) et_program_close(program);
  return status;
}

void et_program_close(et_program *program) {
  eti_source_release(&program->constants);
  eti_source_release(&program->head);
  program->root = NULL;
}

size_t et_program_method_count(const et_program *program) {
  return eti_fb_vector(program->root, PTE_PROGRAM_PLANS).n;
}

const char *et_program_method_name(const et_program *program, size_t i) {
  const eti_vector plans = eti_fb_vector(program->root, PTE_PROGRAM_PLANS);
  if (i >= plans.n) return NULL;
  const char *name = eti_fb_string(eti_fb_at(plans, i), PTE_PLAN_NAME);
  return name == NULL ? "" : name;
}

size_t et_program_named_data_count(const et_program *program) {
  return eti_fb_vector(program->root, PTE_PROGRAM_NAMED_DATA).n;
}

const char *et_program_named_data_key(const et_program *program, size_t i, size_t *bytes) {
  const eti_vector named = eti_fb_vector(program->root, PTE_PROGRAM_NAMED_DATA);
  if (i >= named.n) return NULL;
  const uint8_t *entry = eti_fb_at(named, i);
  const eti_segments segments = eti_program_segments(program);
  uint64_t offset, size;
  if (bytes != NULL) {
    *bytes = eti_segment_find(&segments, eti_fb_u32(entry, PTE_NAMED_SEGMENT), &offset, &size) ? (size_t)size : 0;
  }
  return eti_fb_string(entry, PTE_NAMED_KEY);
}
