// method_loader.h — the state of one measuring or loading, shared by the files that do it. Both run
// the same code: while measuring, `method` is NULL, the arena counts, and nothing is written.
#ifndef ET_METHOD_LOADER_H
#define ET_METHOD_LOADER_H

#include <stdalign.h>

#include "runtime/arena.h"
#include "runtime/method.h"

#define ETI_WRITTEN_BITS 8192u
#define ETI_FOUND_OPS 8u

typedef struct eti_found_op {
  const uint8_t *table;  // of the operator in the file; NULL in an empty entry
  const et_op *op;
} eti_found_op;

typedef struct eti_loader {
  const et_program *program;
  const et_method_config *config;
  const et_method_memory *memory;  // NULL while measuring
  et_method *method;               // NULL while measuring
  et_error *err;
  size_t scratch_bytes;
  et_arena arena;
  eti_named_data named;
  eti_plan plan;
  size_t work;                        // see ET_MAX_PLAN_WORK
  eti_found_op found[ETI_FOUND_OPS];  // the latest answers of eti_loader_op
  uint32_t written[ETI_WRITTEN_BITS /
                   32];  // hash of values that an instruction replaces: a clear bit is certain
  alignas(ET_MEMORY_ALIGN)
      uint8_t room[ET_PREPARE_ROOM_BYTES];  // for one prepare step or delegate at a time
} eti_loader;

// ---- Values (method_values.c)

// Builds value i for the method's life into *out (NULL while measuring).
et_status eti_build_value(eti_loader *l, size_t i, et_value *out);

// ---- Temporary copies of arguments for a prepare step, in the loader's room.
#define ETI_MAX_TEMPORARY_BLOBS 4
typedef struct eti_temporary {
  et_arena room;
  bool has_gaps;  // something does not fit or is not known before the run
  size_t n_blobs;
  et_blob blobs[ETI_MAX_TEMPORARY_BLOBS];  // external constants, held only while measuring
} eti_temporary;

// Makes *out None and records a gap when value i does not fit or is not known before the run; a
// member of a list becomes NULL. The caller releases temporary->blobs.
bool eti_build_temporary(eti_loader *l, size_t i, eti_temporary *temporary, et_value *out,
                         bool is_member);

// Fills l->written.
void eti_find_written(eti_loader *l);

// ---- Calls (method_ops.c)

// Operator i of the plan; NULL when no table has it.
const et_op *eti_loader_op(eti_loader *l, size_t i);
// The backend of delegate i; NULL when absent or unavailable.
const et_backend *eti_loader_backend(const eti_loader *l, size_t i);

// Reports all operators and backends that the caller's tables lack, at once.
et_status eti_check_missing(eti_loader *l);
// Checks the tensors of a call against its operator. Always sets *writes.
et_status eti_check_call(const eti_loader *l, const et_op *op, const eti_instruction_facts *in,
                         uint32_t *writes);

// ---- Prepare steps (method_prepare.c)

// Fills the call's state.
et_status eti_prepare_call(eti_loader *l, const eti_instruction_facts *in, et_call *call);
et_status eti_init_delegate(eti_loader *l, size_t i,
                            eti_delegate *out);  // out is NULL while measuring

#endif  // ET_METHOD_LOADER_H
