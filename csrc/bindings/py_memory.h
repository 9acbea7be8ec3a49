// py_memory.h — memory with a reference count: a 64-aligned allocation, a mapped file or a pinned
// Python buffer. Programs, methods and returned views hold references, so close() never leaves a
// view dangling: the memory is freed with its last reference.
#ifndef ET_PY_MEMORY_H
#define ET_PY_MEMORY_H

#include "bindings/py_module.h"

typedef enum py_memory_kind {
  PY_MEMORY_ALLOCATED,
  PY_MEMORY_PAGES,
  PY_MEMORY_MAPPED,
  PY_MEMORY_PINNED
} py_memory_kind;

typedef struct py_memory {
  PyObject_HEAD void *data;
  size_t size;
  py_memory_kind kind;
  bool read_only;
  void *base;  // ALLOCATED, PAGES: the block to free
  size_t base_bytes;
  et_file_map map;   // MAPPED
  Py_buffer buffer;  // PINNED
} py_memory;

// Zeroed memory, 64-aligned. Large blocks have their own pages, which cost nothing before they are
// used. Zero bytes give a valid object too.
py_memory *py_memory_allocate(py_state *state, size_t bytes);
// Advises the system to use huge pages for an allocated block. Call it only when all of the block
// will be used: touching one byte of a huge page costs two megabytes.
void py_memory_advise_huge_pages(py_memory *memory);
// Populates the whole pages of memory that will all be written, which saves a page fault for each.
void py_populate_pages(const void *data, size_t bytes);
// Takes the advice back for all pages of [data, data + bytes), which must be in the block: few of
// them may ever be used.
void py_memory_advise_small_pages(const py_memory *memory, const void *data, size_t bytes);
// Discards whole pages of a mapped file; reading them loads them from the file again. Ignores other
// kinds of memory and other addresses. Callable without the GIL.
void py_memory_discard(const py_memory *memory, const void *data, size_t bytes);
// The file at `path` (str, bytes or os.PathLike), mapped read-only. AccessFailed when it cannot be
// opened.
py_memory *py_memory_map_file(py_state *state, PyObject *path);
// The bytes of a buffer object: pinned when read-only and 16-aligned, else copied. TypeError for an
// object without a contiguous buffer.
py_memory *py_memory_from_buffer(py_state *state, PyObject *object);

static inline bool py_memory_contains(const py_memory *memory, const void *data, size_t bytes) {
  const uintptr_t begin = (uintptr_t)memory->data, at = (uintptr_t)data;
  return at >= begin && bytes <= memory->size && at - begin <= memory->size - bytes;
}

#endif  // ET_PY_MEMORY_H
