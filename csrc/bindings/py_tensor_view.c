// py_tensor_view.c — see py_tensor_view.h.
#include "bindings/py_tensor_view.h"

#include "bindings/py_errors.h"
#include "runtime/tensor.h"

// Whether dimension a lies outside b: its stride is greater. Of equal ones, dimensions of size 1
// lie inside, where channels-last orders of one channel have them.
static bool is_outside(PyArrayObject *array, unsigned a, unsigned b) {
  const npy_intp *const strides = PyArray_STRIDES(array), *const sizes = PyArray_DIMS(array);
  return strides[a] != strides[b] ? strides[a] > strides[b] : sizes[a] != 1 && sizes[b] == 1;
}

// Orders the dimensions from the outermost to the innermost, equal ones as they come; true when the
// memory is dense in this order.
static bool fill_layout(py_tensor_view *view, npy_intp element) {
  const unsigned rank = (unsigned)PyArray_NDIM(view->array);
  const npy_intp *const strides = PyArray_STRIDES(view->array);
  for (unsigned d = 0; d < rank; d++) {
    unsigned at = d;
    while (at > 0 && is_outside(view->array, d, view->dim_order[at - 1])) at--;
    for (unsigned k = d; k > at; k--) view->dim_order[k] = view->dim_order[k - 1];
    view->dim_order[at] = (uint8_t)d;
    view->sizes[d] = (int32_t)PyArray_DIMS(view->array)[d];
  }
  eti_fill_strides(view->sizes, view->dim_order, rank, view->strides);
  bool dense = PyArray_ISALIGNED(view->array);
  for (unsigned d = 0; d < rank; d++)
    dense = dense && (view->sizes[d] <= 1 || strides[d] == view->strides[d] * element);
  return dense || PyArray_SIZE(view->array) == 0;
}

static void fill_contiguous(py_tensor_view *view) {
  const unsigned rank = (unsigned)PyArray_NDIM(view->array);
  for (unsigned d = 0; d < rank; d++) view->dim_order[d] = (uint8_t)d;
  eti_fill_strides(view->sizes, view->dim_order, rank, view->strides);
}

// Refuses arrays that no tensor of the runtime can describe.
static int check_array(py_state *state, PyArrayObject *array, const char *role) {
  if (PyArray_NDIM(array) > ET_MAX_RANK) {
    py_raise(state, ET_NOT_SUPPORTED, "%s: expected at most %d dimensions, got %d", role,
             ET_MAX_RANK, PyArray_NDIM(array));
    return -1;
  }
  for (int d = 0; d < PyArray_NDIM(array); d++) {
    if (PyArray_DIMS(array)[d] <= INT32_MAX) continue;
    py_raise(state, ET_NOT_SUPPORTED, "%s, dimension %d: expected a size of at most %d, got %zd",
             role, d, INT32_MAX, (Py_ssize_t)PyArray_DIMS(array)[d]);
    return -1;
  }
  if (PyArray_ISNOTSWAPPED(array)) return 0;
  py_raise(state, ET_NOT_SUPPORTED, "%s: expected the byte order of this machine, got %R", role,
           PyArray_DESCR(array));
  return -1;
}

static void raise_layout(py_state *state, PyArrayObject *array, const char *role) {
  if (!PyArray_ISALIGNED(array)) {
    py_raise(state, ET_INVALID_ARGUMENT,
             "%s: expected memory that is aligned to its elements of %zd bytes, got address %p",
             role, (Py_ssize_t)PyArray_ITEMSIZE(array), PyArray_DATA(array));
    return;
  }
  PyObject *const shape = PyObject_GetAttrString((PyObject *)array, "shape");
  PyObject *const strides = PyObject_GetAttrString((PyObject *)array, "strides");
  if (shape != NULL && strides != NULL)
    py_raise(state, ET_INVALID_ARGUMENT,
             "%s: expected dense memory, got strides of %S bytes for shape %S", role, strides,
             shape);
  Py_XDECREF(shape);
  Py_XDECREF(strides);
}

int py_tensor_view_of(py_state *state, PyObject *object, const char *role, bool may_copy,
                      py_tensor_view *view) {
  py_array_view found;
  const int is_array = py_array_view_of(state, object, &found);
  if (is_array == 0)
    py_raise(state, ET_INVALID_TYPE, "%s: expected a tensor, got %s", role,
             Py_TYPE(object)->tp_name);
  if (is_array <= 0) return -1;
  view->array = found.array;
  if (check_array(state, view->array, role) < 0) goto fail;
  if (!may_copy && !PyArray_ISWRITEABLE(view->array)) {
    py_raise(state, ET_INVALID_ARGUMENT,
             "%s: expected memory that can be written, got a read-only array", role);
    goto fail;
  }
  if (!fill_layout(view, PyArray_ITEMSIZE(view->array))) {
    if (!may_copy) {
      raise_layout(state, view->array, role);
      goto fail;
    }
    PyObject *const copy = PyArray_NewCopy(view->array, NPY_CORDER);
    Py_SETREF(view->array, (PyArrayObject *)copy);
    if (copy == NULL) return -1;
    fill_contiguous(view);
  }
  view->t = (et_tensor){
      .data = PyArray_DATA(view->array),
      .sizes = view->sizes,
      .strides = view->strides,
      .dim_order = view->dim_order,
      .numel = (size_t)PyArray_SIZE(view->array),
      .capacity = (size_t)PyArray_SIZE(view->array),
      .dtype = (uint8_t)found.dtype,
      .rank = (uint8_t)PyArray_NDIM(view->array),
  };
  return 0;
fail:
  Py_CLEAR(view->array);
  return -1;
}

void py_tensor_view_release(py_tensor_view *view) {
  Py_CLEAR(view->array);
}
