// method.h — a loaded method: written by the loader, read by the runner. Private to the runtime. It
// is in the caller's method memory, claimed in four phases (method_load.c):
//
//   tables        et_method | values | instructions | inputs, outputs | delegates |
//   values        per value: tensor, strides, sizes or list, unplanned record or held blob |
//   delegates     per delegate: the memory that its backend's init claims |
//   instructions  per instruction: argument pointers, unplanned record of a view, prepared state |
//   unused        poisoned until the method is closed (poison.h)
#ifndef ET_METHOD_H
#define ET_METHOD_H

#include <stdatomic.h>

#include "runtime/arena.h"
#include "runtime/data_map.h"
#include "runtime/et.h"
#include "runtime/pte.h"

// A delegate, initialised.
typedef struct eti_delegate {
  const et_backend *backend;
  void *handle;
  et_blob payload;  // kept loaded when the backend requested it
} eti_delegate;

// A resolved instruction.
typedef struct eti_instruction {
  et_call call;
  uint8_t kind;     // PTE_KERNEL_CALL …
  bool is_checked;  // a tensor of it may have no memory, or other memory than at load
  uint8_t n_done;   // instructions that one run covers: 1, or 2 with an absorbed follower
  uint32_t n_args;
  union {
    const eti_delegate *delegate;
    uint32_t writes;  // of a kernel's call: bit i, argument i is written, as is the result
    size_t target;    // of a jump
  } u;
} eti_instruction;

// A tensor without planned memory: an unplanned input or output, or a view. Every run starts from
// the data and capacity recorded here, so no run can reach memory of an earlier one.
typedef struct eti_unplanned {
  struct eti_unplanned *next;
  et_tensor *tensor;
  void *data;
  size_t capacity;
  size_t bound;  // elements of the sizes in the file
} eti_unplanned;

// Bytes that stay loaded for the method's life: external constants.
typedef struct eti_held {
  struct eti_held *next;
  const et_source *source;
  uint64_t offset;
  et_blob blob;
} eti_held;

// An input or output. The tensor is the one built for it; instructions may replace the value's.
typedef struct eti_slot {
  et_value *value;
  et_tensor *tensor;         // NULL when the file has no tensor here
  eti_unplanned *unplanned;  // NULL when planned
  bool is_set;               // inputs
} eti_slot;

struct et_method {
  const et_program *program;
  et_value *values;
  eti_instruction *code;
  eti_slot *slots;  // inputs, then outputs
  eti_delegate *delegates;
  size_t n_ready;  // delegates initialised so far
  eti_unplanned *unplanned;
  eti_held *held;
  eti_named_data named;
  const et_pool *pool;
  const et_hooks *hooks;  // of the traced run under way, or NULL
  void *scratch;
  size_t scratch_bytes;
  et_random random;
  size_t position;    // next instruction of a stepped run
  uint32_t executed;  // instructions of the current run
  bool is_stepping;
  atomic_bool is_busy;         // some thread is inside execute or step
  atomic_bool is_interrupted;  // a stop was requested
  bool is_paused;              // a run stopped before `position` on request and can be resumed
  eti_plan plan;
#if ETI_POISON
  et_arena arena;  // ended when the method is closed
#endif
};

enum {
  ETI_VALUE_UNPLANNED = 1
};  // et_value.flags: may hold a tensor whose memory was not proven at load

// Builds a value that needs no memory beside the et_value. False for the other kinds: tensors and
// lists of values.
bool eti_build_plain(unsigned code, const uint8_t *table, et_value *out);

#endif  // ET_METHOD_H
