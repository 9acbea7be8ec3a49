// py_interrupt.h — Ctrl-C during a run, and os.fork() around thread pools.
//
// A run of the main thread is announced to a watcher thread. If the run lasts longer than a tick
// (50 ms), the watcher makes it pause before its next instruction. The main thread then handles its
// signals and resumes the run, or ends it with the exception of a signal handler. The watcher
// starts with the first run and sleeps without ticking when no run has begun for a second. So the
// cost is two atomic writes per run, and nothing in an idle process.
#ifndef ET_PY_INTERRUPT_H
#define ET_PY_INTERRUPT_H

#include "bindings/py_module.h"

// Announce and withdraw a run; callable without the GIL. Only runs of the main thread are watched:
// no other thread receives signals. begin returns whether the run is watched; only then the caller
// calls end, with the same method.
bool py_watch_begin(py_state *state, et_method *method);
void py_watch_end(py_state *state, et_method *method);
// Stops and frees the watcher.
void py_watch_stop(py_state *state);

// Finds the main thread and registers the module's _after_fork with os.register_at_fork, once. Each
// program that is opened asks for it: other threads than main import `threading`, which takes half
// a millisecond. -1 with an exception set.
int py_interrupt_prepare(py_state *state);
PyObject *py_after_fork(PyObject *module, PyObject *unused);

#endif  // ET_PY_INTERRUPT_H
