// op_table.c — binary search in sorted tables of operators. Used while loading only.
#include "runtime/op_table.h"

// strcmp of "name" or "name.overload" with the name of an operator, without building the joined
// text.
static int compare(const char *name, const char *overload, const char *found) {
  for (;; name++, found++) {
    unsigned char c = (unsigned char)*name;
    if (c == '\0' && overload != NULL && *overload != '\0') {  // go on with ".overload"
      if (*found != '.') return '.' - (int)(unsigned char)*found;
      name = overload;
      overload = NULL;
      c = (unsigned char)*name;
      found++;
    }
    if (c != (unsigned char)*found || c == '\0') return (int)c - (int)(unsigned char)*found;
  }
}

const et_op *eti_op_find(const et_op_table *table, const char *name, const char *overload) {
  for (; table != NULL; table = table->next) {
    size_t low = 0, high = table->n_ops;
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      const int order = compare(name, overload, table->ops[middle].name);
      if (order == 0) return &table->ops[middle];
      if (order < 0) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
  }
  return NULL;
}

const et_op *et_op_find(const et_op_table *table, const char *name) {
  return eti_op_find(table, name, NULL);
}
