// data_map.h — named data for loading: the entries of an external data file, and one look-up over
// everything a method may use. Knows the .ptd format and, of programs, only their named data.
#ifndef ET_DATA_MAP_H
#define ET_DATA_MAP_H

#include "runtime/et.h"
#include "runtime/file.h"

extern const eti_format eti_ptd_format;

// All maps of one method. Outlives everything found through it.
typedef struct eti_named_data {
  const et_program *program;
  const et_data_map *const *maps;
  size_t n_maps;
} eti_named_data;

// Finds a key in the external maps only, as tensors do. ET_NOT_FOUND when absent.
et_status eti_external_find(const eti_named_data *named, const char *key, eti_named_entry *out,
                            et_error *err);

// Checks the keys: ET_INVALID_ARGUMENT when two maps have the same key.
et_status eti_named_data_verify(const eti_named_data *named, et_error *err);

// Named data for delegates, from the external maps first, then from the program.
et_named_data eti_named_data_handle(const eti_named_data *named);

#endif  // ET_DATA_MAP_H
