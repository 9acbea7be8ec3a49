// program.c — opening a program: verification, constants, named data.
#include "runtime/bytes.h"
#include "runtime/check.h"
#include "runtime/pte.h"

static et_status load_constants(et_program *program, et_error *err) {
  const uint8_t *constants = eti_fb_table(program->file.root, PTE_PROGRAM_CONSTANT_SEGMENT);
  if (eti_fb_vector(constants, PTE_SUBSEGMENT_OFFSETS).n <= 1) return ET_OK;
  uint64_t offset, bytes;
  const uint32_t segment = eti_fb_u32(constants, PTE_SUBSEGMENT_INDEX);
  ET_CHECK(eti_segment_find(&program->file, segment, &offset, &bytes), err, ET_INVALID_PROGRAM,
           "constants in segment %lu, which the program does not have", (unsigned long)segment);
  return eti_source_load(&program->file.source, offset, bytes, &program->constants, err);
}

et_status et_program_open(et_program *program, const et_source *source,
                          et_verification verification, et_error *err) {
  memset(program, 0, sizeof *program);
  et_status status = eti_file_open(&program->file, source, &eti_pte_format,
                                   verification == ET_VERIFY_MINIMAL, err);
  if (status == ET_OK) status = eti_program_verify(program, err);
  if (status == ET_OK) status = load_constants(program, err);
  if (status != ET_OK) et_program_close(program);
  return status;
}

void et_program_close(et_program *program) {
  eti_source_release(&program->constants);
  eti_file_close(&program->file);
}

size_t et_program_method_count(const et_program *program) {
  return eti_fb_vector(program->file.root, PTE_PROGRAM_PLANS).n;
}

const char *et_program_method_name(const et_program *program, size_t i) {
  const eti_vector plans = eti_fb_vector(program->file.root, PTE_PROGRAM_PLANS);
  if (i >= plans.n) return NULL;
  const char *name = eti_fb_string(eti_fb_at(plans, i), PTE_PLAN_NAME);
  return name == NULL ? "" : name;
}
