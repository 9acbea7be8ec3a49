// py_op_library.c — see py_op_library.h. A library exports one constant (kernels/custom.h). It is
// checked, and its rows are copied in sorted order into a table in front of the existing ones.
// Tables never change afterwards, so methods may keep the tables they were loaded with.
#include "bindings/py_op_library.h"

#include "bindings/py_errors.h"
#include "kernels/custom.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct py_op_library {
  struct py_op_library *older;
  void *handle;
  PyObject *path;  // str
  struct stat file;
  et_op_table table;  // in front of the older ones
  et_op *ops;         // sorted
} py_op_library;

const char py_op_missing_advice[] =
    "; a kernel of your own, in one C file: `executorch_py build-ops my_op.c -o my_op.so`, then "
    "executorch_py.load_ops(\"my_op.so\") before the method is loaded, or `executorch_py run "
    "FILE --ops my_op.so` (`executorch_py build-ops --example` prints such a file)";

const et_op_table *py_op_table(const py_state *state) {
  return state->libraries == NULL ? &et_ops_portable : &state->libraries->table;
}

static void release(py_op_library *library) {
  Py_XDECREF(library->path);
  PyMem_Free(library->ops);
  PyMem_Free(library);
}

void py_op_libraries_free(py_state *state) {
  while (state->libraries != NULL) {
    py_op_library *library = state->libraries;
    state->libraries = library->older;
    release(library);
  }
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const et_op *)a)->name, ((const et_op *)b)->name);
}

// ---- checks

static int check_abi(py_state *state, PyObject *path, const et_op_library *shown) {
  if (shown->magic != ET_OPS_MAGIC) {
    py_raise(state, ET_INVALID_ARGUMENT, "%U: its et_op_library_v1 is not one of ET_OP_LIBRARY",
             path);
    return -1;
  }
  const bool sizes =
      shown->op_bytes == sizeof(et_op) && shown->value_bytes == sizeof(et_value) &&
      shown->tensor_bytes == sizeof(et_tensor) && shown->context_bytes == sizeof(et_kernel_ctx) &&
      shown->prepare_bytes == sizeof(et_prepare_ctx) && shown->error_bytes == sizeof(et_error);
  if (shown->abi == ET_OPS_ABI && sizes) return 0;
  py_raise(state, ET_NOT_SUPPORTED,
           "%U was built against operator interface %u%s, this runtime has %u: build it again "
           "with `executorch_py build-ops`",
           path, (unsigned)shown->abi, sizes ? "" : " with structures of other sizes",
           (unsigned)ET_OPS_ABI);
  return -1;
}

static int check_op(py_state *state, PyObject *path, const et_op *op) {
  const char *problem = NULL;
  if (op->name == NULL || strstr(op->name, "::") == NULL) {
    py_raise(state, ET_INVALID_ARGUMENT,
             "%U: operator name: expected one with a namespace, as in mylib::softcap.out, got %s",
             path, op->name == NULL ? "none" : op->name);
    return -1;
  }
  if (op->run == NULL) {
    problem = "it has no run function";
  } else if (op->n_args == 0) {
    problem = "n_args is 0; it counts the schema's arguments, the out arguments, and 1 more";
  } else if (op->max_rank > ET_MAX_RANK) {
    problem = "max_rank is greater than ET_MAX_RANK";
  }
  if (problem == NULL) return 0;
  py_raise(state, ET_INVALID_ARGUMENT, "%U: operator %s: %s", path, op->name, problem);
  return -1;
}

// Refuses an operator that another library has or that is built in, unless `replace` allows it.
static int check_conflicts(py_state *state, const py_op_library *library, bool replace) {
  for (size_t i = 0; i < library->table.n_ops; i++) {
    const et_op *op = &library->ops[i];
    if (i > 0 && strcmp(library->ops[i - 1].name, op->name) == 0) {
      py_raise(state, ET_INVALID_ARGUMENT, "%U has operator %s twice", library->path, op->name);
      return -1;
    }
    if (replace || et_op_find(py_op_table(state), op->name) == NULL) continue;
    const py_op_library *other = state->libraries;
    while (other != NULL &&
           bsearch(op, other->ops, other->table.n_ops, sizeof *op, by_name) == NULL)
      other = other->older;
    py_raise(state, ET_ALREADY_LOADED,
             "%U has operator %s, which %s %V; replace=True puts this one in front", library->path,
             op->name, other == NULL ? "is" : "came from", other == NULL ? NULL : other->path,
             "built in");
    return -1;
  }
  return 0;
}

// ---- opening

static const et_op_library *open_library(py_state *state, py_op_library *library,
                                         const char *file) {
  if (stat(file, &library->file) != 0) {
    py_raise(state, ET_ACCESS_FAILED, "%U cannot be read: build it with `executorch_py build-ops`",
             library->path);
    return NULL;
  }
  library->handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library->handle == NULL) {
    const char *why = dlerror();
    py_raise(state, ET_ACCESS_FAILED, "%U cannot be loaded: %s", library->path,
             why == NULL ? "unknown reason" : why);
    return NULL;
  }
  const et_op_library *shown = dlsym(library->handle, "et_op_library_v1");
  if (shown == NULL) {
    py_raise(state, ET_INVALID_ARGUMENT,
             "%U has no operators: its C file needs ET_OP_LIBRARY(ops); (kernels/custom.h)",
             library->path);
    return NULL;
  }
  return shown;
}

// The entry of a library that is loaded already. A file rebuilt since then is an error: the system
// would load its old code again.
static py_op_library *loaded_before(py_state *state, const py_op_library *library) {
  for (py_op_library *old = state->libraries; old != NULL; old = old->older) {
    if (old->handle != library->handle) continue;
    const struct stat *a = &old->file, *b = &library->file;
    if (a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
        a->st_mtime == b->st_mtime)
      return old;
    py_raise(state, ET_ALREADY_LOADED,
             "%U was rebuilt after it was loaded: start Python again, or build it under "
             "another name",
             library->path);
    return NULL;
  }
  return NULL;
}

static int copy_ops(py_state *state, py_op_library *library, const et_op_table *shown) {
  if (shown->ops == NULL || shown->n_ops == 0 || shown->n_ops > 65536) {
    py_raise(state, ET_INVALID_ARGUMENT, "%U: expected 1 to 65536 operators, got %zu",
             library->path, shown->n_ops);
    return -1;
  }
  for (size_t i = 0; i < shown->n_ops; i++) {
    if (check_op(state, library->path, &shown->ops[i]) < 0) return -1;
  }
  library->ops = PyMem_Calloc(shown->n_ops, sizeof *library->ops);
  if (library->ops == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  memcpy(library->ops, shown->ops, shown->n_ops * sizeof *library->ops);
  qsort(library->ops, shown->n_ops, sizeof *library->ops, by_name);
  library->table =
      (et_op_table){.ops = library->ops, .n_ops = shown->n_ops, .next = py_op_table(state)};
  return 0;
}

static PyObject *names_of(const py_op_library *library) {
  PyObject *names = PyList_New((Py_ssize_t)library->table.n_ops);
  for (size_t i = 0; names != NULL && i < library->table.n_ops; i++) {
    PyObject *name = PyUnicode_DecodeUTF8(library->ops[i].name,
                                          (Py_ssize_t)strlen(library->ops[i].name), "replace");
    if (name == NULL) {
      Py_CLEAR(names);
      return NULL;
    }
    PyList_SET_ITEM(names, (Py_ssize_t)i, name);
  }
  return names;
}

PyObject *py_load_ops(PyObject *module, PyObject *args, PyObject *kwargs) {
  static char *names[] = {(char *)"path", (char *)"replace", NULL};
  PyObject *encoded = NULL;
  int replace = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$p:load_ops", names, PyUnicode_FSConverter,
                                   &encoded, &replace))
    return NULL;
  py_state *state = PyModule_GetState(module);
  PyObject *result = NULL;
  py_op_library *library = PyMem_Calloc(1, sizeof *library);
  if (library == NULL) {
    PyErr_NoMemory();
    goto done;
  }
  library->path = PyUnicode_DecodeFSDefault(PyBytes_AS_STRING(encoded));
  if (library->path == NULL) goto done;
  const et_op_library *shown = open_library(state, library, PyBytes_AS_STRING(encoded));
  if (shown == NULL) goto done;
  py_op_library *old = loaded_before(state, library);
  if (old != NULL || PyErr_Occurred()) {
    result = old == NULL ? NULL : names_of(old);
    goto done;
  }
  if (check_abi(state, library->path, shown) < 0 || copy_ops(state, library, &shown->table) < 0 ||
      check_conflicts(state, library, replace != 0))
    goto done;
  result = names_of(library);
  if (result == NULL) goto done;
  library->older = state->libraries;
  state->libraries = library;
  library = NULL;
done:
  if (library != NULL) release(library);
  Py_XDECREF(encoded);
  return result;
}

PyObject *py_loaded_ops(PyObject *module, PyObject *unused) {
  (void)unused;
  const py_state *state = PyModule_GetState(module);
  PyObject *list = PyList_New(0);
  for (const py_op_library *library = state->libraries; list != NULL && library != NULL;
       library = library->older) {
    PyObject *names = names_of(library);
    PyObject *pair = names == NULL ? NULL : Py_BuildValue("(ON)", library->path, names);
    if (pair == NULL || PyList_Append(list, pair) < 0) Py_CLEAR(list);
    Py_XDECREF(pair);
  }
  return list;
}
