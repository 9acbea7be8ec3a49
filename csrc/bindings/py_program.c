// py_program.c — the lock, the thread pool, the planned and scratch memory, and the file bytes that
// the methods of one program share. Knows neither the Python type nor methods.
#include "bindings/py_program.h"

#include "bindings/py_errors.h"

// ---- lock

int py_program_lock(py_program *program) {
  const unsigned long me = PyThread_get_thread_ident();
  if (program->holder == me) {
    py_raise(program->state, ET_INVALID_STATE,
             "a method of this program is already running in this thread");
    return -1;
  }
  while (program->holder != 0) {
    program->n_waiting++;
    PyLockStatus woken;
    Py_BEGIN_ALLOW_THREADS;
    woken = PyThread_acquire_lock_timed(program->freed, -1, 1);
    Py_END_ALLOW_THREADS;
    program->n_waiting--;
    if (woken == PY_LOCK_ACQUIRED) program->is_announced = false;
    if (woken == PY_LOCK_INTR && PyErr_CheckSignals() < 0) return -1;
  }
  program->holder = me;
  return 0;
}

void py_program_unlock(py_program *program) {
  program->holder = 0;
  if (program->n_waiting == 0 || program->is_announced) return;
  program->is_announced = true;
  PyThread_release_lock(program->freed);
}

// ---- threads

// Runs on the program's threads; inline in a forked child, where those threads do not exist.
static void pool_run(void *ctx, et_task task, void *task_ctx, size_t n) {
  py_program *program = ctx;
  if (program->fork_generation == program->state->fork_generation) {
    program->threads_handle.run(program->threads_handle.ctx, task, task_ctx, n);
    return;
  }
  for (size_t i = 0; i < n; i++) task(task_ctx, i);
}

int py_program_pool(py_program *program, const et_pool **pool) {
  *pool = NULL;
  if (program->n_threads <= 1) return 0;
  if (program->threads == NULL) {
    py_memory *memory =
        py_memory_allocate(program->state, et_thread_pool_bytes(program->n_threads));
    if (memory == NULL) return -1;
    et_error err = {.status = ET_OK};
    const et_span span = {memory->data, memory->size};
    if (et_thread_pool_init(&program->threads, span, program->n_threads, &err) != ET_OK) {
      program->threads = NULL;
      Py_DECREF(memory);
      py_raise_error(program->state, &err);
      return -1;
    }
    program->threads_memory = memory;
    program->threads_handle = et_thread_pool_handle(program->threads);
    program->fork_generation = program->state->fork_generation;
    program->pool =
        (et_pool){.ctx = program, .n_threads = program->threads_handle.n_threads, .run = pool_run};
  }
  *pool = &program->pool;
  return 0;
}

// ---- shared memory

// Sizes of the shared planned buffers: the maximum over all methods, so that any of them can be
// loaded later.
static int measure_planned(py_program *self) {
  et_error err = {.status = ET_OK};
  const size_t n_methods = et_program_method_count(&self->program);
  for (int pass = 0; pass < 2; pass++) {
    for (size_t m = 0; m < n_methods; m++) {
      const char *name = et_program_method_name(&self->program, m);
      et_method_info info;
      if (et_program_method_info(&self->program, name, &info, &err) != ET_OK) goto failed;
      if (pass == 0) {
        if (info.n_planned > self->n_planned) self->n_planned = info.n_planned;
        continue;
      }
      for (size_t i = 0; i < info.n_planned; i++) {
        size_t bytes = 0;
        if (et_program_planned_bytes(&self->program, name, i, &bytes, &err) != ET_OK) goto failed;
        if (bytes > self->planned_bytes[i]) self->planned_bytes[i] = bytes;
      }
    }
    if (pass == 0 && self->n_planned > 0) {
      self->planned = PyMem_Calloc(self->n_planned, sizeof *self->planned);
      self->planned_bytes = PyMem_Calloc(self->n_planned, sizeof *self->planned_bytes);
      if (self->planned == NULL || self->planned_bytes == NULL) {
        PyErr_NoMemory();
        return -1;
      }
    }
  }
  return 0;
failed:
  py_raise_error(self->state, &err);
  return -1;
}

int py_program_planned(py_program *program, size_t n_planned) {
  for (size_t i = 0; i < n_planned; i++) {
    if (program->planned[i] != NULL) continue;
    program->planned[i] = py_memory_allocate(program->state, program->planned_bytes[i]);
    if (program->planned[i] == NULL) return -1;
    py_memory_advise_huge_pages(program->planned[i]);
  }
  return 0;
}

py_memory *py_program_scratch(py_program *program, size_t bytes) {
  if (program->scratch == NULL || program->scratch->size < bytes) {
    // Methods loaded before keep the smaller block.
    py_memory *larger = py_memory_allocate(program->state, bytes);
    if (larger == NULL) return NULL;
    py_memory_advise_huge_pages(larger);
    Py_XSETREF(program->scratch, larger);
  }
  Py_INCREF(program->scratch);
  return program->scratch;
}

// ---- opening

static py_memory *memory_from(py_state *state, PyObject *object) {
  if (PyUnicode_Check(object) || PyObject_HasAttrString(object, "__fspath__"))
    return py_memory_map_file(state, object);
  return py_memory_from_buffer(state, object);
}

int py_program_open_data(py_program *self, PyObject *data) {
  PyObject *items = PySequence_Tuple(data);
  if (items == NULL) return -1;
  int result = -1;
  const Py_ssize_t n = PyTuple_GET_SIZE(items);
  if (n > 0) {
    self->data = PyMem_Calloc((size_t)n, sizeof *self->data);
    self->maps = PyMem_Calloc((size_t)n, sizeof *self->maps);
    if (self->data == NULL || self->maps == NULL) {
      PyErr_NoMemory();
      goto done;
    }
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    py_data_file *file = &self->data[i];
    file->memory = memory_from(self->state, PyTuple_GET_ITEM(items, i));
    if (file->memory == NULL) goto done;
    self->n_data = (size_t)i + 1;
    file->source = et_source_from_memory(file->memory->data, file->memory->size);
    et_error err = {.status = ET_OK};
    et_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = et_data_map_open(&file->map, &file->source, &err);
    Py_END_ALLOW_THREADS;
    if (status != ET_OK) {
      py_raise_error(self->state, &err);
      goto done;
    }
    file->open = true;
    self->maps[i] = &file->map;
  }
  result = 0;
done:
  Py_DECREF(items);
  return result;
}

int py_program_open(py_program *self, PyObject *source, et_verification verification) {
  self->memory = memory_from(self->state, source);
  if (self->memory == NULL) return -1;
  self->source = et_source_from_memory(self->memory->data, self->memory->size);
  et_error err = {.status = ET_OK};
  et_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = et_program_open(&self->program, &self->source, verification, &err);
  Py_END_ALLOW_THREADS;
  if (status != ET_OK) {
    py_raise_error(self->state, &err);
    return -1;
  }
  self->open = true;
  return measure_planned(self);
}

// ---- closing

void py_program_release(py_program *self) {
  if (self->open) {
    self->open = false;
    et_program_close(&self->program);
  }
  for (size_t i = 0; i < self->n_data; i++) {
    if (self->data[i].open) et_data_map_close(&self->data[i].map);
    self->data[i].open = false;
    Py_CLEAR(self->data[i].memory);
  }
  if (self->threads != NULL && self->fork_generation == self->state->fork_generation) {
    et_thread_pool_deinit(self->threads);
  }
  self->threads = NULL;
  Py_CLEAR(self->threads_memory);
  for (size_t i = 0; self->planned != NULL && i < self->n_planned; i++) Py_CLEAR(self->planned[i]);
  Py_CLEAR(self->scratch);
  Py_CLEAR(self->memory);
}
