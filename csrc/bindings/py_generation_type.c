// py_generation_type.c — the module's new_generation() and its type Generation: a text, piece by
// piece. The loop is llm/generation/; the decoders are Python objects (py_decoder.c).
#include "bindings/py_decoder.h"
#include "bindings/py_errors.h"

#include <string.h>

typedef struct py_generation {
  PyObject_HEAD et_llm_generation generation;
  py_decoder main, draft;
  PyObject *tokenizer, *sampler;  // strong
  et_llm_lookup lookup;
  et_llm_drafter drafter;
  uint32_t *eos;
  const char **stop;
  PyObject *stop_list;  // strong: keeps the bytes of the strings
  void *memory;
  bool running;
} py_generation;

static py_state *state_of(PyObject *self) {
  return PyType_GetModuleState(Py_TYPE(self));
}

// ---- arguments

// Options of the generation from (max_new_tokens, eos, stop, max_draft).
static int read_options(py_generation *self, PyObject *eos, PyObject *stop,
                        et_llm_options *options) {
  self->eos = py_ids_of(state_of((PyObject *)self), eos, "eos", &options->n_eos);
  if (self->eos == NULL) return -1;
  self->stop_list = PySequence_Tuple(stop);
  if (self->stop_list == NULL) return -1;
  options->n_stop = (size_t)PyTuple_GET_SIZE(self->stop_list);
  self->stop = PyMem_Malloc((options->n_stop + 1) * sizeof *self->stop);
  if (self->stop == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  for (size_t i = 0; i < options->n_stop; i++) {
    PyObject *const text = PyTuple_GET_ITEM(self->stop_list, (Py_ssize_t)i);
    Py_ssize_t n;
    self->stop[i] = PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, &n) : NULL;
    if (self->stop[i] != NULL && strlen(self->stop[i]) == (size_t)n) continue;
    PyErr_Clear();
    py_raise(state_of((PyObject *)self), ET_INVALID_ARGUMENT,
             "stop[%zu]: expected a text without NUL, got %R", i, text);
    return -1;
  }
  options->eos = self->eos;
  options->stop = self->stop;
  options->clock_ns = et_clock_ns;
  return 0;
}

// How drafts are made: None, (least, most) tokens of a lookup, or a decoder.
static int read_drafter(py_generation *self, PyObject *draft, et_llm_options *options) {
  if (draft == Py_None) return 0;
  if (PyTuple_Check(draft)) {
    Py_ssize_t least, most;
    if (!PyArg_ParseTuple(draft, "nn", &least, &most)) return -1;
    self->lookup = (et_llm_lookup){(size_t)least, (size_t)most};
    self->drafter = et_llm_lookup_drafter(&self->lookup);
  } else {
    if (py_decoder_init(&self->draft, draft) < 0) return -1;
    if (self->draft.decoder.vocab_size != self->main.decoder.vocab_size) {
      py_raise(state_of((PyObject *)self), ET_INVALID_ARGUMENT,
               "draft: expected a model of the same %zu words, got one of %zu",
               self->main.decoder.vocab_size, self->draft.decoder.vocab_size);
      return -1;
    }
    self->drafter = et_llm_model_drafter(&self->draft.decoder);
  }
  options->drafter = &self->drafter;
  return 0;
}

static int begin(py_generation *self, PyObject *prompt, const et_llm_parts *parts,
                 const et_llm_options *options) {
  py_state *const state = state_of((PyObject *)self);
  const size_t bytes = et_llm_generation_bytes(parts, options);
  self->memory = PyMem_RawMalloc(bytes);
  if (self->memory == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  size_t n;
  uint32_t *const ids = py_ids_of(state, prompt, "prompt", &n);
  if (ids == NULL) return -1;
  et_error err = {.status = ET_OK};
  const et_status status = et_llm_generation_begin(&self->generation, parts, options, ids, n,
                                                   (et_span){self->memory, bytes}, &err);
  PyMem_RawFree(ids);
  if (status != ET_OK) py_raise_error(state, &err);
  return status == ET_OK ? 0 : -1;
}

PyObject *py_new_generation(PyObject *module, PyObject *args) {
  py_state *const state = PyModule_GetState(module);
  PyObject *decoder, *tokenizer, *sampler, *prompt, *eos, *stop, *draft;
  Py_ssize_t most, max_draft;
  if (!PyArg_ParseTuple(args, "OOOOnOOOn", &decoder, &tokenizer, &sampler, &prompt, &most, &eos,
                        &stop, &draft, &max_draft))
    return NULL;
  et_llm_parts parts;
  parts.tokenizer = py_tokenizer_of(state, tokenizer);
  if (parts.tokenizer == NULL) return NULL;
  parts.sampler = py_sampler_of(state, sampler, &parts.counts);
  if (parts.sampler == NULL) return NULL;
  py_generation *const self =
      (py_generation *)state->generation_type->tp_alloc(state->generation_type, 0);
  if (self == NULL) return NULL;
  self->tokenizer = Py_NewRef(tokenizer);
  self->sampler = Py_NewRef(sampler);
  parts.decoder = &self->main.decoder;
  et_llm_options options = {.max_new_tokens = most < 0 ? SIZE_MAX : (size_t)most,
                            .max_draft = (size_t)max_draft};
  if (py_decoder_init(&self->main, decoder) == 0 && read_options(self, eos, stop, &options) == 0 &&
      read_drafter(self, draft, &options) == 0 && begin(self, prompt, &parts, &options) == 0)
    return (PyObject *)self;
  Py_DECREF(self);
  return NULL;
}

// ---- the text

static PyObject *tuple_of(const et_llm_piece *piece) {
  PyObject *const best = piece->has_token ? py_sampler_best(piece->sample) : PyList_New(0);
  if (best == NULL) return NULL;
  return Py_BuildValue("s#lidN", piece->text, (Py_ssize_t)piece->n,
                       piece->has_token ? (long)piece->token : -1L, (int)piece->finish,
                       piece->has_token ? piece->sample->logprob : 0.0, best);
}

static PyObject *next(PyObject *object, PyObject *unused) {
  py_generation *const self = (py_generation *)object;
  (void)unused;
  if (self->running)
    return py_raise(state_of(object), ET_INVALID_STATE,
                    "expected one call of a text at a time, got a second one while the first runs");
  et_llm_piece piece;
  et_error err = {.status = ET_OK};
  self->running = true;
  Py_INCREF(object);
  const et_status status = et_llm_next(&self->generation, &piece, &err);
  self->running = false;
  PyObject *result = NULL;
  const bool raised = PyErr_Occurred() != NULL;  // by the decoder or the hook
  if (!raised && status == ET_OK) result = tuple_of(&piece);
  if (!raised && status == ET_END_OF_METHOD) result = Py_NewRef(Py_None);
  if (!raised && result == NULL && !PyErr_Occurred()) py_raise_error(state_of(object), &err);
  Py_DECREF(object);
  return result;
}

static PyObject *stop(PyObject *object, PyObject *unused) {
  (void)unused;
  et_llm_stop(&((py_generation *)object)->generation);
  Py_RETURN_NONE;
}

static PyObject *stats(PyObject *object, PyObject *unused) {
  (void)unused;
  const et_llm_stats *const s = &((py_generation *)object)->generation.stats;
  return Py_BuildValue(
      "{s:n,s:n,s:n,s:n,s:n,s:n,s:K,s:K,s:K,s:K,s:K}", "n_prompt", (Py_ssize_t)s->n_prompt,
      "n_cached", (Py_ssize_t)s->n_cached, "n_generated", (Py_ssize_t)s->n_generated, "n_drafted",
      (Py_ssize_t)s->n_drafted, "n_accepted", (Py_ssize_t)s->n_accepted, "n_reads",
      (Py_ssize_t)s->n_reads, "begin_ns", (unsigned long long)s->begin_ns, "prompt_end_ns",
      (unsigned long long)s->prompt_end_ns, "first_token_ns", (unsigned long long)s->first_token_ns,
      "end_ns", (unsigned long long)s->end_ns, "sampling_ns", (unsigned long long)s->sampling_ns);
}

// ---- the type

static int traverse(PyObject *object, visitproc visit, void *arg) {
  const py_generation *const self = (py_generation *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->tokenizer);
  Py_VISIT(self->sampler);
  Py_VISIT(self->stop_list);
  const int found = py_decoder_traverse(&self->main, visit, arg);
  return found != 0 ? found : py_decoder_traverse(&self->draft, visit, arg);
}

// Decoders of Python may refer to the text; tokenizer and sampler never do.
static int clear(PyObject *object) {
  py_generation *const self = (py_generation *)object;
  self->generation.failed = true;
  py_decoder_clear(&self->main);
  py_decoder_clear(&self->draft);
  return 0;
}

static void dealloc(PyObject *object) {
  py_generation *const self = (py_generation *)object;
  PyTypeObject *const type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  (void)clear(object);
  Py_XDECREF(self->tokenizer);
  Py_XDECREF(self->sampler);
  Py_XDECREF(self->stop_list);
  PyMem_RawFree(self->eos);
  PyMem_Free(self->stop);
  PyMem_RawFree(self->memory);
  type->tp_free(object);
  Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"next", next, METH_NOARGS,
     "next($self, /)\n--\n\nThe next piece: text, token or -1, finish, log-probability, best; None "
     "after the last one."},
    {"stop", stop, METH_NOARGS, "stop($self, /)\n--\n\nEnds the text; from any thread."},
    {"stats", stats, METH_NOARGS, "stats($self, /)\n--\n\nNumbers and times so far."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (char *)"A text. Use executorch_py.extension.llm.runner."},
    {Py_tp_methods, methods},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_dealloc, dealloc},
    {0, NULL},
};

PyType_Spec py_generation_spec = {
    .name = "executorch_py._C.Generation",
    .basicsize = sizeof(py_generation),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};
