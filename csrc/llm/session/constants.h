// constants.h — constant methods: methods without inputs whose outputs are numbers of the file.
#ifndef ET_LLM_CONSTANTS_H
#define ET_LLM_CONSTANTS_H

#include <string.h>

#include "llm/et_llm.h"
#include "runtime/arena.h"

typedef struct eti_constants {
  const et_program *program;
  int64_t *numbers;  // room of the caller
  et_span scratch;   // in which methods are loaded
} eti_constants;

// Memory in which a constant method can be loaded.
et_status eti_constants_bytes(const et_program *program, const char *method, size_t *bytes,
                              et_error *err);

// Takes room for n numbers, and the rest of the memory for methods.
et_status eti_constants_begin(eti_constants *constants, const et_program *program, et_span memory,
                              size_t n, et_error *err);

// Runs a method; its integers, those of its tensors included. Outputs that are None are left out.
// ET_NOT_SUPPORTED for more than `capacity`.
et_status eti_constants_read(const eti_constants *constants, const char *method, int64_t *numbers,
                             size_t capacity, size_t *n, et_error *err);

#endif  // ET_LLM_CONSTANTS_H
