// op_table.c — binary search in sorted tables of operators. Used while loading only.
#include "runtime/op_table.h"

// strcmp of "name" or "name.overload" with the name of an operator, without building the joined
// text.
static int compare(const char *name, const char *overload, const char *found) {
  for (;;) {
    for (; *name != '\0' && *name == *found; name++) found++;
    if (*name != '\0' || overload == NULL || *overload == '\0') break;
    if (*found != '.') return '.' - (int)(unsigned char)*found;
    found++;  // go on with ".overload"
    name = overload;
    overload = NULL;
  }
  return (int)(unsigned char)*name - (int)(unsigned char)*found;
}

const et_op *eti_op_find(const et_op_table *table, const char *name, const char *overload) {
  for (; table != NULL; table = table->next) {
    const et_op *ops = table->ops;
    for (size_t n = table->n_ops; n > 0;) {
      const et_op *middle = &ops[n / 2];
      const int order = compare(name, overload, middle->name);
      if (order == 0) return middle;
      if (order > 0) {
        ops = middle + 1;
        n--;
      }
      n /= 2;
    }
  }
  return NULL;
}

const et_op *et_op_find(const et_op_table *table, const char *name) {
  return eti_op_find(table, name, NULL);
}
