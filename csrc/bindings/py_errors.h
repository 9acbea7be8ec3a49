// py_errors.h — statuses of the runtime as Python exceptions. One class per status, all under
// ExecutorchError(RuntimeError); where Python has a natural builtin for it (ValueError, KeyError,
// MemoryError …) the class derives from that too.
#ifndef ETI_ERRORS_H
#define ETI_ERRORS_H

#include "bindings/py_module.h"

// Creates the classes and adds them to the module. -1 with an exception set on failure.
int eti_errors_init(eti_state *state, PyObject *module);

// Set the exception of a status. The text gets the status's name and number appended. Always return
// NULL. Formats are PyUnicode_FromFormat's.
PyObject *eti_raise(const eti_state *state, et_status status, const char *format, ...)
    __attribute__((cold));
PyObject *eti_raise_error(const eti_state *state, const et_error *err) __attribute__((cold));
// The same with what to do about it behind the message.
PyObject *eti_raise_advice(const eti_state *state, const et_error *err, const char *advice)
    __attribute__((cold));
// The same for a message that is a str object already; steals nothing, accepts NULL (keeps the
// exception that is set).
PyObject *eti_raise_text(const eti_state *state, et_status status, PyObject *text)
    __attribute__((cold));

#endif  // ETI_ERRORS_H
