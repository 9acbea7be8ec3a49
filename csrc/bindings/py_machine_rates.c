// py_machine_rates.c — the module's machine_rates(): arguments, memory and threads for the
// measurements of tools/machine_rates.h.
#include "bindings/py_errors.h"
#include "bindings/py_memory.h"
#include "tools/machine_rates.h"

enum { MAX_SIZES = 32 };

static PyObject *rates_object(eti_operation_rates operations, const eti_memory_rates *r, size_t n) {
  PyObject *const list = PyList_New((Py_ssize_t)n);
  for (size_t i = 0; list != NULL && i < n; i++) {
    PyObject *const item = Py_BuildValue("(ddd)", r[i].read, r[i].write, r[i].copy);
    if (item == NULL) {
      Py_DECREF(list);
      return NULL;
    }
    PyList_SET_ITEM(list, (Py_ssize_t)i, item);
  }
  return list == NULL ? NULL : Py_BuildValue("(ddN)", operations.f32, operations.int8, list);
}

static int read_sizes(PyObject *object, size_t *sizes, size_t n) {
  for (size_t i = 0; i < n; i++) {
    PyObject *const item = PySequence_GetItem(object, (Py_ssize_t)i);
    sizes[i] = item == NULL ? 0 : PyLong_AsSize_t(item);
    Py_XDECREF(item);
    if (PyErr_Occurred()) return -1;
  }
  return 0;
}

PyObject *py_machine_rates(PyObject *module, PyObject *args) {
  py_state *const state = PyModule_GetState(module);
  Py_ssize_t n_threads;
  PyObject *size_list;
  size_t sizes[MAX_SIZES];
  eti_memory_rates found[MAX_SIZES];
  if (!PyArg_ParseTuple(args, "nO", &n_threads, &size_list)) return NULL;
  const Py_ssize_t n_sizes = PySequence_Size(size_list);
  if (n_sizes < 0) return NULL;
  if (n_threads < 1 || n_sizes > MAX_SIZES)
    return py_raise(state, ET_INVALID_ARGUMENT,
                    "expected 1 thread or more and at most %d sizes, got %zd threads and %zd sizes",
                    MAX_SIZES, n_threads, n_sizes);
  if (read_sizes(size_list, sizes, (size_t)n_sizes) < 0) return NULL;
  PyObject *result = NULL;
  et_thread_pool *threads = NULL;
  et_error err = {.status = ET_OK};
  py_memory *const data =
      py_memory_allocate(state, eti_machine_rates_bytes((size_t)n_threads, sizes, (size_t)n_sizes));
  py_memory *const memory =
      data == NULL ? NULL : py_memory_allocate(state, et_thread_pool_bytes((size_t)n_threads));
  if (memory == NULL) goto done;
  if (et_thread_pool_init(&threads, (et_span){memory->data, memory->size}, (size_t)n_threads,
                          &err) != ET_OK) {
    py_raise_error(state, &err);
    goto done;
  }
  eti_operation_rates operations;
  Py_BEGIN_ALLOW_THREADS;
  const et_pool pool = et_thread_pool_handle(threads);
  py_memory_advise_huge_pages(data);
  operations = eti_machine_rates(&pool, data->data, sizes, (size_t)n_sizes, found);
  et_thread_pool_deinit(threads);
  Py_END_ALLOW_THREADS;
  result = rates_object(operations, found, (size_t)n_sizes);
done:
  Py_XDECREF(memory);
  Py_XDECREF(data);
  return result;
}
