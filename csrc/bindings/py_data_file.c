// py_data_file.c — the module's data_file_bytes() and load_data_file(): named arrays as a data file
// (.ptd) and back, without the exporter.
#include "bindings/py_errors.h"
#include "bindings/py_memory.h"
#include "bindings/py_tensor_view.h"
#include "runtime/training/et_train.h"

#include <string.h>

// ---- Writing

typedef struct entries {
  PyObject *dict;  // a copy, which keeps the names alive
  Py_ssize_t n;
  const char **names;
  py_tensor_view *views;
} entries;

static void get_entry(const void *ctx, size_t i, et_data_entry *entry) {
  const entries *e = ctx;
  *entry = (et_data_entry){.prefix = "", .name = e->names[i], .tensor = e->views[i].t};
}

typedef struct cursor {
  char *at;
} cursor;

static et_status append(void *ctx, const void *data, size_t size, et_error *err) {
  cursor *c = ctx;
  (void)err;
  memcpy(c->at, data, size);
  c->at += size;
  return ET_OK;
}

static PyObject *write_entries(py_state *state, const entries *e) {
  const et_data_list list = {.ctx = e, .n = (size_t)e->n, .get = get_entry};
  et_error err = {.status = ET_OK};
  uint64_t bytes;
  if (et_data_measure(&list, &bytes, &err) != ET_OK) return py_raise_error(state, &err);
  PyObject *const result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
  if (result == NULL) return NULL;
  cursor c = {.at = PyBytes_AS_STRING(result)};
  const et_sink sink = {.ctx = &c, .write = append};
  if (et_data_write(&list, &sink, &err) == ET_OK) return result;
  Py_DECREF(result);
  return py_raise_error(state, &err);
}

// Fills the entries with views of the dict's tensors, which a writer may copy; -1 with an exception
// set. close_entries releases them in either case.
static int open_entries(py_state *state, PyObject *dict, bool may_copy, entries *e) {
  *e = (entries){.dict = PyDict_Copy(dict)};
  if (e->dict == NULL) return -1;
  const size_t room = (size_t)PyDict_Size(e->dict) + 1;
  e->names = PyMem_Calloc(room, sizeof *e->names);
  e->views = PyMem_Calloc(room, sizeof *e->views);
  if (e->names == NULL || e->views == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  PyObject *key, *value;
  Py_ssize_t at = 0, length;
  while (PyDict_Next(e->dict, &at, &key, &value)) {
    const char *const name = PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, &length) : NULL;
    if (name == NULL && PyErr_Occurred()) return -1;
    if (name == NULL || strlen(name) != (size_t)length) {
      py_raise(state, ET_INVALID_TYPE, "data file: expected a text without NUL as key, got %R",
               key);
      return -1;
    }
    if (py_tensor_view_of(state, value, name, may_copy, &e->views[e->n]) < 0) return -1;
    e->names[e->n++] = name;
  }
  return 0;
}

static void close_entries(entries *e) {
  for (Py_ssize_t i = 0; i < e->n; i++) py_tensor_view_release(&e->views[i]);
  PyMem_Free(e->views);
  PyMem_Free(e->names);
  Py_XDECREF(e->dict);
}

PyObject *py_data_file_bytes(PyObject *module, PyObject *args) {
  py_state *const state = PyModule_GetState(module);
  PyObject *dict, *result = NULL;
  if (!PyArg_ParseTuple(args, "O!", &PyDict_Type, &dict)) return NULL;
  entries e;
  if (open_entries(state, dict, true, &e) == 0) result = write_entries(state, &e);
  close_entries(&e);
  return result;
}

// ---- Loading

static et_status load_entries(const py_memory *memory, const entries *e, et_error *err) {
  const et_data_list list = {.ctx = e, .n = (size_t)e->n, .get = get_entry};
  const et_source source = et_source_from_memory(memory->data, memory->size);
  et_data_map map;
  et_status status = et_data_map_open(&map, &source, err);
  if (status != ET_OK) return status;
  status = et_data_load(&list, &map, err);
  et_data_map_close(&map);
  return status;
}

PyObject *py_load_data_file(PyObject *module, PyObject *args) {
  py_state *const state = PyModule_GetState(module);
  PyObject *source, *dict, *result = NULL;
  if (!PyArg_ParseTuple(args, "OO!", &source, &PyDict_Type, &dict)) return NULL;
  py_memory *const memory = PyObject_CheckBuffer(source) ? py_memory_from_buffer(state, source)
                                                         : py_memory_map_file(state, source);
  if (memory == NULL) return NULL;
  entries e;
  et_error err = {.status = ET_OK};
  if (open_entries(state, dict, false, &e) == 0) {
    if (load_entries(memory, &e, &err) == ET_OK) {
      result = Py_NewRef(Py_None);
    } else {
      py_raise_error(state, &err);
    }
  }
  close_entries(&e);
  Py_DECREF(memory);
  return result;
}
