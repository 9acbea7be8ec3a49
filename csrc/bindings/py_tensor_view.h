// py_tensor_view.h — the runtime's tensor over the memory of an array-like object, which need not
// be an input of a method.
#ifndef ET_PY_TENSOR_VIEW_H
#define ET_PY_TENSOR_VIEW_H

#include "bindings/py_arrays.h"

typedef struct py_tensor_view {
  PyArrayObject *array;  // new reference; owns or pins the memory
  et_tensor t;           // its pointers lead into this structure, which must not be moved
  int32_t sizes[ET_MAX_RANK];
  ptrdiff_t strides[ET_MAX_RANK];
  uint8_t dim_order[ET_MAX_RANK];
} py_tensor_view;

// Fills a tensor over the array, whose `role` messages name. The memory is dense in some dim order:
// with `may_copy` another array is copied, else it is refused, as is a read-only one. -1 with an
// exception set; then there is nothing to release.
int py_tensor_view_of(py_state *state, PyObject *object, const char *role, bool may_copy,
                      py_tensor_view *view);
void py_tensor_view_release(py_tensor_view *view);

#endif  // ET_PY_TENSOR_VIEW_H
