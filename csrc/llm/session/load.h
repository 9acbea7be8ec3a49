// load.h — methods of a program over one block of memory. They share their planned buffers, and
// with them the state of the program, and their scratch memory, as they never run at once.
#ifndef ET_LLM_LOAD_H
#define ET_LLM_LOAD_H

#include "runtime/et.h"

enum { ETI_MAX_PLANNED = 16 };

// Bytes of memory at any alignment.
et_status eti_methods_bytes(const et_program *program, const char *const *names, size_t n,
                            const et_method_config *config, size_t *bytes, et_error *err);

// Loads all n methods into memory, whose planned part is zeroed first. On failure none is loaded.
et_status eti_methods_load(const et_program *program, const char *const *names, size_t n,
                           const et_method_config *config, et_span memory, et_method **methods,
                           et_error *err);

#endif  // ET_LLM_LOAD_H
