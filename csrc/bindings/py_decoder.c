// py_decoder.c — see py_decoder.h.
#include "bindings/py_decoder.h"

#include "bindings/py_numpy_api.h"

static et_status keep(void *ctx, const uint32_t *ids, size_t n, size_t *kept, et_error *err) {
  const py_decoder *const self = ctx;
  (void)err;
  PyObject *const list = py_ids_list(ids, n);
  PyObject *const found =
      list == NULL ? NULL : PyObject_CallMethod(self->object, "keep", "O", list);
  Py_XDECREF(list);
  *kept = found == NULL ? 0 : PyLong_AsSize_t(found);
  Py_XDECREF(found);
  if (PyErr_Occurred()) return ET_INTERRUPTED;
  if (*kept < n) return ET_OK;
  PyErr_Format(PyExc_ValueError, "keep: expected fewer than %zu tokens, got %zu", n, *kept);
  return ET_INTERRUPTED;
}

static et_status read_(void *ctx, const uint32_t *ids, size_t n, size_t rows, const float **logits,
                       et_error *err) {
  py_decoder *const self = ctx;
  (void)err;
  PyObject *const list = py_ids_list(ids, n);
  PyObject *const found =
      list == NULL ? NULL : PyObject_CallMethod(self->object, "read", "On", list, (Py_ssize_t)rows);
  Py_XDECREF(list);
  Py_XSETREF(self->logits, found);
  if (found == NULL) return ET_INTERRUPTED;
  if (!PyArray_Check(found) || PyArray_TYPE((PyArrayObject *)found) != NPY_FLOAT32 ||
      !PyArray_IS_C_CONTIGUOUS((PyArrayObject *)found) ||
      (size_t)PyArray_SIZE((PyArrayObject *)found) != rows * self->decoder.vocab_size) {
    PyErr_Format(PyExc_TypeError, "read: expected an array of f32 [%zu, %zu] without gaps, got %R",
                 rows, self->decoder.vocab_size, (PyObject *)Py_TYPE(found));
    return ET_INTERRUPTED;
  }
  *logits = PyArray_DATA((PyArrayObject *)found);
  return ET_OK;
}

static et_status rewind_(void *ctx, size_t n, et_error *err) {
  const py_decoder *const self = ctx;
  (void)err;
  PyObject *const found = PyObject_CallMethod(self->object, "rewind", "n", (Py_ssize_t)n);
  if (found == NULL) return ET_INTERRUPTED;
  Py_DECREF(found);
  return ET_OK;
}

static size_t number(PyObject *object, const char *name) {
  if (PyErr_Occurred()) return 0;
  PyObject *const value = PyObject_GetAttrString(object, name);
  const size_t found = value == NULL ? 0 : PyLong_AsSize_t(value);
  Py_XDECREF(value);
  return found;
}

int py_decoder_init(py_decoder *self, PyObject *object) {
  self->decoder = (et_llm_decoder){.ctx = self,
                                   .capacity = number(object, "capacity"),
                                   .longest = number(object, "longest"),
                                   .most_rows = number(object, "most_rows"),
                                   .vocab_size = number(object, "vocabulary"),
                                   .keep = keep,
                                   .read = read_,
                                   .rewind = rewind_};
  if (PyErr_Occurred()) return -1;
  const et_llm_decoder *const d = &self->decoder;
  if (d->capacity == 0 || d->longest == 0 || d->most_rows == 0 || d->vocab_size == 0) {
    PyErr_Format(PyExc_ValueError,
                 "decoder: expected sizes of 1 or more, got capacity %zu, longest %zu, most_rows "
                 "%zu, vocabulary %zu",
                 d->capacity, d->longest, d->most_rows, d->vocab_size);
    return -1;
  }
  self->object = Py_NewRef(object);
  return 0;
}

int py_decoder_traverse(const py_decoder *self, visitproc visit, void *arg) {
  Py_VISIT(self->object);
  Py_VISIT(self->logits);
  return 0;
}

void py_decoder_clear(py_decoder *self) {
  Py_CLEAR(self->object);
  Py_CLEAR(self->logits);
}
