// pte.h — contents of the program file as plain structs: plans, tensors, instructions. Shared by
// verification, metadata and loading. These readers trust the file's structure (flatbuf.h) and
// check the meaning of its values.
#ifndef ET_PTE_H
#define ET_PTE_H

#include "runtime/check.h"
#include "runtime/et.h"
#include "runtime/file.h"
#include "runtime/pte_schema.h"
#include "runtime/source.h"

extern const eti_format eti_pte_format;

typedef struct eti_plan {
  const uint8_t *table;
  const char *name;
  size_t n_instructions;  // of all chains, which are numbered through
#if defined(ET_DEBUG)
  bool is_verified;  // eti_plan_verify has proven it
#endif
  union {  // in the order of their slots
    struct {
      eti_vector values, inputs, outputs, chains, operators, delegates, buffer_sizes;
    };
    eti_vector vectors[PTE_PLAN_BUFFER_SIZES - PTE_PLAN_VALUES + 1];
  };
} eti_plan;

// Asserts a fact that eti_plan_verify proves. Most readers below also serve the verification itself
// and queries of unverified plans; those do not assert it.
#if defined(ET_DEBUG)
#define ETI_ASSERT_PLAN(plan, fact) ET_ASSERT(!(plan)->is_verified || (fact))
#else
#define ETI_ASSERT_PLAN(plan, fact) ((void)0)
#endif

// ET_INVALID_ARGUMENT for an unknown name, ET_INVALID_PROGRAM when the plan lacks a required part.
et_status eti_plan_find(const et_program *program, const char *name, eti_plan *plan, et_error *err);

// The i-th value: its union code (0 when the entry is damaged) and table (NULL allowed for Null
// only).
unsigned eti_plan_value(const eti_plan *plan, size_t i, const uint8_t **table);

// The tag of a value by its kind; code ≤ PTE_OPTIONAL_TENSOR_LIST.
et_tag eti_tag(unsigned code);

// The value indices (i32) in a list of tensors; empty for any other value.
eti_vector eti_tensor_list(unsigned code, const uint8_t *table);

// Proves a plan's indices, sizes, offsets and lists; readers assert them from then on.
et_status eti_plan_verify(const et_program *program, eti_plan *plan, et_error *err);

// Proves the program-wide parts: methods, constants.
et_status eti_program_verify(const et_program *program, et_error *err);

typedef enum eti_place {
  ETI_PLACE_NONE,              // no memory at load
  ETI_PLACE_PLANNED,           // planned, contents as the caller left them
  ETI_PLACE_CONSTANT,          // in the program's constants
  ETI_PLACE_INITIAL,           // planned, filled from the program's mutable data
  ETI_PLACE_EXTERNAL,          // constant from external data
  ETI_PLACE_EXTERNAL_INITIAL,  // planned, filled from external data
} eti_place;

typedef struct eti_tensor_facts {
  const int32_t *sizes;      // in the file
  const uint8_t *dim_order;  // in the file
  const char *name;          // fully qualified, or NULL
  uint64_t memory_offset;
  size_t rank, numel, bytes;
  uint32_t memory_id;  // of planned places
  uint32_t buffer;     // index of constants or initial data
  uint8_t dtype;
  uint8_t place;  // eti_place
  bool is_dynamic;
} eti_tensor_facts;

static inline bool eti_is_planned(const eti_tensor_facts *t) {
  return t->place == ETI_PLACE_PLANNED || t->place == ETI_PLACE_INITIAL ||
         t->place == ETI_PLACE_EXTERNAL_INITIAL;
}

static inline bool eti_is_constant(const eti_tensor_facts *t) {
  return t->place == ETI_PLACE_CONSTANT || t->place == ETI_PLACE_EXTERNAL;
}

et_status eti_tensor_read(const uint8_t *table, eti_tensor_facts *out, et_error *err);

// Address of a constant's bytes, checked against the constant segment or buffer.
et_status eti_constant_find(const et_program *program, uint32_t index, size_t bytes,
                            const void **data, et_error *err);
// Offset of a mutable tensor's initial data from the file's start, checked likewise.
et_status eti_initial_find(const et_program *program, uint32_t index, size_t bytes,
                           uint64_t *offset, et_error *err);

typedef struct eti_instruction_facts {
  unsigned kind;  // PTE_KERNEL_CALL …
  int32_t index;  // operator or delegate
  uint32_t n_args;
  const uint8_t *args;  // i32 value indices: a call's arguments; {from, to}; {condition}; {value}
  size_t target;   // jumps: instruction number counted through all chains; n_instructions allowed
  uint8_t own[8];  // args of the small kinds
} eti_instruction_facts;

// Instruction i < n_instructions. ET_INVALID_PROGRAM when it is of no known kind or jumps out of
// its chain.
et_status eti_instruction_read(const eti_plan *plan, size_t i, eti_instruction_facts *out,
                               et_error *err);

extern const char eti_small_names[3][5];  // of moves, jumps and frees

// "aten::add", "out", or a backend id, "", or "move" …; for messages and events.
void eti_instruction_name(const eti_plan *plan, const eti_instruction_facts *in, const char **name,
                          const char **overload);

// Payload of a delegate: bytes in the file (data set) or a segment (offset set). ET_NOT_FOUND when
// there is none.
typedef struct eti_payload {
  const uint8_t *data;
  uint64_t offset, bytes;
} eti_payload;
et_status eti_payload_find(const et_program *program, const uint8_t *delegate, eti_payload *out,
                           et_error *err);

#endif  // ET_PTE_H
