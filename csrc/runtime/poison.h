// poison.h — marks memory that nobody may touch. Under AddressSanitizer an access to it ends the
// program. Other debug builds fill it with a byte pattern, which is checked before the memory is
// used and when its owner ends. Release builds compile none of it.
#ifndef ET_POISON_H
#define ET_POISON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)  // clang
#define ETI_POISON 2
#endif
#endif
#if !defined(ETI_POISON)
#if defined(__SANITIZE_ADDRESS__)  // gcc
#define ETI_POISON 2
#elif defined(ET_DEBUG)
#define ETI_POISON 1
#else
#define ETI_POISON 0
#endif
#endif

#if ETI_POISON == 2

#include <sanitizer/asan_interface.h>

static inline void eti_poison(void *p, size_t n) {
  __asan_poison_memory_region(p, n);
}

static inline void eti_unpoison(void *p, size_t n) {
  __asan_unpoison_memory_region(p, n);
}

// AddressSanitizer reports accesses itself.
static inline bool eti_is_poisoned(const void *p, size_t n) {
  (void)p, (void)n;
  return true;
}

#elif ETI_POISON == 1

#define ETI_POISON_BYTE 0xA5u

static inline void eti_poison(void *p, size_t n) {
  if (n > 0) memset(p, ETI_POISON_BYTE, n);
}

static inline void eti_unpoison(void *p, size_t n) {
  (void)p, (void)n;
}

// True if nobody has written to these bytes since they were poisoned.
static inline bool eti_is_poisoned(const void *p, size_t n) {
  const uint8_t *const bytes = p;
  size_t i = 0;
  while (i < n && bytes[i] == ETI_POISON_BYTE) i++;
  return i == n;
}

#endif

#endif  // ET_POISON_H
