// py_method.h — the Method object: a loaded method with everything a call needs prepared, so that
// the hot path only fills slots. py_inputs.c turns Python objects into slots, py_outputs.c turns
// the runtime's values into Python objects.
#ifndef ETI_METHOD_H
#define ETI_METHOD_H

#include "bindings/py_program.h"

typedef enum eti_kind { ETI_KIND_UNKNOWN, ETI_KIND_NUMPY, ETI_KIND_TORCH } eti_kind;

// Sizes that one dim may have; see py_bounds.c.
typedef struct eti_dim_bound {
  int lower, upper;
  int symbol;         // index of the number that this size follows, or -1
  int scale, offset;  // size = scale * number + offset
} eti_dim_bound;

// A number that several dims follow, and the dim that set it in this call.
typedef struct eti_symbol {
  bool known;
  int64_t value;
  size_t input, dim;
} eti_symbol;

typedef struct eti_input {
  et_tensor_info info;  // tensors: what the plan wants
  et_tag tag;
  size_t capacity;  // elements
  size_t element;   // bytes
  et_value value;   // filled by a call
  et_tensor tensor;
  int32_t sizes[ET_MAX_RANK];
  ptrdiff_t strides[ET_MAX_RANK];
  eti_dim_bound *bounds;  // one per dim; NULL: the plan's upper bounds are all that is known
  PyObject *next;  // owner of the bytes that `value` points at, before the runtime has taken it
  PyObject *pin;   // owner of the bytes that the runtime's input points at
  bool borrowed;   // the runtime reads the caller's own memory
  bool pending;    // `value` has not been given to the runtime yet
  eti_memory *staging;  // converted copy, made when first needed
} eti_input;

typedef struct eti_output {
  et_tag tag;
  size_t needs_bytes;  // unplanned: memory that each run must be given; 0 otherwise
  eti_memory *memory;  // what the last run was given
} eti_output;

typedef struct eti_method {
  PyObject_HEAD eti_state *state;
  eti_program *program;
  et_method *method;  // NULL once closed
  PyObject *name;
  PyObject *input_names;  // tuple of str, or NULL
  eti_memory *memory;
  eti_memory *scratch;
  size_t n_planned;
  eti_input *inputs;
  size_t n_inputs;
  eti_symbol *symbols;
  size_t n_symbols;
  eti_output *outputs;
  size_t n_outputs;
  bool has_given_outputs;  // some output needs memory per run
  bool has_run;
  eti_kind kind;  // of the last inputs
  uint64_t layout_conversions;
  uint64_t alignment_copies;
  const et_hooks *hooks;            // of the run under way, or NULL
  struct eti_method *next, **link;  // in program->methods
} eti_method;

// py_inputs.c: check and convert a sequence of inputs into slots, with the GIL and the program's
// lock. -1 with an exception set; then nothing that the runtime holds has changed.
int eti_inputs_fill(eti_method *self, PyObject *sequence);
void eti_inputs_release(eti_method *self);  // drops every pin and staging block

// py_bounds.c: per input None or (lower, upper, symbol, scale, offset) per dim; -1 with an
// exception.
int eti_bounds_set(eti_method *self, PyObject *bounds);
void eti_bounds_clear(eti_method *self);
void eti_bounds_begin(eti_method *self);  // before the first input of a call
// Whether the sizes taken for input i are allowed; else *broken is the dim.
bool eti_bounds_hold(eti_method *self, size_t i, size_t *broken);
PyObject *eti_bounds_shape_text(const eti_input *in);  // "[1…8, 4]"; needs bounds
PyObject *eti_bounds_problem(const eti_method *self, size_t i, size_t d);

// py_outputs.c: the runtime's outputs as a list. Copies, or with clone false views that keep their
// memory alive.
PyObject *eti_outputs_list(eti_method *self, bool clone, eti_kind kind);
PyObject *eti_output_object(eti_method *self, const et_value *value, bool clone, eti_kind kind);
// Fails before a run when an output's dtype cannot be expressed in the caller's kind.
int eti_outputs_check(eti_method *self, eti_kind kind);

// py_method_run.c, under the program's lock; -1 with an exception. A run with the inputs that are
// set, and the part of it that gives them to the runtime.
int eti_method_run(eti_method *self);
int eti_method_hand_over(eti_method *self);

// py_profile.c: such a run with a clock at every instruction, as a list of dicts.
PyObject *eti_method_profile(eti_method *self);

#endif  // ETI_METHOD_H
