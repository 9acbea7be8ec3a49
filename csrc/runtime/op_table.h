// op_table.h — looking up an operator by the two parts of its name, as the program file stores it.
#ifndef ET_OP_TABLE_H
#define ET_OP_TABLE_H

#include "runtime/et.h"

// "name" when overload is empty or NULL, else "name.overload". NULL when no table of the chain has it.
const et_op *eti_op_find(const et_op_table *table, const char *name, const char *overload);

#endif  // ET_OP_TABLE_H
