// py_inputs.c — conversion of Python objects to input slots. Everything is checked here, before the
// runtime sees it, so that messages can name the input, its value and the expected one. Data in the
// planned layout is used in place; another layout is copied; another dtype or shape is an error.
#include "bindings/py_method.h"

#include <string.h>

#include "bindings/py_arrays.h"
#include "bindings/py_compat.h"
#include "bindings/py_errors.h"

enum { BORROW_ALIGN = 16 };  // alignment that kernels and delegates rely on

// ---- messages

static PyObject *label(py_method *self, size_t i) {
  PyObject *const names = py_method_input_names(self);
  return names != NULL
             ? PyUnicode_FromFormat("input %zu (%R) of method %U", i,
                                    PyTuple_GET_ITEM(names, (Py_ssize_t)i), self->quoted_name)
             : PyUnicode_FromFormat("input %zu of method %U", i, self->quoted_name);
}

static PyObject *sizes_text(const int32_t *sizes, size_t rank) {
  PyObject *list = PyList_New((Py_ssize_t)rank);
  for (size_t d = 0; list != NULL && d < rank; d++) {
    PyObject *size = PyLong_FromLong(sizes[d]);
    if (size == NULL) {
      Py_DECREF(list);
      return NULL;
    }
    PyList_SET_ITEM(list, (Py_ssize_t)d, size);
  }
  PyObject *text = list == NULL ? NULL : PyObject_Repr(list);
  Py_XDECREF(list);
  return text;
}

// The value that the program expects in slot i: "a float32 tensor of shape [2, 3]", "an int" ….
static PyObject *wanted(const py_input *in) {
  switch (in->tag) {
    case ET_TENSOR: {
      const bool exact = in->bounds != NULL || !in->info.is_dynamic;
      PyObject *shape =
          in->bounds != NULL ? py_bounds_shape_text(in) : sizes_text(in->info.sizes, in->info.rank);
      if (shape == NULL) return NULL;
      PyObject *text =
          PyUnicode_FromFormat("a %s tensor of shape %s%U", py_dtype_python_name(in->info.dtype),
                               exact ? "" : "up to ", shape);
      Py_DECREF(shape);
      return text;
    }
    case ET_INT:
      return PyUnicode_FromString("an int");
    case ET_DOUBLE:
      return PyUnicode_FromString("a float");
    case ET_BOOL:
      return PyUnicode_FromString("a bool");
    case ET_STRING:
      return PyUnicode_FromString("a str");
    case ET_NONE:
      return PyUnicode_FromString("None");
    default:
      return PyUnicode_FromFormat("a value of kind %d, which Python cannot provide", (int)in->tag);
  }
}

// Raises "<input>: expected <wanted>, got <given>"; steals `given`. Always -1.
__attribute__((cold)) static int mismatch(py_method *self, size_t i, et_status status,
                                          PyObject *given) {
  PyObject *who = label(self, i), *what = wanted(&self->inputs[i]);
  if (who != NULL && what != NULL && given != NULL) {
    py_raise(self->state, status, "%U: expected %U, got %U", who, what, given);
  }
  Py_XDECREF(given);
  Py_XDECREF(who);
  Py_XDECREF(what);
  return -1;
}

// Prepends the input's name to the exception that is set.
__attribute__((cold)) static int name_error(py_method *self, size_t i) {
  if (!PyErr_ExceptionMatches(self->state->base_error)) return -1;
  PyObject *raised = py_exception_take();
  PyObject *who = label(self, i), *old = PyObject_Str(raised);
  PyObject *text = who == NULL || old == NULL ? NULL : PyUnicode_FromFormat("%U: %U", who, old);
  if (text != NULL) PyErr_SetObject((PyObject *)Py_TYPE(raised), text);
  Py_XDECREF(text);
  Py_XDECREF(old);
  Py_XDECREF(who);
  Py_DECREF(raised);
  return -1;
}

// ---- tensors

// Stores the given sizes; false when they exceed the plan.
static bool store_sizes(py_input *in, const npy_intp *sizes, size_t rank) {
  if (rank != in->info.rank) return false;
  size_t numel = 1;
  bool same = true, fits = true;
  for (size_t d = 0; d < rank; d++) {
    fits = fits && sizes[d] >= 0 && sizes[d] <= INT32_MAX &&
           !__builtin_mul_overflow(numel, (size_t)sizes[d], &numel);
    same = same && sizes[d] == in->info.sizes[d];
    in->sizes[d] = sizes[d] <= INT32_MAX ? (int32_t)sizes[d] : INT32_MAX;
  }
  in->tensor.numel = numel;
  return fits && (in->info.is_dynamic ? numel <= in->capacity : same);
}

// The message for a wrong shape, with the dim that breaks its bounds when the rank fits.
static PyObject *shape_problem(py_method *self, size_t i, const npy_intp *sizes, size_t rank,
                               const size_t *broken) {
  PyObject *shape = PyArray_IntTupleFromIntp((int)rank, sizes);
  PyObject *list = shape == NULL ? NULL : PySequence_List(shape);
  PyObject *given = list == NULL ? NULL : PyUnicode_FromFormat("shape %R", list);
  Py_XDECREF(shape);
  Py_XDECREF(list);
  PyObject *reason = given == NULL || broken == NULL ? NULL : py_bounds_problem(self, i, *broken);
  if (reason == NULL) {
    if (broken != NULL) Py_CLEAR(given);
    return given;
  }
  PyObject *text = PyUnicode_FromFormat("%U: %U", given, reason);
  Py_DECREF(given);
  Py_DECREF(reason);
  return text;
}

// The message for a wrong dtype, with the conversion to write.
static PyObject *dtype_problem(const py_input *in, const py_array_view *view) {
  const char *given = py_dtype_python_name(view->dtype);
  const char *planned = py_dtype_python_name(in->info.dtype);
  if (view->is_torch)
    return PyUnicode_FromFormat("dtype %s: pass tensor.to(torch.%s)", given, planned);
  if (!py_dtype_row_of(in->info.dtype)->is_carried)
    return PyUnicode_FromFormat("dtype %s: pass array.astype('%s')", given, planned);
  return PyUnicode_FromFormat(
      "dtype %s: pass a torch tensor, or `pip install ml_dtypes` and pass array.astype('%s')",
      given, planned);
}

// The message for an object that is no tensor; numbers and lists of numbers have a conversion.
static PyObject *object_problem(const py_input *in, PyObject *object) {
  const bool numbers = PyList_Check(object) || PyTuple_Check(object) || PyFloat_Check(object) ||
                       PyLong_Check(object);
  const py_dtype_row *const row = py_dtype_row_of(in->info.dtype);
  if (!numbers || row->is_carried || row->name == NULL)
    return PyUnicode_FromFormat("a value of type %s", Py_TYPE(object)->tp_name);
  return PyUnicode_FromFormat("a value of type %s: pass numpy.array(value, '%s')",
                              Py_TYPE(object)->tp_name, row->name);
}

static int check_tensor(py_method *self, size_t i, const py_array_view *view) {
  py_input *in = &self->inputs[i];
  if (view->dtype != in->info.dtype) {
    return mismatch(self, i, ET_INVALID_ARGUMENT, dtype_problem(in, view));
  }
  if (!PyArray_ISNOTSWAPPED(view->array)) {
    return mismatch(
        self, i, ET_INVALID_ARGUMENT,
        PyUnicode_FromString(
            "bytes in the other byte order (use array.astype(array.dtype.newbyteorder('=')))"));
  }
  const npy_intp *sizes = PyArray_DIMS(view->array);
  const size_t rank = (size_t)PyArray_NDIM(view->array);
  // Both checks run: the bounds can name the dim. Sizes are stored whenever the rank fits.
  const bool fits = store_sizes(in, sizes, rank);
  size_t broken = 0;
  const bool blamed = rank == in->info.rank && !py_bounds_check(self, i, &broken);
  if (fits && !blamed) return 0;
  return mismatch(self, i, ET_NOT_SUPPORTED,
                  shape_problem(self, i, sizes, rank, blamed ? &broken : NULL));
}

// Writes the strides of the planned layout for the stored sizes; true when the given strides, in
// units of `unit`, are the same.
static bool plan_strides(py_input *in, const npy_intp *strides, npy_intp unit) {
  bool dense = true;
  ptrdiff_t stride = 1;
  for (size_t k = in->info.rank; k-- > 0;) {
    const size_t d = in->info.dim_order[k];
    in->strides[d] = stride;
    dense = dense && (in->sizes[d] <= 1 || strides[d] == stride * unit);
    stride *= in->sizes[d] > 0 ? in->sizes[d] : 1;
  }
  return dense || in->tensor.numel == 0;
}

static int copy_to_staging(py_method *self, py_input *in, PyArrayObject *array) {
  if (in->staging == NULL) {
    in->staging = py_memory_allocate(self->state, in->capacity * in->element);
    if (in->staging == NULL) return -1;
  }
  npy_intp strides[ET_MAX_RANK];
  for (size_t d = 0; d < in->info.rank; d++) strides[d] = in->strides[d] * (npy_intp)in->element;
  PyArray_Descr *descr = PyArray_DESCR(array);
  Py_INCREF(descr);  // the constructor below steals it
  PyObject *target =
      PyArray_NewFromDescr(&PyArray_Type, descr, PyArray_NDIM(array), PyArray_DIMS(array), strides,
                           in->staging->data, NPY_ARRAY_WRITEABLE | NPY_ARRAY_ALIGNED, NULL);
  if (target == NULL) return -1;
  const int result = PyArray_CopyInto((PyArrayObject *)target, array);
  Py_DECREF(target);
  return result;
}

static bool is_aligned(const void *data) {
  return (uintptr_t)data % BORROW_ALIGN == 0;
}

// The fast path for plain torch tensors that can be used in place. False: not decided.
static bool borrow_torch(py_method *self, size_t i, PyObject *object) {
  py_input *in = &self->inputs[i];
  py_torch_view view;
  if (!py_torch_view_of(self->state, object, &view) || view.dtype != in->info.dtype) return false;
  size_t broken;
  if (!store_sizes(in, view.sizes, view.rank) || !py_bounds_check(self, i, &broken) ||
      !plan_strides(in, view.strides, 1))
    return false;
  if (in->tensor.numel > 0 &&
      (view.data == NULL || (!in->info.is_planned && !is_aligned(view.data))))
    return false;
  in->tensor.data = view.data;
  in->next = Py_NewRef(object);
  self->kind = PY_KIND_TORCH;
  return true;
}

static int fill_tensor(py_method *self, size_t i, PyObject *object) {
  py_input *in = &self->inputs[i];
  if (borrow_torch(self, i, object)) return 0;
  py_array_view view;
  const int found = py_array_view_of(self->state, object, &view);
  if (found < 0) return name_error(self, i);
  if (found == 0) {
    return mismatch(self, i, ET_INVALID_ARGUMENT, object_problem(in, object));
  }
  if (view.is_torch) {
    self->kind = PY_KIND_TORCH;
  } else if (self->kind == PY_KIND_UNKNOWN) {
    self->kind = PY_KIND_NUMPY;
  }
  if (check_tensor(self, i, &view) < 0) goto failed;
  const bool dense = plan_strides(in, PyArray_STRIDES(view.array), (npy_intp)in->element);
  const bool usable = in->info.is_planned ||
                      (is_aligned(PyArray_DATA(view.array)) && PyArray_ISWRITEABLE(view.array));
  if (dense && usable) {
    in->tensor.data = PyArray_DATA(view.array);
    in->next = (PyObject *)view.array;
  } else {
    // Read-only memory is copied too: a program may write its inputs.
    if (copy_to_staging(self, in, view.array) < 0) goto failed;
    if (dense) {
      self->alignment_copies++;
    } else {
      self->layout_conversions++;
    }
    Py_DECREF(view.array);
    in->tensor.data = in->staging->data;
    in->next = Py_NewRef((PyObject *)in->staging);
  }
  return 0;
failed:
  Py_DECREF(view.array);
  return -1;
}

// ---- scalars

static int fill_int(py_method *self, size_t i, PyObject *object) {
  py_input *in = &self->inputs[i];
  if (PyBool_Check(object) || PyArray_Check(object) || !PyIndex_Check(object)) return 1;
  PyObject *number = PyNumber_Index(object);
  if (number == NULL) return -1;
  in->value.as.i = PyLong_AsLongLong(number);
  Py_DECREF(number);
  if (in->value.as.i == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    return mismatch(self, i, ET_INVALID_ARGUMENT,
                    PyUnicode_FromFormat("%S, which does not fit 64 bits", object));
  }
  return 0;
}

static int fill_double(py_method *self, size_t i, PyObject *object) {
  py_input *in = &self->inputs[i];
  if (PyFloat_Check(object)) {
    in->value.as.d = PyFloat_AS_DOUBLE(object);
    return 0;
  }
  const bool number =
      PyArray_IsScalar(object, Floating) || (PyLong_Check(object) && !PyBool_Check(object));
  if (!number) return 1;
  in->value.as.d = PyFloat_AsDouble(object);
  return in->value.as.d == -1.0 && PyErr_Occurred() ? -1 : 0;
}

static int fill_string(py_method *self, size_t i, PyObject *object) {
  py_input *in = &self->inputs[i];
  if (!PyUnicode_Check(object)) return 1;
  Py_ssize_t n;
  in->value.as.string = PyUnicode_AsUTF8AndSize(object, &n);
  if (in->value.as.string == NULL) return -1;
  if (n > (Py_ssize_t)UINT32_MAX) {
    return mismatch(self, i, ET_INVALID_ARGUMENT, PyUnicode_FromString("a str over 4 GiB"));
  }
  in->value.n = (uint32_t)n;
  in->next = Py_NewRef(object);
  return 0;
}

// Returns 0, -1 with an exception set, or 1 for an object of the wrong kind.
static int fill_scalar(py_method *self, size_t i, PyObject *object) {
  py_input *in = &self->inputs[i];
  switch (in->tag) {
    case ET_INT:
      return fill_int(self, i, object);
    case ET_DOUBLE:
      return fill_double(self, i, object);
    case ET_BOOL:
      if (!PyBool_Check(object) && !PyArray_IsScalar(object, Bool)) return 1;
      in->value.as.b = PyObject_IsTrue(object) == 1;
      return 0;
    case ET_STRING:
      return fill_string(self, i, object);
    case ET_NONE:
      return object == Py_None ? 0 : 1;
    default:
      return 1;
  }
}

static int fill_input(py_method *self, size_t i, PyObject *object) {
  py_input *in = &self->inputs[i];
  Py_CLEAR(in->next);
  if (in->tag == ET_TENSOR) {
    if (fill_tensor(self, i, object) < 0) return -1;
  } else {
    const int wrong = fill_scalar(self, i, object);
    if (wrong < 0) return -1;
    if (wrong > 0) {
      return mismatch(self, i, ET_INVALID_ARGUMENT,
                      PyUnicode_FromFormat("a value of type %s", Py_TYPE(object)->tp_name));
    }
  }
  in->pending = true;
  return 0;
}

// ---- the sequence

static PyObject *as_sequence(const py_method *self, PyObject *sequence) {
  if (PyTuple_Check(sequence) || PyList_Check(sequence)) return PySequence_Tuple(sequence);
  PyObject *tensor_type = py_torch_tensor_type(self->state);
  const bool tensor =
      PyArray_Check(sequence) ||
      (tensor_type != NULL && PyObject_TypeCheck(sequence, (PyTypeObject *)tensor_type));
  const bool single = tensor || PyUnicode_Check(sequence) || PyObject_CheckBuffer(sequence) ||
                      !PySequence_Check(sequence);
  if (!single) return PySequence_Tuple(sequence);
  const char *advice = PyDict_Check(sequence) ? ": for inputs by name, call method(**inputs)"
                       : tensor               ? ": pass [input]"
                                              : "";
  return py_raise(self->state, ET_INVALID_TYPE,
                  "inputs of method %U: expected a list or tuple with one item per input, got %s%s",
                  self->quoted_name, Py_TYPE(sequence)->tp_name, advice);
}

static Py_ssize_t n_items(PyObject *items) {
  return PyTuple_Check(items) ? PyTuple_GET_SIZE(items) : PyList_GET_SIZE(items);
}

// Whether the items are one list of as many items as there are inputs, as in execute([[a, b]]).
static bool is_nested(const py_method *self, PyObject *items) {
  if (n_items(items) != 1) return false;
  PyObject *item = PyTuple_Check(items) ? PyTuple_GET_ITEM(items, 0) : PyList_GET_ITEM(items, 0);
  return (PyList_Check(item) || PyTuple_Check(item)) &&
         (size_t)PySequence_Size(item) == self->n_inputs;
}

static int check_count(py_method *self, PyObject *items) {
  const Py_ssize_t n = n_items(items);
  if ((size_t)n == self->n_inputs) return 0;
  PyObject *const known = py_method_input_names(self);
  PyObject *names = known != NULL ? PyObject_Repr(known) : PyUnicode_FromString("");
  if (names != NULL) {
    py_raise(self->state, ET_INVALID_ARGUMENT, "method %U: expected %zu input%s%s%U, got %zd%s",
             self->quoted_name, self->n_inputs, self->n_inputs == 1 ? "" : "s",
             PyUnicode_GET_LENGTH(names) > 0 ? " " : "", names, n,
             is_nested(self, items) ? ", a list of all: pass that list itself" : "");
    Py_DECREF(names);
  }
  return -1;
}

// Fills slot i from a list or tuple of the caller. Converting an item may run any code, which could
// change a list: its length is checked for each item, and the item is kept alive.
static int fill_item(py_method *self, size_t i, PyObject *items) {
  if (PyTuple_Check(items)) return fill_input(self, i, PyTuple_GET_ITEM(items, (Py_ssize_t)i));
  if (check_count(self, items) < 0) return -1;
  PyObject *item = Py_NewRef(PyList_GET_ITEM(items, (Py_ssize_t)i));
  const int result = fill_input(self, i, item);
  Py_DECREF(item);
  return result;
}

int py_inputs_fill(py_method *self, PyObject *sequence) {
  PyObject *items = PyTuple_CheckExact(sequence) || PyList_CheckExact(sequence)
                        ? Py_NewRef(sequence)
                        : as_sequence(self, sequence);
  if (items == NULL) return -1;
  int result = check_count(self, items);
  self->kind = PY_KIND_UNKNOWN;
  py_bounds_begin(self);
  for (size_t i = 0; result == 0 && i < self->n_inputs; i++) result = fill_item(self, i, items);
  Py_DECREF(items);
  if (result < 0) {
    for (size_t i = 0; i < self->n_inputs; i++) {
      self->inputs[i].pending = false;
      Py_CLEAR(self->inputs[i].next);
    }
  }
  return result;
}

void py_inputs_release(py_method *self) {
  for (size_t i = 0; self->inputs != NULL && i < self->n_inputs; i++) {
    Py_CLEAR(self->inputs[i].next);
    Py_CLEAR(self->inputs[i].pin);
    Py_CLEAR(self->inputs[i].staging);
    self->inputs[i].pending = false;
  }
}
