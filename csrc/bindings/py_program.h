// py_program.h — the Program object: bytes, data maps, thread pool and the memory that its methods
// share.
//
// Memory rule (upstream's): planned buffers belong to the Program, sized to the largest need of any
// method, because only one method of a program runs at a time. The lock here enforces that; state
// in mutable buffers is therefore per Program.
#ifndef ET_PY_PROGRAM_H
#define ET_PY_PROGRAM_H

#include "bindings/py_memory.h"
#include "bindings/py_module.h"

struct py_method;

typedef struct py_data_file {
  py_memory *memory;
  et_source source;
  et_data_map map;
  bool open;
} py_data_file;

typedef struct py_program {
  PyObject_HEAD py_state *state;
  py_memory *memory;  // the file's bytes
  et_source source;
  et_program program;
  bool open;
  py_data_file *data;  // n_data of them
  const et_data_map **maps;
  size_t n_data;
  py_memory **planned;  // shared planned buffers, NULL until a method needs them
  size_t *planned_bytes;
  size_t n_planned;
  py_memory *scratch;  // large enough for every method loaded so far
  // The lock, held while any method is set up, run or read. The GIL guards its fields, so that an
  // uncontended call pays for no atomic operation.
  unsigned long holder;  // ident of the thread that holds it, 0 when free
  size_t n_waiting;
  bool is_announced;          // `freed` was released for a waiting thread that has not woken yet
  PyThread_type_lock freed;   // waiting threads acquire it
  struct py_method *methods;  // all open methods, linked; borrowed
  et_pool pool;               // ctx = this object
  et_thread_pool *threads;    // NULL when serial
  et_pool threads_handle;
  py_memory *threads_memory;
  size_t n_threads;
  struct py_delegates *delegates;  // see py_delegates.h
  unsigned fork_generation;
} py_program;

// Opens the file and its external data files (any sequence), and measures the planned buffers. -1
// with an exception set; then py_program_release frees everything opened so far.
int py_program_open(py_program *program, PyObject *source, et_verification verification);
int py_program_open_data(py_program *program, PyObject *data);
// Closes the files, ends the threads and drops all memory; may be called twice. All methods have
// been closed.
void py_program_release(py_program *program);

// Takes the program's lock, waiting without the GIL; Ctrl-C ends the wait. -1 with an exception
// set: interrupted, or this thread already holds it (a method called from a finalizer during a
// call).
int py_program_lock(py_program *program);
void py_program_unlock(py_program *program);

// The pool that methods run on: NULL when the program is serial. Starts the threads at first use;
// -1 with an exception set.
int py_program_pool(py_program *program, const et_pool **pool);
// Fills the shared planned buffers that a method with n_planned buffers needs.
int py_program_planned(py_program *program, size_t n_planned);
// Scratch memory of at least `bytes`; a new reference.
py_memory *py_program_scratch(py_program *program, size_t bytes);

// Facts of a method without loading it, as plain dicts and lists (py_program_info.c).
PyObject *py_program_method_info(py_program *program, const char *name);
PyObject *py_tensor_info_dict(et_tag tag, const et_tensor_info *info);

// Loads a method (py_method_open.c); and destroys the runtime's method, keeping the object
// (py_method_type.c). The caller holds the lock.
PyObject *py_method_open(py_program *program, const char *name);
void py_method_close(struct py_method *method);

#endif  // ET_PY_PROGRAM_H
