// py_op_library.h — libraries of users' operators: opening them, and the linked tables that methods
// are loaded with. Knows tables and nothing of the kernels in them.
#ifndef ET_PY_OP_LIBRARY_H
#define ET_PY_OP_LIBRARY_H

#include "bindings/py_module.h"

// The table of methods loaded from now on: the libraries' operators, newest first, then the
// built-in ones.
const et_op_table *py_op_table(const py_state *state);

// Forgets the libraries. Their code stays loaded, as it may still be in use.
void py_op_libraries_free(py_state *state);

// Advice about operators that no table has, appended to the runtime's message.
extern const char py_op_missing_advice[];

#endif  // ET_PY_OP_LIBRARY_H
