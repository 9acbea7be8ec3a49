// py_dtypes.h — one table of element types: the runtime's dtype, NumPy's type number, and the name
// that NumPy, torch and ml_dtypes share. Imports none of these packages.
#ifndef ET_PY_DTYPES_H
#define ET_PY_DTYPES_H

#include "bindings/py_numpy_api.h"
#include "runtime/et.h"

typedef struct py_dtype_row {
  int typenum;       // NumPy's type number; -1 = none
  bool is_carried;   // NumPy lacks the dtype: `typenum` is an integer type of its size
  const char *name;  // "float32" in NumPy, torch or ml_dtypes; NULL = none
} py_dtype_row;

// The row of a dtype; an empty row (typenum -1, no name) for a number that is no dtype.
const py_dtype_row *py_dtype_row_of(et_dtype dtype);
// The row's name; the runtime's short name where the row has none.
const char *py_dtype_python_name(et_dtype dtype);
// The runtime's dtype of a NumPy array, ET_DTYPE_COUNT when it has none.
et_dtype py_array_dtype(PyArrayObject *array);

#endif  // ET_PY_DTYPES_H
