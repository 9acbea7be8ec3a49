// py_interrupt.c — the watcher thread of py_interrupt.h. Of methods it knows only the runtime's
// interrupt call.
#include "bindings/py_interrupt.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

enum { TICK_NS = 50 * 1000 * 1000, IDLE_TICKS = 20 };

// A run takes no lock: it stores its method, and takes it back by an exchange that fails only while
// the watcher interrupts that method.
typedef struct py_watch {
  pthread_t thread;
  pthread_mutex_t mutex;  // of stop, and of waiting
  pthread_cond_t wake;
  _Atomic(et_method *) method;  // the run in progress, NULL, or HELD
  atomic_uint serial;           // counts runs
  atomic_bool parked;           // waiting without a timeout
  bool stop;
} py_watch;

// Stands in the place of a method while the watcher uses it: the run cannot end meanwhile.
#define HELD ((et_method *)(uintptr_t)1)

static void wait_tick(py_watch *watch) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += TICK_NS;
  if (until.tv_nsec >= 1000000000) {
    until.tv_nsec -= 1000000000;
    until.tv_sec += 1;
  }
  // The watcher wakes early only to stop; a run that begins does not signal a ticking watcher.
  while (!watch->stop && pthread_cond_timedwait(&watch->wake, &watch->mutex, &until) != ETIMEDOUT) {
  }
}

static void interrupt_run(py_watch *watch) {
  et_method *method = atomic_load(&watch->method);
  if (method == NULL || !atomic_compare_exchange_strong(&watch->method, &method, HELD)) return;
  et_method_interrupt(method);
  atomic_store(&watch->method, method);
}

static bool is_idle(py_watch *watch, unsigned seen) {
  return atomic_load(&watch->method) == NULL && atomic_load(&watch->serial) == seen;
}

// Waits without ticking for the next run. A run that began before `parked` was set is seen here; a
// later one sees `parked`.
static void park(py_watch *watch, unsigned seen) {
  atomic_store(&watch->parked, true);
  while (!watch->stop && atomic_load(&watch->parked) && is_idle(watch, seen))
    pthread_cond_wait(&watch->wake, &watch->mutex);
  atomic_store(&watch->parked, false);
}

static void *watch_main(void *argument) {
  py_watch *watch = argument;
  unsigned seen = 0;
  int idle = 0;
  pthread_mutex_lock(&watch->mutex);
  while (!watch->stop) {
    if (idle >= IDLE_TICKS) {
      park(watch, seen);
      idle = 0;
    }
    wait_tick(watch);
    if (atomic_load(&watch->serial) == seen) interrupt_run(watch);
    idle = is_idle(watch, seen) ? idle + 1 : 0;
    seen = atomic_load(&watch->serial);
  }
  pthread_mutex_unlock(&watch->mutex);
  return NULL;
}

static py_watch *watch_start(void) {
  py_watch *watch = PyMem_RawCalloc(1, sizeof *watch);
  if (watch == NULL) return NULL;
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_mutex_init(&watch->mutex, NULL);
  pthread_cond_init(&watch->wake, &attributes);
  pthread_condattr_destroy(&attributes);
  // Signals go to Python's threads: the watcher must never receive them.
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &old);
  const int failed = pthread_create(&watch->thread, NULL, watch_main, watch);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (failed) {
    PyMem_RawFree(watch);
    return NULL;
  }
  return watch;
}

bool py_watch_begin(py_state *state, et_method *method) {
  if (PyThread_get_thread_ident() != state->main_thread) return false;
  // Only the main thread gets here, so creation needs no lock. Without a watcher the run cannot be
  // interrupted.
  if (state->watch == NULL) state->watch = watch_start();
  py_watch *watch = state->watch;
  if (watch == NULL || atomic_load_explicit(&watch->method, memory_order_relaxed) != NULL)
    return false;
  const unsigned serial = atomic_load_explicit(&watch->serial, memory_order_relaxed);
  atomic_store_explicit(&watch->serial, serial + 1, memory_order_relaxed);
  atomic_store(&watch->method, method);
  if (atomic_load(&watch->parked)) {
    pthread_mutex_lock(&watch->mutex);
    atomic_store(&watch->parked, false);
    pthread_cond_signal(&watch->wake);
    pthread_mutex_unlock(&watch->mutex);
  }
  return true;
}

void py_watch_end(py_state *state, et_method *method) {
  et_method *expected = method;
  while (!atomic_compare_exchange_strong(&state->watch->method, &expected, NULL)) {
    expected = method;
    sched_yield();
  }
}

void py_watch_stop(py_state *state) {
  py_watch *watch = state->watch;
  if (watch == NULL) return;
  state->watch = NULL;
  pthread_mutex_lock(&watch->mutex);
  watch->stop = true;
  pthread_cond_signal(&watch->wake);
  pthread_mutex_unlock(&watch->mutex);
  pthread_join(watch->thread, NULL);
  pthread_cond_destroy(&watch->wake);
  pthread_mutex_destroy(&watch->mutex);
  PyMem_RawFree(watch);
}

// ---- fork

PyObject *py_after_fork(PyObject *module, PyObject *unused) {
  (void)unused;
  py_state *state = PyModule_GetState(module);
  state->fork_generation++;
  // The watcher's thread exists only in the parent. Its small block leaks on purpose, as its mutex
  // may be locked.
  state->watch = NULL;
  state->main_thread =
      PyThread_get_thread_ident();  // the thread that forked is the child's main thread
  Py_RETURN_NONE;
}

enum { FIRST_THREAD = 1 };  // CPython numbers the states of threads from 1: the first is main's

static int find_main_thread(py_state *state) {
  if (PyThreadState_GetID(PyThreadState_Get()) == FIRST_THREAD) {
    state->main_thread = PyThread_get_thread_ident();
    return 0;
  }
  PyObject *threading = PyImport_ImportModule("threading");
  PyObject *main = threading == NULL ? NULL : PyObject_CallMethod(threading, "main_thread", NULL);
  PyObject *ident = main == NULL ? NULL : PyObject_GetAttrString(main, "ident");
  if (ident != NULL) state->main_thread = PyLong_AsUnsignedLong(ident);
  Py_XDECREF(ident);
  Py_XDECREF(main);
  Py_XDECREF(threading);
  return PyErr_Occurred() ? -1 : 0;
}

static int register_fork_hook(py_state *state) {
  PyObject *os = NULL, *hook = NULL, *arguments = NULL, *keywords = NULL, *done = NULL;
  os = PyImport_ImportModule("os");
  hook = os == NULL ? NULL : PyObject_GetAttrString(os, "register_at_fork");
  arguments = PyTuple_New(0);
  keywords = PyDict_New();
  PyObject *after = PyObject_GetAttrString(state->module, "_after_fork");
  if (hook != NULL && arguments != NULL && keywords != NULL && after != NULL &&
      PyDict_SetItemString(keywords, "after_in_child", after) == 0) {
    done = PyObject_Call(hook, arguments, keywords);
  }
  const int result = done == NULL ? -1 : 0;
  Py_XDECREF(after);
  Py_XDECREF(done);
  Py_XDECREF(keywords);
  Py_XDECREF(arguments);
  Py_XDECREF(hook);
  Py_XDECREF(os);
  return result;
}

int py_interrupt_prepare(py_state *state) {
  if (state->interrupt_prepared) return 0;
  if (find_main_thread(state) < 0 || register_fork_hook(state) < 0) return -1;
  state->interrupt_prepared = true;
  return 0;
}
