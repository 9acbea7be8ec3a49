// method_loader.h — the state of one measuring or loading, shared by the two files that do it.
// Both are the same code: while measuring, `method` is NULL, the arena counts, and nothing is written.
#ifndef ET_METHOD_LOADER_H
#define ET_METHOD_LOADER_H

#include "runtime/arena.h"
#include "runtime/method.h"

#define ETI_WRITTEN_BITS 2048u

typedef struct eti_loader {
  const et_program *program;
  const et_method_config *config;
  const et_method_memory *memory;  // NULL while measuring
  et_method *method;               // NULL while measuring
  et_arena *arena;
  et_error *err;
  size_t scratch_bytes;
  eti_plan plan;
  eti_named_data named;
  uint32_t written[ETI_WRITTEN_BITS / 32];  // hash of values that an instruction replaces: a clear bit is certain
} eti_loader;

// Builds value i for the method's life into *out (NULL while measuring).
et_status eti_build_value(eti_loader *l, size_t i, et_value *out);

// Temporary copies of arguments for a prepare step, in stack memory.
#define ETI_MAX_TEMPORARY_BLOBS 4
typedef struct eti_temporary {
  et_arena room;
  size_t n_blobs;
  et_blob blobs[ETI_MAX_TEMPORARY_BLOBS];  // external constants, held only while measuring
} eti_temporary;

// False: something does not fit or is not known before the run, and the instruction runs unprepared. The caller releases
// temporary->blobs in either case.
bool eti_build_temporary(eti_loader *l, size_t i, eti_temporary *temporary, et_value *out, bool is_member);

// Fills l->written.
et_status eti_find_written(eti_loader *l);

#endif  // ET_METHOD_LOADER_H
