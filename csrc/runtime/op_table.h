// op_table.h — looking up an operator by the two parts of its name, as the program file stores it.
#ifndef ET_OP_TABLE_H
#define ET_OP_TABLE_H

#include "runtime/et.h"

// Finds "name" when overload is empty or NULL, else "name.overload". NULL when no linked table has
// it.
const et_op *eti_op_find(const et_op_table *table, const char *name, const char *overload);

// The arguments that a call writes, as bits, besides the result entry itself (see et_op.writes).
static inline uint32_t eti_op_writes(const et_op *op, bool gives_tensors) {
  if (op->writes != 0 || op->is_view || op->returns_nothing || !gives_tensors || op->n_args < 2 ||
      op->n_args > 33)
    return op->writes;
  return (uint32_t)1 << (op->n_args - 2);
}

#endif  // ET_OP_TABLE_H
