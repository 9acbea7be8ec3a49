// bytes.h — little-endian loads from file bytes and overflow-checked size arithmetic.
// All file contents are read through this header; it knows no format. Loads work on any alignment.
#ifndef ET_BYTES_H
#define ET_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Byte order: the formats and all supported machines are little-endian. A big-endian port would
// swap bytes in the loads below.
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "big-endian machines need swapping loads");

static inline uint16_t eti_u16(const uint8_t *p) {
  uint16_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline uint32_t eti_u32(const uint8_t *p) {
  uint32_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline uint64_t eti_u64(const uint8_t *p) {
  uint64_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline int32_t eti_i32(const uint8_t *p) {
  return (int32_t)eti_u32(p);
}
static inline int64_t eti_i64(const uint8_t *p) {
  return (int64_t)eti_u64(p);
}

// False on overflow; *out is then undefined.
static inline bool eti_add(size_t a, size_t b, size_t *out) {
  return !__builtin_add_overflow(a, b, out);
}
static inline bool eti_mul(size_t a, size_t b, size_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}

// True if [offset, offset + size) is inside [0, total).
static inline bool eti_inside(uint64_t offset, uint64_t size, uint64_t total) {
  return offset <= total && size <= total - offset;
}

// True if p is a multiple of align, a power of two.
static inline bool eti_is_aligned(const void *p, size_t align) {
  return ((uintptr_t)p & (align - 1)) == 0;
}

#endif  // ET_BYTES_H
