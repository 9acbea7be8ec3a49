// py_program_type.c — the Python type of programs: open_program(), methods, closing. Locks, memory
// and threads are in py_program.c, loading methods is in py_method_open.c; knows nothing of tensors
// or arrays.
#include "bindings/py_program.h"

#include <string.h>

#include "bindings/py_delegates.h"
#include "bindings/py_errors.h"
#include "bindings/py_interrupt.h"
#include "bindings/py_numpy_api.h"
#include "runtime/signature/et_named_data.h"

// ---- opening

PyObject *py_open_program(PyObject *module, PyObject *args, PyObject *kwargs) {
  static char *names[] = {(char *)"source",    (char *)"data",    (char *)"verification",
                          (char *)"n_threads", (char *)"xnnpack", NULL};
  PyObject *source, *data = NULL, *xnnpack = NULL;
  int verification = ET_VERIFY_FULL;
  Py_ssize_t n_threads = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O$inO:open_program", names, &source, &data,
                                   &verification, &n_threads, &xnnpack)) {
    return NULL;
  }
  py_state *state = PyModule_GetState(module);
  if (verification != ET_VERIFY_FULL && verification != ET_VERIFY_MINIMAL) {
    return py_raise(state, ET_INVALID_ARGUMENT,
                    "verification: expected 0 (full) or 1 (minimal), got %d", verification);
  }
  if (n_threads < 0 || n_threads > 1024) {
    return py_raise(state, ET_INVALID_ARGUMENT, "n_threads: expected 0 (all CPUs) to 1024, got %zd",
                    n_threads);
  }
  if (py_interrupt_prepare(state) < 0) return NULL;
  py_program *self = (py_program *)state->program_type->tp_alloc(state->program_type, 0);
  if (self == NULL) return NULL;
  self->state = state;
  self->n_threads = n_threads > 0 ? (size_t)n_threads : et_cpu_count();
  self->freed = PyThread_allocate_lock();
  if (self->freed == NULL) {
    PyErr_NoMemory();
    goto failed;
  }
  PyThread_acquire_lock(self->freed, NOWAIT_LOCK);
  if (py_program_open(self, source, (et_verification)verification) < 0) goto failed;
  if (data != NULL && data != Py_None && py_program_open_data(self, data) < 0) goto failed;
  if (py_delegates_open(self, xnnpack) < 0) goto failed;
  return (PyObject *)self;
failed:
  Py_DECREF(self);
  return NULL;
}

// ---- closing

static void shut(py_program *self) {
  while (self->methods != NULL) py_method_close(self->methods);
  py_delegates_close(self);
  py_program_release(self);
}

static PyObject *program_close(PyObject *object, PyObject *unused) {
  (void)unused;
  py_program *self = (py_program *)object;
  if (py_program_lock(self) < 0) return NULL;
  shut(self);
  py_program_unlock(self);
  Py_RETURN_NONE;
}

static int program_traverse(PyObject *object, visitproc visit, void *arg) {
  py_program *self = (py_program *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->memory);
  for (size_t i = 0; i < self->n_data; i++) Py_VISIT(self->data[i].memory);
  for (size_t i = 0; self->planned != NULL && i < self->n_planned; i++) Py_VISIT(self->planned[i]);
  Py_VISIT(self->scratch);
  Py_VISIT(self->threads_memory);
  return 0;
}

static int program_clear(PyObject *object) {
  py_program *self = (py_program *)object;
  // Methods hold strong references to their program, so they are garbage as well.
  if (self->holder == 0) shut(self);
  return 0;
}

static void program_dealloc(PyObject *object) {
  py_program *self = (py_program *)object;
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  shut(self);
  PyMem_Free(self->data);
  PyMem_Free(self->maps);
  PyMem_Free(self->planned);
  PyMem_Free(self->planned_bytes);
  if (self->freed != NULL) PyThread_free_lock(self->freed);
  type->tp_free(object);
  Py_DECREF(type);
}

// ---- methods and attributes

static int check_open(const py_program *self) {
  if (self->open) return 0;
  py_raise(self->state, ET_INVALID_STATE, "this program has been closed");
  return -1;
}

// Converts a name of the file. Names that are no UTF-8 are shown, and found again, by surrogates.
static PyObject *name_shown(const char *name) {
  return PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "surrogateescape");
}

// The bytes of a name from the caller, and an object that holds them.
static PyObject *name_given(PyObject *name, char **bytes) {
  if (!PyUnicode_Check(name)) {
    PyErr_Format(PyExc_TypeError, "a method's name: expected str, got %.80s",
                 Py_TYPE(name)->tp_name);
    return NULL;
  }
  PyObject *encoded = PyUnicode_AsEncodedString(name, "utf-8", "surrogateescape");
  if (encoded != NULL && PyBytes_AsStringAndSize(encoded, bytes, NULL) < 0) Py_CLEAR(encoded);
  return encoded;
}

static PyObject *program_load_method(PyObject *object, PyObject *name) {
  py_program *self = (py_program *)object;
  char *text;
  PyObject *encoded = name_given(name, &text);
  if (encoded == NULL) return NULL;
  PyObject *method = NULL;
  if (py_program_lock(self) == 0) {
    if (check_open(self) == 0) method = py_method_open(self, text);
    if (method != NULL && py_delegates_save_weights(self) < 0) Py_CLEAR(method);
    py_program_unlock(self);
  }
  Py_DECREF(encoded);
  return method;
}

static PyObject *program_method_names(PyObject *object, PyObject *unused) {
  (void)unused;
  py_program *self = (py_program *)object;
  if (check_open(self) < 0) return NULL;
  const size_t n = et_program_method_count(&self->program);
  PyObject *list = PyList_New((Py_ssize_t)n);
  if (list == NULL) return NULL;
  for (size_t i = 0; i < n; i++) {
    PyObject *text = name_shown(et_program_method_name(&self->program, i));
    if (text == NULL) {
      Py_DECREF(list);
      return NULL;
    }
    PyList_SET_ITEM(list, (Py_ssize_t)i, text);
  }
  return list;
}

static PyObject *program_info(PyObject *object, PyObject *name) {
  py_program *self = (py_program *)object;
  if (check_open(self) < 0) return NULL;
  char *text;
  PyObject *encoded = name_given(name, &text);
  PyObject *info = encoded == NULL ? NULL : py_program_method_info(self, text);
  Py_XDECREF(encoded);
  return info;
}

static PyObject *program_named_data(PyObject *object, PyObject *unused) {
  (void)unused;
  py_program *self = (py_program *)object;
  if (check_open(self) < 0) return NULL;
  PyObject *dict = PyDict_New();
  const size_t n = et_program_named_data_count(&self->program);
  for (size_t i = 0; dict != NULL && i < n; i++) {
    size_t bytes = 0;
    PyObject *key = name_shown(et_program_named_data_key(&self->program, i, &bytes));
    PyObject *value = PyLong_FromSize_t(bytes);
    if (key == NULL || value == NULL || PyDict_SetItem(dict, key, value) < 0) Py_CLEAR(dict);
    Py_XDECREF(key);
    Py_XDECREF(value);
  }
  return dict;
}

// The bytes as an array that views them where the file is mapped; a copy otherwise.
static PyObject *program_named_bytes(PyObject *object, PyObject *name) {
  py_program *self = (py_program *)object;
  if (check_open(self) < 0) return NULL;
  char *key;
  PyObject *encoded = name_given(name, &key);
  if (encoded == NULL) return NULL;
  et_blob blob;
  et_error err = {.status = ET_OK};
  const et_status status = et_program_named_data_load(&self->program, key, &blob, &err);
  Py_DECREF(encoded);
  if (status != ET_OK) return py_raise_error(PyType_GetModuleState(Py_TYPE(object)), &err);
  PyObject *result = NULL;
  npy_intp size = (npy_intp)blob.size;
  if (!py_memory_contains(self->memory, blob.data, blob.size)) {
    result = PyBytes_FromStringAndSize(blob.data, (Py_ssize_t)blob.size);
  } else {
    PyArrayObject *const array = (PyArrayObject *)PyArray_SimpleNewFromData(
        1, &size, NPY_UINT8, (void *)(uintptr_t)blob.data);
    if (array != NULL) {
      PyArray_CLEARFLAGS(array, NPY_ARRAY_WRITEABLE);
      Py_INCREF(self->memory);
      if (PyArray_SetBaseObject(array, (PyObject *)self->memory) == 0)
        result = PyMemoryView_FromObject((PyObject *)array);
      Py_DECREF(array);
    }
  }
  et_program_named_data_release(&blob);
  return result;
}

static PyObject *program_data_keys(PyObject *object, PyObject *unused) {
  (void)unused;
  py_program *self = (py_program *)object;
  if (check_open(self) < 0) return NULL;
  PyObject *lists = PyList_New(0);
  for (size_t f = 0; lists != NULL && f < self->n_data; f++) {
    PyObject *keys = PyList_New(0);
    const size_t n = et_data_map_count(&self->data[f].map);
    for (size_t i = 0; keys != NULL && i < n; i++) {
      PyObject *key = name_shown(et_data_map_key(&self->data[f].map, i));
      if (key == NULL || PyList_Append(keys, key) < 0) Py_CLEAR(keys);
      Py_XDECREF(key);
    }
    if (keys == NULL || PyList_Append(lists, keys) < 0) Py_CLEAR(lists);
    Py_XDECREF(keys);
  }
  return lists;
}

// An array rather than a memoryview: it keeps the bytes alive after close().
static PyObject *array_over(py_memory *memory, int flags) {
  npy_intp size = (npy_intp)memory->size;
  PyObject *array =
      PyArray_New(&PyArray_Type, 1, &size, NPY_UBYTE, NULL, memory->data, 0, flags, NULL);
  if (array == NULL) return NULL;
  if (PyArray_SetBaseObject((PyArrayObject *)array, Py_NewRef((PyObject *)memory)) < 0)
    Py_CLEAR(array);
  return array;
}

static int append_array(PyObject *list, py_memory *memory, int flags) {
  PyObject *array = array_over(memory, flags);
  const int result = array == NULL ? -1 : PyList_Append(list, array);
  Py_XDECREF(array);
  return result;
}

static PyObject *program_buffer(PyObject *object, PyObject *unused) {
  (void)unused;
  py_program *self = (py_program *)object;
  if (check_open(self) < 0) return NULL;
  return array_over(self->memory, NPY_ARRAY_CARRAY_RO);
}

static PyObject *program_data_buffers(PyObject *object, PyObject *unused) {
  (void)unused;
  py_program *self = (py_program *)object;
  if (check_open(self) < 0) return NULL;
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list != NULL && i < self->n_data; i++)
    if (append_array(list, self->data[i].memory, NPY_ARRAY_CARRAY_RO) < 0) Py_CLEAR(list);
  return list;
}

static PyObject *program_planned_buffers(PyObject *object, PyObject *unused) {
  (void)unused;
  py_program *self = (py_program *)object;
  if (check_open(self) < 0) return NULL;
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list != NULL && i < self->n_planned; i++) {
    if (self->planned[i] == NULL) continue;
    if (append_array(list, self->planned[i], NPY_ARRAY_CARRAY) < 0) Py_CLEAR(list);
  }
  return list;
}

static PyObject *program_get_closed(PyObject *object, void *unused) {
  (void)unused;
  return PyBool_FromLong(!((py_program *)object)->open);
}

static PyObject *program_get_n_threads(PyObject *object, void *unused) {
  (void)unused;
  return PyLong_FromSize_t(((py_program *)object)->n_threads);
}

static PyObject *program_get_nbytes(PyObject *object, void *unused) {
  (void)unused;
  const py_program *self = (const py_program *)object;
  return PyLong_FromSize_t(self->memory != NULL ? self->memory->size : 0);
}

static PyObject *program_get_ownership(PyObject *object, void *unused) {
  (void)unused;
  static const char *const words[] = {
      [PY_MEMORY_ALLOCATED] = "copied",
      [PY_MEMORY_PAGES] = "copied",
      [PY_MEMORY_MAPPED] = "mapped",
      [PY_MEMORY_PINNED] = "borrowed",
  };
  const py_program *self = (const py_program *)object;
  return PyUnicode_FromString(self->memory != NULL ? words[self->memory->kind] : "closed");
}

static PyMethodDef program_methods[] = {
    {"load_method", program_load_method, METH_O,
     "load_method($self, name, /)\n--\n\nMeasures and loads a method."},
    {"method_names", program_method_names, METH_NOARGS,
     "method_names($self)\n--\n\nNames in the file's order."},
    {"method_info", program_info, METH_O,
     "method_info($self, name, /)\n--\n\nFacts of a method, without loading it."},
    {"named_bytes", program_named_bytes, METH_O,
     "named_bytes($self, key, /)\n--\n\nThe bytes of a named blob of the file."},
    {"named_data", program_named_data, METH_NOARGS,
     "named_data($self)\n--\n\nBytes of each named blob of the file."},
    {"delegate_facts", py_delegates_facts, METH_NOARGS,
     "delegate_facts($self)\n--\n\nXNNPACK's packed weights: how many, in memory or a file."},
    {"data_keys", program_data_keys, METH_NOARGS,
     "data_keys($self)\n--\n\nKeys of each external data file."},
    {"buffer", program_buffer, METH_NOARGS,
     "buffer($self)\n--\n\nThe file's bytes as a read-only array, not copied."},
    {"data_buffers", program_data_buffers, METH_NOARGS,
     "data_buffers($self)\n--\n\nThe bytes of each external data file, likewise."},
    {"planned_buffers", program_planned_buffers, METH_NOARGS,
     "planned_buffers($self)\n--\n\nThe planned memory of loaded methods, as writable arrays."},
    {"close", program_close, METH_NOARGS,
     "close($self)\n--\n\nCloses the program and its methods."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef program_getset[] = {
    {"closed", program_get_closed, NULL, "True after close().", NULL},
    {"n_threads", program_get_n_threads, NULL, "Threads its methods run on.", NULL},
    {"nbytes", program_get_nbytes, NULL, "Size of the file.", NULL},
    {"ownership", program_get_ownership, NULL,
     "Storage of the bytes: mapped, borrowed, copied or closed.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot program_slots[] = {
    {Py_tp_doc, (char *)"An opened program; made by open_program()."},
    {Py_tp_traverse, program_traverse},
    {Py_tp_clear, program_clear},
    {Py_tp_dealloc, program_dealloc},
    {Py_tp_methods, program_methods},
    {Py_tp_getset, program_getset},
    {0, NULL},
};

PyType_Spec py_program_spec = {
    .name = "executorch_py._C.Program",
    .basicsize = sizeof(py_program),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = program_slots,
};
