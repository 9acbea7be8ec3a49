// py_program_type.c — opening, sharing and closing programs. Relies on py_memory.h for bytes and on
// py_method_open.c for methods; knows nothing of tensors or arrays.
#include "bindings/py_program.h"

#include <string.h>

#include "bindings/py_delegates.h"
#include "bindings/py_errors.h"
#include "bindings/py_interrupt.h"

// ---- lock

int eti_program_lock(eti_program *program) {
  const unsigned long me = PyThread_get_thread_ident();
  if (program->holder == me) {
    eti_raise(program->state, ET_INVALID_STATE,
              "a method of this program is already running in this thread");
    return -1;
  }
  PyLockStatus taken = PyThread_acquire_lock_timed(program->lock, 0, 0);
  while (taken != PY_LOCK_ACQUIRED) {
    Py_BEGIN_ALLOW_THREADS;
    taken = PyThread_acquire_lock_timed(program->lock, -1, 1);
    Py_END_ALLOW_THREADS;
    if (taken == PY_LOCK_INTR && PyErr_CheckSignals() < 0) return -1;
  }
  program->holder = me;
  return 0;
}

void eti_program_unlock(eti_program *program) {
  program->holder = 0;
  PyThread_release_lock(program->lock);
}

// ---- threads

// Runs on the program's threads; inline in a forked child, where those threads do not exist.
static void pool_run(void *ctx, et_task task, void *task_ctx, size_t n) {
  eti_program *program = ctx;
  if (program->fork_generation == program->state->fork_generation) {
    program->threads_handle.run(program->threads_handle.ctx, task, task_ctx, n);
    return;
  }
  for (size_t i = 0; i < n; i++) task(task_ctx, i);
}

int eti_program_pool(eti_program *program, const et_pool **pool) {
  *pool = NULL;
  if (program->n_threads <= 1) return 0;
  if (program->threads == NULL) {
    eti_memory *memory =
        eti_memory_allocate(program->state, et_thread_pool_bytes(program->n_threads));
    if (memory == NULL) return -1;
    et_error err = {.status = ET_OK};
    const et_span span = {memory->data, memory->size};
    if (et_thread_pool_init(&program->threads, span, program->n_threads, &err) != ET_OK) {
      program->threads = NULL;
      Py_DECREF(memory);
      eti_raise_error(program->state, &err);
      return -1;
    }
    program->threads_memory = memory;
    program->threads_handle = et_thread_pool_handle(program->threads);
    program->fork_generation = program->state->fork_generation;
    program->pool =
        (et_pool){.ctx = program, .n_threads = program->threads_handle.n_threads, .run = pool_run};
  }
  *pool = &program->pool;
  return 0;
}

// ---- shared memory

// Sizes of the shared planned buffers: the maximum over all methods, so that any of them can be
// loaded later.
static int measure_planned(eti_program *self) {
  et_error err = {.status = ET_OK};
  const size_t n_methods = et_program_method_count(&self->program);
  for (int pass = 0; pass < 2; pass++) {
    for (size_t m = 0; m < n_methods; m++) {
      const char *name = et_program_method_name(&self->program, m);
      et_method_info info;
      if (et_program_method_info(&self->program, name, &info, &err) != ET_OK) goto failed;
      if (pass == 0) {
        if (info.n_planned > self->n_planned) self->n_planned = info.n_planned;
        continue;
      }
      for (size_t i = 0; i < info.n_planned; i++) {
        size_t bytes = 0;
        if (et_program_planned_bytes(&self->program, name, i, &bytes, &err) != ET_OK) goto failed;
        if (bytes > self->planned_bytes[i]) self->planned_bytes[i] = bytes;
      }
    }
    if (pass == 0 && self->n_planned > 0) {
      self->planned = PyMem_Calloc(self->n_planned, sizeof *self->planned);
      self->planned_bytes = PyMem_Calloc(self->n_planned, sizeof *self->planned_bytes);
      if (self->planned == NULL || self->planned_bytes == NULL) {
        PyErr_NoMemory();
        return -1;
      }
    }
  }
  return 0;
failed:
  eti_raise_error(self->state, &err);
  return -1;
}

int eti_program_planned(eti_program *program, size_t n_planned) {
  for (size_t i = 0; i < n_planned; i++) {
    if (program->planned[i] != NULL) continue;
    program->planned[i] = eti_memory_allocate(program->state, program->planned_bytes[i]);
    if (program->planned[i] == NULL) return -1;
    eti_memory_expect_use(program->planned[i]);
  }
  return 0;
}

eti_memory *eti_program_scratch(eti_program *program, size_t bytes) {
  if (program->scratch == NULL || program->scratch->size < bytes) {
    // Methods loaded before keep the smaller block they were given.
    eti_memory *larger = eti_memory_allocate(program->state, bytes);
    if (larger == NULL) return NULL;
    eti_memory_expect_use(larger);
    Py_XSETREF(program->scratch, larger);
  }
  Py_INCREF(program->scratch);
  return program->scratch;
}

// ---- opening

static eti_memory *memory_from(eti_state *state, PyObject *object) {
  if (PyUnicode_Check(object) || PyObject_HasAttrString(object, "__fspath__"))
    return eti_memory_map_file(state, object);
  return eti_memory_from_buffer(state, object);
}

static int open_data_files(eti_program *self, PyObject *data) {
  PyObject *items = PySequence_Tuple(data);
  if (items == NULL) return -1;
  int result = -1;
  const Py_ssize_t n = PyTuple_GET_SIZE(items);
  if (n > 0) {
    self->data = PyMem_Calloc((size_t)n, sizeof *self->data);
    self->maps = PyMem_Calloc((size_t)n, sizeof *self->maps);
    if (self->data == NULL || self->maps == NULL) {
      PyErr_NoMemory();
      goto done;
    }
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    eti_data_file *file = &self->data[i];
    file->memory = memory_from(self->state, PyTuple_GET_ITEM(items, i));
    if (file->memory == NULL) goto done;
    self->n_data = (size_t)i + 1;
    file->source = et_source_from_memory(file->memory->data, file->memory->size);
    et_error err = {.status = ET_OK};
    et_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = et_data_map_open(&file->map, &file->source, &err);
    Py_END_ALLOW_THREADS;
    if (status != ET_OK) {
      eti_raise_error(self->state, &err);
      goto done;
    }
    file->open = true;
    self->maps[i] = &file->map;
  }
  result = 0;
done:
  Py_DECREF(items);
  return result;
}

static int open_program(eti_program *self, PyObject *source, et_verification verification) {
  self->memory = memory_from(self->state, source);
  if (self->memory == NULL) return -1;
  self->source = et_source_from_memory(self->memory->data, self->memory->size);
  et_error err = {.status = ET_OK};
  et_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = et_program_open(&self->program, &self->source, verification, &err);
  Py_END_ALLOW_THREADS;
  if (status != ET_OK) {
    eti_raise_error(self->state, &err);
    return -1;
  }
  self->open = true;
  return measure_planned(self);
}

PyObject *eti_open_program(PyObject *module, PyObject *args, PyObject *kwargs) {
  static char *names[] = {(char *)"source",    (char *)"data",    (char *)"verification",
                          (char *)"n_threads", (char *)"xnnpack", NULL};
  PyObject *source, *data = NULL, *xnnpack = NULL;
  int verification = ET_VERIFY_FULL;
  Py_ssize_t n_threads = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O$inO:open_program", names, &source, &data,
                                   &verification, &n_threads, &xnnpack)) {
    return NULL;
  }
  eti_state *state = PyModule_GetState(module);
  if (verification != ET_VERIFY_FULL && verification != ET_VERIFY_MINIMAL) {
    return eti_raise(state, ET_INVALID_ARGUMENT,
                     "verification is %d, needs 0 (full) or 1 (minimal)", verification);
  }
  if (n_threads < 0 || n_threads > 1024) {
    return eti_raise(state, ET_INVALID_ARGUMENT, "n_threads is %zd, needs 0 (all CPUs) to 1024",
                     n_threads);
  }
  if (eti_fork_hook(state) < 0) return NULL;
  eti_program *self = (eti_program *)state->program_type->tp_alloc(state->program_type, 0);
  if (self == NULL) return NULL;
  self->state = state;
  self->n_threads = n_threads > 0 ? (size_t)n_threads : et_cpu_count();
  self->lock = PyThread_allocate_lock();
  if (self->lock == NULL) {
    PyErr_NoMemory();
    goto failed;
  }
  if (open_program(self, source, (et_verification)verification) < 0) goto failed;
  if (data != NULL && data != Py_None && open_data_files(self, data) < 0) goto failed;
  if (eti_delegates_open(self, xnnpack) < 0) goto failed;
  return (PyObject *)self;
failed:
  Py_DECREF(self);
  return NULL;
}

// ---- closing

static void release_bytes(eti_program *self) {
  if (self->open) {
    self->open = false;
    et_program_close(&self->program);
  }
  for (size_t i = 0; i < self->n_data; i++) {
    if (self->data[i].open) et_data_map_close(&self->data[i].map);
    self->data[i].open = false;
    Py_CLEAR(self->data[i].memory);
  }
  if (self->threads != NULL && self->fork_generation == self->state->fork_generation) {
    et_thread_pool_deinit(self->threads);
  }
  self->threads = NULL;
  Py_CLEAR(self->threads_memory);
  for (size_t i = 0; self->planned != NULL && i < self->n_planned; i++) Py_CLEAR(self->planned[i]);
  Py_CLEAR(self->scratch);
  Py_CLEAR(self->memory);
}

static void shut(eti_program *self) {
  while (self->methods != NULL) eti_method_shut(self->methods);
  eti_delegates_close(self);
  release_bytes(self);
}

static PyObject *program_close(PyObject *object, PyObject *unused) {
  (void)unused;
  eti_program *self = (eti_program *)object;
  if (eti_program_lock(self) < 0) return NULL;
  shut(self);
  eti_program_unlock(self);
  Py_RETURN_NONE;
}

static int program_traverse(PyObject *object, visitproc visit, void *arg) {
  eti_program *self = (eti_program *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->memory);
  for (size_t i = 0; i < self->n_data; i++) Py_VISIT(self->data[i].memory);
  return 0;
}

static int program_clear(PyObject *object) {
  eti_program *self = (eti_program *)object;
  // Methods hold strong references to their program, so when this is garbage they are too.
  if (self->holder == 0) shut(self);
  return 0;
}

static void program_dealloc(PyObject *object) {
  eti_program *self = (eti_program *)object;
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  shut(self);
  PyMem_Free(self->data);
  PyMem_Free(self->maps);
  PyMem_Free(self->planned);
  PyMem_Free(self->planned_bytes);
  if (self->lock != NULL) PyThread_free_lock(self->lock);
  type->tp_free(object);
  Py_DECREF(type);
}

// ---- what Python sees

static int check_open(const eti_program *self) {
  if (self->open) return 0;
  eti_raise(self->state, ET_INVALID_STATE, "this program has been closed");
  return -1;
}

// Files may have names that are no UTF-8, which are shown with surrogates and found again by those.
static PyObject *name_shown(const char *name) {
  return PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "surrogateescape");
}

// The bytes of a name that was given, and an object that holds them.
static PyObject *name_given(PyObject *name, char **bytes) {
  if (!PyUnicode_Check(name)) {
    PyErr_Format(PyExc_TypeError, "a method's name is a str, not %.80s", Py_TYPE(name)->tp_name);
    return NULL;
  }
  PyObject *encoded = PyUnicode_AsEncodedString(name, "utf-8", "surrogateescape");
  if (encoded != NULL && PyBytes_AsStringAndSize(encoded, bytes, NULL) < 0) Py_CLEAR(encoded);
  return encoded;
}

static PyObject *program_load_method(PyObject *object, PyObject *name) {
  eti_program *self = (eti_program *)object;
  char *text;
  PyObject *encoded = name_given(name, &text);
  if (encoded == NULL) return NULL;
  PyObject *method = NULL;
  if (eti_program_lock(self) == 0) {
    if (check_open(self) == 0) method = eti_method_open(self, text);
    if (method != NULL && eti_delegates_keep(self) < 0) Py_CLEAR(method);
    eti_program_unlock(self);
  }
  Py_DECREF(encoded);
  return method;
}

static PyObject *program_method_names(PyObject *object, PyObject *unused) {
  (void)unused;
  eti_program *self = (eti_program *)object;
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
  eti_program *self = (eti_program *)object;
  if (check_open(self) < 0) return NULL;
  char *text;
  PyObject *encoded = name_given(name, &text);
  PyObject *info = encoded == NULL ? NULL : eti_program_method_info(self, text);
  Py_XDECREF(encoded);
  return info;
}

static PyObject *program_named_data(PyObject *object, PyObject *unused) {
  (void)unused;
  eti_program *self = (eti_program *)object;
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

static PyObject *program_data_keys(PyObject *object, PyObject *unused) {
  (void)unused;
  eti_program *self = (eti_program *)object;
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

static PyObject *program_buffer(PyObject *object, PyObject *unused) {
  (void)unused;
  eti_program *self = (eti_program *)object;
  if (check_open(self) < 0) return NULL;
  // An array rather than a memoryview: it keeps the bytes alive after close().
  npy_intp size = (npy_intp)self->memory->size;
  PyObject *array = PyArray_New(&PyArray_Type, 1, &size, NPY_UBYTE, NULL, self->memory->data, 0,
                                NPY_ARRAY_CARRAY_RO, NULL);
  if (array == NULL) return NULL;
  if (PyArray_SetBaseObject((PyArrayObject *)array, Py_NewRef((PyObject *)self->memory)) < 0)
    Py_CLEAR(array);
  return array;
}

static PyObject *program_get_closed(PyObject *object, void *unused) {
  (void)unused;
  return PyBool_FromLong(!((eti_program *)object)->open);
}

static PyObject *program_get_n_threads(PyObject *object, void *unused) {
  (void)unused;
  return PyLong_FromSize_t(((eti_program *)object)->n_threads);
}

static PyObject *program_get_nbytes(PyObject *object, void *unused) {
  (void)unused;
  const eti_program *self = (const eti_program *)object;
  return PyLong_FromSize_t(self->memory != NULL ? self->memory->size : 0);
}

static PyObject *program_get_ownership(PyObject *object, void *unused) {
  (void)unused;
  static const char *const words[] = {
      [ETI_MEMORY_ALLOCATED] = "copied",
      [ETI_MEMORY_PAGES] = "copied",
      [ETI_MEMORY_MAPPED] = "mapped",
      [ETI_MEMORY_PINNED] = "borrowed",
  };
  const eti_program *self = (const eti_program *)object;
  return PyUnicode_FromString(self->memory != NULL ? words[self->memory->kind] : "closed");
}

static PyMethodDef program_methods[] = {
    {"load_method", program_load_method, METH_O,
     "load_method($self, name, /)\n--\n\nMeasures and loads a method."},
    {"method_names", program_method_names, METH_NOARGS,
     "method_names($self)\n--\n\nNames in the file's order."},
    {"method_info", program_info, METH_O,
     "method_info($self, name, /)\n--\n\nFacts of a method, without loading it."},
    {"named_data", program_named_data, METH_NOARGS,
     "named_data($self)\n--\n\nBytes of each named blob of the file."},
    {"delegate_facts", eti_delegates_facts, METH_NOARGS,
     "delegate_facts($self)\n--\n\nXNNPACK's packed weights: how many, in memory or a file."},
    {"data_keys", program_data_keys, METH_NOARGS,
     "data_keys($self)\n--\n\nKeys of each external data file."},
    {"buffer", program_buffer, METH_NOARGS,
     "buffer($self)\n--\n\nThe file's bytes as a read-only array, not copied."},
    {"close", program_close, METH_NOARGS,
     "close($self)\n--\n\nCloses the program and its methods."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef program_getset[] = {
    {"closed", program_get_closed, NULL, "True after close().", NULL},
    {"n_threads", program_get_n_threads, NULL, "Threads its methods run on.", NULL},
    {"nbytes", program_get_nbytes, NULL, "Size of the file.", NULL},
    {"ownership", program_get_ownership, NULL,
     "Where the bytes are: mapped, borrowed, copied or closed.", NULL},
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

PyType_Spec eti_program_spec = {
    .name = "executorch_py._C.Program",
    .basicsize = sizeof(eti_program),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = program_slots,
};
