// payload_ids.c — the index of a payload's values by their ids.
#include "backends/xnnpack/payload/payload_parts.h"
#include "runtime/check.h"

#include <stdlib.h>

typedef struct id_entry {
  uint32_t id, value;
} id_entry;

static int by_id(const void *a, const void *b) {
  const uint32_t x = ((const id_entry *)a)->id, y = ((const id_entry *)b)->id;
  return x < y ? -1 : x > y;
}

et_status eti_xnn_index_ids(const eti_xnn_payload *payload, eti_xnn_build_arena *arena,
                            eti_xnn_ids *ids, et_error *err) {
  void *memory;
  ET_TRY(eti_xnn_build_arena_alloc(arena, payload->n_values, sizeof(id_entry), &memory, err));
  id_entry *list = memory;
  size_t n = 0;
  for (size_t i = 0; i < payload->n_values; i++) {
    if (payload->values[i].id != XNN_NO_ID)
      list[n++] = (id_entry){payload->values[i].id, (uint32_t)i};
  }
  qsort(list, n, sizeof *list, by_id);
  for (size_t i = 1; i < n; i++)
    ET_CHECK(list[i].id != list[i - 1].id, err, ET_INVALID_PROGRAM, "two values have the id %lu",
             (unsigned long)list[i].id);
  *ids = (eti_xnn_ids){list, n};
  return ET_OK;
}

bool eti_xnn_find_id(const eti_xnn_ids *ids, uint32_t id, uint32_t *value) {
  const id_entry wanted = {.id = id}, *list = ids->list;
  const id_entry *found =
      id == XNN_NO_ID || ids->n == 0 ? NULL : bsearch(&wanted, list, ids->n, sizeof *list, by_id);
  if (found != NULL) *value = found->value;
  return found != NULL;
}
