// py_memory_type.c — the type of py_memory.h. It is opaque in Python: it only appears as the `base`
// of arrays that view runtime memory.
#define _DEFAULT_SOURCE  // MAP_ANONYMOUS, madvise
#include "bindings/py_memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bindings/py_errors.h"

static py_memory *memory_new(py_state *state) {
  return (py_memory *)state->memory_type->tp_alloc(state->memory_type, 0);
}

// Blocks from this size on have their own pages, which the system clears when they are first
// touched: calloc would clear reused memory at once, scratch that no run may need included, and
// would keep it in the process after free.
enum { PAGES_FROM = 64 * 1024, HUGE_FROM = 4 * 1024 * 1024, HUGE_PAGE = 2 * 1024 * 1024 };

// Bytes to map for a block: whole huge pages from an aligned address on. A last one that would be
// less than half used stays small pages.
static size_t mapped_bytes(size_t bytes) {
  if (bytes < HUGE_FROM) return bytes + ET_MEMORY_ALIGN;
  const size_t rest = bytes % HUGE_PAGE;
  return bytes + HUGE_PAGE + (rest >= HUGE_PAGE / 2 ? HUGE_PAGE - rest : ET_MEMORY_ALIGN);
}

static void *map_pages(size_t bytes) {
  void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return NULL;
  return base;
}

void py_memory_advise_huge_pages(py_memory *memory) {
#ifdef MADV_HUGEPAGE
  // Advice only, which the system may ignore.
  if (memory->kind == PY_MEMORY_PAGES && memory->size >= HUGE_FROM)
    (void)madvise(memory->base, memory->base_bytes, MADV_HUGEPAGE);
#else
  (void)memory;
#endif
}

// Advises the system about the whole pages of [data, data + bytes).
static void advise_pages(const void *data, size_t bytes, int advice) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const uintptr_t begin = ((uintptr_t)data + page - 1) & ~(uintptr_t)(page - 1);
  const uintptr_t end = ((uintptr_t)data + bytes) & ~(uintptr_t)(page - 1);
  if (begin < end) (void)madvise((void *)begin, end - begin, advice);
}

void py_populate_pages(const void *data, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  advise_pages(data, bytes, MADV_POPULATE_WRITE);
#else
  (void)data;
  (void)bytes;
#endif
}

void py_memory_advise_small_pages(const py_memory *memory, const void *data, size_t bytes) {
#ifdef MADV_NOHUGEPAGE
  if (memory->kind == PY_MEMORY_PAGES) advise_pages(data, bytes, MADV_NOHUGEPAGE);
#else
  (void)memory;
  (void)data;
  (void)bytes;
#endif
}

py_memory *py_memory_allocate(py_state *state, size_t bytes) {
  py_memory *self = memory_new(state);
  if (self == NULL) return NULL;
  self->kind = bytes < PAGES_FROM ? PY_MEMORY_ALLOCATED : PY_MEMORY_PAGES;
  if (bytes <= SIZE_MAX - 2 * HUGE_PAGE) {
    self->base_bytes = mapped_bytes(bytes);
    self->base = bytes < PAGES_FROM ? calloc(1, self->base_bytes) : map_pages(self->base_bytes);
  }
  if (self->base == NULL) {
    Py_DECREF(self);
    py_raise(state, ET_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    return NULL;
  }
  const uintptr_t align = bytes < HUGE_FROM ? ET_MEMORY_ALIGN : HUGE_PAGE;
  self->data = (void *)(((uintptr_t)self->base + align - 1) & ~(align - 1));
  self->size = bytes;
  return self;
}

py_memory *py_memory_map_file(py_state *state, PyObject *path) {
  PyObject *encoded = NULL;
  if (!PyUnicode_FSConverter(path, &encoded)) return NULL;
  py_memory *self = memory_new(state);
  if (self == NULL) {
    Py_DECREF(encoded);
    return NULL;
  }
  et_error err = {.status = ET_OK};
  et_status status;
  const char *name = PyBytes_AS_STRING(encoded);
  Py_BEGIN_ALLOW_THREADS;
  status = et_file_map_open(&self->map, name, &err);
  Py_END_ALLOW_THREADS;
  Py_DECREF(encoded);
  if (status != ET_OK) {
    self->kind = PY_MEMORY_ALLOCATED;  // nothing to unmap
    Py_DECREF(self);
    py_raise_error(state, &err);
    return NULL;
  }
  self->kind = PY_MEMORY_MAPPED;
  self->data = self->map.data;
  self->size = self->map.size;
  self->read_only = true;
  return self;
}

void py_memory_discard(const py_memory *memory, const void *data, size_t bytes) {
#ifdef MADV_DONTNEED
  if (memory->kind != PY_MEMORY_MAPPED || !py_memory_contains(memory, data, bytes)) return;
  // The mapping is private and was never written, so no data is lost.
  advise_pages(data, bytes, MADV_DONTNEED);
#else
  (void)memory;
  (void)data;
  (void)bytes;
#endif
}

py_memory *py_memory_from_buffer(py_state *state, PyObject *object) {
  Py_buffer view;
  if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) < 0) return NULL;
  // Only read-only buffers are used in place: a verified file must not change.
  if (view.readonly && ((uintptr_t)view.buf & 15u) == 0) {
    py_memory *self = memory_new(state);
    if (self == NULL) {
      PyBuffer_Release(&view);
      return NULL;
    }
    self->kind = PY_MEMORY_PINNED;
    self->buffer = view;
    self->data = view.buf;
    self->size = (size_t)view.len;
    self->read_only = true;  // part of a program: never exported for writing
    return self;
  }
  py_memory *self = py_memory_allocate(state, (size_t)view.len);
  if (self != NULL) {
    memcpy(self->data, view.buf, (size_t)view.len);
    self->read_only = true;
  }
  PyBuffer_Release(&view);
  return self;
}

static int memory_traverse(PyObject *object, visitproc visit, void *arg) {
  py_memory *self = (py_memory *)object;
  Py_VISIT(Py_TYPE(object));
  // CPython clears a memoryview in a cycle even if its buffer is in use, and crashes when that is
  // released. Without this visit it counts as used from outside; no cycle leads through it.
  if (self->kind == PY_MEMORY_PINNED && !PyMemoryView_Check(self->buffer.obj))
    Py_VISIT(self->buffer.obj);
  return 0;
}

// No tp_clear: bytes in use must stay. A cycle through a pinned buffer is broken by the other
// objects in it.
static void memory_dealloc(PyObject *object) {
  py_memory *self = (py_memory *)object;
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  switch (self->kind) {
    case PY_MEMORY_ALLOCATED:
      free(self->base);
      break;
    case PY_MEMORY_PAGES:
      if (self->base != NULL) (void)munmap(self->base, self->base_bytes);
      break;
    case PY_MEMORY_MAPPED:
      et_file_map_close(&self->map);
      break;
    case PY_MEMORY_PINNED:
      PyBuffer_Release(&self->buffer);
      break;
  }
  type->tp_free(object);
  Py_DECREF(type);
}

static PyType_Slot memory_slots[] = {
    {Py_tp_doc, (char *)"Bytes owned by the runtime; the base object of arrays that view them."},
    {Py_tp_traverse, memory_traverse},
    {Py_tp_dealloc, memory_dealloc},
    {0, NULL},
};

PyType_Spec py_memory_spec = {
    .name = "executorch_py._C.Memory",
    .basicsize = sizeof(py_memory),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = memory_slots,
};
