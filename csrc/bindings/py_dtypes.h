// py_dtypes.h — one table of element types: the runtime's dtype, NumPy's type number, and the name
// that NumPy, torch and ml_dtypes share. Imports none of these packages.
#ifndef ETI_DTYPES_H
#define ETI_DTYPES_H

#include "bindings/py_numpy_api.h"
#include "runtime/et.h"

typedef struct eti_dtype_row {
  int typenum;       // NumPy's type number; -1 = none
  bool is_carried;   // NumPy lacks the dtype: `typenum` is an integer type of the same size
  const char *name;  // "float32" in NumPy, torch or ml_dtypes; NULL = none
} eti_dtype_row;

// The row of a dtype; an empty row (typenum -1, no name) for a number that is no dtype.
const eti_dtype_row *eti_dtype_row_of(et_dtype dtype);
// The row's name; the runtime's short name where the row has none.
const char *eti_dtype_python_name(et_dtype dtype);
// The runtime's dtype of a NumPy array, ET_DTYPE_COUNT when it has none.
et_dtype eti_array_dtype(PyArrayObject *array);

#endif  // ETI_DTYPES_H
