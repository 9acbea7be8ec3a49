// py_errors.h — statuses of the runtime as Python exceptions. One class per status, all under
// ExecutorchError(RuntimeError); where Python has a natural builtin for it (ValueError, KeyError,
// MemoryError …) the class derives from that too.
#ifndef ET_PY_ERRORS_H
#define ET_PY_ERRORS_H

#include "bindings/py_module.h"

// Creates the classes and adds them to the module. -1 with an exception set on failure.
int py_errors_init(py_state *state, PyObject *module);

// Set the exception of a status. The status's name and number are appended to the text. Always
// return NULL. Formats are PyUnicode_FromFormat's. Names in texts are escaped (py_text.h).
PyObject *py_raise(const py_state *state, et_status status, const char *format, ...)
    __attribute__((cold));
PyObject *py_raise_error(const py_state *state, const et_error *err) __attribute__((cold));
// Set the exception with advice after the message.
PyObject *py_raise_advice(const py_state *state, const et_error *err, const char *advice)
    __attribute__((cold));
// Set the exception with a text that is a str object already, and printable; steals nothing,
// accepts NULL (keeps the exception that is set).
PyObject *py_raise_text(const py_state *state, et_status status, PyObject *text)
    __attribute__((cold));

#endif  // ET_PY_ERRORS_H
