// py_errors.c — the exception table. Class attributes `status` and `name` hold the code, so raising
// costs no more than for a builtin exception. Knows nothing of programs and methods.
#include "bindings/py_errors.h"

#include <string.h>

#include "bindings/py_text.h"

typedef struct status_row {
  et_status status;
  const char *name;
} status_row;

static const status_row statuses[] = {
#define STATUS_ROW(id, number, text) {id, text},
    ET_STATUS_LIST(STATUS_ROW)
#undef STATUS_ROW
};
enum { N_STATUSES = sizeof statuses / sizeof statuses[0] };
_Static_assert(sizeof statuses / sizeof statuses[0] <= (size_t)PY_STATUS_SLOTS,
               "py_module.h has too few exception slots");

// The builtin exception that code written without this package would catch.
static PyObject *natural_builtin(et_status status) {
  switch (status) {
    case ET_INVALID_ARGUMENT:
    case ET_INVALID_PROGRAM:
    case ET_INVALID_EXTERNAL_DATA:
      return PyExc_ValueError;
    case ET_INVALID_TYPE:
      return PyExc_TypeError;
    case ET_NOT_FOUND:
      return PyExc_KeyError;
    case ET_NOT_IMPLEMENTED:
    case ET_OPERATOR_MISSING:
      return PyExc_NotImplementedError;
    case ET_OUT_OF_MEMORY:
    case ET_OUT_OF_RESOURCES:
    case ET_DELEGATE_OUT_OF_MEMORY:
      return PyExc_MemoryError;
    case ET_ACCESS_FAILED:
      return PyExc_OSError;
    default:
      return NULL;
  }
}

static PyObject *make_class(const char *qualified, const char *doc, PyObject *bases, long status,
                            const char *name) {
  PyObject *result = NULL;
  PyObject *dict = PyDict_New();
  PyObject *code = PyLong_FromLong(status);
  PyObject *text = PyUnicode_FromString(name);
  // KeyError would print its message quoted; every class here prints it plain.
  PyObject *plain = PyObject_GetAttrString(PyExc_BaseException, "__str__");
  if (dict == NULL || code == NULL || text == NULL || plain == NULL) goto done;
  if (PyDict_SetItemString(dict, "status", code) < 0 ||
      PyDict_SetItemString(dict, "name", text) < 0 ||
      PyDict_SetItemString(dict, "__str__", plain) < 0) {
    goto done;
  }
  result = PyErr_NewExceptionWithDoc(qualified, doc, bases, dict);
done:
  Py_XDECREF(dict);
  Py_XDECREF(code);
  Py_XDECREF(text);
  Py_XDECREF(plain);
  return result;
}

static PyObject *make_status_class(const py_state *state, const status_row *row) {
  char qualified[96];
  snprintf(qualified, sizeof qualified, "executorch_py.errors.%s", row->name);
  PyObject *builtin = natural_builtin(row->status);
  // NotImplementedError is a RuntimeError; beside ExecutorchError it must come second.
  PyObject *bases = builtin != NULL ? PyTuple_Pack(2, state->base_error, builtin)
                                    : PyTuple_Pack(1, state->base_error);
  if (bases == NULL) return NULL;
  PyObject *made = make_class(qualified, "Raised for the runtime status of the same name.", bases,
                              (long)row->status, row->name);
  Py_DECREF(bases);
  return made;
}

int py_errors_init(py_state *state, PyObject *module) {
  PyObject *bases = PyTuple_Pack(1, PyExc_RuntimeError);
  if (bases == NULL) return -1;
  state->base_error =
      make_class("executorch_py.errors.ExecutorchError",
                 "Base of everything the runtime raises.\n\n"
                 "`status` is the runtime's code (upstream's numbers), `name` its name.",
                 bases, (long)ET_INTERNAL, "Internal");
  Py_DECREF(bases);
  if (state->base_error == NULL) return -1;
  if (PyModule_AddObjectRef(module, "ExecutorchError", state->base_error) < 0) return -1;
  for (size_t i = 0; i < N_STATUSES; i++) {
    if (statuses[i].status == ET_OK) continue;
    state->errors[i] = make_status_class(state, &statuses[i]);
    if (state->errors[i] == NULL) return -1;
    if (PyModule_AddObjectRef(module, statuses[i].name, state->errors[i]) < 0) return -1;
  }
  return 0;
}

PyObject *py_raise_text(const py_state *state, et_status status, PyObject *text) {
  if (text == NULL) return NULL;
  PyObject *class = state->base_error;
  const char *name = "Unknown";
  for (size_t i = 0; i < N_STATUSES; i++) {
    if (statuses[i].status == status && state->errors[i] != NULL) {
      class = state->errors[i];
      name = statuses[i].name;
    }
  }
  PyObject *full = PyUnicode_FromFormat("%U [%s, error: 0x%x]", text, name, (unsigned)status);
  if (full != NULL) {
    PyErr_SetObject(class, full);
    Py_DECREF(full);
  }
  return NULL;
}

PyObject *py_raise(const py_state *state, et_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  PyObject *text = PyUnicode_FromFormatV(format, arguments);
  va_end(arguments);
  PyObject *printable = text == NULL ? NULL : py_text_printable(text);
  py_raise_text(state, status, printable);
  Py_XDECREF(printable);
  Py_XDECREF(text);
  return NULL;
}

PyObject *py_raise_error(const py_state *state, const et_error *err) {
  return py_raise_advice(state, err, "");
}

PyObject *py_raise_advice(const py_state *state, const et_error *err, const char *advice) {
  PyObject *text = py_text_from_message(err->message);
  PyObject *whole = text == NULL ? NULL : PyUnicode_FromFormat("%U%s", text, advice);
  py_raise_text(state, err->status, whole);
  Py_XDECREF(whole);
  Py_XDECREF(text);
  return NULL;
}
