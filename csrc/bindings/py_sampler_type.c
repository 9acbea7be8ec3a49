// py_sampler_type.c — the module's new_sampler() and its type Sampler: the choice of a token from
// logits. The algorithms are llm/sampler/.
#include "bindings/py_errors.h"
#include "bindings/py_llm.h"
#include "bindings/py_numpy_api.h"

#include <string.h>

typedef struct py_sampler {
  PyObject_HEAD et_sampler sampler;
  et_token_counts counts;
  void *memory;         // of scratch, counts and the list of best tokens
  et_token_bias *bias;  // [n_bias], for the sampler's options
  et_token_logprob *best;
  PyObject *hook;  // NULL: none
} py_sampler;

static py_state *state_of(PyObject *self) {
  return PyType_GetModuleState(Py_TYPE(self));
}

// ---- options

typedef enum option_kind {
  OPTION_DOUBLE,
  OPTION_I64,
  OPTION_U64,
  OPTION_SIZE,
  OPTION_ENUM
} option_kind;

typedef struct option {
  const char *name;
  size_t offset;
  option_kind kind;
} option;

#define OPTION(field, kind) {#field, offsetof(et_sampler_options, field), kind}
static const option TABLE[] = {
    OPTION(kind, OPTION_ENUM),
    OPTION(seed, OPTION_U64),
    OPTION(repetition_penalty, OPTION_DOUBLE),
    OPTION(frequency_penalty, OPTION_DOUBLE),
    OPTION(presence_penalty, OPTION_DOUBLE),
    OPTION(temperature, OPTION_DOUBLE),
    OPTION(top_k, OPTION_I64),
    OPTION(top_p, OPTION_DOUBLE),
    OPTION(min_p, OPTION_DOUBLE),
    OPTION(typical_p, OPTION_DOUBLE),
    OPTION(logprobs, OPTION_ENUM),
    OPTION(n_best, OPTION_SIZE),
};
#undef OPTION

static int set_number(void *field, option_kind kind, PyObject *value) {
  if (kind == OPTION_DOUBLE) {
    const double number = PyFloat_AsDouble(value);
    memcpy(field, &number, sizeof number);
  } else if (kind == OPTION_I64) {
    const int64_t number = PyLong_AsLongLong(value);
    memcpy(field, &number, sizeof number);
  } else if (kind == OPTION_U64) {
    const uint64_t number = PyLong_AsUnsignedLongLong(value);
    memcpy(field, &number, sizeof number);
  } else if (kind == OPTION_SIZE) {
    const size_t number = PyLong_AsSize_t(value);
    memcpy(field, &number, sizeof number);
  } else {
    const int number = (int)PyLong_AsLong(value);
    memcpy(field, &number, sizeof number);
  }
  return PyErr_Occurred() ? -1 : 0;
}

static int read_bias(py_sampler *self, et_sampler_options *options, PyObject *dict) {
  const Py_ssize_t n = PyDict_Size(dict);
  if (n < 0) return -1;
  self->bias = PyMem_Malloc(((size_t)n + 1) * sizeof *self->bias);
  if (self->bias == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  PyObject *key, *value;
  Py_ssize_t at = 0;
  size_t i = 0;
  while (PyDict_Next(dict, &at, &key, &value)) {
    const unsigned long id = PyLong_AsUnsignedLong(key);
    self->bias[i++] = (et_token_bias){id > UINT32_MAX ? UINT32_MAX : (uint32_t)id,
                                      (float)PyFloat_AsDouble(value)};
    if (PyErr_Occurred()) return -1;
  }
  options->bias = self->bias;
  options->n_bias = i;
  return 0;
}

static int read_options(py_sampler *self, PyObject *given, et_sampler_options *options) {
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (PyDict_Next(given, &at, &key, &value)) {
    const char *const name = PyUnicode_AsUTF8(key);
    if (name == NULL) return -1;
    if (strcmp(name, "bias") == 0) {
      if (read_bias(self, options, value) < 0) return -1;
      continue;
    }
    size_t i = 0;
    while (i < sizeof TABLE / sizeof TABLE[0] && strcmp(name, TABLE[i].name) != 0) i++;
    if (i == sizeof TABLE / sizeof TABLE[0]) {
      py_raise(state_of((PyObject *)self), ET_INVALID_ARGUMENT,
               "sampler: expected the name of an option, got %R", key);
      return -1;
    }
    if (set_number((char *)options + TABLE[i].offset, TABLE[i].kind, value) < 0) return -1;
  }
  return 0;
}

// ---- the hook

// Calls the Python function with a view of the logits, which it changes in place.
static et_status call_hook(void *ctx, float *logits, size_t n, et_error *err) {
  const py_sampler *const self = ctx;
  (void)err;
  npy_intp size = (npy_intp)n;
  PyObject *const array = PyArray_SimpleNewFromData(1, &size, NPY_FLOAT32, logits);
  PyObject *const result = array == NULL ? NULL : PyObject_CallOneArg(self->hook, array);
  Py_XDECREF(array);
  if (result == NULL) return ET_INTERRUPTED;  // the exception is set
  Py_DECREF(result);
  return ET_OK;
}

// ---- making a sampler

static int begin(py_sampler *self, const et_sampler_options *options, size_t vocab_size) {
  const size_t scratch = et_sampler_scratch_bytes(vocab_size);
  const size_t counts = et_token_counts_bytes(vocab_size);
  py_state *const state = state_of((PyObject *)self);
  if (scratch == 0) {
    py_raise(state, ET_INVALID_ARGUMENT,
             "sampler: expected a vocabulary of 1 to 2^31 words, got %zu", vocab_size);
    return -1;
  }
  self->memory = PyMem_RawMalloc(scratch + counts);
  self->best = PyMem_Malloc((options->n_best + 1) * sizeof *self->best);
  if (self->memory == NULL || self->best == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  et_error err = {.status = ET_OK};
  char *const memory = self->memory;
  et_status status =
      et_token_counts_init(&self->counts, vocab_size, (et_span){memory + scratch, counts}, &err);
  if (status == ET_OK)
    status = et_sampler_init(&self->sampler, options, vocab_size, (et_span){memory, scratch}, &err);
  if (status == ET_OK) return 0;
  py_raise_error(state, &err);
  return -1;
}

PyObject *py_new_sampler(PyObject *module, PyObject *args) {
  py_state *const state = PyModule_GetState(module);
  Py_ssize_t vocab_size;
  PyObject *given, *hook;
  if (!PyArg_ParseTuple(args, "nO!O", &vocab_size, &PyDict_Type, &given, &hook)) return NULL;
  py_sampler *const self = (py_sampler *)state->sampler_type->tp_alloc(state->sampler_type, 0);
  if (self == NULL) return NULL;
  et_sampler_options options = et_sampler_defaults();
  if (hook != Py_None) {
    self->hook = Py_NewRef(hook);
    options.hook = (et_logits_hook){self, call_hook};
  }
  const size_t size = vocab_size < 0 ? 0 : (size_t)vocab_size;
  if (read_options(self, given, &options) == 0 && begin(self, &options, size) == 0)
    return (PyObject *)self;
  Py_DECREF(self);
  return NULL;
}

et_sampler *py_sampler_of(py_state *state, PyObject *object, et_token_counts **counts) {
  if (!Py_IS_TYPE(object, state->sampler_type)) {
    PyErr_Format(PyExc_TypeError, "expected a Sampler, got %R", (PyObject *)Py_TYPE(object));
    return NULL;
  }
  py_sampler *const self = (py_sampler *)object;
  *counts = &self->counts;
  return &self->sampler;
}

// ---- drawing

PyObject *py_sampler_best(const et_sample *sample) {
  PyObject *const list = PyList_New((Py_ssize_t)sample->n_best);
  for (size_t i = 0; list != NULL && i < sample->n_best; i++) {
    PyObject *const item =
        Py_BuildValue("Id", (unsigned)sample->best[i].id, sample->best[i].logprob);
    if (item == NULL) {
      Py_DECREF(list);
      return NULL;
    }
    PyList_SET_ITEM(list, (Py_ssize_t)i, item);
  }
  return list;
}

static PyObject *draw(PyObject *object, PyObject *args) {
  py_sampler *const self = (py_sampler *)object;
  PyObject *logits;
  unsigned long long position;
  if (!PyArg_ParseTuple(args, "O!K", &PyArray_Type, &logits, &position)) return NULL;
  PyArrayObject *const array = (PyArrayObject *)logits;
  if (PyArray_TYPE(array) != NPY_FLOAT32 || !PyArray_IS_C_CONTIGUOUS(array) ||
      (size_t)PyArray_SIZE(array) != self->sampler.vocab_size)
    return py_raise(state_of(object), ET_INVALID_ARGUMENT,
                    "sampler: expected %zu logits of f32 without gaps, got %zd of %R",
                    self->sampler.vocab_size, (Py_ssize_t)PyArray_SIZE(array),
                    (PyObject *)PyArray_DESCR(array));
  et_sample sample = {.best = self->best};
  et_error err = {.status = ET_OK};
  const et_status status =
      et_sampler_draw(&self->sampler, PyArray_DATA(array), &self->counts, position, &sample, &err);
  if (PyErr_Occurred()) return NULL;  // of the hook
  if (status != ET_OK) return py_raise_error(state_of(object), &err);
  PyObject *const best = py_sampler_best(&sample);
  if (best == NULL) return NULL;
  return Py_BuildValue("IdN", (unsigned)sample.id, sample.logprob, best);
}

static PyObject *change_counts(PyObject *object, PyObject *args, bool add) {
  py_sampler *const self = (py_sampler *)object;
  int generated;
  unsigned long id;
  if (!PyArg_ParseTuple(args, "kp", &id, &generated)) return NULL;
  const uint32_t ids[] = {id > UINT32_MAX ? UINT32_MAX : (uint32_t)id};
  const et_token_part part = generated ? ET_TOKEN_GENERATED : ET_TOKEN_PROMPT;
  et_error err = {.status = ET_OK};
  const et_status status = add ? et_token_counts_add(&self->counts, part, ids, 1, &err)
                               : et_token_counts_remove(&self->counts, part, ids, 1, &err);
  if (status != ET_OK) return py_raise_error(state_of(object), &err);
  Py_RETURN_NONE;
}

static PyObject *add(PyObject *object, PyObject *args) {
  return change_counts(object, args, true);
}

static PyObject *remove_(PyObject *object, PyObject *args) {
  return change_counts(object, args, false);
}

static PyObject *clear_counts(PyObject *object, PyObject *unused) {
  (void)unused;
  et_token_counts_clear(&((py_sampler *)object)->counts);
  Py_RETURN_NONE;
}

// ---- the type

static int traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(((py_sampler *)object)->hook);
  return 0;
}

static int clear(PyObject *object) {
  py_sampler *const self = (py_sampler *)object;
  self->sampler.options.hook = (et_logits_hook){NULL, NULL};
  Py_CLEAR(self->hook);
  return 0;
}

static void dealloc(PyObject *object) {
  py_sampler *const self = (py_sampler *)object;
  PyTypeObject *const type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  (void)clear(object);
  PyMem_RawFree(self->memory);
  PyMem_Free(self->bias);
  PyMem_Free(self->best);
  type->tp_free(object);
  Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"draw", draw, METH_VARARGS,
     "draw($self, logits, position, /)\n--\n\nA token, its log-probability, and the best ones."},
    {"add", add, METH_VARARGS, "add($self, id, generated, /)\n--\n\nCounts a token of the text."},
    {"remove", remove_, METH_VARARGS,
     "remove($self, id, generated, /)\n--\n\nTakes back a token of the text."},
    {"clear", clear_counts, METH_NOARGS, "clear($self, /)\n--\n\nTakes back all tokens."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (char *)"A sampler. Use executorch_py.extension.llm.sampler."},
    {Py_tp_methods, methods},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_dealloc, dealloc},
    {0, NULL},
};

PyType_Spec py_sampler_spec = {
    .name = "executorch_py._C.Sampler",
    .basicsize = sizeof(py_sampler),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};
