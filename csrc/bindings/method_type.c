// method_type.c — loading, running and closing methods. A run is: take the program's lock, fill the
// input slots, let the GIL go, hand inputs over and execute, take the GIL back, build the outputs.
// Conversions are in inputs.c and outputs.c.
#include "bindings/method.h"

#include <string.h>

#include "bindings/arrays.h"
#include "bindings/errors.h"
#include "bindings/interrupt.h"
#include "bindings/op_library.h"

// ---- loading

static int describe_inputs(eti_method *self, const char *name, et_error *err) {
  for (size_t i = 0; i < self->n_inputs; i++) {
    eti_input *in = &self->inputs[i];
    if (et_program_slot_info(&self->program->program, name, ET_SLOT_INPUT, i, &in->tag, &in->info,
                             err) != ET_OK) {
      return -1;
    }
    in->value.tag = (uint8_t)in->tag;
    if (in->tag != ET_TENSOR) continue;
    bool carried = false;
    in->typenum = eti_numpy_type(in->info.dtype, &carried);
    in->element = et_dtype_bytes(in->info.dtype);
    in->capacity = in->element == 0 ? 0 : in->info.bytes / in->element;
    in->tensor = (et_tensor){.sizes = in->sizes,
                             .strides = in->strides,
                             .dim_order = in->info.dim_order,
                             .dtype = (uint8_t)in->info.dtype,
                             .rank = (uint8_t)in->info.rank,
                             .capacity = in->capacity};
    in->value.as.tensor = &in->tensor;
  }
  return 0;
}

static bool is_an_input(const eti_method *self, const et_tensor *tensor) {
  for (size_t i = 0; i < self->n_inputs; i++) {
    const et_value *in = et_method_input(self->method, i);
    if (in != NULL && in->tag == ET_TENSOR && in->as.tensor == tensor) return true;
  }
  return false;
}

// Which outputs have no memory of their own: the plan left them out and they are not an input
// handed through.
static int describe_outputs(eti_method *self, const char *name, et_error *err) {
  for (size_t i = 0; i < self->n_outputs; i++) {
    eti_output *out = &self->outputs[i];
    et_tensor_info info;
    if (et_program_slot_info(&self->program->program, name, ET_SLOT_OUTPUT, i, &out->tag, &info,
                             err) != ET_OK)
      return -1;
    if (out->tag != ET_TENSOR || info.is_planned) continue;
    const et_value *value = et_method_output(self->method, i);
    if (value == NULL || value->tag != ET_TENSOR || value->as.tensor->data != NULL) continue;
    if (is_an_input(self, value->as.tensor)) continue;
    out->needs_bytes = info.bytes;
    self->has_given_outputs |= info.bytes > 0;
  }
  return 0;
}

static int load(eti_method *self, const char *name) {
  eti_program *program = self->program;
  et_error err = {.status = ET_OK};
  et_method_info info;
  if (et_program_method_info(&program->program, name, &info, &err) != ET_OK) goto failed;
  const et_pool *pool;
  if (eti_program_pool(program, &pool) < 0 || eti_program_planned(program, info.n_planned) < 0)
    return -1;
  const et_method_config config = {.ops = eti_ops(self->state),
                                   .backends = &et_backends_builtin,
                                   .pool = pool,
                                   .data_maps = program->maps,
                                   .n_data_maps = program->n_data};
  et_method_needs needs;
  et_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = et_method_measure(&program->program, name, &config, &needs, &err);
  Py_END_ALLOW_THREADS;
  if (status != ET_OK) goto failed;
  self->memory = eti_memory_allocate(self->state, needs.method_bytes);
  self->scratch = self->memory == NULL ? NULL : eti_program_scratch(program, needs.scratch_bytes);
  self->inputs = PyMem_Calloc(info.n_inputs + 1, sizeof *self->inputs);
  self->outputs = PyMem_Calloc(info.n_outputs + 1, sizeof *self->outputs);
  et_span *planned = PyMem_Calloc(info.n_planned + 1, sizeof *planned);
  if (self->scratch == NULL || self->inputs == NULL || self->outputs == NULL || planned == NULL) {
    PyMem_Free(planned);
    if (!PyErr_Occurred()) PyErr_NoMemory();
    return -1;
  }
  for (size_t i = 0; i < info.n_planned; i++) {
    planned[i] = (et_span){program->planned[i]->data, program->planned[i]->size};
  }
  const et_method_memory memory = {.method = {self->memory->data, self->memory->size},
                                   .scratch = {self->scratch->data, self->scratch->size},
                                   .planned = planned,
                                   .n_planned = info.n_planned};
  Py_BEGIN_ALLOW_THREADS;
  status = et_method_load(&program->program, name, &config, &memory, &self->method, &err);
  Py_END_ALLOW_THREADS;
  PyMem_Free(planned);
  if (status != ET_OK) {
    self->method = NULL;
    goto failed;
  }
  eti_memory_expect_use(self->memory);  // by the first run, which packs weights
  self->n_planned = info.n_planned;
  self->n_inputs = info.n_inputs;
  self->n_outputs = info.n_outputs;
  if (describe_inputs(self, name, &err) == 0 && describe_outputs(self, name, &err) == 0) return 0;
failed:
  eti_raise_advice(self->state, &err, err.status == ET_OPERATOR_MISSING ? eti_ops_recipe : "");
  return -1;
}

PyObject *eti_method_open(eti_program *program, const char *name) {
  eti_state *state = program->state;
  eti_method *self = (eti_method *)state->method_type->tp_alloc(state->method_type, 0);
  if (self == NULL) return NULL;
  self->state = state;
  Py_INCREF(program);
  self->program = program;
  self->name = PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "surrogateescape");
  if (self->name == NULL || load(self, name) < 0) {
    Py_DECREF(self);
    return NULL;
  }
  self->next = program->methods;
  self->link = &program->methods;
  if (self->next != NULL) self->next->link = &self->next;
  program->methods = self;
  return (PyObject *)self;
}

// ---- closing

void eti_method_shut(eti_method *self) {
  if (self->link != NULL) {
    *self->link = self->next;
    if (self->next != NULL) self->next->link = self->link;
    self->link = NULL;
    self->next = NULL;
  }
  et_method *method = self->method;
  self->method = NULL;
  if (method != NULL) et_method_close(method);
  // From here on the runtime holds none of these pointers.
  eti_inputs_release(self);
  for (size_t i = 0; self->outputs != NULL && i < self->n_outputs; i++)
    Py_CLEAR(self->outputs[i].memory);
  Py_CLEAR(self->memory);
  Py_CLEAR(self->scratch);
}

static int method_traverse(PyObject *object, visitproc visit, void *arg) {
  eti_method *self = (eti_method *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->program);
  Py_VISIT(self->input_names);
  for (size_t i = 0; self->inputs != NULL && i < self->n_inputs; i++) {
    Py_VISIT(self->inputs[i].next);
    Py_VISIT(self->inputs[i].pin);
  }
  return 0;
}

static int method_clear(PyObject *object) {
  eti_method *self = (eti_method *)object;
  eti_method_shut(self);
  Py_CLEAR(self->input_names);
  // The program stays until dealloc: a closed method still answers, with errors, through it.
  return 0;
}

static void method_dealloc(PyObject *object) {
  eti_method *self = (eti_method *)object;
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  eti_method_shut(self);
  eti_bounds_clear(self);
  PyMem_Free(self->inputs);
  PyMem_Free(self->outputs);
  Py_CLEAR(self->input_names);
  Py_CLEAR(self->name);
  Py_CLEAR(self->program);
  type->tp_free(object);
  Py_DECREF(type);
}

// ---- running

// The program's lock for an open method; -1 with an exception set.
static int enter(eti_method *self) {
  if (eti_program_lock(self->program) < 0) return -1;
  if (self->method != NULL) return 0;
  eti_program_unlock(self->program);
  eti_raise(self->state, ET_INVALID_STATE, "method %R has been closed%s", self->name,
            self->program->open ? "" : ", with its program");
  return -1;
}

static void leave(eti_method *self) {
  eti_program_unlock(self->program);
}

static int give_outputs(eti_method *self) {
  for (size_t i = 0; i < self->n_outputs; i++) {
    eti_output *out = &self->outputs[i];
    if (out->needs_bytes == 0) continue;
    // New memory for every run: what the last run returned may still be viewed.
    eti_memory *memory = eti_memory_allocate(self->state, out->needs_bytes);
    if (memory == NULL) return -1;
    et_error err = {.status = ET_OK};
    if (et_method_set_output_data(self->method, i, (et_span){memory->data, memory->size}, &err) !=
        ET_OK) {
      Py_DECREF(memory);
      eti_raise_error(self->state, &err);
      return -1;
    }
    Py_XSETREF(out->memory, memory);
  }
  return 0;
}

// Hands pending inputs to the runtime, without the GIL; *n_taken counts those that it took.
static et_status take_inputs(eti_method *self, size_t *n_taken, et_error *err) {
  for (size_t i = 0; i < self->n_inputs; i++) {
    eti_input *in = &self->inputs[i];
    if (in->pending) {
      const et_status status = et_method_set_input(self->method, i, &in->value, err);
      if (status != ET_OK) return status;
    }
    *n_taken = i + 1;
  }
  return ET_OK;
}

// Moves the owners of what the runtime has taken into place; drops the others.
static void settle_inputs(eti_method *self, size_t n_taken) {
  for (size_t i = 0; i < self->n_inputs; i++) {
    eti_input *in = &self->inputs[i];
    if (!in->pending) continue;
    in->pending = false;
    if (i >= n_taken || in->tag != ET_TENSOR || in->info.is_planned) {
      in->borrowed = false;
      Py_CLEAR(in->next);
      continue;
    }
    PyObject *old = in->pin;
    in->pin = in->next;
    in->next = NULL;
    in->borrowed = in->pin != (PyObject *)in->staging;
    Py_XDECREF(old);
  }
}

// Executes, pausing for signals when the watcher asks for it. Without the GIL; *python_error tells
// that a signal handler raised.
static et_status execute_watched(eti_method *self, et_error *err, bool *python_error) {
  if (self->hooks != NULL) return et_method_execute_traced(self->method, self->hooks, err);
  const bool watched = eti_watch_begin(self->state, self->method);
  et_status status = et_method_execute(self->method, err);
  while (status == ET_INTERRUPTED && watched) {
    const PyGILState_STATE gil = PyGILState_Ensure();
    *python_error = PyErr_CheckSignals() < 0;
    PyGILState_Release(gil);
    if (*python_error) {
      et_method_reset(self->method);
      break;
    }
    status = et_method_resume(self->method, err);
  }
  if (watched) eti_watch_end(self->state);
  return status;
}

// Everything of a run but the objects: -1 with an exception set.
static int run(eti_method *self, bool execute) {
  if (execute && self->has_given_outputs && give_outputs(self) < 0) return -1;
  et_error err;
  err.status = ET_OK;
  err.message[0] = '\0';
  size_t n_taken = 0;
  bool python_error = false;
  PyThreadState *thread = PyEval_SaveThread();
  et_status status = take_inputs(self, &n_taken, &err);
  if (status == ET_OK && execute) status = execute_watched(self, &err, &python_error);
  PyEval_RestoreThread(thread);
  settle_inputs(self, n_taken);
  if (status == ET_OK) return 0;
  if (!python_error) eti_raise_error(self->state, &err);
  return -1;
}

int eti_method_run(eti_method *self) {
  return run(self, true);
}

static int parse_kind(eti_method *self, PyObject *word, eti_kind *kind) {
  *kind = self->kind;
  if (word != NULL && word != Py_None) {
    if (PyUnicode_Check(word) && PyUnicode_CompareWithASCIIString(word, "numpy") == 0) {
      *kind = ETI_KIND_NUMPY;
    } else if (PyUnicode_Check(word) && PyUnicode_CompareWithASCIIString(word, "torch") == 0) {
      *kind = ETI_KIND_TORCH;
    } else {
      eti_raise(self->state, ET_INVALID_ARGUMENT, "kind is %R, needs 'numpy', 'torch' or None",
                word);
      return -1;
    }
  }
  if (*kind == ETI_KIND_NUMPY) return 0;
  const bool have_torch = eti_torch_tensor_type(self->state) != NULL;
  // No tensor among the inputs: torch tensors for a caller who has torch, as upstream returns them.
  if (*kind == ETI_KIND_UNKNOWN) *kind = have_torch ? ETI_KIND_TORCH : ETI_KIND_NUMPY;
  if (*kind == ETI_KIND_TORCH && !have_torch) {
    eti_raise(self->state, ET_INVALID_STATE, "kind is 'torch', but torch has not been imported");
    return -1;
  }
  return 0;
}

// Arguments (first, clone_outputs=True, kind=None) of the hot calls; slots not given are NULL.
static int parse_call(const char *name, const char *const *names, size_t n_names,
                      PyObject *const *args, Py_ssize_t n, PyObject *keywords, PyObject **slots) {
  if ((size_t)n > n_names) {
    PyErr_Format(PyExc_TypeError, "%s() takes at most %zu arguments, %zd were given", name, n_names,
                 n);
    return -1;
  }
  for (Py_ssize_t i = 0; i < n; i++) slots[i] = args[i];
  const Py_ssize_t n_keywords = keywords == NULL ? 0 : PyTuple_GET_SIZE(keywords);
  for (Py_ssize_t k = 0; k < n_keywords; k++) {
    PyObject *key = PyTuple_GET_ITEM(keywords, k);
    size_t at = 0;
    while (at < n_names && PyUnicode_CompareWithASCIIString(key, names[at]) != 0) at++;
    if (at == n_names || slots[at] != NULL) {
      PyErr_Format(PyExc_TypeError, "%s() got %s argument %R", name,
                   at == n_names ? "an unexpected" : "twice the", key);
      return -1;
    }
    slots[at] = args[n + k];
  }
  return 0;
}

static int parse_clone(PyObject *object, bool *clone) {
  const int truth = object == NULL ? 1 : PyObject_IsTrue(object);
  *clone = truth != 0;
  return truth < 0 ? -1 : 0;
}

static PyObject *method_execute(PyObject *object, PyObject *const *args, Py_ssize_t n,
                                PyObject *keywords) {
  static const char *const names[] = {"inputs", "clone_outputs", "kind"};
  eti_method *self = (eti_method *)object;
  PyObject *slots[3] = {NULL, NULL, NULL};
  bool clone;
  if (parse_call("execute", names, 3, args, n, keywords, slots) < 0 ||
      parse_clone(slots[1], &clone) < 0)
    return NULL;
  if (slots[0] == NULL) {
    PyErr_SetString(PyExc_TypeError, "execute() needs the argument 'inputs'");
    return NULL;
  }
  if (enter(self) < 0) return NULL;
  eti_kind kind = ETI_KIND_UNKNOWN;
  PyObject *result = NULL;
  if (eti_inputs_fill(self, slots[0]) == 0 && parse_kind(self, slots[2], &kind) == 0 &&
      eti_outputs_check(self, kind) == 0 && run(self, true) == 0) {
    result = eti_outputs_list(self, clone, kind);
  }
  leave(self);
  return result;
}

static PyObject *method_set_inputs(PyObject *object, PyObject *sequence) {
  eti_method *self = (eti_method *)object;
  if (enter(self) < 0) return NULL;
  const int result = eti_inputs_fill(self, sequence) == 0 ? run(self, false) : -1;
  leave(self);
  return result == 0 ? Py_NewRef(Py_None) : NULL;
}

static PyObject *method_run(PyObject *object, PyObject *unused) {
  (void)unused;
  eti_method *self = (eti_method *)object;
  if (enter(self) < 0) return NULL;
  const int result = run(self, true);
  leave(self);
  return result == 0 ? Py_NewRef(Py_None) : NULL;
}

static PyObject *method_profile(PyObject *object, PyObject *unused) {
  (void)unused;
  eti_method *self = (eti_method *)object;
  if (enter(self) < 0) return NULL;
  PyObject *result = eti_method_profile(self);
  leave(self);
  return result;
}

static PyObject *method_seed(PyObject *object, PyObject *number) {
  eti_method *self = (eti_method *)object;
  const unsigned long long seed = PyLong_AsUnsignedLongLongMask(number);
  if (seed == (unsigned long long)-1 && PyErr_Occurred()) return NULL;
  if (enter(self) < 0) return NULL;
  et_method_seed(self->method, seed);
  leave(self);
  return Py_NewRef(Py_None);
}

static PyObject *method_outputs(PyObject *object, PyObject *const *args, Py_ssize_t n,
                                PyObject *keywords) {
  static const char *const names[] = {"clone_outputs", "kind"};
  eti_method *self = (eti_method *)object;
  PyObject *slots[2] = {NULL, NULL};
  bool clone;
  if (parse_call("outputs", names, 2, args, n, keywords, slots) < 0 ||
      parse_clone(slots[0], &clone) < 0)
    return NULL;
  if (enter(self) < 0) return NULL;
  eti_kind kind = ETI_KIND_UNKNOWN;
  PyObject *result =
      parse_kind(self, slots[1], &kind) < 0 ? NULL : eti_outputs_list(self, clone, kind);
  leave(self);
  return result;
}

static PyObject *method_attribute(PyObject *object, PyObject *const *args, Py_ssize_t n,
                                  PyObject *keywords) {
  static const char *const names[] = {"name", "clone", "kind"};
  eti_method *self = (eti_method *)object;
  PyObject *slots[3] = {NULL, NULL, NULL};
  bool clone;
  if (parse_call("attribute", names, 3, args, n, keywords, slots) < 0 ||
      parse_clone(slots[1], &clone) < 0)
    return NULL;
  const char *name =
      slots[0] != NULL && PyUnicode_Check(slots[0]) ? PyUnicode_AsUTF8(slots[0]) : NULL;
  if (name == NULL) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "attribute() needs a name, a str");
    return NULL;
  }
  if (enter(self) < 0) return NULL;
  PyObject *result = NULL;
  eti_kind kind = ETI_KIND_UNKNOWN;
  et_tensor *tensor = et_method_attribute(self->method, name);
  if (tensor == NULL) {
    eti_raise(self->state, ET_NOT_FOUND, "method %R has no attribute %R", self->name, slots[0]);
  } else if (parse_kind(self, slots[2], &kind) == 0) {
    const et_value value = {.tag = ET_TENSOR, .as.tensor = tensor};
    result = eti_output_object(self, &value, clone, kind);
  }
  leave(self);
  return result;
}

static PyObject *method_close(PyObject *object, PyObject *unused) {
  (void)unused;
  eti_method *self = (eti_method *)object;
  if (eti_program_lock(self->program) < 0) return NULL;
  eti_method_shut(self);
  eti_program_unlock(self->program);
  Py_RETURN_NONE;
}

static PyObject *method_name_inputs(PyObject *object, PyObject *names) {
  eti_method *self = (eti_method *)object;
  PyObject *tuple = PySequence_Tuple(names);
  if (tuple == NULL) return NULL;
  if ((size_t)PyTuple_GET_SIZE(tuple) != self->n_inputs) {
    Py_DECREF(tuple);
    return eti_raise(self->state, ET_INVALID_ARGUMENT,
                     "method %R has %zu inputs, needs as many names", self->name, self->n_inputs);
  }
  Py_XSETREF(self->input_names, tuple);
  Py_RETURN_NONE;
}

static PyObject *method_bound_inputs(PyObject *object, PyObject *bounds) {
  eti_method *self = (eti_method *)object;
  if (enter(self) < 0) return NULL;
  const int result = eti_bounds_set(self, bounds);
  leave(self);
  return result == 0 ? Py_NewRef(Py_None) : NULL;
}

static PyObject *method_input_state(PyObject *object, PyObject *unused) {
  (void)unused;
  eti_method *self = (eti_method *)object;
  if (enter(self) < 0) return NULL;
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list != NULL && i < self->n_inputs; i++) {
    const et_value *value = et_method_input(self->method, i);
    const bool tensor = value != NULL && value->tag == ET_TENSOR;
    PyObject *item =
        Py_BuildValue("{s:N,s:O}", "address",
                      tensor ? PyLong_FromVoidPtr(value->as.tensor->data) : Py_NewRef(Py_None),
                      "borrowed", self->inputs[i].borrowed ? Py_True : Py_False);
    if (item == NULL || PyList_Append(list, item) < 0) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  leave(self);
  return list;
}

static PyObject *method_memory(PyObject *object, PyObject *unused) {
  (void)unused;
  eti_method *self = (eti_method *)object;
  if (enter(self) < 0) return NULL;
  PyObject *planned = PyList_New(0);
  for (size_t i = 0; planned != NULL && i < self->n_planned; i++) {
    PyObject *bytes = PyLong_FromSize_t(self->program->planned[i]->size);
    if (bytes == NULL || PyList_Append(planned, bytes) < 0) Py_CLEAR(planned);
    Py_XDECREF(bytes);
  }
  PyObject *result =
      planned == NULL
          ? NULL
          : Py_BuildValue("{s:n,s:n,s:N}", "method", (Py_ssize_t)self->memory->size, "scratch",
                          (Py_ssize_t)self->scratch->size, "planned", planned);
  leave(self);
  return result;
}

static PyObject *method_get_name(PyObject *object, void *unused) {
  (void)unused;
  return Py_NewRef(((eti_method *)object)->name);
}

static PyObject *method_get_closed(PyObject *object, void *unused) {
  (void)unused;
  return PyBool_FromLong(((eti_method *)object)->method == NULL);
}

static PyObject *method_get_conversions(PyObject *object, void *unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong(((eti_method *)object)->layout_conversions);
}

static PyObject *method_get_copies(PyObject *object, void *unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong(((eti_method *)object)->alignment_copies);
}

#define FAST(function) ((PyCFunction)(void (*)(void))(function))
static PyMethodDef method_methods[] = {
    {"execute", FAST(method_execute), METH_FASTCALL | METH_KEYWORDS,
     "execute($self, inputs, clone_outputs=True, kind=None)\n--\n\nSets the inputs, runs, returns "
     "the outputs as a list."},
    {"set_inputs", method_set_inputs, METH_O,
     "set_inputs($self, inputs, /)\n--\n\nSets the inputs of the next run()."},
    {"run", method_run, METH_NOARGS, "run($self)\n--\n\nRuns with the inputs that are set."},
    {"profile", method_profile, METH_NOARGS,
     "profile($self)\n--\n\nRuns with the inputs that are set; per instruction what it took."},
    {"seed", method_seed, METH_O,
     "seed($self, seed, /)\n--\n\nStarts the random operators anew, from this seed."},
    {"outputs", FAST(method_outputs), METH_FASTCALL | METH_KEYWORDS,
     "outputs($self, clone_outputs=True, kind=None)\n--\n\nThe outputs of the last run."},
    {"attribute", FAST(method_attribute), METH_FASTCALL | METH_KEYWORDS,
     "attribute($self, name, clone=True, kind=None)\n--\n\nA named buffer of the method."},
    {"close", method_close, METH_NOARGS,
     "close($self)\n--\n\nFrees the method. Arrays that view its memory stay valid."},
    {"name_inputs", method_name_inputs, METH_O,
     "name_inputs($self, names, /)\n--\n\nNames to use in messages."},
    {"bound_inputs", method_bound_inputs, METH_O,
     "bound_inputs($self, bounds, /)\n--\n\nPer input None or, per dim, (lower, upper, symbol, "
     "scale, offset)."},
    {"input_state", method_input_state, METH_NOARGS,
     "input_state($self)\n--\n\nPer input: the address the runtime reads, and whether it is the "
     "caller's own memory."},
    {"memory", method_memory, METH_NOARGS,
     "memory($self)\n--\n\nBytes held: method, scratch, planned."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef method_getset[] = {
    {"name", method_get_name, NULL, "The method's name.", NULL},
    {"closed", method_get_closed, NULL, "True after close().", NULL},
    {"layout_conversions", method_get_conversions, NULL, "Inputs re-laid out so far.", NULL},
    {"alignment_copies", method_get_copies, NULL,
     "Inputs copied so far for being misaligned or read-only.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot method_slots[] = {
    {Py_tp_doc, (char *)"A loaded method; made by Program.load_method()."},
    {Py_tp_traverse, method_traverse},
    {Py_tp_clear, method_clear},
    {Py_tp_dealloc, method_dealloc},
    {Py_tp_methods, method_methods},
    {Py_tp_getset, method_getset},
    {0, NULL},
};

PyType_Spec eti_method_spec = {
    .name = "executorch_py._C.Method",
    .basicsize = sizeof(eti_method),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = method_slots,
};
