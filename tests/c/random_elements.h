// random_elements.h — random elements for tests of micro-kernels: numbers from a fixed seed in
// memory of exactly their size, so that the sanitizers see accesses outside of a contract. Blocks
// are freed by the test.
#ifndef ET_TESTS_RANDOM_ELEMENTS_H
#define ET_TESTS_RANDOM_ELEMENTS_H

#include "kernels/micro/clamp_range.h"
#include "runtime/et.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline uint32_t next_random(void) {
  static uint32_t seed = 1;
  seed = seed * 1664525u + 1013904223u;
  return seed >> 8;
}

// n elements of dtype in memory of exactly that size; freed by the caller.
static inline void *random_elements(uint8_t dtype, size_t n) {
  const size_t bytes = n * et_dtype_bytes((et_dtype)dtype);
  void *const memory = malloc(bytes == 0 ? 1 : bytes);
  for (size_t i = 0; i < n; i++) {
    const double value = (double)next_random() / (1 << 24) - 0.5;
    switch (dtype) {
      case ET_F32:
        ((float *)memory)[i] = (float)value;
        break;
      case ET_F64:
        ((double *)memory)[i] = value;
        break;
      case ET_I32:
        ((uint32_t *)memory)[i] = next_random() * 77u;
        break;
      default:
        ((uint64_t *)memory)[i] = (uint64_t)next_random() * 7777777777u;
        break;
    }
  }
  return memory;
}

static inline void *copy_of(const void *data, size_t bytes) {
  void *const memory = malloc(bytes);
  memcpy(memory, data, bytes);
  return memory;
}

// Ranges of all kinds, chosen by i: no bound, one bound, two bounds, two reversed bounds.
static inline eti_clamp_range some_range(size_t i) {
  const eti_clamp_range ranges[4] = {
      ETI_CLAMP_NONE, ETI_CLAMP_RELU, {-0.25f, 0.5f, -0.0f}, {0.5f, -0.5f, -0.0f}};
  return ranges[i % 4];
}

#endif  // ET_TESTS_RANDOM_ELEMENTS_H
