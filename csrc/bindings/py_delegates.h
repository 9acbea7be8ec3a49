// py_delegates.h — the backends that a program's methods are loaded with: this build's, with what
// the XNNPACK delegate shares put in place of its entry. A workspace belongs to the program or to
// the module, packed weights to the module or, when they are kept in a file, to the program.
#ifndef ET_PY_DELEGATES_H
#define ET_PY_DELEGATES_H

#include "bindings/py_program.h"

// Reads open_program's options: None, or (workspace sharing, shares weights, path or None, saves).
// -1 with an exception set.
int py_delegates_open(py_program *program, PyObject *options);
const et_backend_table *py_delegates_table(const py_program *program);
// After a method has been loaded, and after its first run: writes the file of packed weights, when
// there is one to write, and warns of damaged ones. A failure is a warning, because the program
// runs without. -1 when that has become an exception.
int py_delegates_save_weights(py_program *program);
void py_delegates_close(py_program *program);  // its methods are closed; more than once is fine
void py_delegates_free(py_state *state);       // the module's shared workspace and weights

// Program.delegate_facts()
PyObject *py_delegates_facts(PyObject *program, PyObject *unused);

#endif  // ET_PY_DELEGATES_H
