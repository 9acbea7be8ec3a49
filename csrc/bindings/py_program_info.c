// py_program_info.c — facts about methods, operators and this machine as plain Python dicts and
// lists. Cold code: clarity before speed. Relies on the runtime's queries, which read the file
// without loading a method.
#include "bindings/py_program.h"

#include <string.h>

#include "bindings/py_dtypes.h"
#include "bindings/py_errors.h"
#include "bindings/py_op_library.h"
#include "tools/machine_rates.h"
#if defined(ET_HAVE_XNNPACK)
#include "backends/xnnpack/version_info.h"
#endif

static const char *tag_name(et_tag tag) {
  static const char *const names[] = {"None",    "Tensor",     "String",   "Double",
                                      "Int",     "Bool",       "ListBool", "ListDouble",
                                      "ListInt", "ListTensor", "Scalar",   "ListOptionalTensor"};
  return (size_t)tag < sizeof names / sizeof names[0] ? names[tag] : "Unknown";
}

// Sets dict[key] = value, stealing the value. -1 with an exception set.
static int set_item(PyObject *dict, const char *key, PyObject *value) {
  const int result = value == NULL ? -1 : PyDict_SetItemString(dict, key, value);
  Py_XDECREF(value);
  return result;
}

static int append_item(PyObject *list, PyObject *value) {
  const int result = value == NULL ? -1 : PyList_Append(list, value);
  Py_XDECREF(value);
  return result;
}

static PyObject *text(const char *bytes) {
  return PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)strlen(bytes), "surrogateescape");
}

PyObject *py_tensor_info_dict(et_tag tag, const et_tensor_info *info) {
  if (tag != ET_TENSOR) return Py_BuildValue("{s:s}", "tag", tag_name(tag));
  PyObject *sizes = PyTuple_New((Py_ssize_t)info->rank),
           *order = PyTuple_New((Py_ssize_t)info->rank);
  for (size_t d = 0; sizes != NULL && order != NULL && d < info->rank; d++) {
    PyTuple_SET_ITEM(sizes, (Py_ssize_t)d, PyLong_FromLong(info->sizes[d]));
    PyTuple_SET_ITEM(order, (Py_ssize_t)d, PyLong_FromLong(info->dim_order[d]));
  }
  if (sizes == NULL || order == NULL || PyErr_Occurred()) {
    Py_XDECREF(sizes);
    Py_XDECREF(order);
    return NULL;
  }
  return Py_BuildValue("{s:s,s:i,s:s,s:N,s:N,s:n,s:N,s:N,s:N}", "tag", tag_name(tag), "dtype",
                       (int)info->dtype, "dtype_name", py_dtype_python_name(info->dtype), "sizes",
                       sizes, "dim_order", order, "nbytes", (Py_ssize_t)info->bytes, "planned",
                       PyBool_FromLong(info->is_planned), "dynamic",
                       PyBool_FromLong(info->is_dynamic), "name",
                       info->name != NULL ? text(info->name) : Py_NewRef(Py_None));
}

static PyObject *slots(const py_program *program, const char *name, et_slot_kind kind, size_t n) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list != NULL && i < n; i++) {
    et_error err = {.status = ET_OK};
    et_tag tag;
    et_tensor_info info;
    if (et_program_slot_info(&program->program, name, kind, i, &tag, &info, &err) != ET_OK) {
      py_raise_error(program->state, &err);
      Py_CLEAR(list);
    } else if (append_item(list, py_tensor_info_dict(tag, &info)) < 0) {
      Py_CLEAR(list);
    }
  }
  return list;
}

typedef struct op_lists {
  PyObject *operators, *delegates;
  bool failed;
} op_lists;

static void visit(void *ctx, const char *name, const char *overload, bool is_delegate,
                  size_t n_calls, size_t bytes) {
  op_lists *lists = ctx;
  if (lists->failed) return;
  PyObject *item;
  if (is_delegate) {
    item = Py_BuildValue("{s:N,s:n,s:n}", "id", text(name), "calls", (Py_ssize_t)n_calls, "nbytes",
                         (Py_ssize_t)bytes);
  } else {
    PyObject *whole =
        overload[0] == '\0' ? text(name) : PyUnicode_FromFormat("%s.%s", name, overload);
    item = Py_BuildValue("{s:N,s:n}", "name", whole, "calls", (Py_ssize_t)n_calls);
  }
  lists->failed = append_item(is_delegate ? lists->delegates : lists->operators, item) < 0;
}

static int add_operators(const py_program *program, const char *name, PyObject *dict) {
  op_lists lists = {.operators = PyList_New(0), .delegates = PyList_New(0)};
  int result = -1;
  if (lists.operators == NULL || lists.delegates == NULL) goto done;
  et_error err = {.status = ET_OK};
  const et_status status = et_program_visit_operators(&program->program, name, visit, &lists, &err);
  if (status != ET_OK) {
    py_raise_error(program->state, &err);
  } else if (!lists.failed && PyDict_SetItemString(dict, "operators", lists.operators) == 0 &&
             PyDict_SetItemString(dict, "delegates", lists.delegates) == 0) {
    result = 0;
  }
done:
  Py_XDECREF(lists.operators);
  Py_XDECREF(lists.delegates);
  return result;
}

static PyObject *planned_list(const py_program *program, const char *name, size_t n) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list != NULL && i < n; i++) {
    et_error err = {.status = ET_OK};
    size_t bytes = 0;
    if (et_program_planned_bytes(&program->program, name, i, &bytes, &err) != ET_OK) {
      py_raise_error(program->state, &err);
      Py_CLEAR(list);
    } else if (append_item(list, PyLong_FromSize_t(bytes)) < 0) {
      Py_CLEAR(list);
    }
  }
  return list;
}

PyObject *py_program_method_info(py_program *program, const char *name) {
  et_error err = {.status = ET_OK};
  et_method_info info;
  if (et_program_method_info(&program->program, name, &info, &err) != ET_OK)
    return py_raise_error(program->state, &err);
  PyObject *dict = PyDict_New();
  if (dict == NULL) return NULL;
  if (set_item(dict, "name", text(info.name)) < 0 ||
      set_item(dict, "inputs", slots(program, name, ET_SLOT_INPUT, info.n_inputs)) < 0 ||
      set_item(dict, "outputs", slots(program, name, ET_SLOT_OUTPUT, info.n_outputs)) < 0 ||
      set_item(dict, "attributes", slots(program, name, ET_SLOT_ATTRIBUTE, info.n_attributes)) <
          0 ||
      set_item(dict, "n_values", PyLong_FromSize_t(info.n_values)) < 0 ||
      set_item(dict, "n_instructions", PyLong_FromSize_t(info.n_instructions)) < 0 ||
      set_item(dict, "planned", planned_list(program, name, info.n_planned)) < 0 ||
      set_item(dict, "input_structure", text(info.input_structure)) < 0 ||
      set_item(dict, "output_structure", text(info.output_structure)) < 0 ||
      add_operators(program, name, dict) < 0) {
    Py_DECREF(dict);
    return NULL;
  }
  return dict;
}

// ---- facts of this build

static PyObject *dtype_list(et_dtype_set set) {
  PyObject *list = PyList_New(0);
  for (int d = 0; list != NULL && d < ET_DTYPE_COUNT; d++) {
    if ((set & ET_DTYPE_BIT((unsigned)d)) == 0) continue;
    if (append_item(list, PyUnicode_FromString(et_dtype_name((et_dtype)d))) < 0) Py_CLEAR(list);
  }
  return list;
}

PyObject *py_kernel_manifest(PyObject *module, PyObject *unused) {
  (void)unused;
  PyObject *manifest = PyDict_New();
  for (const et_op_table *table = py_op_table(PyModule_GetState(module));
       manifest != NULL && table != NULL; table = table->next) {
    for (size_t i = 0; manifest != NULL && i < table->n_ops; i++) {
      const et_op *op = &table->ops[i];
      if (et_op_find(py_op_table(PyModule_GetState(module)), op->name) != op) continue;  // replaced
      PyObject *row =
          Py_BuildValue("{s:N,s:N,s:i,s:i}", "inputs", dtype_list(op->in_dtypes), "outputs",
                        dtype_list(op->out_dtypes), "max_rank",
                        op->max_rank != 0 ? op->max_rank : ET_MAX_RANK, "n_args", (int)op->n_args);
      if (set_item(manifest, op->name, row) < 0) Py_CLEAR(manifest);
    }
  }
  return manifest;
}

PyObject *py_backend_names(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list != NULL && i < et_backends_builtin.n_backends; i++) {
    const et_backend *backend = et_backends_builtin.backends[i];
    if (backend->is_available != NULL && !backend->is_available()) continue;
    if (append_item(list, PyUnicode_FromString(backend->id)) < 0) Py_CLEAR(list);
  }
  return list;
}

#if defined(__x86_64__) && defined(__GNUC__)
static void add_feature(PyObject *list, bool is_here, const char *name) {
  if (is_here && append_item(list, PyUnicode_FromString(name)) < 0) PyErr_Clear();
}

static void add_cpu_features(PyObject *list) {
  // __builtin_cpu_supports takes literals only.
#define FEATURE(name) add_feature(list, __builtin_cpu_supports(name), name)
  FEATURE("sse4.2");
  FEATURE("avx");
  FEATURE("fma");
  FEATURE("avx2");
  FEATURE("avx512f");
  FEATURE("avx512bw");
  FEATURE("avx512dq");
  FEATURE("avx512vl");
  FEATURE("avx512vnni");
  FEATURE("avx512bf16");
#undef FEATURE
  add_feature(list, eti_machine_has_amx(), "amx-int8");  // lent by the system, too
}
static const char machine[] = "x86-64";
#elif defined(__aarch64__)
static void add_cpu_features(PyObject *list) {
  if (append_item(list, PyUnicode_FromString("neon")) < 0) PyErr_Clear();
}
static const char machine[] = "arm64";
#else
static void add_cpu_features(PyObject *list) {
  (void)list;
}
static const char machine[] = "other";
#endif

#if defined(ET_HAVE_XNNPACK)
enum { MAX_NAMES = 32 };

// A list of strings that `tell` fills in.
static PyObject *names_of(size_t (*tell)(const char **names, size_t n)) {
  const char *names[MAX_NAMES];
  const size_t n = tell(names, MAX_NAMES);
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list != NULL && i < n && i < MAX_NAMES; i++) {
    if (append_item(list, PyUnicode_FromString(names[i])) < 0) Py_CLEAR(list);
  }
  return list;
}
#endif

// The XNNPACK that is linked, or None.
static PyObject *describe_xnnpack(void) {
#if defined(ET_HAVE_XNNPACK)
  PyObject *const sets = names_of(eti_xnn_instruction_sets);
  PyObject *const own = sets == NULL ? NULL : names_of(eti_xnn_own_kernels);
  if (own == NULL) {
    Py_XDECREF(sets);
    return NULL;
  }
  return Py_BuildValue("{s:s,s:N,s:N}", "version", eti_xnn_version(), "instruction_sets", sets,
                       "own_kernels", own);
#else
  return Py_NewRef(Py_None);
#endif
}

PyObject *py_system_info(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  PyObject *features = PyList_New(0);
  if (features == NULL) return NULL;
  add_cpu_features(features);
  PyObject *xnnpack = describe_xnnpack();
  if (xnnpack == NULL) {
    Py_DECREF(features);
    return NULL;
  }
#if defined(__clang__)
  const char compiler[] = "clang " __clang_version__;
#else
  const char compiler[] = "gcc " __VERSION__;
#endif
  return Py_BuildValue(
      "{s:s,s:N,s:N,s:n,s:s,s:N}", "machine", machine, "cpu_features", features, "xnnpack", xnnpack,
      "cpu_count", (Py_ssize_t)et_cpu_count(), "compiler", compiler, "version",
      PyUnicode_FromFormat("%d.%d.%d", ET_VERSION_MAJOR, ET_VERSION_MINOR, ET_VERSION_PATCH));
}
