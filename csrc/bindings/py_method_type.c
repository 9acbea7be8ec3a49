// py_method_type.c — the Python type of methods: arguments and results of its calls, and closing.
// Every call that uses the runtime holds the program's lock. Loading is in py_method_open.c,
// running in py_method_run.c, conversions are in py_inputs.c and py_outputs.c.
#include "bindings/py_method.h"

#include "bindings/py_arrays.h"
#include "bindings/py_errors.h"

// ---- closing

void py_method_close(py_method *self) {
  if (self->link != NULL) {
    *self->link = self->next;
    if (self->next != NULL) self->next->link = self->link;
    self->link = NULL;
    self->next = NULL;
  }
  et_method *method = self->method;
  self->method = NULL;
  if (method != NULL) et_method_close(method);
  // The runtime now holds none of these pointers.
  py_inputs_release(self);
  for (size_t i = 0; self->outputs != NULL && i < self->n_outputs; i++)
    Py_CLEAR(self->outputs[i].memory);
  Py_CLEAR(self->memory);
  Py_CLEAR(self->scratch);
}

static int method_traverse(PyObject *object, visitproc visit, void *arg) {
  py_method *self = (py_method *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->program);
  Py_VISIT(self->name);
  Py_VISIT(self->quoted_name);
  Py_VISIT(self->input_names);
  Py_VISIT(self->memory);
  Py_VISIT(self->scratch);
  for (size_t i = 0; self->inputs != NULL && i < self->n_inputs; i++) {
    Py_VISIT(self->inputs[i].next);
    Py_VISIT(self->inputs[i].pin);
    Py_VISIT(self->inputs[i].staging);
  }
  for (size_t i = 0; self->outputs != NULL && i < self->n_outputs; i++)
    Py_VISIT(self->outputs[i].memory);
  return 0;
}

static int method_clear(PyObject *object) {
  py_method *self = (py_method *)object;
  py_method_close(self);
  Py_CLEAR(self->input_names);
  // The program stays until dealloc: a closed method needs it to report errors.
  return 0;
}

static void method_dealloc(PyObject *object) {
  py_method *self = (py_method *)object;
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  py_method_close(self);
  py_bounds_clear(self);
  PyMem_Free(self->inputs);
  PyMem_Free(self->outputs);
  Py_CLEAR(self->input_names);
  Py_CLEAR(self->name);
  Py_CLEAR(self->quoted_name);
  Py_CLEAR(self->program);
  type->tp_free(object);
  Py_DECREF(type);
}

// ---- calls

// Takes the program's lock for an open method; -1 with an exception set.
static int enter(py_method *self) {
  if (py_program_lock(self->program) < 0) return -1;
  if (self->method != NULL) return 0;
  py_program_unlock(self->program);
  py_raise(self->state, ET_INVALID_STATE, "method %U has been closed%s", self->quoted_name,
           self->program->open ? "" : ", with its program");
  return -1;
}

static void leave(py_method *self) {
  py_program_unlock(self->program);
}

static int parse_kind(py_method *self, PyObject *word, py_kind *kind) {
  *kind = self->kind;
  if (word != NULL && word != Py_None) {
    if (PyUnicode_Check(word) && PyUnicode_CompareWithASCIIString(word, "numpy") == 0) {
      *kind = PY_KIND_NUMPY;
    } else if (PyUnicode_Check(word) && PyUnicode_CompareWithASCIIString(word, "torch") == 0) {
      *kind = PY_KIND_TORCH;
    } else {
      py_raise(self->state, ET_INVALID_ARGUMENT, "kind: expected 'numpy', 'torch' or None, got %R",
               word);
      return -1;
    }
  }
  if (*kind == PY_KIND_NUMPY) return 0;
  const bool have_torch = py_torch_tensor_type(self->state) != NULL;
  // Without tensors among the inputs, a caller who has torch gets torch tensors, as upstream does.
  if (*kind == PY_KIND_UNKNOWN) *kind = have_torch ? PY_KIND_TORCH : PY_KIND_NUMPY;
  if (*kind == PY_KIND_TORCH && !have_torch) {
    py_raise(self->state, ET_INVALID_STATE, "kind is 'torch', but torch has not been imported");
    return -1;
  }
  return 0;
}

// Arguments (first, clone_outputs=True, kind=None) of the hot calls; slots not given are NULL.
static int parse_call(const char *name, const char *const *names, size_t n_names,
                      PyObject *const *args, Py_ssize_t n, PyObject *keywords, PyObject **slots) {
  if ((size_t)n > n_names) {
    PyErr_Format(PyExc_TypeError, "%s(): expected at most %zu arguments, got %zd", name, n_names,
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
  py_method *self = (py_method *)object;
  PyObject *slots[3] = {NULL, NULL, NULL};
  bool clone;
  if (parse_call("execute", names, 3, args, n, keywords, slots) < 0 ||
      parse_clone(slots[1], &clone) < 0)
    return NULL;
  if (slots[0] == NULL) {
    PyErr_SetString(PyExc_TypeError, "execute() is missing the argument 'inputs'");
    return NULL;
  }
  if (enter(self) < 0) return NULL;
  py_kind kind = PY_KIND_UNKNOWN;
  PyObject *result = NULL;
  if (py_inputs_fill(self, slots[0]) == 0 && parse_kind(self, slots[2], &kind) == 0 &&
      py_outputs_check(self, kind) == 0 && py_method_run(self) == 0) {
    result = py_outputs_list(self, clone, kind);
  }
  leave(self);
  return result;
}

static PyObject *method_set_inputs(PyObject *object, PyObject *sequence) {
  py_method *self = (py_method *)object;
  if (enter(self) < 0) return NULL;
  const int result = py_inputs_fill(self, sequence) == 0 ? py_method_set_inputs(self) : -1;
  leave(self);
  return result == 0 ? Py_NewRef(Py_None) : NULL;
}

static PyObject *method_run(PyObject *object, PyObject *unused) {
  (void)unused;
  py_method *self = (py_method *)object;
  if (enter(self) < 0) return NULL;
  const int result = py_method_run(self);
  leave(self);
  return result == 0 ? Py_NewRef(Py_None) : NULL;
}

static PyObject *method_profile(PyObject *object, PyObject *unused) {
  (void)unused;
  py_method *self = (py_method *)object;
  if (enter(self) < 0) return NULL;
  PyObject *result = py_method_profile(self);
  leave(self);
  return result;
}

static PyObject *method_trace(PyObject *object, PyObject *unused) {
  (void)unused;
  py_method *self = (py_method *)object;
  if (enter(self) < 0) return NULL;
  PyObject *result = py_method_trace(self);
  leave(self);
  return result;
}

static PyObject *method_seed(PyObject *object, PyObject *number) {
  py_method *self = (py_method *)object;
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
  py_method *self = (py_method *)object;
  PyObject *slots[2] = {NULL, NULL};
  bool clone;
  if (parse_call("outputs", names, 2, args, n, keywords, slots) < 0 ||
      parse_clone(slots[0], &clone) < 0)
    return NULL;
  if (enter(self) < 0) return NULL;
  py_kind kind = PY_KIND_UNKNOWN;
  PyObject *result =
      parse_kind(self, slots[1], &kind) < 0 ? NULL : py_outputs_list(self, clone, kind);
  leave(self);
  return result;
}

static PyObject *method_attribute(PyObject *object, PyObject *const *args, Py_ssize_t n,
                                  PyObject *keywords) {
  static const char *const names[] = {"name", "clone", "kind"};
  py_method *self = (py_method *)object;
  PyObject *slots[3] = {NULL, NULL, NULL};
  bool clone;
  if (parse_call("attribute", names, 3, args, n, keywords, slots) < 0 ||
      parse_clone(slots[1], &clone) < 0)
    return NULL;
  const char *name =
      slots[0] != NULL && PyUnicode_Check(slots[0]) ? PyUnicode_AsUTF8(slots[0]) : NULL;
  if (name == NULL) {
    if (!PyErr_Occurred())
      PyErr_Format(PyExc_TypeError, "attribute(): expected a name of type str, got %s",
                   slots[0] == NULL ? "none" : Py_TYPE(slots[0])->tp_name);
    return NULL;
  }
  if (enter(self) < 0) return NULL;
  PyObject *result = NULL;
  py_kind kind = PY_KIND_UNKNOWN;
  et_tensor *tensor = et_method_attribute(self->method, name);
  if (tensor == NULL) {
    py_raise(self->state, ET_NOT_FOUND, "method %U has no attribute %R", self->quoted_name,
             slots[0]);
  } else if (parse_kind(self, slots[2], &kind) == 0) {
    const et_value value = {.tag = ET_TENSOR, .as.tensor = tensor};
    result = py_output_object(self, &value, clone, kind);
  }
  leave(self);
  return result;
}

static PyObject *method_close(PyObject *object, PyObject *unused) {
  (void)unused;
  py_method *self = (py_method *)object;
  if (py_program_lock(self->program) < 0) return NULL;
  py_method_close(self);
  py_program_unlock(self->program);
  Py_RETURN_NONE;
}

static PyObject *method_name_inputs(PyObject *object, PyObject *names) {
  py_method *self = (py_method *)object;
  if (PyCallable_Check(names)) {
    Py_XSETREF(self->input_names, Py_NewRef(names));
    Py_RETURN_NONE;
  }
  PyObject *tuple = PySequence_Tuple(names);
  if (tuple == NULL) return NULL;
  const Py_ssize_t n = PyTuple_GET_SIZE(tuple);
  if ((size_t)n != self->n_inputs) {
    Py_DECREF(tuple);
    return py_raise(self->state, ET_INVALID_ARGUMENT,
                    "method %U: expected %zu names, one per input, got %zd", self->quoted_name,
                    self->n_inputs, n);
  }
  Py_XSETREF(self->input_names, tuple);
  Py_RETURN_NONE;
}

static PyObject *method_bound_inputs(PyObject *object, PyObject *bounds) {
  py_method *self = (py_method *)object;
  if (enter(self) < 0) return NULL;
  const int result = py_bounds_set(self, bounds);
  leave(self);
  return result == 0 ? Py_NewRef(Py_None) : NULL;
}

static PyObject *method_input_state(PyObject *object, PyObject *unused) {
  (void)unused;
  py_method *self = (py_method *)object;
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
  py_method *self = (py_method *)object;
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
  return Py_NewRef(((py_method *)object)->name);
}

static PyObject *method_get_closed(PyObject *object, void *unused) {
  (void)unused;
  return PyBool_FromLong(((py_method *)object)->method == NULL);
}

static PyObject *method_get_conversions(PyObject *object, void *unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong(((py_method *)object)->layout_conversions);
}

static PyObject *method_get_copies(PyObject *object, void *unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong(((py_method *)object)->alignment_copies);
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
     "profile($self)\n--\n\nRuns with the inputs that are set; per instruction its time."},
    {"trace", method_trace, METH_NOARGS,
     "trace($self)\n--\n\nRuns with the inputs that are set; per instruction its results."},
    {"seed", method_seed, METH_O,
     "seed($self, seed, /)\n--\n\nRestarts the random operators from this seed."},
    {"outputs", FAST(method_outputs), METH_FASTCALL | METH_KEYWORDS,
     "outputs($self, clone_outputs=True, kind=None)\n--\n\nThe outputs of the last run."},
    {"attribute", FAST(method_attribute), METH_FASTCALL | METH_KEYWORDS,
     "attribute($self, name, clone=True, kind=None)\n--\n\nA named buffer of the method."},
    {"close", method_close, METH_NOARGS,
     "close($self)\n--\n\nFrees the method. Arrays that view its memory stay valid."},
    {"name_inputs", method_name_inputs, METH_O,
     "name_inputs($self, names, /)\n--\n\nNames to use in messages, or a function that gives "
     "them."},
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
    {"layout_conversions", method_get_conversions, NULL,
     "Inputs copied into the planned layout so far.", NULL},
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

PyType_Spec py_method_spec = {
    .name = "executorch_py._C.Method",
    .basicsize = sizeof(py_method),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = method_slots,
};
