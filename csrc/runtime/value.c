// value.c — reading list values. Other fields of a value are public: see et.h section 4.
#include "runtime/check.h"

#include <string.h>

double et_value_double_at(const et_value *list, size_t i) {
  ET_ASSERT(list->tag == ET_DOUBLE_LIST && i < list->n);
  double v;
  memcpy(&v, list->as.doubles + i * sizeof v, sizeof v);
  return v;
}
