// py_optimizer.c — the module's optimizer_slots() and optimizer_update(): options from a dict,
// tensors from arrays. The formulas are runtime/training/optimizer.c's.
#include "bindings/py_errors.h"
#include "bindings/py_tensor_view.h"
#include "kernels/custom.h"
#include "runtime/message_text.h"
#include "runtime/training/et_train.h"

#include <string.h>

// ---- Options

typedef struct option {
  const char *name;
  size_t offset;
  bool is_flag;
} option;

#define OPTION(field, flag) {#field, offsetof(et_optimizer_options, field), flag}
static const option table[] = {
    OPTION(lr, false),       OPTION(weight_decay, false), OPTION(maximize, true),
    OPTION(momentum, false), OPTION(dampening, false),    OPTION(nesterov, true),
    OPTION(beta1, false),    OPTION(beta2, false),        OPTION(eps, false),
    OPTION(amsgrad, true),
};
enum { N_OPTIONS = sizeof table / sizeof table[0] };

static int set_option(py_state *state, et_optimizer_options *options, PyObject *key,
                      PyObject *value) {
  size_t i = 0;
  while (i < N_OPTIONS &&
         !(PyUnicode_Check(key) && PyUnicode_CompareWithASCIIString(key, table[i].name) == 0))
    i++;
  if (i == N_OPTIONS) {
    py_raise(state, ET_INVALID_ARGUMENT, "optimizer: expected the name of an option, got %R", key);
    return -1;
  }
  char *const field = (char *)options + table[i].offset;
  if (table[i].is_flag) {
    const int flag = PyObject_IsTrue(value);
    if (flag < 0) return -1;
    *(bool *)(void *)field = flag == 1;
    return 0;
  }
  const double number = PyFloat_AsDouble(value);
  if (number == -1.0 && PyErr_Occurred()) return -1;
  *(double *)(void *)field = number;
  return 0;
}

static int read_options(py_state *state, const char *kind, PyObject *given,
                        et_optimizer_options *options) {
  if (strcmp(kind, "sgd") == 0) {
    *options = et_sgd_options(1e-3);
  } else if (strcmp(kind, "adam") == 0) {
    *options = et_adam_options();
  } else if (strcmp(kind, "adamw") == 0) {
    *options = et_adamw_options();
  } else {
    py_raise(state, ET_INVALID_ARGUMENT, "optimizer: expected sgd, adam or adamw, got %s", kind);
    return -1;
  }
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (PyDict_Next(given, &at, &key, &value)) {
    if (set_option(state, options, key, value) < 0) return -1;
  }
  et_error err = {.status = ET_OK};
  if (et_optimizer_check(options, &err) == ET_OK) return 0;
  py_raise_error(state, &err);
  return -1;
}

PyObject *py_optimizer_slots(PyObject *module, PyObject *args) {
  const char *kind;
  PyObject *given;
  et_optimizer_options options;
  if (!PyArg_ParseTuple(args, "sO!", &kind, &PyDict_Type, &given)) return NULL;
  if (read_options(PyModule_GetState(module), kind, given, &options) < 0) return NULL;
  const Py_ssize_t n = (Py_ssize_t)et_optimizer_slots(&options);
  PyObject *const names = PyList_New(n);
  for (Py_ssize_t i = 0; names != NULL && i < n; i++) {
    PyObject *const name = PyUnicode_FromString(et_optimizer_slot_name(&options, (size_t)i));
    if (name == NULL) {
      Py_DECREF(names);
      return NULL;
    }
    PyList_SET_ITEM(names, i, name);
  }
  return names;
}

// ---- Update

typedef struct update {
  et_optimizer_options options;
  py_tensor_view parameter, gradient, state[ET_OPTIMIZER_SLOTS];
  float *slots[ET_OPTIMIZER_SLOTS];
} update;

static void release(update *u) {
  py_tensor_view_release(&u->parameter);
  py_tensor_view_release(&u->gradient);
  for (size_t i = 0; i < ET_OPTIMIZER_SLOTS; i++) py_tensor_view_release(&u->state[i]);
}

static int read_slots(py_state *state, PyObject *given, update *u) {
  const size_t n = et_optimizer_slots(&u->options);
  PyObject *const list = PySequence_Tuple(given);
  if (list == NULL) return -1;
  int result = 0;
  if ((size_t)PyTuple_GET_SIZE(list) != n) {
    py_raise(state, ET_INVALID_ARGUMENT, "optimizer: expected %zu state tensors, got %zd", n,
             PyTuple_GET_SIZE(list));
    result = -1;
  }
  for (size_t i = 0; result == 0 && i < n; i++) {
    py_tensor_view *const slot = &u->state[i];
    const char *const name = et_optimizer_slot_name(&u->options, i);
    result = py_tensor_view_of(state, PyTuple_GET_ITEM(list, (Py_ssize_t)i), name, false, slot);
    if (result < 0) break;
    if (slot->t.dtype != ET_F32 || !et_same_layout(&u->parameter.t, &slot->t)) {
      const et_tensor *const p = &u->parameter.t, *const t = &slot->t;
      py_raise(state, ET_INVALID_ARGUMENT,
               "%s: expected f32 %s in dim order %s, as the parameter, got %s %s in dim order %s",
               name, eti_sizes_text(p->sizes, p->rank).text,
               eti_dim_order_text(p->dim_order, p->rank).text, et_dtype_name((et_dtype)t->dtype),
               eti_sizes_text(t->sizes, t->rank).text,
               eti_dim_order_text(t->dim_order, t->rank).text);
      result = -1;
    }
    u->slots[i] = slot->t.data;
  }
  Py_DECREF(list);
  return result;
}

PyObject *py_optimizer_update(PyObject *module, PyObject *args) {
  py_state *const state = PyModule_GetState(module);
  const char *kind;
  PyObject *given, *parameter, *gradient, *slots;
  Py_ssize_t step;
  if (!PyArg_ParseTuple(args, "sO!nOOO", &kind, &PyDict_Type, &given, &step, &parameter, &gradient,
                        &slots))
    return NULL;
  if (step < 0)
    return py_raise(state, ET_INVALID_ARGUMENT, "step: expected 1 or more, got %zd", step);
  update u = {.options = {0}};
  et_error err = {.status = ET_OK};
  et_status status = ET_OK;
  const bool is_read = read_options(state, kind, given, &u.options) == 0 &&
                       py_tensor_view_of(state, parameter, "parameter", false, &u.parameter) == 0 &&
                       py_tensor_view_of(state, gradient, "gradient", true, &u.gradient) == 0 &&
                       read_slots(state, slots, &u) == 0;
  if (is_read) {
    Py_BEGIN_ALLOW_THREADS;
    status = et_optimizer_update(&u.options, (uint64_t)step, &u.parameter.t, &u.gradient.t, u.slots,
                                 &err);
    Py_END_ALLOW_THREADS;
  }
  release(&u);
  if (!is_read) return NULL;
  if (status != ET_OK) return py_raise_error(state, &err);
  Py_RETURN_NONE;
}
