// py_bounds.c — the sizes that a dynamic input may have, if the program stores them: smallest and
// largest per dim, and dims with a common symbol (size = scale * n + offset, with one n for all). A
// plan stores only upper bounds, so the caller sets these once per method; without them the plan's
// rule holds. py_inputs.c checks them on every call.
#include "bindings/py_method.h"

#include "bindings/py_errors.h"

// ---- setting

static int parse_dim(py_method *self, size_t i, size_t d, PyObject *item, size_t n_dims) {
  py_dim_bound *bound = &self->inputs[i].bounds[d];
  if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "iiiii", &bound->lower, &bound->upper,
                                                &bound->symbol, &bound->scale, &bound->offset)) {
    if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_TypeError)) {
      PyErr_Clear();
      py_raise(
          self->state, ET_INVALID_ARGUMENT,
          "bounds of input %zu, dim %zu: expected (lower, upper, symbol, scale, offset), got %R", i,
          d, item);
    }
    return -1;
  }
  const bool ordered = 0 <= bound->lower && bound->lower <= bound->upper;
  const bool named = -1 <= bound->symbol && bound->symbol < (int64_t)n_dims;
  if (ordered && named && bound->scale >= 1) return 0;
  py_raise(self->state, ET_INVALID_ARGUMENT,
           "bounds of input %zu, dim %zu: expected 0 <= lower <= upper, a symbol below %zu or -1, "
           "and a scale of 1 or more, got %R",
           i, d, n_dims, item);
  return -1;
}

static int parse_input(py_method *self, size_t i, PyObject *item, size_t n_dims) {
  py_input *in = &self->inputs[i];
  if (item == Py_None) return 0;
  PyObject *dims = PySequence_Tuple(item);
  if (dims == NULL) return -1;
  int result = -1;
  const size_t n = (size_t)PyTuple_GET_SIZE(dims);
  if (in->tag != ET_TENSOR || n != in->info.rank) {
    py_raise(self->state, ET_INVALID_ARGUMENT, "bounds of input %zu: expected %zu dims, got %zu", i,
             in->tag == ET_TENSOR ? in->info.rank : (size_t)0, n);
    goto done;
  }
  in->bounds = PyMem_Calloc(n + 1, sizeof *in->bounds);
  if (in->bounds == NULL) {
    PyErr_NoMemory();
    goto done;
  }
  for (size_t d = 0; d < n; d++) {
    if (parse_dim(self, i, d, PyTuple_GET_ITEM(dims, (Py_ssize_t)d), n_dims) < 0) goto done;
    const size_t n_symbols = (size_t)(in->bounds[d].symbol + 1);
    if (n_symbols > self->n_symbols) self->n_symbols = n_symbols;
  }
  result = 0;
done:
  Py_DECREF(dims);
  return result;
}

static int parse_inputs(py_method *self, PyObject *items) {
  if ((size_t)PyTuple_GET_SIZE(items) != self->n_inputs) {
    py_raise(self->state, ET_INVALID_ARGUMENT,
             "method %U: expected bounds or None for each of %zu inputs, got %zd",
             self->quoted_name, self->n_inputs, PyTuple_GET_SIZE(items));
    return -1;
  }
  size_t n_dims = 0;
  for (size_t i = 0; i < self->n_inputs; i++)
    n_dims += self->inputs[i].tag == ET_TENSOR ? self->inputs[i].info.rank : 0;
  for (size_t i = 0; i < self->n_inputs; i++) {
    if (parse_input(self, i, PyTuple_GET_ITEM(items, (Py_ssize_t)i), n_dims) < 0) return -1;
  }
  if (self->n_symbols == 0) return 0;
  self->symbols = PyMem_Calloc(self->n_symbols, sizeof *self->symbols);
  if (self->symbols != NULL) return 0;
  PyErr_NoMemory();
  return -1;
}

void py_bounds_clear(py_method *self) {
  for (size_t i = 0; self->inputs != NULL && i < self->n_inputs; i++) {
    PyMem_Free(self->inputs[i].bounds);
    self->inputs[i].bounds = NULL;
  }
  PyMem_Free(self->symbols);
  self->symbols = NULL;
  self->n_symbols = 0;
}

int py_bounds_set(py_method *self, PyObject *bounds) {
  PyObject *items = PySequence_Tuple(bounds);
  if (items == NULL) return -1;
  py_bounds_clear(self);
  const int result = parse_inputs(self, items);
  if (result < 0) py_bounds_clear(self);
  Py_DECREF(items);
  return result;
}

// ---- checking

void py_bounds_begin(py_method *self) {
  for (size_t s = 0; s < self->n_symbols; s++) self->symbols[s].known = false;
}

// Checks a size against the other dims of its symbol; the first dim of a call sets the symbol.
static bool follows(py_method *self, size_t i, size_t d) {
  const py_input *in = &self->inputs[i];
  const py_dim_bound *bound = &in->bounds[d];
  py_symbol *symbol = &self->symbols[bound->symbol];
  const int64_t rest = (int64_t)in->sizes[d] - bound->offset;
  if (symbol->known) return rest == symbol->value * bound->scale;
  if (rest % bound->scale != 0) return false;
  *symbol = (py_symbol){.known = true, .value = rest / bound->scale, .input = i, .dim = d};
  return true;
}

bool py_bounds_check(py_method *self, size_t i, size_t *broken) {
  const py_input *in = &self->inputs[i];
  for (size_t d = 0; in->bounds != NULL && d < in->info.rank; d++) {
    const py_dim_bound *bound = &in->bounds[d];
    const bool within = bound->lower <= in->sizes[d] && in->sizes[d] <= bound->upper;
    if (within && (bound->symbol < 0 || follows(self, i, d))) continue;
    *broken = d;
    return false;
  }
  return true;
}

// ---- messages

static const char ELLIPSIS[] = "\xe2\x80\xa6";  // as in printed signatures: 1…8

static PyObject *range_text(const py_dim_bound *bound) {
  return bound->lower == bound->upper
             ? PyUnicode_FromFormat("%d", bound->lower)
             : PyUnicode_FromFormat("%d%s%d", bound->lower, ELLIPSIS, bound->upper);
}

PyObject *py_bounds_shape_text(const py_input *in) {
  PyObject *parts = PyList_New(0), *comma = PyUnicode_FromString(", ");
  for (size_t d = 0; parts != NULL && d < in->info.rank; d++) {
    PyObject *part = range_text(&in->bounds[d]);
    if (part == NULL || PyList_Append(parts, part) < 0) Py_CLEAR(parts);
    Py_XDECREF(part);
  }
  PyObject *joined = parts == NULL || comma == NULL ? NULL : PyUnicode_Join(comma, parts);
  PyObject *text = joined == NULL ? NULL : PyUnicode_FromFormat("[%U]", joined);
  Py_XDECREF(joined);
  Py_XDECREF(comma);
  Py_XDECREF(parts);
  return text;
}

PyObject *py_method_input_names(py_method *self) {
  PyObject *const names = self->input_names;
  if (names == NULL || PyTuple_Check(names)) return names;
  // A function, which may replace itself: its names are kept. Without names, messages have numbers.
  Py_INCREF(names);
  PyObject *const given = PyObject_CallNoArgs(names);
  PyObject *tuple = given == NULL ? NULL : PySequence_Tuple(given);
  Py_XDECREF(given);
  Py_DECREF(names);
  if (tuple == NULL) PyErr_Clear();
  if (tuple != NULL && (size_t)PyTuple_GET_SIZE(tuple) != self->n_inputs) Py_CLEAR(tuple);
  Py_XSETREF(self->input_names, tuple);
  return tuple;
}

PyObject *py_bounds_problem(py_method *self, size_t i, size_t d) {
  const py_input *in = &self->inputs[i];
  const py_dim_bound *bound = &in->bounds[d];
  const int size = in->sizes[d];
  if (size < bound->lower || size > bound->upper) {
    PyObject *range = range_text(bound);
    PyObject *text =
        range == NULL ? NULL : PyUnicode_FromFormat("dim %zu: expected %U, got %d", d, range, size);
    Py_XDECREF(range);
    return text;
  }
  const py_symbol *symbol = &self->symbols[bound->symbol];
  if (!symbol->known) {
    return bound->offset == 0
               ? PyUnicode_FromFormat("dim %zu: expected a multiple of %d, got %d", d, bound->scale,
                                      size)
               : PyUnicode_FromFormat("dim %zu: expected %d more than a multiple of %d, got %d", d,
                                      bound->offset, bound->scale, size);
  }
  const py_input *other = &self->inputs[symbol->input];
  PyObject *const names = py_method_input_names(self);
  PyObject *name = names == NULL ? PyUnicode_FromString("")
                                 : PyUnicode_FromFormat(
                                       " (%R)", PyTuple_GET_ITEM(names, (Py_ssize_t)symbol->input));
  if (name == NULL) return NULL;
  const long long needed = (long long)symbol->value * bound->scale + bound->offset;
  PyObject *text = PyUnicode_FromFormat(
      "dim %zu: expected %lld, because dim %zu of input %zu%U is %d, got %d", d, needed,
      symbol->dim, symbol->input, name, (int)other->sizes[symbol->dim], size);
  Py_DECREF(name);
  return text;
}
