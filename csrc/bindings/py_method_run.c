// py_method_run.c — a run: release the GIL, set the pending inputs in the runtime, execute, take
// the GIL back. The caller holds the program's lock, fills the slots and makes the objects
// (py_inputs.c, py_outputs.c).
#include "bindings/py_delegates.h"
#include "bindings/py_errors.h"
#include "bindings/py_interrupt.h"
#include "bindings/py_method.h"

static int give_outputs(py_method *self) {
  for (size_t i = 0; i < self->n_outputs; i++) {
    py_output *out = &self->outputs[i];
    if (out->needs_bytes == 0) continue;
    // New memory for every run: outputs of the last run may still be viewed.
    py_memory *memory = py_memory_allocate(self->state, out->needs_bytes);
    if (memory == NULL) return -1;
    et_error err = {.status = ET_OK};
    if (et_method_set_output_data(self->method, i, (et_span){memory->data, memory->size}, &err) !=
        ET_OK) {
      Py_DECREF(memory);
      py_raise_error(self->state, &err);
      return -1;
    }
    Py_XSETREF(out->memory, memory);
  }
  return 0;
}

// Sets pending inputs in the runtime, without the GIL; *n_set counts the inputs done.
static et_status set_pending(py_method *self, size_t *n_set, et_error *err) {
  for (size_t i = 0; i < self->n_inputs; i++) {
    py_input *in = &self->inputs[i];
    if (in->pending) {
      const et_status status = et_method_set_input(self->method, i, &in->value, err);
      if (status != ET_OK) return status;
    }
    *n_set = i + 1;
  }
  return ET_OK;
}

// Pins the owners of the inputs that the runtime now borrows; drops the others.
static void pin_inputs(py_method *self, size_t n_set) {
  for (size_t i = 0; i < self->n_inputs; i++) {
    py_input *in = &self->inputs[i];
    if (!in->pending) continue;
    in->pending = false;
    if (i >= n_set || in->tag != ET_TENSOR || in->info.is_planned) {
      in->borrowed = false;
      Py_CLEAR(in->next);
      continue;
    }
    PyObject *old = in->pin;
    in->pin = in->next;
    in->next = NULL;
    in->borrowed = in->pin != (PyObject *)in->staging;
    Py_XDECREF(old);
  }
}

// Executes without the GIL, pausing for signals when the watcher requests it. *python_error is set
// when a signal handler raised.
static et_status execute_watched(py_method *self, et_error *err, bool *python_error) {
  if (self->hooks != NULL) return et_method_execute_traced(self->method, self->hooks, err);
  const bool watched = py_watch_begin(self->state, self->method);
  et_status status = et_method_execute(self->method, err);
  while (status == ET_INTERRUPTED && watched) {
    const PyGILState_STATE gil = PyGILState_Ensure();
    *python_error = PyErr_CheckSignals() < 0;
    PyGILState_Release(gil);
    if (*python_error) {
      et_method_reset(self->method);
      break;
    }
    status = et_method_resume(self->method, err);
  }
  if (watched) py_watch_end(self->state, self->method);
  return status;
}

static int run_method(py_method *self, bool execute) {
  et_error err;
  err.status = ET_OK;
  err.message[0] = '\0';
  size_t n_set = 0;
  bool python_error = false;
  PyThreadState *thread = PyEval_SaveThread();
  et_status status = set_pending(self, &n_set, &err);
  if (status == ET_OK && execute) status = execute_watched(self, &err, &python_error);
  PyEval_RestoreThread(thread);
  pin_inputs(self, n_set);
  if (status == ET_OK) return 0;
  if (!python_error) py_raise_error(self->state, &err);
  return -1;
}

int py_method_set_inputs(py_method *self) {
  return run_method(self, false);
}

int py_method_run(py_method *self) {
  if (self->has_given_outputs && give_outputs(self) < 0) return -1;
  if (run_method(self, true) < 0) return -1;
  if (self->has_run) return 0;
  self->has_run = true;
  return py_delegates_save_weights(self->program);
}
