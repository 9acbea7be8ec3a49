// py_arrays.c — NumPy views of other libraries' arrays. torch and ml_dtypes are optional: torch is
// used only when sys.modules has it, ml_dtypes when a dtype needs it.
#include "bindings/py_arrays.h"

#include "bindings/py_errors.h"

// ---- torch

static int load_torch(py_state *state, PyObject *torch) {
  py_torch found = {0};
  found.tensor_type = PyObject_GetAttrString(torch, "Tensor");
  found.from_numpy = PyObject_GetAttrString(torch, "from_numpy");
  // A torch that is still being imported (or a test's double) lacks these; then no tensors exist.
  if (found.tensor_type == NULL || found.from_numpy == NULL || !PyType_Check(found.tensor_type)) {
    PyErr_Clear();
    Py_XDECREF(found.tensor_type);
    Py_XDECREF(found.from_numpy);
    return 0;
  }
  found.exchange = py_dlpack_api_of(found.tensor_type);
  for (int d = 0; d < ET_DTYPE_COUNT; d++) {
    if (py_dtype_row_of((et_dtype)d)->name == NULL) continue;
    found.dtypes[d] = PyObject_GetAttrString(torch, py_dtype_row_of((et_dtype)d)->name);
    if (found.dtypes[d] == NULL) PyErr_Clear();
  }
  state->torch = found;
  return 1;
}

PyObject *py_torch_tensor_type(py_state *state) {
  if (state->torch.tensor_type != NULL) return state->torch.tensor_type;
  PyObject *torch = PyImport_GetModule(state->str_torch);
  if (torch == NULL) {
    PyErr_Clear();
    return NULL;
  }
  const int loaded = load_torch(state, torch);
  Py_DECREF(torch);
  return loaded == 1 ? state->torch.tensor_type : NULL;
}

static et_dtype torch_dtype(const py_state *state, PyObject *dtype) {
  for (int d = 0; d < ET_DTYPE_COUNT; d++) {
    if (state->torch.dtypes[d] == dtype) return (et_dtype)d;
  }
  return ET_DTYPE_COUNT;
}

static bool torch_on_cpu(const py_state *state, PyObject *tensor) {
  PyObject *device = PyObject_GetAttr(tensor, state->str_device);
  PyObject *type = device == NULL ? NULL : PyObject_GetAttr(device, state->str_type);
  const bool cpu =
      type != NULL && PyUnicode_Check(type) && PyUnicode_CompareWithASCIIString(type, "cpu") == 0;
  PyErr_Clear();
  Py_XDECREF(type);
  Py_XDECREF(device);
  return cpu;
}

// The NumPy view of a detached tensor, with conjugation and negation resolved.
static PyObject *torch_plain_numpy(py_state *state, PyObject *tensor) {
  if (!torch_on_cpu(state, tensor)) {
    PyErr_Clear();
    PyObject *device = PyObject_GetAttr(tensor, state->str_device);
    PyErr_Clear();
    PyObject *meta = PyObject_GetAttrString(tensor, "is_meta");
    PyErr_Clear();
    py_raise(state, ET_INVALID_ARGUMENT, "tensor: expected device cpu, got %S: %s",
             device != NULL ? device : Py_None,
             meta == Py_True ? "it has no elements" : "pass tensor.cpu()");
    Py_XDECREF(meta);
    Py_XDECREF(device);
    return NULL;
  }
  static const char *const steps[] = {"detach", "resolve_conj", "resolve_neg"};
  PyObject *plain = Py_NewRef(tensor);
  for (size_t i = 0; plain != NULL && i < sizeof steps / sizeof steps[0]; i++) {
    PyObject *next = PyObject_CallMethod(plain, steps[i], NULL);
    Py_SETREF(plain, next);
  }
  if (plain == NULL) return NULL;
  PyObject *array = PyObject_CallMethodNoArgs(plain, state->str_numpy);
  Py_DECREF(plain);
  return array;
}

static int view_of_torch(py_state *state, PyObject *tensor, py_array_view *view) {
  PyObject *dtype = PyObject_GetAttr(tensor, state->str_dtype);
  if (dtype == NULL) return -1;
  view->dtype = torch_dtype(state, dtype);
  view->is_torch = true;
  if (view->dtype == ET_DTYPE_COUNT) {
    py_raise(state, ET_INVALID_ARGUMENT, "dtype %S has no counterpart in program files", dtype);
    Py_DECREF(dtype);
    return -1;
  }
  Py_DECREF(dtype);
  PyObject *source = Py_NewRef(tensor);
  const py_dtype_row *const row = py_dtype_row_of(view->dtype);
  if (row->is_carried) {
    const et_dtype carrier = row->typenum == NPY_INT16   ? ET_I16
                             : row->typenum == NPY_INT32 ? ET_I32
                                                         : ET_U8;
    PyObject *plain = PyObject_CallMethodNoArgs(tensor, state->str_detach);
    Py_SETREF(source, plain == NULL ? NULL
                                    : PyObject_CallMethodOneArg(plain, state->str_view,
                                                                state->torch.dtypes[carrier]));
    Py_XDECREF(plain);
    if (source == NULL) return -1;
  }
  PyObject *array = PyObject_CallMethodNoArgs(source, state->str_numpy);
  if (array == NULL &&
      (PyErr_ExceptionMatches(PyExc_RuntimeError) || PyErr_ExceptionMatches(PyExc_TypeError))) {
    PyErr_Clear();
    array = torch_plain_numpy(state, source);
  }
  Py_DECREF(source);
  if (array == NULL) return -1;
  if (!PyArray_Check(array)) {
    Py_DECREF(array);
    py_raise(state, ET_INVALID_ARGUMENT, "this kind of torch tensor has no plain memory");
    return -1;
  }
  view->array = (PyArrayObject *)array;
  return 1;
}

// ---- ml_dtypes

PyObject *py_ml_dtype(py_state *state, et_dtype dtype) {
  if (state->ml_dtypes[dtype] != NULL) return state->ml_dtypes[dtype];
  PyObject *module = PyImport_ImportModule("ml_dtypes");
  PyObject *scalar =
      module == NULL ? NULL : PyObject_GetAttrString(module, py_dtype_python_name(dtype));
  Py_XDECREF(module);
  PyArray_Descr *descr = NULL;
  if (scalar != NULL && PyArray_DescrConverter(scalar, &descr) == NPY_SUCCEED) {
    state->ml_dtypes[dtype] = (PyObject *)descr;
  }
  Py_XDECREF(scalar);
  if (descr == NULL) {
    PyErr_Clear();
    py_raise(state, ET_NOT_SUPPORTED,
             "NumPy has no dtype %s: `pip install ml_dtypes`, or pass torch tensors to get torch "
             "tensors back",
             py_dtype_python_name(dtype));
  }
  return state->ml_dtypes[dtype];
}

// ---- views

static int view_of_array(const py_state *state, PyObject *array, py_array_view *view) {
  if (array == NULL) return -1;
  view->array = (PyArrayObject *)array;
  view->dtype = py_array_dtype(view->array);
  if (view->dtype != ET_DTYPE_COUNT) return 1;
  py_raise(state, ET_INVALID_ARGUMENT, "dtype %S has no counterpart in program files",
           PyArray_DESCR(view->array));
  Py_CLEAR(view->array);
  return -1;
}

int py_array_view_of(py_state *state, PyObject *object, py_array_view *view) {
  *view = (py_array_view){0};
  if (PyArray_Check(object)) return view_of_array(state, Py_NewRef(object), view);
  PyObject *tensor_type = py_torch_tensor_type(state);
  if (tensor_type != NULL && PyObject_TypeCheck(object, (PyTypeObject *)tensor_type)) {
    return view_of_torch(state, object, view);
  }
  if (PyArray_CheckScalar(object))
    return view_of_array(state, PyArray_FromScalar(object, NULL), view);
  if (PyObject_CheckBuffer(object)) {
    PyObject *memory = PyMemoryView_FromObject(object);
    PyObject *array = memory == NULL ? NULL : PyArray_FromAny(memory, NULL, 0, 0, 0, NULL);
    Py_XDECREF(memory);
    if (array != NULL) return view_of_array(state, array, view);
    if (!PyObject_HasAttr(object, state->str_dlpack)) return -1;
    PyErr_Clear();
  }
  if (PyObject_HasAttr(object, state->str_dlpack)) return py_dlpack_view_of(state, object, view);
  if (PyObject_HasAttr(object, state->str_array)) {
    return view_of_array(state, PyArray_FromAny(object, NULL, 0, 0, 0, NULL), view);
  }
  return 0;
}
