// py_compat.h — functions of newer Pythons, for the older versions that are supported.
#ifndef ET_PY_COMPAT_H
#define ET_PY_COMPAT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

// Clears the interpreter's current exception and returns it: a new reference; NULL when none is
// set.
static inline PyObject *py_exception_take(void) {
#if PY_VERSION_HEX >= 0x030C0000
  return PyErr_GetRaisedException();
#else
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (type != NULL) PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != NULL) (void)PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return value;
#endif
}

#endif  // ET_PY_COMPAT_H
