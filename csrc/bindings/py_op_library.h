// py_op_library.h — libraries of users' operators: opening them, and the chain of tables that
// methods are loaded with. Knows tables and nothing of the kernels in them.
#ifndef ETI_OP_LIBRARY_H
#define ETI_OP_LIBRARY_H

#include "bindings/py_module.h"

// The table that methods loaded from now on get: the libraries' operators, newest first, then ours.
const et_op_table *eti_ops(const eti_state *state);

// Forgets the libraries. Their code stays in memory: nothing says that nobody uses it.
void eti_op_libraries_free(eti_state *state);

// What to do about operators that no table has, appended to the runtime's message.
extern const char eti_ops_recipe[];

#endif  // ETI_OP_LIBRARY_H
