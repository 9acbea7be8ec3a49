// py_arrays.h — NumPy arrays that view the memory of any array-like object: NumPy array, torch
// tensor, buffer, DLPack provider. The library that an object comes from is not imported.
#ifndef ET_PY_ARRAYS_H
#define ET_PY_ARRAYS_H

#include "bindings/py_dtypes.h"
#include "bindings/py_module.h"

// torch's tensor type if torch has been imported: a borrowed reference, else NULL without an
// exception.
PyObject *py_torch_tensor_type(py_state *state);
// The dtype of ml_dtypes for bf16 and float8 (a borrowed reference), imported at first use. NULL
// with an exception set when that package is missing.
PyObject *py_ml_dtype(py_state *state, et_dtype dtype);

typedef struct py_array_view {
  PyArrayObject *array;  // new reference; owns or pins the memory
  et_dtype dtype;        // may differ from the array's own: bf16 is stored as int16
  bool is_torch;
} py_array_view;

// A view of the memory of an array-like object: NumPy array or scalar, torch tensor, buffer, DLPack
// or __array__ provider. Returns 1; 0 when the object is none of these; -1 with an exception set.
int py_array_view_of(py_state *state, PyObject *object, py_array_view *view);

// The view of an object with __dlpack__ (py_dlpack.c).
int py_dlpack_view_of(py_state *state, PyObject *object, py_array_view *view);

// Facts of a torch tensor, borrowed from it; read through torch's C exchange table, a tenth of the
// cost of tensor.numpy().
typedef struct py_torch_view {
  void *data;
  size_t rank;
  const npy_intp *sizes;
  const npy_intp *strides;  // in elements
  et_dtype dtype;
} py_torch_view;

// The exchange table of torch's tensor type; NULL without an exception when it has no known one.
const struct py_dlpack_api *py_dlpack_api_of(PyObject *tensor_type);
// True for a plain CPU tensor (exactly torch.Tensor, no lazy negation). False without an exception
// for anything else, which py_array_view_of handles.
bool py_torch_view_of(const py_state *state, PyObject *object, py_torch_view *view);
// A torch tensor that owns a copy of a dense tensor, made through the same table, without a NumPy
// array in between. 1 with a new reference; 0 when the table cannot make this tensor; -1 with an
// exception set.
int py_torch_copy(const py_state *state, const et_tensor *tensor, PyObject **result);

#endif  // ET_PY_ARRAYS_H
