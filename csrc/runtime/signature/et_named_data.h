// et_named_data.h — the named data that a program carries, for its delegates or its callers, such
// as a tokenizer. Beside the core: a program that never asks for them does not link this.
#ifndef ET_NAMED_DATA_H
#define ET_NAMED_DATA_H

#include "runtime/et.h"

#ifdef __cplusplus
extern "C" {
#endif

// Keys of the named data. *bytes (NULL allowed) is the size of the data; the key is NULL past the
// end, and *bytes then untouched.
ET_API size_t et_program_named_data_count(const et_program *program);
ET_API const char *et_program_named_data_key(const et_program *program, size_t i, size_t *bytes);

// Loads named data from the program's source, to be released before the source ends. Any thread.
// ET_NOT_FOUND for another key; ET_ACCESS_FAILED where the source fails.
ET_API et_status et_program_named_data_load(const et_program *program, const char *key,
                                            et_blob *blob, et_error *err);
ET_API void et_program_named_data_release(et_blob *blob);

#ifdef __cplusplus
}
#endif

#endif  // ET_NAMED_DATA_H
