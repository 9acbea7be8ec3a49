// py_module.c — the module `executorch_py._C`: definition, state, lifetime. Types and functions are
// in files of their own, listed here. Multi-phase initialisation; one interpreter only, because
// NumPy's function table is process-wide.
#include "bindings/py_module.h"

#include "bindings/py_delegates.h"
#include "bindings/py_errors.h"
#include "bindings/py_interrupt.h"
#include "bindings/py_op_library.h"

static py_state *state_of(PyObject *module) {
  return PyModule_GetState(module);
}

typedef struct word {
  size_t offset;
  const char *text;
} word;

#define WORD(field, text_) {offsetof(py_state, field), text_}
static const word words[] = {
    WORD(str_dtype, "dtype"),       WORD(str_numpy, "numpy"),     WORD(str_detach, "detach"),
    WORD(str_view, "view"),         WORD(str_device, "device"),   WORD(str_type, "type"),
    WORD(str_dlpack, "__dlpack__"), WORD(str_array, "__array__"), WORD(str_torch, "torch"),
    WORD(str_is_neg, "is_neg"),
};
enum { N_WORDS = sizeof words / sizeof words[0] };

static PyObject **word_at(py_state *state, size_t i) {
  return (PyObject **)((char *)state + words[i].offset);
}

static int add_types(py_state *state, PyObject *module) {
  struct {
    PyTypeObject **slot;
    PyType_Spec *spec;
  } types[] = {
      {&state->memory_type, &py_memory_spec},   {&state->program_type, &py_program_spec},
      {&state->method_type, &py_method_spec},   {&state->tokenizer_type, &py_tokenizer_spec},
      {&state->sampler_type, &py_sampler_spec}, {&state->generation_type, &py_generation_spec},
  };
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    *types[i].slot = (PyTypeObject *)PyType_FromModuleAndSpec(module, types[i].spec, NULL);
    if (*types[i].slot == NULL || PyModule_AddType(module, *types[i].slot) < 0) return -1;
  }
  return 0;
}

static int module_exec(PyObject *module) {
  py_state *state = state_of(module);
  state->module = module;
  if (py_numpy_import() < 0) return -1;
  for (size_t i = 0; i < N_WORDS; i++) {
    *word_at(state, i) = PyUnicode_InternFromString(words[i].text);
    if (*word_at(state, i) == NULL) return -1;
  }
  if (py_errors_init(state, module) < 0 || add_types(state, module) < 0) return -1;
  if (PyModule_AddIntConstant(module, "VERIFY_FULL", ET_VERIFY_FULL) < 0) return -1;
  return PyModule_AddIntConstant(module, "VERIFY_MINIMAL", ET_VERIFY_MINIMAL);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg) {
  py_state *state = state_of(module);
  Py_VISIT(state->memory_type);
  Py_VISIT(state->program_type);
  Py_VISIT(state->method_type);
  Py_VISIT(state->tokenizer_type);
  Py_VISIT(state->sampler_type);
  Py_VISIT(state->generation_type);
  Py_VISIT(state->base_error);
  for (size_t i = 0; i < PY_STATUS_SLOTS; i++) Py_VISIT(state->errors[i]);
  Py_VISIT(state->torch.tensor_type);
  Py_VISIT(state->torch.from_numpy);
  for (size_t d = 0; d < ET_DTYPE_COUNT; d++) {
    Py_VISIT(state->torch.dtypes[d]);
    Py_VISIT(state->ml_dtypes[d]);
  }
  return 0;
}

static int module_clear(PyObject *module) {
  py_state *state = state_of(module);
  Py_CLEAR(state->memory_type);
  Py_CLEAR(state->program_type);
  Py_CLEAR(state->method_type);
  Py_CLEAR(state->tokenizer_type);
  Py_CLEAR(state->sampler_type);
  Py_CLEAR(state->generation_type);
  Py_CLEAR(state->base_error);
  for (size_t i = 0; i < PY_STATUS_SLOTS; i++) Py_CLEAR(state->errors[i]);
  Py_CLEAR(state->torch.tensor_type);
  Py_CLEAR(state->torch.from_numpy);
  for (size_t d = 0; d < ET_DTYPE_COUNT; d++) {
    Py_CLEAR(state->torch.dtypes[d]);
    Py_CLEAR(state->ml_dtypes[d]);
  }
  for (size_t i = 0; i < N_WORDS; i++) Py_CLEAR(*word_at(state, i));
  return 0;
}

static void module_free(void *module) {
  py_watch_stop(state_of(module));
  py_op_libraries_free(state_of(module));
  py_delegates_free(state_of(module));
  module_clear(module);
}

static PyMethodDef module_methods[] = {
    {"open_program", (PyCFunction)(void (*)(void))py_open_program, METH_VARARGS | METH_KEYWORDS,
     "open_program($module, source, data=(), *, verification=0, n_threads=0, xnnpack=None)\n--\n\n"
     "Opens a program from a path or a buffer, with external data files (paths or buffers)."},
    {"kernel_manifest", py_kernel_manifest, METH_NOARGS,
     "kernel_manifest($module)\n--\n\nPer operator: input and output dtypes, largest rank, "
     "argument count."},
    {"backend_names", py_backend_names, METH_NOARGS,
     "backend_names($module)\n--\n\nDelegates this build can run."},
    {"system_info", py_system_info, METH_NOARGS,
     "system_info($module)\n--\n\nMachine, CPU features, XNNPACK, CPUs, compiler."},
    {"machine_rates", py_machine_rates, METH_VARARGS,
     "machine_rates($module, n_threads, sizes, /)\n--\n\nMeasures operations a second of f32 "
     "and of int8, and per working set in bytes the bytes a second (read, written, copied), of "
     "that many threads."},
    {"filled_bytes", py_filled_bytes, METH_VARARGS,
     "filled_bytes($module, size, fill, /)\n--\n\nBytes that `fill` writes into a memoryview."},
    {"data_file_bytes", py_data_file_bytes, METH_VARARGS,
     "data_file_bytes($module, tensors, /)\n--\n\nNamed tensors as a data file (.ptd)."},
    {"load_data_file", py_load_data_file, METH_VARARGS,
     "load_data_file($module, source, tensors, /)\n--\n\nFills named tensors from a data file."},
    {"optimizer_slots", py_optimizer_slots, METH_VARARGS,
     "optimizer_slots($module, kind, options, /)\n--\n\nChecks the options of an optimizer; names "
     "of the state tensors of a parameter."},
    {"optimizer_update", py_optimizer_update, METH_VARARGS,
     "optimizer_update($module, kind, options, step, parameter, gradient, slots, /)\n--\n\n"
     "Updates a parameter and its state tensors in place."},
    {"prepare_tokenizer", py_prepare_tokenizer, METH_VARARGS,
     "prepare_tokenizer($module, file, format, pattern, special, /)\n--\n\nThe prepared form of a "
     "tokenizer's file."},
    {"new_sampler", py_new_sampler, METH_VARARGS,
     "new_sampler($module, vocab_size, options, hook, /)\n--\n\nA sampler with options by name."},
    {"new_generation", py_new_generation, METH_VARARGS,
     "new_generation($module, decoder, tokenizer, sampler, prompt, max_new_tokens, eos, stop, "
     "draft, max_draft, /)\n--\n\nA text behind a prompt."},
    {"open_tokenizer", py_open_tokenizer, METH_O,
     "open_tokenizer($module, prepared, /)\n--\n\nOpens a prepared tokenizer."},
    {"load_ops", (PyCFunction)(void (*)(void))py_load_ops, METH_VARARGS | METH_KEYWORDS,
     "load_ops($module, path, *, replace=False)\n--\n\nLoads a library of operators for methods "
     "loaded from now on; their names."},
    {"loaded_ops", py_loaded_ops, METH_NOARGS,
     "loaded_ops($module)\n--\n\nPath and operators of each loaded library, newest first."},
    {"_after_fork", py_after_fork, METH_NOARGS,
     "_after_fork($module)\n--\n\nCalled in the child of os.fork()."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL},
};

PyModuleDef py_module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "executorch_py._C",
    .m_doc = "The C runtime for .pte programs. Use executorch_py.runtime, which is built on it.",
    .m_size = sizeof(py_state),
    .m_methods = module_methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__C(void);
PyMODINIT_FUNC PyInit__C(void) {
  return PyModuleDef_Init(&py_module_def);
}
