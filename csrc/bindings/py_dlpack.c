// py_dlpack.c — reading a DLPack capsule (the unversioned exchange structure, which every producer
// still exports by default), and reading and making torch tensors through the protocol's table of C
// functions. The layout is declared here from the protocol's public description.
#define _POSIX_C_SOURCE 200809L  // posix_memalign
#include "bindings/py_arrays.h"

#include <stdlib.h>
#include <string.h>

#include "bindings/py_errors.h"

// The wire structure of the protocol. Field order and sizes are fixed by its ABI.
typedef struct dl_tensor {
  void *data;
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
  int64_t *shape;
  int64_t *strides;  // in elements; NULL = contiguous
  uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
  dl_tensor tensor;
  void *manager;
  void (*deleter)(struct dl_managed *self);
} dl_managed;

typedef struct dl_managed_versioned {
  uint32_t major, minor;
  void *manager;
  void (*deleter)(struct dl_managed_versioned *self);
  uint64_t flags;
  dl_tensor tensor;
} dl_managed_versioned;

enum { DL_CPU = 1, DL_CPU_PINNED_CUDA = 3, DL_CPU_PINNED_ROCM = 11 };

typedef struct dl_row {
  uint8_t code, bits;
  et_dtype dtype;
} dl_row;

static const dl_row dl_rows[] = {
    {0, 8, ET_I8},      {0, 16, ET_I16},     {0, 32, ET_I32},    {0, 64, ET_I64},
    {1, 8, ET_U8},      {1, 16, ET_U16},     {1, 32, ET_U32},    {1, 64, ET_U64},
    {2, 16, ET_F16},    {2, 32, ET_F32},     {2, 64, ET_F64},    {4, 16, ET_BF16},
    {5, 32, ET_C32},    {5, 64, ET_C64},     {5, 128, ET_C128},  {6, 8, ET_B8},
    {10, 8, ET_F8E4M3}, {11, 8, ET_F8E4M3Z}, {12, 8, ET_F8E5M2}, {13, 8, ET_F8E5M2Z},
};

// The protocol's table of C functions, version 1.x: it reads a tensor without a capsule.
typedef struct py_dlpack_api {
  struct {
    uint32_t major, minor;
    void *previous;
  } header;
  void *allocate;
  void *from_object;
  // Takes the tensor over and returns a new reference; -1 with an exception set.
  int (*to_object)(dl_managed_versioned *tensor, void **object);
  int (*dltensor_of_object)(
      void *object,
      dl_tensor *out);  // out's arrays are borrowed from the object; -1 with an exception set
  void *current_stream;
} py_dlpack_api;

static const char owner_name[] = "executorch_py.dlpack_owner";

static void owner_free(PyObject *capsule) {
  dl_managed *managed = PyCapsule_GetPointer(capsule, owner_name);
  if (managed != NULL && managed->deleter != NULL) managed->deleter(managed);
}

static et_dtype dl_dtype(const dl_tensor *tensor) {
  for (size_t i = 0; i < sizeof dl_rows / sizeof dl_rows[0]; i++) {
    if (tensor->lanes == 1 && dl_rows[i].code == tensor->code && dl_rows[i].bits == tensor->bits)
      return dl_rows[i].dtype;
  }
  return ET_DTYPE_COUNT;
}

// The array over a checked DLPack tensor; owner is borrowed.
static PyObject *array_over(const dl_tensor *tensor, int typenum, size_t element, PyObject *owner) {
  npy_intp dims[ET_MAX_RANK], strides[ET_MAX_RANK];
  npy_intp dense = (npy_intp)element;
  for (int d = tensor->ndim - 1; d >= 0; d--) {
    dims[d] = (npy_intp)tensor->shape[d];
    strides[d] =
        tensor->strides != NULL ? (npy_intp)(tensor->strides[d] * (int64_t)element) : dense;
    dense *= dims[d] > 0 ? dims[d] : 1;
  }
  char *data = tensor->data == NULL ? (char *)owner : (char *)tensor->data + tensor->byte_offset;
  // The view is read-only: the unversioned structure cannot say whether writing is allowed.
  PyObject *array =
      PyArray_New(&PyArray_Type, tensor->ndim, dims, typenum, strides, data, 0, 0, NULL);
  if (array != NULL && PyArray_SetBaseObject((PyArrayObject *)array, Py_NewRef(owner)) < 0)
    Py_CLEAR(array);
  if (array != NULL)
    PyArray_UpdateFlags((PyArrayObject *)array, NPY_ARRAY_ALIGNED | NPY_ARRAY_C_CONTIGUOUS);
  return array;
}

const py_dlpack_api *py_dlpack_api_of(PyObject *tensor_type) {
  PyObject *capsule = PyObject_GetAttrString(tensor_type, "__dlpack_c_exchange_api__");
  const py_dlpack_api *api =
      capsule == NULL ? NULL : PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  Py_XDECREF(capsule);  // the table is static in the library that published it
  PyErr_Clear();
  if (api == NULL || api->header.major != 1 || api->dltensor_of_object == NULL ||
      sizeof(npy_intp) != sizeof(int64_t))
    return NULL;
  return api;
}

bool py_torch_view_of(const py_state *state, PyObject *object, py_torch_view *view) {
  const py_dlpack_api *api = state->torch.exchange;
  if (api == NULL || (PyObject *)Py_TYPE(object) != state->torch.tensor_type) return false;
  dl_tensor tensor;
  if (api->dltensor_of_object(object, &tensor) != 0) {
    PyErr_Clear();
    return false;
  }
  if (tensor.device_type != DL_CPU || tensor.ndim < 0 || tensor.ndim > ET_MAX_RANK ||
      tensor.strides == NULL)
    return false;
  view->dtype = dl_dtype(&tensor);
  // Lazily conjugated or negated tensors have other values than their memory.
  if (view->dtype == ET_DTYPE_COUNT || tensor.code == 5) return false;
  PyObject *negated = PyObject_CallMethodNoArgs(object, state->str_is_neg);
  const bool plain = negated == Py_False;
  PyErr_Clear();
  Py_XDECREF(negated);
  view->data = tensor.data == NULL ? NULL : (char *)tensor.data + tensor.byte_offset;
  view->rank = (size_t)tensor.ndim;
  view->sizes = (const npy_intp *)tensor.shape;
  view->strides = (const npy_intp *)tensor.strides;
  return plain;
}

// ---- making

// A copy of a tensor in one block, which torch frees.
typedef struct owned_copy {
  dl_managed_versioned managed;
  int64_t sizes[ET_MAX_RANK], strides[ET_MAX_RANK];
} owned_copy;

// May be called by any thread, with the GIL or without.
static void free_copy(dl_managed_versioned *managed) {
  free(managed);
}

// Types that every torch with this table supports.
static const dl_row *plain_row(et_dtype dtype) {
  for (size_t i = 0; i < sizeof dl_rows / sizeof dl_rows[0]; i++) {
    const bool wide_unsigned = dl_rows[i].code == 1 && dl_rows[i].bits > 8;
    if (dl_rows[i].dtype == dtype)
      return dl_rows[i].code == 5 || dl_rows[i].code > 6 || wide_unsigned ? NULL : &dl_rows[i];
  }
  return NULL;
}

int py_torch_copy(const py_state *state, const et_tensor *tensor, PyObject **result) {
  const py_dlpack_api *api = state->torch.exchange;
  const dl_row *row = plain_row((et_dtype)tensor->dtype);
  const size_t bytes = et_tensor_bytes(tensor);
  const size_t head =
      (sizeof(owned_copy) + ET_MEMORY_ALIGN - 1) / ET_MEMORY_ALIGN * ET_MEMORY_ALIGN;
  if (api == NULL || api->to_object == NULL || row == NULL || bytes == 0) return 0;
  void *block = NULL;
  if (posix_memalign(&block, ET_MEMORY_ALIGN, head + bytes) != 0) {
    PyErr_NoMemory();
    return -1;
  }
  owned_copy *copy = block;
  copy->managed = (dl_managed_versioned){
      .major = 1,
      .deleter = free_copy,
      .tensor = {.data = (char *)block + head,
                 .device_type = DL_CPU,
                 .ndim = tensor->rank,
                 .code = row->code,
                 .bits = row->bits,
                 .lanes = 1,
                 .shape = copy->sizes,
                 .strides = copy->strides},
  };
  for (size_t d = 0; d < tensor->rank; d++) {
    copy->sizes[d] = tensor->sizes[d];
    copy->strides[d] = tensor->strides[d];
  }
  memcpy((char *)block + head, tensor->data, bytes);
  void *object = NULL;
  // After a failure torch may own the block already: a leak is better than a double free.
  if (api->to_object(&copy->managed, &object) != 0) return -1;
  *result = object;
  return 1;
}

int py_dlpack_view_of(py_state *state, PyObject *object, py_array_view *view) {
  PyObject *capsule = PyObject_CallMethodNoArgs(object, state->str_dlpack);
  if (capsule == NULL) return -1;
  dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
  if (managed == NULL) {
    Py_DECREF(capsule);
    return -1;
  }
  PyObject *owner = PyCapsule_New(managed, owner_name, owner_free);
  if (owner == NULL || PyCapsule_SetName(capsule, "used_dltensor") < 0) {
    Py_DECREF(capsule);
    return -1;
  }
  Py_DECREF(capsule);
  const dl_tensor *tensor = &managed->tensor;
  const et_dtype dtype = dl_dtype(tensor);
  PyObject *array = NULL;
  if (tensor->device_type != DL_CPU && tensor->device_type != DL_CPU_PINNED_CUDA &&
      tensor->device_type != DL_CPU_PINNED_ROCM) {
    py_raise(state, ET_INVALID_ARGUMENT, "array: expected DLPack device type 1 (cpu), got %d",
             (int)tensor->device_type);
  } else if (dtype == ET_DTYPE_COUNT) {
    py_raise(state, ET_INVALID_ARGUMENT,
             "DLPack dtype (code %u, %u bits, %u lanes) has no counterpart in program files",
             (unsigned)tensor->code, (unsigned)tensor->bits, (unsigned)tensor->lanes);
  } else if (tensor->ndim < 0 || tensor->ndim > ET_MAX_RANK) {
    py_raise(state, ET_INVALID_ARGUMENT, "array: expected at most %d dimensions, got %d",
             ET_MAX_RANK, (int)tensor->ndim);
  } else {
    array = array_over(tensor, py_dtype_row_of(dtype)->typenum, et_dtype_bytes(dtype), owner);
  }
  Py_DECREF(owner);
  if (array == NULL) return -1;
  view->array = (PyArrayObject *)array;
  view->dtype = dtype;
  return 1;
}
