// py_memory.h — bytes that outlive whoever uses them: a 64-aligned allocation, a mapped file or a
// pinned Python buffer, behind one reference-counted object. Programs, methods and returned views
// all hold references, so close() can never leave a view dangling: the bytes go when the last
// holder goes.
#ifndef ETI_MEMORY_H
#define ETI_MEMORY_H

#include "bindings/py_module.h"

typedef enum eti_memory_kind {
  ETI_MEMORY_ALLOCATED,
  ETI_MEMORY_PAGES,
  ETI_MEMORY_MAPPED,
  ETI_MEMORY_PINNED
} eti_memory_kind;

typedef struct eti_memory {
  PyObject_HEAD void *data;
  size_t size;
  eti_memory_kind kind;
  bool read_only;
  void *base;  // ALLOCATED, PAGES: what the system wants back
  size_t base_bytes;
  et_file_map map;   // MAPPED
  Py_buffer buffer;  // PINNED
} eti_memory;

// Zeroed memory, 64-aligned. Large blocks are pages of their own, which cost nothing before they
// are used. Zero bytes give a valid object too.
eti_memory *eti_memory_allocate(eti_state *state, size_t bytes);
// Says that all of an allocated block will be used, so that the system may provide it in huge
// pages. Not before its sparse use is over: touching a byte then costs two megabytes.
void eti_memory_expect_use(eti_memory *memory);
// Says that bytes of a mapped file are not needed for now, so that whole pages of them may go; they
// come back from the file when they are read. Of other memory, and of bytes elsewhere, nothing
// goes: a caller's are the caller's. Without the GIL.
void eti_memory_let_go(const eti_memory *memory, const void *data, size_t bytes);
// The file at `path` (str, bytes or os.PathLike), mapped read-only. AccessFailed when it cannot be
// opened.
eti_memory *eti_memory_map_file(eti_state *state, PyObject *path);
// The bytes of a buffer object: pinned when read-only and 16-aligned, else copied. TypeError for
// what has no contiguous buffer.
eti_memory *eti_memory_from_buffer(eti_state *state, PyObject *object);

static inline bool eti_memory_contains(const eti_memory *memory, const void *data, size_t bytes) {
  const uintptr_t begin = (uintptr_t)memory->data, at = (uintptr_t)data;
  return at >= begin && bytes <= memory->size && at - begin <= memory->size - bytes;
}

#endif  // ETI_MEMORY_H
