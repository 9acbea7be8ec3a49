// py_delegates.h — the backends that a program's methods are loaded with: those of the build, with
// a shared XNNPACK backend in place of the plain one. A workspace belongs to the program or to the
// module. Packed weights belong to the module or, when they are kept in a file, to the program.
#ifndef ET_PY_DELEGATES_H
#define ET_PY_DELEGATES_H

#include "bindings/py_program.h"

// Reads open_program's options: None, or (workspace sharing, shares weights, path or None, saves).
// -1 with an exception set.
int py_delegates_open(py_program *program, PyObject *options);
const et_backend_table *py_delegates_table(const py_program *program);
// Saves the file of packed weights if it needs writing, and warns of damaged weights. Called after
// a method has been loaded and after its first run. A failure is a warning, because the program
// runs without the file. -1 when the warning has become an exception.
int py_delegates_save_weights(py_program *program);
void py_delegates_close(py_program *program);  // after its methods; may be called twice
void py_delegates_free(py_state *state);       // the module's shared workspace and weights

// Program.delegate_facts()
PyObject *py_delegates_facts(PyObject *program, PyObject *unused);

#endif  // ET_PY_DELEGATES_H
