// py_arrays.c — dtype tables and views of other libraries' arrays. torch and ml_dtypes are looked
// up, never required: torch only when sys.modules has it, ml_dtypes when a dtype needs it.
#include "bindings/py_arrays.h"

#include <string.h>

#include "bindings/py_errors.h"

typedef struct dtype_row {
  int typenum;  // NumPy's number, or that of the carrier of its bits; -1 = none
  bool carried;
  const char *name;  // in NumPy, torch or ml_dtypes; NULL = none
} dtype_row;

static const dtype_row rows[ET_DTYPE_COUNT] = {
    [ET_U8] = {NPY_UINT8, false, "uint8"},
    [ET_I8] = {NPY_INT8, false, "int8"},
    [ET_I16] = {NPY_INT16, false, "int16"},
    [ET_I32] = {NPY_INT32, false, "int32"},
    [ET_I64] = {NPY_INT64, false, "int64"},
    [ET_F16] = {NPY_FLOAT16, false, "float16"},
    [ET_F32] = {NPY_FLOAT32, false, "float32"},
    [ET_F64] = {NPY_FLOAT64, false, "float64"},
    [ET_C32] = {NPY_INT32, true, "complex32"},
    [ET_C64] = {NPY_COMPLEX64, false, "complex64"},
    [ET_C128] = {NPY_COMPLEX128, false, "complex128"},
    [ET_B8] = {NPY_BOOL, false, "bool"},
    [ET_QI8] = {-1, false, NULL},
    [ET_QU8] = {-1, false, NULL},
    [ET_QI32] = {-1, false, NULL},
    [ET_BF16] = {NPY_INT16, true, "bfloat16"},
    [ET_QU4X2] = {-1, false, NULL},
    [ET_QU2X4] = {-1, false, NULL},
    [ET_BITS1X8] = {-1, false, NULL},
    [ET_BITS2X4] = {-1, false, NULL},
    [ET_BITS4X2] = {-1, false, NULL},
    [ET_BITS8] = {-1, false, NULL},
    [ET_BITS16] = {-1, false, NULL},
    [ET_F8E5M2] = {NPY_UINT8, true, "float8_e5m2"},
    [ET_F8E4M3] = {NPY_UINT8, true, "float8_e4m3fn"},
    [ET_F8E5M2Z] = {NPY_UINT8, true, "float8_e5m2fnuz"},
    [ET_F8E4M3Z] = {NPY_UINT8, true, "float8_e4m3fnuz"},
    [ET_U16] = {NPY_UINT16, false, "uint16"},
    [ET_U32] = {NPY_UINT32, false, "uint32"},
    [ET_U64] = {NPY_UINT64, false, "uint64"},
};

int eti_numpy_type(et_dtype dtype, bool *carried) {
  if ((unsigned)dtype >= ET_DTYPE_COUNT) return -1;
  *carried = rows[dtype].carried;
  return rows[dtype].typenum;
}

const char *eti_dtype_python_name(et_dtype dtype) {
  if ((unsigned)dtype >= ET_DTYPE_COUNT || rows[dtype].name == NULL) return et_dtype_name(dtype);
  return rows[dtype].name;
}

static et_dtype signed_of(npy_intp bytes) {
  return bytes == 1   ? ET_I8
         : bytes == 2 ? ET_I16
         : bytes == 4 ? ET_I32
         : bytes == 8 ? ET_I64
                      : ET_DTYPE_COUNT;
}

static et_dtype unsigned_of(npy_intp bytes) {
  return bytes == 1   ? ET_U8
         : bytes == 2 ? ET_U16
         : bytes == 4 ? ET_U32
         : bytes == 8 ? ET_U64
                      : ET_DTYPE_COUNT;
}

et_dtype eti_array_dtype(const eti_state *state, PyArrayObject *array) {
  const int typenum = PyArray_TYPE(array);
  switch (typenum) {
    case NPY_FLOAT32:
      return ET_F32;
    case NPY_FLOAT64:
      return ET_F64;
    case NPY_FLOAT16:
      return ET_F16;
    case NPY_BOOL:
      return ET_B8;
    case NPY_COMPLEX64:
      return ET_C64;
    case NPY_COMPLEX128:
      return ET_C128;
    default:
      break;
  }
  // Two of NumPy's C integer types may have the same size; the file format knows sizes only.
  if (PyTypeNum_ISUNSIGNED(typenum)) return unsigned_of(PyArray_ITEMSIZE(array));
  if (PyTypeNum_ISSIGNED(typenum)) return signed_of(PyArray_ITEMSIZE(array));
  if (typenum < NPY_USERDEF) return ET_DTYPE_COUNT;
  // A type that another package registered: ml_dtypes' are known by the name of their scalar type.
  const char *name = PyArray_DESCR(array)->typeobj->tp_name;
  const char *dot = strrchr(name, '.');
  if (dot != NULL) name = dot + 1;
  (void)state;
  for (int d = 0; d < ET_DTYPE_COUNT; d++) {
    if (rows[d].carried && strcmp(rows[d].name, name) == 0) return (et_dtype)d;
  }
  return ET_DTYPE_COUNT;
}

// ---- torch

static int load_torch(eti_state *state, PyObject *torch) {
  eti_torch found = {0};
  found.tensor_type = PyObject_GetAttrString(torch, "Tensor");
  found.from_numpy = PyObject_GetAttrString(torch, "from_numpy");
  // A torch that is still being imported (or a test's double) lacks these: then there are no
  // tensors yet.
  if (found.tensor_type == NULL || found.from_numpy == NULL || !PyType_Check(found.tensor_type)) {
    PyErr_Clear();
    Py_XDECREF(found.tensor_type);
    Py_XDECREF(found.from_numpy);
    return 0;
  }
  found.exchange = eti_dlpack_api_of(found.tensor_type);
  for (int d = 0; d < ET_DTYPE_COUNT; d++) {
    if (rows[d].name == NULL) continue;
    found.dtypes[d] = PyObject_GetAttrString(torch, rows[d].name);
    if (found.dtypes[d] == NULL) PyErr_Clear();
  }
  state->torch = found;
  return 1;
}

PyObject *eti_torch_tensor_type(eti_state *state) {
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

static et_dtype torch_dtype(const eti_state *state, PyObject *dtype) {
  for (int d = 0; d < ET_DTYPE_COUNT; d++) {
    if (state->torch.dtypes[d] == dtype) return (et_dtype)d;
  }
  return ET_DTYPE_COUNT;
}

static bool torch_on_cpu(const eti_state *state, PyObject *tensor) {
  PyObject *device = PyObject_GetAttr(tensor, state->str_device);
  PyObject *type = device == NULL ? NULL : PyObject_GetAttr(device, state->str_type);
  const bool cpu =
      type != NULL && PyUnicode_Check(type) && PyUnicode_CompareWithASCIIString(type, "cpu") == 0;
  PyErr_Clear();
  Py_XDECREF(type);
  Py_XDECREF(device);
  return cpu;
}

// A tensor's NumPy view after detaching and resolving whatever hides its plain memory.
static PyObject *torch_plain_numpy(eti_state *state, PyObject *tensor) {
  if (!torch_on_cpu(state, tensor)) {
    PyErr_Clear();
    PyObject *device = PyObject_GetAttr(tensor, state->str_device);
    eti_raise(state, ET_INVALID_ARGUMENT, "tensor is on device %S, needs cpu: pass tensor.cpu()",
              device != NULL ? device : Py_None);
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

static int view_of_torch(eti_state *state, PyObject *tensor, eti_view *view) {
  PyObject *dtype = PyObject_GetAttr(tensor, state->str_dtype);
  if (dtype == NULL) return -1;
  view->dtype = torch_dtype(state, dtype);
  view->is_torch = true;
  if (view->dtype == ET_DTYPE_COUNT) {
    eti_raise(state, ET_INVALID_ARGUMENT, "dtype %S has no counterpart in program files", dtype);
    Py_DECREF(dtype);
    return -1;
  }
  Py_DECREF(dtype);
  PyObject *source = Py_NewRef(tensor);
  if (rows[view->dtype].carried) {
    const et_dtype carrier = rows[view->dtype].typenum == NPY_INT16   ? ET_I16
                             : rows[view->dtype].typenum == NPY_INT32 ? ET_I32
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
    eti_raise(state, ET_INVALID_ARGUMENT, "this kind of torch tensor has no plain memory");
    return -1;
  }
  view->array = (PyArrayObject *)array;
  return 1;
}

// ---- ml_dtypes

PyObject *eti_ml_dtype(eti_state *state, et_dtype dtype) {
  if (state->ml_dtypes[dtype] != NULL) return state->ml_dtypes[dtype];
  PyObject *module = PyImport_ImportModule("ml_dtypes");
  PyObject *scalar = module == NULL ? NULL : PyObject_GetAttrString(module, rows[dtype].name);
  Py_XDECREF(module);
  PyArray_Descr *descr = NULL;
  if (scalar != NULL && PyArray_DescrConverter(scalar, &descr) == NPY_SUCCEED) {
    state->ml_dtypes[dtype] = (PyObject *)descr;
  }
  Py_XDECREF(scalar);
  if (descr == NULL) {
    PyErr_Clear();
    eti_raise(state, ET_NOT_SUPPORTED,
              "NumPy has no dtype %s: install the package ml_dtypes, or pass torch tensors to get "
              "torch tensors back",
              rows[dtype].name);
  }
  return state->ml_dtypes[dtype];
}

// ---- views

static int view_of_array(const eti_state *state, PyObject *array, eti_view *view) {
  if (array == NULL) return -1;
  view->array = (PyArrayObject *)array;
  view->dtype = eti_array_dtype(state, view->array);
  if (view->dtype != ET_DTYPE_COUNT) return 1;
  eti_raise(state, ET_INVALID_ARGUMENT, "dtype %S has no counterpart in program files",
            PyArray_DESCR(view->array));
  Py_CLEAR(view->array);
  return -1;
}

int eti_view_of(eti_state *state, PyObject *object, eti_view *view) {
  *view = (eti_view){0};
  if (PyArray_Check(object)) return view_of_array(state, Py_NewRef(object), view);
  PyObject *tensor_type = eti_torch_tensor_type(state);
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
  if (PyObject_HasAttr(object, state->str_dlpack)) return eti_view_of_dlpack(state, object, view);
  if (PyObject_HasAttr(object, state->str_array)) {
    return view_of_array(state, PyArray_FromAny(object, NULL, 0, 0, 0, NULL), view);
  }
  return 0;
}
