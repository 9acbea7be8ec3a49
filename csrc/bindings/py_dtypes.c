// py_dtypes.c — the table of py_dtypes.h, and the dtype of an array made by another package.
#include "bindings/py_dtypes.h"

#include <string.h>

static const py_dtype_row rows[ET_DTYPE_COUNT] = {
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

const py_dtype_row *py_dtype_row_of(et_dtype dtype) {
  static const py_dtype_row none = {-1, false, NULL};
  return (unsigned)dtype < ET_DTYPE_COUNT ? &rows[dtype] : &none;
}

const char *py_dtype_python_name(et_dtype dtype) {
  const char *const name = py_dtype_row_of(dtype)->name;
  return name == NULL ? et_dtype_name(dtype) : name;
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

et_dtype py_array_dtype(PyArrayObject *array) {
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
  // Other packages register types: those of ml_dtypes are known by the name of their scalar type.
  const char *name = PyArray_DESCR(array)->typeobj->tp_name;
  const char *dot = strrchr(name, '.');
  if (dot != NULL) name = dot + 1;
  for (int d = 0; d < ET_DTYPE_COUNT; d++) {
    if (rows[d].is_carried && strcmp(rows[d].name, name) == 0) return (et_dtype)d;
  }
  return ET_DTYPE_COUNT;
}
