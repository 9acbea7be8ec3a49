// py_numpy_api.c — the single copy of NumPy's function table, and its import.
#define PY_IMPORTS_NUMPY
#include "bindings/py_numpy_api.h"

int py_numpy_import(void) {
  import_array1(-1);
  return 0;
}
