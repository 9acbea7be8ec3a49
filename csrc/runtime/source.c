// source.c — see source.h, and the source over bytes in memory.
#include "runtime/source.h"

#include "runtime/bytes.h"
#include "runtime/check.h"

static et_status load_from_memory(void *ctx, uint64_t offset, size_t size, et_blob *out,
                                  et_error *err) {
  (void)err;
  out->data = (const uint8_t *)ctx + offset;
  out->size = size;
  return ET_OK;
}

et_source et_source_from_memory(const void *data, size_t size) {
  // The context is only ever read; the type has no room for the const.
  const et_source source = {.ctx = (void *)(uintptr_t)data, .size = size, .load = load_from_memory};
  return source;
}

et_status eti_source_load(const et_source *source, uint64_t offset, uint64_t size, et_blob *out,
                          et_error *err) {
  ET_CHECK(eti_inside(offset, size, source->size) && size <= PTRDIFF_MAX, err, ET_INVALID_PROGRAM,
           "the file: expected bytes %llu to %llu, got %llu bytes", (unsigned long long)offset,
           (unsigned long long)(offset + size), (unsigned long long)source->size);
  memset(out, 0, sizeof *out);
  if (size == 0) return ET_OK;
  ET_TRY(source->load(source->ctx, offset, (size_t)size, out, err));
  out->source = source;
  return ET_OK;
}

void eti_source_release(et_blob *blob) {
  if (blob->source != NULL && blob->source->release != NULL)
    blob->source->release(blob->source->ctx, blob);
  memset(blob, 0, sizeof *blob);
}
