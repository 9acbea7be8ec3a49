// py_bytes.c — the module's filled_bytes(): a bytes object whose contents a Python function writes
// in place, so that a large file is made in memory with one copy. Its pages are small: where a host
// finds memory for its virtual machine on demand, first touches of huge pages take 4 times as long.
#include "bindings/py_memory.h"

enum { MAPPED_FROM = 32 * 1024 * 1024 };  // malloc gives larger blocks pages of their own

// A writable view of the contents of `bytes`, which it keeps alive.
static PyObject *writable_view(PyObject *bytes) {
  npy_intp size = PyBytes_GET_SIZE(bytes);
  PyObject *const array = PyArray_SimpleNewFromData(1, &size, NPY_UINT8, PyBytes_AS_STRING(bytes));
  if (array == NULL) return NULL;
  Py_INCREF(bytes);
  PyObject *view = NULL;
  if (PyArray_SetBaseObject((PyArrayObject *)array, bytes) == 0)
    view = PyMemoryView_FromObject(array);
  Py_DECREF(array);
  return view;
}

PyObject *py_filled_bytes(PyObject *module, PyObject *args) {
  (void)module;
  Py_ssize_t size;
  PyObject *fill;
  if (!PyArg_ParseTuple(args, "nO", &size, &fill)) return NULL;
  if (size < 0) return PyErr_Format(PyExc_ValueError, "size: expected 0 or more, got %zd", size);
  PyObject *const bytes = PyBytes_FromStringAndSize(NULL, size);
  if (bytes == NULL) return NULL;
  if (size >= MAPPED_FROM) py_populate_pages(PyBytes_AS_STRING(bytes), (size_t)size);
  PyObject *const view = writable_view(bytes);
  PyObject *const filled = view == NULL ? NULL : PyObject_CallFunctionObjArgs(fill, view, NULL);
  Py_XDECREF(view);
  if (filled == NULL) {
    Py_DECREF(bytes);
    return NULL;
  }
  Py_DECREF(filled);
  return bytes;
}
