// py_outputs.c — the runtime's values as Python objects: scalars as such, tensors as NumPy arrays
// or torch tensors in the layout of the plan, lists as lists. Copies unless views are requested; a
// view's base is the owner of its bytes.
#include "bindings/py_method.h"

#include <string.h>

#include "bindings/py_arrays.h"
#include "bindings/py_errors.h"

// The object that owns the tensor's bytes, borrowed; NULL when no object of this method does (then
// the caller copies).
static PyObject *owner_of(const py_method *self, const et_tensor *tensor, bool *read_only) {
  const size_t bytes = et_tensor_bytes(tensor);
  const py_program *program = self->program;
  *read_only = false;
  for (size_t i = 0; i < self->n_outputs; i++) {
    const py_memory *memory = self->outputs[i].memory;
    if (memory != NULL && py_memory_contains(memory, tensor->data, bytes))
      return (PyObject *)memory;
  }
  for (size_t i = 0; i < program->n_planned; i++) {
    const py_memory *memory = program->planned[i];
    if (memory != NULL && py_memory_contains(memory, tensor->data, bytes))
      return (PyObject *)memory;
  }
  for (size_t i = 0; i < self->n_inputs; i++) {
    const py_input *in = &self->inputs[i];
    if (in->pin != NULL && in->tag == ET_TENSOR && in->tensor.data == tensor->data &&
        bytes <= in->tensor.numel * in->element) {
      return in->pin;
    }
  }
  if (py_memory_contains(self->memory, tensor->data, bytes)) return (PyObject *)self->memory;
  *read_only = true;
  if (py_memory_contains(program->memory, tensor->data, bytes)) return (PyObject *)program->memory;
  for (size_t i = 0; i < program->n_data; i++) {
    if (py_memory_contains(program->data[i].memory, tensor->data, bytes))
      return (PyObject *)program->data[i].memory;
  }
  return NULL;
}

static PyObject *array_of(const py_method *self, const et_tensor *tensor, PyArray_Descr *descr,
                          bool clone) {
  npy_intp dims[ET_MAX_RANK], strides[ET_MAX_RANK];
  const npy_intp element = (npy_intp)et_dtype_bytes((et_dtype)tensor->dtype);
  for (unsigned d = 0; d < tensor->rank; d++) {
    dims[d] = tensor->sizes[d];
    strides[d] = tensor->strides[d] * element;
  }
  bool read_only = false;
  PyObject *owner = clone || tensor->numel == 0 ? NULL : owner_of(self, tensor, &read_only);
  if (owner == NULL) {
    PyObject *array = PyArray_NewFromDescr(
        &PyArray_Type, descr, tensor->rank, dims,
        (tensor->flags & ET_TENSOR_CONTIGUOUS) != 0 ? NULL : strides, NULL, 0, NULL);
    if (array != NULL && tensor->numel > 0) {
      memcpy(PyArray_DATA((PyArrayObject *)array), tensor->data, tensor->numel * (size_t)element);
    }
    return array;
  }
  PyObject *array = PyArray_NewFromDescr(&PyArray_Type, descr, tensor->rank, dims, strides,
                                         tensor->data, read_only ? 0 : NPY_ARRAY_WRITEABLE, NULL);
  if (array == NULL) return NULL;
  PyArray_UpdateFlags((PyArrayObject *)array,
                      NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS | NPY_ARRAY_ALIGNED);
  if (PyArray_SetBaseObject((PyArrayObject *)array, Py_NewRef(owner)) < 0) Py_CLEAR(array);
  return array;
}

static PyObject *torch_of(const py_state *state, PyObject *array, et_dtype dtype) {
  PyObject *tensor = PyObject_CallOneArg(state->torch.from_numpy, array);
  if (tensor != NULL && py_dtype_row_of(dtype)->is_carried) {
    PyObject *typed =
        PyObject_CallMethodOneArg(tensor, state->str_view, state->torch.dtypes[dtype]);
    Py_SETREF(tensor, typed);
  }
  return tensor;
}

static PyObject *no_dtype(const py_state *state, et_dtype dtype) {
  return py_raise(state, ET_NOT_SUPPORTED,
                  "an output has dtype %s, which neither NumPy nor torch can hold",
                  et_dtype_name(dtype));
}

static PyObject *tensor_object(py_method *self, const et_tensor *tensor, bool clone, py_kind kind) {
  const py_state *state = self->state;
  const et_dtype dtype = (et_dtype)tensor->dtype;
  const py_dtype_row *const row = py_dtype_row_of(dtype);
  if (row->typenum < 0 || (kind == PY_KIND_TORCH && state->torch.dtypes[dtype] == NULL))
    return no_dtype(state, dtype);
  if (tensor->data == NULL && tensor->numel > 0) {
    return py_raise(state, ET_INVALID_STATE, "an output of method %U has no data yet: run it first",
                    self->quoted_name);
  }
  // torch has no read-only tensors: constants are copied for it.
  const bool constant = (tensor->flags & ET_TENSOR_CONSTANT) != 0;
  const bool copied = clone || (constant && kind == PY_KIND_TORCH);
  if (copied && kind == PY_KIND_TORCH) {
    PyObject *made = NULL;
    const int done = py_torch_copy(state, tensor, &made);
    if (done != 0) return made;
  }
  PyArray_Descr *descr;
  if (row->is_carried && kind == PY_KIND_NUMPY) {
    descr = (PyArray_Descr *)py_ml_dtype(self->state, dtype);
    if (descr == NULL) return NULL;
    Py_INCREF(descr);
  } else {
    descr = PyArray_DescrFromType(row->typenum);
  }
  PyObject *array = array_of(self, tensor, descr, copied);
  if (array == NULL || kind != PY_KIND_TORCH) return array;
  PyObject *result = torch_of(state, array, dtype);
  Py_DECREF(array);
  return result;
}

static PyObject *list_item(py_method *self, const et_value *list, size_t i, bool clone,
                           py_kind kind) {
  switch (list->tag) {
    case ET_BOOL_LIST:
      return PyBool_FromLong(list->as.bools[i]);
    case ET_DOUBLE_LIST:
      return PyFloat_FromDouble(et_value_double_at(list, i));
    default: {
      const et_value *item = list->as.list[i];
      if (item == NULL) Py_RETURN_NONE;
      return py_output_object(self, item, clone, kind);
    }
  }
}

PyObject *py_output_object(py_method *self, const et_value *value, bool clone, py_kind kind) {
  switch (value->tag) {
    case ET_TENSOR:
      return tensor_object(self, value->as.tensor, clone, kind);
    case ET_NONE:
      Py_RETURN_NONE;
    case ET_INT:
      return PyLong_FromLongLong(value->as.i);
    case ET_DOUBLE:
      return PyFloat_FromDouble(value->as.d);
    case ET_BOOL:
      return PyBool_FromLong(value->as.b);
    case ET_STRING:
      return PyUnicode_DecodeUTF8(value->as.string, (Py_ssize_t)value->n, "surrogateescape");
    case ET_BOOL_LIST:
    case ET_DOUBLE_LIST:
    case ET_INT_LIST:
    case ET_TENSOR_LIST:
    case ET_OPTIONAL_TENSOR_LIST: {
      PyObject *list = PyList_New((Py_ssize_t)value->n);
      for (uint32_t i = 0; list != NULL && i < value->n; i++) {
        PyObject *item = list_item(self, value, i, clone, kind);
        if (item == NULL) {
          Py_CLEAR(list);
        } else {
          PyList_SET_ITEM(list, (Py_ssize_t)i, item);
        }
      }
      return list;
    }
    default:
      return py_raise(self->state, ET_INTERNAL, "an output has the unknown tag %d",
                      (int)value->tag);
  }
}

PyObject *py_outputs_list(py_method *self, bool clone, py_kind kind) {
  PyObject *list = PyList_New((Py_ssize_t)self->n_outputs);
  if (list == NULL) return NULL;
  for (size_t i = 0; i < self->n_outputs; i++) {
    const et_value *value = et_method_output(self->method, i);
    PyObject *item = py_output_object(self, value, clone, kind);
    if (item == NULL) {
      Py_DECREF(list);
      return NULL;
    }
    PyList_SET_ITEM(list, (Py_ssize_t)i, item);
  }
  return list;
}

int py_outputs_check(py_method *self, py_kind kind) {
  for (size_t i = 0; i < self->n_outputs; i++) {
    const et_value *value = et_method_output(self->method, i);
    if (value->tag != ET_TENSOR) continue;
    const et_dtype dtype = (et_dtype)value->as.tensor->dtype;
    const py_dtype_row *const row = py_dtype_row_of(dtype);
    if (row->typenum < 0 || (kind == PY_KIND_TORCH && self->state->torch.dtypes[dtype] == NULL)) {
      no_dtype(self->state, dtype);
      return -1;
    }
    if (row->is_carried && kind == PY_KIND_NUMPY && py_ml_dtype(self->state, dtype) == NULL)
      return -1;
  }
  return 0;
}
