// py_method.h — the Method object: a loaded method with everything prepared for calls, so that the
// hot path only fills slots. py_inputs.c converts Python objects to slots, py_outputs.c converts
// the runtime's values to Python objects.
#ifndef ET_PY_METHOD_H
#define ET_PY_METHOD_H

#include "bindings/py_program.h"

typedef enum py_kind { PY_KIND_UNKNOWN, PY_KIND_NUMPY, PY_KIND_TORCH } py_kind;

// Sizes that one dim may have; see py_bounds.c.
typedef struct py_dim_bound {
  int lower, upper;
  int symbol;         // index of the py_symbol that sets this size, or -1
  int scale, offset;  // size = scale * number + offset
} py_dim_bound;

// A number that sets several dims, and the dim that fixed it in this call.
typedef struct py_symbol {
  bool known;
  int64_t value;
  size_t input, dim;
} py_symbol;

typedef struct py_input {
  et_tensor_info info;  // tensors: facts of the plan
  et_tag tag;
  size_t capacity;  // elements
  size_t element;   // bytes
  et_value value;   // filled by a call
  et_tensor tensor;
  int32_t sizes[ET_MAX_RANK];
  ptrdiff_t strides[ET_MAX_RANK];
  py_dim_bound *bounds;  // one per dim; NULL: only the plan's upper bounds are known
  PyObject *next;        // owner of the bytes of `value`, until the runtime has it
  PyObject *pin;         // owner of the bytes of the runtime's input
  bool borrowed;         // the runtime reads the caller's own memory
  bool pending;          // `value` is not yet set in the runtime
  py_memory *staging;    // converted copy, made when first needed
} py_input;

typedef struct py_output {
  et_tag tag;
  size_t needs_bytes;  // unplanned: memory that each run needs; 0 otherwise
  py_memory *memory;   // of the last run
} py_output;

typedef struct py_method {
  PyObject_HEAD py_state *state;
  py_program *program;
  et_method *method;  // NULL once closed
  PyObject *name;
  PyObject *quoted_name;  // for messages
  PyObject *input_names;  // tuple of str, or a function that gives one, or NULL
  py_memory *memory;
  py_memory *scratch;
  size_t n_planned;
  py_input *inputs;
  size_t n_inputs;
  py_symbol *symbols;
  size_t n_symbols;
  py_output *outputs;
  size_t n_outputs;
  bool has_given_outputs;  // some output needs memory per run
  bool has_run;
  py_kind kind;  // of the last inputs
  uint64_t layout_conversions;
  uint64_t alignment_copies;
  const et_hooks *hooks;           // of the run in progress, or NULL
  struct py_method *next, **link;  // in program->methods
} py_method;

// Checks and converts a sequence of inputs into slots (py_inputs.c), with the GIL and the program's
// lock. -1 with an exception set; then nothing in the runtime has changed.
int py_inputs_fill(py_method *self, PyObject *sequence);
void py_inputs_release(py_method *self);  // drops every pin and staging block

// Sets bounds (py_bounds.c): per input None or (lower, upper, symbol, scale, offset) per dim; -1
// with an exception set.
int py_bounds_set(py_method *self, PyObject *bounds);
void py_bounds_clear(py_method *self);
void py_bounds_begin(py_method *self);  // before the first input of a call
// True if the stored sizes of input i are allowed; else *broken is the dim.
bool py_bounds_check(py_method *self, size_t i, size_t *broken);
PyObject *py_bounds_shape_text(const py_input *in);  // "[1…8, 4]"; needs bounds
PyObject *py_method_input_names(py_method *self);    // a borrowed tuple, or NULL
PyObject *py_bounds_problem(py_method *self, size_t i, size_t d);

// The runtime's outputs as a list (py_outputs.c). Copies, or with clone false views that keep their
// memory alive.
PyObject *py_outputs_list(py_method *self, bool clone, py_kind kind);
PyObject *py_output_object(py_method *self, const et_value *value, bool clone, py_kind kind);
// Fails before a run when an output's dtype cannot be expressed in the caller's kind.
int py_outputs_check(py_method *self, py_kind kind);

// Runs with the current inputs (py_method_run.c), under the program's lock; -1 with an exception
// set. The second function only sets the inputs in the runtime.
int py_method_run(py_method *self);
int py_method_set_inputs(py_method *self);

// Runs with a clock at every instruction (py_profile.c); returns a list of dicts.
PyObject *py_method_profile(py_method *self);

// Runs and copies the results of every instruction (py_trace.c); returns a list of tuples.
PyObject *py_method_trace(py_method *self);

#endif  // ET_PY_METHOD_H
