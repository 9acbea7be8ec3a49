// py_program.h — the Program object: bytes, data maps, thread pool and the memory that its methods
// share.
//
// Memory rule (upstream's): planned buffers belong to the Program, sized to the largest need of any
// method, because only one method of a program runs at a time. The lock here enforces that; state
// in mutable buffers is therefore per Program.
#ifndef ETI_PROGRAM_H
#define ETI_PROGRAM_H

#include "bindings/py_memory.h"
#include "bindings/py_module.h"

struct eti_method;

typedef struct eti_data_file {
  eti_memory *memory;
  et_source source;
  et_data_map map;
  bool open;
} eti_data_file;

typedef struct eti_program {
  PyObject_HEAD eti_state *state;
  eti_memory *memory;  // the file's bytes
  et_source source;
  et_program program;
  bool open;
  eti_data_file *data;  // n_data of them
  const et_data_map **maps;
  size_t n_data;
  eti_memory **planned;  // shared planned buffers, NULL until a method needs them
  size_t *planned_bytes;
  size_t n_planned;
  eti_memory *scratch;         // of the latest, largest need
  PyThread_type_lock lock;     // held while any method is set up, run or read
  unsigned long holder;        // ident of the thread that holds it, 0 when free
  struct eti_method *methods;  // all open methods, linked; borrowed
  et_pool pool;                // ctx = this object
  et_thread_pool *threads;     // NULL when serial
  et_pool threads_handle;
  eti_memory *threads_memory;
  size_t n_threads;
  struct eti_delegates *delegates;  // see py_delegates.h
  unsigned fork_generation;
} eti_program;

// Opens the file and its external data files (any sequence), and measures the planned buffers. -1
// with an exception set; eti_program_release lets go of what was opened before.
int eti_program_open(eti_program *program, PyObject *source, et_verification verification);
int eti_program_open_data(eti_program *program, PyObject *data);
// Closes the files, ends the threads and drops all memory; more than once is fine. All methods have
// been closed.
void eti_program_release(eti_program *program);

// Takes the program's lock, waiting without the GIL; Ctrl-C ends the wait. -1 with an exception
// set: interrupted, or this thread holds it already (a method called from a finalizer in the middle
// of a call).
int eti_program_lock(eti_program *program);
void eti_program_unlock(eti_program *program);

// The pool methods run on: NULL when the program is serial. Starts the threads at first use; -1
// with an exception set.
int eti_program_pool(eti_program *program, const et_pool **pool);
// Fills the shared planned buffers that a method with n_planned buffers needs.
int eti_program_planned(eti_program *program, size_t n_planned);
// Scratch memory of at least `bytes`; a new reference.
eti_memory *eti_program_scratch(eti_program *program, size_t bytes);

// py_program_info.c: everything that is known of a method without loading it, as plain dicts and
// lists.
PyObject *eti_program_method_info(eti_program *program, const char *name);
PyObject *eti_tensor_info_dict(et_tag tag, const et_tensor_info *info);

// py_method_open.c: loads a method. py_method_type.c: destroys the runtime's method, keeps the
// object. The lock is held.
PyObject *eti_method_open(eti_program *program, const char *name);
void eti_method_shut(struct eti_method *method);

#endif  // ETI_PROGRAM_H
