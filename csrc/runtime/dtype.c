// dtype.c — size and name of element types, both from the one list in et.h.
#include "runtime/dtype.h"

#include "runtime/config.h"

size_t et_dtype_bytes(et_dtype dtype) {
#define ET_DTYPE_BYTES(id, number, name, bytes) [number] = bytes,
  static const uint8_t bytes_of[ET_DTYPE_COUNT] = {ET_DTYPE_LIST(ET_DTYPE_BYTES)};
#undef ET_DTYPE_BYTES
  return (unsigned)dtype < ET_DTYPE_COUNT ? bytes_of[dtype] : 0;
}

size_t eti_dtype_align(et_dtype dtype) {
  const size_t bytes = et_dtype_bytes(dtype);
  return bytes < 8 ? bytes : 8;
}

#if ET_MESSAGES
const char *et_dtype_name(et_dtype dtype) {
#define ET_DTYPE_NAME(id, number, name, bytes) name "\0"
  static const char names[] = ET_DTYPE_LIST(ET_DTYPE_NAME) "?";
#undef ET_DTYPE_NAME
  return eti_nth_text(names, (unsigned)dtype < ET_DTYPE_COUNT ? (size_t)dtype : ET_DTYPE_COUNT);
}
#else
const char *et_dtype_name(et_dtype dtype) {
  (void)dtype;
  return "?";
}
#endif
