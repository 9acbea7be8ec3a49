// py_trace.c — Method.trace(): one run that copies the results of every instruction, for verifiers
// that look for the first wrong one. Planned memory is written again by later instructions, so the
// copies are made as the run goes. Relies on the runtime's events; knows no operator.
#include "bindings/py_method.h"

typedef struct trace {
  py_method *method;
  PyObject *list;
} trace;

// A copy of a value; None when Python has no element type for it. NULL without memory.
static PyObject *copied(py_method *self, const et_value *value) {
  PyObject *object = value == NULL ? NULL : py_output_object(self, value, true, self->kind);
  if (object != NULL || PyErr_ExceptionMatches(PyExc_MemoryError)) return object;
  PyErr_Clear();
  Py_RETURN_NONE;
}

// Number of arguments, from the last one on, that hold results: all of a delegate's call, whose
// outputs the file does not tell; one of an operator, its result again (a tensor, or the list of
// several), and of a move, the value that it replaces.
static size_t count_results(const et_event *event) {
  switch (event->instruction_kind) {
    case ET_INSTRUCTION_DELEGATE:
      return event->n_args;
    case ET_INSTRUCTION_OPERATOR:
    case ET_INSTRUCTION_MOVE:
      return event->n_args < 1 ? event->n_args : 1;
    default:
      return 0;
  }
}

static PyObject *results_of(py_method *self, const et_event *event) {
  const size_t n = count_results(event), first = event->n_args - n;
  PyObject *list = PyList_New((Py_ssize_t)n);
  for (size_t i = 0; list != NULL && i < n; i++) {
    PyObject *const value = copied(self, event->args[first + i]);
    if (value == NULL) Py_CLEAR(list);
    if (list != NULL) PyList_SET_ITEM(list, (Py_ssize_t)i, value);
  }
  return list;
}

// Records one event; called without the GIL.
static et_status on_event(void *ctx, const et_event *event) {
  trace *const to = ctx;
  if (event->kind != ET_EVENT_END || event->status != ET_OK) return ET_OK;
  const PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *results = results_of(to->method, event);
  PyObject *item = results == NULL ? NULL
                                   : Py_BuildValue("(nsN)", (Py_ssize_t)event->instruction,
                                                   event->operator_name, results);
  const bool failed = item == NULL || PyList_Append(to->list, item) < 0;
  Py_XDECREF(item);
  if (failed) PyErr_Clear();
  PyGILState_Release(gil);
  return failed ? ET_OUT_OF_MEMORY : ET_OK;
}

PyObject *py_method_trace(py_method *self) {
  trace to = {.method = self, .list = PyList_New(0)};
  if (to.list == NULL) return NULL;
  const et_hooks hooks = {.ctx = &to, .on_event = on_event};
  self->hooks = &hooks;
  const int ran = py_method_run(self);
  self->hooks = NULL;
  if (ran < 0) Py_CLEAR(to.list);
  return to.list;
}
