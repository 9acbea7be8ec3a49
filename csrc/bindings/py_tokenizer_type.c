// py_tokenizer_type.c — the module's prepare_tokenizer() and its type Tokenizer: text to ids and
// back. The algorithms are llm/tokenizer/.
#include "bindings/py_errors.h"
#include "bindings/py_llm.h"
#include "bindings/py_memory.h"

#include <string.h>

typedef struct py_tokenizer {
  PyObject_HEAD py_memory *memory;
  et_tokenizer tokenizer;
} py_tokenizer;

enum { WITHOUT_LOCK_FROM = 4096 };  // bytes of text whose encoding lets other threads run

static py_state *state_of(PyObject *self) {
  return PyType_GetModuleState(Py_TYPE(self));
}

const et_tokenizer *py_tokenizer_of(py_state *state, PyObject *object) {
  if (Py_IS_TYPE(object, state->tokenizer_type)) return &((py_tokenizer *)object)->tokenizer;
  PyErr_Format(PyExc_TypeError, "expected a Tokenizer, got %R", (PyObject *)Py_TYPE(object));
  return NULL;
}

// ---- preparing and opening

// The image is made within the bytes that are returned: they are tens of megabytes.
static PyObject *prepared(py_state *state, const et_tokenizer_source *source,
                          const et_tokenizer_needs *needs) {
  const size_t image_bytes = needs->image_bytes + 64, work_bytes = needs->work_bytes + 64;
  char *const work = PyMem_RawMalloc(work_bytes);
  if (work == NULL) return PyErr_NoMemory();
  PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)image_bytes);
  if (result != NULL) {
    char *const image = PyBytes_AS_STRING(result);
    et_error err = {.status = ET_OK};
    et_status status;
    size_t bytes = 0;
    Py_BEGIN_ALLOW_THREADS;
    status = et_tokenizer_prepare(source, needs, (et_span){image, image_bytes},
                                  (et_span){work, work_bytes}, &bytes, &err);
    Py_END_ALLOW_THREADS;
    if (status == ET_OK) {
      memmove(image, image + (-(uintptr_t)image & 63), bytes);  // images are aligned to 64
      (void)_PyBytes_Resize(&result, (Py_ssize_t)bytes);
    } else {
      Py_CLEAR(result);
      py_raise_error(state, &err);
    }
  }
  PyMem_RawFree(work);
  return result;
}

// The names of special tokens, from a tuple of str; NULL with an exception set.
static const char **names_of(PyObject *tuple) {
  const Py_ssize_t n = PyTuple_GET_SIZE(tuple);
  const char **names = PyMem_Malloc(((size_t)n + 1) * sizeof *names);
  if (names == NULL) PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < n && names != NULL; i++) {
    names[i] = PyUnicode_AsUTF8(PyTuple_GET_ITEM(tuple, i));
    if (names[i] != NULL) continue;
    PyMem_Free(names);
    names = NULL;
  }
  return names;
}

PyObject *py_prepare_tokenizer(PyObject *module, PyObject *args) {
  py_state *const state = PyModule_GetState(module);
  Py_buffer file;
  int format;
  const char *pattern;
  PyObject *special;
  if (!PyArg_ParseTuple(args, "y*izO!", &file, &format, &pattern, &PyTuple_Type, &special))
    return NULL;
  const char **const names = names_of(special);
  PyObject *result = NULL;
  if (names != NULL) {
    const et_tokenizer_source source = {
        .format = (et_tokenizer_format)format,
        .file = file.buf,
        .bytes = (size_t)file.len,
        .pattern = pattern,
        .special = names,
        .n_special = (size_t)PyTuple_GET_SIZE(special),
    };
    et_error err = {.status = ET_OK};
    et_tokenizer_needs needs;
    if (et_tokenizer_measure(&source, &needs, &err) == ET_OK)
      result = prepared(state, &source, &needs);
    else
      py_raise_error(state, &err);
  }
  PyMem_Free(names);
  PyBuffer_Release(&file);
  return result;
}

PyObject *py_open_tokenizer(PyObject *module, PyObject *image) {
  py_state *const state = PyModule_GetState(module);
  py_memory *const memory = py_memory_from_buffer(state, image);
  if (memory == NULL) return NULL;
  et_error err = {.status = ET_OK};
  et_tokenizer tokenizer;
  if (et_tokenizer_open(&tokenizer, memory->data, memory->size, &err) != ET_OK) {
    Py_DECREF(memory);
    return py_raise_error(state, &err);
  }
  py_tokenizer *const self =
      (py_tokenizer *)state->tokenizer_type->tp_alloc(state->tokenizer_type, 0);
  if (self == NULL) {
    Py_DECREF(memory);
    return NULL;
  }
  self->memory = memory;
  self->tokenizer = tokenizer;
  return (PyObject *)self;
}

// ---- encoding

PyObject *py_ids_list(const uint32_t *ids, size_t n) {
  PyObject *const list = PyList_New((Py_ssize_t)n);
  for (size_t i = 0; list != NULL && i < n; i++) {
    PyObject *const id = PyLong_FromUnsignedLong(ids[i]);
    if (id == NULL) {
      Py_DECREF(list);
      return NULL;
    }
    PyList_SET_ITEM(list, (Py_ssize_t)i, id);
  }
  return list;
}

static PyObject *encode(PyObject *object, PyObject *args) {
  const py_tokenizer *const self = (py_tokenizer *)object;
  const char *text;
  Py_ssize_t length;
  int special, around;
  if (!PyArg_ParseTuple(args, "s#pp", &text, &length, &special, &around)) return NULL;
  const size_t n = (size_t)length, capacity = et_tokenizer_max_ids(&self->tokenizer, n);
  const size_t scratch_bytes = et_tokenizer_scratch_bytes(&self->tokenizer, n);
  uint32_t *const ids = PyMem_RawMalloc(capacity * sizeof *ids);
  char *const scratch = PyMem_RawMalloc(scratch_bytes);
  PyObject *result = NULL;
  if (ids == NULL || scratch == NULL) {
    PyErr_NoMemory();
  } else {
    const et_encode_options options = {special != 0, around != 0};
    et_error err = {.status = ET_OK};
    et_status status;
    size_t n_ids = 0;
    PyThreadState *const thread = n < WITHOUT_LOCK_FROM ? NULL : PyEval_SaveThread();
    status = et_tokenizer_encode(&self->tokenizer, text, n, &options, ids, capacity, &n_ids,
                                 (et_span){scratch, scratch_bytes}, &err);
    if (thread != NULL) PyEval_RestoreThread(thread);
    if (status == ET_OK)
      result = py_ids_list(ids, n_ids);
    else
      py_raise_error(state_of(object), &err);
  }
  PyMem_RawFree(ids);
  PyMem_RawFree(scratch);
  return result;
}

// ---- decoding

uint32_t *py_ids_of(py_state *state, PyObject *sequence, const char *name, size_t *n) {
  PyObject *const items =
      PySequence_Fast(sequence, "ids: expected a sequence of int, got another object");
  if (items == NULL) return NULL;
  *n = (size_t)PySequence_Fast_GET_SIZE(items);
  uint32_t *ids = PyMem_RawMalloc((*n + 1) * sizeof *ids);
  if (ids == NULL) PyErr_NoMemory();
  for (size_t i = 0; i < *n && ids != NULL; i++) {
    PyObject *const item = PySequence_Fast_GET_ITEM(items, (Py_ssize_t)i);
    PyObject *const index = PyNumber_Index(item);
    const long long id = index == NULL ? -1 : PyLong_AsLongLong(index);
    Py_XDECREF(index);
    ids[i] = (uint32_t)id;
    if (id >= 0 && id < UINT32_MAX) continue;
    PyErr_Clear();
    py_raise(state, ET_INVALID_ARGUMENT, "%s[%zu]: expected the id of a token, got %R", name, i,
             item);
    PyMem_RawFree(ids);
    ids = NULL;
  }
  Py_DECREF(items);
  return ids;
}

// Bytes of text that ids can give at most.
static size_t text_bytes(const et_tokenizer *tokenizer, const uint32_t *ids, size_t n) {
  size_t bytes = 16;
  for (size_t i = 0; i < n; i++) {
    size_t token = 0;
    if (et_tokenizer_token(tokenizer, ids[i], &token) != NULL) bytes += 3 * token + 4;
  }
  return bytes;
}

static PyObject *decode(PyObject *object, PyObject *args) {
  const py_tokenizer *const self = (py_tokenizer *)object;
  PyObject *sequence;
  int special;
  size_t n = 0, n_text = 0;
  if (!PyArg_ParseTuple(args, "Op", &sequence, &special)) return NULL;
  uint32_t *const ids = py_ids_of(state_of(object), sequence, "ids", &n);
  if (ids == NULL) return NULL;
  const size_t size = text_bytes(&self->tokenizer, ids, n);
  const size_t scratch_bytes = 2 * et_tokenizer_piece_bytes(&self->tokenizer);
  char *const text = PyMem_RawMalloc(size + scratch_bytes);
  PyObject *result = NULL;
  et_error err = {.status = ET_OK};
  if (text == NULL)
    PyErr_NoMemory();
  else if (et_tokenizer_decode(&self->tokenizer, ids, n, special != 0, text, size, &n_text,
                               (et_span){text + size, scratch_bytes}, &err) == ET_OK)
    result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)n_text, "strict");
  else
    py_raise_error(state_of(object), &err);
  PyMem_RawFree(text);
  PyMem_RawFree(ids);
  return result;
}

// The state of a text that comes token by token, as bytes: none at its beginning.
static int decoder_of(const Py_buffer *state, et_text_decoder *decoder) {
  memset(decoder, 0, sizeof *decoder);
  if (state->len == (Py_ssize_t)sizeof *decoder) memcpy(decoder, state->buf, sizeof *decoder);
  if ((state->len == 0 || state->len == (Py_ssize_t)sizeof *decoder) && decoder->n_pending <= 4)
    return 0;
  PyErr_SetString(PyExc_ValueError, "state: expected none or that of the last push, got another");
  return -1;
}

static PyObject *push(PyObject *object, PyObject *args) {
  const py_tokenizer *const self = (py_tokenizer *)object;
  Py_buffer state;
  unsigned long id;
  if (!PyArg_ParseTuple(args, "y*k", &state, &id)) return NULL;
  et_text_decoder decoder;
  const size_t size = et_tokenizer_piece_bytes(&self->tokenizer);
  char *const text = decoder_of(&state, &decoder) < 0 ? NULL : PyMem_Malloc(3 * size + 16);
  PyBuffer_Release(&state);
  if (text == NULL) return PyErr_Occurred() ? NULL : PyErr_NoMemory();
  et_error err = {.status = ET_OK};
  size_t n = 0;
  PyObject *result = NULL;
  if (et_text_decoder_push(&decoder, &self->tokenizer, id > UINT32_MAX ? UINT32_MAX : (uint32_t)id,
                           text, size, &n, (et_span){text + size, 2 * size}, &err) == ET_OK)
    result = Py_BuildValue("y#s#", &decoder, (Py_ssize_t)sizeof decoder, text, (Py_ssize_t)n);
  else
    py_raise_error(state_of(object), &err);
  PyMem_Free(text);
  return result;
}

static PyObject *end(PyObject *object, PyObject *arg) {
  Py_buffer state;
  (void)object;
  if (PyObject_GetBuffer(arg, &state, PyBUF_SIMPLE) < 0) return NULL;
  et_text_decoder decoder;
  const int wrong = decoder_of(&state, &decoder);
  PyBuffer_Release(&state);
  if (wrong < 0) return NULL;
  char text[8];
  size_t n = 0;
  if (et_text_decoder_end(&decoder, text, sizeof text, &n, NULL) != ET_OK) n = 0;
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)n, "strict");
}

static PyObject *token(PyObject *object, PyObject *arg) {
  const py_tokenizer *const self = (py_tokenizer *)object;
  const long long id = PyLong_AsLongLong(arg);
  if (id == -1 && PyErr_Occurred()) return NULL;
  size_t n = 0;
  const bool known = id >= 0 && id < UINT32_MAX;
  const char *const bytes = known ? et_tokenizer_token(&self->tokenizer, (uint32_t)id, &n) : NULL;
  if (bytes == NULL)
    return py_raise(state_of(object), ET_INVALID_ARGUMENT,
                    "token: expected an id below %zu, got %R",
                    et_tokenizer_vocab_size(&self->tokenizer), arg);
  return PyBytes_FromStringAndSize(bytes, (Py_ssize_t)n);
}

static PyObject *vocab_size(PyObject *object, void *unused) {
  (void)unused;
  return PyLong_FromSize_t(et_tokenizer_vocab_size(&((py_tokenizer *)object)->tokenizer));
}

// ---- the type

static int traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT((PyObject *)((py_tokenizer *)object)->memory);
  return 0;
}

static void dealloc(PyObject *object) {
  PyTypeObject *const type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  Py_XDECREF((PyObject *)((py_tokenizer *)object)->memory);
  type->tp_free(object);
  Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"encode", encode, METH_VARARGS,
     "encode($self, text, special, around, /)\n--\n\nThe ids of a text."},
    {"decode", decode, METH_VARARGS, "decode($self, ids, special, /)\n--\n\nThe text of ids."},
    {"push", push, METH_VARARGS,
     "push($self, state, id, /)\n--\n\nThe next state of a text, and the piece that a token adds."},
    {"end", end, METH_O, "end($self, state, /)\n--\n\nThe last piece of a text."},
    {"token", token, METH_O, "token($self, id, /)\n--\n\nThe bytes of a token."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"vocab_size", vocab_size, NULL, "Number of ids.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (char *)"A prepared tokenizer. Use executorch_py.extension.llm.tokenizer."},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {Py_tp_traverse, traverse},
    {Py_tp_dealloc, dealloc},
    {0, NULL},
};

PyType_Spec py_tokenizer_spec = {
    .name = "executorch_py._C.Tokenizer",
    .basicsize = sizeof(py_tokenizer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};
